//! Errors about a field of a request, and checks that several routes share.

use heartline_gateway::Refusal;
use heartline_protocol::ErrorCode;
use heartline_protocol::server_frame::ErrorDetails;

/// An error that names the field.
pub(super) fn refused(field: &str, code: ErrorCode, message: impl Into<String>) -> Refusal {
    let details = ErrorDetails { field: Some(field.to_owned()), ..Default::default() };
    Refusal { details: Some(details), ..Refusal::new(code, message) }
}

/// A field that is malformed.
pub(super) fn wrong(field: &str, message: impl Into<String>) -> Refusal {
    refused(field, ErrorCode::InvalidMessage, message)
}

/// Checks a name for people: not empty, not too long, and on one line.
pub(super) fn check_name(field: &str, name: &str, characters_max: usize) -> Result<(), Refusal> {
    let is_short_enough = (1..=characters_max).contains(&name.chars().count());
    if !is_short_enough || name.chars().any(char::is_control) {
        let message =
            format!("{field} must be 1 to {characters_max} characters, none a control character");
        return Err(wrong(field, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_counted_in_characters_and_not_in_bytes() {
        let longest = "ü".repeat(64);
        for good in ["x", " ", "Zoë 👩‍👩‍👧", &longest] {
            assert_eq!(check_name("name", good, 64), Ok(()), "{good}");
        }
        for bad in ["", "two\nlines", "nul\0", &"ü".repeat(65)] {
            let refusal = check_name("name", bad, 64).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::InvalidMessage, "{bad}");
            assert_eq!(refusal.details.unwrap().field.as_deref(), Some("name"));
        }
    }
}
