//! The source of tokens, and their expiry.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use heartline_protocol::limits::TOKEN_BYTES_MAX;
use heartline_protocol::{Timestamp, Token};
use serde::Deserialize;

/// The reason why the client requests a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenNeed {
    /// The client connects; the last token may be returned again.
    Connect,
    /// The current token expires soon or has expired: only a newer one helps.
    Refresh,
    /// The server rejected the last token: only a different one helps.
    Rejected,
}

/// Provides tokens to a client, before every attempt to connect and before a token expires.
///
/// The connection continues during the call. The implementation limits its own time, for example
/// with a timeout on its request. A call that is no longer needed is cancelled.
#[async_trait]
pub trait TokenProvider: Send + Sync {
    /// The token to use now.
    async fn token(&self, need: TokenNeed) -> Result<Token, TokenError>;
}

/// The reason why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// There is no token now; the client asks again after its delay.
    #[error("no token at the moment: {0}")]
    Unavailable(String),
    /// There will be no token any more; the client stops.
    #[error("there will be no token: {0}")]
    Ended(String),
}

/// The same token every time, for scripts and tests.
#[async_trait]
impl TokenProvider for Token {
    async fn token(&self, _need: TokenNeed) -> Result<Token, TokenError> {
        Ok(self.clone())
    }
}

/// The expiry of a token by its `exp`. The token is not verified, because the server does that. A
/// token that is not a JWT, or has no `exp`, has no known expiry.
pub fn expiry_of(token: &Token) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let payload = token.0.split('.').nth(1)?;
    let json = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Claims = serde_json::from_slice(&json).ok()?;
    (claims.exp >= 0.0).then(|| Timestamp::from_unix_seconds(claims.exp as u64))
}

/// Whether a header can carry the token without changing the meaning of the header.
pub(crate) fn is_valid_in_header(token: &Token) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_graphic() && byte != b',' && byte != b'"';
    (1..=TOKEN_BYTES_MAX).contains(&token.0.len()) && token.0.bytes().all(is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_with(claims: &str) -> Token {
        Token(format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims)))
    }

    #[test]
    fn the_expiry_is_read_without_verifying() {
        let token = token_with(r#"{"sub":"ana","exp":1700000000}"#);
        assert_eq!(expiry_of(&token), Some(Timestamp::from_unix_seconds(1_700_000_000)));
        let fraction = token_with(r#"{"exp":1700000000.9}"#);
        assert_eq!(expiry_of(&fraction), Some(Timestamp::from_unix_seconds(1_700_000_000)));
    }

    #[test]
    fn a_text_that_is_not_a_jwt_has_no_known_expiry() {
        for text in ["", "opaque", "a.b", "a.%%%.c", "e30.e30.c2ln"] {
            assert_eq!(expiry_of(&Token(text.to_owned())), None, "{text}");
        }
        assert_eq!(expiry_of(&token_with(r#"{"exp":-1}"#)), None);
    }

    #[test]
    fn a_token_cannot_inject_a_header() {
        assert!(is_valid_in_header(&token_with("{}")));
        for text in ["", "a\r\nX-Other: b", "a b", "a,b", "é"] {
            assert!(!is_valid_in_header(&Token(text.to_owned())), "{text:?}");
        }
    }
}
