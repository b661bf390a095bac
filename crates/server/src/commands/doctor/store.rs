//! Checks of the store: reachable, durable, intact, and without halted chats.

use std::fs::{File, TryLockError};
use std::io::Read;
use std::path::Path;

use heartline_adapters::sqlite::{SqliteConfig, Thoroughness, check_store};
use heartline_durability::Chain;
use heartline_runtime::{Clock, Random};

use super::DoctorArguments;
use super::clocks;
use super::evidence::Evidence;
use super::report::{Finding, Report};
use crate::config::{Config, StoreEngine};
use crate::store::Store;

/// Halted chats that are listed.
const HALTED_MAX: usize = 20;

/// Checks the store.
pub(super) async fn examine(
    arguments: &DoctorArguments,
    config: &Config,
    clock: Clock,
    report: &mut Report<'_>,
) -> Vec<Evidence> {
    if !StoreEngine::of(&config.store.url).is_shared() && !is_free(config, report).await {
        return Vec::new();
    }
    let opening =
        report.watch("opening the store", Store::open(config, clock, Random::system())).await;
    let store = match opening {
        Ok(store) => store,
        Err(error) => {
            let finding = Finding::fail("store", format!("{error:#}"));
            report.note(finding.advise("repair this first: no message can be stored until then"));
            return Vec::new();
        }
    };
    let evidence = durability(config, &store, report);
    if let Some(now) = report.watch("reading the clock of the store", store.now()).await {
        report.note(match now {
            Ok(now) => {
                let ahead_ms = now.unix_ms as i64 - clock.wall().unix_ms as i64;
                clocks::finding("store clock", "PostgreSQL", ahead_ms)
            }
            Err(error) => {
                let cause = Chain(&error);
                Finding::fail("store clock", format!("the clock cannot be read: {cause}"))
            }
        });
    }
    let halted = report.watch("looking for halted chats", store.upkeep.halted(HALTED_MAX)).await;
    match halted {
        Ok(chats) if chats.is_empty() => {
            report.note(Finding::pass("halted chats", "no chat is halted"));
        }
        Ok(chats) => {
            let location = match (&arguments.config, &arguments.data_dir) {
                (Some(file), _) => format!(" --config {}", file.display()),
                (None, Some(directory)) => format!(" --data-dir {}", directory.display()),
                (None, None) => String::new(),
            };
            for chat_id in chats {
                let finding = Finding::fail("halted chats", format!("{chat_id} rejects messages"));
                let command = format!("heartline repair counter {chat_id}{location}");
                report.note(
                    finding
                        .advise(format!("find out what damaged its counter, then run {command}")),
                );
            }
        }
        Err(error) => {
            report.note(Finding::fail(
                "halted chats",
                format!("the halted chats cannot be read: {}", Chain(&error)),
            ));
        }
    }
    report.watch("closing the store", store.close()).await;
    evidence
}

/// The evidence from opening the store: its schema, and that commits reach the disk.
fn durability(config: &Config, store: &Store, report: &mut Report<'_>) -> Vec<Evidence> {
    let engine = store.name;
    let evidence = format!("{engine} answers, and its schema is current");
    report.note(Finding::pass("store", evidence));
    if config.store.allow_unsafe {
        let finding = Finding::warn(
            "store durability",
            "store.allow_unsafe is set: acknowledged messages can be lost",
        );
        report.note(finding.advise(
            "remove store.allow_unsafe, and correct the settings that the server then reports",
        ));
        return Vec::new();
    }
    let proved = store.proof;
    report.note(Finding::pass("store durability", proved));
    vec![Evidence::holds("failfast_persistence", format!("{engine}: {proved}"))]
}

/// Checks the whole file of an embedded store. Returns whether the file exists, is intact and is
/// not in use.
async fn is_free(config: &Config, report: &mut Report<'_>) -> bool {
    let path = match SqliteConfig::from_url(&config.store.url, &config.server.data_dir) {
        Ok(sqlite) => sqlite.path,
        Err(error) => {
            report.note(Finding::fail("store", format!("store.url: {error}")));
            return false;
        }
    };
    if !path.exists() {
        let why =
            format!("there is no store at {} yet: the first start creates it", path.display());
        report.note(Finding::skipped("store", why));
        return false;
    }
    if let Some(owner) = holder(&path) {
        let why = format!(
            "{} is in use by {owner}, which checks its settings at start; for the full check and \
             the halted chats stop it, or run `heartline store check --full` beside it",
            path.display()
        );
        report.note(Finding::skipped("store", why));
        return false;
    }
    let checked = path.clone();
    let checking = heartline_runtime::blocking(move || check_store(&checked, Thoroughness::Full));
    let finding = match report.watch("checking the whole store", checking).await {
        Ok(Ok(faults)) if faults.is_empty() => {
            Finding::pass("store file", format!("{} is intact", path.display()))
        }
        Ok(Ok(faults)) => {
            let evidence = format!("{} is damaged: {}", path.display(), faults.join("; "));
            Finding::fail("store file", evidence)
                .advise("restore a backup with `heartline store restore`; keep the file")
        }
        Ok(Err(error)) => Finding::fail("store file", error.to_string()),
        Err(error) => Finding::fail("store file", format!("the check was aborted: {error}")),
    };
    let is_whole = finding.verdict == super::report::Verdict::Pass;
    report.note(finding);
    is_whole
}

/// The process that uses an embedded store. The lock is only tested and never held, so that a
/// server can start meanwhile.
fn holder(database: &Path) -> Option<String> {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    let mut file = File::open(name).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let mut owner = String::new();
    let is_known = file.read_to_string(&mut owner).is_ok() && !owner.trim().is_empty();
    Some(if is_known { owner.trim().to_owned() } else { "another process".to_owned() })
}
