//! Tokens made with real keys, good and bad. The private keys in `fixtures` were made for these
//! tests and protect nothing.

mod bad_tokens;
mod good_tokens;
mod key_material;
mod nextauth;
mod rotation;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use heartline_protocol::Timestamp;
use heartline_runtime::Clock;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

use super::{AuthConfig, Authenticator, Keys, PemFile, Secret};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../fixtures/", $name))
    };
}
use fixture;

/// The time of every test, in whole seconds.
const NOW_SECONDS: u64 = 1_700_000_000;
const SECRET: &str = "the first secret of thirty-two bytes";
const OTHER_SECRET: &str = "another secret of thirty-two bytes..";
const LEEWAY: Duration = Duration::from_secs(5);

fn now() -> Timestamp {
    Timestamp::from_unix_seconds(NOW_SECONDS)
}

/// A private key of the tests with its algorithm.
struct Signer {
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Signer {
    fn hmac(secret: &str) -> Self {
        Self { algorithm: Algorithm::HS256, key: EncodingKey::from_secret(secret.as_bytes()) }
    }

    fn rsa(pem: &str) -> Self {
        let key = EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap();
        Self { algorithm: Algorithm::RS256, key }
    }

    fn p256(pem: &str) -> Self {
        let key = EncodingKey::from_ec_pem(pem.as_bytes()).unwrap();
        Self { algorithm: Algorithm::ES256, key }
    }

    fn ed25519(pem: &str) -> Self {
        let key = EncodingKey::from_ed_pem(pem.as_bytes()).unwrap();
        Self { algorithm: Algorithm::EdDSA, key }
    }

    fn token(&self, claims: &Value) -> String {
        self.raw(&self.header().to_string(), &claims.to_string())
    }

    fn token_with_header(&self, members: &Value, claims: &Value) -> String {
        let mut header = self.header();
        for (name, value) in members.as_object().unwrap() {
            header[name] = value.clone();
        }
        self.raw(&header.to_string(), &claims.to_string())
    }

    /// Signs any two texts, whether JSON or not.
    fn raw(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature =
            jsonwebtoken::crypto::sign(message.as_bytes(), &self.key, self.algorithm).unwrap();
        format!("{message}.{signature}")
    }

    fn header(&self) -> Value {
        json!({"typ": "JWT", "alg": self.algorithm})
    }

    /// The public half as an entry of a JWKS.
    fn jwk(&self, members: &Value) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        let mut jwk = serde_json::to_value(jwk).unwrap();
        for (name, value) in members.as_object().unwrap() {
            jwk[name] = value.clone();
        }
        jwk
    }
}

fn encode(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// Claims that are valid for a minute, with others added or replaced.
fn claims(members: &Value) -> Value {
    let mut claims = json!({"sub": "ana", "exp": NOW_SECONDS + 60});
    for (name, value) in members.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn config(keys: Keys) -> AuthConfig {
    AuthConfig { keys, issuer: None, audience: None, leeway: LEEWAY, nextauth_secret: None }
}

fn authenticator(keys: Keys) -> Authenticator {
    Authenticator::new(config(keys), Clock::system()).unwrap()
}

fn with_secret() -> Authenticator {
    authenticator(Keys::Hmac(vec![Secret::new(SECRET)]))
}

fn pem_file(pem: &str) -> PemFile {
    PemFile { name: "key.pem".into(), pem: pem.into() }
}

fn key_set(entries: &[Value]) -> String {
    json!({"keys": entries}).to_string()
}
