//! Percent-encoding of path segments and query values.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The bytes that are encoded: all except the unreserved ones of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Encodes a text as one path segment or query value.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_user_id_is_one_segment_of_a_path() {
        assert_eq!(encoded("auth0|ana@x:1+2"), "auth0%7Cana%40x%3A1%2B2");
        assert_eq!(encoded("a/é?"), "a%2F%C3%A9%3F");
    }
}
