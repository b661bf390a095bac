use serde_json::{Value, json};

use super::*;
use crate::{KeyError, KeyFault, KeySetFault};

fn refusal(keys: Keys) -> KeyError {
    Authenticator::new(config(keys), Clock::system()).unwrap_err()
}

#[test]
fn no_key_at_all_is_refused() {
    assert_eq!(refusal(Keys::Hmac(Vec::new())), KeyError::NoKeys);
    assert_eq!(refusal(Keys::PublicKeys(Vec::new())), KeyError::NoKeys);
}

#[test]
fn a_short_secret_is_refused_by_its_position() {
    let secrets = vec![Secret::new(SECRET), Secret::new(&SECRET[..31])];
    let error = refusal(Keys::Hmac(secrets));
    assert_eq!(error, KeyError::ShortSecret { position: 2, bytes: 31 });
    assert!(error.to_string().contains("at least 32"), "{error}");
    assert!(
        Authenticator::new(config(Keys::Hmac(vec![Secret::new(&SECRET[..32])])), Clock::system())
            .is_ok()
    );
}

#[test]
fn a_key_file_that_cannot_be_used_is_named_with_its_fault() {
    let two_keys = [fixture!("rsa_a.public.pem"), fixture!("rsa_b.public.pem")].concat();
    let cut_short = fixture!("p256_a.public.pem").replace("AE", "");
    let cases = [
        ("", KeyFault::NotPem),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", KeyFault::NotPem),
        (fixture!("rsa_a.private.pem"), KeyFault::Private),
        (fixture!("p256_a.private.pem"), KeyFault::Private),
        (fixture!("ed25519_a.private.pem"), KeyFault::Private),
        ("-----BEGIN EC PARAMETERS-----\n-----BEGIN EC PRIVATE KEY-----\n", KeyFault::Private),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n", KeyFault::Private),
        (fixture!("certificate.pem"), KeyFault::Certificate),
        (&two_keys, KeyFault::Several),
        (fixture!("rsa_1024.public.pem"), KeyFault::RsaLength { bits: 1024 }),
        (fixture!("secp256k1.public.pem"), KeyFault::Unsupported),
        (fixture!("p384.public.pem"), KeyFault::Unsupported),
        ("-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n", KeyFault::Malformed),
        ("-----BEGIN PUBLIC KEY-----\nMCow\n", KeyFault::Malformed),
        ("-----BEGIN PGP PUBLIC KEY BLOCK-----\n", KeyFault::Unsupported),
    ];
    for (pem, fault) in cases {
        let name = "key.pem".to_owned();
        let expected = KeyError::UnusableKey { name, fault };
        assert_eq!(refusal(Keys::PublicKeys(vec![pem_file(pem)])), expected, "{pem}");
    }
    assert!(matches!(
        refusal(Keys::PublicKeys(vec![pem_file(&cut_short)])),
        KeyError::UnusableKey { fault: KeyFault::Malformed | KeyFault::Unsupported, .. }
    ));
}

#[test]
fn line_ends_and_text_around_a_key_do_not_matter() {
    let pem = fixture!("p256_a.public.pem");
    for pem in [pem.replace('\n', "\r\n"), format!("our key\n{pem}\n\n"), pem.trim().to_owned()] {
        let token = Signer::p256(fixture!("p256_a.private.pem")).token(&claims(&json!({})));
        let authenticator = authenticator(Keys::PublicKeys(vec![pem_file(&pem)]));
        assert!(authenticator.check(&token, now()).is_ok(), "{pem}");
    }
}

fn set_refusal(text: String) -> KeySetFault {
    match refusal(Keys::JwksFile { name: "set.json".into(), text }) {
        KeyError::UnusableSet { name, fault } if name == "set.json" => fault,
        other => panic!("{other}"),
    }
}

#[test]
fn a_key_set_that_cannot_be_used_is_refused() {
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, "<html>"] {
        assert_eq!(set_refusal(text.to_owned()), KeySetFault::NotASet, "{text}");
    }
    assert_eq!(set_refusal(key_set(&[])), KeySetFault::Empty);
    let long = format!("{}{}", key_set(&[]), " ".repeat(256 * 1024));
    assert_eq!(set_refusal(long), KeySetFault::TooLong);
    let key = Signer::ed25519(fixture!("ed25519_a.private.pem")).jwk(&json!({}));
    assert_eq!(set_refusal(key_set(&vec![key; 65])), KeySetFault::TooManyKeys);
}

