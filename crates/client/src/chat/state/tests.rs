//! The effects of events of the connection.

mod presence;
mod conversation;

use heartline_protocol::client_frame::SyncRequest;
use heartline_protocol::server_frame::{ChatChange, ConnectionClosing, ManifestChat, Message};
use heartline_protocol::{CloseReason, ErrorCode, RequestId, ServerFrame, Timestamp};

use self::conversation::{Conversation, chat, manifest, page, sequences};
use super::*;
use crate::chat::fixtures::{
    CHAT, OTHER, ack, connected, draft, error, frame, manifest_chat, message,
};

const NOTHING: [u64; 0] = [];

#[test]
fn after_connecting_every_chat_that_is_behind_is_read_up_to_its_head() {
    let mut conversation = Conversation::new(&[(CHAT, 2), (OTHER, 7)]);
    assert_eq!(conversation.state.next_frame_at(conversation.now), None);
    conversation.on_event(connected(1));
    let request_id = conversation.requests_manifest();
    let heads = vec![manifest_chat(CHAT, 5), manifest_chat(OTHER, 7)];
    assert_eq!(conversation.receives(manifest(request_id, heads)), []);
    let request = conversation.requests_page();
    assert_eq!((request.chat_id, request.after_sequence), (CHAT, 2));
    assert_eq!(conversation.next_frame(), None);
    assert_eq!(sequences(&conversation.receives(page(&request, [3, 4], true, 6))), [3, 4]);
    let request = conversation.requests_page();
    assert_eq!(request.after_sequence, 4);
    let events = conversation.receives(page(&request, [5, 6], false, 6));
    assert_eq!(sequences(&events), [5, 6]);
    assert_eq!(events.last(), Some(&ChatEvent::Synced));
    assert_eq!(conversation.next_frame(), None);
}

#[test]
fn an_own_message_is_built_from_draft_and_ack_and_delivered_in_order() {
    let mut conversation = Conversation::connected(&[(CHAT, 3)]);
    conversation.state.send(draft(CHAT, "mine")).unwrap();
    let sent = conversation.sends();
    assert_eq!(conversation.receives_message(5), NOTHING);
    conversation.advance(60_000);
    assert_eq!(conversation.next_frame(), None, "four may be the answer under way");
    let ack = ack(&sent.request_id, CHAT, &sent.client_message_id, 4);
    let events = conversation.receives(ServerFrame::MessageAck(ack.clone()));
    let own = draft(CHAT, "mine").into_message(&ack, "ana".parse().unwrap());
    assert_eq!((own.sequence, &*own.content, &*own.content_type), (4, "mine", "text/plain"));
    let expected = [
        ChatEvent::Sent { ack },
        ChatEvent::Message { message: own, own: true },
        ChatEvent::Message { message: message(CHAT, 5), own: false },
    ];
    assert_eq!(events, expected);
}

#[test]
fn an_ack_that_overtakes_pushes_does_not_request_a_page_at_once() {
    let mut conversation = Conversation::connected(&[(CHAT, 3)]);
    conversation.state.send(draft(CHAT, "mine")).unwrap();
    let sent = conversation.sends();
    let ack = ack(&sent.request_id, CHAT, &sent.client_message_id, 6);
    assert_eq!(
        conversation.receives(ServerFrame::MessageAck(ack.clone())),
        [ChatEvent::Sent { ack }]
    );
    assert_eq!(conversation.next_frame(), None);
    assert_eq!(conversation.receives_message(4), [4]);
    conversation.advance(250);
    let request = conversation.requests_page();
    assert_eq!(request.after_sequence, 4);
    let events = conversation.receives(page(&request, [5, 6], false, 6));
    assert_eq!(sequences(&events), [5, 6]);
}

#[test]
fn a_push_that_arrives_before_the_ack_is_not_delivered_again() {
    let mut conversation = Conversation::connected(&[(CHAT, 0)]);
    conversation.state.send(draft(CHAT, "mine")).unwrap();
    let sent = conversation.sends();
    let pushed = Message { sender_id: "ana".parse().unwrap(), ..message(CHAT, 1) };
    let events = conversation.receives(ServerFrame::Message(pushed.clone()));
    assert_eq!(events, [ChatEvent::Message { message: pushed, own: true }]);
    let ack = ack(&sent.request_id, CHAT, &sent.client_message_id, 1);
    assert_eq!(
        conversation.receives(ServerFrame::MessageAck(ack.clone())),
        [ChatEvent::Sent { ack }]
    );
}

