//! The end of a session: who may end it, what remains of it, what a former member may do.

use std::time::Duration;

use heartline_testing::party::large::message_of;
use heartline_testing::party::{ADD, Join, Outcome, PartyClient, item};
use heartline_testing::{PATIENCE, token};
use serde_json::{Value, json};

use crate::nodes::{Cluster, Network, Node, Setup, now};

/// How soon a stream is over when there is nothing to hear any more.
const OVER: Duration = Duration::from_secs(1);

/// How late it may be on a machine that has more to do.
const SLACK: Duration = Duration::from_secs(1);

/// A guest who joins a session on a node and receives everything of it.
async fn member(node: &Node, user: Option<&str>, session: &str) -> (PartyClient, [String; 2]) {
    let mut party_client = PartyClient::connect(node.address, user).await;
    party_client.joins(session).await;
    let streams =
        [party_client.follows_queue(session).await, party_client.follows_session(session).await];
    for stream in &streams {
        party_client.receives(stream, "the beginning", PATIENCE, |_| true).await;
    }
    (party_client, streams)
}

/// Waits for the end of a stream and returns its last event.
async fn over(party_client: &mut PartyClient, stream: &str) -> Value {
    let begun = now();
    let mut last = Value::Null;
    loop {
        let message = party_client.of(stream).await;
        match message["type"].as_str() {
            Some("next") => last = message["payload"]["data"].clone(),
            Some("complete") => break,
            _ => panic!("{message}"),
        }
    }
    assert!(now() - begun <= OVER + SLACK, "{:?}", now() - begun);
    last
}

async fn end_over_http(node: &Node, user: Option<&str>, session: &str) -> Value {
    let query = format!("mutation {{ endSession(sessionId: \"{session}\") {{ sessionId }} }}");
    let body = json!({ "query": query }).to_string();
    let bearer = user.map(|user| format!("Authorization: Bearer {}\r\n", token(user)));
    let request = format!(
        "POST /graphql HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{}Content-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        bearer.unwrap_or_default(),
        body.len()
    );
    node.http_raw(request.as_bytes()).await.json()
}

#[tokio::test]
async fn only_the_creator_or_the_leader_ends_a_session_and_then_for_good() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let (mut ana, ana_streams) = member(node1, Some("ana"), "wall").await;
    let (mut bo, bo_streams) = member(node2, Some("bo"), "wall").await;
    let (mut cy, _) = member(node2, Some("cy"), "another").await;
    let mut dora = PartyClient::connect(node1.address, None).await;
    for (who, party_client) in
        [("a member", &mut bo), ("the leader of another", &mut cy), ("nobody", &mut dora)]
    {
        let refused = party_client.try_end("wall", PATIENCE).await;
        let message = message_of(&refused, "FORBIDDEN");
        assert!(message.contains("Only the session creator or leader"), "{who}: {message}");
    }
    let refused = end_over_http(node2, None, "wall").await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "UNAUTHORIZED", "{refused}");
    let refused = end_over_http(node2, Some("bo"), "wall").await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "FORBIDDEN", "{refused}");
    bo.adds(1).await;

    // The creator may, also over HTTP when it has left and does not lead any more.
    ana.leaves().await;
    for stream in &ana_streams {
        over(&mut ana, stream).await;
    }
    let ended = end_over_http(node1, Some("ana"), "wall").await;
    assert_eq!(ended["data"]["endSession"]["sessionId"], "wall", "{ended}");
    over(&mut bo, &bo_streams[0]).await;
    let last = over(&mut bo, &bo_streams[1]).await["sessionUpdates"].clone();
    assert_eq!(last["__typename"], "SessionEnded", "{last}");
    let refused = bo.attempt(ADD, json!({ "item": item(2) }), PATIENCE).await;
    let Outcome::Refused(code, _) = refused else { panic!("{refused:?}") };
    assert!(["CONFLICT", "NOT_A_MEMBER"].contains(&code.as_str()), "{code}");
    for node in [node1, node2] {
        let mut late = PartyClient::connect(node.address, Some("ana")).await;
        let seed = Join { queue: Some(vec![item(3)]), ..Join::default() };
        for join in [Join::default(), seed] {
            let refused = late.try_join("wall", join, PATIENCE).await;
            assert!(message_of(&refused, "CONFLICT").contains("has ended"), "{refused:?}");
        }
    }
    // Also when Redis has forgotten it.
    cluster.redis.command(&[
        "EVAL",
        "for _, key in ipairs(redis.call('KEYS', '*party:{wall}*')) do \
        redis.call('DEL', key) end",
        "0",
    ]);
    let mut late = PartyClient::connect(node2.address, None).await;
    let refused = late.try_join("wall", Join::default(), PATIENCE).await;
    assert!(message_of(&refused, "CONFLICT").contains("has ended"), "{refused:?}");
}

