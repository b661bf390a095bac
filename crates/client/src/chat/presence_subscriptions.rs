//! Whose presence the application wants to know, and telling the server so on every connection.

use std::collections::{BTreeMap, BTreeSet};

use heartline_protocol::client_frame::PresenceUsers;
use heartline_protocol::limits::{ClientLimits, PRESENCE_USERS_PER_CONNECTION_MAX};
use heartline_protocol::{ClientFrame, ErrorFrame, RequestId, UserId};
use tokio::time::Instant;

use crate::back_off::BackOff;
use crate::chat::pace::Pace;
use crate::chat::verdict::{Verdict, judge};

/// Why users are not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// They would be more than one connection may watch; none of them is.
    #[error("at most {PRESENCE_USERS_PER_CONNECTION_MAX} users can be watched")]
    TooMany,
    /// The client has stopped; the last event said why.
    #[error("the client has stopped")]
    Stopped,
}

/// Whom the application watches.
#[derive(Debug)]
pub(crate) struct Watching {
    /// What the application wants, whatever happens to connections.
    wanted: BTreeSet<UserId>,
    /// Whom this connection watches as far as the server has answered.
    served: BTreeSet<UserId>,
    /// What the server is still to be told: whether to begin or to end. A later wish takes the
    /// place of an earlier one.
    untold: BTreeMap<UserId, Wish>,
    /// The request on its way. There is one at a time, so that wishes arrive in their order.
    asked: Option<Asked>,
    /// Nothing is asked before, because the server asked for a pause.
    paused_until: Option<Instant>,
    pace: Pace,
    users_per_frame: usize,
    /// Requests since the start.
    requests: u64,
    back_off: BackOff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Begin,
    End,
}

#[derive(Debug)]
struct Asked {
    request_id: RequestId,
    user_ids: Vec<UserId>,
    wish: Wish,
}

/// What an error meant here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is about something else.
    NotMine,
    /// The same is asked for again.
    ForNow,
    /// These users are not watched.
    Definitely(Vec<UserId>),
}

impl Watching {
    /// Nobody is watched.
    pub(crate) fn new(back_off: BackOff) -> Self {
        let limits = ClientLimits::default();
        Self {
            wanted: BTreeSet::new(),
            served: BTreeSet::new(),
            untold: BTreeMap::new(),
            asked: None,
            paused_until: None,
            pace: pace(&limits),
            users_per_frame: users_per_frame(&limits),
            requests: 0,
            back_off,
        }
    }

    /// The application wants to watch users: all or, if they are too many, none.
    pub(crate) fn subscribe(&mut self, user_ids: &[UserId]) -> Result<(), WatchError> {
        let new: BTreeSet<_> = user_ids.iter().filter(|id| !self.wanted.contains(*id)).collect();
        if self.wanted.len() + new.len() > PRESENCE_USERS_PER_CONNECTION_MAX {
            return Err(WatchError::TooMany);
        }
        for user_id in user_ids {
            self.wanted.insert(user_id.clone());
            self.untold.insert(user_id.clone(), Wish::Begin);
        }
        Ok(())
    }

    /// It does no longer. The server need not hear of users whom it was never asked for.
    pub(crate) fn unsubscribe(&mut self, user_ids: &[UserId]) {
        for user_id in user_ids {
            self.wanted.remove(user_id);
            if self.served.contains(user_id) || self.has_asked(user_id).is_some() {
                self.untold.insert(user_id.clone(), Wish::End);
            } else {
                self.untold.remove(user_id);
            }
        }
    }

    /// What is being asked for a user, if anything is.
    fn has_asked(&self, user_id: &UserId) -> Option<Wish> {
        let asked = self.asked.as_ref().filter(|asked| asked.user_ids.contains(user_id));
        asked.map(|asked| asked.wish)
    }

    /// Whether what the server still says of a user is of no interest any more.
    pub(crate) fn is_ending(&self, user_id: &UserId) -> bool {
        let untold = self.untold.get(user_id).copied();
        untold.or(self.has_asked(user_id)) == Some(Wish::End)
    }

