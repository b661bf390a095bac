//! The report of a run, as a table and as JSON.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::Value;

use super::machine::Machine;

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The scenario.
    pub(super) bench: &'static str,
    /// Heartline's version.
    pub(super) version: &'static str,
    /// How the bench, and the server that it started, were built.
    pub(super) build: &'static str,
    /// The machine of the run.
    pub(super) machine: Machine,
    /// The parameters of the scenario.
    pub(super) parameters: Vec<Parameter>,
    /// The names of the columns.
    pub(super) columns: Columns,
    /// The figures, in the order of the table.
    pub(super) figures: Vec<Figure>,
    /// The failures. A run with errors has failed, whatever its figures.
    pub(super) errors: Vec<String>,
}

/// A parameter of the scenario.
#[derive(Debug, Serialize)]
pub(super) struct Parameter {
    name: &'static str,
    value: Value,
}

/// The names of the two columns.
#[derive(Debug, Serialize)]
pub(super) struct Columns {
    /// The column of the measured values.
    pub(super) value: &'static str,
    /// The column of the baseline.
    pub(super) baseline: &'static str,
}

/// One measured quantity beside its baseline.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    name: String,
    unit: &'static str,
    value: Option<f64>,
    baseline: Option<f64>,
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
}

/// The target of a figure.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "kind", content = "bound", rename_all = "snake_case")]
pub(super) enum Target {
    /// The value is at most this.
    AtMost(f64),
    /// The value is at least this.
    AtLeast(f64),
    /// The value is at most this many times the baseline.
    RatioAtMost(f64),
    /// The value is at least this many times the baseline.
    RatioAtLeast(f64),
}

impl Report {
    /// A report without figures, with the bare loop as the baseline.
    pub(super) fn new(bench: &'static str) -> Self {
        Self {
            bench,
            version: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            machine: Machine::this(),
            parameters: Vec::new(),
            columns: Columns { value: "heartline", baseline: "bare loop" },
            figures: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Adds a parameter.
    pub(super) fn parameter(&mut self, name: &'static str, value: impl Into<Value>) {
        self.parameters.push(Parameter { name, value: value.into() });
    }

    /// Adds a figure. A value that was not measured is none.
    pub(super) fn figure(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        value: Option<f64>,
        baseline: Option<f64>,
    ) -> &mut Figure {
        let finite = |number: &f64| number.is_finite();
        let (value, baseline) = (value.filter(finite), baseline.filter(finite));
        let ratio = value.zip(baseline).map(|(value, baseline)| value / baseline).filter(finite);
        let name = name.into();
        self.figures.push(Figure { name, unit, value, baseline, ratio, target: None, met: None });
        self.figures.last_mut().expect("one was just added")
    }

    /// Adds the percentiles of a latency.
    pub(super) fn latency(
        &mut self,
        name: &str,
        value: &Histogram<u64>,
        baseline: &Histogram<u64>,
    ) {
        for quantile in [0.5, 0.95, 0.99, 0.999, 1.0] {
            let label = if quantile < 1.0 {
                format!("{name} p{}", quantile * 100.0)
            } else {
                format!("{name} maximum")
            };
            self.figure(label, "ms", millis_at(value, quantile), millis_at(baseline, quantile));
        }
    }

    /// Sets the target of a figure that was added before.
    pub(super) fn set_target(&mut self, name: &str, target: Target) {
        let figure = self.figures.iter_mut().find(|figure| figure.name == name);
        figure.expect("the figure was added before").target(target);
    }

    /// One JSON document with a final line break.
    pub(super) fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// A table for a terminal.
    pub(super) fn to_table(&self) -> String {
        let mut rows = vec![
            ["", self.columns.value, self.columns.baseline, "ratio", "target"].map(str::to_owned),
        ];
        rows.extend(self.figures.iter().map(Figure::row));
        let width = |column: usize| {
            rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths = [width(0), width(1), width(2), width(3), width(4)];
        let mut text = self.heading();
        for row in &rows {
            let [name, value, baseline, ratio, target] = row;
            let [first, second, third, fourth, _] = widths;
            let line = format!(
                "{name:first$}  {value:>second$}  {baseline:>third$}  {ratio:>fourth$}  {target}"
            );
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for error in &self.errors {
            writeln!(text, "FAILED: {error}").expect("writing to a string never fails");
        }
        text
    }

    fn heading(&self) -> String {
        let machine = &self.machine;
        let gibibytes = machine.memory_bytes as f64 / f64::from(1 << 30);
        let parameters: Vec<String> = self.parameters.iter().map(Parameter::readable).collect();
        format!(
            "heartline {} ({} build) bench {}: {}\n{} cores, {gibibytes:.1} GiB, {}, Linux {}\n\n",
            self.version,
            self.build,
            self.bench,
            parameters.join(", "),
            machine.cores,
            machine.processor,
            machine.kernel,
        )
    }
}

impl Parameter {
    fn readable(&self) -> String {
        match self.value.as_str() {
            Some(text) => format!("{} {text}", self.name),
            None => format!("{} {}", self.name, self.value),
        }
    }
}

impl Figure {
    /// Sets the target.
    pub(super) fn target(&mut self, target: Target) {
        self.target = Some(target);
        self.met = match target {
            Target::AtMost(bound) => self.value.map(|value| value <= bound),
            Target::AtLeast(bound) => self.value.map(|value| value >= bound),
            Target::RatioAtMost(bound) => self.ratio.map(|ratio| ratio <= bound),
            Target::RatioAtLeast(bound) => self.ratio.map(|ratio| ratio >= bound),
        };
    }

    fn row(&self) -> [String; 5] {
        let with_unit = |number: Option<f64>| match number {
            Some(number) => in_unit(number, self.unit),
            None => "-".to_owned(),
        };
        let target = match (self.target, self.met) {
            (Some(target), Some(true)) => format!("{} met", target.readable(self.unit)),
            (Some(target), Some(false)) => format!("{} MISSED", target.readable(self.unit)),
            (Some(target), None) => target.readable(self.unit),
            (None, _) => String::new(),
        };
        let ratio = self.ratio.map_or_else(String::new, |ratio| format!("{}x", readable(ratio)));
        [self.name.clone(), with_unit(self.value), with_unit(self.baseline), ratio, target]
    }
}

impl Target {
    fn readable(self, unit: &str) -> String {
        match self {
            Self::AtMost(bound) => format!("<= {}", in_unit(bound, unit)),
            Self::AtLeast(bound) => format!(">= {}", in_unit(bound, unit)),
            Self::RatioAtMost(bound) => format!("<= {}x", readable(bound)),
            Self::RatioAtLeast(bound) => format!(">= {}x", readable(bound)),
        }
    }
}

/// A number with its unit; a number without a unit is a count and has no decimals.
fn in_unit(number: f64, unit: &str) -> String {
    if unit.is_empty() { grouped(&format!("{number:.0}")) } else { readable(number) + " " + unit }
}

/// A number with up to two decimals and separators of thousands.
fn readable(number: f64) -> String {
    let decimals = match number.abs() {
        large if large >= 100.0 => 0,
        medium if medium >= 10.0 => 1,
        _ => 2,
    };
    grouped(&format!("{number:.decimals$}"))
}

/// Adds separators of thousands to a formatted number.
fn grouped(text: &str) -> String {
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut separated = String::with_capacity(text.len() + 4);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && !separated.ends_with('-') {
            separated.push(',');
        }
        separated.push(digit);
    }
    separated + fraction
}

/// A percentile in milliseconds; none if nothing was recorded.
pub(super) fn millis_at(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile) as f64 / 1e6)
}

/// A histogram of nanoseconds up to one minute, with three significant digits.
pub(super) fn new_histogram() -> Histogram<u64> {
    let minute = Duration::from_secs(60).as_nanos() as u64;
    Histogram::new_with_bounds(1, minute, 3).expect("the bounds are constants")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        let cases = [(0.0, "0.00"), (4.256, "4.26"), (42.0, "42.0"), (1_234_567.8, "1,234,568")];
        for (number, text) in cases {
            assert_eq!(readable(number), text);
        }
        assert_eq!(readable(-123_456.0), "-123,456");
        assert_eq!(in_unit(0.0, ""), "0");
        assert_eq!(in_unit(2.5, "ms"), "2.50 ms");
    }

