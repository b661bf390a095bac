//! Parses a token's compact form: `header.claims.signature`.
//!
//! Only the header members that matter are read. `jku`, `x5u`, `jwk` and the like would let a token
//! bring its own key; they are ignored and never fetched.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use heartline_protocol::limits::TOKEN_BYTES_MAX;
use jsonwebtoken::Algorithm;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny};
use serde::{Deserialize, de};

use super::AuthError;
use super::claims::TokenClaims;

/// A token whose signature is not verified yet.
pub(crate) struct SignedToken<'a> {
    /// The algorithm in the token's header, which selects nothing and must match that of the key.
    pub(crate) algorithm: Algorithm,
    /// The id of the key in the token's header.
    pub(crate) key_id: Option<String>,
    /// The signed bytes.
    pub(crate) message: &'a [u8],
    /// The signature in base64.
    pub(crate) signature: &'a str,
    claims: &'a str,
}

/// The members of the header that are read.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    #[serde(default)]
    cty: Present,
    #[serde(default)]
    crit: Present,
    #[serde(default)]
    enc: Present,
    #[serde(default)]
    zip: Present,
}

/// Whether a member is present, even as `null`.
#[derive(Default)]
struct Present(bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <IgnoredAny as de::Deserialize>::deserialize(deserializer).map(|_| Self(true))
    }
}

impl<'a> SignedToken<'a> {
    /// Parses a token, after a check of its length.
    pub(crate) fn parse(token: &'a str) -> Result<Self, AuthError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(AuthError::Invalid("it is too long"));
        }
        let mut parts = token.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(AuthError::Invalid("it does not have three parts"));
        };
        let message = &token.as_bytes()[..header.len() + 1 + claims.len()];
        let header: Header =
            decode_object(header).ok_or(AuthError::Invalid("its header is malformed"))?;
        header.check()?;
        let algorithm = header.alg.parse().map_err(|_| AuthError::Invalid("unknown algorithm"))?;
        Ok(Self { algorithm, key_id: header.kid, message, signature, claims })
    }

    /// The claims; to be read only after the signature was verified.
    pub(crate) fn claims(&self) -> Result<TokenClaims, AuthError> {
        decode_object(self.claims)
            .ok_or(AuthError::Invalid("sub or exp is missing, or a claim has the wrong type"))
    }
}

impl Header {
    /// Rejects features that this server does not support: extensions, encryption, compression,
    /// nesting, and tokens for another purpose than access.
    fn check(&self) -> Result<(), AuthError> {
        if self.crit.0 {
            return Err(AuthError::Invalid("it demands an extension (crit)"));
        }
        if self.enc.0 || self.zip.0 || self.cty.0 {
            return Err(AuthError::Invalid("it is encrypted, compressed or nested"));
        }
        let purposes = ["JWT", "at+jwt", "application/at+jwt"];
        match self.typ.as_deref() {
            Some(typ) if !purposes.iter().any(|purpose| purpose.eq_ignore_ascii_case(typ)) => {
                Err(AuthError::Invalid("its typ is not that of an access token"))
            }
            _ => Ok(()),
        }
    }
}

/// Decodes a part as a JSON object. The derived readers reject a member that appears twice, but
/// would accept an array for a struct: hence the check of the first character.
fn decode_object<T: DeserializeOwned>(part: &str) -> Option<T> {
    let json = String::from_utf8(URL_SAFE_NO_PAD.decode(part).ok()?).ok()?;
    if !json.trim_ascii_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(&json).ok()
}
