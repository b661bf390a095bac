//! A member that edits at random, loses its connection and reconnects to any usable node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use heartline_testing::party::{Join, Outcome, PartyClient};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::time::sleep;

use crate::nodes::now;
use crate::party_edits::{Edit, Edited};
use crate::party_replica::{Hashes, Replica};
use crate::party_session::Member;

/// How long a client waits for an answer before it takes its connection for lost.
const GIVE_UP: Duration = Duration::from_secs(7);

/// Numbers of items that one player has.
const NUMBERS: usize = 100_000;

/// The state that all players share.
#[derive(Default)]
pub(crate) struct Game {
    pub(crate) session: String,
    /// Where nodes are that can be used.
    pub(crate) addresses: Mutex<Vec<SocketAddr>>,
    pub(crate) is_over: AtomicBool,
    pub(crate) edits: Mutex<Vec<Edited>>,
    /// The hashes that screens showed, by place.
    pub(crate) seen: Mutex<BTreeMap<(u64, u64), Hashes>>,
    /// Items that were acknowledged and not removed since.
    pub(crate) known: Mutex<Vec<usize>>,
    /// The number of reconnections as the same member, and as a new one.
    pub(crate) resumed: AtomicUsize,
    pub(crate) renewed: AtomicUsize,
    /// How often something was asked for again.
    pub(crate) again: AtomicUsize,
}

pub(crate) struct Player<'a> {
    game: &'a Game,
    number: usize,
    random: StdRng,
    member: Option<Member>,
    /// The last client id, and the token to resume it.
    last: Option<(String, Option<String>)>,
    next: usize,
    /// The last edit whose outcome is unknown, and the client id that sent it.
    open: Option<(String, Edited)>,
}

impl<'a> Player<'a> {
    pub(crate) fn new(game: &'a Game, seed: u64, number: usize) -> Self {
        let random = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
        let next = (number + 1) * NUMBERS;
        Self { game, number, random, member: None, last: None, next, open: None }
    }

    /// Edits until the game is over; returns the member at the end.
    pub(crate) async fn play(mut self) -> Member {
        while !self.game.is_over.load(Ordering::Relaxed) {
            let pause = self.random.random_range(150..450);
            sleep(Duration::from_millis(pause)).await;
            self.step().await;
        }
        loop {
            self.come().await;
            match self.member.take() {
                Some(member) if member.party_client.is_open() => return member,
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn step(&mut self) {
        self.come().await;
        let Some(member) = &mut self.member else { return };
        match self.random.random_range(0..100) {
            0..3 => self.drop_connection(),
            3 => {
                let left = "mutation { leaveSession }";
                let _ = member.party_client.attempt(left, serde_json::json!({}), GIVE_UP).await;
                self.drop_connection();
                self.last = None;
            }
            _ => self.edit().await,
        }
    }

    /// Takes its connection for lost.
    fn drop_connection(&mut self) {
        if let Some(member) = self.member.take() {
            self.look(&member);
        }
    }

    /// Notes what the screen showed.
    fn look(&self, member: &Member) {
        let mut replica = Replica::default();
        let mut seen = self.game.seen.lock().unwrap();
        for received in member.party_client.events(&member.queue) {
            replica.apply(&received.message).unwrap();
            let hashes = replica.hashes();
            let before = seen.insert(replica.at, hashes.clone());
            let is_same = before.is_none_or(|before| before == hashes);
            assert!(is_same, "screens differ at {:?}", replica.at);
        }
    }

    /// Is a member, if it finds a node that lets it in.
    async fn come(&mut self) {
        if self.member.as_ref().is_some_and(|member| member.party_client.is_open()) {
            return;
        }
        self.drop_connection();
        let address = self.game.addresses.lock().unwrap().choose(&mut self.random).copied();
        let Some(address) = address else { return };
        let Some(mut party_client) = PartyClient::try_connect(address, None, GIVE_UP).await else {
            return;
        };
        let token = self.last.as_ref().and_then(|(_, token)| token.clone());
        let join = Join { is_resumable: !self.number.is_multiple_of(4), token, ..Join::default() };
        let Outcome::Done(joined) = party_client.try_join(&self.game.session, join, GIVE_UP).await
        else {
            return;
        };
        let member = Member::joined(party_client, &self.game.session, &joined).await;
        if let Some((last, _)) = &self.last {
            let is_same = *last == member.id;
            let count = if is_same { &self.game.resumed } else { &self.game.renewed };
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.last = Some((member.id.clone(), member.token.clone()));
        self.member = Some(member);
    }

    async fn edit(&mut self) {
        let Some(member) = &mut self.member else { return };
        let open = self.open.take().filter(|(id, _)| *id == member.id);
        let mut edited = match open {
            // The retry has the same correlation id, so the edit must not be applied twice.
            Some((_, edited)) => {
                self.game.again.fetch_add(1, Ordering::Relaxed);
                edited
            }
            None => {
                let known = self.game.known.lock().unwrap().clone();
                let edit = Edit::any(&mut self.random, self.next, &known);
                let name = format!("edit-{}-{}", self.number, self.next);
                self.next += 10;
                let (at, outcome) = (now(), Outcome::Unknown);
                Edited { name, edit, asked_at: at, answered_at: at, outcome }
            }
        };
        let (query, variables) = edited.edit.request(&edited.name);
        // Sometimes the connection goes before the answer comes.
        let is_cut = self.random.random_bool(0.05);
        let patience =
            if is_cut { Duration::from_millis(self.random.random_range(0..8)) } else { GIVE_UP };
        edited.outcome = member.party_client.attempt(query, variables, patience).await;
        edited.answered_at = now();
        let is_addition = matches!(edited.edit, Edit::Add { .. });
        match &edited.outcome {
            Outcome::Done(_) => {
                let mut known = self.game.known.lock().unwrap();
                known.retain(|number| Some(*number) != edited.edit.removes());
                known.extend(edited.edit.adds());
            }
            Outcome::Unknown if is_addition => {
                self.open = Some((member.id.clone(), edited.clone()));
                self.drop_connection();
            }
            Outcome::Unknown => self.drop_connection(),
            Outcome::Refused(..) => {}
        }
        let mut edits = self.game.edits.lock().unwrap();
        edits.retain(|it| it.name != edited.name);
        edits.push(edited);
    }
}