    /// A connection begins, which watches nobody yet.
    pub(crate) fn connected(&mut self, limits: &ClientLimits) {
        self.disconnected();
        (self.pace, self.users_per_frame) = (pace(limits), users_per_frame(limits));
        self.untold = self.wanted.iter().map(|user_id| (user_id.clone(), Wish::Begin)).collect();
    }

    /// The connection is over, and its watches with it.
    pub(crate) fn disconnected(&mut self) {
        (self.asked, self.paused_until) = (None, None);
        self.untold.clear();
        self.served.clear();
    }

    /// A newer token is in force: what waited for it goes on.
    pub(crate) fn token_refreshed(&mut self) {
        self.paused_until = None;
    }

    /// When there is something to tell the server, if there is.
    pub(crate) fn due_at(&self, now: Instant) -> Option<Instant> {
        if self.asked.is_some() || self.untold.is_empty() {
            return None;
        }
        let ready_at = self.pace.ready_at(now);
        Some(self.paused_until.map_or(ready_at, |until| until.max(ready_at)))
    }

    /// What to tell it now. Ends come first, because they make room.
    pub(crate) fn next(&mut self, now: Instant) -> Option<ClientFrame> {
        if self.due_at(now)? > now {
            return None;
        }
        let has_ends = self.untold.values().any(|wish| *wish == Wish::End);
        let wish = if has_ends { Wish::End } else { Wish::Begin };
        let of_wish = self.untold.iter().filter(|(_, other)| **other == wish);
        let user_ids: Vec<UserId> =
            of_wish.map(|(user_id, _)| user_id.clone()).take(self.users_per_frame).collect();
        user_ids.iter().for_each(|user_id| _ = self.untold.remove(user_id));
        self.requests += 1;
        let request_id: RequestId = format!("heartline-client-presence-{}", self.requests)
            .parse()
            .expect("a fixed prefix and a number are a legal request id");
        self.pace.spend(now);
        let frame = PresenceUsers { request_id: request_id.clone(), user_ids: user_ids.clone() };
        self.asked = Some(Asked { request_id, user_ids, wish });
        Some(match wish {
            Wish::Begin => ClientFrame::PresenceSubscribe(frame),
            Wish::End => ClientFrame::PresenceUnsubscribe(frame),
        })
    }

    /// A snapshot came, perhaps to what was asked here.
    pub(crate) fn answered(&mut self, request_id: &RequestId) {
        let is_it = |asked: &mut Asked| asked.request_id == *request_id;
        let Some(Asked { user_ids, wish, .. }) = self.asked.take_if(is_it) else { return };
        self.back_off.reset();
        match wish {
            Wish::Begin => self.served.extend(user_ids),
            Wish::End => self.served.retain(|user_id| !user_ids.contains(user_id)),
        }
    }

    /// An error came.
    pub(crate) fn refused(&mut self, error: &ErrorFrame, now: Instant) -> Refused {
        let is_it = |asked: &mut Asked| error.request_id.as_ref() == Some(&asked.request_id);
        let Some(Asked { user_ids, wish, .. }) = self.asked.take_if(is_it) else {
            return Refused::NotMine;
        };
        match (judge(error, &mut self.back_off), wish) {
            (Verdict::PauseAll(pause) | Verdict::PauseOne(pause), wish) => {
                self.paused_until = Some(now + pause);
                for user_id in user_ids {
                    self.untold.entry(user_id).or_insert(wish);
                }
                Refused::ForNow
            }
            (Verdict::Final, Wish::Begin) => {
                // Who was asked for again meanwhile has another chance.
                let is_over = |user_id: &UserId| !self.untold.contains_key(user_id);
                let user_ids: Vec<UserId> = user_ids.into_iter().filter(is_over).collect();
                user_ids.iter().for_each(|user_id| _ = self.wanted.remove(user_id));
                Refused::Definitely(user_ids)
            }
            (Verdict::Final, Wish::End) => Refused::ForNow,
        }
    }
}

/// One less than the server takes, so that frames which the network bunches together are not too
/// many.
fn pace(limits: &ClientLimits) -> Pace {
    let rate = limits.presence_rate.saturating_sub(1);
    Pace::within(rate, rate)
}

fn users_per_frame(limits: &ClientLimits) -> usize {
    usize::try_from(limits.presence_users_per_frame).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests;
