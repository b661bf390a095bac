//! Parses typed lines.

use std::str::FromStr;

use heartline_protocol::UserId;
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::Role;

use super::request::HISTORY_MAX;
use super::view::printable;

/// Characters of a line that an error message repeats.
const ECHO_CHARACTERS_MAX: usize = 40;
/// Messages that `/history` shows by default.
const HISTORY: usize = 20;

/// The text of `/help`.
pub(super) const HELP: &str = "\
hello             send a message to the current chat
/new NAME USER…   create a group; put a name with spaces into quotes
/direct USER      open a direct chat with a user
/chats            list your chats
/join CHAT        open a chat by its number in the list, its name or its id
/send TEXT        send a message that begins with / or {
/history [N]      show the last messages, 20 by default
/who              list the members of the chat
/add USER [ROLE]  add a user, or change a member's role: owner, admin or member
/remove USER      remove a member
/rename NAME      rename the chat
/leave            leave the chat
/typing           show the other members that you are typing
/watch USER…      show when these users go online or offline
/unwatch USER     stop watching a user
/visibility WHO   choose who sees whether you are online: everyone, contacts_only or nobody
/contact USER     add a contact; two users are contacts once each has added the other
/uncontact USER   remove a contact
/frames           show or hide the frames of the protocol
{\"type\":…}        send a frame as typed, and show frames from then on
/heartbeat        send a heartbeat and show the answer
/refresh          send a newer token to the server
/drop             drop the connection, as a failing network would; the client reconnects
/quit             close the connection and exit, as do Ctrl-C and the end of input
/help             show this help
Times are in UTC. Frames from the server are marked <-, frames to it ->.";

/// A parsed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// A line of only white space.
    Empty,
    /// A frame to send as typed.
    Frame(String),
    /// A message for the current chat.
    Send(String),
    New {
        name: String,
        member_ids: Vec<UserId>,
    },
    Direct(UserId),
    Chats,
    Join(String),
    History(usize),
    Who,
    Add {
        user_id: UserId,
        role: Option<Role>,
    },
    Remove(UserId),
    Rename(String),
    Leave,
    Typing,
    Watch(Vec<UserId>),
    Unwatch(UserId),
    Visibility(Visibility),
    Contact(UserId),
    Uncontact(UserId),
    Frames,
    Heartbeat,
    Refresh,
    Drop,
    Quit,
    Help,
    /// An invalid line, with an error message.
    Unknown(String),
}

/// Parses a line.
pub(super) fn parse(text: &str) -> Line {
    let text = text.trim();
    if text.is_empty() {
        return Line::Empty;
    }
    if text.starts_with('{') {
        return Line::Frame(text.to_owned());
    }
    if !text.starts_with('/') {
        return Line::Send(text.to_owned());
    }
    let (command, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    parse_command(command, rest.trim()).unwrap_or_else(Line::Unknown)
}

fn parse_command(command: &str, rest: &str) -> Result<Line, String> {
    let without_arguments = |line: Line| {
        let extra = || format!("{command} takes no arguments; /help lists all commands");
        if rest.is_empty() { Ok(line) } else { Err(extra()) }
    };
    match command {
        "/new" => new_group(rest),
        "/direct" => one_user(rest, "/direct USER, for example: /direct bo").map(Line::Direct),
        "/chats" => without_arguments(Line::Chats),
        "/join" => required(rest, "/join CHAT: give a number, name or id; /chats lists yours")
            .map(Line::Join),
        "/send" => required(rest, "/send TEXT: give a text").map(Line::Send),
        "/history" => history(rest),
        "/who" => without_arguments(Line::Who),
        "/add" => add(rest),
        "/remove" => one_user(rest, "/remove USER, for example: /remove bo").map(Line::Remove),
        "/rename" => {
            let usage = "/rename NAME: give a name";
            required(rest, usage).map(|name| Line::Rename(unquoted(&name).to_owned()))
        }
        "/leave" => without_arguments(Line::Leave),
        "/typing" => without_arguments(Line::Typing),
        "/watch" => watch(rest),
        "/unwatch" => one_user(rest, "/unwatch USER, for example: /unwatch bo").map(Line::Unwatch),
        "/visibility" => visibility(rest),
        "/contact" => one_user(rest, "/contact USER, for example: /contact bo").map(Line::Contact),
        "/uncontact" => {
            one_user(rest, "/uncontact USER, for example: /uncontact bo").map(Line::Uncontact)
        }
        "/frames" => without_arguments(Line::Frames),
        "/heartbeat" => without_arguments(Line::Heartbeat),
        "/refresh" => without_arguments(Line::Refresh),
        "/drop" => without_arguments(Line::Drop),
        "/quit" | "/exit" => without_arguments(Line::Quit),
        "/help" | "/?" => without_arguments(Line::Help),
        _ => Err(format!(
            "unknown command {}: /help lists all commands, and /send TEXT sends a text that begins \
             with a slash",
            echo(command)
        )),
    }
}

/// Parses a name, in quotes if it has spaces, and the other members of the group.
fn new_group(rest: &str) -> Result<Line, String> {
    let usage = || {
        "/new NAME USER… creates a group with at least one other user, for example: \
         /new \"Book club\" bo cy"
            .to_owned()
    };
    let (name, users) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').ok_or_else(usage)?,
        None => rest.split_once(char::is_whitespace).ok_or_else(usage)?,
    };
    let (name, member_ids) = (name.trim().to_owned(), several_users(users)?);
    if name.is_empty() || member_ids.is_empty() {
        return Err(usage());
    }
    Ok(Line::New { name, member_ids })
}

/// Parses users separated by spaces or commas.
fn several_users(text: &str) -> Result<Vec<UserId>, String> {
    let users = text.split(|character: char| character.is_whitespace() || character == ',');
    users.filter(|user| !user.is_empty()).map(user).collect()
}

fn watch(rest: &str) -> Result<Line, String> {
    let user_ids = several_users(rest)?;
    if user_ids.is_empty() {
        return Err("/watch USER…, for example: /watch bo cy".to_owned());
    }
    Ok(Line::Watch(user_ids))
}

fn visibility(rest: &str) -> Result<Line, String> {
    let visibility = match rest {
        "everyone" => Visibility::Everyone,
        "contacts_only" => Visibility::ContactsOnly,
        "nobody" => Visibility::Nobody,
        _ => return Err("/visibility WHO: give everyone, contacts_only or nobody".to_owned()),
    };
    Ok(Line::Visibility(visibility))
}

fn history(rest: &str) -> Result<Line, String> {
    if rest.is_empty() {
        return Ok(Line::History(HISTORY));
    }
    match rest.parse() {
        Ok(count @ 1..=HISTORY_MAX) => Ok(Line::History(count)),
        _ => Err(format!("/history [N]: give a number from 1 to {HISTORY_MAX}")),
    }
}

fn add(rest: &str) -> Result<Line, String> {
    const USAGE: &str = "/add USER [ROLE], for example: /add bo admin";
    let (user_id, role) = match rest.split_once(char::is_whitespace) {
        Some((user_id, role)) => (user_id, Some(role.trim())),
        None => (rest, None),
    };
    let user_id = one_user(user_id, USAGE)?;
    let role = match role {
        None => None,
        Some("owner") => Some(Role::Owner),
        Some("admin") => Some(Role::Admin),
        Some("member") => Some(Role::Member),
        Some(other) => {
            return Err(format!("{} is not a role: give owner, admin or member", echo(other)));
        }
    };
    Ok(Line::Add { user_id, role })
}

fn required(rest: &str, usage: &str) -> Result<String, String> {
    if rest.is_empty() { Err(usage.to_owned()) } else { Ok(rest.to_owned()) }
}

fn one_user(rest: &str, usage: &str) -> Result<UserId, String> {
    required(rest, usage).and_then(|text| user(&text))
}

fn user(text: &str) -> Result<UserId, String> {
    UserId::from_str(text)
        .map_err(|error| format!("{} is not a user id: it must be {}", echo(text), error.expected))
}

fn unquoted(name: &str) -> &str {
    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    inner.map(str::trim).filter(|name| !name.is_empty()).unwrap_or(name)
}

/// The typed text, shortened for an error message.
fn echo(text: &str) -> String {
    let mut echo: String = text.chars().take(ECHO_CHARACTERS_MAX).collect();
    if echo.len() < text.len() {
        echo.push('…');
    }
    printable(&echo).into_owned()
}

#[cfg(test)]
mod tests;
