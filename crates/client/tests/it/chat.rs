//! Chats over real sockets: syncing, retrying and closing.

use heartline_client::{
    ChatClient, ChatConfig, ChatEvent, ClientEvent, Draft, SendError, StopReason,
};
use heartline_protocol::client_frame::{Ack, Typing};
use heartline_protocol::{
    ClientFrame, ClientMessageId, CloseReason, ErrorCode, ErrorFrame, ServerFrame,
};

use crate::backpressure::fill;
use crate::chat_harness::{CHAT, ChatSocket, message, start, synced};
use crate::harness::{FakeServer, config_for, within_timeout};

async fn send(client: &ChatClient, content: &str) -> ClientMessageId {
    client.send(CHAT, content, None).await.unwrap()
}

#[tokio::test]
async fn a_client_reads_missed_messages_and_acknowledges_them_when_it_closes() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let mut socket = synced(&server, &mut events, 3).await;
    socket.send(&ServerFrame::Message(message(5))).await;
    socket.send(&ServerFrame::Message(message(4))).await;
    socket.send(&ServerFrame::Message(message(4))).await;
    assert_eq!(events.message().await, (4, "number 4".to_owned(), false));
    assert_eq!(events.message().await.0, 5);
    let (last, unanswered) = tokio::join!(
        async {
            let last = socket.receive().await;
            assert!(socket.next().await.unwrap().unwrap().is_close());
            socket.receive_until_closed().await;
            last
        },
        client.close()
    );
    assert_eq!(last, ClientFrame::Ack(Ack { chat_id: CHAT, last_acked_sequence: 5 }));
    assert_eq!(unanswered, []);
}

#[tokio::test]
async fn a_message_lost_with_its_connection_is_sent_again_with_its_id() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let mut socket = synced(&server, &mut events, 0).await;
    let client_message_id = send(&client, "first").await;
    send(&client, "second").await;
    let lost = socket.receive_send().await;
    client.drop_socket().await.unwrap();
    socket.receive_until_closed().await;

    let mut socket = server.establish().await;
    let again = socket.receive_send().await;
    assert_eq!(again.client_message_id, client_message_id);
    assert_eq!(again.content, lost.content);
    assert_ne!(again.request_id, lost.request_id);
    let request_id = socket.receive_manifest_request().await;
    socket.send_ack(&again, 1).await;
    let event = events.next().await;
    assert!(matches!(event, ChatEvent::Sent { ack } if ack.client_message_id == client_message_id));
    assert_eq!(events.message().await, (1, "first".to_owned(), true));
    assert_eq!(socket.receive_send().await.content, "second");
    socket.send_manifest(request_id, 1).await;
    assert_eq!(events.next().await, ChatEvent::Synced);
}

#[tokio::test]
async fn a_request_that_a_connection_did_not_write_is_not_written_on_the_next() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let socket = synced(&server, &mut events, 0).await;
    // The server does not read, so the client cannot write and its requests stay queued.
    client.send_text("x".repeat(32 * 1024 * 1024)).await.unwrap();
    send(&client, "hello").await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(socket);
    let mut socket = server.establish().await;
    let sent = socket.receive_send().await;
    socket.receive_manifest_request().await;
    client.send_text(r#"{"type":"heartbeat"}"#).await.unwrap();
    assert!(
        matches!(socket.receive().await, ClientFrame::Heartbeat(_)),
        "the message was sent twice"
    );
    assert_eq!(sent.content, "hello");
}

#[tokio::test]
async fn a_busy_server_gets_the_message_again_and_a_rejection_is_reported() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let mut socket = synced(&server, &mut events, 0).await;
    let client_message_id = send(&client, "hello").await;
    let first = socket.receive_send().await;
    let mut error = ErrorFrame::new(ErrorCode::ServerBusy, "later");
    error.request_id = Some(first.request_id.clone());
    socket.send(&ServerFrame::Error(error)).await;
    let second = socket.receive_send().await;
    assert_eq!(second.client_message_id, client_message_id);
    assert_ne!(second.request_id, first.request_id);
    let mut error = ErrorFrame::new(ErrorCode::NotAMember, "never");
    error.request_id = Some(second.request_id);
    socket.send(&ServerFrame::Error(error.clone())).await;
    let chat_id = CHAT;
    let rejected = ChatEvent::Rejected { chat_id, client_message_id, error };
    assert_eq!(events.next().await, rejected);
}

