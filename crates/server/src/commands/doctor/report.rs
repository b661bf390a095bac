//! What the doctor says: one line per check as it comes, or one JSON object at the end.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use super::{FAILED, PROGRESS_INTERVAL};

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// It holds; the evidence says how that is known.
    Pass,
    /// It works, and something should be changed.
    Warn,
    /// It does not hold.
    Fail,
    /// It was not looked at; the evidence says why.
    Skipped,
    /// It cannot be seen from outside; the evidence names the tests that hold it.
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
    /// What was looked at.
    check: String,
    /// How it went.
    pub(super) verdict: Verdict,
    /// How that is known.
    pub(super) evidence: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn new(verdict: Verdict, check: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self { check: check.into(), verdict, evidence: evidence.into(), advice: None }
    }

    /// It holds.
    pub(super) fn pass(check: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Verdict::Pass, check, evidence)
    }

    /// It works for now.
    pub(super) fn warn(check: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Verdict::Warn, check, evidence)
    }

    /// It does not hold.
    pub(super) fn fail(check: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Verdict::Fail, check, evidence)
    }

    /// It was not looked at.
    pub(super) fn skipped(check: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Verdict::Skipped, check, why)
    }

    /// Tests hold it.
    pub(super) fn held(check: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Verdict::HeldByTest, check, evidence)
    }

    /// Says what to do about it.
    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// Collects findings and tells them.
pub(super) struct Report<'a> {
    is_json: bool,
    output: &'a mut dyn Write,
    errors: &'a mut dyn Write,
    findings: Vec<Finding>,
    /// Something could not be told to somebody who still listens.
    is_unwritten: bool,
}

/// The whole report for machines.
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

    /// Takes a finding and tells it at once, unless one object is asked for.
    pub(super) fn note(&mut self, finding: Finding) {
        if !self.is_json {
            let written = tell(self.output, &finding);
            self.written(written);
        }
        self.findings.push(finding);
    }

    /// Waits for something that may take a while, and says so when it does.
    pub(super) async fn watch<T>(&mut self, what: &str, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let mut seconds = 0;
        loop {
            match tokio::time::timeout(PROGRESS_INTERVAL, &mut work).await {
                Ok(done) => return done,
                Err(_) => {
                    seconds += PROGRESS_INTERVAL.as_secs();
                    // Nobody needs to hear it.
                    let _ = writeln!(self.errors, "… {what} ({seconds} s)");
                }
            }
        }
    }

    /// Tells how it went as a whole, and answers the exit code.
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

    /// A reader that went away is no error.
    fn written(&mut self, written: io::Result<()>) {
        self.is_unwritten |= written.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe);
    }
}

fn tell(output: &mut dyn Write, finding: &Finding) -> io::Result<()> {
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

    fn told(is_json: bool, findings: Vec<Finding>) -> (u8, String) {
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
        let (code, text) = told(false, fine.clone());
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("1 passed, 1 warnings, 0 failed, 1 skipped, 1 held by tests"));
        let failed = Finding::fail("f", "broken").advise("mend it");
        let (code, text) = told(false, [fine, vec![failed]].concat());
        assert_eq!(code, 1);
        assert!(text.contains("FAIL     f: broken; to do: mend it\n"), "{text}");
    }

    #[test]
    fn for_machines_it_is_one_object() {
        let (code, text) = told(true, vec![Finding::fail("f", "broken"), Finding::pass("a", "b")]);
        assert_eq!(code, 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["failed"], &value["passed"]), (&1.into(), &1.into()));
        assert_eq!(value["findings"][0]["verdict"], "fail");
        assert!(value["findings"][1].get("advice").is_none());
    }
}
