//! Rooms among other nodes: conflicts, the lifetime of a session, and members that were lost.

use std::time::Duration;

use tokio::time::sleep;

use super::World;
use crate::value::operation::{Membership, Operation};

#[tokio::test]
async fn an_edit_succeeds_although_other_nodes_commit_first_many_times() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    world.store.overtake(20);
    ana.add(1).await;
    assert_eq!(world.store.overtaken(), 0, "every conflict was retried");
    let joined = ana.join("party-1").await;
    assert_eq!(joined["queueState"]["queue"].as_array().unwrap().len(), 1, "{joined}");
}

#[tokio::test(start_paused = true)]
async fn the_lifetime_of_a_session_is_extended_while_it_has_members() {
    const PERIOD: Duration = Duration::from_secs(300);
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    sleep(PERIOD).await;
    let kept = world.store.kept("party-1");
    assert!((4..=6).contains(&kept), "once a minute: {kept}");
    ana.close().await;
    let kept = world.store.kept("party-1");
    sleep(PERIOD).await;
    assert_eq!(world.store.kept("party-1"), kept);
}

#[tokio::test(start_paused = true)]
async fn a_room_without_members_ends_and_no_longer_watches_its_session() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    let rooms = &world.nodes[0].0.rooms;
    assert_eq!((world.store.watchers("party-1"), rooms.tasks().len()), (1, 1));
    ana.close().await;
    sleep(Duration::from_secs(90)).await;
    assert_eq!((world.store.watchers("party-1"), rooms.tasks().len()), (0, 0));
}

#[tokio::test]
async fn a_node_that_was_taken_for_dead_adds_its_members_again() {
    let world = World::of(2).await;
    let [ana] = world.party("party-1").await;
    let bo = world.connect(1, None);
    bo.join("party-1").await;
    let (mut members, mut queue) = (ana.members("party-1"), bo.queue("party-1"));
    members.names(3).await;
    queue.event().await;
    let lost = Membership::NodeLost { node: "node-1".parse().unwrap() };
    let rooms = &world.nodes[0].0.rooms;
    rooms.operate("party-1", Operation::Membership(lost), None, None).await.unwrap();
    assert_eq!(members.names(2).await, ["UserLeft", "UserJoined"]);
    bo.add(1).await;
    assert_eq!(queue.event().await["sequence"], 1, "its stream is still open");
}
