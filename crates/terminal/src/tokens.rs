//! The token that the terminal connects with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use async_trait::async_trait;
use heartline_auth::{DevSecretError, NewToken, read_dev_secret, sign};
use heartline_client::{TokenError, TokenNeed, TokenProvider};
use heartline_protocol::{Token, UserId};
use heartline_runtime::Clock;

use super::{ConnectArgs, TOKEN_VARIABLE};

/// The lifetime of a signed token; the client requests a newer one in time.
const LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The source of the terminal's tokens.
#[derive(Debug, Clone)]
pub enum Tokens {
    /// The one given token.
    Given(Token),
    /// Tokens signed with the secret of a development server.
    Signed(Signer),
}

impl Tokens {
    /// The tokens of the arguments or, without any, the token `variable`, which is the value of
    /// [`TOKEN_VARIABLE`].
    ///
    /// # Errors
    /// No user and no token is given, or the user's tokens cannot be signed.
    pub fn find(arguments: &ConnectArgs, variable: Option<String>) -> anyhow::Result<Self> {
        if let Some(user) = &arguments.user {
            let signer = Signer::new(user.clone(), arguments.data_dir.clone());
            // A missing secret is reported before the first attempt.
            if let Err(error) = signer.sign() {
                bail!(error);
            }
            return Ok(Self::Signed(signer));
        }
        let variable = variable.filter(|text| !text.is_empty()).map(Token);
        match arguments.token.clone().or(variable) {
            Some(token) => Ok(Self::Given(token)),
            None => bail!(
                "no user and no token: give --user NAME for a `heartline dev` on this machine, \
                 or a token with {TOKEN_VARIABLE} or --token"
            ),
        }
    }

    /// A valid token.
    pub(super) fn current(&self) -> Result<Token, String> {
        match self {
            Self::Given(token) => Ok(token.clone()),
            Self::Signed(signer) => signer.sign(),
        }
    }

    /// The directory whose secret signs the tokens, if they are signed.
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Given(_) => None,
            Self::Signed(signer) => Some(&signer.directory),
        }
    }
}

#[async_trait]
impl TokenProvider for Tokens {
    async fn token(&self, need: TokenNeed) -> Result<Token, TokenError> {
        match (self, need) {
            (Self::Given(_), TokenNeed::Refresh) => {
                Err(TokenError::Ended("only one token was given".to_owned()))
            }
            _ => self.current().map_err(TokenError::Unavailable),
        }
    }
}

/// Signs one user's tokens with the secret of a development server.
#[derive(Debug, Clone)]
pub struct Signer {
    token: NewToken,
    directory: PathBuf,
}

impl Signer {
    fn new(user: UserId, directory: PathBuf) -> Self {
        Self { token: NewToken::new(user, LIFETIME), directory }
    }

    /// Signs a token. The secret is read every time, because a server whose directory was created
    /// again has another one.
    fn sign(&self) -> Result<Token, String> {
        let secret = read_dev_secret(&self.directory).map_err(|error| match error {
            DevSecretError::Missing(directory) => format!(
                "there is no secret for signing tokens in {}: run `heartline dev` first, name its \
                 directory with --data-dir, or give a token with {TOKEN_VARIABLE}",
                directory.display()
            ),
            error => error.to_string(),
        })?;
        let signed = sign(&self.token, &secret, Clock::system().wall());
        signed.map(Token).map_err(|error| error.to_string())
    }
}
