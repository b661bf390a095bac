use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::*;
use crate::{AuthError, JwksError, JwksSource};

/// A provider whose responses the test controls, and that counts fetches.
#[derive(Debug)]
struct Provider {
    /// The published set; `None` while the provider is down.
    published: Mutex<Option<String>>,
    /// The number of fetches.
    fetches: AtomicUsize,
    /// Each response takes a permit.
    responses: Semaphore,
}

impl Provider {
    fn new(published: Option<String>) -> Arc<Self> {
        Arc::new(Self {
            published: Mutex::new(published),
            fetches: AtomicUsize::new(0),
            responses: Semaphore::new(1000),
        })
    }

    fn publish(&self, published: Option<String>) {
        *self.published.lock().unwrap() = published;
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    /// Holds responses back until [`release`](Self::release).
    fn hold_responses(&self) {
        self.responses.forget_permits(1000);
    }

    fn release(&self) {
        self.responses.add_permits(1000);
    }
}

#[async_trait]
impl JwksSource for Provider {
    async fn fetch(&self) -> Result<String, JwksError> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        self.responses.acquire().await.unwrap().forget();
        let published = self.published.lock().unwrap().clone();
        published.ok_or_else(|| JwksError("the provider is down".into()))
    }
}

fn old_key() -> Signer {
    Signer::ed25519(fixture!("ed25519_a.private.pem"))
}

fn new_key() -> Signer {
    Signer::ed25519(fixture!("ed25519_b.private.pem"))
}

fn old_set() -> String {
    key_set(&[old_key().jwk(&json!({"kid": "old"}))])
}

fn both_sets() -> String {
    key_set(&[old_key().jwk(&json!({"kid": "old"})), new_key().jwk(&json!({"kid": "new"}))])
}

fn old_token() -> String {
    old_key().token_with_header(&json!({"kid": "old"}), &claims(&json!({})))
}

fn new_token() -> String {
    new_key().token_with_header(&json!({"kid": "new"}), &claims(&json!({})))
}

fn token_of_unknown_key(kid: &str) -> String {
    new_key().token_with_header(&json!({"kid": kid}), &claims(&json!({})))
}

fn after(start: Instant, seconds: f64) -> Instant {
    start + Duration::from_secs_f64(seconds)
}

async fn started(provider: &Arc<Provider>) -> Authenticator {
    let source: Arc<dyn JwksSource> = Arc::<Provider>::clone(provider);
    let authenticator = authenticator(Keys::JwksUrl(source));
    authenticator.refresh_keys().await;
    authenticator
}

#[test]
fn two_secrets_and_two_key_files_are_live_at_once() {
    let secrets = vec![Secret::new(SECRET), Secret::new(OTHER_SECRET)];
    let with_secrets = authenticator(Keys::Hmac(secrets));
    for secret in [SECRET, OTHER_SECRET] {
        let token = Signer::hmac(secret).token(&claims(&json!({})));
        assert!(with_secrets.check(&token, now()).is_ok());
    }
    let files =
        [fixture!("rsa_a.public.pem"), fixture!("rsa_b.public.pem"), fixture!("p256_b.public.pem")];
    let with_files = authenticator(Keys::PublicKeys(files.map(pem_file).into()));
    for signer in [
        Signer::rsa(fixture!("rsa_a.private.pem")),
        Signer::rsa(fixture!("rsa_b.private.pem")),
        Signer::p256(fixture!("p256_b.private.pem")),
    ] {
        assert!(with_files.check(&signer.token(&claims(&json!({}))), now()).is_ok());
    }
    let stranger = Signer::p256(fixture!("p256_a.private.pem")).token(&claims(&json!({})));
    assert!(with_files.check(&stranger, now()).is_err());
}

