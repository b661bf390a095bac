//! Checks of the texts of single keys. Each check returns the error message for the operator.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use heartline_adapters::postgres::PostgresConfig;
use heartline_adapters::redis::RedisConfig;
use heartline_adapters::sqlite::SqliteConfig;
use heartline_auth::SECRET_BYTES_MIN;
use heartline_routing::Plane;
use ipnet::IpNet;

use super::store_engine::StoreEngine;

const NAME_CHARACTERS_MAX: usize = 64;
const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The result of a check: nothing, or a message with the allowed values.
pub(super) type Verdict = Result<(), String>;

fn require(holds: bool, allowed: &str) -> Verdict {
    if holds { Ok(()) } else { Err(allowed.to_owned()) }
}

/// Free text on one line; a path, for example.
pub(super) fn one_line(text: &str) -> Verdict {
    require(!text.chars().any(char::is_control), "must be one line without control characters")
}

/// The path of a file in a list, which must not be empty.
pub(super) fn path(text: &str) -> Verdict {
    require(!text.is_empty(), "must be the path of a file; remove the empty entry")?;
    one_line(text)
}

/// An address and a port to listen on.
pub(super) fn listen_address(text: &str) -> Verdict {
    if text.parse::<SocketAddr>().is_ok() {
        return Ok(());
    }
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u64>().ok());
    require(port.is_none_or(|port| port <= u64::from(u16::MAX)), "the port must be 0 to 65535")?;
    Err("must be a numeric address and a port, such as \"127.0.0.1:7400\", \"0.0.0.0:7400\" or \
         \"[::1]:7400\""
        .to_owned())
}

/// Where metrics are served.
pub(super) fn metrics_listen(text: &str) -> Verdict {
    if text.is_empty() || text == "main" {
        return Ok(());
    }
    listen_address(text).map_err(|allowed| format!("{allowed}; or \"main\"; or \"\" for off"))
}

/// A node's name, short enough to leave room for the suffix of each start.
pub(super) fn node_name(text: &str) -> Verdict {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    require(
        (1..=NAME_CHARACTERS_MAX).contains(&text.len()) && text.bytes().all(is_legal),
        "must be 1 to 64 characters of A-Z a-z 0-9 - _ .",
    )
}

/// An origin as a browser writes it, or `*` for all.
pub(super) fn origin(text: &str) -> Verdict {
    if text == "*" {
        return Ok(());
    }
    let is_legal = |(scheme, host): (&str, &str)| {
        let is_scheme_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
        let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
        !scheme.is_empty()
            && scheme.bytes().all(is_scheme_byte)
            && !host.is_empty()
            && host.bytes().all(is_host_byte)
    };
    require(
        text.split_once("://").is_some_and(is_legal),
        "must be a scheme and a host, such as \"https://app.example.com\", with the port if it \
         is not the usual one, and no path or \"/\" after it",
    )?;
    let usual = [("https://", ":443"), ("http://", ":80")];
    let names_usual_port =
        usual.iter().any(|(scheme, port)| text.starts_with(scheme) && text.ends_with(port));
    require(!names_usual_port, "browsers leave the usual port out: remove it")
}

/// An address or a network.
pub(super) fn network(text: &str) -> Verdict {
    require(
        parse_network(text).is_some(),
        "must be an address or a network, such as \"192.0.2.7\" or \"10.0.0.0/8\"",
    )
}

/// A network; a plain address is a network of one.
pub(super) fn parse_network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// A shared secret, or nothing.
pub(super) fn optional_secret(text: &str) -> Verdict {
    if text.is_empty() { Ok(()) } else { secret(text) }
}

/// A shared secret.
pub(super) fn secret(text: &str) -> Verdict {
    if text.len() >= SECRET_BYTES_MIN {
        return Ok(());
    }
    Err(format!(
        "has {} bytes, but a secret needs at least {SECRET_BYTES_MIN}; make one with: \
         openssl rand -hex 32",
        text.len()
    ))
}

