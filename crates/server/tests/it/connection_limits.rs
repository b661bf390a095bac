//! How many connections an address and a user may have, and who counts as which address.

use std::net::{IpAddr, Ipv4Addr};

use heartline_client::raw::{RawUpgrade, connect_raw_from};
use heartline_runtime::TaskSet;
use heartline_testing::{Server, Socket, bearer, read_refusal, token};
use serde_json::json;

use crate::HEARTLINE;

/// Configuration for clients that answer no Ping.
const PATIENT: &str = "[gateway]\nheartbeat_interval = \"60s\"\nheartbeat_timeout = \"120s\"\n";

/// Upgrades of as many users as there are addresses in the list, all at once.
async fn burst(server: &Server, sources: impl Iterator<Item = IpAddr>) -> Vec<RawUpgrade> {
    let mut attempts = TaskSet::new();
    for (number, source) in sources.enumerate() {
        let (address, bearer) = (server.address, bearer(&format!("user-{number}")));
        attempts.spawn(async move {
            let headers = [("Authorization", bearer.as_str())];
            connect_raw_from(source, address, "/v1/ws", &headers).await.unwrap()
        });
    }
    attempts.join_all().await
}

fn loopback(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

#[tokio::test]
async fn of_two_thousand_sockets_from_one_address_one_thousand_are_admitted() {
    let server = HEARTLINE.start_with(PATIENT).await;
    let upgrades = burst(&server, std::iter::repeat_n(loopback(1), 2000)).await;
    let (admitted, refused): (Vec<_>, Vec<_>) =
        upgrades.into_iter().partition(|upgrade| upgrade.status == 101);
    assert_eq!((admitted.len(), refused.len()), (1000, 1000));
    for mut upgrade in refused {
        assert_eq!(upgrade.status, 429);
        assert!(upgrade.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() > 0);
        assert_eq!(read_refusal(&mut upgrade).await["error"]["code"], "RATE_LIMITED");
    }
    assert_eq!(server.metric("gateway_connections_active").await, 1000.0);
    drop(admitted);
    server.metric_becomes("gateway_connections_active", 0.0).await;
    server.connect("late").await.is_open().await;
}

#[tokio::test]
async fn two_thousand_sockets_from_four_addresses_are_all_admitted() {
    let server = HEARTLINE.start_with(PATIENT).await;
    let sources = (0..2000).map(|number| loopback(1 + (number % 4) as u8));
    let upgrades = burst(&server, sources).await;
    assert_eq!(upgrades.iter().filter(|upgrade| upgrade.status == 101).count(), 2000);
    for upgrade in upgrades {
        let established = Socket { stream: upgrade.stream }.json().await;
        assert_eq!(established["type"], "connection_established");
    }
}

#[tokio::test]
async fn an_untrusted_peer_cannot_choose_its_address() {
    let server = HEARTLINE.start_with("[limits]\nconnections_per_address = 2\n").await;
    let mut sockets = Vec::new();
    for number in 0..2 {
        let claimed = format!("198.51.100.{number}");
        sockets.push(server.connect_with(&[("X-Forwarded-For", &claimed)]).await);
    }
    let forged = [("X-Forwarded-For", "198.51.100.9")];
    let (upgrade, _) = server.refused(&forged, 429, "RATE_LIMITED").await;
    assert!(upgrade.headers.contains_key("retry-after"));
    drop(sockets);
    server.metric_becomes("gateway_connections_unauthenticated", 0.0).await;
    assert_eq!(server.upgrade(&forged).await.status, 101);
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_nearest_untrusted_address_counts() {
    let server = HEARTLINE
        .start_with(
            "[server]\ntrusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]\n\
         [limits]\nconnections_per_address = 1\n",
        )
        .await;
    let mut sockets = Vec::new();
    for claimed in ["198.51.100.1", "198.51.100.2", "1.2.3.4, 198.51.100.3", "2001:db8::1"] {
        sockets.push(server.connect_with(&[("X-Forwarded-For", claimed)]).await);
    }
    for claimed in [
        "198.51.100.1",
        "9.9.9.9, 198.51.100.2",
        "198.51.100.3, 10.1.2.3",
        "203.0.113.1, 2001:db8::1",
    ] {
        server.refused(&[("X-Forwarded-For", claimed)], 429, "RATE_LIMITED").await;
    }
    // A client that the proxy does not name counts as the proxy itself.
    let _first = server.connect_with(&[("X-Forwarded-For", "unknown")]).await;
    server.refused(&[], 429, "RATE_LIMITED").await;
}

#[tokio::test]
async fn a_user_has_at_most_twenty_connections() {
    let server = HEARTLINE.start().await;
    let mut sockets = Vec::new();
    for _ in 0..20 {
        sockets.push(server.connect("ana").await);
    }
    let bearer = bearer("ana");
    let (upgrade, body) = server.refused(&[("Authorization", &bearer)], 429, "RATE_LIMITED").await;
    assert!(upgrade.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() > 0, "{body}");

    let mut challenged = server.challenged().await;
    challenged.send(&json!({ "type": "authenticate", "token": token("ana") })).await;
    let closing = challenged.closes("connection_limit", 4429).await;
    assert_eq!(closing["reconnect_allowed"], true);

    server.connect("bo").await.is_open().await;
    sockets.pop();
    server.metric_becomes("gateway_connections_active", 19.0).await;
    server.connect("ana").await.is_open().await;
    for mut socket in sockets {
        socket.is_open().await;
    }
}
