use serde_json::{Value, json};

use super::*;
use crate::AuthError;

/// Asserts that every token is rejected and the good one accepted, so that only the named fault
/// decides.
fn assert_refused(authenticator: &Authenticator, good: &str, bad: &[(&str, String)]) {
    assert!(authenticator.check(good, now()).is_ok());
    for (fault, token) in bad {
        let result = authenticator.check(token, now());
        assert!(matches!(result, Err(AuthError::Invalid(_))), "{fault}: {result:?}");
    }
}

fn good() -> String {
    Signer::hmac(SECRET).token(&claims(&json!({})))
}

#[test]
fn other_algorithms_than_the_keys_own_are_refused() {
    let payload = encode(claims(&json!({})).to_string());
    let unsigned = |algorithm: &str| {
        format!("{}.{payload}.", encode(json!({"alg": algorithm, "typ": "JWT"}).to_string()))
    };
    let signed = |algorithm| {
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        Signer { algorithm, key }.token(&claims(&json!({})))
    };
    let header = |header: Value| {
        Signer::hmac(SECRET).raw(&header.to_string(), &claims(&json!({})).to_string())
    };
    let bad = [
        ("none", unsigned("none")),
        ("nOnE", unsigned("nOnE")),
        ("empty", unsigned("")),
        ("HS256 without a signature", unsigned("HS256")),
        ("none with a signature", header(json!({"alg": "none"}))),
        ("lower case", header(json!({"alg": "hs256"}))),
        ("RS256 with an HMAC", header(json!({"alg": "RS256"}))),
        ("a list", header(json!({"alg": ["HS256"]}))),
        ("null", header(json!({"alg": null}))),
        ("missing", header(json!({"typ": "JWT"}))),
        ("HS384", signed(Algorithm::HS384)),
        ("HS512", signed(Algorithm::HS512)),
    ];
    assert_refused(&with_secret(), &good(), &bad);
}

#[test]
fn a_public_key_is_never_taken_for_a_shared_secret() {
    let public = fixture!("rsa_a.public.pem");
    let authenticator = authenticator(Keys::PublicKeys(vec![pem_file(public)]));
    let good = Signer::rsa(fixture!("rsa_a.private.pem")).token(&claims(&json!({})));
    let forge = |secret: &str| Signer::hmac(secret).token(&claims(&json!({})));
    let rsa = |algorithm| {
        let key = EncodingKey::from_rsa_pem(fixture!("rsa_a.private.pem").as_bytes()).unwrap();
        Signer { algorithm, key }.token(&claims(&json!({})))
    };
    let bad = [
        ("the file", forge(public)),
        ("the file without its last line end", forge(public.trim_end())),
        ("RS512", rsa(Algorithm::RS512)),
        ("PS256", rsa(Algorithm::PS256)),
    ];
    assert_refused(&authenticator, &good, &bad);
}

#[test]
fn a_changed_signature_or_text_is_refused() {
    let good = good();
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = message.split_once('.').unwrap();
    let mut bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
    bytes[7] ^= 1;
    let other = Signer::hmac(SECRET).token(&claims(&json!({"sub": "eve"})));
    let (other_message, other_signature) = other.rsplit_once('.').unwrap();
    let foreign = Signer::hmac(OTHER_SECRET).token(&claims(&json!({})));
    let bad = [
        ("one bit", format!("{message}.{}", encode(&bytes))),
        ("cut short", format!("{message}.{}", encode(&bytes[..31]))),
        ("another token's", format!("{message}.{other_signature}")),
        ("another token's text", format!("{other_message}.{signature}")),
        ("an unknown secret", foreign),
        ("padded", format!("{good}=")),
        ("stray bits at the end", format!("{message}.{}", with_stray_bits(signature))),
        ("four parts", format!("{good}.x")),
        ("two parts", message.to_owned()),
        ("five parts, as if encrypted", format!("{header}.{payload}.a.b.c")),
        ("space before", format!(" {good}")),
        ("line end after", format!("{good}\n")),
        ("empty", String::new()),
        ("only dots", "..".to_owned()),
    ];
    assert_refused(&with_secret(), &good, &bad);
}

