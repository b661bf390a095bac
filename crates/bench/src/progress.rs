//! Progress on stderr: a bar on a terminal, otherwise a line every two seconds.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use heartline_runtime::Clock;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often the position is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often a line is printed without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// One phase of a run.
#[derive(Debug)]
pub(super) struct Progress {
    label: String,
    total: u64,
    bar: Option<ProgressBar>,
    clock: Clock,
    line_due: Instant,
}

impl Progress {
    /// Begins a phase that ends at the position `total`.
    pub(super) fn begin(label: impl Into<String>, total: u64) -> Self {
        let label = label.into();
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg:32} {bar:32} {pos}/{len} {elapsed}")
                .expect("the template is a constant");
            ProgressBar::new(total).with_style(style).with_message(label.clone())
        });
        let clock = Clock::system();
        Self { label, total, bar, clock, line_due: clock.now() + LINE_EVERY }
    }

    /// Awaits the work and shows its position meanwhile.
    pub(super) async fn watch<Work: Future>(
        mut self,
        position: impl Fn() -> u64,
        work: Work,
    ) -> Work::Output {
        let mut work = std::pin::pin!(work);
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                output = &mut work => {
                    self.finish(position());
                    return output;
                }
                _ = ticks.tick() => self.show(position()),
            }
        }
    }

    fn show(&mut self, position: u64) {
        match &self.bar {
            Some(bar) => bar.set_position(position),
            None if self.clock.now() >= self.line_due => {
                self.line_due = self.clock.now() + LINE_EVERY;
                self.line(position);
            }
            None => {}
        }
    }

    fn finish(&self, position: u64) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(position);
                bar.finish_and_clear();
            }
            None => self.line(position),
        }
    }

    /// Prints a line. A closed stderr does not end the run.
    fn line(&self, position: u64) {
        writeln!(io::stderr(), "{}: {position}/{}", self.label, self.total).ok();
    }
}
