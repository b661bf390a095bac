//! A session as the engines hold it, and members who follow it.

use std::sync::Mutex;
use std::time::Duration;

use heartline_engines::Postgres;
use heartline_testing::eventually;
use heartline_testing::party::{ADD, Join, Outcome, PartyClient, Received, item, uuid};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::nodes::{Cluster, Node};
use crate::party_replica::{Hashes, Replica};

/// Deadline for equal copies after all faults have ended, without edits.
pub(crate) const SOON: Duration = Duration::from_secs(12);

/// How long an answer may take whatever is down.
pub(crate) const ANSWER: Duration = Duration::from_secs(12);

/// A member who follows the queue and the members.
pub(crate) struct Member {
    pub(crate) party_client: PartyClient,
    pub(crate) id: String,
    pub(crate) token: Option<String>,
    pub(crate) queue: String,
    pub(crate) news: String,
    /// The copy of the queue, and how many events led to it.
    replica: Mutex<(Replica, usize)>,
}

/// The head of a session in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// Incarnation and sequence.
    pub(crate) at: (u64, u64),
    /// Incarnation and version.
    pub(crate) revision: (u64, u64),
    pub(crate) hashes: Hashes,
    pub(crate) leader: Option<String>,
}

impl Member {
    /// Joins on a node and begins to follow.
    pub(crate) async fn join(node: &Node, user: Option<&str>, session: &str, join: Join) -> Self {
        Self::of(PartyClient::connect(node.address, user).await, session, join).await
    }

    /// Joins on an existing connection.
    pub(crate) async fn of(mut party_client: PartyClient, session: &str, join: Join) -> Self {
        let joined = party_client.joins_as(session, join).await;
        Self::joined(party_client, session, &joined).await
    }

    /// A member on a connection that has joined already.
    pub(crate) async fn joined(
        mut party_client: PartyClient,
        session: &str,
        joined: &Value,
    ) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let id = text(&joined["clientId"]).unwrap();
        let token = text(&joined["resumeToken"]);
        let queue = party_client.follows_queue(session).await;
        let news = party_client.follows_session(session).await;
        Self { party_client, id, token, queue, news, replica: Mutex::default() }
    }

    /// The copy of the queue, by all that was received.
    pub(crate) fn replica(&self) -> Replica {
        let mut held = self.replica.lock().unwrap();
        let (replica, applied) = &mut *held;
        for Received { message, .. } in self.party_client.events_from(&self.queue, *applied) {
            *applied += 1;
            replica.apply(&message).unwrap_or_else(|wrong| panic!("{}: {wrong}", self.id));
        }
        replica.clone()
    }

    /// Whether neither stream is over.
    pub(crate) fn follows(&self) -> bool {
        let is_over =
            |id: &str| self.party_client.received(id).iter().any(|it| it.message["type"] != "next");
        self.party_client.is_open() && !is_over(&self.queue) && !is_over(&self.news)
    }

    /// Adds an item; returns the outcome.
    pub(crate) async fn try_add(&mut self, number: usize) -> Outcome {
        let variables = json!({ "item": item(number), "id": format!("add-{number}") });
        let outcome = self.party_client.attempt(ADD, variables, ANSWER).await;
        if let Outcome::Done(data) = &outcome {
            assert_eq!(data["addQueueItem"]["uuid"], uuid(number));
        }
        outcome
    }

    /// The users on the screen, and who of them leads.
    pub(crate) fn roster(&self) -> (Vec<String>, Option<String>) {
        let (mut users, mut leader) = (Vec::new(), None);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for Received { message, .. } in self.party_client.events(&self.news) {
            match message["__typename"].as_str() {
                Some("UserJoined") => {
                    let id = text(&message["user"]["id"]);
                    users.retain(|user| *user != id);
                    users.push(id);
                }
                Some("UserLeft") => {
                    let id = text(&message["userId"]);
                    users.retain(|user| *user != id);
                    leader = leader.filter(|leader| *leader != id);
                }
                Some("LeaderChanged") => leader = Some(text(&message["leaderId"])),
                _ => {}
            }
        }
        users.sort();
        (users, leader)
    }

    /// Waits for a session event no earlier than this; returns its time.
    pub(crate) async fn hears_news(
        &self,
        kind: &str,
        of: &str,
        since: Instant,
        within: Duration,
    ) -> Instant {
        let field = if kind == "UserLeft" { "userId" } else { "leaderId" };
        let find = || {
            let news = self.party_client.events(&self.news).into_iter();
            let mut later = news.filter(|received| received.at >= since);
            later.find(|it| it.message["__typename"] == kind && it.message[field] == of)
        };
        let what = format!(
            "{} receives {kind} of {of}: {:?}",
            self.id,
            self.party_client.events(&self.news)
        );
        eventually(&what, within, async || find().is_some()).await;
        find().unwrap().at
    }
}

