//! The canonical text of a JSON value, for hashes that are the same in a server and in a browser.
//!
//! - The members of an object are sorted by their names, compared by UTF-16 code units, as
//!   `Object.keys(value).sort()` does. Members whose value is null are omitted at every depth; a
//!   null inside an array stays.
//! - There is no whitespace between tokens.
//! - Strings are escaped as `JSON.stringify` does.
//! - Every number is read as a double and written as `String(number)` does: `3`, not `3.0`;
//!   `1e+21`; zero has no sign.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The canonical text of a value.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(text, number.as_f64().unwrap_or_default()),
        Value::String(string) => write_string(text, string),
        Value::Array(values) => {
            text.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(text, value);
            }
            text.push(']');
        }
        Value::Object(members) => write_object(text, members),
    }
}

fn write_object(text: &mut String, members: &Map<String, Value>) {
    let mut present: Vec<_> = members.iter().filter(|(_, value)| !value.is_null()).collect();
    present.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    text.push('{');
    for (index, (name, value)) in present.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_string(text, name);
        text.push(':');
        write_value(text, value);
    }
    text.push('}');
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            control if control < ' ' => append(text, format_args!("\\u{:04x}", control as u32)),
            other => text.push(other),
        }
    }
    text.push('"');
}

/// Writes the shortest digits that read back as the same double, placed as ECMAScript places them:
/// plainly while the point falls among 21 digits or at most six zeros, else with an exponent.
fn write_number(text: &mut String, number: f64) {
    if number == 0.0 {
        return text.push('0');
    }
    if number < 0.0 {
        text.push('-');
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    let count = digits.len() as i32;
    match point {
        point if count <= point && point <= 21 => {
            append(text, format_args!("{digits}{}", "0".repeat((point - count) as usize)));
        }
        point if 0 < point && point <= 21 => {
            let (whole, fraction) = digits.split_at(point as usize);
            append(text, format_args!("{whole}.{fraction}"));
        }
        point if -6 < point && point <= 0 => {
            append(text, format_args!("0.{}{digits}", "0".repeat(-point as usize)));
        }
        point => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            append(text, format_args!("{first}{dot}{rest}e{:+}", point - 1));
        }
    }
}

fn append(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(json: &str) -> String {
        canonical_json(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn numbers_are_written_as_a_browser_writes_them() {
        let written = [
            ("3.0", "3"),
            ("-0.0", "0"),
            ("-2", "-2"),
            ("0.1", "0.1"),
            ("123.456", "123.456"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("1.5e300", "1.5e+300"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("1.25e-9", "1.25e-9"),
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551615", "18446744073709552000"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ];
        for (json, expected) in written {
            assert_eq!(canonical(json), expected, "{json}");
        }
    }

    #[test]
    fn members_are_sorted_by_utf_16_and_null_members_are_left_out() {
        assert_eq!(
            canonical(r#"{ "b": [1, null, {"z": null}], "a": null, "A": true }"#),
            r#"{"A":true,"b":[1,null,{}]}"#
        );
        // U+1F600 begins with a surrogate, which is less than U+FF5E.
        assert_eq!(
            canonical("{\"\u{ff5e}\":1,\"\u{1f600}\":2}"),
            "{\"\u{1f600}\":2,\"\u{ff5e}\":1}"
        );
    }

    #[test]
    fn strings_are_escaped_as_a_browser_escapes_them() {
        assert_eq!(
            canonical(r#""\u0001\b\t\n\f\r\"\\\/\u007fé""#),
            "\"\\u0001\\b\\t\\n\\f\\r\\\"\\\\/\u{7f}é\""
        );
    }
}
