//! The random source of a node.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use rand::distr::uniform::{SampleRange, SampleUniform};
use rand::distr::{Distribution, StandardUniform};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

/// The source of the bytes of a [`Random`].
pub trait RandomSource: Send + Sync + fmt::Debug {
    /// Fills the buffer with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// A handle to the random source of a node: a generator for the traits of `rand`. Copies share the
/// source.
#[derive(Debug, Clone, Copy)]
pub struct Random(&'static dyn RandomSource);

impl Random {
    /// The process' own generator, seeded by the operating system. Suitable for secrets.
    pub const fn system() -> Self {
        Self(&SystemRandomSource)
    }

    /// A generator that draws from this source.
    pub const fn from_source(source: &'static dyn RandomSource) -> Self {
        Self(source)
    }

    /// A generator that draws the same numbers for the same seed, for tests and simulation. The
    /// source lives as long as the process.
    pub fn seeded(seed: u64) -> Self {
        let generator = Mutex::new(StdRng::seed_from_u64(seed));
        Self(Box::leak(Box::new(SeededRandomSource(generator))))
    }

    /// A random value of any type that `rand` can generate.
    pub fn draw<T>(mut self) -> T
    where
        StandardUniform: Distribution<T>,
    {
        self.random()
    }

    /// A random value within the range.
    pub fn draw_within<T: SampleUniform>(mut self, range: impl SampleRange<T>) -> T {
        self.random_range(range)
    }
}

impl RngCore for Random {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }
}

#[derive(Debug)]
struct SystemRandomSource;

impl RandomSource for SystemRandomSource {
    #[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

#[derive(Debug)]
struct SeededRandomSource(Mutex<StdRng>);

impl RandomSource for SeededRandomSource {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_draws_the_same_numbers_again() {
        let draw = |random: Random| [(); 8].map(|()| random.draw::<u64>());
        assert_eq!(draw(Random::seeded(7)), draw(Random::seeded(7)));
        assert_ne!(draw(Random::seeded(7)), draw(Random::seeded(8)));
        assert_ne!(draw(Random::system()), draw(Random::system()));
    }
}
