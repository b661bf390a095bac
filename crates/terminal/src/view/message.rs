//! How chats look: what was said, what waits, and lists.

use std::fmt::Write;

use heartline_client::Draft;
use heartline_protocol::rest::ListedChat;
use heartline_protocol::server_frame::{Chat, Message};
use heartline_protocol::{ErrorFrame, Timestamp, UserId};

use super::{CYAN, DIM, PLAIN, RESET, View, printable, to_seconds};

/// What content is that needs no explanation.
const PLAIN_TEXT: &str = "text/plain";
/// Characters of a message where it only reminds of it.
const EXCERPT_CHARACTERS_MAX: usize = 60;

/// A message with what is known around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) message: &'a Message,
    /// Whether the user at the terminal said it.
    pub(crate) own: bool,
    /// The chat, if it is not the one that the user is in.
    pub(crate) place: Option<&'a str>,
}

impl View {
    /// A message: when, where if it is elsewhere, who and what.
    pub(crate) fn said(self, now: Timestamp, said: Said<'_>) -> String {
        let Said { message, own, place } = said;
        let time = moment(message.created_at, now);
        let sender = message.sender_id.as_str();
        let content = content_of(message);
        self.speech(&time, place, sender, if own { PLAIN } else { CYAN }, &content)
    }

    /// A message of one's own that has no answer yet.
    pub(crate) fn waiting(
        self,
        at: Timestamp,
        draft: &Draft,
        me: Option<&UserId>,
        place: Option<&str>,
    ) -> String {
        let sender = me.map_or("you", |me| me.as_str());
        let content = format!("{} (waiting for the server)", printable(&draft.content));
        self.speech(&to_seconds(at), place, sender, DIM, &content)
    }

    /// A message of one's own that is definitely not stored.
    pub(crate) fn refused(
        self,
        at: Timestamp,
        content: Option<&str>,
        place: &str,
        error: &ErrorFrame,
    ) -> String {
        let content = content.map(|content| format!(" \"{}\"", excerpt(content)));
        let (content, code) = (content.unwrap_or_default(), error.code.as_str());
        let why = &error.message;
        self.trouble(at, &format!("not sent to {place}:{content}: {why} ({code})"))
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
        let _ = write!(line, " ({}", counted(chat.members.len() as u64, "member"));
        let _ = match chat.head_sequence {
            0 => write!(line, ", nothing said yet)"),
            head if *last_acked_sequence >= head => {
                write!(line, ", {}, all read)", counted(head, "message"))
            }
            head => {
                let messages = counted(head, "message");
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

    /// The members of a chat, by role.
    pub(crate) fn members(self, label: &str, chat: &Chat) -> String {
        let mut lines = format!("{}:\n", printable(label));
        for member in &chat.members {
            let (_, role) = super::super::book::role_name(member.role);
            let _ = writeln!(lines, "  {role:<6} {}", member.user_id);
        }
        lines
    }

    fn speech(
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

/// What was said, safe to be written.
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

/// The time, with the date if it is another day's.
pub(super) fn moment(at: Timestamp, now: Timestamp) -> String {
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
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests;
