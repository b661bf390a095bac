//! Redis, standalone or Cluster: the directory of many nodes, and the client that all adapters
//! for Redis share.

mod config;
mod failure;
mod counters;
mod breaker;
mod connection;
mod script;
mod client;
mod topology;
mod message_queue;
mod subscription;
mod keys;
mod scripts;
mod server_clock;
mod changes;
mod directory;
mod settings;
mod server_info;
mod availability;
mod inspect;
mod link;
mod party;

pub use availability::RedisAvailability;
pub use client::{RedisClient, RedisTime};
pub use config::{DEADLINE_DEFAULT, RedisConfig, RedisConfigError};
pub use counters::RedisCounters;
pub use directory::{PresenceListener, RedisDirectory, RedisDirectoryConfig, RedisDirectoryError};
pub use failure::RedisFailure;
pub use inspect::{
    Anomaly, Inspection, Roster, Rule, Sweeps, Vitals, inspect, roster, sweeps, vitals,
};
pub use link::{RedisCarrier, RedisLinkTasks};
pub use party::{RedisPartyConfig, RedisPartyStore};
pub use script::Script;
pub use settings::{Finding, Severity, check_settings};
pub use subscription::{Event, Message, Subscription};

#[cfg(test)]
mod tests;
