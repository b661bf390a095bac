//! A URL of the server, taken apart.

use http::Uri;

use crate::config::ConfigError;

/// Where sockets are served unless the URL says otherwise.
const DEFAULT_PATH: &str = "/v1/ws";

/// Where to connect to, and what to ask for there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The URL as it was configured.
    pub(crate) url: String,
    /// The host without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the connection goes through TLS.
    pub(crate) secure: bool,
    /// The value of the `Host` header.
    pub(crate) host_header: String,
    /// The path and query of the upgrade.
    pub(crate) path: String,
}

impl Endpoint {
    /// Takes a URL apart, or says what is wrong with it.
    pub(crate) fn parse(url: &str) -> Result<Self, ConfigError> {
        let invalid = |reason| ConfigError::InvalidUrl { url: url.to_owned(), reason };
        let uri: Uri = url.parse().map_err(|_| invalid("it is not a URL"))?;
        let secure = match uri.scheme_str() {
            Some("ws" | "http") => false,
            Some("wss" | "https") => true,
            _ => return Err(invalid("it must begin with ws://, wss://, http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("credentials do not belong into a URL"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(invalid("it names no host"));
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
    fn a_bare_host_means_the_protocols_own_path_and_the_schemes_port() {
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
    fn what_cannot_be_used_is_refused_with_a_reason() {
        for url in ["", "example.com", "ftp://example.com", "ws://ana:secret@example.com", "ws://"]
        {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
    }
}
