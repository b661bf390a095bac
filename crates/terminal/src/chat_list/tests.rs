//! Finding chats and noticing changes.

use heartline_protocol::Timestamp;
use ulid::Ulid;

use super::*;

fn chat(id: u128, name: Option<&str>, members: &[(&str, Role)]) -> Chat {
    let member =
        |(user, role): &(&str, Role)| ChatMember { user_id: user.parse().unwrap(), role: *role };
    Chat {
        chat_id: ChatId(Ulid(id)),
        kind: ChatKind::Group,
        name: name.map(str::to_owned),
        members: members.iter().map(member).collect(),
        head_sequence: 0,
        created_at: Timestamp { unix_ms: 0 },
    }
}

fn direct(id: u128, with: &str) -> Chat {
    let members = [("ana", Role::Owner), (with, Role::Member)];
    Chat { kind: ChatKind::Direct, ..chat(id, None, &members) }
}

fn book(chats: &[Chat]) -> Book {
    let mut book = Book { me: Some("ana".parse().unwrap()), ..Book::default() };
    for chat in chats {
        assert_eq!(book.learn(chat), [""; 0]);
    }
    book
}

const ANA: (&str, Role) = ("ana", Role::Owner);
const BO: (&str, Role) = ("bo", Role::Member);

#[test]
fn a_chat_is_called_by_its_name_or_by_the_others() {
    let book = book(&[]);
    assert_eq!(book.label_of(&chat(1, Some("Book club"), &[ANA, BO])), "Book club");
    assert_eq!(book.label_of(&direct(1, "bo")), "bo");
    let many = [ANA, BO, ("c", Role::Member), ("d", Role::Member), ("e", Role::Member)];
    assert_eq!(book.label_of(&chat(1, None, &many)), "bo, c, d, …");
    assert_eq!(book.label_of(&chat(1, None, &[ANA])), "a group of yours");
    assert_eq!(book.label(ChatId(Ulid(7))), ChatId(Ulid(7)).to_string());
}

#[test]
fn a_chat_is_found_by_number_name_id_and_a_beginning() {
    let club = chat(0x11 << 120, Some("Book club"), &[ANA, BO]);
    let with_bo = direct(0x22 << 120, "bo");
    let book = book(&[club.clone(), with_bo.clone()]);
    let id = club.chat_id.to_string();
    for text in ["1", "book club", "BOOK", &id, &id[..8], &id["chat_".len()..10]] {
        assert_eq!(book.find(text), Found::Known(club.chat_id), "{text}");
    }
    for text in ["2", "bo"] {
        assert_eq!(book.find(text), Found::Known(with_bo.chat_id), "{text}");
    }
    let elsewhere = ChatId(Ulid(9));
    assert_eq!(book.find(&elsewhere.to_string()), Found::Unlisted(elsewhere));
}

#[test]
fn an_unclear_name_is_answered_with_the_candidates() {
    let book = book(&[chat(1, Some("tea at one"), &[ANA]), chat(2, Some("tea at two"), &[ANA])]);
    let Found::Unclear(sentence) = book.find("tea") else { panic!("it is unclear") };
    assert_eq!(sentence, "tea could be several: 1 tea at one, 2 tea at two; /join the number");
    let Found::Unclear(sentence) = book.find("3") else { panic!("there is no third") };
    assert!(sentence.contains("/chats lists them"), "{sentence}");
}

#[test]
fn a_change_is_told_once() {
    let mut book = book(&[chat(1, Some("club"), &[ANA, BO])]);
    let changed = chat(1, Some("tea"), &[("ana", Role::Admin), ("cy", Role::Member)]);
    let expected = [
        "club is now called tea",
        "ana is now an admin of tea",
        "cy is now in tea",
        "bo is no longer in tea",
    ];
    assert_eq!(book.learn(&changed), expected);
    assert_eq!(book.learn(&changed), [""; 0]);
}

#[test]
fn a_chat_that_is_gone_is_not_talked_in() {
    let club = chat(1, Some("club"), &[ANA, BO]);
    let mut book = book(std::slice::from_ref(&club));
    book.enter(club.chat_id);
    assert_eq!(book.forget(club.chat_id).as_deref(), Some("club"));
    assert_eq!((book.current(), book.forget(club.chat_id)), (None, None));
    book.learn(&club);
    book.enter(club.chat_id);
    book.replace(&[]);
    assert_eq!(book.current(), None);
}
