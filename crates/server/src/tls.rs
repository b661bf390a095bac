//! TLS from PEM files, reloaded when they change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls_pki_types::pem::{Error as PemError, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// How often the files are checked.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// Why a pair of files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read {}: {source}; check the path, its owner and its mode", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file is no valid PEM.
    #[error("{} is not valid PEM; write it again", .0.display())]
    NotPem(PathBuf),
    /// The file for the certificate holds none.
    #[error(
        "{} holds no certificate; it needs the chain, the server's own certificate first",
        .0.display()
    )]
    NoCertificate(PathBuf),
    /// The file for the key holds none.
    #[error("{} holds no unencrypted private key; it needs one in PEM form", .0.display())]
    NoKey(PathBuf),
    /// Certificate and key do not belong together.
    #[error(
        "the private key {} does not belong to the first certificate in {}; give the pair that \
         was issued together", key.display(), certificate.display()
    )]
    NotAPair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The library rejects the pair for another reason.
    #[error("the certificate {} cannot be used: {source}", path.display())]
    Refused {
        /// The certificate's file.
        path: PathBuf,
        /// The error of the library.
        source: rustls::Error,
    },
}

/// The outcome of a check of the files.
#[derive(Debug)]
pub enum Reload {
    /// The files have not changed.
    Unchanged,
    /// New connections get the new certificate.
    Reloaded,
    /// The new files cannot be used; the old pair stays in use.
    Kept(TlsError),
}

/// The certificate in use, and the files it was read from. Clones share it.
#[derive(Debug, Clone)]
pub struct TlsReloader(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    certificate: PathBuf,
    key: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    current: Arc<ServerConfig>,
    /// The stamps of the files when they were last read, with or without success.
    seen: [Option<Stamp>; 2],
}

/// File properties that change when a file is written or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl TlsReloader {
    /// Reads the pair for the first time.
    ///
    /// # Errors
    /// The files cannot be used.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        // Stamped before they are read, so that a change in between is found by the next check.
        let seen = [stamp(certificate), stamp(key)];
        let current = server_config(certificate, key)?;
        let state = Mutex::new(State { current, seen });
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Ok(Self(Arc::new(Inner { certificate, key, state })))
    }

    /// The TLS configuration for new connections.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.lock().current.clone()
    }

    /// Reads the files again if they have changed since the last check. Blocks the thread while it
    /// reads.
    pub fn reload_if_changed(&self) -> Reload {
        let Inner { certificate, key, .. } = &*self.0;
        let seen = [stamp(certificate), stamp(key)];
        if std::mem::replace(&mut self.lock().seen, seen) == seen {
            return Reload::Unchanged;
        }
        match server_config(certificate, key) {
            Ok(config) => {
                self.lock().current = config;
                Reload::Reloaded
            }
            Err(error) => Reload::Kept(error),
        }
    }

    /// Checks the files every few seconds until `stop`.
    pub async fn watch(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(WATCH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let reloader = self.clone();
            let looked = heartline_runtime::blocking(move || reloader.reload_if_changed()).await;
            match looked {
                Ok(Reload::Unchanged) => {}
                Ok(Reload::Reloaded) => tracing::info!("TLS certificate reloaded"),
                Ok(Reload::Kept(error)) => {
                    tracing::error!(%error, "reloading TLS files failed; the old certificate stays in use");
                }
                // The runtime is shutting down, and this task with it.
                Err(_) => return,
            }
        }
    }

    /// The state is replaced as a whole, so a panic elsewhere cannot leave it half-changed.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that is missing for a moment while it is replaced counts as changed.
fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    Some(Stamp { inode: metadata.ino(), bytes: metadata.len(), modified })
}

/// Builds the server's side of TLS from a pair of PEM files.
fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = read_chain(certificate)?;
    let private_key = read_key(key)?;
    let refused = |source: rustls::Error| match source {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::NotAPair { certificate: certificate.to_owned(), key: key.to_owned() }
        }
        source => TlsError::Refused { path: certificate.to_owned(), source },
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_no_client_auth()
        .with_single_cert(chain, private_key)
        .map_err(refused)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<_, _>>()
        .map_err(|_| TlsError::NotPem(path.to_owned()))?;
    if chain.is_empty() { Err(TlsError::NoCertificate(path.to_owned())) } else { Ok(chain) }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| match error {
        PemError::NoItemsFound => TlsError::NoKey(path.to_owned()),
        _ => TlsError::NotPem(path.to_owned()),
    })
}

#[cfg(test)]
mod tests;
