use std::fs;
use std::path::Path;
use std::slice;
use std::time::Duration;

use heartline_engines::Redis;
use heartline_routing::{
    Change, Connections, Lease, Leases, NodeRecord, Nodes, Policy, PresenceStates, Routes,
};
use heartline_runtime::{Clock, Random};
use redis::{Value, cmd};
use tokio::time::timeout;

use super::{LEASE, Listening, config, lease, policy, settled, user};
use crate::redis::{
    RedisClient, RedisConfig, RedisCounters, RedisFailure, Severity, check_settings, inspect,
};

const PASSWORD: &str = "the-real-password";
const CERTIFICATE: &str = include_str!("../../jwks/fixtures/localhost.certificate.pem");
const PRIVATE_KEY: &str = include_str!("../../jwks/fixtures/localhost.private.pem");
const ACL: &str = include_str!("../../../../../deploy/redis/heartline.acl");

/// A server that speaks TLS only, and has no users but those that we ship.
fn guarded() -> Redis {
    Redis::start_in(|directory: &Path, port| {
        let put = |name: &str, content: &str| {
            let path = directory.join(name);
            fs::write(&path, content).unwrap();
            path.display().to_string()
        };
        let acl = put("users.acl", &ACL.replace("change-this-password", PASSWORD));
        let certificate = put("certificate.pem", CERTIFICATE);
        let private_key = put("private.pem", PRIVATE_KEY);
        let arguments = [
            ["--port", "0"],
            ["--tls-port", &port.to_string()],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &private_key],
            ["--tls-ca-cert-file", &certificate],
            ["--tls-auth-clients", "no"],
            ["--aclfile", &acl],
        ];
        arguments.into_iter().flatten().map(str::to_owned).collect()
    })
}

fn client(redis: &Redis, password: &str) -> RedisClient {
    let url = format!("rediss://heartline:{password}@localhost:{}", redis.port());
    let config = RedisConfig::from_url(&url, "heartline:").unwrap();
    let mut config = config.with_tls_root(CERTIFICATE.as_bytes().to_vec()).unwrap();
    // A handshake of an unoptimised build on a busy machine takes its time.
    config.deadline = Duration::from_secs(10);
    RedisClient::new(config, Clock::system(), Random::system(), RedisCounters::default())
}

#[tokio::test]
async fn everything_works_over_tls_with_the_documented_permissions() {
    let redis = guarded();
    let client = client(&redis, PASSWORD);
    let connect = async |node: &str| Listening::open(client.clone(), config(node, 3)).await;
    let (one, two) = (connect("node-one").await, connect("node-two").await);
    settled(&one).await;
    let mut heard = two.changes();
    let node = NodeRecord {
        node_id: "node-one".parse().unwrap(),
        address: None,
        planes: "gateway".to_owned(),
        started_at: Clock::system().wall(),
        connections: 1,
    };
    one.announce(&node, LEASE).await.unwrap();
    assert_eq!(two.nodes().await.unwrap().len(), 1);
    let single = Policy { single_session: true, ..policy() };
    let (old, new) = (lease("alice", "node-one", 1, 3), lease("alice", "node-one", 2, 3));
    let crashed = lease("bob", "node-one", 3, 3);
    one.register(old.clone(), single).await.unwrap();
    one.register(new.clone(), single).await.unwrap();
    one.register(crashed.clone(), single).await.unwrap();
    let keys = slice::from_ref(&new.key);
    assert_eq!(one.renew(&[new.key.clone(), old.key.clone()], LEASE * 9).await.unwrap(), [old.key]);
    assert_eq!(one.extend(keys).await.unwrap(), []);
    assert_eq!(two.routes(&[user("alice")], &"node-two".parse().unwrap()).await.unwrap().len(), 1);
    assert_eq!(two.by_user(&[user("alice")]).await.unwrap()[0].len(), 1);
    assert_eq!(two.by_node(&new.key.node_id).await.unwrap().len(), 2);
    assert!(two.by_connection(new.key.connection_id).await.unwrap().is_some());
    tokio::time::sleep(LEASE * 5 / 4).await;
    assert_eq!(two.sweep(10, policy()).await.unwrap(), [crashed.key]);
    one.unregister(&new.key, Duration::from_millis(1)).await.unwrap();
    let again = Lease { again: true, ..new.clone() };
    one.register(again, single).await.unwrap();
    one.unregister(&new.key, Duration::ZERO).await.unwrap();
    one.withdraw(&node.node_id).await.unwrap();
    let mut transitions = 0;
    while transitions < 4 {
        let change = timeout(Duration::from_secs(10), heard.recv()).await.unwrap().unwrap();
        transitions += usize::from(change != Change::Gap);
    }
    assert_eq!(inspect(&client, 3, LEASE).await.unwrap().anomalies, []);
    let findings = check_settings(&client).await.unwrap();
    assert!(findings.iter().all(|it| it.severity == Severity::Unchecked), "{findings:?}");
    assert_eq!(findings.len(), 2, "what only CONFIG tells: {findings:?}");
}

#[tokio::test]
async fn the_permissions_end_at_our_own_keys_and_channels() {
    let redis = guarded();
    let client = client(&redis, PASSWORD);
    for command in [
        cmd("GET").arg("somebody:else").to_owned(),
        cmd("PUBLISH").arg("somebody:else").arg("x").to_owned(),
        cmd("FLUSHALL"),
        cmd("CONFIG").arg("GET").arg("requirepass").to_owned(),
        cmd("KEYS").arg("*").to_owned(),
        cmd("ACL").arg("WHOAMI").to_owned(),
    ] {
        let refused = client.query::<Value>(&command).await.unwrap_err();
        assert!(matches!(&refused, RedisFailure::Rejected(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_authority_fail_without_printing_a_secret() {
    let redis = guarded();
    let failure = client(&redis, "wrong-secret").query::<Value>(&cmd("PING")).await.unwrap_err();
    assert!(matches!(&failure, RedisFailure::Connection(_)), "{failure}");
    assert!(!format!("{failure} {failure:?}").contains("wrong-secret"));
    let url = format!("rediss://heartline:{PASSWORD}@localhost:{}", redis.port());
    let mut config = RedisConfig::from_url(&url, "heartline:").unwrap();
    config.deadline = Duration::from_secs(10);
    let stranger =
        RedisClient::new(config, Clock::system(), Random::system(), RedisCounters::default());
    let failure = stranger.query::<Value>(&cmd("PING")).await.unwrap_err();
    assert!(failure.is_infrastructure(), "{failure}");
    assert!(!format!("{failure} {failure:?}").contains(PASSWORD));
}

#[tokio::test]
async fn settings_that_could_lose_leases_are_found() {
    let redis = Redis::start_with(&[
        "--maxmemory",
        "100mb",
        "--maxmemory-policy",
        "volatile-ttl",
        "--timeout",
        "60",
        "--maxclients",
        "100",
        "--client-output-buffer-limit",
        "pubsub 1mb 1mb 60",
    ]);
    let findings = check_settings(&super::patient_client(&redis.url())).await.unwrap();
    let mut found: Vec<(&str, Severity)> =
        findings.iter().map(|finding| (finding.setting, finding.severity)).collect();
    found.sort_by_key(|(setting, _)| *setting);
    let expected = [
        ("client-output-buffer-limit", Severity::Warn),
        ("maxclients", Severity::Warn),
        ("maxmemory-policy", Severity::Refuse),
        ("timeout", Severity::Warn),
    ];
    assert_eq!(found, expected, "{findings:?}");
    let usual = Redis::start();
    assert_eq!(check_settings(&super::patient_client(&usual.url())).await.unwrap(), []);
}
