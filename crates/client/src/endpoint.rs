//! A parsed URL of the server.

use http::Uri;

use crate::config::ConfigError;

/// The path of a URL that has none.
const DEFAULT_PATH: &str = "/v1/ws";

/// The parts of a URL that a connection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The URL as configured.
    pub(crate) url: String,
    /// The host without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the connection uses TLS.
    pub(crate) secure: bool,
    /// The value of the `Host` header.
    pub(crate) host_header: String,
    /// The path and query of the upgrade.
    pub(crate) path: String,
}

impl Endpoint {
    /// Parses a URL.
    pub(crate) fn parse(url: &str) -> Result<Self, ConfigError> {
        let invalid = |reason| ConfigError::InvalidUrl { url: url.to_owned(), reason };
        let uri: Uri = url.parse().map_err(|_| invalid("not a URL"))?;
        let secure = match uri.scheme_str() {
            Some("ws" | "http") => false,
            Some("wss" | "https") => true,
            _ => return Err(invalid("must begin with ws://, wss://, http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("must not contain credentials"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(invalid("has no host"));
        }
        let path = match uri.path_and_query() {
            Some(path) if path.as_str() != "/" => path.as_str(),
            _ => DEFAULT_PATH,
        };
        Ok(Self {
            url: url.to_owned(),
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            secure,
            host_header: authority.as_str().to_owned(),
            path: path.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_path_and_port_gets_the_defaults() {
        let plain = Endpoint::parse("http://example.com").unwrap();
        assert_eq!((plain.port, plain.secure, &*plain.path), (80, false, "/v1/ws"));
        let secure = Endpoint::parse("wss://example.com/").unwrap();
        assert_eq!((secure.port, secure.secure, &*secure.path), (443, true, "/v1/ws"));
    }

    #[test]
    fn a_path_and_a_port_are_kept() {
        let endpoint = Endpoint::parse("ws://[::1]:7000/live/ws?a=b").unwrap();
        assert_eq!(endpoint.host, "::1");
        assert_eq!(endpoint.host_header, "[::1]:7000");
        assert_eq!(endpoint.port, 7000);
        assert_eq!(endpoint.path, "/live/ws?a=b");
    }

    #[test]
    fn an_invalid_url_is_rejected() {
        for url in ["", "example.com", "ftp://example.com", "ws://ana:secret@example.com", "ws://"]
        {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
    }
}
