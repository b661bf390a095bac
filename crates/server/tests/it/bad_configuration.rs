//! A server that cannot start prints the reason and exits at once with the right exit code.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use heartline_testing::{SECRET, Server};
use tokio::process::Command;
use tokio::time::timeout;

use crate::HEARTLINE;

/// Far more than the second that it may take, because the tests share two processors.
const SOON: Duration = Duration::from_secs(10);

async fn run(mut command: Command) -> Output {
    timeout(SOON, command.output()).await.expect("it ends by itself").unwrap()
}

/// Runs `serve` with a configuration; returns the exit code and the error output.
async fn serve(directory: &Path, configuration: &str) -> (i32, String) {
    let path = directory.join("heartline.toml");
    std::fs::write(&path, configuration).unwrap();
    let mut command = HEARTLINE.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&path);
    let output = run(command).await;
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

async fn is_refused(more: &str, sentences: &[&str]) {
    let directory = HEARTLINE.scratch();
    let auth = if more.contains("[auth]") {
        String::new()
    } else {
        format!("[auth]\nhmac_secret = \"{SECRET}\"\n")
    };
    let (code, complaint) = serve(&directory, &format!("{auth}{more}")).await;
    assert_eq!(code, 2, "{more}: {complaint}");
    assert!(complaint.starts_with("heartline: "), "{complaint}");
    assert!(complaint.contains("heartline.toml"), "{complaint}");
    assert!(!complaint.contains(SECRET) && !complaint.contains("panicked"), "{complaint}");
    for sentence in sentences {
        assert!(complaint.contains(sentence), "{sentence:?} is not in: {complaint}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_key_that_does_not_exist_is_named_with_the_one_that_was_meant() {
    let typo = "[gateway]\nheartbeat_intervall = \"5s\"\n";
    is_refused(typo, &["gateway.heartbeat_intervall", "did you mean gateway.heartbeat_interval?"])
        .await;
    is_refused("[gatewy]\n", &["[gatewy]", "did you mean [gateway]?"]).await;
    is_refused("[server]\nlisten = \n", &["heartline.toml"]).await;
}

#[tokio::test]
async fn a_value_of_the_wrong_type_or_range_is_named_with_what_is_allowed() {
    for (configuration, key) in [
        ("[gateway]\nheartbeat_interval = 5\n", "gateway.heartbeat_interval"),
        ("[gateway]\nheartbeat_interval = \"5\"\n", "gateway.heartbeat_interval"),
        ("[limits]\noutbox_messages = -1\n", "limits.outbox_messages"),
        ("[limits]\nconnections_per_user = \"many\"\n", "limits.connections_per_user"),
        ("[server]\nallowed_origins = \"https://a.example\"\n", "server.allowed_origins"),
        ("[server]\ntrusted_proxies = [\"everybody\"]\n", "server.trusted_proxies"),
        ("[gateway]\nsession_policy = \"none\"\n", "gateway.session_policy"),
        ("[metrics]\nlisten = \"127.0.0.1:70000\"\n", "metrics.listen"),
    ] {
        is_refused(configuration, &[key]).await;
    }
}

#[tokio::test]
async fn times_that_contradict_each_other_are_refused_together() {
    is_refused(
        "[gateway]\nheartbeat_interval = \"5s\"\nheartbeat_timeout = \"6s\"\n\
         [routing]\nlease = \"2s\"\nrenew_interval = \"5s\"\n",
        &["heartbeat_timeout (6s) must be at least twice heartbeat_interval (5s)", "routing.lease"],
    )
    .await;
}

#[tokio::test]
async fn a_server_without_usable_keys_for_tokens_does_not_start() {
    let directory = HEARTLINE.scratch();
    let private = directory.join("private.pem");
    let private_key = include_str!("../../../auth/src/fixtures/rsa_a.private.pem");
    std::fs::write(&private, private_key).unwrap();
    let missing = directory.join("missing.pem");
    let files = |path: &Path| format!("[auth]\npublic_key_files = [\"{}\"]\n", path.display());
    is_refused("[auth]\n", &["no key for tokens is set"]).await;
    is_refused("[auth]\nhmac_secret = \"short\"\n", &["auth.hmac_secret", "32"]).await;
    is_refused(&files(&missing), &["missing.pem", "no such file"]).await;
    is_refused(&files(&directory), &["is a directory"]).await;
    is_refused(&files(&private), &["private.pem", "private key"]).await;
    let two = format!("[auth]\nhmac_secret = \"{SECRET}\"\njwks_url = \"https://a.example/\"\n");
    is_refused(&two, &["keep exactly one kind of key"]).await;
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn files_for_tls_that_cannot_be_read_are_named() {
    let half = "[server]\ntls_cert = \"/nowhere/cert.pem\"\n";
    is_refused(half, &["server.tls_cert", "set server.tls_key too"]).await;
    let missing = "[server]\ntls_cert = \"/nowhere/cert.pem\"\ntls_key = \"/nowhere/key.pem\"\n";
    is_refused(missing, &["/nowhere/cert.pem", "/nowhere/key.pem", "no such file"]).await;
}

#[tokio::test]
async fn a_configuration_that_is_no_text_file_is_refused() {
    let directory = HEARTLINE.scratch();
    let path = directory.join("heartline.toml");
    for content in [&b"\xff\xfe\x00"[..], &[b'#'; 2 * 1024 * 1024]] {
        std::fs::write(&path, content).unwrap();
        let mut command = HEARTLINE.command();
        command.args(["serve", "--config"]).arg(&path);
        let output = run(command).await;
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stderr.starts_with(b"heartline: "), "{output:?}");
    }
    for path in [directory.join("missing.toml"), directory.clone()] {
        let mut command = HEARTLINE.command();
        command.args(["serve", "--config"]).arg(&path);
        let output = run(command).await;
        assert_eq!(output.status.code(), Some(2));
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(complaint.contains(&path.display().to_string()), "{complaint}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn an_environment_variable_that_means_nothing_is_refused() {
    let mut command = HEARTLINE.command();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.env("HEARTLINE__AUTH__HMAC_SECRET", SECRET);
    command.env("HEARTLINE__GATEWAY__AUTH_TIMOUT", "5s");
    let output = run(command).await;
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("gateway.auth_timeout"), "{complaint}");
}

#[tokio::test]
async fn a_port_in_use_is_a_sentence_and_exit_code_1() {
    let server = HEARTLINE.start().await;
    let directory = HEARTLINE.scratch();
    let path = directory.join("heartline.toml");
    std::fs::write(&path, format!("[auth]\nhmac_secret = \"{SECRET}\"\n")).unwrap();
    let mut command = HEARTLINE.command();
    command.args(["serve", "--listen", &server.address.to_string(), "--config"]).arg(&path);
    command.env("HEARTLINE__SERVER__DATA_DIR", directory.join("data"));
    let output = run(command).await;
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains(&format!("cannot listen on {}", server.address)), "{complaint}");
    assert!(complaint.contains("server.listen"), "{complaint}");
    server.connect("ana").await.is_open().await;
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_data_directory_belongs_to_one_server() {
    let directory = HEARTLINE.scratch();
    let data = directory.join("data");
    let dev = || {
        let mut command = HEARTLINE.command();
        command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
        command
    };
    let first = Server::spawn(dev(), directory.clone()).await;
    let output = run(dev()).await;
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains(&format!("process {}", first.pid())), "{complaint}");
    assert!(complaint.contains(&data.display().to_string()), "{complaint}");
    assert!(complaint.contains("--data-dir"), "{complaint}");
    assert_eq!(first.http("GET", "/livez", "", None).await.status, 200);
}

#[tokio::test]
async fn a_command_line_that_makes_no_sense_is_exit_code_2() {
    for arguments in [&["fly"][..], &["serve", "--speed", "9"], &["dev", "--listen"]] {
        let mut command = HEARTLINE.command();
        command.args(arguments);
        let output = run(command).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}
