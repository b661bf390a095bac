//! Every metric that is served is defined, and every defined metric is served.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use heartline_engines::{Postgres, Redis, free_port};
use heartline_testing::{PATIENCE, Server};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::HEARTLINE;

/// Headings of what only nodes among others count carry this.
const AMONG_OTHERS: &str = "(many nodes)";

/// Configuration for clients that answer no Ping.
const PATIENT: &str = "[gateway]\nheartbeat_interval = \"5m\"\nheartbeat_timeout = \"10m\"\n";

/// The heading under which other names are mapped to ours.
const OTHER_NAMES: &str = "## Names";

/// Where metrics with labels are registered.
const REGISTERED: [&str; 6] = [
    "gateway/src/metrics.rs",
    "durability/src/metrics.rs",
    "fanout/src/metrics.rs",
    "routing/src/metrics.rs",
    "routing/src/link/metrics.rs",
    "adapters/src/redis/counters.rs",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn file(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// A metric as `docs/metrics.md` defines it.
struct Definition {
    name: String,
    has_labels: bool,
    is_among_others: bool,
}

fn definitions() -> Vec<Definition> {
    let mut definitions = Vec::new();
    let mut heading = String::new();
    for line in file("metrics.md").lines() {
        if line.starts_with('#') {
            line.clone_into(&mut heading);
        }
        if line.starts_with("| `") && !heading.starts_with(OTHER_NAMES) {
            let cell = line.split('|').nth(1).unwrap();
            let quoted = cell.split('`').skip(1).step_by(2);
            definitions.extend(quoted.map(|quoted| Definition {
                name: quoted.split('{').next().unwrap().to_owned(),
                has_labels: quoted.contains('{'),
                is_among_others: heading.contains(AMONG_OTHERS),
            }));
        }
    }
    definitions
}

/// Asserts that every served metric is defined, and every defined metric is served. A metric with
/// labels is served from its first event on; until then it must be registered.
fn is_as_defined(shown: &BTreeSet<String>, is_among_others: bool) {
    let definitions = definitions();
    let may_show = |it: &&Definition| is_among_others || !it.is_among_others;
    let defined: Vec<&Definition> = definitions.iter().filter(may_show).collect();
    let names: BTreeSet<String> = defined.iter().map(|it| it.name.clone()).collect();
    let undefined: Vec<&String> = shown.difference(&names).collect();
    assert!(undefined.is_empty(), "not defined: {undefined:?}");
    let sources = REGISTERED.map(|name| root().join("crates").join(name));
    let sources = sources.map(|path| std::fs::read_to_string(path).unwrap()).concat();
    let is_registered = |name: &str| {
        let name = name.trim_end_matches("_total");
        let without_area = name.split_once('_').unwrap().1;
        [name, without_area].iter().any(|name| sources.contains(&format!("\"{name}\"")))
    };
    let is_there =
        |it: &&&Definition| shown.contains(&it.name) || it.has_labels && is_registered(&it.name);
    let missing: Vec<&String> =
        defined.iter().filter(|it| !is_there(it)).map(|it| &it.name).collect();
    assert!(missing.is_empty(), "not shown: {missing:?}");
}

/// The metrics of a scrape, as samples are named; a histogram by the name without its parts.
async fn scraped(server: &Server) -> BTreeSet<String> {
    let answer = server.http("GET", "/metrics", "", None).await;
    let types = answer.body.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let name = |line: &str| match line.split_once(' ').unwrap() {
        (name, "counter") => format!("{name}_total"),
        (name, _) => name.to_owned(),
    };
    types.map(name).collect()
}

/// Waits until a metric is there and more than this.
async fn exceeds(server: &Server, name: &str, value: f64) {
    let wait = async {
        while server.metric(name).await <= value {
            sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(timeout(PATIENCE, wait).await.is_ok(), "{name} stays {value}");
}

/// Whether a word has the prefix of a recording rule or a metric of this project.
fn is_ours(word: &str) -> bool {
    let areas = ["gateway", "durability", "fanout", "routing", "presence", "link", "redis"];
    areas
        .iter()
        .chain(&["heartbeat", "server", "client"])
        .any(|area| word.strip_prefix(area).is_some_and(|rest| rest.starts_with(['_', ':'])))
}

/// The words of a text that name metrics or recording rules.
fn our_words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
    text.split(move |letter| !is_part(letter)).filter(|word| is_ours(word))
}

#[tokio::test]
async fn every_metric_of_a_node_alone_is_defined_and_every_defined_one_is_there() {
    let server = HEARTLINE.start().await;
    is_as_defined(&scraped(&server).await, false);
}

/// A node with shared engines that no other node uses.
struct Shared {
    redis: Redis,
    server: Server,
}

impl Shared {
    async fn start() -> Self {
        // Without a bound there is no share of it.
        let redis = Redis::start_with(&["--maxmemory", "1gb", "--maxmemory-policy", "noeviction"]);
        let store = Postgres::shared().fresh_database();
        let (url, port) = (redis.url(), free_port());
        let server = HEARTLINE
            .start_with(&format!(
                "{PATIENT}[redis]\nurl = \"{url}\"\n[store]\nurl = \"{store}&pool_size=2\"\n\
             [cluster]\nlisten = \"127.0.0.1:{port}\"\n\
             secret = \"what nodes of a test know each other by\"\n"
            ))
            .await;
        Self { redis, server }
    }
}

#[tokio::test]
async fn every_metric_of_a_node_among_others_is_defined_and_every_defined_one_is_there() {
    let Shared { server, redis: _redis } = Shared::start().await;
    let mut socket = server.connect("ana").await;
    let _second = server.connect("ana").await;
    server.metric_becomes("routing_multi_device_users", 1.0).await;
    // The values of the first probe and the first renewal.
    exceeds(&server, "redis_keys", 0.0).await;
    exceeds(&server, "routing_renewals_total", 0.0).await;
    is_as_defined(&scraped(&server).await, true);

    assert_eq!(server.metric("redis_available").await, 1.0);
    exceeds(&server, "routing_renewal_seconds_count", 0.0).await;
    socket.send(&json!({ "type": "heartbeat" })).await;
    assert_eq!(socket.json().await["type"], "heartbeat_ack");
    assert_eq!(server.metric("gateway_heartbeats_total").await, 1.0);
}

#[tokio::test]
async fn a_redis_that_is_silent_and_one_that_forgets_show_in_the_metrics() {
    let Shared { server, redis } = Shared::start().await;
    let _sockets = [server.connect("ana").await, server.connect("bo").await];
    exceeds(&server, "routing_renewals_total", 0.0).await;
    redis.pause();
    server.metric_becomes("redis_available", 0.0).await;
    server.metric_becomes("routing_connections_unleased", 2.0).await;
    exceeds(&server, "routing_renewals_failed_total", 0.0).await;
    exceeds(&server, "routing_announcements_failed_total", 0.0).await;
    exceeds(&server, "routing_sweeps_failed_total", 0.0).await;
    redis.resume();
    server.metric_becomes("redis_available", 1.0).await;
    server.metric_becomes("routing_connections_unleased", 0.0).await;

    let claimed = server.metric("routing_leases_claimed_again_total").await;
    let rebuilds = server.metric("routing_rebuilds_total").await;
    redis.command(&["FLUSHALL"]);
    server.metric_becomes("routing_leases_claimed_again_total", claimed + 2.0).await;
    let lost = server.metric("routing_leases_lost_total").await;
    assert!(lost >= claimed + 2.0, "{lost}");
    exceeds(&server, "routing_rebuilds_total", rebuilds).await;
}

#[test]
fn rules_use_only_what_is_defined_and_names_are_mapped_to_what_exists() {
    let rules = file("prometheus-rules.yml");
    let value = |line: &str, key: &str| {
        let line = line.trim().trim_start_matches("- ");
        line.strip_prefix(key).map(|value| value.trim().to_owned())
    };
    let recorded = rules.lines().filter_map(|line| value(line, "record:"));
    let defined = definitions().into_iter().map(|it| it.name);
    let known: BTreeSet<String> = defined.chain(recorded).collect();
    let is_known = |word: &str| {
        let parts = ["", "_bucket", "_count", "_sum"];
        parts.iter().any(|part| word.strip_suffix(part).is_some_and(|name| known.contains(name)))
    };
    for expression in rules.lines().filter_map(|line| value(line, "expr:")) {
        for word in our_words(&expression) {
            assert!(is_known(word), "{word} in {expression}");
        }
    }
    let document = file("metrics.md");
    let (_, names) = document.split_once(OTHER_NAMES).unwrap();
    let rows = names.lines().filter(|line| line.starts_with("| `"));
    let mut mapped = 0;
    for row in rows {
        let ours = row.split('|').nth(2).unwrap();
        for word in our_words(ours) {
            assert!(is_known(word), "{word} in {row}");
            mapped += 1;
        }
    }
    assert!(mapped > 20, "only {mapped} names are mapped");
    let alerts = rules.matches("- alert:").count();
    assert_eq!(rules.matches("action:").count(), alerts, "every alert says what to do");
}
