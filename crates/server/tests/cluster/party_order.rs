//! The commits of a session in their order, as Redis published them to the nodes, and the checks
//! that they match what the members were promised.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use heartline_runtime::TaskSet;
use heartline_testing::party::{Outcome, item, uuid};
use heartline_testing::{PATIENCE, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::nodes::{Cluster, now};
use crate::party_edits::{Edit, Edited};
use crate::party_replica::{Hashes, Replica};

/// A commit, and when it was received.
#[derive(Debug, Clone)]
struct Committed {
    at: Instant,
    revision: (u64, u64),
    entry: Value,
}

/// Listens to the commits of a session.
pub(crate) struct Recorder {
    commits: Arc<Mutex<Vec<Committed>>>,
    /// Both end with this.
    _child: Child,
    _task: TaskSet<()>,
}

/// The result of all commits.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(crate) replica: Replica,
    /// The hashes at each place.
    hashes: BTreeMap<(u64, u64), Hashes>,
    /// Every queue event by the name that its client gave it: what it was, and its sequence.
    named: HashMap<String, Vec<(String, u64)>>,
    /// The sequences at which everything was replaced.
    replaced: Vec<u64>,
    members: BTreeSet<String>,
    leader: Option<String>,
    epoch: u64,
    /// The elected leaders, with the time at which the event was received.
    pub(crate) elections: Vec<(Instant, String)>,
}

impl Recorder {
    /// Listens from now on.
    pub(crate) async fn on(cluster: &Cluster, session: &str) -> Self {
        let mut command = Command::new("redis-cli");
        let channel = format!("party:{{{session}}}");
        command.args(["-p", &cluster.redis.port().to_string(), "SUBSCRIBE", &channel]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (commits, is_ready) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<bool>>::default());
        let (noted, ready) = (Arc::clone(&commits), Arc::clone(&is_ready));
        let mut task = TaskSet::new();
        task.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                *ready.lock().unwrap() |= line == "subscribe";
                noted.lock().unwrap().extend(committed(&line));
            }
        });
        let is_subscribed = async || *is_ready.lock().unwrap();
        eventually("redis-cli is subscribed", PATIENCE, is_subscribed).await;
        Self { commits, _child: child, _task: task }
    }

    /// The order so far, of edits that these were.
    pub(crate) fn order(&self, edits: &[Edited]) -> Order {
        Order::of(&self.commits.lock().unwrap(), edits)
    }
}

fn committed(line: &str) -> Option<Committed> {
    let (revision, entry) = line.split_once(':')?;
    let (incarnation, version) = revision.split_once('/')?;
    let revision = (incarnation.parse().ok()?, version.parse().ok()?);
    let entry = serde_json::from_str(entry).ok()?;
    Some(Committed { at: now(), revision, entry })
}

impl Order {
    fn of(commits: &[Committed], edits: &[Edited]) -> Self {
        let by_name: HashMap<&str, &Edit> =
            edits.iter().map(|edited| (edited.name.as_str(), &edited.edit)).collect();
        let mut order = Self::default();
        order.begin();
        for (place, commit) in commits.iter().enumerate() {
            assert_eq!(commit.revision, (0, place as u64 + 1), "no commit was missed");
            order.take(commit, &by_name);
        }
        order
    }

    fn begin(&mut self) {
        let Hashes { state, order } = self.replica.hashes();
        let mut empty = self.replica.state();
        (empty["stateHash"], empty["orderHash"]) = (json!(state), json!(order));
        let begun = json!({
            "__typename": "FullSync", "incarnation": 0, "sequence": 0, "state": empty,
        });
        self.replica.apply(&begun).unwrap();
        self.hashes.insert(self.replica.at, self.replica.hashes());
    }

    fn take(&mut self, commit: &Committed, edits: &HashMap<&str, &Edit>) {
        for fact in commit.entry["facts"].as_array().unwrap() {
            if let Some(event) = fact.get("queue") {
                self.take_queue(event, edits);
            } else if let Some(event) = fact.get("session") {
                self.take_session(commit.at, &event["change"]);
            }
        }
        let leads = |leader: &String| self.members.contains(leader);
        let is_led = self.leader.as_ref().is_some_and(leads);
        assert_eq!(is_led, !self.members.is_empty(), "one leads if anybody is here: {commit:?}");
    }

