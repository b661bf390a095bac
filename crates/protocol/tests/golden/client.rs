//! One or more samples of every frame that a client may send.
//!
//! Structs are written out whole, so a new field does not compile until it has a sample.

use heartline_protocol::client_frame::{
    Ack, Authenticate, Heartbeat, PresenceUsers, RefreshToken, SendMessage, SyncManifestRequest,
    SyncRequest, Typing,
};
use heartline_protocol::{ChatId, ClientFrame, RequestId, Token, UserId};
use ulid::Ulid;

use crate::frame_kinds;

frame_kinds! { ClientFrame:
    Authenticate = "authenticate",
    RefreshToken = "refresh_token",
    Heartbeat = "heartbeat",
    SendMessage = "send_message",
    Ack = "ack",
    SyncRequest = "sync_request",
    SyncManifest = "sync_manifest",
    PresenceSubscribe = "presence_subscribe",
    PresenceUnsubscribe = "presence_unsubscribe",
    Typing = "typing",
}

/// The chat of all samples.
pub(crate) const CHAT: ChatId = ChatId(Ulid(0x018b_cfe5_6800_0000_0000_0000_0000_0001));

pub(crate) fn request_id(text: &str) -> RequestId {
    text.parse().unwrap()
}

pub(crate) fn user(text: &str) -> UserId {
    text.parse().unwrap()
}

fn token() -> Token {
    Token("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmEifQ.c2lnbmF0dXJl".to_owned())
}

/// Every frame, with all optional fields and with none.
pub(crate) fn samples() -> Vec<(&'static str, ClientFrame)> {
    let mut samples = connection_samples();
    samples.extend(chat_samples());
    samples.extend(presence_samples());
    samples
}

fn connection_samples() -> Vec<(&'static str, ClientFrame)> {
    let authenticate = |device: Option<&str>| {
        let device_id = device.map(|text| text.parse().unwrap());
        ClientFrame::Authenticate(Authenticate { token: token(), device_id })
    };
    let refresh = RefreshToken { request_id: request_id("refresh-1"), token: token() };
    vec![
        ("authenticate", authenticate(Some("phone-1"))),
        ("authenticate without a device", authenticate(None)),
        ("refresh_token", ClientFrame::RefreshToken(refresh)),
        ("heartbeat", ClientFrame::Heartbeat(Heartbeat {})),
    ]
}

fn chat_samples() -> Vec<(&'static str, ClientFrame)> {
    let send = |content: &str, content_type: Option<&str>| {
        ClientFrame::SendMessage(SendMessage {
            request_id: request_id("send-1"),
            chat_id: CHAT,
            client_message_id: "draft:2023-11-14|1".parse().unwrap(),
            content: content.to_owned(),
            content_type: content_type.map(str::to_owned),
        })
    };
    let sync = |after_sequence, limit| {
        let request_id = request_id("sync-1");
        ClientFrame::SyncRequest(SyncRequest { request_id, chat_id: CHAT, after_sequence, limit })
    };
    let manifest = |page: Option<&str>| {
        let (request_id, page) = (request_id("manifest-1"), page.map(str::to_owned));
        ClientFrame::SyncManifest(SyncManifestRequest { request_id, page })
    };
    let ack = |last_acked_sequence| ClientFrame::Ack(Ack { chat_id: CHAT, last_acked_sequence });
    let typing = |is_typing| ClientFrame::Typing(Typing { chat_id: CHAT, is_typing });
    vec![
        ("send_message", send("Hello", Some("text/markdown"))),
        ("send_message without a content type", send("Hello", None)),
        ("send_message in many scripts", send("Grüße, 世界 👋🏽 \"quoted\" \\ \n\t\u{1}", None)),
        ("ack", ack(42)),
        ("ack of the largest sequence that every language can hold", ack((1 << 53) - 1)),
        ("sync_request", sync(41, Some(500))),
        ("sync_request without a limit", sync(0, None)),
        ("sync_manifest", manifest(Some("chat-200"))),
        ("sync_manifest of the first page", manifest(None)),
        ("typing", typing(true)),
        ("typing no longer", typing(false)),
    ]
}

fn presence_samples() -> Vec<(&'static str, ClientFrame)> {
    let users = |request: &str, names: &[&str]| PresenceUsers {
        request_id: request_id(request),
        user_ids: names.iter().copied().map(user).collect(),
    };
    let subscribe = users("watch-1", &["bo", "auth0|5f7", "cy@example.com"]);
    let unsubscribe = users("watch-2", &["bo"]);
    vec![
        ("presence_subscribe", ClientFrame::PresenceSubscribe(subscribe)),
        ("presence_unsubscribe", ClientFrame::PresenceUnsubscribe(unsubscribe)),
    ]
}
