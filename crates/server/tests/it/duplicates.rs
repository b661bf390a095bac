//! Two connections of the same device, and the policies for them.

use std::time::Duration;

use futures_util::future::join_all;
use heartline_testing::{Server, Socket, bearer, seconds_from_now, sign, token};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::HEARTLINE;

async fn connect_device(server: &Server, user: &str, device: &str) -> (Socket, Value) {
    let bearer = bearer(user);
    server.connect_with(&[("Authorization", &bearer), ("X-Device-ID", device)]).await
}

async fn is_replaced(socket: &mut Socket) {
    let closing = socket.closes("session_replaced", 4409).await;
    assert_eq!(closing["reconnect_allowed"], false);
}

#[tokio::test]
async fn the_same_device_again_replaces_its_older_connection_however_it_names_itself() {
    let server = HEARTLINE.start().await;
    let (mut by_header, established) = connect_device(&server, "ana", "phone").await;
    assert_eq!(established["device_id"], "phone");
    let (mut laptop, _) = connect_device(&server, "ana", "laptop").await;
    let (mut of_another_user, _) = connect_device(&server, "bo", "phone").await;

    let offer = format!("heartline.v1, bearer.{}, device.phone", token("ana"));
    let (mut by_list, established) =
        server.connect_with(&[("Sec-WebSocket-Protocol", &offer)]).await;
    assert_eq!(established["device_id"], "phone");
    is_replaced(&mut by_header).await;

    let mut by_frame = server.challenged().await;
    let authenticate =
        json!({ "type": "authenticate", "token": token("ana"), "device_id": "phone" });
    by_frame.send(&authenticate).await;
    assert_eq!(by_frame.json().await["device_id"], "phone");
    is_replaced(&mut by_list).await;

    for socket in [&mut by_frame, &mut laptop, &mut of_another_user] {
        socket.is_open().await;
    }
    // The clean-up of those that lost took nothing from who stayed.
    server.metric_becomes("gateway_connections_active", 3.0).await;
    assert_eq!(server.push(&["ana"], "hello", json!({})).await, 2);
}

#[tokio::test]
async fn a_device_that_replaces_itself_is_not_refused_at_the_limit_of_its_user() {
    let server = HEARTLINE.start_with("[limits]\nconnections_per_user = 1\n").await;
    let (mut first, _) = connect_device(&server, "ana", "phone").await;
    let (mut second, _) = connect_device(&server, "ana", "phone").await;
    is_replaced(&mut first).await;
    second.is_open().await;
    let bearer = bearer("ana");
    let other = [("Authorization", bearer.as_str()), ("X-Device-ID", "laptop")];
    server.refused(&other, 429, "RATE_LIMITED").await;
}

#[tokio::test]
async fn devices_that_the_server_made_up_do_not_replace_each_other() {
    let server = HEARTLINE.start().await;
    let bearer = bearer("ana");
    let (mut first, one) = server.connect_with(&[("Authorization", &bearer)]).await;
    let (mut second, two) = server.connect_with(&[("Authorization", &bearer)]).await;
    assert_ne!(one["device_id"], two["device_id"]);
    first.is_open().await;
    second.is_open().await;
    assert_eq!(server.push(&["ana"], "hello", json!({})).await, 2);
}

#[tokio::test]
async fn the_device_in_a_token_binds() {
    let server = HEARTLINE.start().await;
    let exp = seconds_from_now(3600);
    let token = sign(&json!({ "sub": "ana", "exp": exp, "device_id": "phone" }));
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("X-Device-ID", "laptop")];
    let (mut first, established) = server.connect_with(&headers).await;
    assert_eq!(established["device_id"], "phone");
    let mut second = server.challenged().await;
    let authenticate = json!({ "type": "authenticate", "token": token, "device_id": "tablet" });
    second.send(&authenticate).await;
    assert_eq!(second.json().await["device_id"], "phone");
    is_replaced(&mut first).await;
    second.is_open().await;
}

#[tokio::test]
async fn under_single_session_any_new_connection_replaces_the_older_one() {
    let server = HEARTLINE.start_with("[gateway]\nsession_policy = \"single_session\"\n").await;
    let (mut phone, _) = connect_device(&server, "ana", "phone").await;
    let mut of_another_user = server.connect("bo").await;
    let (mut laptop, _) = connect_device(&server, "ana", "laptop").await;
    is_replaced(&mut phone).await;
    let mut unnamed = server.connect("ana").await;
    is_replaced(&mut laptop).await;
    unnamed.is_open().await;
    of_another_user.is_open().await;
    assert_eq!(server.push(&["ana"], "hello", json!({})).await, 1);
}

#[tokio::test]
async fn of_many_upgrades_of_one_device_at_once_only_the_lease_holder_stays() {
    // Renewals, which would heal a mistake, come long after the test.
    let server =
        HEARTLINE.start_with("[routing]\nlease = \"600s\"\nrenew_interval = \"200s\"").await;
    for round in 0..10 {
        let user = format!("ana-{round}");
        let upgrades = (0..30).map(|_| connect_device(&server, &user, "phone"));
        let sockets = join_all(upgrades).await;
        let leases = server.leases(&user).await;
        assert_eq!(leases.len(), 1, "{leases:?}");
        for (mut socket, established) in sockets {
            if established["connection_id"] == leases[0]["connection_id"] {
                socket.is_open().await;
            } else {
                let told = timeout(Duration::from_secs(10), is_replaced(&mut socket)).await;
                told.expect("a replaced connection is told at once");
            }
        }
    }
}
