//! Measures the embedded store through its port: 64 submitters, each waiting for its answer before
//! it sends again, and one shard that gathers what waits, as ingest does.
//!
//! `cargo run --release -p heartline-adapters --example sqlite_append -- DIRECTORY [SECONDS] [RATE]`
//! The directory must be on the disk that matters. With a rate (messages per second in all) the
//! submitters pace themselves, which shows the latency at part load.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made has failed")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use heartline_adapters::sqlite::{SqliteConfig, SqliteStore};
use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_durability::{ChatLog, Members, NewChat, NewMessage};
use heartline_protocol::server_frame::ChatKind;
use heartline_protocol::{ChatId, UserId};
use heartline_routing::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

const SUBMITTERS: usize = 64;
const CHATS: usize = 100;
const CONTENT_BYTES: usize = 300;
const BATCH_MAX: usize = 512;

/// How submitters name their messages.
#[derive(Debug, Clone, Copy)]
enum Naming {
    Random,
    Ulid,
}

type Submission = (NewMessage, oneshot::Sender<u64>);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("the directory is given");
    let seconds = arguments.next().map_or(6, |text| text.parse().unwrap());
    let rate = arguments.next().map(|text| text.parse::<u64>().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for naming in [Naming::Ulid, Naming::Random] {
        let path = Path::new(&directory).join(format!("measure-{}.db", rand::random::<u32>()));
        runtime.block_on(measure(&path, naming, Duration::from_secs(seconds), rate));
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let _ = fs::remove_file(format!("{}{suffix}", path.display()));
        }
    }
}

async fn measure(path: &Path, naming: Naming, lasts: Duration, rate: Option<u64>) {
    let store = SqliteStore::open(&SqliteConfig::new(path), Clock).unwrap();
    let users: Vec<UserId> =
        (0..SUBMITTERS).map(|number| format!("user-{number}").parse().unwrap()).collect();
    let mut chats = Vec::new();
    for _ in 0..CHATS {
        let new = NewChat {
            kind: ChatKind::Group,
            name: None,
            creator_id: users[0].clone(),
            member_ids: users[1..].to_vec(),
        };
        chats.push(store.create(new, None).await.unwrap().unwrap().chat.chat_id);
    }
    let chats: Arc<[ChatId]> = chats.into();

    let (submissions, receiver) = mpsc::channel(1024);
    let mut tasks = JoinSet::new();
    let ends_at = Clock.now() + lasts;
    let pause = rate.map(|rate| Duration::from_secs(1) * SUBMITTERS as u32 / rate as u32);
    for user in users {
        let (submissions, chats) = (submissions.clone(), Arc::clone(&chats));
        tasks.spawn(async move {
            let mut ticks = pause.map(tokio::time::interval);
            while Clock.now() < ends_at {
                if let Some(ticks) = &mut ticks {
                    ticks.tick().await;
                }
                let (reply, answer) = oneshot::channel();
                submissions.send((message(&user, &chats, naming), reply)).await.unwrap();
                answer.await.unwrap();
            }
        });
    }
    drop(submissions);
    let (cpu_before, written_before) = (cpu_ticks(), bytes_written());
    let (count, latencies, batches) = shard(&store, receiver).await;
    while tasks.join_next().await.is_some() {}
    let cpu_us = (cpu_ticks() - cpu_before) * 10_000;
    let written = bytes_written() - written_before;
    let log_bytes = fs::metadata(format!("{}-wal", path.display())).map_or(0, |wal| wal.len());
    let milliseconds = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
    println!(
        "{naming:?}: {} messages/s, batch {:.1}, CPU {:.1} µs/message, append p50 {:.2} ms \
         p99 {:.2} ms max {:.2} ms, {} bytes written/message, log {} MiB",
        count / lasts.as_secs(),
        count as f64 / batches as f64,
        cpu_us as f64 / count as f64,
        milliseconds(0.5),
        milliseconds(0.99),
        milliseconds(1.0),
        written / count,
        log_bytes >> 20,
    );
    store.close().await;
}

/// Gathers what waits and has it stored, as one shard of ingest does.
async fn shard(
    store: &SqliteStore,
    mut receiver: mpsc::Receiver<Submission>,
) -> (u64, Histogram<u64>, u64) {
    let mut latencies = Histogram::<u64>::new_with_max(60_000_000, 3).unwrap();
    let (mut count, mut batches) = (0, 0);
    let mut waiting = Vec::new();
    while receiver.recv_many(&mut waiting, BATCH_MAX).await > 0 {
        let (messages, replies): (Vec<_>, Vec<_>) = waiting.drain(..).unzip();
        let began = Clock.now();
        let answers = store.append(messages).await.unwrap();
        latencies.saturating_record((Clock.now() - began).as_micros() as u64);
        count += answers.len() as u64;
        batches += 1;
        for (answer, reply) in answers.into_iter().zip(replies) {
            let _ = reply.send(answer.unwrap().message.sequence);
        }
    }
    (count, latencies, batches)
}

fn message(user: &UserId, chats: &[ChatId], naming: Naming) -> NewMessage {
    let name = match naming {
        Naming::Random => format!("{:032x}", rand::random::<u128>()),
        Naming::Ulid => ulid::Ulid::from_parts(Clock.wall().unix_ms, rand::random()).to_string(),
    };
    NewMessage {
        chat_id: chats[rand::random_range(0..chats.len())],
        sender_id: user.clone(),
        client_message_id: name.parse().unwrap(),
        content: "x".repeat(CONTENT_BYTES),
        content_type: DEFAULT_CONTENT_TYPE.to_owned(),
        origin: None,
    }
}

/// Hundredths of a second that this process has computed.
fn cpu_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn bytes_written() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    line.parse().unwrap()
}