#[tokio::test]
async fn messages_wait_for_a_connection_and_are_returned_by_close() {
    let server = FakeServer::start().await;
    let (client, _events) = start(config_for(&[&server]));
    let drafts = [Draft::new(CHAT, "one"), Draft::new(CHAT, "two")];
    for draft in &drafts {
        client.send_draft(draft.clone()).await.unwrap();
    }
    assert_eq!(client.send_draft(drafts[0].clone()).await, Err(SendError::AlreadyQueued));
    assert_eq!(client.send(CHAT, "", None).await, Err(SendError::InvalidContent));
    let mut socket = server.establish().await;
    assert_eq!(socket.receive_send().await.content, "one");
    let (unanswered, ()) = tokio::join!(client.close(), socket.receive_until_closed());
    assert_eq!(unanswered, drafts);
}

#[tokio::test]
async fn raw_frames_are_sent_unchanged_and_every_frame_is_reported() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let mut socket = synced(&server, &mut events, 0).await;
    client.send_text(r#"{"type":"something_new"}"#).await.unwrap();
    let sent = socket.next().await.unwrap().unwrap();
    assert_eq!(sent.as_text(), Some(r#"{"type":"something_new"}"#));
    let unknown = tokio_websockets::Message::text(r#"{"type":"something_else"}"#);
    futures_util::SinkExt::send(&mut socket.socket, unknown).await.unwrap();
    let event = within_timeout(events.receiver.recv()).await.unwrap();
    let ChatEvent::Connection(ClientEvent::Frame { frame, text }) = event else {
        panic!("{event:?}");
    };
    assert_eq!((*frame, &*text), (ServerFrame::Unknown, r#"{"type":"something_else"}"#));
}

#[tokio::test]
async fn typing_goes_both_ways() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let mut socket = synced(&server, &mut events, 0).await;
    client.typing(CHAT, true).await.unwrap();
    let typing = Typing { chat_id: CHAT, is_typing: true };
    assert_eq!(socket.receive().await, ClientFrame::Typing(typing));
    let user_id = "bo".parse().unwrap();
    socket.send(&ServerFrame::TypingIndicator { chat_id: CHAT, user_id, is_typing: true }).await;
    let user_id = "bo".parse().unwrap();
    assert_eq!(events.next().await, ChatEvent::Typing { chat_id: CHAT, user_id, is_typing: true });
}

#[tokio::test]
async fn an_application_that_does_not_receive_can_still_send_until_the_outbox_is_full() {
    let server = FakeServer::start().await;
    let chat_config =
        ChatConfig { event_capacity: 1, outbox_messages_max: 3, ..ChatConfig::default() };
    let (client, _receiver) = ChatClient::start(config_for(&[&server]), chat_config).unwrap();
    for content in ["one", "two", "three"] {
        within_timeout(client.send(CHAT, content, None)).await.unwrap();
    }
    assert_eq!(within_timeout(client.send(CHAT, "four", None)).await, Err(SendError::Full));
    assert_eq!(within_timeout(client.close()).await.len(), 3);
}

#[tokio::test]
async fn an_application_that_does_not_receive_stops_the_reading_and_loses_nothing() {
    let server = FakeServer::start().await;
    let mut config = config_for(&[&server]);
    config.event_capacity = 4;
    let chat_config = ChatConfig { event_capacity: 4, ..ChatConfig::default() };
    let (_client, mut receiver) = ChatClient::start(config, chat_config).unwrap();
    let mut socket = server.establish().await;
    let sent = fill(&mut socket).await;
    let mut next_number = 0;
    let receive = async {
        while next_number < sent {
            let event = within_timeout(receiver.recv()).await.unwrap();
            let ChatEvent::Connection(ClientEvent::Frame { frame, .. }) = event else { continue };
            let ServerFrame::Event { name, .. } = *frame else { panic!("{frame:?}") };
            assert_eq!(name, next_number.to_string());
            next_number += 1;
        }
    };
    let flush = within_timeout(futures_util::SinkExt::flush(&mut socket.socket));
    let (flushed, ()) = tokio::join!(flush, receive);
    flushed.unwrap();
}

#[tokio::test]
async fn a_client_that_the_server_stopped_reports_it_and_accepts_no_messages() {
    let server = FakeServer::start().await;
    let (client, mut events) = start(config_for(&[&server]));
    let mut socket = synced(&server, &mut events, 0).await;
    send(&client, "unanswered").await;
    socket.receive_send().await;
    socket.send_closing(CloseReason::SessionReplaced, 0).await;
    let mut last = None;
    while let Some(event) = within_timeout(events.receiver.recv()).await {
        last = Some(event);
    }
    let reason = StopReason::ClosedByServer(CloseReason::SessionReplaced);
    assert_eq!(last, Some(ChatEvent::Connection(ClientEvent::Stopped(reason))));
    assert_eq!(client.send(CHAT, "late", None).await, Err(SendError::Stopped));
    let unanswered = client.close().await;
    assert_eq!(unanswered.iter().map(|draft| &*draft.content).collect::<Vec<_>>(), ["unanswered"]);
}
