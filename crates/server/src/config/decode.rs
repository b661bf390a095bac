//! Converts texts to types. The rules have checked them before, so a failure here is a bug that is
//! still reported like any other problem.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use heartline_gateway::config::SessionPolicy;
use heartline_routing::Planes;
use ipnet::IpNet;
use serde::de::{Deserialize, Deserializer, Error};

use super::check::{parse_auto_end, parse_bytes, parse_network, parse_retention};

/// Where metrics are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsListen {
    /// Metrics are not served.
    Off,
    /// On the main listener.
    Main,
    /// On a listener of their own.
    Address(SocketAddr),
}

impl<'de> Deserialize<'de> for MetricsListen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "" => Ok(Self::Off),
            "main" => Ok(Self::Main),
            address => address.parse().map(Self::Address).map_err(Error::custom),
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// JSON for machines: one object per line.
    Json,
}

pub(super) fn retention<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_retention(&text).ok_or_else(|| Error::custom("no retention"))
}

pub(super) fn auto_end<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_auto_end(&text).ok_or_else(|| Error::custom("no duration"))
}

pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_bytes(&text).ok_or_else(|| Error::custom("no size"))
}

pub(super) fn optional_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok((!text.is_empty()).then_some(text))
}

pub(super) fn optional_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let address = |text: String| text.parse().map_err(Error::custom);
    optional_text(deserializer)?.map(address).transpose()
}

pub(super) fn optional_path<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    Ok(optional_text(deserializer)?.map(PathBuf::from))
}

pub(super) fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let network = |text: &String| parse_network(text).ok_or_else(|| Error::custom("no network"));
    Vec::<String>::deserialize(deserializer)?.iter().map(network).collect()
}

pub(super) fn planes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Planes, D::Error> {
    Vec::<String>::deserialize(deserializer)?.join(",").parse().map_err(Error::custom)
}

pub(super) fn session_policy<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<SessionPolicy, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "multi_device" => Ok(SessionPolicy::MultiDevice),
        "single_session" => Ok(SessionPolicy::SingleSession),
        _ => Err(Error::custom("no session policy")),
    }
}
