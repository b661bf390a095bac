//! Presence in the client: an application that watches others through everything that happens to
//! its connection.

use std::net::SocketAddr;

use heartline_client::{
    ChatClient, ChatConfig, ChatEvent, ClientConfig, ClientEvent, SubscribeError,
};
use heartline_protocol::server_frame::Presence;
use heartline_protocol::server_frame::PresenceStatus::{self, Offline, Online, Unknown};
use heartline_protocol::{Token, UserId};
use heartline_testing::presence::OPEN;
use heartline_testing::{PATIENCE, SECRET, Server, token};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::HEARTLINE;

/// An application and its presence events.
struct App {
    client: ChatClient,
    events: mpsc::Receiver<ChatEvent>,
}

impl App {
    fn start(user: &str, addresses: &[SocketAddr]) -> Self {
        let mut config = ClientConfig::new("", Token(token(user)));
        config.urls = addresses.iter().map(|address| format!("ws://{address}")).collect();
        let (client, events) = ChatClient::start(config, ChatConfig::default()).unwrap();
        Self { client, events }
    }

    async fn event(&mut self) -> ChatEvent {
        let event = timeout(PATIENCE, self.events.recv()).await;
        event.expect("an event in time").expect("the client runs")
    }

    /// The next presence event.
    async fn presence(&mut self) -> Presence {
        loop {
            if let ChatEvent::Presence(presence) = self.event().await {
                return presence;
            }
        }
    }

    /// That must be this.
    async fn receives(&mut self, user: &str, status: PresenceStatus) -> Presence {
        let presence = self.presence().await;
        assert_eq!((presence.user_id.as_str(), presence.status), (user, status), "{presence:?}");
        presence
    }

    /// Waits until the client is connected again; no presence event may arrive meanwhile.
    async fn reconnects(&mut self) {
        loop {
            match self.event().await {
                ChatEvent::Connection(ClientEvent::Connected(_)) => return,
                ChatEvent::Presence(presence) => panic!("{presence:?}"),
                _ => {}
            }
        }
    }

    async fn watch(&self, users: &[&str]) -> Result<(), SubscribeError> {
        self.client
            .presence_subscribe(users.iter().map(|user| user.parse().unwrap()).collect())
            .await
    }
}

#[tokio::test]
async fn an_application_watches_on_every_connection_anew_and_hears_what_differs() {
    let server = HEARTLINE.start_with(OPEN).await;
    let bo = server.connect("bo").await;
    let mut ana = App::start("ana", &[server.address]);
    ana.watch(&["bo", "cy"]).await.unwrap();
    ana.receives("bo", Online).await;
    ana.receives("cy", Unknown).await;
    ana.client.drop_socket().await.unwrap();
    ana.reconnects().await;
    server.metric_becomes("presence_watches", 2.0).await;
    let _cy = server.connect("cy").await;
    ana.receives("cy", Online).await;
    bo.leaves().await;
    assert!(ana.receives("bo", Offline).await.last_seen.is_some());
    // Away, while something happens.
    ana.client.drop_socket().await.unwrap();
    let _bo = server.connect("bo").await;
    ana.receives("bo", Online).await;
    ana.client.presence_unsubscribe(vec!["bo".parse().unwrap()]).await.unwrap();
    server.metric_becomes("presence_watches", 1.0).await;
    server.set_visibility("cy", "nobody").await;
    ana.receives("cy", Unknown).await;
    server.set_visibility("cy", "everyone").await;
    ana.receives("cy", Online).await;
    ana.client.close().await;
    server.metric_becomes("presence_watches", 0.0).await;
}

#[tokio::test]
async fn an_application_that_watches_a_thousand_keeps_to_the_limits() {
    let server = HEARTLINE.start_with(OPEN).await;
    let users: Vec<UserId> =
        (0..1000).map(|number| format!("u{number}").parse().unwrap()).collect();
    let mut ana = App::start("ana", &[server.address]);
    ana.client.presence_subscribe(users).await.unwrap();
    assert_eq!(ana.watch(&["one-more"]).await, Err(SubscribeError::TooMany));
    for _ in 0..1000 {
        assert_eq!(ana.presence().await.status, Unknown);
    }
    ana.client.drop_socket().await.unwrap();
    ana.reconnects().await;
    server.metric_becomes("presence_watches", 1000.0).await;
    let _last = server.connect("u999").await;
    ana.receives("u999", Online).await;
    assert_eq!(server.metric("gateway_rate_limited_total").await, 0.0);
}

#[tokio::test]
async fn after_a_restart_of_the_server_the_application_knows_what_is_true() {
    let server = HEARTLINE.start_with(OPEN).await;
    let address = server.address;
    let bo = server.connect("bo").await;
    let mut ana = App::start("ana", &[address]);
    ana.watch(&["bo"]).await.unwrap();
    let before = ana.receives("bo", Online).await;
    let files = server.stop_with("KILL").await;
    drop(bo);
    let mut command = HEARTLINE.command();
    command.args(["serve", "--listen", &address.to_string()]);
    command.env("HEARTLINE__SERVER__DATA_DIR", files.data());
    command.env("HEARTLINE__AUTH__HMAC_SECRET", SECRET);
    command.env("HEARTLINE__PRESENCE__DEFAULT_VISIBILITY", "everyone");
    let server = Server::spawn(command, files).await;
    // No user has left the new server yet, so no last-seen time is known.
    ana.receives("bo", Unknown).await;
    let bo = server.connect("bo").await;
    let after = ana.receives("bo", Online).await;
    assert!(after.version > before.version, "versions rise");
    drop(bo);
    ana.receives("bo", Offline).await;
}