    fn take_queue(&mut self, event: &Value, edits: &HashMap<&str, &Edit>) {
        let stamp = &event["stamp"];
        let (kind, change) = event["change"].as_object().unwrap().iter().next().unwrap();
        let name = stamp["correlation_id"].as_str().expect("every edit was named");
        let sequence = stamp["sequence"].as_u64().unwrap();
        self.named.entry(name.to_owned()).or_default().push((kind.clone(), sequence));
        let mut wire = json!({
            "__typename": kind, "incarnation": 0, "sequence": sequence,
            "stateHash": stamp["state_hash"], "orderHash": stamp["order_hash"],
            "addedItem": change["item"], "currentItem": change["item"], "uuid": change["uuid"],
            "position": change["position"], "mirrored": change["mirrored"],
            "oldIndex": change["old_index"], "newIndex": change["new_index"],
        });
        if kind == "QueueReplaced" {
            assert_eq!(sequence, self.replica.at.1 + 1);
            self.replaced.push(sequence);
            let mut state = edits[name].replace(&self.replica);
            state["stateHash"] = stamp["state_hash"].clone();
            state["orderHash"] = stamp["order_hash"].clone();
            (wire["__typename"], wire["state"]) = (json!("FullSync"), state);
        }
        self.replica.apply(&wire).unwrap();
        self.hashes.insert(self.replica.at, self.replica.hashes());
    }

    fn take_session(&mut self, at: Instant, change: &Value) {
        let (kind, change) = change.as_object().unwrap().iter().next().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        match kind.as_str() {
            "MemberJoined" => drop(self.members.insert(text(&change["member"]["id"]))),
            "MemberLeft" => {
                let member = text(&change["member"]);
                assert!(self.members.remove(&member), "who leaves was here: {member}");
                self.leader = self.leader.take().filter(|leader| *leader != member);
            }
            "LeaderElected" => {
                let epoch = change["epoch"].as_u64().unwrap();
                assert_eq!(epoch, self.epoch + 1, "every epoch has one leader");
                assert_eq!(self.leader, None, "nobody is elected while another leads");
                self.epoch = epoch;
                self.leader = Some(text(&change["member"]));
                self.elections.push((at, text(&change["member"])));
            }
            "Ended" => panic!("nobody was allowed to end the session"),
            _ => {}
        }
    }

    /// Asserts that every state that a client saw is the state committed at that sequence.
    pub(crate) fn judge_seen(&self, seen: &BTreeMap<(u64, u64), Hashes>) {
        for (place, hashes) in seen {
            assert_eq!(self.hashes.get(place), Some(hashes), "at {place:?}");
        }
    }

    /// Every edit is there as often as it was promised, and in the order of time.
    pub(crate) fn judge(&self, edits: &[Edited]) {
        let uuids: BTreeSet<String> = self.replica.uuids().into_iter().collect();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for edited in edits {
            let Edited { name, edit, outcome, .. } = edited;
            let events = self.named.get(name).cloned().unwrap_or_default();
            let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
            let expected = edit.events();
            let is_once = kinds == expected || self.is_again(&events, &expected);
            let (what, is_right) = match outcome {
                Outcome::Done(_) if edit.is_always_seen() => ("done".to_owned(), is_once),
                Outcome::Done(_) => ("done".to_owned(), kinds.is_empty() || kinds == expected),
                Outcome::Refused(code, _) if code == "SERVICE_UNAVAILABLE" => {
                    (format!("{code}, {} events", kinds.len()), kinds.is_empty() || is_once)
                }
                Outcome::Refused(code, _) => (code.clone(), kinds.is_empty()),
                Outcome::Unknown => {
                    (format!("unknown, {} events", kinds.len()), kinds.is_empty() || is_once)
                }
            };
            assert!(is_right, "{edited:?} came to {events:?}");
            if let (Outcome::Done(_), Some(gone)) = (outcome, edit.removes()) {
                assert!(!uuids.contains(&uuid(gone)), "it is back: {edited:?}");
            }
            *counts.entry(what).or_default() += 1;
        }
        println!("edits by what became of them: {counts:?}");
        self.judge_time(edits);
    }

    /// An addition that was asked for again may be done again after everything was replaced.
    fn is_again(&self, events: &[(String, u64)], expected: &[&str]) -> bool {
        let [(first, before), (second, after)] = events else { return false };
        let is_between = |sequence: &u64| before < sequence && sequence < after;
        [first, second].iter().all(|kind| expected == [kind.as_str()])
            && expected == ["QueueItemAdded"]
            && self.replaced.iter().any(is_between)
    }

