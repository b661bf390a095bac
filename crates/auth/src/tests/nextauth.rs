//! Tokens that NextAuth has encrypted.

use super::*;
use crate::KeyError;

/// The secret and the token that NextAuth itself encrypted with it in Node, for `user-42` until
/// 2100.
const SITE_SECRET: &str = "a secret of the site that is long enough";
const TOKEN: &str = "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..AAECAwQFBgcICQoL.5qzqxFDOy1maHRYTd-p5LkOPqhHcGRSqYhutJWXsn--gBayx-HTd6wDlKj-7M_P1lonRRmynjuMxs0PXdJxQCo2bmhxLsxx4gpiUYgd2g1CAl41kPw6tiDm__dJnseTATCCDs5aj.MYiVzwT5n-E6XTH_hWCdVg";

fn authenticator(secret: Option<&str>) -> Authenticator {
    let nextauth_secret = secret.map(Secret::new);
    let keys = Keys::Hmac(vec![Secret::new("0123456789abcdef0123456789abcdef")]);
    Authenticator::new(AuthConfig { nextauth_secret, ..config(keys) }, Clock::system()).unwrap()
}

#[test]
fn a_token_of_the_site_names_its_user() {
    let claims = authenticator(Some(SITE_SECRET)).verify_now(TOKEN).unwrap();
    assert_eq!(claims.user_id.as_str(), "user-42");
    assert!(!claims.service && claims.device_id.is_none());
    assert_eq!(claims.expires_at.unix_ms, 4_102_444_800_000);
}

#[test]
fn a_token_of_another_site_or_a_changed_one_is_refused() {
    let other = authenticator(Some("another secret that is just as long"));
    assert!(other.verify_now(TOKEN).is_err());
    assert!(authenticator(None).verify_now(TOKEN).is_err(), "none is configured");
    let ours = authenticator(Some(SITE_SECRET));
    for place in 0..TOKEN.len() {
        let mut changed = TOKEN.as_bytes().to_vec();
        changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        // The last character of a part has unused bits.
        let is_same = ours.verify_now(&changed).is_ok_and(|it| it.user_id.as_str() == "user-42");
        assert!(!is_same || place + 1 == TOKEN.len(), "{place}: {changed}");
    }
    for malformed in ["....", "a.b.c.d.e", "eyJhbGciOiJub25lIn0....", ".....", "a..b.c.d"] {
        assert!(ours.verify_now(malformed).is_err(), "{malformed}");
    }
}

#[test]
fn a_secret_that_protects_nothing_is_refused() {
    let keys = Keys::Hmac(vec![Secret::new("0123456789abcdef0123456789abcdef")]);
    let config = AuthConfig { nextauth_secret: Some(Secret::new("short")), ..config(keys) };
    let error = Authenticator::new(config, Clock::system()).unwrap_err();
    assert_eq!(error, KeyError::ShortNextAuthSecret);
}
