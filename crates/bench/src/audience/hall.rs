//! `bench audience`, which other scenarios start: the process in which an audience listens. It
//! answers what it is asked, and ends when its input does.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_routing::Clock;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::sleep;

use super::words::{Checked, Heard, Plan, Reply, Request};
use crate::counters::{Epoch, Tally};
use crate::dial::DialPlan;
use crate::fleet::Fleet;
use crate::machine;
use crate::record::Record;
use crate::signer::{Secret, Signer};
use crate::subject::Subject;

/// Handshakes under way at once.
const CONCURRENCY: usize = 32;
/// How long arrivals may pause before the rest is given up as lost.
pub(super) const QUIET_MAX: Duration = Duration::from_secs(10);
/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Devices with a fault that are described; the others are only counted.
pub(super) const EXAMPLES_MAX: usize = 3;

/// An audience that is connected.
struct Hall {
    fleet: Fleet,
    plan: Plan,
    /// In the order of the plan's listeners.
    records: Vec<Arc<Record>>,
}

/// Answers until nobody asks any more.
pub(crate) async fn serve(secret: &Secret) -> Result<()> {
    let begun = Epoch::begin();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut hall = None;
    while let Some(line) = lines.next_line().await? {
        let request = serde_json::from_str(&line).context("this is not for people to call")?;
        let reply = match Box::pin(answer(request, begun, &mut hall, secret)).await {
            Ok(reply) => reply,
            Err(error) => Reply::Failed { reason: format!("{error:#}") },
        };
        let mut output = io::stdout().lock();
        writeln!(output, "{}", serde_json::to_string(&reply)?)?;
        output.flush()?;
    }
    Ok(())
}

async fn answer(
    request: Request,
    begun: Epoch,
    hall: &mut Option<Hall>,
    secret: &Secret,
) -> Result<Reply> {
    let opened = || hall.as_ref().context("nobody is connected");
    Ok(match request {
        Request::Clock => Reply::Clock { nanos: begun.nanos() },
        Request::Open(plan) => {
            *hall = Some(Hall::open(plan, begun, secret).await?);
            Reply::Opened
        }
        Request::Hear { deliveries } => Reply::Heard(opened()?.hear(deliveries).await),
        Request::Check { head_sequences } => Reply::Checked(opened()?.check(&head_sequences)?),
    })
}

impl Hall {
    async fn open(plan: Plan, begun: Epoch, secret: &Secret) -> Result<Self> {
        machine::require_open_files(plan.listeners.len())?;
        let epoch = begun.moved_back(Duration::from_nanos(plan.ahead_nanos))?;
        let mut records = Vec::with_capacity(plan.listeners.len());
        for listener in &plan.listeners {
            let chat_id = plan.chat_ids.get(listener.chat).context("a chat has no name")?;
            records.push(Arc::new(Record::new(*chat_id)));
        }
        let users: Vec<String> = plan.listeners.iter().map(|it| it.user_id.clone()).collect();
        let node = Subject::reached_at(plan.address, Some(Signer::new(secret, Clock::system())));
        let mut fleet = Fleet::new(epoch, 1);
        let dial = DialPlan::new(&node, &users, CONCURRENCY)?;
        let take_in = |opened: crate::dial::Opened| {
            let record = records[opened.index].clone();
            fleet.add_listener(opened, record);
        };
        dial.open_each(&plan.label, take_in).await?;
        Ok(Self { fleet, plan, records })
    }

    /// Gives up only when nothing came for a while: a loss is reported, not waited for.
    async fn hear(&self, deliveries: u64) -> Heard {
        let counters = self.fleet.counters();
        let mut last = (counters.deliveries(), Clock::system().now());
        while last.0 < deliveries && Clock::system().now() - last.1 < QUIET_MAX {
            sleep(LOOK_EVERY).await;
            let now = counters.deliveries();
            if now != last.0 {
                last = (now, Clock::system().now());
            }
        }
        let latency = counters.take_latency();
        let counts = latency.iter_recorded();
        Heard {
            deliveries: counters.deliveries(),
            closed: counters.get(Tally::Closed),
            latencies: counts.map(|it| (it.value_iterated_to(), it.count_at_value())).collect(),
        }
    }

    fn check(&self, head_sequences: &[u64]) -> Result<Checked> {
        let Plan { listeners, chat_ids, .. } = &self.plan;
        ensure!(head_sequences.len() == chat_ids.len(), "a chat has no newest number");
        let mut checked = Checked::default();
        for (listener, record) in listeners.iter().zip(&self.records) {
            if let Some(fault) = record.fault(head_sequences[listener.chat]) {
                checked.faulty += 1;
                if checked.examples.len() < EXAMPLES_MAX {
                    checked.examples.push(format!("{} heard {fault}", listener.user_id));
                }
            }
        }
        Ok(checked)
    }
}
