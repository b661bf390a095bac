//! Ranges of published sequences, added in any order.

/// Ranges that are kept, at most. Beyond, the highest are dropped, and the relay publishes them
/// again.
const RANGES_MAX: usize = 256;

/// Ranges, each with its first and last sequence, ascending and not adjacent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds a range, merged with those that it touches.
    pub fn insert(&mut self, mut first: u64, mut last: u64) {
        self.0.retain(|&(held_first, held_last)| {
            let touches = first <= held_last + 1 && held_first <= last + 1;
            if touches {
                (first, last) = (first.min(held_first), last.max(held_last));
            }
            !touches
        });
        let place = self.0.partition_point(|held| held.0 < first);
        self.0.insert(place, (first, last));
        self.0.truncate(RANGES_MAX);
    }

    /// The highest sequence that is reached from `from` without a gap. Ranges up to it are removed.
    pub fn advance(&mut self, from: u64) -> u64 {
        let mut reached = from;
        self.0.retain(|&(first, last)| {
            let follows = first <= reached + 1;
            if follows {
                reached = reached.max(last);
            }
            !follows
        });
        reached
    }

    /// Whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, each with its first and last sequence, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_holes_are_kept() {
        let mut ranges = Ranges::default();
        for sequence in [3, 4, 5, 4, 2, 9, 8, 20] {
            ranges.insert(sequence, sequence);
        }
        assert_eq!(ranges, Ranges(vec![(2, 5), (8, 9), (20, 20)]));
        ranges.insert(6, 7);
        assert_eq!(ranges, Ranges(vec![(2, 9), (20, 20)]));
        ranges.insert(1, 30);
        assert_eq!(ranges, Ranges(vec![(1, 30)]));
    }

    #[test]
    fn one_advances_up_to_the_next_hole() {
        let mut ranges = Ranges(vec![(3, 5), (8, 9)]);
        assert_eq!(ranges.advance(1), 1);
        assert_eq!(ranges.advance(2), 5);
        assert_eq!(ranges, Ranges(vec![(8, 9)]));
        assert_eq!(ranges.advance(12), 12, "what is known already is taken out");
        assert!(ranges.is_empty());
    }

    #[test]
    fn only_so_many_are_kept() {
        let mut ranges = Ranges::default();
        for number in 0..1000 {
            ranges.insert(number * 2, number * 2);
        }
        assert_eq!(ranges.iter().count(), RANGES_MAX);
        assert_eq!(ranges.iter().next(), Some((0, 0)));
    }
}
