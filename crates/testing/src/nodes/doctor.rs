//! The command `heartline doctor` and its report.

use std::path::PathBuf;

use serde_json::Value;
use tokio::time::timeout;

use crate::{Binary, PATIENCE, Server};

/// The report of `heartline doctor`.
#[derive(Debug)]
pub struct DoctorReport {
    /// The exit code of the command.
    pub code: Option<i32>,
    report: Value,
}

impl DoctorReport {
    /// Runs `heartline doctor --json` with these arguments on a server's configuration.
    pub async fn of(binary: Binary, server: &Server, arguments: &[&str]) -> Self {
        Self::on(binary, server.data(), arguments).await
    }

    /// The same on the files of a server that may have ended.
    pub async fn on(binary: Binary, data: PathBuf, arguments: &[&str]) -> Self {
        let file = data.parent().unwrap().join("heartline.toml");
        let mut command = binary.command();
        command.args(["doctor", "--json", "--config"]).arg(file).args(arguments);
        command.env("HEARTLINE__SERVER__DATA_DIR", data);
        let output = timeout(PATIENCE * 4, command.output()).await.expect("an end").unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let report = serde_json::from_str(&text);
        let report = report.unwrap_or_else(|error| panic!("{error}: {text}{errors}"));
        Self { code: output.status.code(), report }
    }

    /// The verdict and the texts of each finding of a check.
    pub fn findings(&self, check: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let findings = self.report["findings"].as_array().unwrap().iter();
        let own = findings.filter(|finding| finding["check"] == check);
        let findings = own.map(|finding| {
            let evidence = format!("{}; {}", text(&finding["evidence"]), text(&finding["advice"]));
            (text(&finding["verdict"]), evidence)
        });
        findings.collect()
    }

    /// The only finding of a check: its verdict and text.
    pub fn verdict(&self, check: &str) -> (String, String) {
        let mut findings = self.findings(check);
        assert_eq!(findings.len(), 1, "{check}: {:#}", self.report);
        findings.remove(0)
    }

    /// The checks that failed.
    pub fn failed(&self) -> Vec<&str> {
        let findings = self.report["findings"].as_array().unwrap().iter();
        let failed = findings.filter(|finding| finding["verdict"] == "fail");
        failed.map(|finding| finding["check"].as_str().unwrap()).collect()
    }

    /// Asserts that nothing failed.
    pub fn assert_clean(&self) {
        assert_eq!(self.code, Some(0), "{:#}", self.report);
        assert_eq!(self.failed(), Vec::<&str>::new(), "{:#}", self.report);
    }

    /// Asserts that a check failed with a finding that contains these words.
    pub fn assert_failed(&self, check: &str, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{:#}", self.report);
        let findings = self.findings(check);
        let is_found = findings.iter().any(|(verdict, text)| {
            verdict == "fail" && words.iter().all(|word| text.contains(word))
        });
        assert!(is_found, "{check} {words:?}: {:#}", self.report);
    }
}