/// Another encoding of the same bytes: 32 bytes leave two unused bits in the last character.
fn with_stray_bits(signature: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (last, rest) = signature.as_bytes().split_last().unwrap();
    let value = ALPHABET.iter().position(|character| character == last).unwrap();
    let stray = char::from(ALPHABET[value | 1]);
    format!("{}{stray}", std::str::from_utf8(rest).unwrap())
}

#[test]
fn standard_base64_is_refused() {
    let signer = Signer::hmac(SECRET);
    // A claim whose base64 has both characters in which the two alphabets differ.
    let good = signer.token(&claims(&json!({"note": "???>>>~~~"})));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let standard = message.replace('-', "+").replace('_', "/");
    assert_ne!(standard, message);
    let key = &signer.key;
    let resigned = jsonwebtoken::crypto::sign(standard.as_bytes(), key, signer.algorithm).unwrap();
    let bad = [
        ("with the old signature", format!("{standard}.{signature}")),
        ("signed as it is", format!("{standard}.{resigned}")),
    ];
    assert_refused(&with_secret(), &good, &bad);
}

#[test]
fn a_token_is_not_parsed_beyond_its_limit() {
    use heartline_protocol::limits::TOKEN_BYTES_MAX;
    let padded =
        |bytes: usize| Signer::hmac(SECRET).token(&claims(&json!({"padding": "x".repeat(bytes)})));
    let good = padded(TOKEN_BYTES_MAX / 2);
    let bad = [
        ("a little too long", padded(TOKEN_BYTES_MAX)),
        ("a megabyte", padded(1024 * 1024)),
        ("a megabyte of dots", ".".repeat(1024 * 1024)),
    ];
    assert_refused(&with_secret(), &good, &bad);
    let too_long = AuthError::Invalid("it is too long");
    assert_eq!(with_secret().check(&padded(TOKEN_BYTES_MAX), now()), Err(too_long));
}

#[test]
fn a_header_that_asks_for_more_than_a_signature_is_refused() {
    let header = |members: Value| {
        let token = Signer::hmac(SECRET).token_with_header(&members, &claims(&json!({})));
        (members.to_string(), token)
    };
    let bad = [
        header(json!({"crit": ["exp"]})),
        header(json!({"crit": ["b64"], "b64": false})),
        header(json!({"crit": []})),
        header(json!({"crit": null})),
        header(json!({"zip": "DEF"})),
        header(json!({"enc": "A128GCM"})),
        header(json!({"cty": "JWT"})),
        header(json!({"typ": "refresh"})),
        header(json!({"typ": "rt+jwt"})),
        header(json!({"typ": "logout+jwt"})),
        header(json!({"typ": 1})),
        header(json!({"kid": 1})),
        header(json!({"kid": ["a"]})),
    ];
    let bad = bad.each_ref().map(|(fault, token)| (fault.as_str(), token.clone()));
    assert_refused(&with_secret(), &good(), &bad);
    for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
        let token =
            Signer::hmac(SECRET).token_with_header(&json!({"typ": typ}), &claims(&json!({})));
        assert!(with_secret().check(&token, now()).is_ok(), "{typ}");
    }
}

