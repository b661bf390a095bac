//! `bench store`, which `bench send` starts: the embedded store by itself, with the same messages
//! in batches of the same size as the server's, in a process of its own.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_adapters::sqlite::{SqliteConfig, SqliteStore};
use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_durability::{ChatLog, Chats, NewChat, NewMessage};
use heartline_protocol::{ChatId, UserId};
use heartline_routing::Clock;
use heartline_runtime::Random;
use serde::{Deserialize, Serialize};

use super::Ids;
use super::child::ChildProcess;
use super::layout::Layout;
use super::letter::{Naming, content};
use super::process::Usage;
use super::side::users;

/// Messages that are composed before they are stored: composing them is not measured.
const COMPOSED_TOGETHER: usize = 20_000;

/// What is stored, and how.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct StoreArgs {
    /// Where the store is made.
    #[arg(long)]
    directory: PathBuf,
    /// How many messages are stored.
    #[arg(long)]
    messages: u64,
    /// How many of them are stored together.
    #[arg(long)]
    batch: usize,
    /// Who sends.
    #[arg(long)]
    senders: usize,
    /// How many chats there are.
    #[arg(long)]
    chats: Option<usize>,
    /// How many members each has.
    #[arg(long)]
    members: Option<usize>,
    /// Bytes of content.
    #[arg(long)]
    content: usize,
    /// How messages are named.
    #[arg(long)]
    ids: Ids,
}

/// What it cost.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct StoreFigures {
    /// Messages that were stored.
    pub(super) messages: u64,
    /// Seconds that the store's process computed, if that is one process.
    pub(super) cpu_seconds: Option<f64>,
    /// Seconds that it took.
    pub(super) elapsed_seconds: f64,
}

/// What the server was measured with.
#[derive(Debug, Clone, Copy)]
pub(super) struct StorePlan<'a> {
    /// How many messages to store.
    pub(super) messages: u64,
    /// How many together.
    pub(super) batch: usize,
    /// The arguments of the scenario.
    pub(super) options: &'a super::SendArgs,
    /// How messages are named.
    pub(super) naming: Naming,
}

/// Has a process of its own measure the store.
pub(super) async fn measure(plan: StorePlan<'_>) -> Result<StoreFigures> {
    let StorePlan { messages, batch, options, naming } = plan;
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
    add("messages", messages.to_string());
    add("batch", batch.to_string());
    add("senders", options.senders.to_string());
    add("content", options.content.to_string());
    add("ids", naming.as_str().to_owned());
    if let Some(chats) = options.chats {
        add("chats", chats.to_string());
    }
    if let Some(members) = options.members {
        add("members", members.to_string());
    }
    let (child, mut output) = ChildProcess::store(&arguments)?;
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let text = read.await??;
    drop(child);
    serde_json::from_str(&text).context("the store by itself did not say what it cost")
}

/// Stores messages and says what it cost.
pub(super) async fn run(options: &StoreArgs) -> Result<()> {
    let naming = *options.ids.namings().first().context("--ids")?;
    let layout = Layout::new(options.senders, options.chats, options.members)?;
    let users: Vec<UserId> = users("bench", options.senders)
        .iter()
        .map(|user| user.parse())
        .collect::<Result<_, _>>()?;
    let config = SqliteConfig::in_directory(&options.directory);
    let store = SqliteStore::open(&config, Clock::system(), Random::system())?;
    let mut composer = Composer::new(&store, layout, users, options.content, naming).await?;
    let (mut cpu, mut elapsed, mut stored) = (Duration::ZERO, Duration::ZERO, 0);
    let this = std::process::id();
    while stored < options.messages {
        let batches: Vec<_> = (0..COMPOSED_TOGETHER.div_ceil(options.batch))
            .map(|_| composer.batch(options.batch))
            .collect();
        let (cpu_before, began) = (Usage::of(this)?.cpu, Clock::system().now());
        for batch in batches {
            let answers = store.append(batch).await;
            let is_new = answers.iter().all(|answer| matches!(answer, Ok(new) if !new.duplicate));
            ensure!(is_new, "the store refused a message");
            stored += answers.len() as u64;
            if stored >= options.messages {
                break;
            }
        }
        elapsed += Clock::system().now().duration_since(began);
        cpu += Usage::of(this)?.cpu.saturating_sub(cpu_before);
    }
    let figures = StoreFigures {
        messages: stored,
        cpu_seconds: Some(cpu.as_secs_f64()),
        elapsed_seconds: elapsed.as_secs_f64(),
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&figures)?)?;
    Ok(())
}

/// Composes messages as the senders of a run do: everybody in turn, each to its chats in turn.
struct Composer {
    users: Vec<UserId>,
    chats_of: Vec<Vec<ChatId>>,
    content: String,
    naming: Naming,
    next: usize,
}

impl Composer {
    async fn new(
        store: &SqliteStore,
        layout: Layout,
        users: Vec<UserId>,
        content_bytes: usize,
        naming: Naming,
    ) -> Result<Self> {
        let mut ids = Vec::with_capacity(layout.chats);
        for chat in 0..layout.chats {
            let mut members = layout.members_of(chat).map(|member| users[member].clone());
            let creator_id = members.next().context("a chat has members")?;
            let member_ids = members.collect();
            let chat = NewChat { kind: layout.kind, name: None, creator_id, member_ids };
            let created = store.create(chat, None).await?;
            let created = created.map_err(|error| anyhow::anyhow!("no chat: {error:?}"))?;
            ids.push(created.chat.chat_id);
        }
        let chats = |user| layout.chats_of(user).map(|chat| ids[chat]).collect();
        let chats_of = (0..layout.users).map(chats).collect();
        Ok(Self { users, chats_of, content: content(content_bytes)?, naming, next: 0 })
    }

    fn batch(&mut self, size: usize) -> Vec<NewMessage> {
        (0..size).map(|_| self.message()).collect()
    }

    fn message(&mut self) -> NewMessage {
        let (round, sender) = (self.next / self.users.len(), self.next % self.users.len());
        self.next += 1;
        let chats = &self.chats_of[sender];
        NewMessage {
            chat_id: chats[round % chats.len()],
            sender_id: self.users[sender].clone(),
            client_message_id: self.naming.name().parse().expect("ids are of legal letters"),
            content: self.content.clone(),
            content_type: DEFAULT_CONTENT_TYPE.to_owned(),
            origin: None,
        }
    }
}
