//! `bench receivers`, started by `bench cluster`: the process side of [`super::ReceiverProcess`].

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_runtime::Clock;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::sleep;

use super::messages::{CheckResult, Deliveries, ReceiverPlan, Reply, Request};
use crate::client_sockets::ClientSockets;
use crate::counters::{Epoch, Tally};
use crate::dial::DialPlan;
use crate::machine;
use crate::order_check::OrderCheck;
use crate::server_under_test::ServerUnderTest;
use crate::signer::{Secret, Signer};

/// Number of concurrent handshakes.
const CONCURRENCY: usize = 32;
/// Without a delivery for this long, missing deliveries count as lost.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// How often the number of deliveries is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Faulty receivers that are described; the others are only counted.
pub(super) const EXAMPLES_MAX: usize = 3;

/// Connected receivers.
struct Receivers {
    sockets: ClientSockets,
    plan: ReceiverPlan,
    /// In the order of the plan's receivers.
    checks: Vec<Arc<OrderCheck>>,
}

/// Replies to the requests on standard input until it ends.
pub(crate) async fn serve(secret: &Secret) -> Result<()> {
    let started = Epoch::begin();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut receivers = None;
    while let Some(line) = lines.next_line().await? {
        let request = serde_json::from_str(&line)
            .context("`bench receivers` is started by `bench cluster` and reads its requests")?;
        let reply = match Box::pin(reply_to(request, started, &mut receivers, secret)).await {
            Ok(reply) => reply,
            Err(error) => Reply::Failed { reason: format!("{error:#}") },
        };
        let mut output = io::stdout().lock();
        writeln!(output, "{}", serde_json::to_string(&reply)?)?;
        output.flush()?;
    }
    Ok(())
}

async fn reply_to(
    request: Request,
    started: Epoch,
    receivers: &mut Option<Receivers>,
    secret: &Secret,
) -> Result<Reply> {
    let opened = || receivers.as_ref().context("no receiver is connected: send `open` first");
    Ok(match request {
        Request::Clock => Reply::Clock { nanos: started.nanos() },
        Request::Open(plan) => {
            *receivers = Some(Receivers::open(plan, started, secret).await?);
            Reply::Opened
        }
        Request::WaitForDeliveries { deliveries } => {
            Reply::Deliveries(opened()?.wait_for_deliveries(deliveries).await)
        }
        Request::Check { head_sequences } => Reply::Checked(opened()?.check(&head_sequences)?),
    })
}

impl Receivers {
    async fn open(plan: ReceiverPlan, started: Epoch, secret: &Secret) -> Result<Self> {
        machine::require_open_files(plan.receivers.len())?;
        let epoch = started.moved_back(Duration::from_nanos(plan.clock_offset_nanos))?;
        let mut checks = Vec::with_capacity(plan.receivers.len());
        for receiver in &plan.receivers {
            let chat_id = plan.chat_ids.get(receiver.chat).context("a chat has no id")?;
            checks.push(Arc::new(OrderCheck::new(*chat_id)));
        }
        let users: Vec<String> = plan.receivers.iter().map(|it| it.user_id.clone()).collect();
        let signer = Signer::new(secret, Clock::system());
        let node = ServerUnderTest::at_address(plan.address, Some(signer));
        let mut sockets = ClientSockets::new(epoch, 1);
        let dial = DialPlan::new(&node, &users, CONCURRENCY)?;
        let add = |opened: crate::dial::Opened| {
            let check = checks[opened.index].clone();
            sockets.add_checked(opened, check);
        };
        dial.open_each(&plan.label, add).await?;
        Ok(Self { sockets, plan, checks })
    }

    /// Returns early if no delivery arrives for [`QUIET_MAX`], so that a loss is reported.
    async fn wait_for_deliveries(&self, deliveries: u64) -> Deliveries {
        let counters = self.sockets.counters();
        let mut last = (counters.deliveries(), Clock::system().now());
        while last.0 < deliveries && Clock::system().now() - last.1 < QUIET_MAX {
            sleep(POLL_INTERVAL).await;
            let now = counters.deliveries();
            if now != last.0 {
                last = (now, Clock::system().now());
            }
        }
        let latency = counters.take_latency();
        let counts = latency.iter_recorded();
        Deliveries {
            total: counters.deliveries(),
            closed: counters.get(Tally::Closed),
            latencies: counts.map(|it| (it.value_iterated_to(), it.count_at_value())).collect(),
        }
    }

    fn check(&self, head_sequences: &[u64]) -> Result<CheckResult> {
        let ReceiverPlan { receivers, chat_ids, .. } = &self.plan;
        ensure!(
            head_sequences.len() == chat_ids.len(),
            "{} head sequences were given for {} chats",
            head_sequences.len(),
            chat_ids.len()
        );
        let mut result = CheckResult::default();
        for (receiver, check) in receivers.iter().zip(&self.checks) {
            if let Some(fault) = check.fault(head_sequences[receiver.chat]) {
                result.faulty += 1;
                if result.examples.len() < EXAMPLES_MAX {
                    result.examples.push(format!("{} received {fault}", receiver.user_id));
                }
            }
        }
        Ok(result)
    }
}
