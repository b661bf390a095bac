//! Loads the sources into one checked configuration, or lists everything that is wrong with them.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use heartline_auth::Secret;
use serde::Deserialize;

use super::Config;
use super::auth::{AuthKeys, BadKeyFile};
use super::contradiction;
use super::files::{Files, read_text};
use super::keys::{self, Key};
use super::layer::{Layer, Origin};
use super::problem::{ConfigErrors, Problem};
use super::settings::{Difference, Settings};
use super::store_engine::StoreEngine;

/// The sources of values; each overrides the one before it.
pub struct Sources<'a> {
    /// The settings of the command itself, such as those of `heartline dev`.
    pub preset: Layer,
    /// The operator's file.
    pub file: Option<&'a Path>,
    /// The environment; only `HEARTLINE__…` is read.
    pub environment: Vec<(OsString, OsString)>,
    /// The arguments of the command line.
    pub arguments: Layer,
    /// Reads the files.
    pub files: &'a dyn Files,
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sources").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A configuration that a server can start with.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The typed values.
    pub config: Config,
    /// The keys for tokens, with their files read.
    pub auth_keys: AuthKeys,
    /// Legal settings that an operator should change; one sentence each.
    pub warnings: Vec<String>,
    /// The keys whose values are not the defaults.
    pub differences: Vec<Difference>,
    /// The secret for tokens of users who sign in by name in `heartline dev`. No configuration sets
    /// it.
    pub development: Option<Secret>,
}

/// Loads a configuration: defaults, preset, file, environment, arguments.
///
/// # Errors
/// Every problem, each with its source and the change to make.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, ConfigErrors> {
    let mut problems = Vec::new();
    let mut settings = Settings::defaults();
    let mut is_broken = false;
    settings.overlay(sources.preset.clone(), &mut problems);
    if let Some(path) = sources.file {
        let name = path.display().to_string();
        match read_text(sources.files, path) {
            Ok(text) => {
                let layer = Layer::from_file(&name, &text);
                is_broken = layer.is_broken;
                settings.overlay(layer, &mut problems);
            }
            // Any setting that seems missing may be in that file.
            Err(sentence) => return Err(ConfigErrors(vec![Problem::of_source(name, sentence)])),
        }
    }
    settings.overlay(Layer::from_environment(&sources.environment), &mut problems);
    settings.overlay(sources.arguments.clone(), &mut problems);
    if is_broken {
        return Err(ConfigErrors(problems));
    }

    let subject = sources.file.map_or_else(|| "configuration".into(), Path::to_string_lossy);
    let config = Config::deserialize(settings.to_table())
        .map_err(|error| ConfigErrors(vec![Problem::of_source(&subject, error.message())]))?;
    contradiction::find(&config, &settings, &subject, &mut problems);
    let auth_keys = read_key_files(&config, &settings, sources.files, &mut problems);
    if !problems.is_empty() {
        return Err(ConfigErrors(problems));
    }
    let warnings = warnings(&config, &settings, sources);
    let differences = settings.differences();
    Ok(Loaded { config, auth_keys, warnings, differences, development: None })
}

/// Reads the files with keys; those for TLS are only opened here, and parsed by `tls`.
fn read_key_files(
    config: &Config,
    settings: &Settings,
    files: &dyn Files,
    problems: &mut Vec<Problem>,
) -> AuthKeys {
    let mut note = |section: &str, name: &str, sentence: &str| {
        let key = key(section, name);
        let setting = settings.get(key);
        problems.push(Problem::of_value(&setting.origin, key, &setting.value, sentence));
    };
    let tls_files = [
        ("server", "tls_cert", &config.server.tls_cert),
        ("server", "tls_key", &config.server.tls_key),
        ("redis", "tls_ca", &config.redis.tls_ca),
    ];
    for (section, name, path) in tls_files {
        let sentence = path.as_ref().and_then(|path| read_text(files, path).err());
        if let Some(sentence) = sentence {
            note(section, name, &sentence);
        }
    }
    let (auth_keys, bad) = AuthKeys::read(&config.auth, files);
    for BadKeyFile(name, sentence) in bad {
        note("auth", name, &sentence);
    }
    auth_keys
}

/// Legal settings that an operator should change.
fn warnings(config: &Config, settings: &Settings, sources: &Sources<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let has_secret_from_file = settings.iter().any(|(key, setting)| {
        key.hides(&setting.value) && matches!(setting.origin, Origin::File(..))
    });
    let config_file = sources.file.filter(|_| has_secret_from_file);
    for path in config_file.into_iter().chain(config.server.tls_key.as_deref()) {
        if sources.files.is_world_readable(path) {
            let path = path.display();
            warnings.push(format!(
                "{path} holds secrets and every user of this machine may read it: chmod 600 {path}"
            ));
        }
    }
    if config.routing.lease < config.routing.renew_interval * 3 {
        warnings.push(
            "routing.lease is less than three times routing.renew_interval: two lost renewals \
             would show users offline"
                .to_owned(),
        );
    }
    if config.redis.url.is_none() && StoreEngine::of(&config.store.url).is_shared() {
        warnings.push(
            "store.url is PostgreSQL and redis.url is not set: this node must be the only one on \
             this database, as others would not hear of its messages"
                .to_owned(),
        );
    }
    let server = &config.server;
    let is_exposed = !server.listen.ip().is_loopback() && server.tls_cert.is_none();
    if is_exposed && server.trusted_proxies.is_empty() {
        warnings.push(format!(
            "server.listen = {}: tokens and messages travel unencrypted; set server.tls_cert and \
             server.tls_key, or name the TLS proxy in front in server.trusted_proxies",
            server.listen
        ));
    }
    if server.allowed_origins.iter().any(|origin| origin == "*") {
        warnings.push(
            "server.allowed_origins holds \"*\": every page on the web may connect with whatever \
             token it can get hold of; list the origins of your own pages"
                .to_owned(),
        );
    }
    if config.auth.jwks_url.as_deref().is_some_and(is_plain_remote) {
        warnings.push(
            "auth.jwks_url is plain http: whoever stands between can replace the keys; use https"
                .to_owned(),
        );
    }
    warnings
}

fn is_plain_remote(url: &str) -> bool {
    let uri = url.parse::<http::Uri>().unwrap_or_default();
    let is_local = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    uri.scheme_str() == Some("http") && !is_local
}

fn key(section: &str, name: &str) -> &'static Key {
    keys::find(section, name).expect("key files are named by keys of the table")
}
