//! Text as one part of a path or query.

/// Keeps what may stand there as it is, and writes every other byte in hex.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_user_is_called_is_one_part_of_a_path() {
        assert_eq!(encoded("auth0|ana@x:1+2"), "auth0%7Cana%40x%3A1%2B2");
        assert_eq!(encoded("a/é?"), "a%2F%C3%A9%3F");
    }
}
