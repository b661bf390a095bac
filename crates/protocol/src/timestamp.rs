//! Timestamps in the form of the wire: ISO 8601, UTC, milliseconds.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time with a precision of milliseconds. This crate reads no clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Milliseconds since the Unix epoch.
    pub unix_ms: u64,
}

/// The last timestamp that a year of four digits can express: 9999-12-31T23:59:59.999Z.
const UNIX_MS_MAX: u64 = 253_402_300_799_999;

impl Timestamp {
    /// The timestamp of a whole number of seconds since the epoch, as in a token's `exp`.
    pub fn from_unix_seconds(seconds: u64) -> Self {
        Self { unix_ms: seconds.saturating_mul(1000).min(UNIX_MS_MAX) }
    }

    /// The timestamp that is `duration` later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let added = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self { unix_ms: self.unix_ms.saturating_add(added).min(UNIX_MS_MAX) }
    }

    /// The timestamp that is `duration` earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let removed = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self { unix_ms: self.unix_ms.saturating_sub(removed) }
    }

    /// The duration from this timestamp to `later`; zero if `later` is not later.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.unix_ms.saturating_sub(self.unix_ms))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { unix_ms: 0 }.plus(since_epoch)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = UNIX_EPOCH + Duration::from_millis(self.unix_ms);
        fmt::Display::fmt(&humantime::format_rfc3339_millis(time), formatter)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        humantime::parse_rfc3339(&text).map(Self::from).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_has_milliseconds_and_z() {
        let time = Timestamp { unix_ms: 1_700_000_000_007 };
        assert_eq!(time.to_string(), "2023-11-14T22:13:20.007Z");
        let json = serde_json::to_string(&time).unwrap();
        assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), time);
    }

    #[test]
    fn a_time_beyond_the_year_9999_is_clamped() {
        assert_eq!(Timestamp::from_unix_seconds(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }
}