#[test]
fn an_unusable_entry_is_skipped_and_reported() {
    let rsa = Signer::rsa(fixture!("rsa_a.private.pem"));
    let p256 = Signer::p256(fixture!("p256_a.private.pem"));
    let ed25519 = Signer::ed25519(fixture!("ed25519_a.private.pem"));
    let weak_modulus = encode([0xff; 128]);
    let padded_modulus = encode([[0; 128], [0xff; 128]].concat());
    let cases: [(Value, KeyFault); 19] = [
        (json!({"kty": "oct", "k": encode(SECRET)}), KeyFault::Unsupported),
        (json!({"kid": "a"}), KeyFault::Malformed),
        (json!("a"), KeyFault::Malformed),
        (rsa.jwk(&json!({"use": "enc"})), KeyFault::OtherPurpose),
        (rsa.jwk(&json!({"key_ops": ["encrypt"]})), KeyFault::OtherPurpose),
        (rsa.jwk(&json!({"alg": "RS512"})), KeyFault::OtherPurpose),
        (rsa.jwk(&json!({"alg": "HS256"})), KeyFault::OtherPurpose),
        (rsa.jwk(&json!({"alg": "RSA-OAEP"})), KeyFault::OtherPurpose),
        (rsa.jwk(&json!({"d": "AQAB"})), KeyFault::Private),
        (rsa.jwk(&json!({"n": weak_modulus})), KeyFault::RsaLength { bits: 1024 }),
        (rsa.jwk(&json!({"n": padded_modulus})), KeyFault::RsaLength { bits: 1024 }),
        (rsa.jwk(&json!({"n": encode([0xff; 1025])})), KeyFault::RsaLength { bits: 8200 }),
        (rsa.jwk(&json!({"n": ""})), KeyFault::RsaLength { bits: 0 }),
        (rsa.jwk(&json!({"e": "AQ"})), KeyFault::Malformed),
        (rsa.jwk(&json!({"e": "AA"})), KeyFault::Malformed),
        (p256.jwk(&json!({"crv": "P-384"})), KeyFault::Unsupported),
        (p256.jwk(&json!({"x": encode([1; 31])})), KeyFault::Malformed),
        (ed25519.jwk(&json!({"crv": "X25519"})), KeyFault::Unsupported),
        (ed25519.jwk(&json!({"x": encode([1; 33])})), KeyFault::Malformed),
    ];
    for (entry, fault) in &cases {
        let refused = set_refusal(key_set(std::slice::from_ref(entry)));
        assert_eq!(refused, KeySetFault::NoUsableKey(*fault), "{entry}");
    }
    let mut entries: Vec<Value> = cases.into_iter().map(|(entry, _)| entry).collect();
    entries.push(p256.jwk(&json!({"kid": "good", "use": "sig", "key_ops": ["verify"]})));
    let authenticator =
        authenticator(Keys::JwksFile { name: "set.json".into(), text: key_set(&entries) });
    let token = p256.token_with_header(&json!({"kid": "good"}), &claims(&json!({})));
    assert!(authenticator.check(&token, now()).is_ok());
    let forged = Signer::hmac(SECRET).token(&claims(&json!({})));
    assert!(authenticator.check(&forged, now()).is_err());
}

#[test]
fn no_output_shows_a_key() {
    let secret = "an unmistakable secret of many bytes";
    let private = fixture!("ed25519_a.private.pem");
    let inner_line = private.lines().nth(1).unwrap();
    let configs = [
        Keys::Hmac(vec![Secret::new(secret)]),
        Keys::PublicKeys(vec![pem_file(private)]),
        Keys::JwksFile { name: "set.json".into(), text: private.to_owned() },
    ];
    for keys in configs {
        let config = config(keys);
        let mut printed = format!("{config:?}");
        match Authenticator::new(config, Clock::system()) {
            Ok(authenticator) => printed += &format!("{authenticator:?}"),
            Err(error) => printed += &format!("{error} {error:?}"),
        }
        assert!(!printed.contains(secret) && !printed.contains(inner_line), "{printed}");
        assert!(!printed.contains("117, 110, 109"), "the bytes of a secret: {printed}");
    }
}
