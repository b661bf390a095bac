//! What follows from the events of a connection.

mod presence;
mod talk;

use heartline_protocol::client_frame::SyncRequest;
use heartline_protocol::server_frame::{ChatChange, ConnectionClosing, ManifestChat, Message};
use heartline_protocol::{CloseReason, ErrorCode, RequestId, ServerFrame, Timestamp};

use self::talk::{Talk, chat, manifest, page, sequences};
use super::*;
use crate::chat::fixtures::{
    CHAT, OTHER, ack, connected, draft, error, frame, manifest_chat, message,
};

const NOTHING: [u64; 0] = [];

#[test]
fn after_connecting_every_chat_that_is_behind_is_read_to_its_head() {
    let mut talk = Talk::new(&[(CHAT, 2), (OTHER, 7)]);
    assert_eq!(talk.state.next_frame_at(talk.now), None);
    talk.happens(connected(1));
    let request_id = talk.asks_for_the_manifest();
    let heads = vec![manifest_chat(CHAT, 5), manifest_chat(OTHER, 7)];
    assert_eq!(talk.hears(manifest(request_id, heads)), []);
    let request = talk.asks_for_a_page();
    assert_eq!((request.chat_id, request.after_sequence), (CHAT, 2));
    assert_eq!(talk.says(), None);
    assert_eq!(sequences(&talk.hears(page(&request, [3, 4], true, 6))), [3, 4]);
    let request = talk.asks_for_a_page();
    assert_eq!(request.after_sequence, 4);
    let told = talk.hears(page(&request, [5, 6], false, 6));
    assert_eq!(sequences(&told), [5, 6]);
    assert_eq!(told.last(), Some(&ChatEvent::Synced));
    assert_eq!(talk.says(), None);
}

#[test]
fn a_message_of_its_own_comes_from_the_draft_and_the_ack_and_in_order() {
    let mut talk = Talk::connected(&[(CHAT, 3)]);
    talk.state.send(draft(CHAT, "mine")).unwrap();
    let sent = talk.sends();
    assert_eq!(talk.hears_message(5), NOTHING);
    talk.waits(60_000);
    assert_eq!(talk.says(), None, "four may be the answer under way");
    let ack = ack(&sent.request_id, CHAT, &sent.client_message_id, 4);
    let told = talk.hears(ServerFrame::MessageAck(ack.clone()));
    let own = draft(CHAT, "mine").into_message(&ack, "ana".parse().unwrap());
    assert_eq!((own.sequence, &*own.content, &*own.content_type), (4, "mine", "text/plain"));
    let expected = [
        ChatEvent::Sent { ack },
        ChatEvent::Message { message: own, own: true },
        ChatEvent::Message { message: message(CHAT, 5), own: false },
    ];
    assert_eq!(told, expected);
}

#[test]
fn an_ack_that_overtakes_pushes_is_no_reason_to_ask_at_once() {
    let mut talk = Talk::connected(&[(CHAT, 3)]);
    talk.state.send(draft(CHAT, "mine")).unwrap();
    let sent = talk.sends();
    let ack = ack(&sent.request_id, CHAT, &sent.client_message_id, 6);
    assert_eq!(talk.hears(ServerFrame::MessageAck(ack.clone())), [ChatEvent::Sent { ack }]);
    assert_eq!(talk.says(), None);
    assert_eq!(talk.hears_message(4), [4]);
    talk.waits(250);
    let request = talk.asks_for_a_page();
    assert_eq!(request.after_sequence, 4);
    let told = talk.hears(page(&request, [5, 6], false, 6));
    assert_eq!(sequences(&told), [5, 6]);
}

#[test]
fn a_push_seen_before_the_answer_is_not_handed_over_again() {
    let mut talk = Talk::connected(&[(CHAT, 0)]);
    talk.state.send(draft(CHAT, "mine")).unwrap();
    let sent = talk.sends();
    let pushed = Message { sender_id: "ana".parse().unwrap(), ..message(CHAT, 1) };
    let told = talk.hears(ServerFrame::Message(pushed.clone()));
    assert_eq!(told, [ChatEvent::Message { message: pushed, own: true }]);
    let ack = ack(&sent.request_id, CHAT, &sent.client_message_id, 1);
    assert_eq!(talk.hears(ServerFrame::MessageAck(ack.clone())), [ChatEvent::Sent { ack }]);
}

