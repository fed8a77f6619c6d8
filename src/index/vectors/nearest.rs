//! F1: the best of the candidates that are offered. Knows nothing of vectors.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

/// A score with a total order, so that no value, not even one that is no number, upsets a sorted set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Score(pub f32);

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

/// The `wanted` best candidates, each by its best row.
pub(super) struct Nearest {
    wanted: usize,
    /// A row's score of less than this changes nothing.
    bound: f32,
    scores: HashMap<u32, Score>,
    /// Worst first; of equal ones the largest number.
    order: BTreeSet<(Score, std::cmp::Reverse<u32>)>,
}

impl Nearest {
    pub fn new(wanted: usize) -> Self {
        let bound = if wanted == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
        Nearest { wanted, bound, scores: HashMap::new(), order: BTreeSet::new() }
    }

    /// A row's score of less than this changes nothing.
    pub fn bound(&self) -> f32 {
        self.bound
    }

    /// The best score of a candidate that is among the best.
    pub fn score(&self, candidate: u32) -> Option<f32> {
        self.scores.get(&candidate).map(|it| it.0)
    }

    #[inline]
    pub fn offer(&mut self, candidate: u32, score: f32) {
        // Nearly all rows end here, and what is no number does.
        if score >= self.bound {
            self.take(candidate, Score(score));
        }
    }

    fn take(&mut self, candidate: u32, score: Score) {
        if self.wanted == 0 {
            return;
        }
        if let Some(old) = self.scores.get(&candidate).copied() {
            if old >= score {
                return;
            }
            self.order.remove(&(old, std::cmp::Reverse(candidate)));
        }
        self.scores.insert(candidate, score);
        self.order.insert((score, std::cmp::Reverse(candidate)));
        if self.order.len() > self.wanted
            && let Some((_, dropped)) = self.order.pop_first()
        {
            self.scores.remove(&dropped.0);
        }
        if let Some((worst, _)) = self.order.first().filter(|_| self.order.len() == self.wanted) {
            self.bound = worst.0;
        }
    }

    /// Best first; of equal ones the smallest number.
    pub fn into_sorted(self) -> Vec<(u32, f32)> {
        self.order.into_iter().rev().map(|(score, candidate)| (candidate.0, score.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wanted: usize, offers: &[(u32, f32)], expected: &[(u32, f32)]) {
        let mut nearest = Nearest::new(wanted);
        offers.iter().for_each(|&(candidate, score)| nearest.offer(candidate, score));
        assert_eq!(nearest.into_sorted(), expected);
    }

    #[test]
    fn a_candidate_counts_once_with_its_best_row() {
        check(2, &[(1, 0.5), (1, 0.9), (2, 0.1), (1, 0.7)], &[(1, 0.9), (2, 0.1)]);
        check(2, &[(1, 0.5), (2, 0.6), (3, 0.7), (1, 0.9)], &[(1, 0.9), (3, 0.7)]);
    }

    #[test]
    fn of_equal_candidates_the_smallest_numbers_are_kept_first() {
        check(2, &[(9, 0.5), (3, 0.5), (7, 0.5), (5, 0.5)], &[(3, 0.5), (5, 0.5)]);
    }

    #[test]
    fn fewer_than_wanted_and_none() {
        check(3, &[(1, -0.5)], &[(1, -0.5)]);
        check(3, &[], &[]);
        check(0, &[(1, 0.5)], &[]);
    }

    #[test]
    fn what_is_no_number_is_not_found() {
        check(1, &[(1, f32::NAN), (2, 0.5), (1, 0.2), (3, -f32::NAN)], &[(2, 0.5)]);
        check(0, &[(1, f32::INFINITY)], &[]);
    }
}
