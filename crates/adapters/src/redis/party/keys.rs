//! The names of a party session's keys and channels.
//!
//! Everything of a session has the session's id as its hash tag, so that on a Cluster it is in one
//! slot. An id has neither braces nor a colon, so that no two sessions share a key.

use heartline_party::PartyStoreError;
use heartline_party::value::validate;

use crate::redis::config::RedisConfig;

/// The names of keys and channels.
#[derive(Debug, Clone)]
pub(super) struct PartyKeys {
    prefix: String,
}

/// The names of one session.
#[derive(Debug)]
pub(super) struct SessionKeys {
    /// The name of the channel, with which all keys begin.
    pub(super) channel: String,
}

impl PartyKeys {
    pub(super) fn new(config: &RedisConfig) -> Self {
        Self { prefix: config.key_prefix().to_owned() }
    }

    /// The names of a session; an error if no session can have this id.
    pub(super) fn session(&self, session_id: &str) -> Result<SessionKeys, PartyStoreError> {
        validate::session_id(session_id).map_err(PartyStoreError::new)?;
        Ok(SessionKeys { channel: format!("{}party:{{{session_id}}}", self.prefix) })
    }

    /// The session whose channel this is.
    pub(super) fn session_of<'channel>(&self, channel: &'channel str) -> Option<&'channel str> {
        let tagged = channel.strip_prefix(&self.prefix)?.strip_prefix("party:{")?;
        tagged.strip_suffix('}')
    }

    /// The sessions with members.
    pub(super) fn active(&self) -> String {
        format!("{}party:active", self.prefix)
    }

    /// The channel on which nodes ask each other for their copies.
    pub(super) fn wanted(&self) -> String {
        format!("{}party:wanted", self.prefix)
    }
}

impl SessionKeys {
    pub(super) fn state(&self) -> String {
        format!("{}:state", self.channel)
    }

    pub(super) fn events(&self) -> String {
        format!("{}:events", self.channel)
    }

    pub(super) fn lock(&self) -> String {
        format!("{}:lock", self.channel)
    }

    pub(super) fn offer(&self) -> String {
        format!("{}:offer", self.channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_its_id_as_hash_tag_and_is_found_by_its_channel() {
        let config = RedisConfig::from_url("redis://localhost", "test:").unwrap();
        let keys = PartyKeys::new(&config);
        let session = keys.session("a-1").unwrap();
        assert_eq!(session.state(), "test:party:{a-1}:state");
        assert_eq!(session.events(), "test:party:{a-1}:events");
        assert_eq!(keys.session_of(&session.channel), Some("a-1"));
        assert_eq!(keys.session_of(&keys.wanted()), None);
    }

    #[test]
    fn an_id_that_would_name_another_key_is_refused() {
        let keys = PartyKeys::new(&RedisConfig::from_url("redis://localhost", "").unwrap());
        for id in ["", "a}", "{a", "a:b", "a*", "ä", &"a".repeat(101)] {
            assert!(keys.session(id).is_err(), "{id}");
        }
    }
}