#[test]
fn the_ack_of_a_frame_that_the_application_wrote_itself_is_read_by_a_page() {
    let mut talk = Talk::connected(&[(CHAT, 0)]);
    let foreign = "raw".parse().unwrap();
    let ack = ack(&foreign, CHAT, &"raw".parse().unwrap(), 1);
    assert_eq!(talk.hears(ServerFrame::MessageAck(ack)), []);
    talk.waits(250);
    assert_eq!(talk.asks_for_a_page().after_sequence, 0);
}

#[test]
fn a_refusal_is_told_and_a_missing_number_is_then_a_gap() {
    let mut talk = Talk::connected(&[(CHAT, 3)]);
    talk.state.send(draft(CHAT, "mine")).unwrap();
    let sent = talk.sends();
    talk.hears_message(5);
    talk.waits(250);
    assert_eq!(talk.says(), None);
    let error = error(&sent.request_id, ErrorCode::NotAMember);
    let told = talk.hears(ServerFrame::Error(error.clone()));
    let client_message_id = sent.client_message_id;
    assert_eq!(told, [ChatEvent::Refused { chat_id: CHAT, client_message_id, error }]);
    assert_eq!(talk.asks_for_a_page().after_sequence, 3);
}

#[test]
fn while_a_message_waits_for_its_retry_a_missing_number_is_a_gap() {
    let mut talk = Talk::connected(&[(CHAT, 3)]);
    talk.state.send(draft(CHAT, "mine")).unwrap();
    let sent = talk.sends();
    talk.hears_message(5);
    let error = error(&sent.request_id, ErrorCode::ServiceUnavailable);
    assert_eq!(talk.hears(ServerFrame::Error(error)), []);
    assert_eq!(talk.asks_for_a_page().after_sequence, 3);
}

#[test]
fn a_page_that_brings_nothing_is_not_asked_for_in_a_loop() {
    let mut talk = Talk::connected(&[(CHAT, 0)]);
    talk.hears_message(3);
    talk.waits(250);
    let request = talk.asks_for_a_page();
    talk.hears(page(&request, [], true, 3));
    assert_eq!(talk.says(), None);
    talk.waits(2_000);
    talk.asks_for_a_page();
}

#[test]
fn a_resync_asks_for_the_manifest_after_its_delay_and_is_not_announced_again() {
    let mut talk = Talk::connected(&[(CHAT, 3)]);
    let reason = "gap".to_owned();
    let chat_ids = Some(vec![CHAT]);
    talk.hears(ServerFrame::ResyncRequired { reason, chat_ids, delay_ms: 500 });
    assert_eq!(talk.says(), None);
    talk.waits(500);
    let request_id = talk.asks_for_the_manifest();
    assert_eq!(talk.hears(manifest(request_id, vec![manifest_chat(CHAT, 4)])), []);
    let request = talk.asks_for_a_page();
    assert_eq!(sequences(&talk.hears(page(&request, [4], false, 4))), [4]);
}

#[test]
fn a_chat_that_comes_is_read_from_its_beginning_and_one_that_goes_is_forgotten() {
    let mut talk = Talk::connected(&[]);
    let came = Some(chat(CHAT, 2));
    let change = ChatChange::MemberAdded;
    let told = talk.hears(ServerFrame::ChatChanged { chat_id: CHAT, change, chat: came.clone() });
    assert_eq!(told, [ChatEvent::ChatChanged { chat_id: CHAT, change, chat: came }]);
    talk.waits(250);
    let request = talk.asks_for_a_page();
    assert_eq!(request.after_sequence, 0);
    talk.hears(page(&request, [1, 2], false, 2));
    talk.hears_message(4);
    let change = ChatChange::MemberRemoved;
    let told = talk.hears(ServerFrame::ChatChanged { chat_id: CHAT, change, chat: None });
    assert_eq!(told, [ChatEvent::ChatChanged { chat_id: CHAT, change, chat: None }]);
    talk.waits(60_000);
    assert_eq!(talk.says(), None, "neither a page nor an ack");
}

#[test]
fn a_chat_whose_page_is_refused_to_a_stranger_is_forgotten_and_delays_nothing() {
    let mut talk = Talk::new(&[]);
    talk.happens(connected(1));
    let request_id = talk.asks_for_the_manifest();
    talk.hears(manifest(request_id, vec![manifest_chat(CHAT, 1)]));
    let request = talk.asks_for_a_page();
    let error = error(&request.request_id, ErrorCode::NotAMember);
    assert_eq!(talk.hears(ServerFrame::Error(error)), [ChatEvent::Synced]);
    assert_eq!(talk.says(), None);
}

