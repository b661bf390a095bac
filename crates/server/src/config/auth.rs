//! The keys that tokens are verified with, read from the configured places.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::Auth;
use super::files::{Files, read_text};

/// The keys that tokens are verified with. Exactly one kind of key is set.
#[derive(Clone)]
pub struct AuthKeys {
    /// Shared secrets, all valid at once.
    pub hmac_secrets: Vec<String>,
    /// Public keys as (file name, PEM), all valid at once.
    pub public_keys: Vec<(String, String)>,
    /// A key set as (file name, JSON).
    pub jwks_file: Option<(String, String)>,
    /// The address of a key set.
    pub jwks_url: Option<String>,
    /// The required value of `iss`.
    pub issuer: Option<String>,
    /// The value that `aud` must be or contain.
    pub audience: Option<String>,
    /// How far the clocks of issuer and server may differ.
    pub leeway: Duration,
    /// The secret of a site that uses NextAuth.
    pub nextauth_secret: Option<String>,
}

/// Secrets are counted, not shown.
impl fmt::Debug for AuthKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let public_keys: Vec<_> = self.public_keys.iter().map(|(name, _)| name).collect();
        formatter
            .debug_struct("AuthKeys")
            .field("hmac_secrets", &self.hmac_secrets.len())
            .field("public_keys", &public_keys)
            .field("jwks_file", &self.jwks_file.as_ref().map(|(name, _)| name))
            .field("jwks_url", &self.jwks_url)
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .field("leeway", &self.leeway)
            .field("nextauth_secret", &self.nextauth_secret.is_some())
            .finish()
    }
}

/// A key file that cannot be used: the name of its key in `[auth]`, and the error message.
pub(super) struct BadKeyFile(pub(super) &'static str, pub(super) String);

impl AuthKeys {
    /// Reads the files that the section names.
    pub(super) fn read(auth: &Auth, files: &dyn Files) -> (Self, Vec<BadKeyFile>) {
        let mut bad = Vec::new();
        let mut public_keys = Vec::new();
        for path in &auth.public_key_files {
            let name = path.display().to_string();
            match read_checked(files, path, check_public_key) {
                Ok(pem) => public_keys.push((name, pem)),
                Err(sentence) => {
                    bad.push(BadKeyFile("public_key_files", format!("{name}: {sentence}")));
                }
            }
        }
        let jwks_file = auth.jwks_file.as_ref().and_then(|path| {
            match read_checked(files, path, check_key_set) {
                Ok(json) => Some((path.display().to_string(), json)),
                Err(sentence) => {
                    bad.push(BadKeyFile("jwks_file", sentence));
                    None
                }
            }
        });
        let single = Some(&auth.hmac_secret).filter(|secret| !secret.expose().is_empty());
        let secrets = auth.hmac_secrets.iter().chain(single);
        let keys = Self {
            hmac_secrets: secrets.map(|secret| secret.expose().to_owned()).collect(),
            public_keys,
            jwks_file,
            jwks_url: auth.jwks_url.clone(),
            issuer: auth.issuer.clone(),
            audience: auth.audience.clone(),
            leeway: auth.leeway,
            nextauth_secret: Some(auth.nextauth_secret.expose().to_owned())
                .filter(|secret| !secret.is_empty()),
        };
        (keys, bad)
    }
}

fn read_checked(
    files: &dyn Files,
    path: &Path,
    check: fn(&str) -> Result<(), &'static str>,
) -> Result<String, String> {
    let text = read_text(files, path)?;
    check(&text)?;
    Ok(text)
}

/// Checks only the kind of the file; the key is parsed when it is used.
fn check_public_key(pem: &str) -> Result<(), &'static str> {
    if pem.contains("PRIVATE KEY-----") {
        return Err("holds a private key, which belongs to the issuer alone; give the public key");
    }
    if !pem.contains("-----BEGIN ") {
        return Err("is not PEM: it needs a line -----BEGIN PUBLIC KEY-----");
    }
    Ok(())
}

fn check_key_set(json: &str) -> Result<(), &'static str> {
    let value: serde_json::Value =
        serde_json::from_str(json).map_err(|_| "is not JSON; give a JSON Web Key Set")?;
    match value.get("keys").and_then(serde_json::Value::as_array) {
        Some(keys) if !keys.is_empty() => Ok(()),
        Some(_) => Err("holds no keys; add at least one to its \"keys\""),
        None => Err("is not a JSON Web Key Set: it needs a list \"keys\""),
    }
}
