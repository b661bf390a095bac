//! Cursors: the start of the next page of a list, as opaque text.
//!
//! A cursor holds a position and a digest of the position, the list and its reader, so that a
//! cursor that was changed, or that belongs to another list or user, is rejected. The digest needs
//! no key: a forged cursor only selects another position in a list that its user may read.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use heartline_gateway::Refusal;
use heartline_protocol::{ChatId, UserId};

use super::field;

/// The bytes of the digest in a cursor, enough to detect accidental changes.
const DIGEST_BYTES: usize = 12;

/// A list, as one reader sees it.
#[derive(Debug)]
pub(super) struct List<'a> {
    reader: &'a UserId,
    items: Items,
}

#[derive(Debug)]
enum Items {
    Chats,
    Contacts,
    Messages(ChatId),
}

impl<'a> List<'a> {
    /// The chats of a user.
    pub(super) fn chats(reader: &'a UserId) -> Self {
        Self { reader, items: Items::Chats }
    }

    /// The contacts of a user.
    pub(super) fn contacts(reader: &'a UserId) -> Self {
        Self { reader, items: Items::Contacts }
    }

    /// The messages of a chat.
    pub(super) fn messages(reader: &'a UserId, chat_id: ChatId) -> Self {
        Self { reader, items: Items::Messages(chat_id) }
    }

    /// The cursor of a position in this list.
    pub(super) fn cursor(&self, position: &str) -> String {
        let digest = self.digest(position);
        URL_SAFE_NO_PAD.encode([digest.as_slice(), position.as_bytes()].concat())
    }

    /// The position of a cursor of this list.
    pub(super) fn position(&self, cursor: &str) -> Result<String, Refusal> {
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
            let (digest, position) = bytes.split_at_checked(DIGEST_BYTES)?;
            let position = str::from_utf8(position).ok()?;
            (self.digest(position).as_slice() == digest).then(|| position.to_owned())
        };
        read().ok_or_else(foreign)
    }

    fn digest(&self, position: &str) -> [u8; DIGEST_BYTES] {
        let items = match self.items {
            Items::Chats => "chats".to_owned(),
            Items::Contacts => "contacts".to_owned(),
            Items::Messages(chat_id) => chat_id.to_string(),
        };
        // No part contains a line break, so different lists have different texts.
        let text = format!("{items}\n{}\n{position}", self.reader);
        let digest = digest(&SHA256, text.as_bytes());
        let mut bytes = [0; DIGEST_BYTES];
        bytes.copy_from_slice(&digest.as_ref()[..DIGEST_BYTES]);
        bytes
    }
}

/// The error for a cursor that does not belong to this list.
pub(super) fn foreign() -> Refusal {
    field::wrong("cursor", "the cursor does not belong to this list: send next_cursor unchanged")
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    #[test]
    fn a_cursor_is_valid_only_for_its_own_list_and_reader() {
        let (ana, bo): (UserId, UserId) = ("ana".parse().unwrap(), "bo".parse().unwrap());
        let (first, second) = (ChatId(Ulid(1)), ChatId(Ulid(2)));
        let cursor = List::messages(&ana, first).cursor("after 17");
        assert_eq!(List::messages(&ana, first).position(&cursor).unwrap(), "after 17");
        assert!(List::messages(&bo, first).position(&cursor).is_err());
        assert!(List::messages(&ana, second).position(&cursor).is_err());
        assert!(List::chats(&ana).position(&cursor).is_err());
        let cursor = List::chats(&ana).cursor("bo");
        assert!(List::contacts(&ana).position(&cursor).is_err());
    }

    #[test]
    fn a_cursor_with_any_character_changed_is_refused() {
        let ana: UserId = "ana".parse().unwrap();
        let list = List::chats(&ana);
        let cursor = list.cursor("chat_01ARZ3NDEKTSV4RRFFQ69G5FAV");
        for index in 0..cursor.len() {
            let other = if &cursor[index..=index] == "A" { "B" } else { "A" };
            let changed = format!("{}{other}{}", &cursor[..index], &cursor[index + 1..]);
            assert!(list.position(&changed).is_err(), "{changed}");
        }
        for bad in ["", "x", "!", "AAAAAAAAAAAAAAAA", &cursor[1..], &format!("{cursor}A")] {
            assert!(list.position(bad).is_err(), "{bad}");
        }
    }
}