#[test]
fn a_connection_that_is_closing_takes_no_frames_but_still_answers() {
    let mut talk = Talk::connected(&[(CHAT, 0)]);
    talk.state.send(draft(CHAT, "one")).unwrap();
    talk.state.send(draft(CHAT, "two")).unwrap();
    let sent = talk.sends();
    talk.hears(ServerFrame::ConnectionClosing(ConnectionClosing {
        reason: CloseReason::ServerShutdown,
        reconnect_allowed: true,
        reconnect_delay_ms: 10,
        sync_hints: None,
    }));
    let ack = ack(&sent.request_id, CHAT, &sent.client_message_id, 1);
    assert_eq!(sequences(&talk.hears(ServerFrame::MessageAck(ack))), [1]);
    assert_eq!((talk.says(), talk.state.next_frame_at(talk.now)), (None, None));
    talk.happens(connected(2));
    assert_eq!(&*talk.sends().content, "two");
}

#[test]
fn what_comes_before_the_connection_is_established_is_only_passed_on() {
    let mut talk = Talk::new(&[]);
    assert_eq!(talk.hears(ServerFrame::Message(message(CHAT, 1))), []);
    talk.happens(connected(1));
    assert_eq!(talk.hears_message(1), [1]);
}

#[test]
fn typing_is_told_once_and_only_to_a_server_that_is_there() {
    let mut talk = Talk::new(&[]);
    talk.state.typing(CHAT, true);
    talk.happens(connected(1));
    talk.asks_for_the_manifest();
    assert_eq!(talk.says(), None);
    talk.state.typing(CHAT, true);
    talk.state.typing(CHAT, false);
    let typing = Typing { chat_id: CHAT, is_typing: false };
    assert_eq!(talk.says(), Some(ClientFrame::Typing(typing)));
    assert_eq!(talk.says(), None);
}

#[test]
fn typing_does_not_outlive_its_connection() {
    let mut talk = Talk::connected(&[]);
    talk.state.typing(CHAT, true);
    talk.happens(connected(2));
    talk.asks_for_the_manifest();
    assert_eq!(talk.says(), None);
}

#[test]
fn a_newer_token_lets_everything_go_on_at_once() {
    let mut talk = Talk::new(&[]);
    talk.happens(connected(1));
    talk.state.send(draft(OTHER, "mine")).unwrap();
    let expired = |request_id| ServerFrame::Error(error(&request_id, ErrorCode::Unauthorized));
    let refreshed = || ServerFrame::TokenRefreshed {
        request_id: "refresh".parse().unwrap(),
        expires_at: Timestamp { unix_ms: 0 },
    };
    let sent = talk.sends();
    talk.hears(expired(sent.request_id));
    let request_id = talk.asks_for_the_manifest();
    talk.hears(expired(request_id));
    assert_eq!(talk.says(), None);
    talk.hears(refreshed());
    talk.sends();
    let request_id = talk.asks_for_the_manifest();
    talk.hears(manifest(request_id, vec![manifest_chat(CHAT, 1)]));
    let request = talk.asks_for_a_page();
    talk.hears(expired(request.request_id));
    assert_eq!(talk.says(), None);
    talk.hears(refreshed());
    talk.asks_for_a_page();
}

#[test]
fn a_page_that_the_application_asked_for_itself_leaves_no_hole() {
    let mut talk = Talk::connected(&[(CHAT, 1)]);
    let foreign = SyncRequest {
        request_id: "raw".parse().unwrap(),
        chat_id: CHAT,
        after_sequence: 4,
        limit: None,
    };
    assert_eq!(sequences(&talk.hears(page(&foreign, [5, 6], false, 6))), NOTHING);
    assert_eq!(talk.says(), None);
    talk.waits(250);
    let request = talk.asks_for_a_page();
    assert_eq!(request.after_sequence, 1);
    assert_eq!(sequences(&talk.hears(page(&request, [2, 3, 4], true, 6))), [2, 3, 4, 5, 6]);
}