#[test]
fn in_a_key_set_the_kid_selects_the_key_and_no_kid_tries_all() {
    let file = |text| authenticator(Keys::JwksFile { name: "set.json".into(), text });
    let authenticator = file(both_sets());
    assert!(authenticator.check(&old_token(), now()).is_ok());
    assert!(authenticator.check(&new_token(), now()).is_ok());
    let unnamed = new_key().token(&claims(&json!({})));
    assert!(authenticator.check(&unnamed, now()).is_ok());
    for wrong in ["old", "NEW", "", "../new"] {
        let result = authenticator.check(&token_of_unknown_key(wrong), now());
        assert!(matches!(result, Err(AuthError::Invalid(_))), "{wrong}: {result:?}");
    }
}

#[tokio::test]
async fn before_the_first_key_set_nothing_is_decided() {
    let provider = Provider::new(None);
    let authenticator = started(&provider).await;
    assert!(!authenticator.is_ready());
    assert_eq!(authenticator.verify_now(&old_token()), Err(AuthError::NotReady));
    assert_eq!(authenticator.verify(&old_token()).await, Err(AuthError::NotReady));
    let garbage = authenticator.verify("garbage").await;
    assert!(matches!(garbage, Err(AuthError::Invalid(_))));
    assert_eq!(provider.fetches(), 2);

    let waits = authenticator.refresh_interval().unwrap();
    provider.publish(Some(old_set()));
    authenticator.refresh_keys().await;
    assert!(authenticator.is_ready());
    assert!(authenticator.check(&old_token(), now()).is_ok());
    assert!(authenticator.refresh_interval().unwrap() > waits);
}

#[tokio::test]
async fn before_the_first_key_set_a_token_may_ask_every_five_seconds() {
    let provider = Provider::new(None);
    let source: Arc<dyn JwksSource> = Arc::<Provider>::clone(&provider);
    let authenticator = authenticator(Keys::JwksUrl(source));
    let start = Clock::system().now();
    for (seconds, fetches) in [(0.0, 1), (4.9, 1), (5.0, 2), (9.9, 2)] {
        let result = authenticator.verify_at(&old_token(), now(), after(start, seconds)).await;
        assert_eq!(result, Err(AuthError::NotReady));
        assert_eq!(provider.fetches(), fetches, "after {seconds} s");
    }
    provider.publish(Some(old_set()));
    assert!(authenticator.verify_at(&old_token(), now(), after(start, 10.0)).await.is_ok());
}

#[tokio::test]
async fn an_unknown_kid_fetches_the_new_set() {
    let provider = Provider::new(Some(old_set()));
    let authenticator = started(&provider).await;
    provider.publish(Some(both_sets()));
    assert_eq!(authenticator.check(&new_token(), now()), Err(AuthError::UnknownKey));
    let verified = authenticator.verify_at(&new_token(), now(), Clock::system().now()).await;
    assert!(verified.is_ok());
    assert!(authenticator.check(&new_token(), now()).is_ok());
    assert!(authenticator.check(&old_token(), now()).is_ok());
    assert_eq!(provider.fetches(), 2);
}

#[tokio::test]
async fn a_key_that_was_withdrawn_serves_no_more() {
    let provider = Provider::new(Some(both_sets()));
    let authenticator = started(&provider).await;
    assert!(authenticator.check(&new_token(), now()).is_ok());
    provider.publish(Some(old_set()));
    authenticator.refresh_keys().await;
    assert_eq!(authenticator.check(&new_token(), now()), Err(AuthError::UnknownKey));
}

#[tokio::test]
async fn unknown_kids_cause_at_most_one_fetch_in_thirty_seconds() {
    let provider = Provider::new(Some(old_set()));
    let authenticator = started(&provider).await;
    let start = Clock::system().now();
    let unknown = Err(AuthError::Invalid("its kid is in no key set"));
    for (seconds, fetches) in [(0.0, 2), (0.1, 2), (15.0, 2), (29.9, 2), (30.0, 3), (59.9, 3)] {
        for attempt in 0..10 {
            let token = token_of_unknown_key(&format!("{seconds}-{attempt}"));
            let result = authenticator.verify_at(&token, now(), after(start, seconds)).await;
            assert_eq!(result, unknown);
        }
        assert_eq!(provider.fetches(), fetches, "after {seconds} s");
    }
}

