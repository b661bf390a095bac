use std::time::Duration;

use heartline_engines::Redis;
use heartline_routing::{Lease, Leases, Policy};
use redis::{Pipeline, cmd};

use super::{patient_client, patient_directory, policy, settled};
use crate::redis::RedisClient;

/// The bytes that a connection may use in Redis, with all its indexes.
const BYTES_MAX: u64 = 1536;

#[tokio::test]
async fn a_connection_costs_redis_four_keys_and_at_most_a_kilobyte_and_a_half() {
    let redis = Redis::start();
    let one = patient_directory(&redis.url(), "node-one", 100).await;
    settled(&one).await;
    let client = patient_client(&redis.url());
    let keys_before: u64 = client.query(&cmd("DBSIZE")).await.unwrap();
    let bytes_before = used_by_keys(&client).await;
    let long = Policy { lease: Duration::from_secs(600), ..policy() };
    let connections = 2000;
    for number in 0..connections {
        // Ids as long as usual ones: a UUID for the user and the device, a name with a suffix.
        let user = format!("4f1c2b9e-7d3a-4c58-9e10-{number:012}");
        let node = "gateway-eu-west-1a-01JABCDEFG";
        let mut lease: Lease = super::lease(&user, node, number, 100);
        lease.device_id = format!("b7a9d1f0-52c4-4e6b-8f3d-{number:012}").parse().unwrap();
        one.register(lease, long).await.unwrap();
    }
    let keys: u64 = client.query(&cmd("DBSIZE")).await.unwrap();
    let keys = keys - keys_before;
    // Four of each connection, one set of leases per shard, one list of the node.
    let shared = 100 + 1;
    assert!(keys <= connections * 4 + shared, "{keys} keys");
    let bytes = (used_by_keys(&client).await - bytes_before) / connections;
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
}

/// The memory of all keys, by Redis' own count.
async fn used_by_keys(client: &RedisClient) -> u64 {
    let names: Vec<String> = client.query(cmd("KEYS").arg("*")).await.unwrap();
    let mut bytes = 0;
    for names in names.chunks(500) {
        let mut pipeline = Pipeline::new();
        for name in names {
            pipeline.cmd("MEMORY").arg("USAGE").arg(name).arg("SAMPLES").arg(0);
        }
        for usage in client.pipe(&pipeline).await.unwrap() {
            bytes += redis::from_redis_value::<u64>(usage).unwrap();
        }
    }
    bytes
}