#[test]
fn only_what_the_application_has_taken_is_acknowledged() {
    let mut talk = Talk::connected(&[(CHAT, 0)]);
    talk.state.on_event(frame(ServerFrame::Message(message(CHAT, 1))), talk.now);
    assert_eq!(talk.state.last_acks(), []);
    while talk.state.next_event(talk.now).is_some() {}
    assert_eq!(talk.state.last_acks(), [Ack { chat_id: CHAT, last_acked_sequence: 1 }]);
}

#[test]
fn many_chats_are_read_within_the_announced_rate() {
    let mut talk = Talk::new(&[]);
    talk.happens(connected(1));
    let request_id = talk.asks_for_the_manifest();
    let heads = (0..1000).map(|chat| manifest_chat(ChatId(ulid::Ulid(chat)), 1));
    talk.hears(manifest(request_id, heads.collect()));
    let (begin, mut pages, mut synced) = (talk.now, 0, false);
    while let Some(at) = talk.state.next_frame_at(talk.now).filter(|_| !synced) {
        talk.now = at;
        if let Some(ClientFrame::SyncRequest(request)) = talk.says() {
            pages += 1;
            synced = talk.hears(page(&request, [1], false, 1)).contains(&ChatEvent::Synced);
            let allowed = 100.0 + 50.0 * (talk.now - begin).as_secs_f64();
            assert!(f64::from(pages) <= allowed, "{pages} pages, {allowed} allowed");
        }
    }
    assert_eq!(pages, 1000);
}

/// A client that wants only the unread, and its question for the manifest.
fn wants_the_unread() -> (Talk, RequestId) {
    let backlog = crate::chat::Backlog::Unread { messages_max: 50 };
    let config = ChatConfig { backlog, ..ChatConfig::default() };
    let mut talk = Talk::new(&[]);
    talk.state = ChatState::new(config, BackOffConfig::default(), 1);
    talk.happens(connected(1));
    let request_id = talk.asks_for_the_manifest();
    (talk, request_id)
}

#[test]
fn where_only_the_unread_is_wanted_pages_begin_after_the_watermark() {
    let (mut talk, request_id) = wants_the_unread();
    assert_eq!(talk.hears_message(8), NOTHING);
    talk.waits(60_000);
    assert_eq!(talk.says(), None, "it is not known yet what is missing");
    let read = ManifestChat { chat_id: OTHER, head_sequence: 9, last_acked_sequence: 9 };
    let unread = ManifestChat { chat_id: CHAT, head_sequence: 8, last_acked_sequence: 6 };
    assert_eq!(talk.hears(manifest(request_id, vec![read, unread])), []);
    let request = talk.asks_for_a_page();
    assert_eq!((request.chat_id, request.after_sequence), (CHAT, 6));
    let told = talk.hears(page(&request, [7, 8], false, 8));
    assert_eq!(sequences(&told), [7, 8]);
    assert_eq!(told.last(), Some(&ChatEvent::Synced));
    assert_eq!(talk.says(), None, "nothing of the other chat is asked for");
}

#[test]
fn a_chat_whose_making_was_not_heard_of_is_asked_for_when_something_of_it_comes() {
    let (mut talk, request_id) = wants_the_unread();
    talk.hears(manifest(request_id, vec![]));
    assert_eq!(talk.hears_message(8), NOTHING);
    let request_id = talk.asks_for_the_manifest();
    assert_eq!(talk.hears(ServerFrame::Message(message(OTHER, 2))), []);
    let unread = ManifestChat { chat_id: CHAT, head_sequence: 8, last_acked_sequence: 7 };
    assert_eq!(sequences(&talk.hears(manifest(request_id, vec![unread]))), [8]);
    let request_id = talk.asks_for_the_manifest();
    talk.hears(manifest(request_id, vec![]));
    assert_eq!(talk.says(), None, "what is in no manifest is not looked for again and again");
}

#[test]
fn only_who_wants_to_know_is_told_of_frames_that_go_out_and_never_of_too_many() {
    let mut talk = Talk::new(&[]);
    talk.state.sending("{}");
    assert!(!talk.state.has_event());
    let config = ChatConfig { tells_outgoing: true, ..ChatConfig::default() };
    talk.state = ChatState::new(config, BackOffConfig::default(), 1);
    for _ in 0..2 * OUTGOING_MAX {
        talk.state.sending("{}");
    }
    assert_eq!(talk.state.events.len(), OUTGOING_MAX);
    let expected = ChatEvent::Outgoing { text: "{}".to_owned() };
    assert_eq!(talk.state.next_event(talk.now), Some(expected));
}