    #[test]
    fn a_target_is_met_or_missed_by_value_or_ratio() {
        let mut report = Report::new("push");
        report.figure("a", "µs", Some(1.2), Some(1.0)).target(Target::RatioAtMost(1.3));
        report.figure("b", "/s", Some(5.0), None).target(Target::AtLeast(6.0));
        report.figure("c", "KiB", None, Some(2.0)).target(Target::AtMost(6.0));
        report.figure("d", "/s", Some(3.0), Some(2.0)).target(Target::RatioAtLeast(1.5));
        let met: Vec<_> = report.figures.iter().map(|figure| figure.met).collect();
        assert_eq!(met, [Some(true), Some(false), None, Some(true)]);
        let table = report.to_table();
        assert!(table.contains("1.20x  <= 1.30x met"), "{table}");
        assert!(table.contains(">= 6.00 /s MISSED"), "{table}");
    }

    #[test]
    fn the_json_form_names_units_and_errors() {
        let mut report = Report::new("push");
        report.parameter("connections", 10);
        report.figure("deliveries per second", "/s", Some(10.0), Some(0.0));
        report.errors.push("one was lost".to_owned());
        let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(json["figures"][0]["unit"], "/s");
        assert_eq!(json["figures"][0]["ratio"], Value::Null);
        assert_eq!(json["errors"][0], "one was lost");
        assert_eq!(json["parameters"][0]["value"], 10);
    }

    #[test]
    fn percentiles_are_shown_in_milliseconds() {
        let mut histogram = new_histogram();
        histogram.record(2_000_000).unwrap();
        let mut report = Report::new("push");
        report.latency("latency", &histogram, &new_histogram());
        assert_eq!(report.figures[2].name, "latency p99");
        assert!((report.figures[2].value.unwrap() - 2.0).abs() < 0.01);
        assert_eq!(report.figures[2].baseline, None);
    }
}
