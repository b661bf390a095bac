//! The Redis engine restarts, pauses and removes its files.

use std::path::Path;
use std::process::Command;

use heartline_engines::{Redis, RedisCluster};

#[test]
fn a_restarted_server_has_no_data_and_keeps_its_port() {
    let redis = Redis::start_with(&["--maxclients", "123"]);
    assert_eq!(redis.command(&["SET", "key", "value"]), "OK");
    assert!(redis.command(&["CONFIG", "GET", "maxclients"]).ends_with("123"));
    let url = redis.url();
    redis.restart();
    assert_eq!(redis.url(), url);
    assert_eq!(redis.command(&["EXISTS", "key"]), "0");
}

#[test]
fn a_paused_server_does_not_reply_until_it_is_resumed() {
    let redis = Redis::start();
    redis.pause();
    let port = redis.port().to_string();
    let ping = || {
        let mut shell = Command::new("timeout");
        shell.args(["0.5", "redis-cli", "-p", &port, "PING"]);
        shell.output().expect("timeout can be run").status.success()
    };
    assert!(!ping());
    redis.resume();
    assert!(ping());
}

#[test]
fn a_cluster_has_three_masters_that_hold_all_slots() {
    let cluster = RedisCluster::start();
    let info = cluster.masters[0].command(&["CLUSTER", "INFO"]);
    assert!(info.contains("cluster_slots_ok:16384") && info.contains("cluster_size:3"));
}

#[test]
fn a_dropped_server_removes_its_directory() {
    let redis = Redis::start();
    let arguments = redis.command(&["CONFIG", "GET", "dir"]);
    let directory = Path::new(arguments.lines().last().expect("a directory")).to_owned();
    assert!(directory.exists());
    drop(redis);
    assert!(!directory.exists());
}
