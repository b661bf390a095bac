//! The channels of a subscription, and whether each is subscribed yet.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::redis::failure::RedisFailure;

/// Channels of one subscription at most.
const CHANNELS_MAX: usize = 65_536;

/// The wanted channels. Callers add and remove channels, and the task that holds the connections
/// subscribes and unsubscribes.
#[derive(Debug, Default)]
pub(in crate::redis) struct Channels {
    wanted: Mutex<Wanted>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Wanted {
    /// The wanted channels, each with whether it has been subscribed since it was added. A later
    /// loss is an event of the whole subscription.
    channels: HashMap<String, watch::Sender<bool>>,
    /// Changes since the last [`Channels::take_change`]; no channel is in both sets.
    change: Change,
}

/// Channels to subscribe to and to unsubscribe from.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) joining: HashSet<String>,
    pub(super) leaving: HashSet<String>,
}

impl Channels {
    pub(super) fn new(channels: Vec<String>) -> Self {
        let wanted = channels.into_iter().map(|channel| (channel, watch::Sender::new(false)));
        let wanted = Wanted { channels: wanted.collect(), change: Change::default() };
        Self { wanted: Mutex::new(wanted), changed: Notify::new() }
    }

    /// Adds a channel, and waits until it is subscribed, also if another caller has added it. After
    /// a timeout the channel is removed unless another caller waits for it.
    pub(in crate::redis) async fn add(
        &self,
        channel: &str,
        timeout_after: Duration,
    ) -> Result<(), RedisFailure> {
        let mut waiting = self.want(channel)?;
        match timeout(timeout_after, waiting.is_heard.wait_for(|is_heard| *is_heard)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(RedisFailure::Unable("the channel was given up".to_owned())),
            Err(_) => Err(RedisFailure::Timeout),
        }
    }

    /// Removes a channel.
    pub(in crate::redis) fn remove(&self, channel: &str) {
        self.lock().remove(channel);
        self.changed.notify_one();
    }

    /// Whether a channel is wanted.
    pub(in crate::redis) fn contains(&self, channel: &str) -> bool {
        self.lock().channels.contains_key(channel)
    }

    /// All wanted channels, for new connections.
    pub(super) fn all(&self) -> HashSet<String> {
        let mut wanted = self.lock();
        wanted.change = Change::default();
        wanted.channels.keys().cloned().collect()
    }

    /// Waits for a change.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Removes and returns the changes since the last call.
    pub(super) fn take_change(&self) -> Change {
        mem::take(&mut self.lock().change)
    }

    /// Marks channels as subscribed.
    pub(super) fn heard<'name>(&self, channels: impl IntoIterator<Item = &'name String>) {
        let wanted = self.lock();
        for channel in channels {
            if let Some(is_heard) = wanted.channels.get(channel) {
                is_heard.send_replace(true);
            }
        }
    }

    fn want<'channel>(
        &'channel self,
        channel: &'channel str,
    ) -> Result<Waiting<'channel>, RedisFailure> {
        let mut wanted = self.lock();
        if let Some(is_heard) = wanted.channels.get(channel) {
            let is_heard = is_heard.subscribe();
            return Ok(Waiting { channels: self, channel, is_heard });
        }
        if wanted.channels.len() == CHANNELS_MAX {
            return Err(RedisFailure::Rejected("too many channels are subscribed".to_owned()));
        }
        let (sender, is_heard) = watch::channel(false);
        wanted.channels.insert(channel.to_owned(), sender);
        wanted.change.leaving.remove(channel);
        wanted.change.joining.insert(channel.to_owned());
        drop(wanted);
        self.changed.notify_one();
        Ok(Waiting { channels: self, channel, is_heard })
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wanted {
    fn remove(&mut self, channel: &str) {
        if self.channels.remove(channel).is_some() {
            self.change.joining.remove(channel);
            self.change.leaving.insert(channel.to_owned());
        }
    }
}

/// A caller that waits until a channel is subscribed.
struct Waiting<'channel> {
    channels: &'channel Channels,
    channel: &'channel str,
    is_heard: watch::Receiver<bool>,
}

impl Drop for Waiting<'_> {
    /// Removes a channel that was never subscribed and for which no other caller waits, however the
    /// wait ended.
    fn drop(&mut self) {
        let mut wanted = self.channels.lock();
        // Without its sender the channel was removed meanwhile.
        let is_over = *self.is_heard.borrow() || self.is_heard.has_changed().is_err();
        let waiting = wanted.channels.get(self.channel).map(watch::Sender::receiver_count);
        if !is_over && waiting == Some(1) {
            wanted.remove(self.channel);
            drop(wanted);
            self.channels.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A_MOMENT: Duration = Duration::from_millis(20);
    const A_WHILE: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn a_channel_that_nobody_waits_for_any_more_is_forgotten_unless_it_was_heard() {
        let channels = Channels::new(Vec::new());
        assert_eq!(channels.add("news", A_MOMENT).await, Err(RedisFailure::Timeout));
        assert!(!channels.contains("news"));
        assert!(channels.take_change().joining.is_empty());

        let (short, long) = (channels.add("news", A_MOMENT), channels.add("news", A_WHILE));
        let holder = async {
            tokio::time::sleep(A_MOMENT * 3).await;
            let joining = channels.take_change().joining;
            assert_eq!(joining.len(), 1, "the other one still waits");
            channels.heard(&joining);
        };
        let answers = tokio::join!(short, long, holder);
        assert_eq!((answers.0, answers.1), (Err(RedisFailure::Timeout), Ok(())));
        assert_eq!(channels.add("news", A_MOMENT).await, Ok(()), "it is heard already");
        channels.remove("news");
        assert!(channels.take_change().leaving.contains("news"));
    }

    #[tokio::test]
    async fn one_that_is_removed_while_it_is_waited_for_is_given_up_and_can_be_wanted_again() {
        let channels = Channels::new(Vec::new());
        let first = channels.add("news", A_WHILE);
        let again = async {
            tokio::task::yield_now().await;
            channels.take_change();
            channels.remove("news");
            channels.add("news", A_WHILE).await
        };
        let heard = async {
            tokio::time::sleep(A_MOMENT * 3).await;
            let change = channels.take_change();
            assert!(change.joining.contains("news") && change.leaving.is_empty());
            channels.heard(&change.joining);
        };
        let answers = tokio::join!(first, again, heard);
        assert!(matches!(answers.0, Err(RedisFailure::Unable(_))), "{:?}", answers.0);
        assert_eq!(answers.1, Ok(()));
    }
}
