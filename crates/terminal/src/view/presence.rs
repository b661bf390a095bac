//! Whether people are here, in words.

use heartline_protocol::rest::Visibility;
use heartline_protocol::server_frame::{Presence, PresenceStatus};
use heartline_protocol::{Timestamp, UserId};

use super::View;
use super::speech::moment;

/// Users that a sentence names at most.
const NAMED_MAX: usize = 5;

impl View {
    /// Whether somebody is here.
    pub(crate) fn presence(self, now: Timestamp, presence: &Presence) -> String {
        let Presence { user_id, status, last_seen, stale, .. } = presence;
        let sentence = match (status, last_seen) {
            (PresenceStatus::Online, _) => format!("{user_id} is online"),
            (PresenceStatus::Offline, Some(last_seen)) => {
                format!("{user_id} was last here at {}", moment(*last_seen, now))
            }
            (PresenceStatus::Offline, None) => format!("{user_id} is offline"),
            (PresenceStatus::Unknown, _) if *stale => {
                format!("{user_id} is unknown, because the server cannot tell at the moment")
            }
            (PresenceStatus::Unknown, _) => format!("{user_id} is unknown"),
        };
        self.state(now, &sentence)
    }
}

/// What a choice of visibility means.
pub(crate) fn visibility(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Everyone => "everyone sees when you are here",
        Visibility::ContactsOnly => "your contacts see when you are here: /contact USER makes one",
        Visibility::Nobody => "nobody sees when you are here",
    }
}

/// Users in a row, not all if there are many.
pub(crate) fn listed(user_ids: &[UserId]) -> String {
    let named = user_ids.iter().take(NAMED_MAX).map(|user_id| user_id.as_str());
    let named = named.collect::<Vec<_>>().join(", ");
    if user_ids.len() > NAMED_MAX { format!("{named}, …") } else { named }
}

#[cfg(test)]
mod tests;
