//! `heartline token`: signs a token with the secret of a development server or another secret.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use heartline_auth::{
    DATA_DIRECTORY, DevSecretError, NewToken, SECRET_BYTES_MIN, Secret, SignError, read_dev_secret,
};
use heartline_protocol::{DeviceId, Timestamp, UserId};

/// The variable that may hold the secret. Secrets are never arguments, because `ps` shows those.
pub const SECRET_VARIABLE: &str = "HEARTLINE_SECRET";
/// The longest lifetime of a token.
const LIFETIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Signs a token (HS256) and prints it.
#[derive(Debug, Clone, clap::Args)]
pub struct TokenArguments {
    /// The id of the user
    #[arg(long, value_name = "ID")]
    pub user: UserId,
    /// Bind the token to one device
    #[arg(long, value_name = "ID")]
    pub device: Option<DeviceId>,
    /// The scope of the token, such as "service"
    #[arg(long)]
    pub scope: Option<String>,
    /// The lifetime of the token
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_lifetime)]
    pub ttl: Duration,
    /// The directory of the development server [default: .heartline, unless HEARTLINE_SECRET holds a
    /// secret]
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// A file with the secret
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    pub secret_file: Option<PathBuf>,
}

/// Why no token was signed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// No secret was found.
    #[error(
        "there is no secret to sign with in {}: run `heartline dev` first, or name a secret with \
         --data-dir, --secret-file or {SECRET_VARIABLE}", .0.display()
    )]
    NoSecret(PathBuf),
    /// The dev secret cannot be used.
    #[error(transparent)]
    Directory(DevSecretError),
    /// The file cannot be read.
    #[error("cannot read the secret in {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The secret is too short for any server.
    #[error("the secret in {0} has {1} bytes, but a secret needs at least {SECRET_BYTES_MIN}")]
    Short(String, usize),
    /// Signing failed.
    #[error(transparent)]
    Signature(#[from] SignError),
}

/// Runs the command and returns its exit code. `variable` is the value of [`SECRET_VARIABLE`].
pub fn run(
    arguments: &TokenArguments,
    variable: Option<String>,
    now: Timestamp,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> u8 {
    let signed = find_secret(arguments, variable).and_then(|secret| sign(arguments, &secret, now));
    let (code, written) = match signed {
        Ok(token) => (0, writeln!(output, "{token}").and_then(|()| output.flush())),
        Err(error) => (1, writeln!(errors, "{error}")),
    };
    // A reader that closed the pipe is no error.
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => 1,
        Ok(()) | Err(_) => code,
    }
}

fn sign(arguments: &TokenArguments, secret: &Secret, now: Timestamp) -> Result<String, TokenError> {
    let token = NewToken {
        device_id: arguments.device.clone(),
        scope: arguments.scope.clone(),
        ..NewToken::new(arguments.user.clone(), arguments.ttl)
    };
    Ok(heartline_auth::sign(&token, secret, now)?)
}

/// Finds the secret: an argument comes before the variable, and the variable before the default
/// directory.
fn find_secret(arguments: &TokenArguments, variable: Option<String>) -> Result<Secret, TokenError> {
    if let Some(path) = &arguments.secret_file {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TokenError::Unreadable { path: path.clone(), source })?;
        return long_enough(path.display().to_string(), text.trim_end());
    }
    let variable = variable.filter(|text| !text.is_empty());
    match (&arguments.data_dir, variable) {
        (Some(directory), _) => dev_secret(directory),
        (None, Some(text)) => long_enough(SECRET_VARIABLE.to_owned(), &text),
        (None, None) => dev_secret(Path::new(DATA_DIRECTORY)),
    }
}

fn dev_secret(directory: &Path) -> Result<Secret, TokenError> {
    read_dev_secret(directory).map_err(|error| match error {
        DevSecretError::Missing(directory) => TokenError::NoSecret(directory),
        error => TokenError::Directory(error),
    })
}

fn long_enough(source: String, text: &str) -> Result<Secret, TokenError> {
    if text.len() < SECRET_BYTES_MIN {
        return Err(TokenError::Short(source, text.len()));
    }
    Ok(Secret::new(text.to_owned()))
}

fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let is_legal = |duration: &Duration| (1..=LIFETIME_MAX.as_secs()).contains(&duration.as_secs());
    humantime::parse_duration(text)
        .ok()
        .filter(is_legal)
        .ok_or_else(|| "must be a duration from 1s to 10years, such as \"1h\" or \"30days\"".into())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use clap::Parser;
    use jsonwebtoken::{Algorithm, DecodingKey, Validation};

    use super::*;
    use crate::dev::DataDirectory;
    use crate::dev::tests::Scratch;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        token: TokenArguments,
    }

    fn parse(arguments: &[&str]) -> Result<TokenArguments, String> {
        Line::try_parse_from(std::iter::once(&"token").chain(arguments))
            .map(|line| line.token)
            .map_err(|error| error.to_string())
    }

    fn run_with(arguments: &[&str], variable: Option<&str>) -> (u8, String, String) {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let arguments = parse(arguments).unwrap();
        let now = Timestamp { unix_ms: 1_700_000_000_999 };
        let variable = variable.map(str::to_owned);
        let code = run(&arguments, variable, now, &mut output, &mut errors);
        (code, String::from_utf8(output).unwrap(), String::from_utf8(errors).unwrap())
    }

    fn claims(token: &str, secret: &str) -> Option<serde_json::Value> {
        let mut validation = Validation::new(Algorithm::HS256);
        validation.validate_exp = false;
        validation.required_spec_claims = HashSet::from(["exp".to_owned(), "sub".to_owned()]);
        let key = DecodingKey::from_secret(secret.as_bytes());
        jsonwebtoken::decode(token, &key, &validation).ok().map(|data| data.claims)
    }

    #[test]
    fn a_token_has_the_user_the_expiry_and_the_requested_claims() {
        let arguments = ["--user", "ana", "--device", "phone", "--scope", "service", "--ttl", "2h"];
        let (code, output, _) = run_with(&arguments, Some(SECRET));
        assert_eq!((code, output.lines().count()), (0, 1));
        let expected = serde_json::json!({
            "sub": "ana", "device_id": "phone", "scope": "service",
            "iat": 1_700_000_000, "exp": 1_700_007_200,
        });
        assert_eq!(claims(output.trim(), SECRET), Some(expected));
        assert_eq!(claims(output.trim(), &"x".repeat(32)), None);
    }

    #[test]
    fn a_claim_that_was_not_requested_is_absent() {
        let (_, output, _) = run_with(&["--user", "ana"], Some(SECRET));
        let expected =
            serde_json::json!({ "sub": "ana", "iat": 1_700_000_000, "exp": 1_700_003_600 });
        assert_eq!(claims(output.trim(), SECRET), Some(expected));
    }

    #[test]
    fn the_named_directory_goes_before_the_variable() {
        let scratch = Scratch::new();
        let secret = DataDirectory::open(scratch.path()).unwrap().dev_secret().unwrap();
        let directory = scratch.path().to_str().unwrap();
        let arguments = ["--user", "ana", "--data-dir", directory];
        let (code, output, _) = run_with(&arguments, Some(SECRET));
        assert_eq!(code, 0);
        assert!(claims(output.trim(), secret.expose()).is_some());
    }

    #[test]
    fn a_secret_file_may_end_with_a_new_line() {
        let scratch = Scratch::new();
        let path = scratch.path().join("secret");
        fs::write(&path, format!("{SECRET}\n")).unwrap();
        let arguments = ["--user", "ana", "--secret-file", path.to_str().unwrap()];
        let (code, output, _) = run_with(&arguments, None);
        assert_eq!(code, 0);
        assert!(claims(output.trim(), SECRET).is_some());
    }

    #[test]
    fn without_a_secret_the_error_explains_how_to_get_one() {
        let scratch = Scratch::new();
        let arguments = ["--user", "ana", "--data-dir", scratch.path().to_str().unwrap()];
        let (code, output, errors) = run_with(&arguments, None);
        assert_eq!((code, output.as_str()), (1, ""));
        assert!(errors.contains("run `heartline dev` first, or"), "{errors}");
    }

    #[test]
    fn a_short_secret_is_refused_and_not_shown() {
        let (code, _, errors) = run_with(&["--user", "ana"], Some("hunter2"));
        assert_eq!(code, 1);
        assert!(errors.contains("HEARTLINE_SECRET has 7 bytes"), "{errors}");
        assert!(!errors.contains("hunter2"), "{errors}");
    }

    #[test]
    fn bad_arguments_are_refused_with_what_is_allowed() {
        let table = [
            (vec!["--user", "a b"], "user_id must be 1 to 128 characters"),
            (vec!["--user", "ana", "--device", ""], "device_id must be 1 to 64 characters"),
            (vec!["--user", "ana", "--ttl", "5"], "must be a duration from 1s"),
            (vec!["--user", "ana", "--ttl", "0s"], "must be a duration from 1s"),
            (vec![], "--user <ID>"),
        ];
        for (arguments, expected) in table {
            let error = parse(&arguments).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
