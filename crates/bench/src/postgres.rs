//! PostgreSQL for `bench send`: a database for the server, and `pgbench` as the baseline, which
//! stores the same messages with the same statement, one by one.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use heartline_engines::Postgres;
use heartline_protocol::ChatId;

use super::SendArgs;
use super::chat_layout::ChatLayout;
use super::message_template::IdKind;
use super::store::StoreFigures;

/// Clients of `pgbench`: the default number of senders.
const CLIENTS: usize = 64;
/// Threads of `pgbench`.
const THREADS: usize = 2;
/// The session settings of a server, without which each statement would be planned again.
const SESSION_OPTIONS: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
    -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off";

/// The PostgreSQL under test.
#[derive(Debug)]
pub(super) enum Database {
    /// The database of `--store`.
    Given {
        /// The URL, with its credentials.
        url: String,
    },
    /// A private PostgreSQL that ends with the run.
    Private(Box<Postgres>),
}

/// The parameters of `pgbench`.
#[derive(Debug)]
pub(super) struct PgbenchPlan {
    /// The URL of the database, in which a server has created the chats.
    pub(super) url: String,
    /// The members of the chats.
    pub(super) layout: ChatLayout,
    /// The ids of the chats.
    pub(super) chats: Vec<ChatId>,
    /// The kind of message ids.
    pub(super) id_kind: IdKind,
    /// Bytes of content of each message.
    pub(super) content: usize,
    /// The duration.
    pub(super) seconds: Duration,
}

impl Database {
    /// Opens the database of the options; none for the embedded store.
    pub(super) async fn open(options: &SendArgs) -> Result<Option<Self>> {
        if let Some(url) = &options.store {
            let is_postgres = ["postgres://", "postgresql://"].iter().any(|it| url.starts_with(it));
            ensure!(is_postgres, "--store must be a URL such as postgres://user@host/database");
            program("pgbench")?;
            return Ok(Some(Self::Given { url: url.clone() }));
        }
        if !options.postgres {
            return Ok(None);
        }
        program("initdb").context("install PostgreSQL, or give --store URL")?;
        program("pgbench")?;
        let private = heartline_runtime::blocking(Postgres::start).await?;
        Ok(Some(Self::Private(Box::new(private))))
    }

    /// The URL of a new database, or of the given one.
    pub(super) fn fresh_url(&self) -> Result<String> {
        Ok(match self {
            Self::Given { url } => url.clone(),
            Self::Private(postgres) => postgres.fresh_database(),
        })
    }

    /// A description for the report, without credentials.
    pub(super) fn described(&self) -> String {
        let version = version().unwrap_or_else(|_| "unknown".to_owned());
        match self {
            Self::Given { .. } => format!("given, pgbench {version}"),
            Self::Private(_) => format!("private, {version}, fsync on"),
        }
    }
}

/// Stores messages with `pgbench`, one per transaction.
pub(super) async fn pgbench(plan: PgbenchPlan) -> Result<StoreFigures> {
    let output = heartline_runtime::blocking(move || run(&plan)).await??;
    parse(&output).with_context(|| format!("the output of pgbench has an unknown format: {output}"))
}

