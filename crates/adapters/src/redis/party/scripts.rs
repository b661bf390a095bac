//! The scripts that decide about sessions, each one atomic step within one slot.

use heartline_party::{Commit, OFFER_LIFETIME, Revision, Stored};
use redis::Cmd;

use super::RedisPartyConfig;
use super::keys::{PartyKeys, SessionKeys};
use super::revision;
use super::sessions::SILENCE_MAX;
use crate::redis::client::RedisClient;
use crate::redis::script::Script;
use crate::redis::scripts::ms;

/// The largest entry that is part of its notice. Watchers read a larger one from the store.
const TOLD_BYTES_MAX: usize = 64 * 1024;

const PRELUDE: &str = include_str!("../scripts/party_prelude.lua");

/// The scripts and the arguments that all calls share.
#[derive(Debug)]
pub(super) struct PartyScripts {
    pub(super) commit: Script,
    pub(super) entries: Script,
    pub(super) remove: Script,
    pub(super) active: Script,
    pub(super) unlock: Script,
    pub(super) offer: Script,
    config: RedisPartyConfig,
    publish_verb: &'static str,
    active_key: String,
    is_cluster: bool,
}

impl PartyScripts {
    pub(super) fn new(client: &RedisClient, keys: &PartyKeys, config: RedisPartyConfig) -> Self {
        let with_prelude = |code: &str| Script::new(format!("{PRELUDE}\n{code}"));
        Self {
            commit: with_prelude(include_str!("../scripts/party_commit.lua")),
            entries: Script::new(include_str!("../scripts/party_entries.lua")),
            remove: Script::new(include_str!("../scripts/party_remove.lua")),
            active: Script::new(include_str!("../scripts/party_active.lua")),
            unlock: Script::new(include_str!("../scripts/party_unlock.lua")),
            offer: with_prelude(include_str!("../scripts/party_offer.lua")),
            config,
            publish_verb: client.publish_verb(),
            active_key: keys.active(),
            is_cluster: client.config().is_cluster(),
        }
    }

    pub(super) fn commit_call(&self, keys: &SessionKeys, commit: &Commit) -> Cmd {
        let Commit { session_id, expected, revision, changes, entry, entries_kept, is_active } =
            commit;
        let expected_text = expected.map_or_else(String::new, revision::write);
        let mut command = self.commit.call(self.keys_of(keys), expected_text);
        command.arg(revision::write(*revision)).arg(&entry[..]).arg((*entries_kept).max(1));
        command.arg(u8::from(expected.and_then(successor) == Some(*revision)));
        command.arg(ms(self.config.session_ttl)).arg(ms(self.config.event_log_ttl));
        command.arg(self.publish_verb).arg(&keys.channel).arg(TOLD_BYTES_MAX);
        command.arg(session_id).arg(u8::from(*is_active)).arg((1 + changes.set.len()) * 2);
        command.arg(revision::FIELD).arg(revision::write(*revision));
        for (name, value) in &changes.set {
            command.arg(name).arg(&value[..]);
        }
        command.arg(&changes.remove);
        command
    }

    pub(super) fn remove_call(
        &self,
        keys: &SessionKeys,
        session_id: &str,
        revision: Revision,
    ) -> Cmd {
        let mut command = self.remove.call(self.keys_of(keys), revision::write(revision));
        command.arg(session_id);
        command
    }

    /// Records activity, and lists the sessions whose last activity is oldest.
    pub(super) fn active_call(&self, limit: usize, session_ids: &[String]) -> Cmd {
        let mut command = self.active.call(&self.active_key, limit);
        command.arg(ms(SILENCE_MAX)).arg(session_ids);
        command
    }

    pub(super) fn offer_call(&self, keys: &SessionKeys, copy: &Stored) -> Cmd {
        let Revision { incarnation, version } = copy.revision;
        let mut command = self.offer.call(keys.offer(), incarnation);
        command.arg(version).arg(ms(OFFER_LIFETIME));
        for (name, value) in &copy.fields {
            command.arg(name).arg(&value[..]);
        }
        command
    }

    /// The keys of a step, with the list of active sessions where that can be in the same step.
    fn keys_of(&self, keys: &SessionKeys) -> Vec<String> {
        let mut names = vec![keys.state(), keys.events()];
        if !self.is_cluster {
            names.push(self.active_key.clone());
        }
        names
    }
}

/// The revision after this one.
fn successor(revision: Revision) -> Option<Revision> {
    let version = revision.version.checked_add(1)?;
    Some(Revision { version, ..revision })
}
