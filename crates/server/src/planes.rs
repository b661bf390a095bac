//! Which planes a node may run.

use anyhow::{Result, bail};
use heartline_routing::{Plane, Planes};

use crate::config::{Config, is_postgres};

/// Refuses a set of planes that this version, or this configuration, cannot run.
///
/// # Errors
/// A sentence that says what to change.
pub(crate) fn check(planes: Planes, config: &Config) -> Result<()> {
    if planes == Planes::ALL {
        return Ok(());
    }
    if config.redis.url.is_none() || !is_postgres(&config.store.url) {
        bail!(
            "--planes {planes}: a node that does not run every plane needs others beside it: set \
             redis.url, and a store.url that all nodes share (postgres://…)"
        );
    }
    if planes.contains(Plane::Ingest) != planes.contains(Plane::Fanout) {
        bail!(
            "--planes {planes}: on the in-process bus ingest and fanout run in one node: name both \
             or neither"
        );
    }
    bail!(
        "--planes {planes}: in this version a gateway cannot reach the ingest plane of another \
         node: run every plane in every node, and leave --planes out"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Disk, Layer, Sources, load};

    fn config(redis: &str, store: &str) -> Config {
        let arguments = Layer::default()
            .with("test", "auth", "hmac_secret", "0123456789abcdef0123456789abcdef")
            .with("test", "redis", "url", redis)
            .with("test", "store", "url", store)
            .with("test", "cluster", "listen", if redis.is_empty() { "" } else { "127.0.0.1:0" })
            .with("test", "cluster", "secret", "0123456789abcdef0123456789abcdef");
        let sources = Sources {
            preset: Layer::default(),
            file: None,
            environment: Vec::new(),
            arguments,
            files: &Disk,
        };
        load(&sources).unwrap().config
    }

    fn refusal(planes: &str, config: &Config) -> String {
        check(planes.parse().unwrap(), config).unwrap_err().to_string()
    }

    #[test]
    fn every_plane_runs_alone_and_among_others() {
        let alone = config("", "sqlite:heartline.db");
        assert!(check(Planes::ALL, &alone).is_ok());
        assert!(check(Planes::ALL, &config("redis://r", "postgres://u@p/d")).is_ok());
        assert!(refusal("gateway", &alone).contains("redis.url"));
    }

    #[test]
    fn fewer_planes_are_refused_with_what_to_change() {
        let shared = config("redis://r", "postgres://u@p/d");
        assert!(refusal("gateway,ingest", &shared).contains("in one node: name both"));
        assert!(refusal("gateway", &shared).contains("leave --planes out"));
        assert!(refusal("ingest,fanout", &shared).contains("leave --planes out"));
    }
}
