//! Redis or the archive goes away while a party edits: every edit is answered, nothing that was
//! acknowledged is lost, and every screen is right again without another edit.

use std::collections::BTreeMap;
use std::time::Duration;

use heartline_testing::eventually;
use heartline_testing::party::{Join, Outcome, PartyClient, uuid};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::nodes::{Cluster, Network, Setup, is_long, now};
use crate::party_replica::Replica;
use crate::party_session::{ANSWER, Member, SOON};

/// How long Redis is away.
const OUTAGE: Duration = Duration::from_secs(20);

/// Time until nodes have detected the outage.
const NOTICED: Duration = Duration::from_secs(7);

/// How long a refusal may take then.
const AT_ONCE: Duration = Duration::from_secs(2);

/// How often each member edits: a queue has at most 500 items.
fn pace() -> Duration {
    Duration::from_millis(if is_long() { 500 } else { 100 })
}

/// The state of Redis after the outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    WithData,
    /// With what it held before some of the edits.
    WithOlderData,
    Empty,
}

/// An edit and what became of it.
#[derive(Debug)]
struct Tried {
    number: usize,
    at: Instant,
    took: Duration,
    outcome: Outcome,
}

/// Adds items until it is enough; their numbers are the editor's own.
async fn edit(member: &mut Member, first: usize, is_enough: &watch::Receiver<bool>) -> Vec<Tried> {
    let mut tried = Vec::new();
    while !*is_enough.borrow() {
        sleep(pace()).await;
        let (number, at) = (first + tried.len(), now());
        let outcome = member.try_add(number).await;
        tried.push(Tried { number, at, took: now() - at, outcome });
    }
    tried
}

/// Asserts that every edit was applied, or rejected in time with a retryable code.
fn judge(tried: &[Tried], replica: &Replica) {
    let mut counts: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    let uuids = replica.uuids();
    for Tried { number, took, outcome, .. } in tried {
        let kind = match outcome {
            Outcome::Done(_) => {
                assert!(uuids.contains(&uuid(*number)), "{number} was acknowledged and is lost");
                "done"
            }
            Outcome::Refused(code, message) => {
                assert_eq!(code, "SERVICE_UNAVAILABLE", "{message}");
                "refused"
            }
            Outcome::Unknown => panic!("{number} was not answered within {ANSWER:?}"),
        };
        let count = counts.entry(kind).or_default();
        *count = (count.0 + 1, count.1.max(*took));
    }
    println!("edits, and the slowest of each kind: {counts:?}");
}

/// Asserts that edits sent while all nodes knew that Redis is unreachable were rejected at once.
fn are_refused_at_once(tried: &[Tried], from: Instant, to: Instant) {
    let during: Vec<&Tried> = tried.iter().filter(|it| it.at > from && it.at < to).collect();
    assert!(during.len() > 10, "only {} edits were tried", during.len());
    let slowest = during.iter().map(|tried| tried.took).max().unwrap();
    assert!(slowest <= AT_ONCE, "an edit was refused after {slowest:?}");
}

