//! The doctor's report: one line per finished check, or one JSON object at the end.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use super::{FAILED, PROGRESS_INTERVAL};

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// The check passed; the evidence is given.
    Pass,
    /// The system works, but something should be changed.
    Warn,
    /// The check failed.
    Fail,
    /// The check was not run; the evidence gives the reason.
    Skipped,
    /// The invariant cannot be observed from outside; the evidence names the tests that check it.
    HeldByTest,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
            Self::Skipped => "skipped",
            Self::HeldByTest => "held",
        }
    }
}

/// One line of the report.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    /// The name of the check.
    check: String,
    /// The result of the check.
    pub(super) verdict: Verdict,
    /// The observation behind the result.
    pub(super) evidence: String,
    /// The action that an operator should take.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn new(verdict: Verdict, check: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self { check: check.into(), verdict, evidence: evidence.into(), advice: None }
    }

    /// A finding of a check that passed.
    pub(super) fn pass(check: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Verdict::Pass, check, evidence)
    }

    /// A finding about something that should be changed.
    pub(super) fn warn(check: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Verdict::Warn, check, evidence)
    }

    /// A finding of a check that failed.
    pub(super) fn fail(check: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Verdict::Fail, check, evidence)
    }

    /// A finding of a check that was not run.
    pub(super) fn skipped(check: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Verdict::Skipped, check, why)
    }

    /// A finding of an invariant that tests check.
    pub(super) fn held(check: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Verdict::HeldByTest, check, evidence)
    }

    /// Adds advice to the finding.
    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// Collects findings and prints them.
pub(super) struct Report<'a> {
    is_json: bool,
    output: &'a mut dyn Write,
    errors: &'a mut dyn Write,
    findings: Vec<Finding>,
    /// Whether writing failed for another reason than a closed pipe.
    is_unwritten: bool,
}

/// The whole report as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    passed: usize,
    warned: usize,
    failed: usize,
    skipped: usize,
    held_by_tests: usize,
    findings: &'a [Finding],
}

impl<'a> Report<'a> {
    pub(super) fn new(is_json: bool, output: &'a mut dyn Write, errors: &'a mut dyn Write) -> Self {
        Self { is_json, output, errors, findings: Vec::new(), is_unwritten: false }
    }

    /// Adds a finding and prints it at once, unless the report is JSON.
    pub(super) fn note(&mut self, finding: Finding) {
        if !self.is_json {
            let written = print(self.output, &finding);
            self.written(written);
        }
        self.findings.push(finding);
    }

    /// Waits for a check, and prints its progress if it takes long.
    pub(super) async fn watch<T>(&mut self, what: &str, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let mut seconds = 0;
        loop {
            match tokio::time::timeout(PROGRESS_INTERVAL, &mut work).await {
                Ok(done) => return done,
                Err(_) => {
                    seconds += PROGRESS_INTERVAL.as_secs();
                    // An error while writing progress is ignored.
                    let _ = writeln!(self.errors, "… {what} ({seconds} s)");
                }
            }
        }
    }

    /// Prints the summary and returns the exit code.
    pub(super) fn finish(mut self) -> u8 {
        let count = |verdict| self.findings.iter().filter(|it| it.verdict == verdict).count();
        let summary = Summary {
            passed: count(Verdict::Pass),
            warned: count(Verdict::Warn),
            failed: count(Verdict::Fail),
            skipped: count(Verdict::Skipped),
            held_by_tests: count(Verdict::HeldByTest),
            findings: &self.findings,
        };
        let failed = summary.failed;
        let written = if self.is_json {
            let text = serde_json::to_string_pretty(&summary).map_err(io::Error::other);
            text.and_then(|text| writeln!(self.output, "{text}"))
        } else {
            let Summary { passed, warned, skipped, held_by_tests, .. } = summary;
            writeln!(
                self.output,
                "\n{passed} passed, {warned} warnings, {failed} failed, {skipped} skipped, \
                 {held_by_tests} held by tests"
            )
        };
        let written = written.and_then(|()| self.output.flush());
        self.written(written);
        if failed > 0 || self.is_unwritten { FAILED } else { 0 }
    }

    /// A reader that closed the pipe is no error.
    fn written(&mut self, written: io::Result<()>) {
        self.is_unwritten |= written.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe);
    }
}

fn print(output: &mut dyn Write, finding: &Finding) -> io::Result<()> {
    let Finding { check, verdict, evidence, advice } = finding;
    write!(output, "{:<8} {check}: {evidence}", verdict.as_str())?;
    if let Some(advice) = advice {
        write!(output, "; to do: {advice}")?;
    }
    writeln!(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_of(is_json: bool, findings: Vec<Finding>) -> (u8, String) {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let mut report = Report::new(is_json, &mut output, &mut errors);
        for finding in findings {
            report.note(finding);
        }
        let code = report.finish();
        (code, String::from_utf8(output).unwrap())
    }

    #[test]
    fn only_a_failure_makes_the_code_one() {
        let fine = vec![
            Finding::pass("a", "seen"),
            Finding::warn("b", "odd"),
            Finding::skipped("c", "not there"),
            Finding::held("d", "held by test e"),
        ];
        let (code, text) = report_of(false, fine.clone());
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("1 passed, 1 warnings, 0 failed, 1 skipped, 1 held by tests"));
        let failed = Finding::fail("f", "broken").advise("repair it");
        let (code, text) = report_of(false, [fine, vec![failed]].concat());
        assert_eq!(code, 1);
        assert!(text.contains("FAIL     f: broken; to do: repair it\n"), "{text}");
    }

    #[test]
    fn a_json_report_is_one_object() {
        let (code, text) =
            report_of(true, vec![Finding::fail("f", "broken"), Finding::pass("a", "b")]);
        assert_eq!(code, 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["failed"], &value["passed"]), (&1.into(), &1.into()));
        assert_eq!(value["findings"][0]["verdict"], "fail");
        assert!(value["findings"][1].get("advice").is_none());
    }
}
