//! Checks which web pages may open a socket and read responses.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

/// Whether a request's Origin is the server's own host or on the list. A request without one does
/// not come from a web page. `*` on the list allows every page: connections authenticate by tokens
/// and not by cookies, so no page can use another's login.
pub fn origin_is_allowed(headers: &HeaderMap, allowed: &[String]) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let listed = allowed.iter().any(|entry| entry == "*" || entry.eq_ignore_ascii_case(origin));
    listed || is_same_host(origin, headers)
}

fn is_same_host(origin: &str, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    match (host, authority) {
        (Some(host), Some(authority)) => host.eq_ignore_ascii_case(authority),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(origin: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "chat.example:7400".parse().unwrap());
        headers.insert(ORIGIN, origin.parse().unwrap());
        origin_is_allowed(&headers, &["https://app.example".to_owned()])
    }

    #[test]
    fn the_list_is_matched_whole_and_the_own_host_is_allowed() {
        for good in ["https://app.example", "HTTPS://App.Example", "http://chat.example:7400"] {
            assert!(allowed(good), "{good}");
        }
        for bad in [
            "https://app.example.evil.com",
            "https://app.example:444",
            "http://app.example",
            "http://chat.example",
            "null",
        ] {
            assert!(!allowed(bad), "{bad}");
        }
        assert!(origin_is_allowed(&HeaderMap::new(), &[]));
    }
}
