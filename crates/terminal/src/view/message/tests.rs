//! The format of messages and chats.

use heartline_protocol::server_frame::{ChatKind, ChatMember, Role};
use heartline_protocol::{ChatId, ErrorCode, MessageId};
use ulid::Ulid;

use super::*;

const AT: Timestamp = Timestamp { unix_ms: 1_700_000_000_007 };
const NEXT_DAY: Timestamp = Timestamp { unix_ms: 1_700_086_400_000 };
const PAPER: View = View { with_colours: false };
const COLOURS: View = View { with_colours: true };

fn message(content: &str) -> Message {
    Message {
        chat_id: ChatId(Ulid(1)),
        sequence: 3,
        message_id: MessageId(Ulid(1)),
        sender_id: "bo".parse().unwrap(),
        client_message_id: "m".parse().unwrap(),
        content: content.to_owned(),
        content_type: "text/plain".to_owned(),
        created_at: AT,
        deleted: false,
    }
}

fn shown(message: &Message, place: Option<&str>) -> String {
    PAPER.message(AT, ShownMessage { message, own: false, place })
}

#[test]
fn a_message_is_time_sender_and_text() {
    assert_eq!(shown(&message("hello"), None), "22:13:20 bo: hello\n");
    assert_eq!(shown(&message("hello"), Some("tea")), "22:13:20 [tea] bo: hello\n");
    let hello = message("hello");
    let earlier = PAPER.message(NEXT_DAY, ShownMessage { message: &hello, own: true, place: None });
    assert_eq!(earlier, "2023-11-14 22:13:20 bo: hello\n");
}

#[test]
fn control_characters_in_messages_are_escaped() {
    let line = shown(&message("a\nb\u{1b}[2J\u{202e}\u{9b}c"), Some("t\u{7}"));
    assert_eq!(line, "22:13:20 [t\\u0007] bo: a b\\u001b[2J\\u202e\\u009bc\n");
    let odd = Message { content_type: "x\u{1b}".to_owned(), ..message("{}") };
    assert_eq!(shown(&odd, None), "22:13:20 bo: (x\\u001b) {}\n");
}

#[test]
fn a_deleted_message_is_marked() {
    let deleted = Message { deleted: true, ..message("") };
    assert_eq!(shown(&deleted, None), "22:13:20 bo: (deleted)\n");
}

#[test]
fn other_senders_are_coloured_and_waiting_messages_dim() {
    let hello = message("hello");
    let line = COLOURS.message(AT, ShownMessage { message: &hello, own: false, place: None });
    assert_eq!(line, "\u{1b}[2m22:13:20\u{1b}[0m \u{1b}[36mbo\u{1b}[0m: hello\n");
    let own = COLOURS.message(AT, ShownMessage { message: &hello, own: true, place: None });
    assert_eq!(own, "\u{1b}[2m22:13:20\u{1b}[0m bo: hello\n");
    let draft = Draft::new(ChatId(Ulid(1)), "hi");
    let me = "ana".parse().unwrap();
    let line = COLOURS.waiting(AT, &draft, Some(&me), None);
    assert_eq!(line, "\u{1b}[2m22:13:20 ana: hi (waiting for the server)\u{1b}[0m\n");
    assert_eq!(
        PAPER.waiting(AT, &draft, None, Some("tea")),
        "22:13:20 [tea] you: hi (waiting for the server)\n"
    );
}

#[test]
fn a_rejected_message_is_shown_with_its_error() {
    let error = ErrorFrame::new(ErrorCode::NotAMember, "not a member of this chat");
    assert_eq!(
        PAPER.rejected(AT, Some("hi\u{7}"), "tea", &error),
        "22:13:20 -- not sent to tea: \"hi\\u0007\": not a member of this chat (NOT_A_MEMBER)\n"
    );
}

fn chat(head_sequence: u64) -> Chat {
    let member = |user: &str, role| ChatMember { user_id: user.parse().unwrap(), role };
    Chat {
        chat_id: ChatId(Ulid(1)),
        kind: ChatKind::Group,
        name: Some("tea".to_owned()),
        members: vec![member("ana", Role::Owner), member("bo", Role::Member)],
        head_sequence,
        created_at: AT,
    }
}

#[test]
fn a_listed_chat_shows_head_watermark_and_last_message() {
    let id = ChatId(Ulid(1));
    let listed = |head, last_acked_sequence, last_message| {
        let listed = ListedChat { chat: chat(head), last_acked_sequence, last_message };
        PAPER.listed(2, head == 3, "tea", &listed)
    };
    let quiet = format!("  2   tea (2 members, no messages yet)  {id}\n");
    assert_eq!(listed(0, 0, None), quiet);
    let unread = format!("  2 * tea (2 members, 3 messages, read up to 1) bo: hello  {id}\n");
    assert_eq!(listed(3, 1, Some(message("hello"))), unread);
    let long = listed(1, 1, Some(message(&"x".repeat(100))));
    assert!(long.contains("1 message, all read) bo: xxx"), "{long}");
    assert!(long.contains("x…  chat_"), "{long}");
}

#[test]
fn members_are_listed_with_their_roles() {
    assert_eq!(PAPER.members("tea", &chat(0)), "tea:\n  owner  ana\n  member bo\n");
}