    /// Asserts that an edit that was acknowledged before another was sent precedes it in the log.
    fn judge_time(&self, edits: &[Edited]) {
        let mut placed: Vec<(u64, &Edited)> = Vec::new();
        for edited in edits {
            let events = self.named.get(&edited.name).into_iter().flatten();
            placed.extend(events.map(|(_, sequence)| (*sequence, edited)).take(1));
        }
        placed.sort_by_key(|(sequence, _)| *sequence);
        let mut latest: Option<&Edited> = None;
        for (_, edited) in placed {
            if let (Outcome::Done(_), Some(latest)) = (&edited.outcome, latest) {
                assert!(edited.answered_at >= latest.asked_at, "{edited:?} came after {latest:?}");
            }
            if latest.is_none_or(|latest| latest.asked_at < edited.asked_at) {
                latest = Some(edited);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;

    /// One member joins and adds items 1 and 2.
    fn commits() -> Vec<Committed> {
        let joined = json!([
            { "session": { "change": { "MemberJoined": { "member": { "id": "ana" } } } } },
            { "session": { "change": { "LeaderElected": { "member": "ana", "epoch": 1 } } } },
        ]);
        let added = |number: usize, hashes: [&str; 2]| {
            let stamp = json!({
                "sequence": number, "state_hash": hashes[0], "order_hash": hashes[1],
                "correlation_id": format!("add-{number}"),
            });
            let change =
                json!({ "QueueItemAdded": { "item": item(number), "position": number - 1 } });
            json!([{ "queue": { "stamp": stamp, "change": change } }])
        };
        let facts = [
            joined,
            added(1, ["fb9211c5", "385d8f9117050cbd"]),
            added(2, ["d12033b1", "9d3e2cd1a7c1d477"]),
        ];
        let commit = |(place, facts): (u64, Value)| Committed {
            at: now(),
            revision: (0, place),
            entry: json!({ "facts": facts }),
        };
        (1..).zip(facts).map(commit).collect()
    }

    /// The same edits as their authors report them.
    fn edits() -> Vec<Edited> {
        let at = now();
        let edited = |number: usize| Edited {
            name: format!("add-{number}"),
            edit: Edit::Add { number, position: None },
            asked_at: at + Duration::from_secs(2 * number as u64),
            answered_at: at + Duration::from_secs(2 * number as u64 + 1),
            outcome: Outcome::Done(Value::Null),
        };
        vec![edited(1), edited(2)]
    }

    fn is_fine(commits: &[Committed], edits: &[Edited]) -> bool {
        catch_unwind(AssertUnwindSafe(|| Order::of(commits, edits).judge(edits))).is_ok()
    }

    #[test]
    fn whoever_judges_a_party_sees_every_kind_of_wrong() {
        assert!(is_fine(&commits(), &edits()), "nothing is wrong");
        assert!(!is_fine(&commits()[..2], &edits()), "what was acknowledged is lost");
        let missed = [commits()[0].clone(), commits()[2].clone()];
        assert!(!is_fine(&missed, &edits()), "a commit was missed");
        let mut refused = edits();
        refused[1].outcome = Outcome::Refused("RATE_LIMITED".to_owned(), String::new());
        assert!(!is_fine(&commits(), &refused), "what was refused was done");
        let mut removed = edits();
        removed[0].name = "remove-1".to_owned();
        removed[0].edit = Edit::Remove { number: 1 };
        assert!(!is_fine(&commits(), &removed), "what was removed is there");
        let mut late = edits();
        late[1].asked_at -= Duration::from_secs(4);
        late[1].answered_at -= Duration::from_secs(4);
        assert!(!is_fine(&commits(), &late), "the order is not that of time");
        let mut twice = commits();
        let second = json!({ "LeaderElected": { "member": "ana", "epoch": 1 } });
        let facts = twice[2].entry["facts"].as_array_mut().unwrap();
        facts.push(json!({ "session": { "change": second } }));
        assert!(!is_fine(&twice, &edits()), "an epoch has two leaders");
        let mut wrong = commits();
        wrong[2].entry["facts"][0]["queue"]["stamp"]["order_hash"] = json!("0000000000000000");
        assert!(!is_fine(&wrong, &edits()), "a hash is wrong");
    }
}
