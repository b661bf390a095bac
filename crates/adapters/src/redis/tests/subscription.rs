use std::time::Duration;

use heartline_engines::{Redis, RedisCluster};
use tokio::time::{sleep, timeout};

use super::{Engines, client};
use crate::redis::{Event, RedisClient, Subscription};

const PATIENCE: Duration = Duration::from_secs(20);

async fn next(subscription: &mut Subscription) -> Event {
    timeout(PATIENCE, subscription.next()).await.expect("an event comes in time")
}

async fn payload(subscription: &mut Subscription) -> String {
    match next(subscription).await {
        Event::Message(message) => String::from_utf8(message.payload.to_vec()).unwrap(),
        Event::Lost => "lost".to_owned(),
    }
}

#[tokio::test]
async fn messages_of_all_channels_arrive_in_order() {
    let engines = Engines::start();
    for url in engines.urls() {
        let client = client(&url);
        let channels: Vec<String> = (0..20).map(|number| format!("news:{{{number}}}")).collect();
        let mut subscription = client.subscribe(channels.clone());
        timeout(PATIENCE, subscription.established()).await.unwrap();
        for channel in &channels {
            for number in 0..5 {
                let text = format!("{channel} {number}");
                client.publish(channel, text.as_bytes()).await.unwrap();
            }
        }
        let mut heard = Vec::new();
        for _ in 0..100 {
            heard.push(payload(&mut subscription).await);
        }
        for channel in &channels {
            let own: Vec<&String> =
                heard.iter().filter(|text| text.starts_with(&format!("{channel} "))).collect();
            let expected: Vec<String> =
                (0..5).map(|number| format!("{channel} {number}")).collect();
            assert_eq!(own, expected.iter().collect::<Vec<_>>());
        }
    }
}

/// Publishes until the subscription hears it, and answers what it heard before.
async fn heard_again(client: &RedisClient, subscription: &mut Subscription) -> Vec<String> {
    let mut heard = Vec::new();
    let publishing = async {
        loop {
            // Redis may not be back yet.
            let _ = client.publish("news", b"again").await;
            sleep(Duration::from_millis(50)).await;
        }
    };
    let listening = async {
        loop {
            match payload(subscription).await.as_str() {
                "again" => break,
                other => heard.push(other.to_owned()),
            }
        }
    };
    tokio::select! {
        () = publishing => {}
        () = listening => {}
    }
    heard
}

#[tokio::test]
async fn a_lost_connection_is_reported_before_later_messages() {
    let redis = Redis::start();
    let client = client(&redis.url());
    let mut subscription = client.subscribe(vec!["news".to_owned()]);
    timeout(PATIENCE, subscription.established()).await.unwrap();
    client.publish("news", b"first").await.unwrap();
    assert_eq!(payload(&mut subscription).await, "first");
    redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(heard_again(&client, &mut subscription).await, ["lost"]);
    redis.restart();
    let heard: Vec<String> = heard_again(&client, &mut subscription)
        .await
        .into_iter()
        .filter(|heard| heard != "again")
        .collect();
    assert_eq!(heard, ["lost"]);
}

#[tokio::test]
async fn a_dead_connection_is_detected_and_replaced() {
    let redis = Redis::start();
    let client = client(&redis.url());
    let mut subscription = client.subscribe(vec!["news".to_owned()]);
    timeout(PATIENCE, subscription.established()).await.unwrap();
    redis.pause();
    // One check every two seconds, which may take two.
    let heard = timeout(Duration::from_secs(5), subscription.next()).await;
    assert!(heard.is_err(), "nothing is heard from a server that stands still");
    redis.resume();
    assert_eq!(next(&mut subscription).await, Event::Lost);
    assert_eq!(heard_again(&client, &mut subscription).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_channel_follows_its_slot_to_another_master() {
    let cluster = RedisCluster::start();
    let client = client(&cluster.url());
    let mut subscription = client.subscribe(vec!["news".to_owned()]);
    timeout(PATIENCE, subscription.established()).await.unwrap();
    client.publish("news", b"first").await.unwrap();
    assert_eq!(payload(&mut subscription).await, "first");
    move_slot(&cluster, "news");
    assert_eq!(heard_again(&client, &mut subscription).await, ["lost"]);
}

/// Gives the slot of a key, which holds no data, to another master.
fn move_slot(cluster: &RedisCluster, key: &str) {
    let slot = cluster.masters[0].command(&["CLUSTER", "KEYSLOT", key]);
    let ids: Vec<String> =
        cluster.masters.iter().map(|master| master.command(&["CLUSTER", "MYID"])).collect();
    let answer = cluster.masters[0].command(&["GET", key]);
    let holds = |port: u16| answer.contains(&format!(":{port}"));
    let owner = (1..3).find(|index| holds(cluster.masters[*index].port())).unwrap_or(0);
    let heir = &ids[(owner + 1) % 3];
    for index in [(owner + 1) % 3, owner, (owner + 2) % 3] {
        cluster.masters[index].command(&["CLUSTER", "SETSLOT", &slot, "NODE", heir]);
    }
}