#[test]
fn the_message_of_an_unknown_ack_is_read_with_a_page() {
    let mut conversation = Conversation::connected(&[(CHAT, 0)]);
    let foreign = "raw".parse().unwrap();
    let ack = ack(&foreign, CHAT, &"raw".parse().unwrap(), 1);
    assert_eq!(conversation.receives(ServerFrame::MessageAck(ack)), []);
    conversation.advance(250);
    assert_eq!(conversation.requests_page().after_sequence, 0);
}

#[test]
fn after_a_rejection_a_missing_sequence_is_a_gap() {
    let mut conversation = Conversation::connected(&[(CHAT, 3)]);
    conversation.state.send(draft(CHAT, "mine")).unwrap();
    let sent = conversation.sends();
    conversation.receives_message(5);
    conversation.advance(250);
    assert_eq!(conversation.next_frame(), None);
    let error = error(&sent.request_id, ErrorCode::NotAMember);
    let events = conversation.receives(ServerFrame::Error(error.clone()));
    let client_message_id = sent.client_message_id;
    assert_eq!(events, [ChatEvent::Rejected { chat_id: CHAT, client_message_id, error }]);
    assert_eq!(conversation.requests_page().after_sequence, 3);
}

#[test]
fn while_a_message_waits_for_its_retry_a_missing_sequence_is_a_gap() {
    let mut conversation = Conversation::connected(&[(CHAT, 3)]);
    conversation.state.send(draft(CHAT, "mine")).unwrap();
    let sent = conversation.sends();
    conversation.receives_message(5);
    let error = error(&sent.request_id, ErrorCode::ServiceUnavailable);
    assert_eq!(conversation.receives(ServerFrame::Error(error)), []);
    assert_eq!(conversation.requests_page().after_sequence, 3);
}

#[test]
fn a_page_that_brings_nothing_is_requested_again_after_a_delay() {
    let mut conversation = Conversation::connected(&[(CHAT, 0)]);
    conversation.receives_message(3);
    conversation.advance(250);
    let request = conversation.requests_page();
    conversation.receives(page(&request, [], true, 3));
    assert_eq!(conversation.next_frame(), None);
    conversation.advance(2_000);
    conversation.requests_page();
}

#[test]
fn a_resync_requests_the_manifest_after_its_delay_and_is_not_announced_again() {
    let mut conversation = Conversation::connected(&[(CHAT, 3)]);
    let reason = "gap".to_owned();
    let chat_ids = Some(vec![CHAT]);
    conversation.receives(ServerFrame::ResyncRequired { reason, chat_ids, delay_ms: 500 });
    assert_eq!(conversation.next_frame(), None);
    conversation.advance(500);
    let request_id = conversation.requests_manifest();
    assert_eq!(conversation.receives(manifest(request_id, vec![manifest_chat(CHAT, 4)])), []);
    let request = conversation.requests_page();
    assert_eq!(sequences(&conversation.receives(page(&request, [4], false, 4))), [4]);
}

#[test]
fn a_new_chat_is_read_from_its_start_and_a_left_one_removed() {
    let mut conversation = Conversation::connected(&[]);
    let came = Some(chat(CHAT, 2));
    let change = ChatChange::MemberAdded;
    let events = conversation.receives(ServerFrame::ChatChanged {
        chat_id: CHAT,
        change,
        chat: came.clone(),
    });
    assert_eq!(events, [ChatEvent::ChatChanged { chat_id: CHAT, change, chat: came }]);
    conversation.advance(250);
    let request = conversation.requests_page();
    assert_eq!(request.after_sequence, 0);
    conversation.receives(page(&request, [1, 2], false, 2));
    conversation.receives_message(4);
    let change = ChatChange::MemberRemoved;
    let events =
        conversation.receives(ServerFrame::ChatChanged { chat_id: CHAT, change, chat: None });
    assert_eq!(events, [ChatEvent::ChatChanged { chat_id: CHAT, change, chat: None }]);
    conversation.advance(60_000);
    assert_eq!(conversation.next_frame(), None, "neither a page nor an ack");
}

#[test]
fn a_chat_whose_page_is_rejected_as_not_a_member_is_removed() {
    let mut conversation = Conversation::new(&[]);
    conversation.on_event(connected(1));
    let request_id = conversation.requests_manifest();
    conversation.receives(manifest(request_id, vec![manifest_chat(CHAT, 1)]));
    let request = conversation.requests_page();
    let error = error(&request.request_id, ErrorCode::NotAMember);
    assert_eq!(conversation.receives(ServerFrame::Error(error)), [ChatEvent::Synced]);
    assert_eq!(conversation.next_frame(), None);
}

