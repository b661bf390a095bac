//! Looking up chats and reporting changes.

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

fn chat_list(chats: &[Chat]) -> ChatList {
    let mut chat_list = ChatList { me: Some("ana".parse().unwrap()), ..ChatList::default() };
    for chat in chats {
        assert_eq!(chat_list.update(chat), [""; 0]);
    }
    chat_list
}

const ANA: (&str, Role) = ("ana", Role::Owner);
const BO: (&str, Role) = ("bo", Role::Member);

#[test]
fn a_chat_is_named_by_its_name_or_its_other_members() {
    let chat_list = chat_list(&[]);
    assert_eq!(chat_list.label_of(&chat(1, Some("Book club"), &[ANA, BO])), "Book club");
    assert_eq!(chat_list.label_of(&direct(1, "bo")), "bo");
    let many = [ANA, BO, ("c", Role::Member), ("d", Role::Member), ("e", Role::Member)];
    assert_eq!(chat_list.label_of(&chat(1, None, &many)), "bo, c, d, …");
    assert_eq!(chat_list.label_of(&chat(1, None, &[ANA])), "group without other members");
    assert_eq!(chat_list.label(ChatId(Ulid(7))), ChatId(Ulid(7)).to_string());
}

#[test]
fn a_chat_is_found_by_number_name_id_and_prefix() {
    let club = chat(0x11 << 120, Some("Book club"), &[ANA, BO]);
    let with_bo = direct(0x22 << 120, "bo");
    let chat_list = chat_list(&[club.clone(), with_bo.clone()]);
    let id = club.chat_id.to_string();
    for text in ["1", "book club", "BOOK", &id, &id[..8], &id["chat_".len()..10]] {
        assert_eq!(chat_list.find(text), Found::Known(club.chat_id), "{text}");
    }
    for text in ["2", "bo"] {
        assert_eq!(chat_list.find(text), Found::Known(with_bo.chat_id), "{text}");
    }
    let elsewhere = ChatId(Ulid(9));
    assert_eq!(chat_list.find(&elsewhere.to_string()), Found::Unlisted(elsewhere));
}

#[test]
fn an_ambiguous_name_is_answered_with_the_candidates() {
    let chat_list =
        chat_list(&[chat(1, Some("tea at one"), &[ANA]), chat(2, Some("tea at two"), &[ANA])]);
    let Found::NoMatch(sentence) = chat_list.find("tea") else { panic!("it is ambiguous") };
    assert_eq!(
        sentence,
        "tea matches several chats: 1 tea at one, 2 tea at two; use /join with a number"
    );
    let Found::NoMatch(sentence) = chat_list.find("3") else { panic!("there is no third") };
    assert!(sentence.contains("/chats lists yours"), "{sentence}");
}

#[test]
fn a_change_is_reported_once() {
    let mut chat_list = chat_list(&[chat(1, Some("club"), &[ANA, BO])]);
    let changed = chat(1, Some("tea"), &[("ana", Role::Admin), ("cy", Role::Member)]);
    let expected = [
        "club was renamed to tea",
        "ana is now an admin of tea",
        "cy was added to tea",
        "bo is no longer a member of tea",
    ];
    assert_eq!(chat_list.update(&changed), expected);
    assert_eq!(chat_list.update(&changed), [""; 0]);
}

#[test]
fn a_removed_chat_is_not_current() {
    let club = chat(1, Some("club"), &[ANA, BO]);
    let mut chat_list = chat_list(std::slice::from_ref(&club));
    chat_list.set_current(club.chat_id);
    assert_eq!(chat_list.remove(club.chat_id).as_deref(), Some("club"));
    assert_eq!((chat_list.current(), chat_list.remove(club.chat_id)), (None, None));
    chat_list.update(&club);
    chat_list.set_current(club.chat_id);
    chat_list.replace(&[]);
    assert_eq!(chat_list.current(), None);
}
