//! Keys that tokens may be signed with.
//!
//! Each key has exactly one algorithm, fixed when the key is loaded. A token whose header names
//! another algorithm does not match the key, so a public key can never serve as a shared secret.

use std::fmt;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, DecodingKey};

use super::jwks::{self, KeySetFault};
use super::remote::JwksSource;
use super::token::SignedToken;
use super::{AuthError, Secret, pem};

/// The shortest secret in bytes: as long as the hash that it keys.
pub const SECRET_BYTES_MIN: usize = 32;

/// The shortest RSA modulus in bits.
const RSA_BITS_MIN: usize = 2048;

/// The longest RSA modulus in bits; verifying with a longer one would be slow.
const RSA_BITS_MAX: usize = 8192;

/// The source of the keys. Debug never shows key material.
pub enum Keys {
    /// Shared secrets for HS256; a token may be signed with any of them.
    Hmac(Vec<Secret>),
    /// Public keys in PEM files; a token may be signed with any of them.
    PublicKeys(Vec<PemFile>),
    /// A JWKS in a file.
    JwksFile {
        /// The name of the file, for error messages.
        name: String,
        /// The file's content.
        text: String,
    },
    /// A JWKS that an identity provider publishes at a URL.
    JwksUrl(Arc<dyn JwksSource>),
}

/// A PEM file that was read.
#[derive(Clone)]
pub struct PemFile {
    /// The name of the file, for error messages.
    pub name: String,
    /// The file's content.
    pub pem: String,
}

/// Why the configured keys were rejected, with the change to make.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No key is configured.
    #[error(
        "[auth] names no key: set hmac_secrets, public_key_files, jwks_file or jwks_url to one"
    )]
    NoKeys,
    /// The secret of NextAuth is too short.
    #[error("auth.nextauth_secret must have at least {SECRET_BYTES_MIN} bytes")]
    ShortNextAuthSecret,
    /// A shared secret is too short.
    #[error(
        "auth.hmac_secrets, entry {position}, has {bytes} bytes: use at least \
         {SECRET_BYTES_MIN} random ones, for example from `openssl rand -base64 32`"
    )]
    ShortSecret {
        /// The position of the secret, counted from 1.
        position: usize,
        /// The length of the secret.
        bytes: usize,
    },
    /// A PEM file holds no usable key.
    #[error("the key file {name} cannot be used: {fault}")]
    UnusableKey {
        /// The file.
        name: String,
        /// The fault of the key.
        fault: KeyFault,
    },
    /// A JWKS file holds no usable set.
    #[error("the key set {name} cannot be used: {fault}")]
    UnusableSet {
        /// The file.
        name: String,
        /// The fault of the key set.
        fault: KeySetFault,
    },
}

/// Why a key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// There is no PEM block.
    #[error("it is not PEM; a public key begins with -----BEGIN PUBLIC KEY-----")]
    NotPem,
    /// There are several PEM blocks.
    #[error("it holds several PEM blocks; put each public key into a file of its own")]
    Several,
    /// The key is private: with it this server could sign tokens.
    #[error("it is a private key; give its public half (`openssl pkey -in FILE -pubout`)")]
    Private,
    /// The file is a certificate.
    #[error("it is a certificate; give its key (`openssl x509 -in FILE -pubkey -noout`)")]
    Certificate,
    /// The kind or curve of the key is not supported.
    #[error("its kind is not supported; use RSA, EC on the curve P-256, or Ed25519")]
    Unsupported,
    /// The numbers of the key are missing or malformed.
    #[error("its content is malformed")]
    Malformed,
    /// The RSA key is too short to be safe, or too long to verify quickly.
    #[error("it is an RSA key of {bits} bits; use {RSA_BITS_MIN} to {RSA_BITS_MAX}")]
    RsaLength {
        /// The length of the modulus.
        bits: usize,
    },
    /// The key is meant for encryption or for another algorithm.
    #[error("it is not meant for signatures with RS256, ES256 or EdDSA")]
    OtherPurpose,
}

/// One key with its algorithm.
pub(crate) struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    decoding: DecodingKey,
}

impl Key {
    fn hmac(secret: &Secret) -> Self {
        let decoding = DecodingKey::from_secret(secret.expose().as_bytes());
        Self { id: None, algorithm: Algorithm::HS256, decoding }
    }