#[test]
fn a_closing_connection_accepts_no_frames_and_still_delivers_answers() {
    let mut conversation = Conversation::connected(&[(CHAT, 0)]);
    conversation.state.send(draft(CHAT, "one")).unwrap();
    conversation.state.send(draft(CHAT, "two")).unwrap();
    let sent = conversation.sends();
    conversation.receives(ServerFrame::ConnectionClosing(ConnectionClosing {
        reason: CloseReason::ServerShutdown,
        reconnect_allowed: true,
        reconnect_delay_ms: 10,
        sync_hints: None,
    }));
    let ack = ack(&sent.request_id, CHAT, &sent.client_message_id, 1);
    assert_eq!(sequences(&conversation.receives(ServerFrame::MessageAck(ack))), [1]);
    assert_eq!(
        (conversation.next_frame(), conversation.state.next_frame_at(conversation.now)),
        (None, None)
    );
    conversation.on_event(connected(2));
    assert_eq!(&*conversation.sends().content, "two");
}

#[test]
fn frames_before_the_connection_is_established_are_only_passed_on() {
    let mut conversation = Conversation::new(&[]);
    assert_eq!(conversation.receives(ServerFrame::Message(message(CHAT, 1))), []);
    conversation.on_event(connected(1));
    assert_eq!(conversation.receives_message(1), [1]);
}

#[test]
fn typing_is_sent_once_and_only_with_a_connection() {
    let mut conversation = Conversation::new(&[]);
    conversation.state.typing(CHAT, true);
    conversation.on_event(connected(1));
    conversation.requests_manifest();
    assert_eq!(conversation.next_frame(), None);
    conversation.state.typing(CHAT, true);
    conversation.state.typing(CHAT, false);
    let typing = Typing { chat_id: CHAT, is_typing: false };
    assert_eq!(conversation.next_frame(), Some(ClientFrame::Typing(typing)));
    assert_eq!(conversation.next_frame(), None);
}

#[test]
fn typing_is_dropped_with_its_connection() {
    let mut conversation = Conversation::connected(&[]);
    conversation.state.typing(CHAT, true);
    conversation.on_event(connected(2));
    conversation.requests_manifest();
    assert_eq!(conversation.next_frame(), None);
}

#[test]
fn a_newer_token_resumes_all_requests_at_once() {
    let mut conversation = Conversation::new(&[]);
    conversation.on_event(connected(1));
    conversation.state.send(draft(OTHER, "mine")).unwrap();
    let expired = |request_id| ServerFrame::Error(error(&request_id, ErrorCode::Unauthorized));
    let refreshed = || ServerFrame::TokenRefreshed {
        request_id: "refresh".parse().unwrap(),
        expires_at: Timestamp { unix_ms: 0 },
    };
    let sent = conversation.sends();
    conversation.receives(expired(sent.request_id));
    let request_id = conversation.requests_manifest();
    conversation.receives(expired(request_id));
    assert_eq!(conversation.next_frame(), None);
    conversation.receives(refreshed());
    conversation.sends();
    let request_id = conversation.requests_manifest();
    conversation.receives(manifest(request_id, vec![manifest_chat(CHAT, 1)]));
    let request = conversation.requests_page();
    conversation.receives(expired(request.request_id));
    assert_eq!(conversation.next_frame(), None);
    conversation.receives(refreshed());
    conversation.requests_page();
}

#[test]
fn a_page_that_the_application_requested_leaves_no_gap() {
    let mut conversation = Conversation::connected(&[(CHAT, 1)]);
    let foreign = SyncRequest {
        request_id: "raw".parse().unwrap(),
        chat_id: CHAT,
        after_sequence: 4,
        limit: None,
    };
    assert_eq!(sequences(&conversation.receives(page(&foreign, [5, 6], false, 6))), NOTHING);
    assert_eq!(conversation.next_frame(), None);
    conversation.advance(250);
    let request = conversation.requests_page();
    assert_eq!(request.after_sequence, 1);
    assert_eq!(
        sequences(&conversation.receives(page(&request, [2, 3, 4], true, 6))),
        [2, 3, 4, 5, 6]
    );
}

