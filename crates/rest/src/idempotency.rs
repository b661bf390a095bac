//! `Idempotency-Key`: a repeated request is performed once.
//!
//! Two requests are the same if their decoded bodies are equal. Spaces, the order of fields and
//! unknown fields make no difference.

use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::FromRequestParts;
use heartline_durability::Idempotency;
use heartline_protocol::UserId;
use heartline_protocol::rest::IDEMPOTENCY_KEY_LENGTH_MAX;
use http::request::Parts;
use serde::Serialize;

use super::{Refused, field};

/// The header.
const HEADER: &str = "idempotency-key";

/// The key of a request, if it has one, and its route.
#[derive(Debug)]
pub(super) struct Key(Option<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let mut values = parts.headers.get_all(HEADER).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            let is_absent = !parts.headers.contains_key(HEADER);
            return if is_absent { Ok(Self(None)) } else { Err(illegal()) };
        };
        let legal = |key: &&str| {
            (1..=IDEMPOTENCY_KEY_LENGTH_MAX).contains(&key.len())
                && key.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        };
        let key = value.to_str().ok().filter(legal).ok_or_else(illegal)?;
        let route = format!("{} {}", parts.method, parts.uri.path());
        Ok(Self(Some((key.to_owned(), route))))
    }
}

impl Key {
    /// The key as the store keeps it, with a digest of the request.
    pub(super) fn of(self, user_id: &UserId, body: &impl Serialize) -> Option<Idempotency> {
        let (key, route) = self.0?;
        let canonical = serde_json::to_vec(body).expect("a body has only string keys");
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest(&SHA256, &canonical).as_ref());
        Some(Idempotency { user_id: user_id.clone(), route, key, fingerprint })
    }
}

fn illegal() -> Refused {
    let message =
        format!("Idempotency-Key must be 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} printable characters");
    field::wrong("Idempotency-Key", message).into()
}

#[cfg(test)]
mod tests {
    use heartline_protocol::rest::AddMember;
    use http::Request;

    use super::*;

    async fn key(values: &[&[u8]]) -> Result<Key, Refused> {
        let mut builder = Request::post("/v1/chats");
        for value in values {
            builder = builder.header(HEADER, *value);
        }
        let (mut parts, ()) = builder.body(()).unwrap().into_parts();
        Key::from_request_parts(&mut parts, &()).await
    }

    #[tokio::test]
    async fn a_key_is_printable_and_comes_once() {
        assert!(key(&[]).await.unwrap().0.is_none());
        for good in [b"a".as_slice(), b"8f1c 22~", &[b'x'; 128]] {
            let (read, route) = key(&[good]).await.unwrap().0.unwrap();
            assert_eq!((read.as_bytes(), route.as_str()), (good, "POST /v1/chats"));
        }
        for bad in [b"".as_slice(), "é".as_bytes(), b"\t", &[b'x'; 129]] {
            assert!(key(&[bad]).await.is_err(), "{bad:?}");
        }
        assert!(key(&[b"a", b"a"]).await.is_err());
    }

    #[tokio::test]
    async fn the_digest_is_of_the_decoded_body() {
        let ana = "ana".parse().unwrap();
        let parse = |text| serde_json::from_str::<AddMember>(text).unwrap();
        let mut prints = Vec::new();
        for text in [
            r#"{"user_id":"bo","role":"member"}"#,
            r#"{ "role": "member", "more": 1, "user_id": "bo" }"#,
            r#"{"user_id":"bo"}"#,
            r#"{"user_id":"bo","role":"admin"}"#,
        ] {
            let key = key(&[b"k"]).await.unwrap();
            prints.push(key.of(&ana, &parse(text)).unwrap().fingerprint);
        }
        assert_eq!(prints[0], prints[1]);
        assert_eq!(prints[0], prints[2]);
        assert_ne!(prints[0], prints[3]);
    }
}
