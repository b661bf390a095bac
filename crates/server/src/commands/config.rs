//! `heartline config`: prints the default configuration, or validates a file.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{DEFAULTS, Disk, Layer, Loaded, Sources, load};
use crate::tls::TlsReloader;

/// The exit code for an invalid configuration.
const REFUSED: u8 = 2;

/// Prints the commented defaults, or checks a configuration without starting it.
#[derive(Debug, clap::Args)]
pub struct ConfigArguments {
    /// Check this file together with the HEARTLINE__… variables, and list the changed keys
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
}

/// Runs the command and returns its exit code: 0, 1 if nothing can be written, or 2 for an invalid
/// configuration. A reader that closes the pipe early is no error.
pub fn run(
    arguments: &ConfigArguments,
    environment: Vec<(OsString, OsString)>,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> u8 {
    let Some(path) = &arguments.check else {
        return code_of(0, output.write_all(DEFAULTS.as_bytes()).and_then(|()| output.flush()));
    };
    match check(path, environment) {
        Ok(loaded) => {
            let written = report(path, &loaded, output, errors);
            code_of(0, written)
        }
        Err(problems) => code_of(REFUSED, writeln!(errors, "{problems}")),
    }
}

/// Loads the file as `heartline serve` would, including the certificate.
fn check(path: &Path, environment: Vec<(OsString, OsString)>) -> Result<Loaded, String> {
    let loaded = load(&Sources {
        preset: Layer::default(),
        file: Some(path),
        environment,
        arguments: Layer::default(),
        files: &Disk,
    })
    .map_err(|problems| problems.to_string())?;
    let server = &loaded.config.server;
    if let (Some(certificate), Some(key)) = (&server.tls_cert, &server.tls_key) {
        TlsReloader::load(certificate, key).map_err(|error| format!("server.tls_cert: {error}"))?;
    }
    Ok(loaded)
}

fn report(
    path: &Path,
    loaded: &Loaded,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> io::Result<()> {
    for warning in &loaded.warnings {
        writeln!(errors, "warning: {warning}")?;
    }
    writeln!(output, "{} is valid", path.display())?;
    if !loaded.differences.is_empty() {
        writeln!(output, "\ndiffers from the defaults:")?;
    }
    for difference in &loaded.differences {
        let crate::config::Difference { key, value, default, source } = difference;
        writeln!(output, "  {key} = {value} (default {default}; {source})")?;
    }
    let config = &loaded.config;
    let shown = |duration: Duration| humantime::format_duration(duration).to_string();
    let sweep = shown(config.routing.sweep_interval);
    let linger = shown(config.presence.offline_linger);
    writeln!(output, "\nworst-case presence delay:")?;
    writeln!(
        output,
        "  after a crash        {} (lease {} + sweep {sweep} + linger {linger})",
        shown(config.crash_delay()),
        shown(config.routing.lease),
    )?;
    writeln!(
        output,
        "  of a silent device   {} (heartbeat timeout {} + sweep {sweep} + linger {linger})",
        shown(config.silence_delay()),
        shown(config.gateway.heartbeat_timeout),
    )?;
    output.flush()
}

/// The exit code, unless the output could not be written for another reason than a closed pipe.
fn code_of(decided: u8, written: io::Result<()>) -> u8 {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => decided.max(1),
        Ok(()) | Err(_) => decided,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dev::tests::Scratch;

    /// Rejects every write, as `| head -1` does after its line.
    struct ClosedPipe;

    impl Write for ClosedPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn check_text(text: &str) -> (u8, String, String) {
        let scratch = Scratch::new();
        let path = scratch.path().join("heartline.toml");
        fs::write(&path, text).unwrap();
        let secret = ("HEARTLINE__AUTH__HMAC_SECRET".into(), "s".repeat(32).into());
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let arguments = ConfigArguments { check: Some(path) };
        let code = run(&arguments, vec![secret], &mut output, &mut errors);
        (code, String::from_utf8(output).unwrap(), String::from_utf8(errors).unwrap())
    }

    #[test]
    fn without_a_file_the_manual_is_printed() {
        let mut output = Vec::new();
        let arguments = ConfigArguments { check: None };
        let code = run(&arguments, Vec::new(), &mut output, &mut Vec::new());
        assert_eq!((code, output.as_slice()), (0, DEFAULTS.as_bytes()));
    }

    #[test]
    fn a_valid_file_prints_its_differences_and_delays() {
        let text = "[gateway]\nheartbeat_interval = \"30s\"\nheartbeat_timeout = \"90s\"\n\
            [presence]\noffline_linger = \"3s\"\n";
        let (code, output, errors) = check_text(text);
        assert_eq!((code, errors.as_str()), (0, ""));
        assert!(output.contains("heartline.toml is valid"), "{output}");
        assert!(output.contains("gateway.heartbeat_interval = \"30s\" (default \"5s\"; "));
        assert!(output.contains("heartline.toml:2)"), "{output}");
        assert!(output.contains("auth.hmac_secret = (hidden) (default \"\"; HEARTLINE__AUTH__"));
        assert!(output.contains("after a crash        19s (lease 15s + sweep 1s + linger 3s)"));
        let silent = "silent device   1m 34s (heartbeat timeout 1m 30s + sweep 1s + linger 3s)";
        assert!(output.contains(silent), "{output}");
        assert!(!output.contains("ssss"), "{output}");
    }

    #[test]
    fn a_bad_file_gives_code_two_and_every_problem() {
        let (code, output, errors) = check_text("[routing]\nshards = 0\n[log]\nlevel = \"loud\"\n");
        assert_eq!((code, output.as_str()), (2, ""));
        assert_eq!(errors.lines().count(), 2, "{errors}");
    }

    #[test]
    fn a_file_without_a_certificate_is_refused_too() {
        let text = "[server]\ntls_cert = \"/dev/null\"\ntls_key = \"/dev/null\"\n";
        let (code, _, errors) = check_text(text);
        assert_eq!(code, 2);
        assert!(errors.contains("/dev/null holds no certificate"), "{errors}");
    }

    #[test]
    fn a_closed_pipe_ends_quietly() {
        let arguments = ConfigArguments { check: None };
        assert_eq!(run(&arguments, Vec::new(), &mut ClosedPipe, &mut ClosedPipe), 0);
        let arguments = ConfigArguments { check: Some("nowhere.toml".into()) };
        assert_eq!(run(&arguments, Vec::new(), &mut ClosedPipe, &mut ClosedPipe), 2);
    }
}
