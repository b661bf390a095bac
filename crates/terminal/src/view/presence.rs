//! Formats the presence of users.

use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{Presence, PresenceStatus};
use heartline_protocol::{Timestamp, UserId};

use super::View;
use super::message::date_and_time;

/// Users that a sentence lists.
const NAMED_MAX: usize = 5;

impl View {
    /// The presence of a user.
    pub(crate) fn presence(self, now: Timestamp, presence: &Presence) -> String {
        let Presence { user_id, status, last_seen, stale, .. } = presence;
        let sentence = match (status, last_seen) {
            (PresenceStatus::Online, _) => format!("{user_id} is online"),
            (PresenceStatus::Offline, Some(last_seen)) => {
                format!("{user_id} is offline, last seen at {}", date_and_time(*last_seen, now))
            }
            (PresenceStatus::Offline, None) => format!("{user_id} is offline"),
            (PresenceStatus::Unknown, _) if *stale => {
                format!(
                    "the status of {user_id} is unknown: the server cannot read it at the moment"
                )
            }
            (PresenceStatus::Unknown, _) => format!("the status of {user_id} is unknown"),
        };
        self.info(now, &sentence)
    }
}

/// The meaning of a visibility.
pub(crate) fn visibility(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Everyone => "everyone sees whether you are online",
        Visibility::ContactsOnly => {
            "your contacts see whether you are online: /contact USER adds one"
        }
        Visibility::Nobody => "nobody sees whether you are online",
    }
}

/// Users separated by commas, shortened if there are many.
pub(crate) fn listed(user_ids: &[UserId]) -> String {
    let named = user_ids.iter().take(NAMED_MAX).map(|user_id| user_id.as_str());
    let named = named.collect::<Vec<_>>().join(", ");
    if user_ids.len() > NAMED_MAX { format!("{named}, …") } else { named }
}

#[cfg(test)]
mod tests;
