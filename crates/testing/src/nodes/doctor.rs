//! The command `heartline doctor`, run as an operator would, and its report.

use std::path::PathBuf;

use serde_json::Value;
use tokio::time::timeout;

use crate::{Binary, PATIENCE, Server};

/// The report of the doctor.
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

    /// How a check went, with everything that was said about it.
    pub fn said(&self, check: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let findings = self.report["findings"].as_array().unwrap().iter();
        let own = findings.filter(|finding| finding["check"] == check);
        let said = own.map(|finding| {
            let evidence = format!("{}; {}", text(&finding["evidence"]), text(&finding["advice"]));
            (text(&finding["verdict"]), evidence)
        });
        said.collect()
    }

    /// The one verdict on a check, and what was said.
    pub fn verdict(&self, check: &str) -> (String, String) {
        let mut said = self.said(check);
        assert_eq!(said.len(), 1, "{check}: {:#}", self.report);
        said.remove(0)
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

    /// Asserts that a check failed and was told so.
    pub fn assert_failed(&self, check: &str, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{:#}", self.report);
        let said = self.said(check);
        let is_told = said.iter().any(|(verdict, text)| {
            verdict == "fail" && words.iter().all(|word| text.contains(word))
        });
        assert!(is_told, "{check} {words:?}: {:#}", self.report);
    }
}
