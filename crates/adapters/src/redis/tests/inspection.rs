use std::time::Duration;

use heartline_routing::{Leases, NodeRecord, Nodes, Policy};
use heartline_runtime::Clock;
use redis::{Cmd, Value};

use super::{Engines, lease, patient_client, patient_directory, policy, settled};
use crate::redis::inspect;

const LEASE: Duration = Duration::from_secs(60);

fn command(words: &[String]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(word);
    }
    command
}

#[tokio::test]
async fn nodes_write_consistent_data_on_a_server_and_on_a_cluster() {
    let engines = Engines::start();
    for url in engines.urls() {
        let one = patient_directory(&url, "node-one", 3).await;
        settled(&one).await;
        announce(&one, "node-one").await;
        let long = Policy { lease: LEASE, single_session: true, ..policy() };
        for number in 0..50 {
            let lease = lease(&format!("user-{number}"), "node-one", number, 3);
            one.register(lease.clone(), long).await.unwrap();
            match number % 5 {
                0 => drop(one.unregister(&lease.key, Duration::ZERO).await.unwrap()),
                1 => drop(one.unregister(&lease.key, LEASE).await.unwrap()),
                2 => {
                    let newer =
                        super::lease(&format!("user-{number}"), "node-one", 100 + number, 3);
                    one.register(newer, long).await.unwrap();
                }
                _ => {}
            }
        }
        let inspection = inspect(&patient_client(&url), 3, LEASE).await.unwrap();
        assert_eq!(inspection.anomalies, []);
        assert!(inspection.is_complete && inspection.examined > 200, "{inspection:?}");
    }
}

async fn announce(directory: &crate::redis::RedisDirectory, node: &str) {
    let record = NodeRecord {
        node_id: node.parse().unwrap(),
        address: None,
        planes: "gateway".to_owned(),
        started_at: Clock::system().wall(),
        connections: 0,
    };
    directory.announce(&record, Duration::from_secs(600)).await.unwrap();
}

/// Inconsistencies of a user `U` with connection `C` on node `N`, and their names.
const FAULTS: [(&str, &str); 14] = [
    ("PERSIST test:user_connections:U", "it never ends"),
    ("EXPIRE test:user_servers:U 6000", "too long"),
    ("ZADD test:presence:leases:0 9999999999999 U/N/C", "longer than a lease"),
    ("ZREM test:presence:leases:0 U/N/C", "has no lease"),
    ("HDEL test:user_connections:U C", "is missing in user_connections"),
    ("DEL test:connection:C", "is missing in connection"),
    ("SREM test:server_connections:N C", "is missing in server_connections"),
    ("SADD test:server_connections:N conn_00000000000000000000009999_0", "is no connection of"),
    ("DEL test:user_servers:U", "have no route"),
    ("HSET test:user_servers:U N 7", "is said to hold 7"),
    ("HSET test:user_servers:U node-unknown 1", "does not announce itself"),
    ("HSET test:user_presence:U status offline", "not online"),
    ("ZREM test:servers N", "does not announce itself"),
    ("ZADD test:presence:leases:0 1000 U/N/C", "was not swept"),
];

#[tokio::test]
async fn each_inconsistency_is_found_and_named() {
    let redis = heartline_engines::Redis::start();
    let one = patient_directory(&redis.url(), "node-one", 1).await;
    settled(&one).await;
    let long = Policy { lease: LEASE, ..policy() };
    let client = patient_client(&redis.url());
    let mut expected = Vec::new();
    for (number, (fault, name)) in (0..).zip(FAULTS) {
        let (user, node) = (format!("user-{number}"), format!("node-{number}"));
        announce(&one, &node).await;
        let held = lease(&user, &node, number, 1);
        one.register(held.clone(), long).await.unwrap();
        let id = held.key.connection_id.to_string();
        let words = fault.split(' ').map(|word| match word {
            "C" => id.clone(),
            "N" => node.clone(),
            "U/N/C" => format!("{user}/{node}/{id}"),
            key => key.replace(":U", &format!(":{user}")).replace(":N", &format!(":{node}")),
        });
        let words: Vec<String> = words.map(|word| word.replace(":C", &format!(":{id}"))).collect();
        client.query::<Value>(&command(&words)).await.unwrap();
        expected.push((user, node, id, name));
    }
    let ghost = lease("ghost", "node-0", 99, 1);
    one.register(ghost.clone(), long).await.unwrap();
    one.unregister(&ghost.key, Duration::ZERO).await.unwrap();
    let online = ["HSET", "test:user_presence:ghost", "status", "online"].map(str::to_owned);
    client.query::<Value>(&command(&online)).await.unwrap();
    expected.push(("ghost".into(), "node-0".into(), "-".into(), "online without a lease"));

    // On a busy machine that may have taken so long that a rebuild began.
    settled(&one).await;
    let anomalies = inspect(&client, 1, LEASE).await.unwrap().anomalies;
    for (user, node, id, name) in expected {
        let is_meant = |text: &str| [&user, &node, &id].iter().any(|part| text.contains(*part));
        let is_found = anomalies
            .iter()
            .any(|found| found.what.contains(name) && is_meant(&(found.key.clone() + &found.what)));
        assert!(is_found, "{name} of {user}: {anomalies:?}");
    }
}
