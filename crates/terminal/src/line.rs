//! What a typed line means.

use std::str::FromStr;

use heartline_protocol::UserId;
use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::Role;

use super::request::HISTORY_MAX;
use super::view::printable;

/// Characters of a line that are repeated to explain it.
const ECHO_CHARACTERS_MAX: usize = 40;
/// Messages of a history unless another number is typed.
const HISTORY: usize = 20;

/// What `/help` says.
pub(super) const HELP: &str = "\
hello             is said in the chat that you are in
/new NAME USER…   make a group; put a name with spaces into quotes
/direct USER      talk with one user
/chats            list your chats
/join CHAT        go to a chat: by its number in the list, its name or its id
/send TEXT        say something that begins with / or {
/history [N]      show the last messages, 20 unless you say how many
/who              show who is in the chat
/add USER [ROLE]  add somebody, or change their role: owner, admin or member
/remove USER      remove somebody
/rename NAME      give the chat another name
/leave            leave the chat
/typing           tell the others that you are typing
/watch USER…      show when these users come and go
/unwatch USER     show it no longer
/visibility WHO   choose who sees when you are here: everyone, contacts_only or nobody
/contact USER     make somebody your contact; you are contacts when both have done so
/uncontact USER   end that
/frames           show the frames of the protocol, or hide them again
{\"type\":…}        send a frame as it is, and show frames from then on
/heartbeat        send a heartbeat and show its answer
/refresh          offer the server a newer token
/drop             break the connection, as a failing network would; the client comes back
/quit             close the connection and end; so do Ctrl-C and the end of input
/help             show this
Times are in UTC. Before frames, <- came from the server and -> went to it.";

/// A line, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing but space.
    Empty,
    /// To be sent as it is.
    Frame(String),
    /// To be said in the chat that one is in.
    Say(String),
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
    /// Nothing of these, in a sentence.
    Unknown(String),
}

/// Understands a line.
pub(super) fn parse(text: &str) -> Line {
    let text = text.trim();
    if text.is_empty() {
        return Line::Empty;
    }
    if text.starts_with('{') {
        return Line::Frame(text.to_owned());
    }
    if !text.starts_with('/') {
        return Line::Say(text.to_owned());
    }
    let (command, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    understand(command, rest.trim()).unwrap_or_else(Line::Unknown)
}

fn understand(command: &str, rest: &str) -> Result<Line, String> {
    let alone = |line: Line| {
        let extra = || format!("{command} takes nothing after it; /help shows every command");
        if rest.is_empty() { Ok(line) } else { Err(extra()) }
    };
    match command {
        "/new" => new_group(rest),
        "/direct" => one_user(rest, "/direct USER, for example: /direct bo").map(Line::Direct),
        "/chats" => alone(Line::Chats),
        "/join" => {
            some(rest, "/join CHAT: say its number, name or id; /chats lists yours").map(Line::Join)
        }
        "/send" => some(rest, "/send TEXT: say something").map(Line::Say),
        "/history" => history(rest),
        "/who" => alone(Line::Who),
        "/add" => add(rest),
        "/remove" => one_user(rest, "/remove USER, for example: /remove bo").map(Line::Remove),
        "/rename" => {
            let usage = "/rename NAME: say what the chat should be called";
            some(rest, usage).map(|name| Line::Rename(unquoted(&name).to_owned()))
        }
        "/leave" => alone(Line::Leave),
        "/typing" => alone(Line::Typing),
        "/watch" => watch(rest),
        "/unwatch" => one_user(rest, "/unwatch USER, for example: /unwatch bo").map(Line::Unwatch),
        "/visibility" => visibility(rest),
        "/contact" => one_user(rest, "/contact USER, for example: /contact bo").map(Line::Contact),
        "/uncontact" => {
            one_user(rest, "/uncontact USER, for example: /uncontact bo").map(Line::Uncontact)
        }
        "/frames" => alone(Line::Frames),
        "/heartbeat" => alone(Line::Heartbeat),
        "/refresh" => alone(Line::Refresh),
        "/drop" => alone(Line::Drop),
        "/quit" | "/exit" => alone(Line::Quit),
        "/help" | "/?" => alone(Line::Help),
        _ => Err(format!(
            "there is no command {}; /help shows those that there are, and /send says what begins \
             with a slash",
            echo(command)
        )),
    }
}

/// A name, in quotes if it has spaces, and who else belongs to the group.
fn new_group(rest: &str) -> Result<Line, String> {
    let usage = || {
        "/new NAME USER… makes a group with at least one other user, for example: \
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

/// Users with spaces or commas between them.
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
        _ => return Err("/visibility WHO: say everyone, contacts_only or nobody".to_owned()),
    };
    Ok(Line::Visibility(visibility))
}

fn history(rest: &str) -> Result<Line, String> {
    if rest.is_empty() {
        return Ok(Line::History(HISTORY));
    }
    match rest.parse() {
        Ok(count @ 1..=HISTORY_MAX) => Ok(Line::History(count)),
        _ => Err(format!("/history [N]: say how many messages, from 1 to {HISTORY_MAX}")),
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
            return Err(format!("{} is no role: say owner, admin or member", echo(other)));
        }
    };
    Ok(Line::Add { user_id, role })
}

fn some(rest: &str, usage: &str) -> Result<String, String> {
    if rest.is_empty() { Err(usage.to_owned()) } else { Ok(rest.to_owned()) }
}

fn one_user(rest: &str, usage: &str) -> Result<UserId, String> {
    some(rest, usage).and_then(|text| user(&text))
}

fn user(text: &str) -> Result<UserId, String> {
    UserId::from_str(text)
        .map_err(|error| format!("{} is nobody's id: it must be {}", echo(text), error.expected))
}

fn unquoted(name: &str) -> &str {
    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    inner.map(str::trim).filter(|name| !name.is_empty()).unwrap_or(name)
}

/// What was typed, short enough to be repeated.
fn echo(text: &str) -> String {
    let mut echo: String = text.chars().take(ECHO_CHARACTERS_MAX).collect();
    if echo.len() < text.len() {
        echo.push('…');
    }
    printable(&echo).into_owned()
}

#[cfg(test)]
mod tests;
