//! Every mistake that an operator can make, with its error message.

use super::*;

/// The problems of a file with this text, one line each.
fn problems(text: &str) -> Vec<String> {
    let errors = load_text(text).expect_err(text);
    errors.to_string().lines().map(str::to_owned).collect()
}

fn assert_each_is_the_only_problem(table: &[(&str, &str, &str)]) {
    for (text, beginning, also) in table {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{text}\n{found:#?}");
        assert!(found[0].starts_with(beginning), "{text}\n{found:#?}");
        assert!(found[0].contains(also), "{text}\n{found:#?}");
    }
}

/// The text of a file, the beginning of its one problem, and another part of the message.
const MISTAKES: &[(&str, &str, &str)] = &[
    (
        "[server]\nlisten = \"127.0.0.1:70000\"",
        "a.toml:2: server.listen = \"127.0.0.1:70000\": ",
        "0 to 65535",
    ),
    (
        "[server]\nlisten = \"localhost:80\"",
        "a.toml:2: server.listen = ",
        "numeric address and a port",
    ),
    ("[server]\nlisten = 7400", "a.toml:2: server.listen = 7400: ", "text in quotes"),
    ("[server]\nlisten = \"\"", "a.toml:2: server.listen = \"\": ", "127.0.0.1:7400"),
    ("[server]\nname = \"a b\"", "a.toml:2: server.name = \"a b\": ", "1 to 64 characters"),
    ("[server]\nallowed_origins = [\"*.example\"]", "a.toml:2: ", "a scheme and a host"),
    ("[server]\nallowed_origins = [\"https://a.example/\"]", "a.toml:2: ", "no path"),
    ("[server]\nallowed_origins = [\"https://a.example:443\"]", "a.toml:2: ", "usual port"),
    ("[server]\nallowed_origins = [\"https://x\", \"null\"]", "a.toml:2: ", "entry 2: "),
    ("[server]\nallowed_origins = \"https://a\"", "a.toml:2: ", "list of texts"),
    ("[server]\ntrusted_proxies = [\"10.0.0.0/40\"]", "a.toml:2: ", "address or a network"),
    ("[server]\nplanes = [\"relay\"]", "a.toml:2: ", "\"gateway\", \"ingest\" or \"fanout\""),
    ("[server]\nplanes = []", "a.toml: ", "name at least one of the planes"),
    (
        "[gateway]\nheartbeat_interval = \"5\"",
        "a.toml:2: gateway.heartbeat_interval = \"5\": ",
        "write \"5s\"",
    ),
    (
        "[gateway]\nheartbeat_interval = 5",
        "a.toml:2: gateway.heartbeat_interval = 5: ",
        "write \"5s\"",
    ),
    ("[gateway]\nheartbeat_interval = \"-5s\"", "a.toml:2: ", "from 100ms to 10m"),
    ("[gateway]\nheartbeat_interval = \"5 parsecs\"", "a.toml:2: ", "such as \"5s\""),
    (
        "[gateway]\ndrain_timeout = \"4s\"",
        "a.toml:2: gateway.drain_timeout = \"4s\": ",
        "from 5s to 10m",
    ),
    (
        "[gateway]\nsession_policy = \"many\"",
        "a.toml:2: ",
        "\"multi_device\" or \"single_session\"",
    ),
    ("[gateway]\nauth_timeout = true", "a.toml:2: gateway.auth_timeout = true: ", "duration"),
    ("[limits]\noutbox_messages = -1", "a.toml:2: limits.outbox_messages = -1: ", "100 to 1000000"),
    ("[limits]\nsend_rate = 99999999999999999999", "a.toml:2: ", "whole number from 1 to"),
    ("[limits]\nsend_rate = 1.5", "a.toml:2: limits.send_rate = 1.5: ", "whole number"),
    ("[limits]\nsend_rate = \"10\"", "a.toml:2: ", "without quotes"),
    ("[routing]\nshards = 0", "a.toml:2: routing.shards = 0: ", "1 to 16384"),
    ("[routing]\nshards = 16385", "a.toml:2: routing.shards = 16385: ", "1 to 16384"),
    ("[metrics]\nlisten = \"yes\"", "a.toml:2: ", "\"main\""),
    ("[log]\nlevel = \"inof\"", "a.toml:2: log.level = \"inof\": ", "off, error, warn"),
    ("[log]\nformat = \"xml\"", "a.toml:2: ", "\"text\" or \"json\""),
    ("[auth]\nleeway = \"1h\"", "a.toml:2: ", "from 0s to 5m"),
    (
        "[gateway]\nheartbeat_intervall = \"5s\"",
        "a.toml:2: gateway.heartbeat_intervall: ",
        "did you mean gateway.heartbeat_interval?",
    ),
    ("[gateway]\nsend_rate = 5", "a.toml:2: gateway.send_rate: ", "did you mean limits.send_rate?"),
    ("[gateway]\nzzz = 5", "a.toml:2: gateway.zzz: unknown key", "`heartline config`"),
    ("[gatway]\nauth_timeout = \"5s\"\nzzz = 1", "a.toml:1: [gatway]: ", "did you mean [gateway]?"),
    ("[log]\nlevel = \"info\"\n[zzzz]", "a.toml:3: [zzzz]: unknown section", "lists all"),
    ("[[log]]\nlevel = \"info\"", "a.toml:1: log: ", "write [log] once"),
    ("log = \"info\"", "a.toml:1: log: ", "write [log] once"),
    ("[log.level]\nserver = \"info\"", "a.toml:1: log.level = ", "text in quotes"),
    ("listen = \"127.0.0.1:1\"", "a.toml:1: listen: ", "outside a section"),
    ("[server]\nname = ", "a.toml:2: is not TOML here: ", ""),
    ("[log]\nlevel = \"info\"\nlevel = \"warn\"", "a.toml:3: is not TOML here: ", "duplicate key"),
];

#[test]
fn every_mistake_in_a_file_has_its_sentence() {
    assert_each_is_the_only_problem(MISTAKES);
}

/// The same for values that are legal alone.
const CONTRADICTIONS: &[(&str, &str, &str)] = &[
    (
        "[gateway]\nheartbeat_timeout = \"9s\"",
        "a.toml:2: gateway.heartbeat_timeout = \"9s\": ",
        "at least twice heartbeat_interval (5s)",
    ),
    (
        "[gateway]\nheartbeat_interval = \"6s\"",
        "a.toml:2: gateway.heartbeat_interval = \"6s\": ",
        "at least twice",
    ),
    ("[gateway]\nmax_connection_age = \"10s\"", "a.toml:2: ", "longer than heartbeat_timeout"),
    ("[server]\nplanes = [\"ingest\", \"fanout\"]", "a.toml:2: ", "set redis.url"),
    (
        "[routing]\nlease = \"9s\"",
        "a.toml:2: routing.lease = \"9s\": ",
        "at least twice renew_interval (5s)",
    ),
    ("[routing]\nsweep_interval = \"16s\"", "a.toml:2: ", "at most lease"),
    (
        "[limits]\nslow_grace = \"31s\"",
        "a.toml:2: limits.slow_grace = \"31s\": ",
        "at most gateway.drain_timeout (30s)",
    ),
    (
        "[limits]\nsend_rate = 21",
        "a.toml:2: limits.send_rate = 21: ",
        "send_burst (20) must be at least send_rate (21)",
    ),
    (
        "[limits]\nframe_burst = 49",
        "a.toml:2: limits.frame_burst = 49: ",
        "at least frame_rate (50)",
    ),
    ("[metrics]\nlisten = \"127.0.0.1:7400\"", "a.toml:2: metrics.listen = ", "write \"main\""),
    ("[metrics]\nlisten = \"0.0.0.0:7400\"", "a.toml:2: metrics.listen = ", "same port"),
    (
        "[party]\narchive_url = \"sqlite:archive.db\"\n[redis]\nurl = \"redis://127.0.0.1\"\n\
         [store]\nurl = \"postgres://u@h/d\"\n[cluster]\nlisten = \"127.0.0.1:7402\"\n\
         secret = \"0123456789abcdef0123456789abcdef\"",
        "a.toml:2: party.archive_url = ",
        "must share the archive of party sessions too",
    ),
    (
        "[routing]\nsweep_interval = \"2001ms\"\n[redis]\nurl = \"redis://127.0.0.1\"\n\
         [store]\nurl = \"postgres://u@h/d\"\n[cluster]\nlisten = \"127.0.0.1:7402\"\n\
         secret = \"0123456789abcdef0123456789abcdef\"",
        "a.toml:2: routing.sweep_interval = \"2001ms\": ",
        "with redis.url, set sweep_interval to at most 2s",
    ),
    (
        "[auth]\njwks_url = \"https://id.example/keys\"",
        "HEARTLINE__AUTH__HMAC_SECRET: ",
        "auth.jwks_url is set too",
    ),
    (
        "[auth]\nhmac_secrets = [\"0123456789abcdef0123456789abcdef\"]",
        "HEARTLINE__AUTH__HMAC_SECRET: auth.hmac_secret = (hidden): ",
        "put all secrets there",
    ),
];

#[test]
fn every_contradiction_has_its_sentence() {
    assert_each_is_the_only_problem(CONTRADICTIONS);
}

#[test]
fn listeners_on_other_addresses_or_unchosen_ports_do_not_meet() {
    load_text("[metrics]\nlisten = \"127.0.0.2:7400\"").unwrap();
    load_text("[server]\nlisten = \"127.0.0.1:0\"\n[metrics]\nlisten = \"127.0.0.1:0\"").unwrap();
}

#[test]
fn all_problems_come_at_once_and_a_bad_value_causes_no_second_one() {
    let found = problems(
        "[server]\nlisten = \"x\"\n[gateway]\nheartbeat_interval = 9\nheartbeat_timeout = \"1s\"\n\
         [limits]\nsend_rat = 1\n[routing]\nshards = 0\nlease = \"2s\"",
    );
    // The timeout would contradict the default interval, but the intended interval is not known.
    let keys = [
        "server.listen",
        "gateway.heartbeat_interval",
        "limits.send_rat",
        "routing.shards",
        "routing.lease",
    ];
    assert_eq!(found.len(), keys.len(), "{found:#?}");
    for (line, key) in found.iter().zip(keys) {
        assert!(line.contains(key), "{key}\n{found:#?}");
    }
}

#[test]
fn every_mistake_in_the_environment_names_its_variable() {
    let table = [
        ("HEARTLINE__ROUTING__SHARDS", "many", "routing.shards = \"many\": must be a whole number"),
        ("HEARTLINE__ROUTING__SHARDS", "", "routing.shards = \"\": must be a whole number"),
        (
            "HEARTLINE__ROUTING__SHARD",
            "5",
            "routing.shard: unknown key; did you mean routing.shards?",
        ),
        ("HEARTLINE__ROUTNG__SHARDS", "5", "[routng]: unknown section; did you mean [routing]?"),
        ("HEARTLINE__SHARDS", "5", "names no key; write HEARTLINE__SECTION__KEY"),
        ("HEARTLINE__GATEWAY__DRAIN_TIMEOUT", "30", "write \"30s\""),
        ("HEARTLINE__SERVER__TRUSTED_PROXIES", "[1, 2]", "must be a list of texts"),
        ("HEARTLINE__AUTH__JWKS_URL", "https://me:pass@id.example/", "auth.jwks_url = (hidden): "),
    ];
    for (name, value, expected) in table {
        let environment = [(name, value), ("HEARTLINE__AUTH__HMAC_SECRET", SECRET)];
        let errors = load_with(&Shelf::default(), None, &environment).expect_err(name).to_string();
        assert!(errors.starts_with(&format!("{name}: ")), "{errors}");
        assert!(errors.contains(expected), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn a_variable_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let name = "HEARTLINE__AUTH__HMAC_SECRET";
    let errors = load(&Sources {
        preset: Layer::default(),
        file: None,
        environment: vec![(name.into(), OsString::from_vec(vec![0xff; 40]))],
        arguments: Layer::default(),
        files: &Shelf::default(),
    })
    .unwrap_err();
    assert!(errors.to_string().starts_with(&format!("{name}: is not UTF-8 text")));
}

#[test]
fn no_key_for_tokens_is_refused_with_the_choice() {
    let errors = load_with(&Shelf::default(), None, &[]).unwrap_err().to_string();
    assert!(errors.starts_with("configuration: no key for tokens is set"), "{errors}");
    assert!(errors.contains("auth.jwks_url"), "{errors}");
}

#[test]
fn a_short_secret_is_refused_and_not_shown() {
    let secrets = ["[auth]\nhmac_secret = \"hunter2\"", "[auth]\nhmac_secrets = [\"hunter2\"]"];
    for text in secrets {
        let shelf = Shelf::default().with("a.toml", text);
        let errors = load_with(&shelf, Some("a.toml"), &[]).unwrap_err().to_string();
        assert!(errors.contains("= (hidden): "), "{errors}");
        assert!(errors.contains("has 7 bytes, but a secret needs at least 32"), "{errors}");
        assert!(!errors.contains("hunter2"), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn a_line_that_is_not_toml_is_not_shown() {
    let found = problems("[auth]\nhmac_secret = hunter2hunter2").join("\n");
    assert!(found.contains("a.toml:2: is not TOML here"), "{found}");
    assert!(!found.contains("hunter2"), "{found}");
}

#[test]
fn a_broken_file_gives_no_errors_about_missing_keys() {
    let shelf = Shelf::default().with("a.toml", "[auth\nhmac_secret = \"x\"\n[log]\nlevel = 1");
    let errors = load_with(&shelf, Some("a.toml"), &[]).unwrap_err().to_string();
    assert!(errors.contains("a.toml:1: is not TOML here"), "{errors}");
    assert!(errors.contains("a.toml:4: log.level"), "{errors}");
    assert!(!errors.contains("no key for tokens"), "{errors}");
}

#[test]
fn key_files_that_cannot_be_used_are_refused() {
    let private = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----";
    let shelf = Shelf::default()
        .with("issuer.pem", private)
        .with("text.pem", "hello")
        .with("list.json", "[]")
        .with("empty.json", "{\"keys\": []}")
        .with("text.json", "hello");
    let table = [
        ("PUBLIC_KEY_FILES", "nowhere.pem", "there is no such file"),
        ("PUBLIC_KEY_FILES", "private.pem", "this user may not read it"),
        ("PUBLIC_KEY_FILES", "issuer.pem", "issuer.pem: holds a private key"),
        ("PUBLIC_KEY_FILES", "text.pem", "is not PEM"),
        ("JWKS_FILE", "list.json", "needs a list \"keys\""),
        ("JWKS_FILE", "empty.json", "holds no keys"),
        ("JWKS_FILE", "text.json", "is not JSON"),
    ];
    for (key, path, expected) in table {
        let name = format!("HEARTLINE__AUTH__{key}");
        let errors = load_with(&shelf, None, &[(&name, path)]).expect_err(path).to_string();
        assert!(errors.starts_with(&name) && errors.contains(expected), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn half_a_certificate_and_one_that_is_missing_are_refused() {
    let shelf = Shelf::default().with("cert.pem", "");
    let secret = ("HEARTLINE__AUTH__HMAC_SECRET", SECRET);
    let cert = ("HEARTLINE__SERVER__TLS_CERT", "cert.pem");
    let errors = load_with(&shelf, None, &[secret, cert]).unwrap_err().to_string();
    assert!(errors.contains("set server.tls_key too"), "{errors}");
    let key = ("HEARTLINE__SERVER__TLS_KEY", "key.pem");
    let errors = load_with(&shelf, None, &[secret, key]).unwrap_err().to_string();
    assert!(errors.contains("set server.tls_cert too"), "{errors}");
    let errors = load_with(&shelf, None, &[secret, cert, key]).unwrap_err().to_string();
    assert!(errors.contains("server.tls_key = \"key.pem\": there is no such file"), "{errors}");
}

#[test]
fn a_file_that_is_no_configuration_is_refused_with_one_line() {
    let shelf = Shelf::default()
        .with("latin1.toml", [b"[log]\nlevel = \"".as_slice(), &[0xe9], b"\""].concat())
        .with("huge.toml", vec![b'#'; 100 * 1024 * 1024]);
    let table = [
        ("nowhere.toml", "there is no such file"),
        ("private.toml", "this user may not read it"),
        ("latin1.toml", "is not UTF-8 text (byte 15)"),
        ("huge.toml", "is larger than 1 MiB"),
    ];
    for (name, expected) in table {
        let errors = load_with(&shelf, Some(name), &[]).expect_err(name).to_string();
        assert!(errors.starts_with(&format!("{name}: ")) && errors.contains(expected), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn a_directory_is_no_configuration() {
    let directory = std::env::temp_dir();
    let errors = load(&Sources {
        preset: Layer::default(),
        file: Some(&directory),
        environment: Vec::new(),
        arguments: Layer::default(),
        files: &Disk,
    })
    .unwrap_err();
    assert!(errors.to_string().contains("is a directory"), "{errors}");
}

#[test]
fn a_value_full_of_control_characters_stays_on_one_short_line() {
    let found = problems(&format!("[server]\nname = \"\\u001b[31m\\n{}\"", "x".repeat(5000)));
    assert_eq!(found.len(), 1);
    assert!(found[0].len() < 300 && !found[0].contains('\u{1b}'), "{found:?}");
}