fn run(plan: &PgbenchPlan) -> Result<String> {
    let (url, password) = without_password(&plan.url);
    let mut command = Command::new(program("pgbench")?);
    command.args(["--no-vacuum", "--protocol=prepared", "--file=-"]);
    command.args(["--client", &CLIENTS.to_string(), "--jobs", &THREADS.to_string()]);
    command.args(["--time", &plan.seconds.as_secs().max(1).to_string(), &url]);
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    command.env("LC_ALL", "C").env("PGOPTIONS", SESSION_OPTIONS).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting pgbench failed")?;
    let mut input = child.stdin.take().context("pgbench has no standard input")?;
    std::io::Write::write_all(&mut input, script(plan).as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pgbench failed: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The statement with which a server stores a batch, for a batch of one. Each client is a user who
/// sends to their first chat.
fn script(plan: &PgbenchPlan) -> String {
    let PgbenchPlan { layout, chats, id_kind, content, .. } = plan;
    let first_chat = |user: usize| layout.chats_of(user).next().unwrap_or(0);
    let chat_numbers = (0..layout.users).map(|user| (first_chat(user) + 1).to_string());
    let chat_numbers: Vec<String> = chat_numbers.collect();
    let chats: Vec<String> = chats.iter().map(|chat| format!("{:032x}", chat.0.0)).collect();
    let user = format!("(:client_id % {})", layout.users);
    let message_id = match id_kind {
        IdKind::Ulid => {
            "to_hex((extract(epoch FROM clock_timestamp()) * 1000000)::bigint) || '-' || :number"
        }
        IdKind::Random => "replace(gen_random_uuid()::text, '-', '')",
    };
    format!(
        "\\set number random(1, 1000000000000)\n\
         SELECT place, outcome, sequence, created_at, members_version, published, message_id, \
         content_type, content FROM heartline.append(\
         ARRAY[('{{{}}}'::uuid[])[('{{{}}}'::int[])[{user} + 1]]], ARRAY['bench-' || {user}], \
         ARRAY[{message_id}], ARRAY[gen_random_uuid()], ARRAY[NULL]::bytea[], ARRAY['{}'::bytea]);\n",
        chats.join(","),
        chat_numbers.join(","),
        "x".repeat(*content),
    )
}

/// Parses the output of `pgbench`. A failed transaction is an error.
fn parse(output: &str) -> Result<StoreFigures> {
    let after = |marker: &str| {
        let rest = output.lines().find_map(|line| line.strip_prefix(marker))?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    };
    let messages = after("number of transactions actually processed: ");
    let messages = messages.context("the number of transactions is missing")?;
    let failed = after("number of failed transactions: ").unwrap_or(0.0);
    if failed > 0.0 {
        bail!("{failed} transactions of pgbench failed");
    }
    let per_second = after("tps = ").context("the rate is missing")?;
    let elapsed_seconds = messages / per_second;
    Ok(StoreFigures { messages: messages as u64, cpu_seconds: None, elapsed_seconds })
}

fn version() -> Result<String> {
    let output = Command::new(program("pgbench")?).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().nth(2).unwrap_or("unknown").to_owned())
}

/// The path of a PostgreSQL program: in `PATH`, or in Debian's directories, newest version first.
fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let entries = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = entries.map(|entry| entry.path().join("bin")).collect();
    versions.sort();
    directories.extend(versions.into_iter().rev());
    let found = directories.into_iter().map(|directory| directory.join(name));
    let found = found.into_iter().find(|program| program.exists());
    found.with_context(|| format!("{name} of PostgreSQL is not installed"))
}

/// Splits the password from a URL, which other users can see in the list of processes.
fn without_password(url: &str) -> (String, Option<String>) {
    let parts = || {
        let (scheme, rest) = url.split_once("://")?;
        let authority_end = rest.find('/').unwrap_or(rest.len());
        let (credentials, _) = rest[..authority_end].rsplit_once('@')?;
        let (user, password) = credentials.split_once(':')?;
        let host = &rest[credentials.len()..];
        Some((format!("{scheme}://{user}{host}"), Some(password.to_owned())))
    };
    parts().unwrap_or_else(|| (url.to_owned(), None))
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    #[test]
    fn the_figures_of_pgbench_are_read_from_its_output() {
        let output = "number of transactions actually processed: 3000\n\
                      number of failed transactions: 0 (0.000%)\n\
                      tps = 1500.000000 (without initial connection time)\n";
        let figures = parse(output).unwrap();
        assert_eq!(figures.messages, 3000);
        assert!((figures.elapsed_seconds - 2.0).abs() < 1e-9);
        assert!(parse(&output.replace(": 0 (", ": 7 (")).is_err());
        assert!(parse("").is_err());
    }

    #[test]
    fn every_client_sends_to_a_chat_of_its_user() {
        let layout = ChatLayout::new(4, None, None).unwrap();
        let plan = PgbenchPlan {
            url: String::new(),
            layout,
            chats: vec![ChatId(Ulid(1)), ChatId(Ulid(2))],
            id_kind: IdKind::Random,
            content: 3,
            seconds: Duration::from_secs(1),
        };
        let script = script(&plan);
        assert!(script.contains("'{1,1,2,2}'::int[])[(:client_id % 4) + 1]"), "{script}");
        assert!(script.contains("00000000000000000000000000000002}'::uuid[]"), "{script}");
        assert!(script.contains("'xxx'::bytea"), "{script}");
    }

    #[test]
    fn a_password_is_not_shown_in_the_list_of_processes() {
        let (url, password) = without_password("postgres://ana:pw@host:1/db?sslmode=disable");
        assert_eq!(url, "postgres://ana@host:1/db?sslmode=disable");
        assert_eq!(password.as_deref(), Some("pw"));
        let plain = "postgres://ana@host/db";
        assert_eq!(without_password(plain), (plain.to_owned(), None));
    }
}
