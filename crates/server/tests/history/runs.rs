//! The runs: one a fault, and one a defect that must be found.
//!
//! Each is short here; `scripts/history` makes them long.

use heartline_runtime::Random;
use rand::rngs::StdRng;
use tokio::sync::{Mutex, MutexGuard};

use crate::checker::{Rule, Wanted};
use crate::nemesis::{self, PoweredDisk, SmallDisk};
use crate::run::{Finished, Plan, Shared, run};
use crate::server::Server;

/// A store that acknowledges before the disk has it: what a power cut must show.
const UNSAFE_STORE: &str =
    "[store]\nurl = \"sqlite:heartline.db?synchronous=normal\"\nallow_unsafe = true\n";

/// How often a defect is looked for before it counts as hidden.
const SEARCHES_MAX: usize = 5;

/// Runs do not overlap, because clients that wait for a processor would look like late replies.
static TURN: Mutex<()> = Mutex::const_new(());

pub(crate) async fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

/// The number of faults: small unless set in the environment.
pub(crate) fn rounds(short: usize) -> usize {
    let given = std::env::var("HISTORY_ROUNDS").ok();
    given.map_or(short, |given| given.parse().expect("HISTORY_ROUNDS is a number"))
}

pub(crate) fn seed() -> u64 {
    let given = std::env::var("HISTORY_SEED").ok();
    given.map_or_else(
        || Random::system().draw(),
        |given| given.parse().expect("HISTORY_SEED is a number"),
    )
}

/// Prints what was measured, and fails if a promise was broken or too little was tried.
pub(crate) fn judge(name: &str, seed: u64, finished: &Finished, wanted: &[Wanted]) {
    let Finished { report, complaint, history } = finished;
    println!("run              {name}, HISTORY_SEED={seed}");
    if complaint.is_none() {
        println!("{report}");
    }
    let history = history.display();
    assert_eq!(*complaint, None, "{name}, seed {seed} did not come to its end: see {history}");
    assert!(report.violations.is_empty(), "{name}, seed {seed}: see {history}\n{report}");
    let lacks = report.reached.lacks(wanted);
    assert!(lacks.is_empty(), "{name}, seed {seed} is void, it did not reach: {lacks:?}\n{report}");
}

async fn kill(name: &'static str, seed: u64, kills: usize) -> Finished {
    let mut server = Server::start_new(None, "data", "").await;
    let nemesis = async |server: &mut Server, shared: &Shared, random: &mut StdRng| {
        nemesis::kill(server, shared, random, kills).await;
    };
    run(&Plan::single(name, seed), &mut server, nemesis).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_keeps_every_promise() {
    let _turn = turn().await;
    let (kills, seed) = (rounds(8), seed());
    let finished = kill("kills", seed, kills).await;
    judge("kills", seed, &finished, &Wanted::KILLS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_paused_keeps_every_promise() {
    let _turn = turn().await;
    let (pauses, seed) = (rounds(1), seed());
    let mut server = Server::start_new(None, "data", "").await;
    let nemesis = async |server: &mut Server, shared: &Shared, random: &mut StdRng| {
        nemesis::pause(server, shared, random, pauses).await;
    };
    let finished = run(&Plan::single("pauses", seed), &mut server, nemesis).await;
    judge("pauses", seed, &finished, &[Wanted::ACKED_AFTERWARDS, Wanted::REPEATS_ANSWERED]);
}

/// Fills the disk of a server that keeps so much of it free.
async fn fill_disk(name: &'static str, reserve: &str) {
    let _turn = turn().await;
    let (fillings, seed) = (rounds(2), seed());
    let (disk, namespace) = SmallDisk::mount().await;
    let more = format!("[store]\ndisk_reserve = \"{reserve}\"\n");
    let mut server = Server::start_new(Some(namespace), &disk.data(), &more).await;
    let nemesis = async |server: &mut Server, shared: &Shared, random: &mut StdRng| {
        disk.fill(server, shared, random, fillings).await;
    };
    let finished = run(&Plan::single(name, seed), &mut server, nemesis).await;
    let wanted = [Wanted::REFUSED_WHILE_FULL, Wanted::READ_WHILE_FULL, Wanted::ACKED_AFTERWARDS];
    judge(name, seed, &finished, &wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_sends_and_breaks_no_promise() {
    fill_disk("full-disk", "4MiB").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_in_the_middle_of_a_write_breaks_no_promise() {
    fill_disk("no-reserve", "0KiB").await;
}

async fn cut_power(name: &'static str, seed: u64, cuts: usize, more: &str) -> Finished {
    let (mut disk, namespace) = PoweredDisk::mount().await;
    let mut server = Server::start_new(Some(namespace), &disk.data(), more).await;
    let nemesis = async |server: &mut Server, shared: &Shared, random: &mut StdRng| {
        disk.cut(server, shared, random, cuts).await;
    };
    let finished = run(&Plan::single(name, seed), &mut server, nemesis).await;
    disk.unmount(&mut server).await;
    finished
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_power_is_cut_keeps_every_promise() {
    let _turn = turn().await;
    let (cuts, seed) = (rounds(4), seed());
    let finished = cut_power("power-cuts", seed, cuts, "").await;
    judge("power-cuts", seed, &finished, &[Wanted::KILLS_IN_FLIGHT, Wanted::ACKED_AFTERWARDS]);
}

/// Searches for a known defect until it is found. The run that finds the defect must be complete,
/// because reads that were not made show nothing.
pub(crate) async fn must_find(name: &str, rule: Rule, search: impl AsyncFn(u64) -> Finished) {
    for count in 1..=SEARCHES_MAX {
        let seed = seed();
        let finished = search(seed).await;
        let report = &finished.report;
        if finished.complaint.is_none() && report.has(rule) {
            println!(
                "run              {name}, HISTORY_SEED={seed}, found by search {count}\n{report}"
            );
            return finished.discard();
        }
    }
    panic!("{SEARCHES_MAX} searches did not find {}, though it is there", rule.name());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_wait_for_the_disk_is_caught_by_a_power_cut() {
    let _turn = turn().await;
    let search = async |seed| cut_power("unsafe-store", seed, 2, UNSAFE_STORE).await;
    must_find("unsafe-store", Rule::AckedLost, search).await;
}

#[cfg(feature = "planted-early-ack")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planted_early_acknowledgement_is_caught_by_kills() {
    let _turn = turn().await;
    let search = async |seed| kill("planted", seed, 4).await;
    must_find("planted", Rule::AckedLost, search).await;
}
