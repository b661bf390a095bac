//! Parsing of lines.

use super::*;

fn user_id(text: &str) -> UserId {
    text.parse().unwrap()
}

fn rejected(text: &str) -> String {
    match parse(text) {
        Line::Unknown(sentence) => sentence,
        line => panic!("{text} is {line:?}"),
    }
}

#[test]
fn commands_are_parsed_with_space_around_them() {
    let table = [
        (" /heartbeat\t", Line::Heartbeat),
        ("/refresh", Line::Refresh),
        ("/drop", Line::Drop),
        ("/quit", Line::Quit),
        ("/help", Line::Help),
        (" \t ", Line::Empty),
        ("/chats", Line::Chats),
        ("/who", Line::Who),
        ("/leave", Line::Leave),
        ("/typing", Line::Typing),
        ("/watch bo, cy", Line::Watch(vec![user_id("bo"), user_id("cy")])),
        ("/unwatch bo", Line::Unwatch(user_id("bo"))),
        ("/visibility contacts_only", Line::Visibility(Visibility::ContactsOnly)),
        ("/visibility  everyone", Line::Visibility(Visibility::Everyone)),
        ("/visibility nobody", Line::Visibility(Visibility::Nobody)),
        ("/contact bo", Line::Contact(user_id("bo"))),
        ("/uncontact bo", Line::Uncontact(user_id("bo"))),
        ("/frames", Line::Frames),
        ("/history", Line::History(20)),
        ("/history  5 ", Line::History(5)),
        ("/join  Book club", Line::Join("Book club".to_owned())),
        ("/direct bo", Line::Direct(user_id("bo"))),
        ("/remove auth0|5f7", Line::Remove(user_id("auth0|5f7"))),
        ("/add bo", Line::Add { user_id: user_id("bo"), role: None }),
        ("/add bo  admin", Line::Add { user_id: user_id("bo"), role: Some(Role::Admin) }),
        ("/rename Book club", Line::Rename("Book club".to_owned())),
        ("/rename \"Book club\"", Line::Rename("Book club".to_owned())),
    ];
    for (text, expected) in table {
        assert_eq!(parse(text), expected, "{text}");
    }
}

#[test]
fn a_group_has_a_name_and_members() {
    let group = |name: &str, members: &[&str]| Line::New {
        name: name.to_owned(),
        member_ids: members.iter().map(|member| user_id(member)).collect(),
    };
    assert_eq!(parse("/new club bo"), group("club", &["bo"]));
    assert_eq!(parse("/new \"Book club\" bo, cy  d"), group("Book club", &["bo", "cy", "d"]));
    assert_eq!(parse("/new \"Book club\"bo"), group("Book club", &["bo"]));
    for text in ["/new", "/new club", "/new \"Book club bo", "/new \" \" bo", "/new club ,"] {
        assert!(rejected(text).contains("for example: /new \"Book club\" bo cy"), "{text}");
    }
}

#[test]
fn every_command_of_the_help_exists() {
    let commands = HELP.lines().filter(|line| line.starts_with('/'));
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        if let Line::Unknown(sentence) = parse(command) {
            assert!(!sentence.contains("unknown command"), "{sentence}");
        }
    }
}

#[test]
fn a_line_that_begins_like_an_object_is_a_frame() {
    for text in [r#"{"type":"heartbeat"}"#, "{", "{not json", r#"{ "a" : 1 } x"#] {
        assert_eq!(parse(text), Line::Frame(text.to_owned()));
    }
}

#[test]
fn any_other_line_without_a_slash_is_a_message() {
    assert_eq!(parse(" hello  there "), Line::Send("hello  there".to_owned()));
    assert_eq!(parse("/send /etc is a path"), Line::Send("/etc is a path".to_owned()));
    assert_eq!(parse("/send {}"), Line::Send("{}".to_owned()));
}

#[test]
fn every_error_message_says_what_to_do() {
    let table = [
        ("/heartbeats now", "unknown command /heartbeats: /help"),
        ("/heartbeat now", "/heartbeat takes no arguments"),
        ("/direct", "for example: /direct bo"),
        ("/direct b/o", "b/o is not a user id: it must be 1 to 128 characters of"),
        ("/new club b!", "b! is not a user id"),
        ("/add", "for example: /add bo admin"),
        ("/add bo king", "king is not a role: give owner, admin or member"),
        ("/remove", "for example: /remove bo"),
        ("/join", "/chats lists yours"),
        ("/watch", "for example: /watch bo cy"),
        ("/watch bo c!", "c! is not a user id"),
        ("/unwatch", "for example: /unwatch bo"),
        ("/visibility", "give everyone, contacts_only or nobody"),
        ("/visibility friends", "give everyone, contacts_only or nobody"),
        ("/contact", "for example: /contact bo"),
        ("/uncontact b o", "b o is not a user id"),
        ("/send", "give a text"),
        ("/rename", "give a name"),
        ("/history 0", "from 1 to 1000"),
        ("/history many", "from 1 to 1000"),
        ("/history 1001", "from 1 to 1000"),
    ];
    for (text, expected) in table {
        let sentence = rejected(text);
        assert!(sentence.contains(expected), "{text}: {sentence}");
    }
}

#[test]
fn an_error_message_is_short_and_has_no_control_characters() {
    let sentence = rejected(&format!("/\u{1b}[2J{}", "é".repeat(100_000)));
    assert!(sentence.starts_with("unknown command /\\u001b[2Jéé"), "{sentence}");
    assert!(sentence.len() < 300, "{sentence}");
}
