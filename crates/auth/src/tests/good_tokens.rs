use heartline_protocol::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{AuthError, Claims};

#[test]
fn each_supported_kind_of_key_verifies_its_own_tokens() {
    let kinds = [
        (Signer::rsa(fixture!("rsa_a.private.pem")), fixture!("rsa_a.public.pem")),
        (Signer::rsa(fixture!("rsa_a.private.pem")), fixture!("rsa_a.pkcs1.public.pem")),
        (Signer::p256(fixture!("p256_a.private.pem")), fixture!("p256_a.public.pem")),
        (Signer::ed25519(fixture!("ed25519_a.private.pem")), fixture!("ed25519_a.public.pem")),
    ];
    for (signer, public) in kinds {
        let token = signer.token(&claims(&json!({})));
        let from_pem = authenticator(Keys::PublicKeys(vec![pem_file(public)]));
        assert!(from_pem.check(&token, now()).is_ok(), "{:?}", signer.algorithm);
        let text = key_set(&[signer.jwk(&json!({}))]);
        let from_set = authenticator(Keys::JwksFile { name: "set.json".into(), text });
        assert!(from_set.check(&token, now()).is_ok(), "{:?}", signer.algorithm);
    }
}

#[test]
fn the_claims_have_the_user_the_device_and_the_expiry() {
    let token = Signer::hmac(SECRET).token(&claims(&json!({"device_id": "phone-1"})));
    let expected = Claims {
        user_id: "ana".parse().unwrap(),
        device_id: Some("phone-1".parse().unwrap()),
        service: false,
        expires_at: Timestamp::from_unix_seconds(NOW_SECONDS + 60),
    };
    assert_eq!(with_secret().check(&token, now()), Ok(expected));
}

#[test]
fn only_the_whole_word_service_in_scope_makes_a_service() {
    let is_service = |scope: Value| {
        let token = Signer::hmac(SECRET).token(&claims(&json!({"scope": scope})));
        with_secret().check(&token, now()).unwrap().service
    };
    for yes in [json!("service"), json!("read service"), json!(["read", "service"])] {
        assert!(is_service(yes.clone()), "{yes}");
    }
    for no in [json!(""), json!("services"), json!("Service"), json!(["x:service"]), json!([])] {
        assert!(!is_service(no.clone()), "{no}");
    }
}

#[test]
fn a_token_ends_when_its_leeway_is_used_up() {
    let token = Signer::hmac(SECRET).token(&claims(&json!({"exp": NOW_SECONDS})));
    let last_moment = Timestamp { unix_ms: now().plus(LEEWAY).unix_ms - 1 };
    assert!(with_secret().check(&token, last_moment).is_ok());
    let end = now().plus(LEEWAY);
    let expired = Err(AuthError::Invalid("it has expired"));
    assert_eq!(with_secret().check(&token, end), expired);
}

#[test]
fn a_token_begins_one_leeway_before_its_nbf() {
    let token = Signer::hmac(SECRET).token(&claims(&json!({"nbf": NOW_SECONDS + 5})));
    assert!(with_secret().check(&token, now()).is_ok());
    let a_moment_earlier = Timestamp { unix_ms: now().unix_ms - 1 };
    assert!(with_secret().check(&token, a_moment_earlier).is_err());
}

#[test]
fn a_configured_issuer_and_audience_must_be_there() {
    let keys = Keys::Hmac(vec![Secret::new(SECRET)]);
    let issuer = Some("https://id.example".to_owned());
    let audience = Some("chat".to_owned());
    let strict = AuthConfig { issuer, audience, ..config(keys) };
    let strict = Authenticator::new(strict, Clock::system()).unwrap();
    let accepts = |members: Value| {
        let token = Signer::hmac(SECRET).token(&claims(&members));
        strict.check(&token, now()).is_ok()
    };
    assert!(accepts(json!({"iss": "https://id.example", "aud": "chat"})));
    assert!(accepts(json!({"iss": "https://id.example", "aud": ["shop", "chat"]})));
    for refused in [
        json!({}),
        json!({"iss": "https://id.example"}),
        json!({"aud": "chat"}),
        json!({"iss": "https://id.example/", "aud": "chat"}),
        json!({"iss": ["https://id.example"], "aud": "chat"}),
        json!({"iss": "https://id.example", "aud": "chats"}),
        json!({"iss": "https://id.example", "aud": "shop chat"}),
        json!({"iss": "https://id.example", "aud": []}),
        json!({"iss": "https://id.example", "aud": null}),
        json!({"iss": "https://id.example", "aud": 1}),
    ] {
        assert!(!accepts(refused.clone()), "{refused}");
    }
}

#[test]
fn an_issuer_and_audience_that_nobody_configured_do_not_matter() {
    let token = Signer::hmac(SECRET).token(&claims(&json!({"iss": "x", "aud": ["y"]})));
    assert!(with_secret().check(&token, now()).is_ok());
}

#[test]
fn a_token_cannot_bring_its_own_key() {
    let own = Signer::p256(fixture!("p256_b.private.pem"));
    let members = json!({
        "jku": "https://evil.example/keys",
        "x5u": "https://evil.example/cert",
        "jwk": own.jwk(&json!({})),
    });
    let known = Signer::p256(fixture!("p256_a.private.pem"));
    let keys = || Keys::PublicKeys(vec![pem_file(fixture!("p256_a.public.pem"))]);
    let forged = own.token_with_header(&members, &claims(&json!({})));
    assert!(authenticator(keys()).check(&forged, now()).is_err());
    let harmless = known.token_with_header(&members, &claims(&json!({})));
    assert!(authenticator(keys()).check(&harmless, now()).is_ok());
}

#[test]
fn a_kid_is_no_path_and_means_nothing_without_a_key_set() {
    for kid in ["../../dev/null", "' OR 1=1", "/etc/passwd"] {
        let token =
            Signer::hmac(SECRET).token_with_header(&json!({"kid": kid}), &claims(&json!({})));
        assert!(with_secret().check(&token, now()).is_ok());
        let forged = Signer::hmac("").token_with_header(&json!({"kid": kid}), &claims(&json!({})));
        assert!(with_secret().check(&forged, now()).is_err());
    }
}
