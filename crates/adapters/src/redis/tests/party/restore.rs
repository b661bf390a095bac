use heartline_party::{SessionRecovery, SessionStore, SessionWatch, Stored};
use redis::cmd;

use super::super::{Engines, patient_client};
use super::{at, heard, store, stored};

#[tokio::test]
async fn a_lock_has_one_owner_who_alone_releases_it() {
    let engines = Engines::start();
    for url in engines.urls() {
        let (one, two) = (store(&url).await, store(&url).await);
        assert!(one.lock("a", "one").await.unwrap());
        assert!(!two.lock("a", "two").await.unwrap());
        assert!(two.lock("b", "two").await.unwrap(), "each session has its own");
        two.unlock("a", "two").await.unwrap();
        assert!(!two.lock("a", "two").await.unwrap());
        one.unlock("a", "one").await.unwrap();
        assert!(two.lock("a", "two").await.unwrap());
        // As if ten seconds had passed.
        let client = patient_client(&url);
        client.query::<u8>(cmd("PEXPIRE").arg("test:party:{a}:lock").arg(0)).await.unwrap();
        assert!(one.lock("a", "one").await.unwrap());
    }
}

#[tokio::test]
async fn every_node_is_asked_and_the_newest_copy_is_kept_whole() {
    let engines = Engines::start();
    for url in engines.urls() {
        let (one, two) = (store(&url).await, store(&url).await);
        let mut notices = [one.notices(), two.notices()];
        one.ask("a").await.unwrap();
        for notices in &mut notices {
            assert_eq!(heard(notices).await, "wanted a");
        }
        assert_eq!(two.offered("a").await.unwrap(), None);
        let mut newer = stored(at(1, 10));
        newer.fields.push(("item:new".to_owned(), vec![0, 255]));
        let mut older = stored(at(1, 9));
        older.fields.push(("item:old".to_owned(), vec![1]));
        let sorted = |copy: Option<Stored>| {
            let mut copy = copy.unwrap();
            copy.fields.sort();
            copy
        };
        one.offer("a", older.clone()).await.unwrap();
        assert_eq!(sorted(two.offered("a").await.unwrap()), sorted(Some(older.clone())));
        two.offer("a", newer.clone()).await.unwrap();
        one.offer("a", older).await.unwrap();
        assert_eq!(sorted(one.offered("a").await.unwrap()), sorted(Some(newer)));
        one.offer("a", stored(at(2, 1))).await.unwrap();
        assert_eq!(one.offered("a").await.unwrap(), Some(stored(at(2, 1))), "and nothing else");
        assert_eq!(one.load("a").await.unwrap(), None, "an offer is not the session");
    }
}
