//! TLS from PEM files, read again when they change.

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

/// How often the files are looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// Why a pair of files cannot serve, in a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read {}: {source}; check the path, its owner and its mode", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is damaged.
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
    /// Certificate and key are not a pair.
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
    /// Anything else that the library refuses.
    #[error("the certificate {} cannot be used: {source}", path.display())]
    Refused {
        /// The certificate's file.
        path: PathBuf,
        /// What the library said.
        source: rustls::Error,
    },
}

/// What a look at the files led to.
#[derive(Debug)]
pub enum Reload {
    /// The files are as they were.
    Unchanged,
    /// New connections get the new certificate.
    Reloaded,
    /// The new files cannot serve; the old pair goes on.
    Kept(TlsError),
}

/// The certificate in force, and the files it came from. Clones share it.
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
    /// What the files looked like when they were last read, well or not.
    seen: [Option<Stamp>; 2],
}

/// What changes when a file is written or replaced.
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
    /// The files cannot serve.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        // Looked at before they are read: a change in between is then seen the next time.
        let seen = [stamp(certificate), stamp(key)];
        let current = server_config(certificate, key)?;
        let state = Mutex::new(State { current, seen });
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Ok(Self(Arc::new(Inner { certificate, key, state })))
    }

    /// What a new connection is to be served with.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.lock().current.clone()
    }

    /// Reads the files again if they changed since the last look. Blocks for as long as the disk
    /// takes.
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

    /// Looks at the files every few seconds until it is told to stop.
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
            let looked = tokio::task::spawn_blocking(move || reloader.reload_if_changed()).await;
            match looked {
                Ok(Reload::Unchanged) => {}
                Ok(Reload::Reloaded) => tracing::info!("TLS certificate reloaded"),
                Ok(Reload::Kept(error)) => {
                    tracing::error!(%error, "reloading TLS files failed; the old certificate stays in use");
                }
                // The runtime is going away, and this task with it.
                Err(_) => return,
            }
        }
    }

    /// The state is replaced as a whole, so it is sound even after a panic elsewhere.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that is missing for a moment while it is replaced is just another change.
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
