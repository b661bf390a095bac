//! The nodes: those that announce themselves, and those that were named.

use std::time::Duration;

use anyhow::{Result, anyhow};
use heartline_adapters::redis::{RedisClient, Roster, roster};
use heartline_client::ClientConfig;
use heartline_protocol::Token;
use heartline_routing::LiveNode;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::report::{Finding, Report};
use super::web::{Web, base_of};
use crate::config::Config;

/// How long a node may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How long to wait before a node that does not answer is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks at the nodes that announce themselves; answers them.
pub(super) async fn examine_roster(
    client: &RedisClient,
    config: &Config,
    report: &mut Report<'_>,
) -> Option<Roster> {
    let found = match report.watch("asking who announces itself", roster(client)).await {
        Ok(found) => found,
        Err(failure) => {
            report.note(Finding::fail("nodes", format!("they cannot be listed: {failure}")));
            return None;
        }
    };
    let configured = config.routing.shards.to_string();
    report.note(match &found.shards {
        None => Finding::skipped("shards", "no node has stored how users are divided"),
        Some(stored) if *stored == configured => {
            Finding::pass("shards", format!("{stored}, as all nodes have agreed"))
        }
        Some(stored) => {
            let evidence = format!("routing.shards is {configured}, but the nodes use {stored}");
            Finding::fail("shards", evidence).advise(format!("set routing.shards to {stored}"))
        }
    });
    if found.nodes.is_empty() {
        let finding = Finding::warn("nodes", "no node announces itself in this Redis");
        report.note(finding.advise("see whether redis.url and redis.key_prefix are the nodes'"));
    }
    for node in &found.nodes {
        let finding = report.watch("connecting to a node", examine_node(client, node)).await;
        report.note(finding);
    }
    Some(found)
}

/// Tries a node's direct link, twice, unless it has left meanwhile.
async fn examine_node(client: &RedisClient, node: &LiveNode) -> Finding {
    let (id, connections) = (&node.record.node_id, node.record.connections);
    let check = format!("node {id}");
    let Some(address) = &node.record.address else {
        return Finding::skipped(check, "it does not say where it is reached");
    };
    let dial = async || match timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err((error.to_string(), true)),
        Err(_) => Err((format!("no answer within {} s", CONNECT_WITHIN.as_secs()), false)),
    };
    let mut dialled = dial().await;
    if dialled.is_err() {
        sleep(PAUSE).await;
        dialled = dial().await;
    }
    let Err((error, is_refused)) = dialled else {
        let evidence = format!("{connections} connections; {address} accepts direct links");
        return Finding::pass(check, evidence);
    };
    let is_gone = roster(client)
        .await
        .is_ok_and(|roster| roster.nodes.iter().all(|it| it.record.node_id != *id));
    if is_gone {
        return Finding::skipped(check, "it has left meanwhile");
    }
    let evidence = format!("it announces itself, but {address} cannot be reached: {error}");
    if is_refused {
        return Finding::fail(check, evidence)
            .advise("set cluster.advertise to where other nodes reach it, or open the way");
    }
    Finding::warn(check, evidence)
        .advise("run this where the nodes run; if they cannot reach it either, open the way")
}

/// Looks at the nodes that were named.
pub(super) async fn examine_urls(
    urls: &[String],
    roster: Option<&Roster>,
    report: &mut Report<'_>,
) {
    let config = ClientConfig::new("", Token(String::new()));
    let web = Web::new(&config.trust());
    let mut versions = Vec::new();
    for url in urls {
        match report.watch(&format!("asking {url}"), examine_url(&web, url)).await {
            Ok(answer) => {
                versions.push(answer.version.clone());
                answer.note(url, roster, report);
            }
            Err(error) => {
                let finding = Finding::fail(format!("node at {url}"), format!("{error:#}"));
                report.note(finding.advise("start it, or correct --url"));
            }
        }
    }
    if versions.is_empty() {
        return;
    }
    versions.push(env!("CARGO_PKG_VERSION").to_owned());
    versions.sort();
    versions.dedup();
    report.note(match &versions[..] {
        [version] => Finding::pass("versions", format!("all are {version}")),
        _ => Finding::warn("versions", format!("several at once: {}", versions.join(", ")))
            .advise("finish the upgrade, or run the doctor of the nodes' version"),
    });
}

/// What a node says of itself.
struct Named {
    node_id: String,
    version: String,
    is_ready: bool,
    degraded: Vec<String>,
}

async fn examine_url(web: &Web, url: &str) -> Result<Named> {
    let base = base_of(url)?;
    let live = web.get(&format!("{base}/livez")).await?;
    anyhow::ensure!(live.status.is_success(), "/livez answers {}", live.status);
    let ready = web.get(&format!("{base}/readyz")).await?;
    let health: Value = serde_json::from_slice(&ready.body)?;
    let degraded = health["degraded"].as_array().into_iter().flatten();
    let degraded = degraded.filter_map(|part| part.as_str().map(str::to_owned)).collect();
    let welcome = web.get(&format!("{base}/")).await?.body;
    let welcome = String::from_utf8_lossy(&welcome).into_owned();
    let words: Vec<&str> = welcome.lines().next().unwrap_or_default().split(' ').collect();
    let ["Heartline", version, "on", "node", node_id] = words[..] else {
        return Err(anyhow!("whoever answers there does not say that it is Heartline"));
    };
    let (node_id, version) = (node_id.to_owned(), version.to_owned());
    Ok(Named { node_id, version, is_ready: ready.status.is_success(), degraded })
}

impl Named {
    fn note(&self, url: &str, roster: Option<&Roster>, report: &mut Report<'_>) {
        let check = format!("node at {url}");
        let Self { node_id, version, degraded, .. } = self;
        let parts = degraded.join(", ");
        report.note(match (self.is_ready, degraded.is_empty()) {
            (true, true) => {
                Finding::pass(check.clone(), format!("{node_id} ({version}) is live and ready"))
            }
            (true, false) => Finding::warn(check.clone(), format!("{node_id} misses {parts}"))
                .advise("its log says since when; docs/operating.md what follows"),
            (false, _) => Finding::fail(check.clone(), format!("{node_id} is not ready: {parts}"))
                .advise("its log says since when; docs/operating.md what follows"),
        });
        let is_known = roster.is_none_or(|roster| {
            roster.nodes.iter().any(|node| node.record.node_id.as_str() == node_id)
        });
        if !is_known {
            let evidence = format!("{node_id} does not announce itself in the configured Redis");
            let finding = Finding::fail(check, evidence);
            report.note(finding.advise("give both the same redis.url and redis.key_prefix"));
        }
    }
}