/// The address of a key set, or nothing.
pub(super) fn optional_url(text: &str) -> Verdict {
    if text.is_empty() {
        return Ok(());
    }
    let uri = text.parse::<http::Uri>().ok();
    let is_web = |uri: &http::Uri| {
        matches!(uri.scheme_str(), Some("https" | "http"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
    };
    require(
        uri.as_ref().is_some_and(is_web),
        "must be an https:// or http:// address without a user name or password, such as \
         \"https://id.example.com/.well-known/jwks.json\"",
    )
}

/// An address to listen on, or nothing.
pub(super) fn optional_listen_address(text: &str) -> Verdict {
    if text.is_empty() { Ok(()) } else { listen_address(text) }
}

/// A name or address and a port, or nothing.
pub(super) fn optional_host_and_port(text: &str) -> Verdict {
    if text.is_empty() { Ok(()) } else { host_and_port(text) }
}

/// A name or address and a port, as another node writes it.
pub(super) fn host_and_port(text: &str) -> Verdict {
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
    let is_legal = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && host.bytes().all(is_host_byte)
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    require(is_legal, "must be a host and a port, such as \"node-1.internal:7402\"")
}

/// The name of a plane.
pub(super) fn plane(text: &str) -> Verdict {
    let is_plane = Plane::ALL.iter().any(|plane| plane.as_str() == text);
    require(is_plane, "must be \"gateway\", \"ingest\" or \"fanout\"")
}

/// The URL of Redis, or nothing; the connection is tried at start.
pub(super) fn redis_url(text: &str) -> Verdict {
    if text.is_empty() {
        return Ok(());
    }
    one_line(text)?;
    match RedisConfig::from_url(text, "") {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// The prefix of keys.
pub(super) fn key_prefix(text: &str) -> Verdict {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    require(
        text.len() <= 64 && text.bytes().all(is_legal),
        "must be at most 64 characters of A-Z a-z 0-9 - _ . :",
    )
}

/// The URL of a store; the file itself is checked when the store is opened.
pub(super) fn store_url(text: &str) -> Verdict {
    one_line(text)?;
    if StoreEngine::of(text) == StoreEngine::Postgres {
        return match PostgresConfig::from_url(text) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
    }
    match SqliteConfig::from_url(text, Path::new(".")) {
        Ok(_) => Ok(()),
        Err(error) if text.starts_with("sqlite:") => Err(error.problem),
        Err(error) => Err(format!("{}, or postgres://USER:PASSWORD@HOST/DATABASE", error.problem)),
    }
}

/// The address of a store, or nothing.
pub(super) fn optional_store_url(text: &str) -> Verdict {
    if text.is_empty() { Ok(()) } else { store_url(text) }
}

/// After how long without members a party session is ended.
pub(super) fn auto_end(text: &str) -> Verdict {
    parse_auto_end(text).map(|_| ()).ok_or_else(|| {
        "must be \"never\" or a duration from 5m to 365days, such as \"12h\"".to_owned()
    })
}

/// The delay of a valid text; the inner `None` means never.
pub(super) fn parse_auto_end(text: &str) -> Option<Option<Duration>> {
    parse_or_word(text, "never", 5 * 60, 365)
}

/// A duration of at least so many seconds and at most so many days, or the word for none.
fn parse_or_word(
    text: &str,
    word: &str,
    seconds_min: u64,
    days_max: u64,
) -> Option<Option<Duration>> {
    if text == word {
        return Some(None);
    }
    let least = Duration::from_secs(seconds_min);
    let most = Duration::from_secs(days_max * 24 * 60 * 60);
    let duration = humantime::parse_duration(text).ok()?;
    (least..=most).contains(&duration).then_some(Some(duration))
}

/// How long messages are kept.
pub(super) fn retention(text: &str) -> Verdict {
    parse_retention(text).map(|_| ()).ok_or_else(|| {
        "must be \"forever\" or a duration from 1m to 36500d, such as \"90days\"".to_owned()
    })
}

/// The retention of a valid text; the inner `None` means for ever.
pub(super) fn parse_retention(text: &str) -> Option<Option<Duration>> {
    parse_or_word(text, "forever", 60, 36_500)
}

/// A size with its unit.
pub(super) fn bytes(text: &str) -> Verdict {
    parse_bytes(text).map(|_| ()).ok_or_else(|| {
        "must be a whole number with KiB, MiB or GiB, such as \"64MiB\", up to 1024GiB".to_owned()
    })
}

/// The bytes of a size.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let sized = |(unit, bytes): (&str, u64)| {
        let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        number.checked_mul(bytes).filter(|bytes| *bytes <= 1 << 40)
    };
    units.into_iter().find_map(sized)
}

/// Levels for the log, in general and by target.
pub(super) fn log_filter(text: &str) -> Verdict {
    let is_level = |level: &str| LOG_LEVELS.contains(&level);
    let is_target = |target: &str| {
        !target.is_empty()
            && target.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:".contains(&byte))
    };
    let is_directive = |part: &str| match part.split_once('=') {
        Some((target, level)) => is_target(target) && is_level(level),
        None => is_level(part),
    };
    require(
        text.split(',').all(is_directive),
        "must be off, error, warn, info, debug or trace, also by target after a comma, such as \
         \"info,heartline_gateway=debug\"",
    )
}