#[tokio::test]
async fn who_has_left_does_and_hears_nothing_more_and_the_new_leader_leads_everywhere() {
    let cluster = Cluster::start(2).await;
    let [node1, node2] = cluster.all();
    let (mut eve, eve_streams) = member(node1, None, "wall").await;
    let (mut fay, fay_streams) = member(node2, None, "wall").await;
    eve.leaves().await;
    for stream in &eve_streams {
        over(&mut eve, stream).await;
    }
    let begun = now();
    for query in
        [ADD, "mutation($item: ClimbQueueItemInput!) { setCurrentClimb(item: $item) { uuid } }"]
    {
        let refused = eve.attempt(query, json!({ "item": item(1) }), PATIENCE).await;
        message_of(&refused, "NOT_A_MEMBER");
    }
    for stream in [eve.follows_queue("wall").await, eve.follows_session("wall").await] {
        let refused = eve.of(&stream).await;
        assert_eq!(refused["type"], "error", "{refused}");
        assert_eq!(refused["payload"][0]["extensions"]["code"], "NOT_A_MEMBER", "{refused}");
    }
    assert!(now() - begun <= OVER + SLACK, "at once: {:?}", now() - begun);
    // The former leader may not end the session, whether or not it reconnects.
    message_of(&eve.try_end("wall", PATIENCE).await, "FORBIDDEN");
    assert_eq!(eve.joins("wall").await["isLeader"], false);
    message_of(&eve.try_end("wall", PATIENCE).await, "FORBIDDEN");
    // A member that joins another session leaves this one, and all members receive the event.
    let id = eve.joins("elsewhere").await["clientId"].clone();
    let left = |event: &Value| event["__typename"] == "UserLeft" && event["userId"] == id;
    fay.receives(&fay_streams[1], "that eve left again", PATIENCE, left).await;
    // The new one leads, on a node of its own.
    let ended = fay.try_end("wall", PATIENCE).await;
    assert!(matches!(ended, Outcome::Done(_)), "{ended:?}");
    let last = over(&mut fay, &fay_streams[1]).await["sessionUpdates"].clone();
    assert_eq!(last["reason"], "Session ended by leader", "{last}");
}

#[tokio::test]
async fn nothing_of_the_inside_is_told_when_engines_are_away() {
    const INSIDE: [&str; 9] = [
        "SELECT",
        "INSERT",
        "postgres",
        "redis",
        "Redis",
        "127.0.0.1",
        "timed out",
        "party_",
        "pool",
    ];
    let cluster = Setup::nodes(1).network(Network::FaultyToStore).start().await;
    let [node] = cluster.all();
    let mut ana = PartyClient::connect(node.address, Some("ana")).await;
    ana.joins("wall").await;
    let is_plain = |outcome: &Outcome| {
        let message = message_of(outcome, "SERVICE_UNAVAILABLE");
        assert!(!INSIDE.iter().any(|word| message.contains(word)), "{message}");
    };
    node.network().refuse();
    is_plain(&ana.attempt("{ mySessions { id } }", json!({}), PATIENCE).await);
    let nearby = "{ nearbySessions(latitude: 1, longitude: 1) { id } }";
    is_plain(&ana.attempt(nearby, json!({}), PATIENCE).await);
    let mut bo = PartyClient::connect(node.address, None).await;
    is_plain(&bo.try_join("new", Join::default(), PATIENCE).await);
    ana.adds(1).await;
    node.network().heal();
    cluster.stop_redis();
    is_plain(&ana.attempt(ADD, json!({ "item": item(2) }), PATIENCE).await);
    is_plain(&bo.try_join("wall", Join::default(), PATIENCE).await);
    is_plain(&ana.try_end("wall", PATIENCE).await);
    assert!(ana.is_open() && bo.is_open(), "sockets stay");
}
