//! Every key with the values that it accepts. The manual, this table and the typed structs name the
//! same keys; a test compares them.

use std::time::Duration;

use super::check;
use super::rule::Rule::{self, Boolean, Choice, Integer, List, Text};
use super::value::Value;

/// One key of the configuration.
pub(super) struct Key {
    /// The section of the key.
    pub(super) section: &'static str,
    /// The name of the key in its section.
    pub(super) name: &'static str,
    /// The rule for its values.
    pub(super) rule: Rule,
}

impl Key {
    /// `section.name`, as error messages show it.
    pub(super) fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// Whether this value must never be shown: a secret, or a URL that may contain a password.
    pub(super) fn hides(&self, value: &Value) -> bool {
        let is_secret =
            matches!(self.name, "hmac_secret" | "hmac_secrets" | "nextauth_secret" | "secret");
        let may_hold_password = matches!(value, Value::Text(text) if text.contains('@'));
        (is_secret && !value.is_empty()) || (self.name.ends_with("url") && may_hold_password)
    }
}

/// Finds a key by its section and name.
pub(super) fn find(section: &str, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.section == section && key.name == name)
}

/// Whether a section of this name exists.
pub(super) fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| key.section == name)
}

const MINUTE_SECONDS: u64 = 60;
const HOUR_SECONDS: u64 = 60 * MINUTE_SECONDS;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;

const fn duration(min_ms: u64, max_seconds: u64) -> Rule {
    Rule::Duration(Duration::from_millis(min_ms), Duration::from_secs(max_seconds))
}

const fn key(section: &'static str, name: &'static str, rule: Rule) -> Key {
    Key { section, name, rule }
}

/// The table, in the order of the manual.
pub(super) static KEYS: [Key; 81] = [
    key("server", "listen", Text(check::listen_address)),
    key("server", "name", Text(check::node_name)),
    key("server", "data_dir", Text(check::path)),
    key("server", "tls_cert", Text(check::one_line)),
    key("server", "tls_key", Text(check::one_line)),
    key("server", "allowed_origins", List(check::origin)),
    key("server", "trusted_proxies", List(check::network)),
    key("server", "planes", List(check::plane)),
    key("auth", "hmac_secrets", List(check::secret)),
    key("auth", "hmac_secret", Text(check::optional_secret)),
    key("auth", "public_key_files", List(check::path)),
    key("auth", "jwks_file", Text(check::one_line)),
    key("auth", "jwks_url", Text(check::optional_url)),
    key("auth", "issuer", Text(check::one_line)),
    key("auth", "audience", Text(check::one_line)),
    key("auth", "leeway", duration(0, 5 * MINUTE_SECONDS)),
    key("auth", "nextauth_secret", Text(check::optional_secret)),
    key("gateway", "heartbeat_interval", duration(100, 10 * MINUTE_SECONDS)),
    key("gateway", "heartbeat_timeout", duration(200, HOUR_SECONDS)),
    key("gateway", "auth_timeout", duration(100, 5 * MINUTE_SECONDS)),
    key("gateway", "token_grace", duration(0, HOUR_SECONDS)),
    key("gateway", "session_policy", Choice(&["multi_device", "single_session"])),
    key("gateway", "max_connection_age", duration(1000, 30 * DAY_SECONDS)),
    key("gateway", "drain_timeout", duration(5000, 10 * MINUTE_SECONDS)),
    key("limits", "outbox_messages", Integer(100, 1_000_000)),
    key("limits", "outbox_bytes", Integer(65_536, 1_073_741_824)),
    key("limits", "slow_grace", duration(1000, 5 * MINUTE_SECONDS)),
    key("limits", "urgent_frames", Integer(8, 10_000)),
    key("limits", "inbound_requests", Integer(1, 10_000)),
    key("limits", "send_rate", Integer(1, 100_000)),
    key("limits", "send_burst", Integer(1, 100_000)),
    key("limits", "frame_rate", Integer(1, 100_000)),
    key("limits", "frame_burst", Integer(1, 100_000)),
    key("limits", "typing_rate", Integer(1, 1000)),
    key("limits", "presence_rate", Integer(1, 1000)),
    // A message of full length, every byte escaped, must fit.
    key("limits", "frame_bytes", Integer(32_768, 1_048_576)),
    key("limits", "ingest_per_chat", Integer(1, 100_000)),
    key("limits", "ingest_per_node", Integer(1, 1_000_000)),
    key("limits", "sync_reads", Integer(1, 10_000)),
    key("limits", "breaker_failures", Integer(1, 1000)),
    key("limits", "breaker_window", duration(1000, 10 * MINUTE_SECONDS)),
    key("limits", "breaker_open", duration(100, 10 * MINUTE_SECONDS)),
    key("limits", "connections_per_user", Integer(1, 10_000)),
    key("limits", "connections_per_address", Integer(1, 1_000_000)),
    key("limits", "outbox_memory_percent", Integer(1, 90)),
    key("routing", "lease", duration(1000, 10 * MINUTE_SECONDS)),
    key("routing", "renew_interval", duration(100, 5 * MINUTE_SECONDS)),
    key("routing", "sweep_interval", duration(100, MINUTE_SECONDS)),
    key("routing", "shards", Integer(1, 16_384)),
    key("routing", "redis_down", Choice(&["accept", "reject"])),
    key("redis", "url", Text(check::redis_url)),
    key("redis", "tls_ca", Text(check::one_line)),
    key("redis", "key_prefix", Text(check::key_prefix)),
    key("cluster", "listen", Text(check::optional_listen_address)),
    key("cluster", "advertise", Text(check::optional_host_and_port)),
    key("cluster", "peers", List(check::host_and_port)),
    key("cluster", "secret", Text(check::optional_secret)),
    key("presence", "default_visibility", Choice(&["everyone", "contacts_only", "nobody"])),
    key("presence", "offline_linger", duration(0, 10 * MINUTE_SECONDS)),
    key("party", "require_auth", Boolean),
    key("party", "bad_token", Choice(&["refuse", "anonymous"])),
    key("party", "site_url", Text(check::optional_url)),
    key("party", "archive_url", Text(check::optional_store_url)),
    key("party", "archive_debounce", duration(1000, 10 * MINUTE_SECONDS)),
    key("party", "session_ttl", duration(60_000, 7 * DAY_SECONDS)),
    key("party", "auto_end", Text(check::auto_end)),
    key("party", "resume_grace", duration(0, 10 * MINUTE_SECONDS)),
    key("party", "event_log_size", Integer(1, 10_000)),
    key("party", "event_log_ttl", duration(1000, DAY_SECONDS)),
    key("party", "subscription_queue", Integer(10, 100_000)),
    key("party", "max_queue", Integer(1, 500)),
    key("party", "edit_rate", Integer(1, 10_000)),
    key("party", "join_rate", Integer(1, 10_000)),
    key("party", "query_rate", Integer(1, 100_000)),
    key("store", "url", Text(check::store_url)),
    key("store", "retention", Text(check::retention)),
    key("store", "disk_reserve", Text(check::bytes)),
    key("store", "allow_unsafe", Boolean),
    key("metrics", "listen", Text(check::metrics_listen)),
    key("log", "level", Text(check::log_filter)),
    key("log", "format", Choice(&["text", "json"])),
];