async fn survives(how: Return) {
    let setup = Setup::nodes(3).set("party.archive_debounce", "1s");
    let setup = match how {
        Return::WithData => setup.redis_arguments(&["--appendonly", "yes"]),
        Return::WithOlderData | Return::Empty => setup,
    };
    let cluster = setup.start().await;
    let mut members = Vec::new();
    for node in cluster.every() {
        members.push(Member::join(node, None, "wall", Join::default()).await);
    }
    let [mut ana, mut bo, mut cy] = members.try_into().ok().unwrap();
    let (enough, is_enough) = watch::channel(false);
    let scenario = async {
        sleep(Duration::from_secs(1)).await;
        let ghost = Member::join(cluster.all::<3>()[0], None, "wall", Join::default()).await;
        if how == Return::WithOlderData {
            cluster.redis.command(&["SAVE"]);
        }
        drop(ghost);
        sleep(Duration::from_secs(1)).await;
        let gone_at = now();
        cluster.stop_redis();
        if how == Return::Empty {
            // No edit is in flight when Redis is back.
            sleep_until(gone_at + OUTAGE - Duration::from_secs(3)).await;
            enough.send_replace(true);
        }
        sleep_until(gone_at + OUTAGE).await;
        cluster.redis.restart();
        if how != Return::Empty {
            sleep(Duration::from_secs(8)).await;
            enough.send_replace(true);
        }
        gone_at
    };
    let (gone_at, of_ana, of_bo, of_cy) = tokio::join!(
        scenario,
        edit(&mut ana, 1_000, &is_enough),
        edit(&mut bo, 2_000, &is_enough),
        edit(&mut cy, 3_000, &is_enough),
    );
    let (back_at, begun) = (gone_at + OUTAGE, now());
    let replica = cluster.agrees("wall", &[&ana, &bo, &cy]).await;
    println!("{how:?}: everybody agrees at {:?} after {:?}", replica.at, now() - begun);
    let tried: Vec<Tried> = of_ana.into_iter().chain(of_bo).chain(of_cy).collect();
    judge(&tried, &replica);
    are_refused_at_once(&tried, gone_at + NOTICED, back_at - Duration::from_secs(3));
    if how != Return::Empty {
        let is_done = |it: &&Tried| matches!(it.outcome, Outcome::Done(_)) && it.at > back_at;
        let first = tried.iter().filter(is_done).map(|it| it.at + it.took - back_at).min();
        println!("{how:?}: the first edit was done {:?} after the return", first.unwrap());
    }
    assert_eq!(replica.at.0 > 0, how != Return::WithData, "a new incarnation after a loss");
    assert_eq!(replica.at.1 > 10_000, how != Return::WithData, "{:?}", replica.at);
    for (member, number) in [(&mut ana, 4_000), (&mut bo, 4_001), (&mut cy, 4_002)] {
        assert!(matches!(member.try_add(number).await, Outcome::Done(_)));
    }
    let replica = cluster.agrees("wall", &[&ana, &bo, &cy]).await;
    assert!((4_000..4_003).all(|number| replica.uuids().contains(&uuid(number))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_party_goes_on_when_redis_comes_back_with_its_data() {
    survives(Return::WithData).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_party_goes_on_when_redis_comes_back_with_older_data() {
    survives(Return::WithOlderData).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_party_comes_back_from_memory_when_redis_comes_back_empty() {
    survives(Return::Empty).await;
}

/// How long the archive is away.
fn archive_outage() -> Duration {
    Duration::from_secs(if is_long() { 60 } else { 15 })
}

fn each_network(cluster: &Cluster, what: fn(&heartline_engines::FaultProxy)) {
    cluster.every().for_each(|node| what(node.network()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_party_goes_on_without_its_archive_which_gets_the_newest_state_later() {
    let setup = Setup::nodes(3).network(Network::FaultyToStore);
    let cluster = setup.set("party.archive_debounce", "1s").start().await;
    let mut members = Vec::new();
    for node in cluster.every() {
        members.push(Member::join(node, None, "wall", Join::default()).await);
    }
    let [mut ana, mut bo, mut cy] = members.try_into().ok().unwrap();
    let mut late = PartyClient::connect(cluster.all::<3>()[1].address, None).await;
    let (enough, is_enough) = watch::channel(false);
    let scenario = async {
        sleep(Duration::from_secs(2)).await;
        let gone_at = now();
        each_network(&cluster, heartline_engines::FaultProxy::refuse);
        sleep(Duration::from_secs(3)).await;
        let (asked_at, refused) = (now(), late.try_join("another", Join::default(), ANSWER).await);
        let is_refused = matches!(&refused, Outcome::Refused(code, _)
            if code == "SERVICE_UNAVAILABLE");
        assert!(is_refused, "{refused:?}");
        println!("a new session was refused after {:?}", now() - asked_at);
        let joined = late.try_join("wall", Join::default(), ANSWER).await;
        assert!(matches!(joined, Outcome::Done(_)), "one that is there goes on: {joined:?}");
        sleep_until(gone_at + archive_outage()).await;
        assert!(!cluster.is_archived("wall"), "the archive is away");
        enough.send_replace(true);
    };
    let ((), of_ana, of_bo, of_cy) = tokio::join!(
        scenario,
        edit(&mut ana, 1_000, &is_enough),
        edit(&mut bo, 2_000, &is_enough),
        edit(&mut cy, 3_000, &is_enough),
    );
    let tried: Vec<Tried> = of_ana.into_iter().chain(of_bo).chain(of_cy).collect();
    each_network(&cluster, heartline_engines::FaultProxy::heal);
    let healed_at = now();
    let replica = cluster.agrees("wall", &[&ana, &bo, &cy]).await;
    println!("the archive held the newest state {:?} after its return", now() - healed_at);
    judge(&tried, &replica);
    for Tried { number, outcome, took, .. } in &tried {
        assert!(matches!(outcome, Outcome::Done(_)), "{number}: {outcome:?}");
        assert!(*took <= AT_ONCE, "{number} took {took:?}");
    }
    let can_begin = async || {
        let mut party_client = PartyClient::connect(cluster.all::<3>()[2].address, None).await;
        matches!(party_client.try_join("another", Join::default(), ANSWER).await, Outcome::Done(_))
    };
    eventually("new sessions begin again", SOON, can_begin).await;
}
