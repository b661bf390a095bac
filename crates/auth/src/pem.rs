//! PEM: a public key in a text file, as `openssl pkey -pubout` writes it.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk};

use super::keys::{Key, KeyFault};

/// The first bytes of the DER of every public key on P-256; its uncompressed point follows. On
/// another curve, or with a compressed point, the first bytes differ.
const P256_DER_PREFIX: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The first bytes of the DER of every Ed25519 public key; its 32 bytes follow.
const ED25519_DER_PREFIX: &[u8] =
    &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Reads the one public key of a PEM file.
pub(crate) fn public_key(pem: &str) -> Result<Key, KeyFault> {
    let labels: Vec<&str> = pem.split("-----BEGIN ").skip(1).filter_map(label_of).collect();
    if labels.iter().any(|label| label.ends_with("PRIVATE KEY")) {
        return Err(KeyFault::Private);
    }
    match labels.as_slice() {
        [] => Err(KeyFault::NotPem),
        ["PUBLIC KEY"] => from_der(pem, &der_of(pem).ok_or(KeyFault::Malformed)?),
        ["RSA PUBLIC KEY"] => rsa(pem),
        ["CERTIFICATE"] => Err(KeyFault::Certificate),
        [_] => Err(KeyFault::Unsupported),
        [_, _, ..] => Err(KeyFault::Several),
    }
}

fn label_of(block: &str) -> Option<&str> {
    block.split_once("-----").map(|(label, _)| label)
}

/// The bytes between the two markers of a file that holds one block.
fn der_of(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("KEY-----")?;
    let (body, _) = rest.split_once("-----END")?;
    let base64: String = body.split_ascii_whitespace().collect();
    STANDARD.decode(base64).ok()
}

fn from_der(pem: &str, der: &[u8]) -> Result<Key, KeyFault> {
    if let Some(point) = der.strip_prefix(P256_DER_PREFIX) {
        return Key::p256(point);
    }
    if let Some(bytes) = der.strip_prefix(ED25519_DER_PREFIX) {
        return Key::ed25519(bytes);
    }
    rsa(pem)
}

/// An RSA key by its two numbers, so that it is checked like one from a JWKS.
fn rsa(pem: &str) -> Result<Key, KeyFault> {
    let key = DecodingKey::from_rsa_pem(pem.as_bytes()).map_err(|_| KeyFault::Unsupported)?;
    let jwk = Jwk::from_decoding_key(&key, None).map_err(|_| KeyFault::Malformed)?;
    let AlgorithmParameters::RSA(numbers) = jwk.algorithm else {
        return Err(KeyFault::Unsupported);
    };
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyFault::Malformed);
    Key::rsa(&decode(&numbers.n)?, &decode(&numbers.e)?)
}
