//! Checks of the Redis servers and of the entries in the directory.

use std::time::Duration;

use anyhow::Result;
use heartline_adapters::redis::{
    Anomaly, Inspection, RedisClient, RedisCounters, Rule, Severity, Sweeps, Vitals,
    check_settings, inspect, sweeps, vitals,
};
use heartline_runtime::{Clock, Random};

use super::clocks;
use super::evidence::Evidence;
use super::report::{Finding, Report};
use crate::cluster;
use crate::config::Config;

/// The deadline of one call: longer than a node's, because the directory may be large.
const DEADLINE: Duration = Duration::from_secs(5);

/// The memory in use above which the doctor warns, in percent.
const MEMORY_PERCENT_MAX: u64 = 80;

/// Anomalies that are listed per rule.
const ANOMALIES_LISTED_MAX: usize = 5;

/// The pause before suspicious entries are read again.
const PAUSE: Duration = Duration::from_millis(1500);

/// The rules of the directory, the invariants that each one checks, and the advice.
const RULES: [(Rule, &[&str], &str); 5] = [
    (
        Rule::KeysEnd,
        &["routing_ttl_bounded"],
        "Heartline never writes such a key: find the program that did, and run redis-cli \
         EXPIRE KEY 600",
    ),
    (
        Rule::NoZombies,
        &["zombie_prevention"],
        "check that the nodes sweep (metric and log), then remove the key with redis-cli \
         DEL KEY: live connections register again within 3 min",
    ),
    (
        Rule::OneRecord,
        &["conn_id_uniqueness"],
        "find the other program that writes to this Redis; the nodes repair their own entries \
         within minutes",
    ),
    (
        Rule::RoutesAgree,
        &["routing_denormalization_consistent"],
        "find the other program that writes to this Redis; the user's next connection repairs it",
    ),
    (
        Rule::PresenceIsDerived,
        &[
            "presence_derives_from_connections",
            "multi_device_aggregation",
            "presence_ceiling",
            "presence_consistency_ceiling",
        ],
        "remove the key with redis-cli DEL KEY: the user's next connect or disconnect writes it again",
    ),
];

/// A client of the configured Redis; none for a single node.
pub(super) fn connect(config: &Config, clock: Clock) -> Result<Option<RedisClient>> {
    let Some(url) = config.redis.url.as_deref() else { return Ok(None) };
    let mut redis = cluster::redis_config(url, &config.redis)?;
    redis.deadline = DEADLINE;
    Ok(Some(RedisClient::new(redis, clock, Random::system(), RedisCounters::default())))
}

/// Checks the servers and every entry of the directory.
pub(super) async fn examine(
    client: &RedisClient,
    config: &Config,
    report: &mut Report<'_>,
) -> Vec<Evidence> {
    match report.watch("reading the state of Redis", vitals(client)).await {
        Ok(servers) => servers.iter().for_each(|server| examine_server(server, report)),
        Err(failure) => {
            let finding = Finding::fail("redis", format!("Redis does not answer: {failure}"));
            report.note(finding.advise("start Redis, or correct redis.url"));
            return Vec::new();
        }
    }
    examine_settings(client, report).await;
    let mut evidence = examine_sweeps(client, config, report).await;
    let routing = &config.routing;
    let inspecting = inspect(client, routing.shards, routing.lease);
    match report.watch("reading the directory", inspecting).await {
        Ok(inspection) => {
            if !inspection.is_complete {
                let evidence = "too many suspicious entries; only some of them were read again";
                report.note(Finding::warn("directory", evidence));
            }
            evidence.extend(of_inspection(&inspection));
        }
        Err(failure) => {
            report.note(Finding::fail(
                "directory",
                format!("the directory cannot be read: {failure}"),
            ));
        }
    }
    evidence
}