#[test]
fn only_messages_that_the_application_received_are_acknowledged() {
    let mut conversation = Conversation::connected(&[(CHAT, 0)]);
    conversation.state.on_event(frame(ServerFrame::Message(message(CHAT, 1))), conversation.now);
    assert_eq!(conversation.state.remaining_acks(), []);
    while conversation.state.next_event(conversation.now).is_some() {}
    assert_eq!(
        conversation.state.remaining_acks(),
        [Ack { chat_id: CHAT, last_acked_sequence: 1 }]
    );
}

#[test]
fn many_chats_are_read_within_the_announced_rate() {
    let mut conversation = Conversation::new(&[]);
    conversation.on_event(connected(1));
    let request_id = conversation.requests_manifest();
    let heads = (0..1000).map(|chat| manifest_chat(ChatId(ulid::Ulid(chat)), 1));
    conversation.receives(manifest(request_id, heads.collect()));
    let (begin, mut pages, mut synced) = (conversation.now, 0, false);
    while let Some(at) = conversation.state.next_frame_at(conversation.now).filter(|_| !synced) {
        conversation.now = at;
        if let Some(ClientFrame::SyncRequest(request)) = conversation.next_frame() {
            pages += 1;
            synced =
                conversation.receives(page(&request, [1], false, 1)).contains(&ChatEvent::Synced);
            let allowed = 100.0 + 50.0 * (conversation.now - begin).as_secs_f64();
            assert!(f64::from(pages) <= allowed, "{pages} pages, {allowed} allowed");
        }
    }
    assert_eq!(pages, 1000);
}

/// A client that receives only unread messages, and its request for the manifest.
fn with_unread_backlog() -> (Conversation, RequestId) {
    let backlog = crate::chat::Backlog::Unread { messages_max: 50 };
    let config = ChatConfig { backlog, ..ChatConfig::default() };
    let mut conversation = Conversation::new(&[]);
    conversation.state = ChatState::new(config, BackOffConfig::default(), 1);
    conversation.on_event(connected(1));
    let request_id = conversation.requests_manifest();
    (conversation, request_id)
}

#[test]
fn with_unread_backlog_pages_begin_after_the_watermark() {
    let (mut conversation, request_id) = with_unread_backlog();
    assert_eq!(conversation.receives_message(8), NOTHING);
    conversation.advance(60_000);
    assert_eq!(conversation.next_frame(), None, "the start is not known yet");
    let read = ManifestChat { chat_id: OTHER, head_sequence: 9, last_acked_sequence: 9 };
    let unread = ManifestChat { chat_id: CHAT, head_sequence: 8, last_acked_sequence: 6 };
    assert_eq!(conversation.receives(manifest(request_id, vec![read, unread])), []);
    let request = conversation.requests_page();
    assert_eq!((request.chat_id, request.after_sequence), (CHAT, 6));
    let events = conversation.receives(page(&request, [7, 8], false, 8));
    assert_eq!(sequences(&events), [7, 8]);
    assert_eq!(events.last(), Some(&ChatEvent::Synced));
    assert_eq!(conversation.next_frame(), None, "nothing of the other chat is requested");
}

#[test]
fn a_message_of_an_unknown_chat_requests_the_manifest() {
    let (mut conversation, request_id) = with_unread_backlog();
    conversation.receives(manifest(request_id, vec![]));
    assert_eq!(conversation.receives_message(8), NOTHING);
    let request_id = conversation.requests_manifest();
    assert_eq!(conversation.receives(ServerFrame::Message(message(OTHER, 2))), []);
    let unread = ManifestChat { chat_id: CHAT, head_sequence: 8, last_acked_sequence: 7 };
    assert_eq!(sequences(&conversation.receives(manifest(request_id, vec![unread]))), [8]);
    let request_id = conversation.requests_manifest();
    conversation.receives(manifest(request_id, vec![]));
    assert_eq!(conversation.next_frame(), None, "a chat in no manifest is not requested again");
}

#[test]
fn outgoing_frames_are_reported_on_request_and_within_a_limit() {
    let mut conversation = Conversation::new(&[]);
    conversation.state.report_outgoing("{}");
    assert!(!conversation.state.has_event());
    let config = ChatConfig { reports_outgoing: true, ..ChatConfig::default() };
    conversation.state = ChatState::new(config, BackOffConfig::default(), 1);
    for _ in 0..2 * OUTGOING_MAX {
        conversation.state.report_outgoing("{}");
    }
    assert_eq!(conversation.state.events.len(), OUTGOING_MAX);
    let expected = ChatEvent::Outgoing { text: "{}".to_owned() };
    assert_eq!(conversation.state.next_event(conversation.now), Some(expected));
}
