//! Loading: the manual is complete, layers override one another, and every mistake has an error
//! message.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use heartline_gateway::config as gateway;

use super::keys::KEYS;
use super::layer::Layer as AnyLayer;
use super::settings::Settings;
use super::value::Value;
use super::*;

mod mistakes;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Files in memory; a missing one is not found, and `private` may not be read.
#[derive(Default)]
struct Shelf {
    files: BTreeMap<&'static str, Vec<u8>>,
    world_readable: bool,
}

impl Shelf {
    fn with(mut self, name: &'static str, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(name, content.into());
        self
    }
}

impl Files for Shelf {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let name = path.to_str().unwrap();
        if name.starts_with("private") {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let content = self.files.get(name).ok_or(ErrorKind::NotFound)?;
        Ok(content.iter().copied().take(bytes_max).collect())
    }

    fn is_world_readable(&self, _: &Path) -> bool {
        self.world_readable
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn load_with(
    shelf: &Shelf,
    file: Option<&str>,
    environment: &[(&str, &str)],
) -> Result<Loaded, ConfigErrors> {
    load(&Sources {
        preset: Layer::default(),
        file: file.map(Path::new),
        environment: variables(environment),
        arguments: Layer::default(),
        files: shelf,
    })
}

/// Loads a file with this text; the secret comes from the environment.
fn load_text(text: &str) -> Result<Loaded, ConfigErrors> {
    let shelf = Shelf::default().with("a.toml", text);
    load_with(&shelf, Some("a.toml"), &[("HEARTLINE__AUTH__HMAC_SECRET", SECRET)])
}

#[test]
fn the_manual_the_table_and_the_types_name_the_same_keys() {
    let manual = AnyLayer::from_file("manual", DEFAULTS);
    assert!(manual.problems.is_empty(), "{:?}", manual.problems);
    let mut in_manual: Vec<_> =
        manual.entries.iter().map(|entry| format!("{}.{}", entry.section, entry.name)).collect();
    let mut in_table: Vec<_> = KEYS.iter().map(|key| key.path()).collect();
    in_manual.sort();
    in_table.sort();
    assert_eq!(in_manual, in_table);
    // The types refuse unknown keys and missing ones.
    load_text("").unwrap();
}

/// The section of limits is read into two structs, which cannot refuse a key that neither knows.
#[test]
fn every_limit_reaches_the_types() {
    let defaults = format!("{:?}", load_text("").unwrap().config.limits);
    for key in KEYS.iter().filter(|key| key.section == "limits") {
        let value = match &Settings::defaults().get(key).value {
            Value::Integer(number) => (number + 1).to_string(),
            Value::Text(text) => format!("\"{text} 1ms\""),
            other => panic!("{} is {other}", key.path()),
        };
        let loaded = load_text(&format!("[limits]\n{} = {value}", key.name)).unwrap();
        assert_ne!(format!("{:?}", loaded.config.limits), defaults, "{}", key.path());
    }
}

#[test]
fn the_manual_explains_every_key() {
    let mut explained = false;
    for line in DEFAULTS.lines() {
        let is_key = !line.starts_with('#') && line.contains(" = ");
        assert!(!is_key || explained, "no comment above: {line}");
        // Two keys may share a comment; an empty line ends it.
        explained = line.starts_with('#') || (is_key && explained);
        assert!(line.len() <= 100, "too long: {line}");
    }
}

#[test]
fn the_defaults_are_those_of_the_gateway() {
    let config = load_text("").unwrap().config;
    let memory = gateway::Limits::default().outbox_memory * 4;
    let ours = format!("{:?}", config.gateway_within(memory));
    assert_eq!(ours, format!("{:?}", gateway::Config::default()));
}

#[test]
fn the_outbox_memory_is_a_share_of_the_processs_memory() {
    let config = load_text("[limits]\noutbox_memory_percent = 50").unwrap().config;
    assert_eq!(config.gateway_within(1000).limits.outbox_memory, 500);
    assert!(config.gateway_within(u64::MAX).limits.outbox_memory > u64::MAX / 3);
    assert!(config.gateway().limits.outbox_memory > 0);
}

#[test]
fn a_file_goes_over_the_defaults_and_the_environment_over_the_file() {
    let shelf = Shelf::default().with(
        "a.toml",
        "[gateway]\nheartbeat_interval = \"3s\"\nauth_timeout = \"7s\"\n[limits]\nsend_burst = 30",
    );
    let environment = [
        ("HEARTLINE__GATEWAY__AUTH_TIMEOUT", "8s"),
        ("HEARTLINE__LIMITS__SEND_RATE", "12"),
        ("HEARTLINE__AUTH__HMAC_SECRET", SECRET),
        ("HEARTLINE__SERVER__ALLOWED_ORIGINS", "https://a.example, https://b.example:8443"),
        ("HEARTLINE__SERVER__TRUSTED_PROXIES", "[\"10.0.0.0/8\", \"192.0.2.7\"]"),
        ("HEARTLINE_SECRET", "is another variable"),
        ("PATH", "/bin"),
    ];
    let loaded = load_with(&shelf, Some("a.toml"), &environment).unwrap();
    let config = loaded.config;
    assert_eq!(config.gateway.heartbeat_interval, Duration::from_secs(3));
    assert_eq!(config.gateway.auth_timeout, Duration::from_secs(8));
    assert_eq!((config.limits.gateway.send_rate, config.limits.gateway.send_burst), (12, 30));
    assert_eq!(config.server.allowed_origins, ["https://a.example", "https://b.example:8443"]);
    let proxies: Vec<_> = config.server.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(proxies, ["10.0.0.0/8", "192.0.2.7/32"]);
    assert_eq!(loaded.auth_keys.hmac_secrets, [SECRET]);
}

#[test]
fn planes_that_cannot_run_apart_are_refused_with_what_to_change() {
    let cluster = [
        ("HEARTLINE__AUTH__HMAC_SECRET", SECRET),
        ("HEARTLINE__REDIS__URL", "redis://redis"),
        ("HEARTLINE__STORE__URL", "postgres://user@postgres/chats"),
        ("HEARTLINE__CLUSTER__LISTEN", "127.0.0.1:7402"),
        ("HEARTLINE__CLUSTER__SECRET", SECRET),
    ];
    let load = |planes| {
        let environment = [&cluster[..], &[("HEARTLINE__SERVER__PLANES", planes)]].concat();
        load_with(&Shelf::default(), None, &environment)
    };
    for planes in ["gateway,ingest,fanout", "ingest,fanout"] {
        assert_eq!(load(planes).unwrap().config.server.planes.to_string(), planes);
    }
    for (planes, sentence) in [
        ("gateway,ingest", "name both or neither"),
        ("fanout", "name both or neither"),
        ("gateway", "name ingest and fanout too"),
    ] {
        let refused = load(planes).unwrap_err().to_string();
        assert!(refused.contains(sentence), "{planes}: {refused}");
    }
}

#[test]
fn an_empty_variable_unsets_what_the_file_set() {
    let shelf = Shelf::default().with("a.toml", "[auth]\njwks_url = \"https://id.example/keys\"");
    let environment =
        [("HEARTLINE__AUTH__JWKS_URL", ""), ("HEARTLINE__AUTH__HMAC_SECRETS", SECRET)];
    let loaded = load_with(&shelf, Some("a.toml"), &environment).unwrap();
    assert_eq!(loaded.auth_keys.jwks_url, None);
    assert_eq!(loaded.auth_keys.hmac_secrets, [SECRET]);
}

#[test]
fn a_preset_lies_below_the_environment_and_arguments_above_it() {
    let preset = Layer::default()
        .with("dev", "auth", "hmac_secret", SECRET)
        .with("dev", "metrics", "listen", "main");
    let loaded = load(&Sources {
        preset,
        file: None,
        environment: variables(&[
            ("HEARTLINE__METRICS__LISTEN", "127.0.0.1:9000"),
            ("HEARTLINE__SERVER__LISTEN", "127.0.0.1:1"),
        ]),
        arguments: Layer::default().with("--listen", "server", "listen", "127.0.0.1:2"),
        files: &Shelf::default(),
    })
    .unwrap();
    assert_eq!(loaded.config.server.listen.port(), 2);
    let metrics = MetricsListen::Address("127.0.0.1:9000".parse().unwrap());
    assert_eq!(loaded.config.metrics.listen, metrics);
    let difference = |key: &str| {
        loaded.differences.iter().find(|difference| difference.key == key).unwrap().clone()
    };
    assert_eq!(difference("server.listen").source, "--listen");
    assert_eq!(difference("auth.hmac_secret").value, "(hidden)");
    assert_eq!(loaded.differences.len(), 3);
}

#[test]
fn key_files_are_read_with_their_names() {
    let pem = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    let shelf = Shelf::default()
        .with("old.pem", pem)
        .with("new.pem", pem)
        .with("a.toml", "[auth]\npublic_key_files = [\"old.pem\", \"new.pem\"]\nissuer = \"me\"");
    let keys = load_with(&shelf, Some("a.toml"), &[]).unwrap().auth_keys;
    let names: Vec<_> = keys.public_keys.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["old.pem", "new.pem"]);
    assert_eq!(keys.issuer.as_deref(), Some("me"));
    assert_eq!(keys.leeway, Duration::from_secs(5));
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let config = load_text("\u{feff}[routing]\nshards = 7").unwrap().config;
    assert_eq!(config.routing.shards, 7);
}

#[test]
fn secrets_show_in_no_debug_output() {
    let shelf = Shelf::default();
    let loaded = load_with(&shelf, None, &[("HEARTLINE__AUTH__HMAC_SECRET", SECRET)]).unwrap();
    assert!(!format!("{loaded:?}").contains(SECRET));
    let layer = Layer::default().with("dev", "auth", "hmac_secret", SECRET);
    assert!(!format!("{layer:?}").contains(SECRET));
}

#[test]
fn warnings_do_not_stop_a_start() {
    let mut shelf = Shelf::default().with("a.toml", format!("[auth]\nhmac_secret = \"{SECRET}\""));
    shelf.world_readable = true;
    let loaded = load_with(&shelf, Some("a.toml"), &[]).unwrap();
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].contains("chmod 600 a.toml"), "{:?}", loaded.warnings);

    // A world-readable file without secrets gives no warning.
    shelf.files.insert("a.toml", Vec::new());
    let environment = [("HEARTLINE__AUTH__HMAC_SECRET", SECRET)];
    assert!(load_with(&shelf, Some("a.toml"), &environment).unwrap().warnings.is_empty());

    let careless = "[server]\nlisten = \"0.0.0.0:80\"\nallowed_origins = [\"*\"]\n\
                    [routing]\nlease = \"10s\"";
    let warnings = load_text(careless).unwrap().warnings;
    assert_eq!(warnings.len(), 3, "{warnings:?}");

    let alone = "[store]\nurl = \"postgres://ana@localhost/chats\"";
    let warnings = load_text(alone).unwrap().warnings;
    assert!(matches!(&warnings[..], [only] if only.contains("the only one")), "{warnings:?}");
}
