//! Verifies the signed tokens of connecting users.
//!
//! A token is checked in three steps: `token` parses the compact form, `keys` verifies the
//! signature with the algorithm of the configured key, which the token cannot choose, and `claims`
//! checks the signed content against the rules and the time; the result is a [`Claims`]. Keys come
//! from secrets, PEM files (`pem`), a JWKS file (`jwks`) or a JWKS URL (`remote`); only the last
//! one may wait for the network.

mod claims;
mod jwks;
mod keys;
mod nextauth;
mod pem;
mod remote;
mod secret;
mod sign;
mod token;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::Timestamp;
use heartline_runtime::Clock;
use tokio::time::Instant;

pub use claims::Claims;
pub use jwks::{JWKS_BYTES_MAX, KeySetFault};
pub use keys::{KeyError, KeyFault, Keys, PemFile, SECRET_BYTES_MIN};
pub use remote::{JwksError, JwksSource};
pub use secret::{DATA_DIRECTORY, DevSecretError, Secret, make_dev_secret, read_dev_secret};
pub use sign::{NewToken, SignError, sign};

use claims::Rules;
use keys::KeySet;
use nextauth::NextAuthKey;
use remote::RemoteKeys;
use token::SignedToken;

/// The keys and rules by which tokens are accepted.
#[derive(Debug)]
pub struct AuthConfig {
    /// The keys that tokens may be signed with.
    pub keys: Keys,
    /// The `iss` that every token must carry, if one is configured.
    pub issuer: Option<String>,
    /// The audience that every token's `aud` must name, if one is configured.
    pub audience: Option<String>,
    /// How far this node's clock and the issuer's may differ.
    pub leeway: Duration,
    /// The secret of a site that uses NextAuth, whose tokens are then accepted too.
    pub nextauth_secret: Option<Secret>,
}

/// Why a token was rejected. The client learns only "unauthorized", so that an error never helps to
/// forge a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The token is bad; the reason is for the log only.
    #[error("the token is not valid: {0}")]
    Invalid(&'static str),
    /// The token names a key that a newer key set may contain.
    #[error("the token names a key that is not known yet")]
    UnknownKey,
    /// No key set was loaded yet, so no token can be verified.
    #[error("no key set has been loaded yet")]
    NotReady,
}

/// Verifies tokens. Clones share the keys.
#[derive(Clone)]
pub struct Authenticator {
    shared: Arc<Shared>,
}

struct Shared {
    keys: KeySource,
    rules: Rules,
    nextauth: Option<NextAuthKey>,
    clock: Clock,
}

enum KeySource {
    /// Keys that do not change while the process runs.
    Fixed(KeySet),
    /// Keys that an identity provider publishes and may change.
    Remote(RemoteKeys),
}

impl Authenticator {
    /// Loads the configured keys, and rejects weak ones.
    ///
    /// A JWKS URL is not fetched here: call [`refresh_keys`](Self::refresh_keys) before serving.
    pub fn new(config: AuthConfig, clock: Clock) -> Result<Self, KeyError> {
        let AuthConfig { keys, issuer, audience, leeway, nextauth_secret } = config;
        let keys = match keys {
            Keys::Hmac(secrets) => KeySource::Fixed(KeySet::from_secrets(&secrets)?),
            Keys::PublicKeys(files) => KeySource::Fixed(KeySet::from_pem_files(&files)?),
            Keys::JwksFile { name, text } => KeySource::Fixed(KeySet::from_jwks_file(name, &text)?),
            Keys::JwksUrl(source) => KeySource::Remote(RemoteKeys::new(source)),
        };
        let rules = Rules { issuer, audience, leeway };
        let nextauth = nextauth_secret.as_ref().map(NextAuthKey::new).transpose()?;
        Ok(Self { shared: Arc::new(Shared { keys, rules, nextauth, clock }) })
    }

    /// Verifies a token with the loaded keys; never waits.
    ///
    /// With a JWKS URL the error is [`AuthError::UnknownKey`] for a `kid` that a refresh might
    /// bring, and [`AuthError::NotReady`] before the first key set.
    pub fn verify_now(&self, token: &str) -> Result<Claims, AuthError> {
        self.check(token, self.shared.clock.wall())
    }

    /// Verifies a token, and fetches the JWKS URL before if the token needs it.
    ///
    /// However many tokens need a fetch, the URL is fetched at most once in 30 s (in 5 s before the
    /// first success), and all waiting callers share that fetch. While fetches fail, the last good
    /// set is used. A `kid` that stays unknown is [`AuthError::Invalid`].
    pub async fn verify(&self, token: &str) -> Result<Claims, AuthError> {
        let clock = self.shared.clock;
        self.verify_at(token, clock.wall(), clock.now()).await
    }

    /// Fetches the key set from the JWKS URL, or waits for the pending fetch. If the fetch fails,
    /// the last good set stays in use. Does nothing for keys of the configuration.
    pub async fn refresh_keys(&self) {
        if let KeySource::Remote(remote) = &self.shared.keys {
            remote.refresh(self.shared.clock.now()).await;
        }
    }

    /// How long to wait until the next [`refresh_keys`](Self::refresh_keys): short before the
    /// first success, and `None` if the keys never change.
    pub fn refresh_interval(&self) -> Option<Duration> {
        match &self.shared.keys {
            KeySource::Fixed(_) => None,
            KeySource::Remote(remote) => Some(remote.refresh_interval()),
        }
    }

    /// Whether keys are loaded.
    pub fn is_ready(&self) -> bool {
        match &self.shared.keys {
            KeySource::Fixed(_) => true,
            KeySource::Remote(remote) => remote.current().is_some(),
        }
    }

    async fn verify_at(
        &self,
        token: &str,
        wall: Timestamp,
        now: Instant,
    ) -> Result<Claims, AuthError> {
        let first = self.check(token, wall);
        let (Err(AuthError::UnknownKey | AuthError::NotReady), KeySource::Remote(remote)) =
            (&first, &self.shared.keys)
        else {
            return first;
        };
        remote.refresh_for_token(now).await;
        match self.check(token, wall) {
            Err(AuthError::UnknownKey) => Err(AuthError::Invalid("its kid is in no key set")),
            second => second,
        }
    }

    /// Verifies a token at a given time, without waiting.
    fn check(&self, token: &str, now: Timestamp) -> Result<Claims, AuthError> {
        if let Some(key) = self.shared.nextauth.as_ref().filter(|_| NextAuthKey::is_meant(token)) {
            let rules = Rules { issuer: None, audience: None, leeway: nextauth::LEEWAY };
            return claims::check(key.open(token)?, &rules, now);
        }
        let token = SignedToken::parse(token)?;
        match &self.shared.keys {
            KeySource::Fixed(keys) => {
                keys.check_signature(&token).map_err(|error| match error {
                    AuthError::UnknownKey => AuthError::Invalid("its kid is not in the key file"),
                    other => other,
                })?
            }
            KeySource::Remote(remote) => {
                let keys = remote.current().ok_or(AuthError::NotReady)?;
                keys.check_signature(&token)?;
            }
        }
        claims::check(token.claims()?, &self.shared.rules, now)
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authenticator").field("ready", &self.is_ready()).finish()
    }
}
