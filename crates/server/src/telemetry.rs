//! Logs: one line per event on stderr, as text or JSON.

use std::ffi::OsString;
use std::panic::PanicHookInfo;

use tracing::Subscriber;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry};

use crate::config::{Log, LogFormat};

/// Why logging cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is invalid.
    #[error("log.level: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The process has a subscriber already.
    #[error("logging was set up twice")]
    Twice(#[from] tracing::subscriber::SetGlobalDefaultError),
}

/// Sends the process' logs to stderr, and its panics to the logs.
///
/// # Errors
/// The filter is invalid, or logging was set up before.
pub fn install(log: &Log, with_colours: bool) -> Result<(), TelemetryError> {
    let subscriber = subscriber(log, with_colours, std::io::stderr)?;
    tracing::subscriber::set_global_default(subscriber)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Whether stderr is a terminal that wants colours; `variable` reads the environment.
pub fn wants_colours(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = variable("TERM").is_some_and(|value| value == "dumb");
    is_terminal && !is_refused && !is_dumb
}

fn subscriber<W>(
    log: &Log,
    with_colours: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, TelemetryError>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let filter: Targets = log.level.parse()?;
    // A closed stderr must not end the process: the layer's own error report would panic.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(with_colours && log.format == LogFormat::Text)
        .log_internal_errors(false);
    Ok(match log.format {
        LogFormat::Text => Box::new(Registry::default().with(lines.with_filter(filter))),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(true);
            let lines = lines.with_span_list(false);
            Box::new(Registry::default().with(lines.with_filter(filter)))
        }
    })
}

/// Logs a panic as one event. Its message is shown only if it is fixed text: a formatted one may
/// contain the content of a user.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload().downcast_ref::<&str>().copied().unwrap_or("(not shown)");
    tracing::error!(location, message, "panic");
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps written text.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Rejects every write, as a closed pipe does.
    struct ClosedPipe;

    impl Write for ClosedPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log(level: &str, format: LogFormat) -> Log {
        Log { level: level.to_owned(), format }
    }

    fn written(log: &Log, with_colours: bool, events: impl FnOnce()) -> String {
        let paper = Paper::default();
        let handle = paper.clone();
        let subscriber = subscriber(log, with_colours, move || handle.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, events);
        paper.text()
    }

    #[test]
    fn text_holds_what_the_level_allows_and_no_colours_in_a_pipe() {
        let text = written(&log("info", LogFormat::Text), false, || {
            tracing::info!(user = "ana", "connected");
            tracing::debug!("hidden");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("INFO") && text.contains("connected") && text.contains("ana"));
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn json_is_one_object_per_line_and_never_coloured() {
        let text = written(&log("info", LogFormat::Json), true, || {
            tracing::info!(user = "a\nb", "connected");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["message"], &value["user"]), (&"connected".into(), &"a\nb".into()));
    }

    #[test]
    fn the_level_can_be_set_per_target() {
        let text = written(&log("warn,chatty=debug,silent=off", LogFormat::Text), false, || {
            tracing::debug!(target: "chatty", "one");
            tracing::error!(target: "silent", "two");
            tracing::info!(target: "other", "three");
        });
        assert!(text.contains("one") && !text.contains("two") && !text.contains("three"), "{text}");
    }

    #[test]
    fn a_closed_stderr_is_no_error() {
        let log = log("info", LogFormat::Text);
        let subscriber = subscriber(&log, false, || ClosedPipe).unwrap();
        tracing::subscriber::with_default(subscriber, || tracing::info!("unread"));
    }

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let environment = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.into())
        };
        assert!(wants_colours(true, |_| None));
        assert!(wants_colours(true, environment("NO_COLOR", "")));
        assert!(!wants_colours(false, |_| None));
        assert!(!wants_colours(true, environment("NO_COLOR", "1")));
        assert!(!wants_colours(true, environment("TERM", "dumb")));
    }
}
