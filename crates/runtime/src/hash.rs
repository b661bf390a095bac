//! Hash maps whose order follows from the seed.
//!
//! The planes use [`Map`] and [`Set`] instead of the standard library's, whose order differs in
//! every run. In production the keys of the hash come from the operating system, so that nobody can
//! choose colliding keys. A simulation calls [`seed_thread`] first; its runtime has one thread, and
//! every map that is created there afterwards has an order that follows from the seed.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::OnceLock;

use siphasher::sip::SipHasher13;

use crate::random::Random;

/// A hash map for planes. Create one with `Map::default()`.
pub type Map<K, V> = HashMap<K, V, SeededState>;

/// A hash set for planes. Create one with `Set::default()`.
pub type Set<T> = HashSet<T, SeededState>;

/// Builds the hashers of a [`Map`] or [`Set`]: SipHash-1-3, as in the standard library, with keys
/// of the process or of a simulation.
#[derive(Debug, Clone, Copy)]
pub struct SeededState {
    keys: (u64, u64),
}

thread_local! {
    static SIMULATED_KEYS: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// Draws the keys of every map that this thread creates from now on. For simulations.
pub fn seed_thread(random: Random) {
    SIMULATED_KEYS.set(Some((random.draw(), random.draw())));
}

impl Default for SeededState {
    fn default() -> Self {
        static PROCESS_KEYS: OnceLock<(u64, u64)> = OnceLock::new();
        let of_process = || {
            let random = Random::system();
            *PROCESS_KEYS.get_or_init(|| (random.draw(), random.draw()))
        };
        Self { keys: SIMULATED_KEYS.get().unwrap_or_else(of_process) }
    }
}

impl BuildHasher for SeededState {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.keys.0, self.keys.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: Option<u64>) -> Vec<u32> {
        let drawn = move || {
            if let Some(seed) = seed {
                seed_thread(Random::seeded(seed));
            }
            (0..100).collect::<Set<u32>>().into_iter().collect()
        };
        std::thread::spawn(drawn).join().unwrap()
    }

    #[test]
    fn the_order_of_a_map_follows_from_the_seed() {
        assert_eq!(order(Some(1)), order(Some(1)));
        assert_ne!(order(Some(1)), order(Some(2)));
        assert_eq!(order(None), order(None), "without a simulation a process has one order");
        assert_ne!(order(None), order(Some(1)));
    }
}
