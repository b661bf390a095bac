//! Where tokens come from, and when they end.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use heartline_protocol::limits::TOKEN_BYTES_MAX;
use heartline_protocol::{Timestamp, Token};
use serde::Deserialize;

/// Why the client asks for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenNeed {
    /// To connect; the last token given is as good as a new one.
    Connect,
    /// The present one is about to end, or has ended: only a newer one helps.
    Refresh,
    /// The server did not accept the last one: only a different one helps.
    Refused,
}

/// Gives tokens to a client. It is asked before every attempt to connect and before a token ends.
///
/// The call may take as long as it needs, the connection goes on meanwhile; it bounds itself, for
/// example with a timeout on its own request. A call that is no longer needed is dropped.
#[async_trait]
pub trait TokenProvider: Send + Sync {
    /// The token to use now.
    async fn token(&self, need: TokenNeed) -> Result<Token, TokenError>;
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not now: the client asks again after its pause.
    #[error("no token at the moment: {0}")]
    Unavailable(String),
    /// Not any more: the client stops.
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

/// When a token says that it ends. Nothing is verified, the server does that; a token that is no
/// JWT, or has no `exp`, has no known end.
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

/// Whether a token can stand in a header without changing what the header says.
pub(crate) fn is_legal(token: &Token) -> bool {
    let legal_byte = |byte: u8| byte.is_ascii_graphic() && byte != b',' && byte != b'"';
    (1..=TOKEN_BYTES_MAX).contains(&token.0.len()) && token.0.bytes().all(legal_byte)
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
    fn what_is_no_token_has_no_known_end() {
        for text in ["", "opaque", "a.b", "a.%%%.c", "e30.e30.c2ln"] {
            assert_eq!(expiry_of(&Token(text.to_owned())), None, "{text}");
        }
        assert_eq!(expiry_of(&token_with(r#"{"exp":-1}"#)), None);
    }

    #[test]
    fn a_token_cannot_smuggle_a_header() {
        assert!(is_legal(&token_with("{}")));
        for text in ["", "a\r\nX-Other: b", "a b", "a,b", "é"] {
            assert!(!is_legal(&Token(text.to_owned())), "{text:?}");
        }
    }
}