fn examine_server(vitals: &Vitals, report: &mut Report<'_>) {
    let Vitals { server, version, used_bytes, bytes_max, evicted_keys, clock_ahead_ms } = vitals;
    report.note(Finding::pass("redis", format!("{server} answers, version {version}")));
    let percent = bytes_max.map(|max| used_bytes.saturating_mul(100) / max.max(1));
    report.note(match percent {
        None => Finding::skipped("redis memory", format!("{server} reports no memory limit")),
        Some(percent) if percent > MEMORY_PERCENT_MAX => {
            Finding::warn("redis memory", format!("{server} uses {percent}% of its memory"))
                .advise("raise maxmemory: a full Redis rejects writes and counts as down")
        }
        Some(percent) => {
            Finding::pass("redis memory", format!("{server} uses {percent}% of its memory"))
        }
    });
    report.note(match evicted_keys {
        0 => Finding::pass("redis evictions", format!("{server} has evicted no key")),
        _ => Finding::fail("redis evictions", format!("{server} has evicted {evicted_keys} keys"))
            .advise("set maxmemory-policy to noeviction, and raise maxmemory"),
    });
    report.note(clocks::finding("redis clock", server, *clock_ahead_ms));
}

async fn examine_settings(client: &RedisClient, report: &mut Report<'_>) {
    let findings = match report.watch("reading Redis' settings", check_settings(client)).await {
        Ok(findings) => findings,
        Err(failure) => {
            report.note(Finding::fail("redis settings", format!("not readable: {failure}")));
            return;
        }
    };
    if findings.is_empty() {
        report.note(Finding::pass("redis settings", "all settings are correct"));
    }
    for finding in findings {
        let value = finding.value.as_deref().unwrap_or("not readable");
        let evidence = format!("{} of {} is {value}", finding.setting, finding.server);
        let found = match finding.severity {
            Severity::Refuse => Finding::fail("redis settings", evidence),
            Severity::Warn => Finding::warn("redis settings", evidence),
            Severity::Unchecked => Finding::skipped("redis settings", evidence),
        };
        report.note(found.advise(finding.advice));
    }
}

/// Checks that nodes sweep, without which no expired lease would be removed.
async fn examine_sweeps(
    client: &RedisClient,
    config: &Config,
    report: &mut Report<'_>,
) -> Vec<Evidence> {
    let shards = config.routing.shards;
    let reading = async {
        let first = sweeps(client, shards).await?;
        if first == Sweeps::default() {
            return Ok(first);
        }
        tokio::time::sleep(PAUSE).await;
        sweeps(client, shards).await
    };
    let found = match report.watch("checking that nodes sweep", reading).await {
        Ok(found) => found,
        Err(failure) => {
            report.note(Finding::fail("sweeps", format!("not readable: {failure}")));
            return Vec::new();
        }
    };
    if !found.rebuilding.is_empty() {
        let evidence = format!(
            "{} of {shards} shards are being rebuilt: presence there is unknown, \
             and their entries were not checked",
            found.rebuilding.len()
        );
        let advice = "run the doctor again in a minute; if the warning stays, no node sweeps";
        report.note(Finding::warn("rebuild", evidence).advise(advice));
    }
    if found.late.is_empty() {
        let evidence = format!("all {shards} shards were swept within 5 s");
        return vec![Evidence::holds("presence_staleness_bounded", evidence)];
    }
    let late = found.late.len();
    let finding = Finding::warn("sweeps", format!("{late} of {shards} shards are not swept"));
    report.note(finding.advise("check that a node runs: every node sweeps every second"));
    Vec::new()
}

/// The evidence that the inspection of the directory gives for each invariant.
fn of_inspection(inspection: &Inspection) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    for (rule, invariants, advice) in RULES {
        let broken: Vec<&Anomaly> =
            inspection.anomalies.iter().filter(|anomaly| anomaly.rule == rule).collect();
        for invariant in invariants {
            if broken.is_empty() {
                let text = format!("none of {} entries violates it", inspection.examined);
                evidence.push(Evidence::holds(invariant, text));
            }
            for anomaly in broken.iter().take(ANOMALIES_LISTED_MAX) {
                let text = format!("{}: {}", anomaly.key, anomaly.what);
                evidence.push(Evidence::against(invariant, text, advice));
            }
            if broken.len() > ANOMALIES_LISTED_MAX {
                let text = format!("and {} more", broken.len() - ANOMALIES_LISTED_MAX);
                evidence.push(Evidence::against(invariant, text, advice));
            }
        }
    }
    evidence
}
