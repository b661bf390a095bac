//! Formats messages and chats.

use std::fmt::Write;

use heartline_client::Draft;
use heartline_protocol::rest::ListedChat;
use heartline_protocol::server_frame::{Chat, Message};
use heartline_protocol::{ErrorFrame, Timestamp, UserId};

use super::{CYAN, DIM, PLAIN, RESET, View, printable, to_seconds};

/// The content type that is not shown.
const PLAIN_TEXT: &str = "text/plain";
/// Characters of a message in a list or an error.
const EXCERPT_CHARACTERS_MAX: usize = 60;

/// A message to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownMessage<'a> {
    pub(crate) message: &'a Message,
    /// Whether the user of the terminal sent the message.
    pub(crate) own: bool,
    /// The chat, if it is not the current one.
    pub(crate) place: Option<&'a str>,
}

impl View {
    /// A message: time, chat if it is not the current one, sender and content.
    pub(crate) fn message(self, now: Timestamp, shown: ShownMessage<'_>) -> String {
        let ShownMessage { message, own, place } = shown;
        let time = date_and_time(message.created_at, now);
        let sender = message.sender_id.as_str();
        let content = content_of(message);
        self.message_line(&time, place, sender, if own { PLAIN } else { CYAN }, &content)
    }

    /// An own message that is not answered yet.
    pub(crate) fn waiting(
        self,
        at: Timestamp,
        draft: &Draft,
        me: Option<&UserId>,
        place: Option<&str>,
    ) -> String {
        let sender = me.map_or("you", |me| me.as_str());
        let content = format!("{} (waiting for the server)", printable(&draft.content));
        self.message_line(&to_seconds(at), place, sender, DIM, &content)
    }

    /// An own message that the server rejected.
    pub(crate) fn rejected(
        self,
        at: Timestamp,
        content: Option<&str>,
        place: &str,
        error: &ErrorFrame,
    ) -> String {
        let content = content.map(|content| format!(" \"{}\"", excerpt(content)));
        let (content, code) = (content.unwrap_or_default(), error.code.as_str());
        let why = &error.message;
        self.error(at, &format!("not sent to {place}:{content}: {why} ({code})"))
    }

    /// A line of the list of chats.
    pub(crate) fn listed(
        self,
        number: usize,
        is_current: bool,
        label: &str,
        listed: &ListedChat,
    ) -> String {
        let ListedChat { chat, last_acked_sequence, last_message } = listed;
        let mark = if is_current { '*' } else { ' ' };
        let mut line = format!("{number:>3} {mark} {}", printable(label));
        let _ = write!(line, " ({}", count(chat.members.len() as u64, "member"));
        let _ = match chat.head_sequence {
            0 => write!(line, ", no messages yet)"),
            head if *last_acked_sequence >= head => {
                write!(line, ", {}, all read)", count(head, "message"))
            }
            head => {
                let messages = count(head, "message");
                write!(line, ", {messages}, read up to {last_acked_sequence})")
            }
        };
        if let Some(message) = last_message {
            let content = content_of(message);
            let _ = write!(line, " {}: {}", message.sender_id, excerpt(&content));
        }
        let (dim, reset) = if self.with_colours { (DIM, RESET) } else { ("", "") };
        let _ = writeln!(line, "  {dim}{}{reset}", chat.chat_id);
        line
    }

    /// The members of a chat with their roles.
    pub(crate) fn members(self, label: &str, chat: &Chat) -> String {
        let mut lines = format!("{}:\n", printable(label));
        for member in &chat.members {
            let (_, role) = super::super::chat_list::role_name(member.role);
            let _ = writeln!(lines, "  {role:<6} {}", member.user_id);
        }
        lines
    }

    fn message_line(
        self,
        time: &str,
        place: Option<&str>,
        sender: &str,
        colour: &str,
        content: &str,
    ) -> String {
        let place = place.map(|place| format!("[{}] ", printable(place))).unwrap_or_default();
        if !self.with_colours {
            return format!("{time} {place}{sender}: {content}\n");
        }
        match colour {
            PLAIN => format!("{DIM}{time}{RESET} {place}{sender}: {content}\n"),
            DIM => format!("{DIM}{time} {place}{sender}: {content}{RESET}\n"),
            colour => {
                format!("{DIM}{time}{RESET} {place}{colour}{sender}{RESET}: {content}\n")
            }
        }
    }
}

/// The content of a message, safe to write.
fn content_of(message: &Message) -> String {
    if message.deleted {
        return "(deleted)".to_owned();
    }
    let content = printable(&message.content);
    if message.content_type == PLAIN_TEXT {
        content.into_owned()
    } else {
        format!("({}) {content}", printable(&message.content_type))
    }
}

/// The time of day, with the date if it is not today.
pub(super) fn date_and_time(at: Timestamp, now: Timestamp) -> String {
    let (then, now) = (at.to_string(), now.to_string());
    match (then.get(..10), now.get(..10)) {
        (Some(day), Some(today)) if day != today => format!("{day} {}", to_seconds(at)),
        _ => to_seconds(at),
    }
}

fn excerpt(content: &str) -> String {
    let mut excerpt: String = content.chars().take(EXCERPT_CHARACTERS_MAX).collect();
    if excerpt.len() < content.len() {
        excerpt.push('…');
    }
    excerpt
}

/// A number with its noun.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests;
