//! Checks of the announced nodes and of those given with `--url`.

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

/// The pause before a node that does not answer is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Checks the announced nodes, and returns them.
pub(super) async fn examine_roster(
    client: &RedisClient,
    config: &Config,
    report: &mut Report<'_>,
) -> Option<Roster> {
    let found = match report.watch("listing the announced nodes", roster(client)).await {
        Ok(found) => found,
        Err(failure) => {
            report.note(Finding::fail("nodes", format!("the nodes cannot be listed: {failure}")));
            return None;
        }
    };
    let configured = config.routing.shards.to_string();
    report.note(match &found.shards {
        None => Finding::skipped("shards", "no node has stored the number of shards"),
        Some(stored) if *stored == configured => {
            Finding::pass("shards", format!("all nodes use {stored}"))
        }
        Some(stored) => {
            let evidence = format!("routing.shards is {configured}, but the nodes use {stored}");
            Finding::fail("shards", evidence).advise(format!("set routing.shards to {stored}"))
        }
    });
    if found.nodes.is_empty() {
        let finding = Finding::warn("nodes", "no node is announced in this Redis");
        report.note(
            finding.advise("check that redis.url and redis.key_prefix are those of the nodes"),
        );
    }
    for node in &found.nodes {
        let finding = report.watch("connecting to a node", examine_node(client, node)).await;
        report.note(finding);
    }
    Some(found)
}

/// Connects to a node's direct link, twice, unless the node has stopped meanwhile.
async fn examine_node(client: &RedisClient, node: &LiveNode) -> Finding {
    let (id, connections) = (&node.record.node_id, node.record.connections);
    let check = format!("node {id}");
    let Some(address) = &node.record.address else {
        return Finding::skipped(check, "the node announces no address for direct links");
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
        return Finding::skipped(check, "the node has stopped meanwhile");
    }
    let evidence = format!("the node is announced, but {address} cannot be reached: {error}");
    if is_refused {
        return Finding::fail(check, evidence).advise(
            "set cluster.advertise to an address that other nodes can reach, or open the port",
        );
    }
    Finding::warn(check, evidence).advise(
        "run the doctor in the nodes' network; if they cannot reach it either, open the port",
    )
}

/// Checks the nodes given with `--url`.
pub(super) async fn examine_urls(
    urls: &[String],
    roster: Option<&Roster>,
    report: &mut Report<'_>,
) {
    let config = ClientConfig::new("", Token(String::new()));
    let web = Web::new(&config.tls_config());
    let mut versions = Vec::new();
    for url in urls {
        match report.watch(&format!("asking {url}"), examine_url(&web, url)).await {
            Ok(state) => {
                versions.push(state.version.clone());
                state.note(url, roster, report);
            }
            Err(error) => {
                let finding = Finding::fail(format!("node at {url}"), format!("{error:#}"));
                report.note(finding.advise("start the node, or correct --url"));
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
        _ => Finding::warn(
            "versions",
            format!("the nodes and this doctor differ: {}", versions.join(", ")),
        )
        .advise("finish the upgrade, or use the doctor of the nodes' version"),
    });
}

/// The state of a node given with `--url`.
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
        return Err(anyhow!("the server at this URL is not Heartline"));
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
            (true, false) => {
                Finding::warn(check.clone(), format!("{node_id} works without {parts}"))
                    .advise("read the node's log and docs/operating.md")
            }
            (false, _) => Finding::fail(check.clone(), format!("{node_id} is not ready: {parts}"))
                .advise("read the node's log and docs/operating.md"),
        });
        let is_known = roster.is_none_or(|roster| {
            roster.nodes.iter().any(|node| node.record.node_id.as_str() == node_id)
        });
        if !is_known {
            let evidence = format!("{node_id} is not announced in the configured Redis");
            let finding = Finding::fail(check, evidence);
            report.note(
                finding.advise(
                    "use the same redis.url and redis.key_prefix for the node and the doctor",
                ),
            );
        }
    }
}
