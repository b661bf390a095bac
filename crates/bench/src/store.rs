//! `bench store`, started by `bench send`: the embedded store alone, in its own process, with the
//! same messages in batches of the same size as the server's.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heartline_adapters::sqlite::{SqliteConfig, SqliteStore};
use heartline_durability::message::DEFAULT_CONTENT_TYPE;
use heartline_durability::{ChatLog, Chats, NewChat, NewMessage};
use heartline_protocol::{ChatId, UserId};
use heartline_runtime::{Clock, Random};
use serde::{Deserialize, Serialize};

use super::Ids;
use super::chat_layout::ChatLayout;
use super::child::ChildProcess;
use super::message_template::{IdKind, content};
use super::process::Usage;
use super::push_setup::users;

/// Messages that are prepared before they are stored; preparing them is not measured.
const PREPARED_MESSAGES: usize = 20_000;

/// Arguments of `bench store`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct StoreArgs {
    /// Directory of the new store.
    #[arg(long)]
    directory: PathBuf,
    /// Number of messages to store.
    #[arg(long)]
    messages: u64,
    /// Number of messages in a batch.
    #[arg(long)]
    batch: usize,
    /// Number of senders.
    #[arg(long)]
    senders: usize,
    /// Number of chats.
    #[arg(long)]
    chats: Option<usize>,
    /// Number of members of each chat.
    #[arg(long)]
    members: Option<usize>,
    /// Bytes of content of each message.
    #[arg(long)]
    content: usize,
    /// Kind of message ids.
    #[arg(long)]
    ids: Ids,
}

/// The figures of a store.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct StoreFigures {
    /// Messages that were stored.
    pub(super) messages: u64,
    /// CPU time of the store's process; none if the store has several processes.
    pub(super) cpu_seconds: Option<f64>,
    /// The elapsed time.
    pub(super) elapsed_seconds: f64,
}

/// The parameters of the server's measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct StorePlan<'a> {
    /// The number of messages to store.
    pub(super) messages: u64,
    /// The number of messages in a batch.
    pub(super) batch: usize,
    /// The arguments of the scenario.
    pub(super) options: &'a super::SendArgs,
    /// The kind of message ids.
    pub(super) id_kind: IdKind,
}

/// Measures the store in a new process.
pub(super) async fn measure(plan: StorePlan<'_>) -> Result<StoreFigures> {
    let StorePlan { messages, batch, options, id_kind } = plan;
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
    add("messages", messages.to_string());
    add("batch", batch.to_string());
    add("senders", options.senders.to_string());
    add("content", options.content.to_string());
    add("ids", id_kind.as_str().to_owned());
    if let Some(chats) = options.chats {
        add("chats", chats.to_string());
    }
    if let Some(members) = options.members {
        add("members", members.to_string());
    }
    let (child, mut output) = ChildProcess::store(&arguments)?;
    let read = heartline_runtime::blocking(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let text = read.await??;
    drop(child);
    serde_json::from_str(&text).context("`bench store` printed no figures")
}

/// Stores messages and prints the figures.
pub(super) async fn run(options: &StoreArgs) -> Result<()> {
    let id_kind = *options.ids.kinds().first().context("--ids has no kind")?;
    let layout = ChatLayout::new(options.senders, options.chats, options.members)?;
    let users: Vec<UserId> = users("bench", options.senders)
        .iter()
        .map(|user| user.parse())
        .collect::<Result<_, _>>()?;
    let config = SqliteConfig::in_directory(&options.directory);
    let store = SqliteStore::open(&config, Clock::system(), Random::system())?;
    let mut source = MessageSource::new(&store, layout, users, options.content, id_kind).await?;
    let (mut cpu, mut elapsed, mut stored) = (Duration::ZERO, Duration::ZERO, 0);
    let this = std::process::id();
    while stored < options.messages {
        let batches: Vec<_> = (0..PREPARED_MESSAGES.div_ceil(options.batch))
            .map(|_| source.batch(options.batch))
            .collect();
        let (cpu_before, began) = (Usage::of(this)?.cpu, Clock::system().now());
        for batch in batches {
            let receipts = store.append(batch).await;
            let are_new = receipts.iter().all(|it| matches!(it, Ok(receipt) if !receipt.duplicate));
            ensure!(are_new, "the store did not store every message");
            stored += receipts.len() as u64;
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

/// Makes the messages of the senders of a run: all senders in turn, each to its chats in turn.
struct MessageSource {
    users: Vec<UserId>,
    chats_of: Vec<Vec<ChatId>>,
    content: String,
    id_kind: IdKind,
    next: usize,
}

impl MessageSource {
    async fn new(
        store: &SqliteStore,
        layout: ChatLayout,
        users: Vec<UserId>,
        content_bytes: usize,
        id_kind: IdKind,
    ) -> Result<Self> {
        let mut ids = Vec::with_capacity(layout.chats);
        for chat in 0..layout.chats {
            let mut members = layout.members_of(chat).map(|member| users[member].clone());
            let creator_id = members.next().context("a chat has no members")?;
            let member_ids = members.collect();
            let chat = NewChat { kind: layout.kind, name: None, creator_id, member_ids };
            let created = store.create(chat, None).await?;
            let created =
                created.map_err(|error| anyhow::anyhow!("creating a chat failed: {error:?}"))?;
            ids.push(created.chat.chat_id);
        }
        let chats = |user| layout.chats_of(user).map(|chat| ids[chat]).collect();
        let chats_of = (0..layout.users).map(chats).collect();
        Ok(Self { users, chats_of, content: content(content_bytes)?, id_kind, next: 0 })
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
            client_message_id: self.id_kind.new_id().parse().expect("new ids are valid"),
            content: self.content.clone(),
            content_type: DEFAULT_CONTENT_TYPE.to_owned(),
            origin: None,
        }
    }
}
