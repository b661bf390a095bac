//! Eight members edit at random on three nodes while nodes are killed, paused and drained. Every
//! acknowledged edit is applied once, in one order, and at the end all members have the same state.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use heartline_runtime::Random;
use heartline_testing::party::Join;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::nodes::{Cluster, Setup, is_long, now};
use crate::party_order::Recorder;
use crate::party_player::{Game, Player};
use crate::party_session::Member;

const SESSION: &str = "wall";

const PLAYERS: usize = 8;

const END: &str = "mutation($s: ID!) { endSession(sessionId: $s) { sessionId } }";

/// Deadline for a new leader after the leader's node was killed or paused.
const DEATH: Duration = Duration::from_secs(20);

/// The duration of the pause of the leader's node.
fn pause() -> Duration {
    Duration::from_secs(if is_long() { 90 } else { 25 })
}

/// Restricts the players to these nodes.
fn usable(game: &Game, cluster: &Cluster, numbers: &[usize]) {
    let nodes: Vec<_> = cluster.every().collect();
    *game.addresses.lock().unwrap() = numbers.iter().map(|it| nodes[*it].address).collect();
}

/// Kills a node, pauses the leader's and drains the third; returns the time of the pause.
async fn fail(cluster: &mut Cluster, game: &Game, leader: &mut Member) -> Instant {
    sleep(Duration::from_secs(3)).await;
    usable(game, cluster, &[0, 1]);
    println!("{} is killed", cluster.lose(2).await);
    sleep(Duration::from_secs(3)).await;
    println!("{} is started", cluster.add_node().await.id);
    usable(game, cluster, &[0, 1, 2]);
    sleep(Duration::from_secs(if is_long() { 10 } else { 2 })).await;

    cluster.node(1).signal("STOP").await;
    let stopped_at = now();
    usable(game, cluster, &[0, 2]);
    let ending = leader.party_client.begin(END, json!({ "s": SESSION })).await;
    sleep(Duration::from_secs(6)).await;
    usable(game, cluster, &[2]);
    cluster.node(0).signal("TERM").await;
    assert_eq!(cluster.node(0).exit_code().await, Some(0));
    println!("drained after {:?}", now() - stopped_at);
    sleep_until(stopped_at + pause()).await;
    cluster.node(1).signal("CONT").await;
    usable(game, cluster, &[1, 2]);

    // The member that led before the pause tries to end the session, but no longer leads.
    let answer = leader.party_client.of(&ending).await;
    let code = &answer["payload"]["errors"][0]["extensions"]["code"];
    assert_eq!(code, "FORBIDDEN", "{answer}");
    sleep(Duration::from_secs(if is_long() { 20 } else { 4 })).await;
    stopped_at
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_party_is_one_whatever_becomes_of_its_nodes() {
    let seed = std::env::var("HEARTLINE_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = seed.unwrap_or_else(|| Random::system().draw());
    println!("HEARTLINE_SEED={seed}");
    let mut cluster = Setup::nodes(3).set("party.archive_debounce", "1s").start().await;
    let recorder = Recorder::on(&cluster, SESSION).await;
    // The leader is signed in, and did not create the session.
    let mut creator = Member::join(cluster.all::<3>()[0], None, SESSION, Join::default()).await;
    let node = cluster.all::<3>()[1];
    let mut leader = Member::join(node, Some("lea"), SESSION, Join::default()).await;
    creator.party_client.leaves().await;
    assert_eq!(cluster.head(SESSION).unwrap().leader.as_ref(), Some(&leader.id));

    let game = Game { session: SESSION.to_owned(), ..Game::default() };
    usable(&game, &cluster, &[0, 1, 2]);
    let players = (0..PLAYERS).map(|number| Player::new(&game, seed, number).play());
    let scenario = async {
        let stopped_at = fail(&mut cluster, &game, &mut leader).await;
        game.is_over.store(true, Ordering::Relaxed);
        stopped_at
    };
    let (stopped_at, members) = tokio::join!(scenario, join_all(players));

    let everybody: Vec<&Member> = members.iter().chain([&leader]).collect();
    let replica = cluster.agrees(SESSION, &everybody).await;
    let edits = game.edits.lock().unwrap().clone();
    let order = recorder.order(&edits);
    assert_eq!((order.replica.at, order.replica.hashes()), (replica.at, replica.hashes()));
    order.judge(&edits);
    order.judge_seen(&game.seen.lock().unwrap());
    let mut elections = order.elections.iter();
    let heir = elections.find(|(at, member)| *at >= stopped_at && *member != leader.id);
    let took = heir.expect("somebody else led").0 - stopped_at;
    assert!(took <= DEATH, "another leader after {took:?}");
    println!(
        "{} edits, {} events, {} elections, another leader after {took:?}, {} came back as the \
         same and {} as others, {} edits were asked for again",
        edits.len(),
        replica.at.1,
        order.elections.len(),
        game.resumed.load(Ordering::Relaxed),
        game.renewed.load(Ordering::Relaxed),
        game.again.load(Ordering::Relaxed),
    );
    assert!(game.resumed.load(Ordering::Relaxed) > 0, "somebody came back");
}