    /// An RSA public key from its modulus and exponent, both big-endian.
    pub(crate) fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, KeyFault> {
        let modulus = without_leading_zeros(modulus);
        let exponent = without_leading_zeros(exponent);
        let leading_zero_bits = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
        let bits = modulus.len() * 8 - leading_zero_bits;
        if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
            return Err(KeyFault::RsaLength { bits });
        }
        // An exponent of 1 would make every well-padded text its own signature.
        let exponent_is_odd = exponent.last().is_some_and(|byte| byte % 2 == 1);
        if !exponent_is_odd || exponent == [1] || exponent.len() > 8 {
            return Err(KeyFault::Malformed);
        }
        let decoding = DecodingKey::from_rsa_raw_components(modulus, exponent);
        Ok(Self { id: None, algorithm: Algorithm::RS256, decoding })
    }

    /// A public key on P-256 from its uncompressed point.
    pub(crate) fn p256(point: &[u8]) -> Result<Self, KeyFault> {
        if point.len() != 65 || point[0] != 4 {
            return Err(KeyFault::Malformed);
        }
        let decoding = DecodingKey::from_ec_der(point);
        Ok(Self { id: None, algorithm: Algorithm::ES256, decoding })
    }

    /// An Ed25519 public key from its 32 bytes.
    pub(crate) fn ed25519(bytes: &[u8]) -> Result<Self, KeyFault> {
        if bytes.len() != 32 {
            return Err(KeyFault::Malformed);
        }
        let decoding = DecodingKey::from_ed_der(bytes);
        Ok(Self { id: None, algorithm: Algorithm::EdDSA, decoding })
    }

    /// The same key with its id in the key set.
    pub(crate) fn named(self, id: Option<String>) -> Self {
        Self { id, ..self }
    }

    /// Whether the key is for this algorithm.
    pub(crate) fn is_for(&self, algorithm: &str) -> bool {
        algorithm.parse().is_ok_and(|algorithm: Algorithm| algorithm == self.algorithm)
    }

    fn verifies(&self, token: &SignedToken<'_>) -> bool {
        let SignedToken { signature, message, .. } = *token;
        let verify =
            || jsonwebtoken::crypto::verify(signature, message, &self.decoding, self.algorithm);
        self.algorithm == token.algorithm && verify().unwrap_or(false)
    }
}

fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// The keys that are valid at the same time, at least one.
pub(crate) struct KeySet {
    keys: Vec<Key>,
    /// Whether a token's `kid` selects the key, as in a JWKS. Secrets and PEM files have no ids, so
    /// their tokens' `kid` is ignored.
    named: bool,
}

impl KeySet {
    /// Shared secrets, each of the minimum length.
    pub(crate) fn from_secrets(secrets: &[Secret]) -> Result<Self, KeyError> {
        let keys = secrets.iter().zip(1..).map(load_secret).collect::<Result<_, _>>()?;
        Self::unnamed(keys)
    }

    /// The public keys of PEM files.
    pub(crate) fn from_pem_files(files: &[PemFile]) -> Result<Self, KeyError> {
        let keys = files.iter().map(load_public_key).collect::<Result<_, _>>()?;
        Self::unnamed(keys)
    }

    /// The public keys of a JWKS file.
    pub(crate) fn from_jwks_file(name: String, text: &str) -> Result<Self, KeyError> {
        jwks::parse(text).map_err(|fault| KeyError::UnusableSet { name, fault })
    }

    fn unnamed(keys: Vec<Key>) -> Result<Self, KeyError> {
        if keys.is_empty() { Err(KeyError::NoKeys) } else { Ok(Self { keys, named: false }) }
    }

    /// The keys of a JWKS.
    pub(crate) fn named(keys: Vec<Key>) -> Self {
        Self { keys, named: true }
    }

    /// Verifies a token's signature with each key that matches its algorithm and `kid`.
    pub(crate) fn check_signature(&self, token: &SignedToken<'_>) -> Result<(), AuthError> {
        let id = token.key_id.as_deref().filter(|_| self.named);
        let fits = |key: &&Key| id.is_none_or(|id| key.id.as_deref() == Some(id));
        let mut candidates = self.keys.iter().filter(fits).peekable();
        if candidates.peek().is_none() {
            return Err(AuthError::UnknownKey);
        }
        if candidates.any(|key| key.verifies(token)) {
            Ok(())
        } else {
            Err(AuthError::Invalid("no key fits its algorithm and signature"))
        }
    }
}

fn load_secret((secret, position): (&Secret, usize)) -> Result<Key, KeyError> {
    let bytes = secret.expose().len();
    if bytes < SECRET_BYTES_MIN {
        return Err(KeyError::ShortSecret { position, bytes });
    }
    Ok(Key::hmac(secret))
}

fn load_public_key(file: &PemFile) -> Result<Key, KeyError> {
    let unusable = |fault| KeyError::UnusableKey { name: file.name.clone(), fault };
    pem::public_key(&file.pem).map_err(unusable)
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hmac(secrets) => formatter.debug_tuple("Hmac").field(secrets).finish(),
            Self::PublicKeys(files) => formatter.debug_tuple("PublicKeys").field(files).finish(),
            Self::JwksFile { name, .. } => formatter.debug_tuple("JwksFile").field(name).finish(),
            Self::JwksUrl(source) => formatter.debug_tuple("JwksUrl").field(source).finish(),
        }
    }
}

impl fmt::Debug for PemFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PemFile").field(&self.name).finish()
    }
}
