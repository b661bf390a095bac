//! A process without free file descriptors keeps serving, and accepts again when some are free.

use std::time::Duration;

use heartline_client::raw::connect_raw;
use heartline_runtime::TaskSet;
use heartline_testing::{PATIENCE, SECRET, Server, Socket, bearer};
use tokio::time::timeout;

use crate::HEARTLINE;

/// Open files that the server may have.
const FILES: usize = 64;

/// Clients that want to connect: more than there are files.
const CLIENTS: usize = 100;

/// A server with a low limit of open files.
async fn server_with_few_files() -> Server {
    let directory = HEARTLINE.scratch();
    let path = directory.join("heartline.toml");
    let configuration = format!(
        "[auth]\nhmac_secret = \"{SECRET}\"\n\
         [gateway]\nheartbeat_interval = \"60s\"\nheartbeat_timeout = \"120s\"\n"
    );
    std::fs::write(&path, configuration).unwrap();
    let program = HEARTLINE.command().as_std().get_program().to_owned();
    let mut command = tokio::process::Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {FILES}; exec \"$@\"")).arg("sh").arg(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&path);
    command.env("HEARTLINE__SERVER__DATA_DIR", directory.join("data"));
    Server::spawn(command, directory).await
}

/// Clock ticks of processor time that a process has used, of which there are 100 in a second.
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[tokio::test]
async fn accepting_rests_while_there_are_no_files_and_goes_on_afterwards() {
    let server = server_with_few_files().await;
    let mut attempts = TaskSet::new();
    for number in 0..CLIENTS {
        let (address, bearer) = (server.address, bearer(&format!("user-{number}")));
        attempts.spawn(async move {
            let headers = [("Authorization", bearer.as_str())];
            connect_raw(address, "/v1/ws", &headers).await.unwrap()
        });
    }
    server.logged(&["accept paused"]).await;

    // The passing of time is the subject here: a loop that spins would use all of it.
    let before = processor_ticks(server.pid());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let used = processor_ticks(server.pid()) - before;
    assert!(used < 100, "{used} of 200 ticks were used while resting");

    let mut connected = Vec::new();
    while let Some(attempt) = attempts.try_join_next() {
        connected.push(attempt.unwrap());
    }
    assert!((20..FILES).contains(&connected.len()), "{} are connected", connected.len());
    let mut first = Socket { stream: connected.remove(0).stream };
    first.json_of("connection_established").await;
    first.is_open().await;

    // Each connection that closes admits one that waits, until all have been served.
    drop(connected);
    while let Some(attempt) = timeout(PATIENCE, attempts.join_next()).await.expect("a turn") {
        assert_eq!(attempt.unwrap().status, 101);
    }
    first.is_open().await;
}
