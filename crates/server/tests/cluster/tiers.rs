//! The delay of presence events while hundreds of users connect and disconnect: members of a shared
//! active chat come first, and subscribers a little later.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{StreamExt, iter};
use tokio::time::{Instant, sleep, sleep_until};

use crate::crowd::{connect_all, names};
use crate::nodes::{Cluster, Node, SLACK, is_long, now};
use crate::presence::active_group;
use crate::recording_socket::{Received, RecordingSocket};

/// Deadline for members of a shared active chat.
const TIER_1: Duration = Duration::from_secs(1);

/// Deadline for subscribers.
const TIER_2: Duration = Duration::from_secs(5);

/// How long people stay, and how long they stay away.
const STAY: Duration = Duration::from_secs(4);

/// People of one chat, who have one observer there.
const CHAT_PEOPLE: usize = 50;

/// How often each user connects.
const VISITS: usize = 3;

/// A transition to online or offline.
#[derive(Debug, Clone, Copy)]
struct Event {
    is_online: bool,
    at: Instant,
}

/// Comes and goes, beginning at its own moment.
async fn visit(node: &Node, name: &str, begin: Instant) -> Vec<Event> {
    let name = [name.to_owned()];
    let mut events = Vec::new();
    for number in 0..VISITS as u32 {
        sleep_until(begin + STAY * 2 * number).await;
        let at = now();
        let socket = connect_all(node, &name).await.remove(0);
        events.push(Event { is_online: true, at });
        sleep_until(begin + STAY * (2 * number + 1)).await;
        let at = now();
        socket.leaves().await;
        events.push(Event { is_online: false, at });
    }
    events
}

/// The delay of each event at an observer, and the number of events that the next event of the same
/// user replaced.
fn delays(received: &[Received], events: &HashMap<String, Vec<Event>>) -> (Vec<Duration>, usize) {
    let mut told: HashMap<&str, Vec<(bool, Instant)>> = HashMap::new();
    for Received { at, frame } in
        received.iter().filter(|it| it.frame["type"] == "presence_changed")
    {
        let user = frame["user_id"].as_str().unwrap();
        told.entry(user).or_default().push((frame["status"] == "online", *at));
    }
    let (mut delays, mut overtaken) = (Vec::new(), 0);
    for (user, events) in events {
        let mut told = told.get(user.as_str()).into_iter().flatten().peekable();
        for event in events {
            // An event that was received before this transition belongs to an earlier one.
            while told.next_if(|(_, at)| *at < event.at).is_some() {}
            match told.next_if(|(is_online, _)| *is_online == event.is_online) {
                Some((_, at)) => delays.push(*at - event.at),
                None => overtaken += 1,
            }
        }
    }
    delays.sort_unstable();
    (delays, overtaken)
}

/// Prints the measurement and returns the 99th percentile.
fn percentile(what: &str, delays: &[Duration], overtaken: usize) -> Duration {
    let at = |share: usize| delays[(delays.len() * share / 100).min(delays.len() - 1)];
    let (p50, p99, count) = (at(50), at(99), delays.len());
    println!("{what}: p50 {p50:?}, p99 {p99:?} of {count}, {overtaken} overtaken");
    p99
}

#[tokio::test]
async fn who_comes_and_goes_is_told_in_time_to_those_who_share_a_chat_and_to_those_who_asked() {
    let cluster = Cluster::start(3).await;
    let [node1, node2, node3] = cluster.all();
    let people = names("person", if is_long() { 4000 } else { 200 });
    let chats: Vec<&[String]> = people.chunks(CHAT_PEOPLE).collect();
    let groups = chats.iter().enumerate().map(|(number, chat)| async move {
        let observer = format!("companion-{number}");
        let members: Vec<&str> = chat.iter().map(String::as_str).collect();
        active_group(node1, &observer, &members).await;
        RecordingSocket::of(node3.connect(&observer).await)
    });
    let companions: Vec<RecordingSocket> = iter(groups).buffered(4).collect().await;
    let mut watchers = Vec::new();
    for (number, watched) in people.chunks(1000).enumerate() {
        let mut watcher = node3.connect(&format!("watcher-{number}")).await;
        for named in watched.chunks(100) {
            let named: Vec<&str> = named.iter().map(String::as_str).collect();
            watcher.subscribe(&named).await;
            // Five presence frames a second are allowed.
            sleep(Duration::from_millis(220)).await;
        }
        watchers.push(RecordingSocket::of(watcher));
    }
    let begin = now() + Duration::from_secs(1);
    let spread = STAY * 2 / people.len() as u32;
    let visits = people.iter().enumerate().map(|(number, name)| {
        let node = [node1, node2][number % 2];
        visit(node, name, begin + spread * number as u32)
    });
    let visits = join_all(visits).await;
    let took = now() - begin;
    sleep(TIER_2).await;
    let rate = (people.len() * VISITS * 2) as f64 / took.as_secs_f64();
    println!("{rate:.0} came or left per second");
    let all: HashMap<String, Vec<Event>> = people.iter().cloned().zip(visits).collect();

    let (mut tier_1, mut overtaken) = (Vec::new(), 0);
    for (chat, recording) in chats.iter().zip(&companions) {
        let of_chat = chat.iter().map(|name| (name.clone(), all[name].clone())).collect();
        let (delays, missed) = delays(&recording.received(), &of_chat);
        tier_1.extend(delays);
        overtaken += missed;
    }
    tier_1.sort_unstable();
    assert_eq!(tier_1.len() + overtaken, people.len() * VISITS * 2);
    let p99 = percentile("those who share a chat", &tier_1, overtaken);
    assert!(overtaken * 100 <= tier_1.len(), "{overtaken} of {}", tier_1.len());
    assert!(p99 < TIER_1 + SLACK, "{p99:?}");

    let (mut tier_2, mut overtaken) = (Vec::new(), 0);
    for (watched, recording) in people.chunks(1000).zip(&watchers) {
        let of_them = watched.iter().map(|name| (name.clone(), all[name].clone())).collect();
        let (delays, missed) = delays(&recording.received(), &of_them);
        tier_2.extend(delays);
        overtaken += missed;
    }
    tier_2.sort_unstable();
    let p99 = percentile("those who have asked", &tier_2, overtaken);
    assert!(overtaken * 100 <= tier_2.len(), "{overtaken} of {}", tier_2.len());
    assert!(p99 < TIER_2, "{p99:?}");
}
