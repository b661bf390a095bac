use std::time::Duration;

use heartline_engines::Redis;
use heartline_runtime::Clock;
use redis::{Pipeline, Value, cmd};
use tokio::time::sleep;

use super::{Engines, client};
use crate::redis::{RedisFailure, Script};

/// The deadline, and what a loaded machine may take on top.
const ANSWERED: Duration = Duration::from_millis(900);

#[tokio::test]
async fn commands_pipelines_and_scripts_work_on_a_server_and_on_a_cluster() {
    let engines = Engines::start();
    for url in engines.urls() {
        let client = client(&url);
        let stored: String = client.query(cmd("SET").arg("key").arg("value")).await.unwrap();
        assert_eq!(stored, "OK");
        let mut pipeline = Pipeline::new();
        for number in 0..300 {
            pipeline.cmd("INCRBY").arg(format!("counter:{number}")).arg(number);
        }
        let values = client.pipe(&pipeline).await.unwrap();
        let expected: Vec<Value> = (0..300).map(Value::Int).collect();
        assert_eq!(values, expected, "in the order asked, whatever the slot");

        let script = Script::new("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}");
        let answer: Vec<String> = client.script(&script, "key", "argument").await.unwrap();
        assert_eq!(answer, ["key", "argument", "value"]);
        let calls = (0..5).map(|number| script.call(format!("counter:{number}"), "x")).collect();
        let answers = client.scripts(&script, calls).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");

        let before = client.time("key").await.unwrap();
        let after = client.time("key").await.unwrap();
        assert!(after.unix_ms >= before.unix_ms);
        assert!(after.at(after.read_at + Duration::from_secs(1)) == after.unix_ms + 1000);
    }
}

#[tokio::test]
async fn a_command_that_redis_refuses_fails_alone_and_leaves_the_breaker_closed() {
    let redis = Redis::start();
    let client = client(&redis.url());
    let mut pipeline = Pipeline::new();
    pipeline.cmd("SET").arg("text").arg("x").cmd("INCR").arg("text").cmd("GET").arg("text");
    for _ in 0..10 {
        let results = client.pipe_each(&pipeline).await;
        assert!(matches!(&results[1], Err(RedisFailure::Rejected(_))), "{results:?}");
        assert_eq!(results[2], Ok(Value::BulkString(b"x".to_vec())));
    }
    assert_eq!(client.counters().breaker_openings.get(), 0);
}

#[tokio::test]
async fn calls_to_a_paused_redis_take_their_deadline_until_the_breaker_opens() {
    let redis = Redis::start();
    let client = client(&redis.url());
    client.query::<Value>(&cmd("PING")).await.unwrap();
    redis.pause();
    let calls = (0..20).map(|_| async {
        let started_at = Clock::system().now();
        let failure = client.query::<Value>(&cmd("PING")).await.unwrap_err();
        (failure, Clock::system().now() - started_at)
    });
    for (failure, duration) in futures_util::future::join_all(calls).await {
        assert_eq!(failure, RedisFailure::Timeout);
        assert!(duration < ANSWERED, "{duration:?}");
    }
    let started_at = Clock::system().now();
    let failure = client.query::<Value>(&cmd("PING")).await.unwrap_err();
    assert_eq!(failure, RedisFailure::Refused);
    assert!(Clock::system().now() - started_at < Duration::from_millis(100));
    assert_eq!(client.counters().breaker_state.get(), 1);
    redis.resume();
    answers_within(&client, Duration::from_secs(3)).await;
    assert_eq!(client.counters().breaker_state.get(), 0);
}

#[tokio::test]
async fn a_redis_that_was_killed_is_found_again() {
    let redis = Redis::start();
    let client = client(&redis.url());
    client.query::<Value>(&cmd("PING")).await.unwrap();
    redis.stop();
    let failure = client.query::<Value>(&cmd("PING")).await.unwrap_err();
    assert!(failure.is_infrastructure(), "{failure}");
    redis.restart();
    answers_within(&client, Duration::from_secs(3)).await;
    assert_eq!(client.counters().reconnects.get(), 1);
    let script = Script::new("return ARGV[1]");
    client.script::<String>(&script, "key", "a").await.unwrap();
    redis.restart();
    answers_within(&client, Duration::from_secs(3)).await;
    let answer: String = client.script(&script, "key", "b").await.unwrap();
    assert_eq!(answer, "b", "a script that Redis forgot is sent again");
}

#[tokio::test]
async fn a_cluster_whose_masters_were_killed_is_found_again() {
    let cluster = heartline_engines::RedisCluster::start();
    let client = client(&cluster.url());
    client.query::<Value>(cmd("SET").arg("key").arg("value")).await.unwrap();
    for master in &cluster.masters {
        master.pause();
    }
    for _ in 0..8 {
        let started_at = Clock::system().now();
        client.query::<Value>(cmd("GET").arg("key")).await.unwrap_err();
        assert!(Clock::system().now() - started_at < ANSWERED);
    }
    assert_eq!(client.counters().breaker_state.get(), 1);
    for master in &cluster.masters {
        master.resume();
    }
    answers_within(&client, Duration::from_secs(10)).await;
}

#[tokio::test]
async fn a_full_redis_counts_as_down() {
    let redis = Redis::start();
    let client = client(&redis.url());
    client.query::<Value>(cmd("SET").arg("key").arg("value")).await.unwrap();
    // Redis uses more than one byte, whatever its buffers.
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let failure = client.query::<Value>(cmd("SET").arg("key").arg("value")).await.unwrap_err();
    assert!(matches!(failure, RedisFailure::Unable(_)), "{failure}");
    let script = Script::new("return redis.call('SET', KEYS[1], ARGV[1])");
    let failure = client.script::<Value>(&script, "key", "value").await.unwrap_err();
    assert!(matches!(failure, RedisFailure::Unable(_)), "{failure}");
    for _ in 0..3 {
        client.query::<Value>(cmd("SET").arg("key").arg("value")).await.unwrap_err();
    }
    assert_eq!(client.counters().breaker_state.get(), 1);
}

#[tokio::test]
async fn every_call_fails_at_once_if_no_server_is_at_the_address() {
    let redis = Redis::start();
    let url = redis.url();
    drop(redis);
    let client = client(&url);
    let started_at = Clock::system().now();
    for _ in 0..50 {
        client.query::<Value>(&cmd("PING")).await.unwrap_err();
    }
    assert!(Clock::system().now() - started_at < ANSWERED);
}

/// Waits until a call succeeds; the breaker lets one through every half second.
async fn answers_within(client: &crate::redis::RedisClient, patience: Duration) {
    let started_at = Clock::system().now();
    while let Err(failure) = client.query::<Value>(cmd("GET").arg("key")).await {
        assert!(Clock::system().now() - started_at < patience, "still {failure}");
        sleep(Duration::from_millis(50)).await;
    }
}