impl Cluster {
    /// The head of a session in Redis, if it is there.
    pub(crate) fn head(&self, session: &str) -> Option<Head> {
        let key = format!("party:{{{session}}}:state");
        let json = self.redis.command(&["HGET", &key, "head"]);
        let head: Value = serde_json::from_str(json.trim()).ok()?;
        let number = |name: &str| head[name].as_u64().unwrap();
        let text = |name: &str| head[name].as_str().map(str::to_owned);
        Some(Head {
            at: (number("incarnation"), number("sequence")),
            revision: (number("incarnation"), number("version")),
            hashes: Hashes { state: text("state_hash")?, order: text("order_hash")? },
            leader: text("leader"),
        })
    }

    /// The ids of the members that Redis holds.
    pub(crate) fn member_ids(&self, session: &str) -> Vec<String> {
        let fields = self.redis.command(&["HKEYS", &format!("party:{{{session}}}:state")]);
        let members = fields.lines().filter_map(|name| name.strip_prefix("member:"));
        let mut members: Vec<String> = members.map(str::to_owned).collect();
        members.sort();
        members
    }

    /// Whether the archive holds a session as Redis does.
    pub(crate) fn is_archived(&self, session: &str) -> bool {
        let Some(Head { revision: (incarnation, version), hashes, .. }) = self.head(session) else {
            return false;
        };
        let sql = format!(
            "SELECT count(*) FROM heartline.party_archive WHERE session_id = '{session}' AND incarnation = \
             {incarnation} AND version = {version} AND position('{}'::bytea in document) > 0",
            hashes.order
        );
        Postgres::shared().sql(&self.store, &sql).trim() == "1"
    }

    /// Waits until all copies, Redis and the archive are equal, without any edit; returns the copy.
    pub(crate) async fn agrees(&self, session: &str, members: &[&Member]) -> Replica {
        let is_same = async || {
            let Some(head) = self.head(session) else { return false };
            let people = (self.member_ids(session), head.leader.clone());
            members.iter().all(|member| {
                let replica = member.replica();
                (replica.at, replica.hashes()) == (head.at, head.hashes.clone())
                    && member.roster() == people
            })
        };
        let deadline = crate::nodes::now() + SOON;
        while !is_same().await {
            if crate::nodes::now() > deadline {
                panic!("{}", self.differences(session, members));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for member in members {
            assert!(member.follows(), "the streams of {} are over", member.id);
        }
        let archived = async || self.is_archived(session);
        eventually("the archive holds the newest state", SOON * 3, archived).await;
        members[0].replica()
    }

    fn differences(&self, session: &str, members: &[&Member]) -> String {
        let head = self.head(session);
        let mut text = format!("no agreement within {SOON:?}\nRedis: {head:#?}");
        text += &format!("\nmembers in Redis: {:?}", self.member_ids(session));
        for member in members {
            let Replica { at, .. } = member.replica();
            let last = self.last_heard(member);
            text += &format!(
                "\n{} is at {at:?}, open: {}, follows: {}, sees {:?}, received last {last}",
                member.id,
                member.party_client.is_open(),
                member.follows(),
                member.roster(),
            );
        }
        text
    }

    fn last_heard(&self, member: &Member) -> String {
        let events = member.party_client.events(&member.queue);
        events.last().map_or_else(String::new, |received| {
            let mut event = received.message.clone();
            event["state"] = Value::Null;
            format!("{event} {:?} ago", crate::nodes::now() - received.at)
        })
    }
}
