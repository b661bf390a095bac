use std::time::Duration;

use heartline_engines::{Redis, RedisCluster};
use heartline_party::{SessionActivity, SessionRecovery, SessionStore, SessionWatch};
use heartline_runtime::{Clock, Random};

use super::{advance, at, heard, step, stored};
use crate::redis::{RedisClient, RedisConfig, RedisCounters, RedisPartyConfig, RedisPartyStore};

const ACL: &str = include_str!("../../../../../../deploy/redis/heartline.acl");

/// Gives a server the user that we ship.
fn guard(redis: &Redis) {
    let user = ACL.lines().find_map(|line| line.strip_prefix("user heartline ")).unwrap();
    let mut command = vec!["ACL", "SETUSER", "heartline"];
    command.extend(user.split_whitespace());
    assert_eq!(redis.command(&command), "OK");
}

async fn store(url: &str) -> RedisPartyStore {
    let url = url.replace("://", "://heartline:change-this-password@");
    let mut config = RedisConfig::from_url(&url, "heartline:").unwrap();
    config.deadline = Duration::from_secs(5);
    let client =
        RedisClient::new(config, Clock::system(), Random::system(), RedisCounters::default());
    RedisPartyStore::connect(client, RedisPartyConfig::default(), Clock::system()).await.unwrap()
}

/// Calls every method, so that each command is sent.
async fn everything_works(url: &str) {
    let (one, two) = (store(url).await, store(url).await);
    let mut notices = two.notices();
    two.watch("a").await.unwrap();
    two.watch("b").await.unwrap();
    advance(&one, "a", 2).await;
    assert_eq!(heard(&mut notices).await, "a 1/1 entry 1");
    assert_eq!(heard(&mut notices).await, "a 1/2 entry 2");
    let mut last = step("a", Some(at(1, 2)), at(1, 3));
    (last.is_active, last.changes.remove) = (false, vec!["item:1".to_owned()]);
    one.commit(last).await.unwrap();
    assert_eq!(heard(&mut notices).await, "a 1/3 entry 3");
    // That it is left without being forbidden shows in that no gap follows.
    two.unwatch("a").await;
    two.watch("c").await.unwrap();
    assert_eq!(two.entries("a", at(1, 1)).await.unwrap().unwrap().len(), 2);
    assert_eq!(two.load("a").await.unwrap(), Some(stored(at(1, 3))));
    assert_eq!(two.revisions(&["a".to_owned()]).await.unwrap(), [Some(at(1, 3))]);
    assert_eq!(two.keep(&["a".to_owned()]).await.unwrap(), Vec::<String>::new());
    assert_eq!(two.active(10).await.unwrap(), ["a"]);
    two.inactive("a").await.unwrap();
    assert!(one.lock("a", "one").await.unwrap());
    one.unlock("a", "one").await.unwrap();
    one.ask("a").await.unwrap();
    assert_eq!(heard(&mut notices).await, "wanted a");
    two.offer("a", stored(at(1, 1))).await.unwrap();
    two.offer("a", stored(at(1, 3))).await.unwrap();
    assert_eq!(one.offered("a").await.unwrap(), Some(stored(at(1, 3))));
    assert!(one.now_ms().await.unwrap() > 0);
    assert!(one.remove("a", at(1, 3)).await.unwrap());
}

#[tokio::test]
async fn parties_work_with_the_documented_permissions() {
    let redis = Redis::start();
    guard(&redis);
    everything_works(&redis.url()).await;
    let cluster = RedisCluster::start();
    cluster.masters.iter().for_each(guard);
    everything_works(&cluster.url()).await;
}
