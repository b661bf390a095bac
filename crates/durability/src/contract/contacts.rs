//! The promises of every [`Contacts`](crate::Contacts) and [`Privacy`](crate::Privacy).

use std::slice;

use heartline_protocol::rest::Visibility;
use heartline_protocol::{Timestamp, UserId};

use super::Contract;
use crate::contacts::{CONTACTS_MAX, ContactsFull};
use crate::privacy::{Relation, Sight};

const CHOICES: [Visibility; 3] =
    [Visibility::Everyone, Visibility::ContactsOnly, Visibility::Nobody];

impl Contract<'_> {
    /// Checks contacts, visibility and relations.
    pub async fn prove_contacts(&self) {
        self.a_choice_is_kept_until_the_next().await;
        self.contacts_are_added_and_removed_once().await;
        self.contacts_are_listed_in_the_order_of_their_ids().await;
        self.an_unknown_user_has_no_relations().await;
        self.contacts_are_mutual_or_none().await;
        self.relations_are_returned_one_per_pair_in_order().await;
        self.a_deleted_user_is_no_contact_of_anybody().await;
        self.both_may_put_each_other_at_once().await;
        self.the_number_of_contacts_is_limited().await;
    }

    async fn choose(&self, user_id: &UserId, visibility: Visibility) -> bool {
        self.store.set_visibility(user_id, visibility).await.expect("the store works")
    }

    async fn chosen(&self, user_id: &UserId) -> Option<Visibility> {
        self.store.visibility(user_id).await.expect("the store works")
    }

    async fn try_put(&self, user_id: &UserId, contact_id: &UserId) -> Result<bool, ContactsFull> {
        self.store.put_contact(user_id, contact_id).await.expect("the store works")
    }

    async fn put(&self, user_id: &UserId, contact_id: &UserId) -> bool {
        self.try_put(user_id, contact_id).await.expect("there is room for contacts")
    }

    async fn remove(&self, user_id: &UserId, contact_id: &UserId) -> bool {
        self.store.remove_contact(user_id, contact_id).await.expect("the store works")
    }

    async fn contacts(&self, user_id: &UserId) -> Vec<UserId> {
        let all = self.store.contacts(user_id, None, CONTACTS_MAX + 1).await;
        all.expect("the store works")
    }

    async fn relation(&self, observer_id: &UserId, user_id: &UserId) -> Relation {
        let relations = self.store.relations(vec![sight(observer_id, user_id)]).await;
        let relations = relations.expect("the store works");
        assert_eq!(relations.len(), 1, "one relation per pair");
        relations[0]
    }

    async fn are_contacts(&self, one: &UserId, other: &UserId) -> bool {
        let [there, back] = [self.relation(one, other).await, self.relation(other, one).await];
        assert_eq!(there.are_contacts, back.are_contacts, "it is the same from both sides");
        there.are_contacts
    }

    async fn a_choice_is_kept_until_the_next(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        assert_eq!(self.chosen(&ana).await, None, "nothing was chosen");
        for choice in CHOICES {
            assert!(self.choose(&ana, choice).await, "{choice:?} is a change");
            assert_eq!(self.chosen(&ana).await, Some(choice));
            assert!(!self.choose(&ana, choice).await, "{choice:?} again is none");
            assert_eq!(self.relation(&bo, &ana).await.visibility, Some(choice));
        }
        assert_eq!(self.chosen(&bo).await, None, "others chose nothing");
        let named = self.store.set_display_name(&ana, Some("Ana".to_owned())).await;
        named.expect("the store works");
        let last = CHOICES[CHOICES.len() - 1];
        assert_eq!(self.chosen(&ana).await, Some(last), "a name changes nothing of it");
        assert!(self.choose(&ana, CHOICES[0]).await);
        assert_eq!(self.profile(&ana).await.display_name.as_deref(), Some("Ana"));
    }

    async fn contacts_are_added_and_removed_once(&self) {
        let (ana, bo) = (self.user("ana"), self.user("bo"));
        assert!(!self.remove(&ana, &bo).await, "nobody was there");
        assert!(self.put(&ana, &bo).await);
        assert!(!self.put(&ana, &bo).await, "a second time is no change");
        assert_eq!(self.contacts(&ana).await, slice::from_ref(&bo));
        assert_eq!(self.contacts(&bo).await, [], "the other one has put nobody");
        assert!(!self.remove(&bo, &ana).await, "only the own contacts can be taken away");
        assert!(self.remove(&ana, &bo).await);
        assert!(!self.remove(&ana, &bo).await, "a second time is no change");
        assert_eq!(self.contacts(&ana).await, []);
        assert!(self.put(&ana, &bo).await, "and it can be put again");
    }

    async fn contacts_are_listed_in_the_order_of_their_ids(&self) {
        let ana = self.user("ana");
        // In the order of a dictionary these would be sorted differently.
        let names = ["b", "B", "a", "Z", "_", "|", "0", "a.b", "a@b", "+1"];
        let mut expected: Vec<_> = names.into_iter().map(|name| self.user(name)).collect();
        for contact_id in &expected {
            assert!(self.put(&ana, contact_id).await);
        }
        expected.sort_unstable();
        assert_eq!(self.contacts(&ana).await, expected);

        let page = async |after: Option<&UserId>, limit| {
            let page = self.store.contacts(&ana, after, limit).await.expect("the store works");
            assert!(page.len() <= limit);
            page
        };
        let mut listed: Vec<UserId> = Vec::new();
        loop {
            let next = page(listed.last(), 3).await;
            if next.is_empty() {
                break;
            }
            listed.extend(next);
        }
        assert_eq!(listed, expected, "each once");
        assert!(self.remove(&ana, &expected[4]).await);
        let rest = page(Some(&expected[4]), 100).await;
        assert_eq!(rest, expected[5..], "a page may begin after one who is gone");
    }

    async fn an_unknown_user_has_no_relations(&self) {
        let [ana, nobody, other] = ["ana", "nobody", "other"].map(|name| self.user(name));
        assert!(self.choose(&ana, Visibility::Nobody).await);
        for _ in 0..2 {
            assert_eq!(self.relation(&ana, &nobody).await, Relation::default());
            assert_eq!(self.relation(&nobody, &other).await, Relation::default());
            let seen = self.relation(&nobody, &ana).await;
            assert_eq!(seen.visibility, Some(Visibility::Nobody), "whoever looks");
            assert!(!seen.are_contacts);
            assert_eq!(self.chosen(&nobody).await, None, "and asking creates nothing");
            assert_eq!(self.contacts(&nobody).await, []);
            assert_eq!(self.profile(&nobody).await.last_seen, None);
        }
        assert_eq!(self.store.relations(Vec::new()).await.expect("the store works"), []);
        assert!(self.put(&ana, &nobody).await, "one who never came may be put");
        assert_eq!(self.relation(&ana, &nobody).await, Relation::default());
    }

    async fn contacts_are_mutual_or_none(&self) {
        let [ana, bo, cy] = ["ana", "bo", "cy"].map(|name| self.user(name));
        assert!(self.put(&ana, &bo).await);
        assert!(!self.are_contacts(&ana, &bo).await, "one of them is not both");
        assert!(self.put(&bo, &ana).await);
        assert!(self.are_contacts(&ana, &bo).await);
        assert!(self.put(&cy, &ana).await && self.put(&cy, &bo).await);
        assert!(!self.are_contacts(&ana, &cy).await && !self.are_contacts(&bo, &cy).await);
        for (one, other) in [(&ana, &bo), (&bo, &ana)] {
            assert!(self.remove(one, other).await);
            assert!(!self.are_contacts(&ana, &bo).await, "either may end it");
            assert!(self.put(one, other).await);
            assert!(self.are_contacts(&ana, &bo).await);
        }
    }

    async fn relations_are_returned_one_per_pair_in_order(&self) {
        let [ana, bo, cy, nobody] = ["ana", "bo", "cy", "nobody"].map(|name| self.user(name));
        assert!(self.put(&ana, &bo).await && self.put(&bo, &ana).await);
        assert!(self.choose(&bo, Visibility::ContactsOnly).await);
        assert!(self.choose(&cy, Visibility::Everyone).await);
        let last_seen = Some(Timestamp { unix_ms: 1_700_000_000_123 });
        let seen = last_seen.map(|at| (cy.clone(), at)).into_iter().collect();
        self.store.record_last_seen(seen).await.expect("the store works");

        let of_bo = |are_contacts| Relation {
            visibility: Some(Visibility::ContactsOnly),
            are_contacts,
            last_seen: None,
        };
        let of_cy =
            Relation { visibility: Some(Visibility::Everyone), are_contacts: false, last_seen };
        let of_ana = Relation { are_contacts: true, ..Relation::default() };
        let table = [
            (sight(&ana, &bo), of_bo(true)),
            (sight(&cy, &bo), of_bo(false)),
            (sight(&ana, &cy), of_cy),
            (sight(&bo, &ana), of_ana),
            (sight(&ana, &nobody), Relation::default()),
            (sight(&nobody, &bo), of_bo(false)),
            (sight(&ana, &bo), of_bo(true)),
            (sight(&cy, &cy), of_cy),
        ];
        let (sights, expected): (Vec<_>, Vec<_>) = table.into_iter().unzip();
        let relations = self.store.relations(sights.clone()).await.expect("the store works");
        assert_eq!(relations, expected);

        let many = sights.iter().cycle().take(10_000).cloned().collect();
        let relations = self.store.relations(many).await.expect("the store works");
        assert_eq!(relations.len(), 10_000);
        for (index, relation) in relations.iter().enumerate() {
            assert_eq!(*relation, expected[index % expected.len()], "number {index}");
        }
    }

    async fn a_deleted_user_is_no_contact_of_anybody(&self) {
        let [ana, bo, cy] = ["ana", "bo", "cy"].map(|name| self.user(name));
        for (one, other) in [(&ana, &bo), (&bo, &ana), (&cy, &ana), (&bo, &cy), (&cy, &bo)] {
            assert!(self.put(one, other).await);
        }
        assert!(self.choose(&ana, Visibility::Everyone).await);
        let seen = vec![(ana.clone(), Timestamp { unix_ms: 1000 })];
        self.store.record_last_seen(seen).await.expect("the store works");

        let edited = self.store.delete_user(&ana).await.expect("the store works");
        assert_eq!(edited, [], "a person without chats can go too");
        assert_eq!(self.chosen(&ana).await, None);
        assert_eq!(self.contacts(&ana).await, []);
        assert_eq!(self.contacts(&bo).await, slice::from_ref(&cy), "others stay");
        assert_eq!(self.contacts(&cy).await, slice::from_ref(&bo));
        assert!(self.are_contacts(&bo, &cy).await);
        assert_eq!(self.relation(&bo, &ana).await, Relation::default());
        assert!(self.put(&ana, &bo).await, "who comes back begins anew");
        assert!(!self.are_contacts(&ana, &bo).await);
        assert!(self.put(&bo, &ana).await);
        assert!(self.are_contacts(&ana, &bo).await);
    }

    async fn both_may_put_each_other_at_once(&self) {
        for _ in 0..10 {
            let (ana, bo) = (self.user("ana"), self.user("bo"));
            let (a, b, c, d) = tokio::join!(
                self.put(&ana, &bo),
                self.put(&bo, &ana),
                self.put(&ana, &bo),
                self.put(&bo, &ana)
            );
            assert_eq!((a != c, b != d), (true, true), "each is a change once");
            assert!(self.are_contacts(&ana, &bo).await);
        }
    }

    async fn the_number_of_contacts_is_limited(&self) {
        let ana = self.user("ana");
        let others: Vec<_> = (0..CONTACTS_MAX + 8).map(|_| self.user("other")).collect();
        let (others, late) = others.split_at(CONTACTS_MAX - 2);
        let lane = async |lane: usize| {
            for other in others.iter().skip(lane).step_by(8) {
                assert!(self.put(&ana, other).await);
            }
        };
        tokio::join!(lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7));
        let late_put = |index: usize| self.try_put(&ana, &late[index]);
        let (a, b, c, d) = tokio::join!(late_put(0), late_put(1), late_put(2), late_put(3));
        let answers = [a, b, c, d];
        let taken = answers.iter().filter(|answer| **answer == Ok(true)).count();
        let refused = answers.iter().filter(|answer| **answer == Err(ContactsFull)).count();
        assert_eq!((taken, refused), (2, 2), "never more, also of those that come at once");
        assert_eq!(self.contacts(&ana).await.len(), CONTACTS_MAX);

        assert_eq!(self.try_put(&ana, &late[4]).await, Err(ContactsFull));
        assert_eq!(self.try_put(&ana, &others[0]).await, Ok(false), "who is there is there");
        assert_eq!(self.try_put(&late[4], &ana).await, Ok(true), "it is the own number alone");
        assert!(self.remove(&ana, &others[0]).await);
        assert_eq!(self.try_put(&ana, &late[4]).await, Ok(true), "there is room again");
        assert!(self.are_contacts(&ana, &late[4]).await);
        assert_eq!(self.try_put(&ana, &others[0]).await, Err(ContactsFull));
    }
}

fn sight(observer_id: &UserId, user_id: &UserId) -> Sight {
    Sight { observer_id: observer_id.clone(), user_id: user_id.clone() }
}