#[tokio::test]
async fn tokens_that_are_bad_anyway_cause_no_fetch() {
    let provider = Provider::new(Some(old_set()));
    let authenticator = started(&provider).await;
    let forged = new_key().token_with_header(&json!({"kid": "old"}), &claims(&json!({})));
    let unnamed = new_key().token(&claims(&json!({})));
    let none = format!("{}.{}.", encode(r#"{"alg":"none","kid":"x"}"#), encode("{}"));
    for token in [forged, unnamed, none, "a.b.c".to_owned()] {
        assert!(authenticator.verify(&token).await.is_err());
    }
    assert_eq!(provider.fetches(), 1);
}

#[tokio::test]
async fn an_outage_or_a_bad_set_keeps_the_last_good_one() {
    let provider = Provider::new(Some(old_set()));
    let authenticator = started(&provider).await;
    let unusable = key_set(&[new_key().jwk(&json!({"kid": "new", "use": "enc"}))]);
    let published = [None, Some(String::new()), Some(key_set(&[])), Some(unusable)];
    for (set, fetches) in published.into_iter().zip(2..) {
        provider.publish(set.clone());
        authenticator.refresh_keys().await;
        assert_eq!(provider.fetches(), fetches);
        assert!(authenticator.is_ready());
        assert!(authenticator.check(&old_token(), now()).is_ok(), "{set:?}");
    }
    let refused = authenticator.verify_at(&new_token(), now(), Clock::system().now()).await;
    assert!(matches!(refused, Err(AuthError::Invalid(_))));
}

#[tokio::test]
async fn all_who_wait_share_one_fetch() {
    let provider = Provider::new(Some(old_set()));
    let authenticator = started(&provider).await;
    provider.publish(Some(both_sets()));
    provider.hold_responses();
    let start = Clock::system().now();
    let token = new_token();
    let waiting = join_all((0..50).map(|_| authenticator.verify_at(&token, now(), start)));
    let (results, ()) = tokio::join!(waiting, async { provider.release() });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(provider.fetches(), 2);
}

#[tokio::test]
async fn a_waiter_that_gives_up_does_not_cancel_the_fetch_for_the_others() {
    let provider = Provider::new(Some(old_set()));
    let authenticator = started(&provider).await;
    provider.publish(Some(both_sets()));
    provider.hold_responses();
    let start = Clock::system().now();
    let token = new_token();
    assert!(authenticator.verify_at(&token, now(), start).now_or_never().is_none());
    assert_eq!(provider.fetches(), 2);
    let later = authenticator.verify_at(&token, now(), after(start, 1.0));
    let (result, ()) = tokio::join!(later, async { provider.release() });
    assert!(result.is_ok());
    assert_eq!(provider.fetches(), 2);
}

#[tokio::test]
async fn a_fetch_that_everybody_gave_up_is_replaced_in_the_end() {
    let provider = Provider::new(Some(old_set()));
    let authenticator = started(&provider).await;
    provider.publish(Some(both_sets()));
    provider.hold_responses();
    let start = Clock::system().now();
    let token = new_token();
    assert!(authenticator.verify_at(&token, now(), start).now_or_never().is_none());
    let later = after(start, 30.0);
    assert!(authenticator.verify_at(&token, now(), later).now_or_never().is_none());
    assert_eq!(provider.fetches(), 3);
    provider.release();
    assert!(authenticator.verify_at(&token, now(), later).await.is_ok());
    assert_eq!(provider.fetches(), 3);
}

#[tokio::test]
async fn keys_of_the_configuration_never_need_a_refresh() {
    let authenticator = with_secret();
    assert!(authenticator.is_ready());
    assert_eq!(authenticator.refresh_interval(), None);
    authenticator.refresh_keys().await;
    let valid_for_long = json!({"exp": Clock::system().wall().unix_ms / 1000 + 60});
    let token = Signer::hmac(SECRET).token(&claims(&valid_for_long));
    assert!(authenticator.verify_now(&token).is_ok());
    assert!(authenticator.verify(&token).await.is_ok());
}
