//! Tokens of NextAuth: encrypted rather than signed, with a key derived from the site's secret.
//!
//! Only the format that NextAuth writes is read: `dir` with `A256GCM`. Encrypting needs the secret,
//! so a token that decrypts is as trustworthy as a signed one.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use heartline_protocol::limits::TOKEN_BYTES_MAX;
use serde::Deserialize;

use super::claims::TokenClaims;
use super::{AuthError, KeyError, SECRET_BYTES_MIN, Secret};

/// The purpose of the derived key, as NextAuth defines it.
const PURPOSE: &[u8] = b"NextAuth.js Generated Encryption Key";

/// How far clocks may differ, as NextAuth defines it.
pub(crate) const LEEWAY: Duration = Duration::from_secs(60);

/// The key of NextAuth tokens.
pub(crate) struct NextAuthKey(LessSafeKey);

#[derive(Deserialize)]
struct Header {
    alg: String,
    enc: String,
    #[serde(default)]
    crit: Option<serde_json::Value>,
    #[serde(default)]
    zip: Option<serde_json::Value>,
}

impl NextAuthKey {
    /// Derives the key as NextAuth does.
    pub(crate) fn new(secret: &Secret) -> Result<Self, KeyError> {
        if secret.expose().len() < SECRET_BYTES_MIN {
            return Err(KeyError::ShortNextAuthSecret);
        }
        let pseudo_random = Salt::new(HKDF_SHA256, &[]).extract(secret.expose().as_bytes());
        let purpose = [PURPOSE];
        let derived = pseudo_random.expand(&purpose, &AES_256_GCM);
        let key: UnboundKey = derived.expect("a key is shorter than HKDF gives").into();
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Whether a token has the form of an encrypted one.
    pub(crate) fn is_meant(token: &str) -> bool {
        token.bytes().filter(|byte| *byte == b'.').count() == 4
    }

    /// Decrypts a token.
    pub(crate) fn open(&self, token: &str) -> Result<TokenClaims, AuthError> {
        const FORM: AuthError = AuthError::Invalid("it is not a token of NextAuth");
        if token.len() > TOKEN_BYTES_MAX {
            return Err(AuthError::Invalid("it is too long"));
        }
        let parts: Vec<&str> = token.split('.').collect();
        let [header, "", nonce, content, tag] = parts[..] else { return Err(FORM) };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| FORM);
        let written: Header = serde_json::from_slice(&decode(header)?).map_err(|_| FORM)?;
        let is_known = written.alg == "dir" && written.enc == "A256GCM";
        if !is_known || written.crit.is_some() || written.zip.is_some() {
            return Err(FORM);
        }
        let nonce = Nonce::try_assume_unique_for_key(&decode(nonce)?).map_err(|_| FORM)?;
        let mut sealed = decode(content)?;
        sealed.extend(decode(tag)?);
        let opened = self.0.open_in_place(nonce, Aad::from(header.as_bytes()), &mut sealed);
        let opened =
            opened.map_err(|_| AuthError::Invalid("it was not encrypted with this key"))?;
        serde_json::from_slice(opened)
            .map_err(|_| AuthError::Invalid("sub or exp is missing, or a claim has the wrong type"))
    }
}

impl fmt::Debug for NextAuthKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NextAuthKey")
    }
}