#[test]
fn times_of_the_wrong_type_are_refused() {
    let faults = [
        json!({"exp": null}),
        json!({"exp": "1700000060"}),
        json!({"exp": 1_700_000_060.5}),
        json!({"exp": 1e30}),
        json!({"exp": -1}),
        json!({"exp": [1_700_000_060]}),
        json!({"exp": true}),
        json!({"exp": 0}),
        json!({"exp": (NOW_SECONDS + 60) * 1000}),
        json!({"exp": u64::MAX}),
        json!({"exp": NOW_SECONDS - 5}),
        json!({"exp": NOW_SECONDS - 30}),
        json!({"exp": NOW_SECONDS - 61}),
        json!({"nbf": NOW_SECONDS + 6}),
        json!({"nbf": "0"}),
        json!({"nbf": -1}),
        json!({"nbf": 1e30}),
        json!({"nbf": u64::MAX}),
    ];
    let mut bad: Vec<_> = faults.iter().map(signed_claims).collect();
    let written = |claims: &str| (claims.to_owned(), Signer::hmac(SECRET).raw(HEADER, claims));
    bad.push(written(r#"{"sub":"ana"}"#));
    bad.push(written(r#"{"sub":"ana","exp":18446744073709551616}"#));
    bad.push(written(r#"{"sub":"ana","exp":1700000060.0}"#));
    bad.push(written(r#"{"sub":"ana","exp":1.70000006e9}"#));
    let bad: Vec<_> = bad.iter().map(|(fault, token)| (fault.as_str(), token.clone())).collect();
    assert_refused(&with_secret(), &good(), &bad);
}

const HEADER: &str = r#"{"alg":"HS256"}"#;

fn signed_claims(members: &Value) -> (String, String) {
    (members.to_string(), Signer::hmac(SECRET).token(&claims(members)))
}

#[test]
fn illegal_ids_are_refused() {
    let faults = [
        json!({"sub": ""}),
        json!({"sub": null}),
        json!({"sub": 7}),
        json!({"sub": ["ana"]}),
        json!({"sub": "a".repeat(129)}),
        json!({"sub": "a".repeat(5000)}),
        json!({"sub": "ana\u{0}"}),
        json!({"sub": "ana*"}),
        json!({"sub": "ana/x"}),
        json!({"sub": "ana\r\nSET x"}),
        json!({"sub": "{ana}"}),
        json!({"sub": "änna"}),
        json!({"device_id": ""}),
        json!({"device_id": 7}),
        json!({"device_id": "a b"}),
        json!({"device_id": "d".repeat(65)}),
        json!({"scope": 7}),
        json!({"scope": {"service": true}}),
        json!({"scope": ["service", 7]}),
    ];
    let mut bad: Vec<_> = faults.iter().map(signed_claims).collect();
    let without_sub = json!({"exp": NOW_SECONDS + 60});
    bad.push(("no sub".to_owned(), Signer::hmac(SECRET).token(&without_sub)));
    let bad: Vec<_> = bad.iter().map(|(fault, token)| (fault.as_str(), token.clone())).collect();
    assert_refused(&with_secret(), &good(), &bad);
}

#[test]
fn a_claim_that_comes_twice_is_refused() {
    let signed = |header: &str, claims: &str| Signer::hmac(SECRET).raw(header, claims);
    let bad = [
        ("sub", signed(HEADER, r#"{"sub":"ana","exp":1700000060,"sub":"eve"}"#)),
        ("the same sub", signed(HEADER, r#"{"sub":"ana","exp":1700000060,"sub":"ana"}"#)),
        ("an escaped name", signed(HEADER, r#"{"sub":"ana","exp":1700000060,"s\u0075b":"eve"}"#)),
        ("exp", signed(HEADER, r#"{"sub":"ana","exp":1700000060,"exp":1800000000}"#)),
        ("scope", signed(HEADER, r#"{"sub":"ana","exp":1700000060,"scope":"","scope":"service"}"#)),
        ("alg", signed(r#"{"alg":"HS256","alg":"HS256"}"#, r#"{"sub":"ana","exp":1700000060}"#)),
    ];
    let good = signed(HEADER, r#"{"sub":"ana","exp":1700000060}"#);
    assert_refused(&with_secret(), &good, &bad);
}

#[test]
fn parts_that_are_not_json_objects_are_refused() {
    let signer = Signer::hmac(SECRET);
    let bytes = |payload: &[u8]| {
        let message = format!("{}.{}", encode(HEADER), encode(payload));
        let key = &signer.key;
        let signature =
            jsonwebtoken::crypto::sign(message.as_bytes(), key, signer.algorithm).unwrap();
        format!("{message}.{signature}")
    };
    let bad = [
        ("an array of claims", bytes(br#"["ana",1700000060,null,null,null,null,null]"#)),
        ("an array as header", signer.raw(r#"["HS256"]"#, r#"{"sub":"ana","exp":1700000060}"#)),
        ("a text", bytes(br#""ana""#)),
        ("nothing", bytes(b"")),
        ("a nested token", bytes(good().as_bytes())),
        ("something after the object", bytes(br#"{"sub":"ana","exp":1700000060}{}"#)),
        ("not UTF-8", bytes(b"{\"sub\":\"ana\",\"exp\":1700000060,\"x\":\"\xff\"}")),
        (
            "very deep",
            bytes(format!(r#"{{"sub":"ana","exp":1700000060,"x":{}"#, "[".repeat(4000)).as_bytes()),
        ),
    ];
    assert_refused(&with_secret(), &bytes(br#"{"sub":"ana","exp":1700000060}"#), &bad);
}
