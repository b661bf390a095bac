//! The election of a new leader after the leader leaves, its socket closes, or its node is killed.

use std::time::Duration;

use heartline_testing::party::{Join, PartyClient};
use serde_json::Value;

use crate::nodes::{Setup, is_long, now};
use crate::party_session::Member;

/// Deadline for a new leader after the leader left in an orderly way.
const CLEAN: Duration = Duration::from_secs(2);

/// Deadline for the election after the node of the leader was killed.
const DEATH: Duration = Duration::from_secs(20);

fn resumable() -> Join {
    Join { is_resumable: true, ..Join::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_party_has_another_leader_soon_whatever_became_of_the_first() {
    let grace = Duration::from_secs(if is_long() { 30 } else { 8 });
    let setup = Setup::nodes(3).set("party.resume_grace", &format!("{}s", grace.as_secs()));
    let mut cluster = setup.set("party.archive_debounce", "1s").start().await;
    let [one, two, three] = cluster.all::<3>();
    let mut sessions = Vec::new();
    for (session, join) in [
        ("leave", Join::default()),
        ("close", Join::default()),
        ("death", Join::default()),
        ("grace", resumable()),
    ] {
        // A member without a resume token has no grace period.
        let leader = Member::join(one, Some("ana"), session, join).await;
        let heir = Member::join(two, None, session, Join::default()).await;
        let third = Member::join(three, None, session, Join::default()).await;
        assert_eq!(cluster.head(session).unwrap().leader.as_ref(), Some(&leader.id));
        sessions.push((session, leader, heir, third));
    }
    let mut grace_session = sessions.pop().unwrap();
    let death_session = sessions.pop().unwrap();
    for (session, mut leader, heir, third) in sessions {
        let begun = now();
        if session == "leave" {
            leader.party_client.leaves().await;
        } else {
            drop(leader.party_client);
        }
        for member in [&heir, &third] {
            member.hears_news("UserLeft", &leader.id, begun, CLEAN).await;
            let at = member.hears_news("LeaderChanged", &heir.id, begun, CLEAN).await;
            println!("{session}: another leader after {:?}", at - begun);
            assert!(at - begun <= CLEAN, "{session}: {:?}", at - begun);
        }
        cluster.agrees(session, &[&heir, &third]).await;
    }

    let begun = now();
    cluster.lose(0).await;
    let (_, leader, heir, third) = death_session;
    for member in [&heir, &third] {
        member.hears_news("UserLeft", &leader.id, begun, DEATH).await;
        let at = member.hears_news("LeaderChanged", &heir.id, begun, DEATH).await;
        println!("death of the node: another leader after {:?}", at - begun);
    }
    let (_, leader, heir, third) = &mut grace_session;
    for member in [&*heir, &*third] {
        let left = member.hears_news("UserLeft", &leader.id, begun, DEATH + grace + CLEAN).await;
        let at = member.hears_news("LeaderChanged", &heir.id, begun, CLEAN).await;
        println!("death of the node and a grace of {grace:?}: after {:?}", at - begun);
        // Its node may have renewed its lease just before it died.
        assert!(left - begun >= grace, "{:?}", left - begun);
    }
    cluster.agrees("grace", &[heir, third]).await;

    // A node that shuts down removes its leaders in an orderly way.
    let node = cluster.node(0);
    node.signal("TERM").await;
    let closed = heir.party_client.closed().await;
    let at = third.hears_news("LeaderChanged", &third.id, begun, CLEAN * 5).await;
    println!("drained: another leader {:?} after the Close", at.saturating_duration_since(closed));
    assert!(at <= closed + CLEAN, "{:?}", at - closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member_leads_a_party_whose_keys_have_ended_in_redis() {
    let cluster = Setup::nodes(2).set("party.archive_debounce", "1s").start().await;
    let [one, two] = cluster.all::<2>();
    let ana = Member::join(one, None, "wall", Join::default()).await;
    let bo = Member::join(two, None, "wall", Join::default()).await;
    cluster.agrees("wall", &[&ana, &bo]).await;
    // As after four hours in which no node could keep them.
    for name in ["state", "events"] {
        cluster.redis.command(&["DEL", &format!("party:{{wall}}:{name}")]);
    }
    let mut party_client = PartyClient::connect(two.address, None).await;
    let joined = party_client.joins("wall").await;
    let cy = Member::joined(party_client, "wall", &joined).await;
    let leads = |user: &&Value| user["isLeader"] == true;
    assert_eq!(joined["users"].as_array().unwrap().iter().filter(leads).count(), 1, "{joined}");
    // All screens show the one leader that Redis has.
    cluster.agrees("wall", &[&ana, &bo, &cy]).await;
    let leader = cluster.head("wall").unwrap().leader.unwrap();
    assert!([&ana, &bo, &cy].iter().any(|member| member.id == leader), "{leader} is no member");
}
