//! `heartline repair`: repairs a halted chat.

use std::io::Write;

use anyhow::{Context, Result};
use clap::Subcommand;
use heartline_adapters::sqlite::SqliteStore;
use heartline_durability::Repair;
use heartline_protocol::ChatId;
use heartline_runtime::{Clock, Random};

use super::store::{StoreLocation, print_outcome};
use crate::config::StoreEngine;
use crate::store::Store;

/// Repairs damage that a server must not repair by itself.
#[derive(Debug, clap::Args)]
pub struct RepairArguments {
    #[command(subcommand)]
    command: RepairCommand,
}

#[derive(Debug, Subcommand)]
enum RepairCommand {
    /// Set the counter of a halted chat to its newest message, and end the halt; a server with an
    /// embedded store must be stopped
    Counter {
        /// The id of the chat whose sends fail with CHAT_HALTED
        chat_id: ChatId,
        #[command(flatten)]
        store: StoreLocation,
    },
}

/// Runs the command and returns its exit code: 0, or 1 with an error message.
pub fn run(
    arguments: &RepairArguments,
    clock: Clock,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> u8 {
    let RepairCommand::Counter { chat_id, store } = &arguments.command;
    print_outcome(repair(*chat_id, store, clock), output, errors)
}

fn repair(chat_id: ChatId, location: &StoreLocation, clock: Clock) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot start")?;
    let repaired = runtime.block_on(async {
        let store = open(location, clock).await?;
        let repaired = store.upkeep.repair_counter(chat_id).await;
        store.close().await;
        Ok::<_, anyhow::Error>(repaired?)
    })?;
    match repaired {
        Repair::NoSuchChat => {
            anyhow::bail!("there is no chat {chat_id} in the store")
        }
        Repair::NotNeeded { head } => {
            Ok(format!("{chat_id} is not halted and its counter, {head}, is right"))
        }
        Repair::Done { before, after } => {
            let before = before.map_or_else(|| "missing".to_owned(), |before| before.to_string());
            Ok(format!("the counter of {chat_id} was {before} and is {after}: the chat goes on"))
        }
    }
}

/// Opens the given store; a missing store is an error.
async fn open(location: &StoreLocation, clock: Clock) -> Result<Store> {
    if let Some(config) = location.configuration()?
        && StoreEngine::of(&config.store.url).is_shared()
    {
        return Store::open(&config, clock, Random::system()).await;
    }
    let config = location.find()?;
    anyhow::ensure!(
        config.path.exists(),
        "there is no store at {}; name the server's configuration with --config, or its directory \
         with --data-dir",
        config.path.display()
    );
    Ok(Store::sqlite(SqliteStore::open(&config, clock, Random::system())?))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use heartline_adapters::sqlite::SqliteConfig;
    use heartline_durability::{Chats, NewChat};
    use heartline_protocol::server_frame::ChatKind;

    use super::*;
    use crate::dev::tests::Scratch;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        repair: RepairArguments,
    }

    fn run_in(scratch: &Scratch, chat_id: &str) -> (u8, String) {
        let directory = scratch.path().to_str().unwrap();
        let line = ["repair", "counter", chat_id, "--data-dir", directory];
        let line = Line::try_parse_from(line).map_err(|error| error.to_string());
        let repair = line.unwrap_or_else(|error| panic!("{error}")).repair;
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let code = run(&repair, Clock::system(), &mut output, &mut errors);
        output.extend(errors);
        (code, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_repair_needs_a_stopped_server_a_store_and_a_chat() {
        let scratch = Scratch::new();
        let nowhere = ChatId(7.into()).to_string();
        let (code, printed) = run_in(&scratch, &nowhere);
        assert_eq!(code, 1);
        assert!(printed.contains("there is no store at"), "{printed}");

        let config = SqliteConfig::in_directory(scratch.path());
        let store = SqliteStore::open(&config, Clock::system(), Random::system()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let new = NewChat {
            kind: ChatKind::Group,
            name: None,
            creator_id: "ana".parse().unwrap(),
            member_ids: Vec::new(),
        };
        let chat = runtime.block_on(store.create(new, None)).unwrap().unwrap().chat.chat_id;
        let (code, printed) = run_in(&scratch, &chat.to_string());
        assert_eq!(code, 1);
        assert!(printed.contains("in use by another Heartline"), "{printed}");

        drop(store);
        let (code, printed) = run_in(&scratch, &nowhere);
        assert_eq!(code, 1);
        assert!(printed.contains("there is no chat"), "{printed}");
        let (code, printed) = run_in(&scratch, &chat.to_string());
        assert_eq!(code, 0, "{printed}");
        assert!(printed.contains("is not halted"), "{printed}");
    }
}
