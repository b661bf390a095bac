//! A JWKS: public keys with names, as identity providers publish them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::keys::{Key, KeyFault, KeySet};

/// Bytes of a JWKS; providers publish a few thousand.
pub const JWKS_BYTES_MAX: usize = 256 * 1024;

/// Usable keys of a JWKS, at most. Limits the signature checks for a token without a `kid`.
const KEYS_MAX: usize = 64;

/// Why a JWKS cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeySetFault {
    /// The text is too long.
    #[error("it is longer than {JWKS_BYTES_MAX} bytes")]
    TooLong,
    /// The text is not a JWKS.
    #[error("it is not a JSON object with a list of keys in `keys`")]
    NotASet,
    /// The set has no keys.
    #[error("its list of keys is empty")]
    Empty,
    /// The set has keys, but none that can verify a token.
    #[error("none of its keys is usable; of the first one: {0}")]
    NoUsableKey(KeyFault),
    /// The set has too many keys.
    #[error("it holds more than {KEYS_MAX} usable keys")]
    TooManyKeys,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

/// One entry. Members that this server does not need are ignored.
#[derive(Deserialize)]
struct Entry {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    d: Option<IgnoredAny>,
}

/// Reads a JWKS. Keys that this server cannot or must not use are skipped; a set without any usable
/// key is rejected, so that it cannot replace one that works.
pub(crate) fn parse(text: &str) -> Result<KeySet, KeySetFault> {
    if text.len() > JWKS_BYTES_MAX {
        return Err(KeySetFault::TooLong);
    }
    let document: Document = serde_json::from_str(text).map_err(|_| KeySetFault::NotASet)?;
    let mut keys = Vec::new();
    let mut first_fault = None;
    for (entry, position) in document.keys.into_iter().zip(1..) {
        match parse_entry(entry) {
            Ok(key) => keys.push(key),
            Err(fault) => {
                tracing::debug!(position, %fault, "key of the key set skipped");
                first_fault.get_or_insert(fault);
            }
        }
    }
    match first_fault {
        _ if keys.len() > KEYS_MAX => Err(KeySetFault::TooManyKeys),
        _ if !keys.is_empty() => Ok(KeySet::named(keys)),
        Some(fault) => Err(KeySetFault::NoUsableKey(fault)),
        None => Err(KeySetFault::Empty),
    }
}

fn parse_entry(entry: serde_json::Value) -> Result<Key, KeyFault> {
    let entry: Entry = serde_json::from_value(entry).map_err(|_| KeyFault::Malformed)?;
    // Anybody who can read the set could sign with such a key.
    if entry.d.is_some() {
        return Err(KeyFault::Private);
    }
    let is_for_signatures = entry.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
    let verifies = entry.key_ops.as_ref().is_none_or(|uses| uses.iter().any(|u| u == "verify"));
    if !is_for_signatures || !verifies {
        return Err(KeyFault::OtherPurpose);
    }
    let key = match (entry.kty.as_str(), entry.crv.as_deref()) {
        ("RSA", _) => Key::rsa(&decode(entry.n.as_deref())?, &decode(entry.e.as_deref())?)?,
        ("EC", Some("P-256")) => {
            Key::p256(&point(&decode(entry.x.as_deref())?, &decode(entry.y.as_deref())?)?)?
        }
        ("OKP", Some("Ed25519")) => Key::ed25519(&decode(entry.x.as_deref())?)?,
        _ => return Err(KeyFault::Unsupported),
    };
    if entry.alg.is_some_and(|algorithm| !key.is_for(&algorithm)) {
        return Err(KeyFault::OtherPurpose);
    }
    Ok(key.named(entry.kid))
}

fn decode(number: Option<&str>) -> Result<Vec<u8>, KeyFault> {
    URL_SAFE_NO_PAD.decode(number.ok_or(KeyFault::Malformed)?).map_err(|_| KeyFault::Malformed)
}

/// The uncompressed form of a point on P-256.
fn point(x: &[u8], y: &[u8]) -> Result<Vec<u8>, KeyFault> {
    if x.len() != 32 || y.len() != 32 {
        return Err(KeyFault::Malformed);
    }
    Ok([&[4], x, y].concat())
}
