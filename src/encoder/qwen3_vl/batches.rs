//! F2: sequences into batches, and what they begin with alike.
//!
//! Knows nothing of text and pictures. Batches run one after the other, each on all threads: the weights of a large model are read
//! once a batch, and two at a time would only take them from each other's caches.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of a batch. Products of so many rows are as quick a row as larger ones, and their intermediate values small beside the weights.
pub(super) const BATCH_ROWS: usize = 1024;

/// Longer beginnings are not kept: they are no template's.
const MOST_SHARED: usize = 512;
/// Beginnings that are kept, one for each instruction in use.
const MOST_KEPT: usize = 4;
/// Beginnings whose first use is remembered.
const MOST_SEEN: usize = 64;

/// A sequence as far as batches are concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load<'a> {
    /// What it begins with that others begin with too; may be empty.
    pub shared: &'a [u32],
    /// Tokens behind that.
    pub rows: usize,
}

/// Batches of indices: sequences of one beginning, at most [`BATCH_ROWS`] rows of them unless one alone has more; the longest first, so
/// that a message of progress early on says more.
pub(super) fn batches(loads: &[Load]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by_key(|&at| (loads[at].shared, Reverse(loads[at].rows)));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut room = 0;
    for at in order {
        let Load { shared, rows } = loads[at];
        match batches.last_mut().filter(|batch| loads[batch[0]].shared == shared && rows <= room) {
            Some(batch) => batch.push(at),
            None => {
                batches.push(vec![at]);
                room = BATCH_ROWS.max(rows);
            }
        }
        room -= rows;
    }
    batches
}

/// The beginnings that were computed, the latest used last.
pub(super) struct Beginnings<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    kept: VecDeque<(Vec<u32>, Arc<T>)>,
    seen: VecDeque<Vec<u32>>,
}

impl<T> Default for Beginnings<T> {
    fn default() -> Self {
        Beginnings { state: Mutex::new(State { kept: VecDeque::new(), seen: VecDeque::new() }) }
    }
}

impl<T> Beginnings<T> {
    /// The computed form of `ids` for `sequences` that begin with it; none if they are better computed whole: computing a beginning
    /// apart reads all weights once more, which pays from the second sequence on.
    pub(super) fn get<E>(
        &self,
        ids: &[u32],
        sequences: usize,
        compute: impl FnOnce(&[u32]) -> Result<T, E>,
    ) -> Result<Option<Arc<T>>, E> {
        if ids.is_empty() || ids.len() > MOST_SHARED {
            return Ok(None);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = state.kept.iter().position(|it| it.0 == ids) {
            let found = state.kept.remove(at);
            let value = found.as_ref().map(|it| Arc::clone(&it.1));
            state.kept.extend(found);
            return Ok(value);
        }
        if sequences < 2 && !state.seen.iter().any(|it| it == ids) {
            push_within(&mut state.seen, ids.to_vec(), MOST_SEEN);
            return Ok(None);
        }
        drop(state);
        let value = Arc::new(compute(ids)?);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        push_within(&mut state.kept, (ids.to_vec(), Arc::clone(&value)), MOST_KEPT);
        Ok(Some(value))
    }
}

fn push_within<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    while queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const A: &[u32] = &[1, 2];
    const B: &[u32] = &[3];

    #[track_caller]
    fn check(loads: &[(&[u32], usize)], expected: &[&[usize]]) {
        let loads: Vec<Load> = loads.iter().map(|&(shared, rows)| Load { shared, rows }).collect();
        assert_eq!(batches(&loads), expected);
    }

    #[test]
    fn batches_fill_up_with_sequences_of_one_beginning() {
        check(&[], &[]);
        check(&[(A, 500), (A, 600), (A, 400)], &[&[1, 2], &[0]]);
        check(&[(A, 10), (B, 10), (A, 20)], &[&[2, 0], &[1]]);
        check(&[(A, 5000), (A, 1)], &[&[0], &[1]]);
        check(&[(A, 1024), (A, 0)], &[&[0, 1]]);
    }

    #[test]
    fn a_beginning_is_computed_when_it_comes_again() {
        let beginnings = Beginnings::<u32>::default();
        let get = |ids: &[u32], sequences| {
            beginnings.get(ids, sequences, |_| Ok::<_, Infallible>(7)).expect("infallible").map(|it| *it)
        };
        assert_eq!(get(A, 1), None);
        assert_eq!(get(A, 1), Some(7));
        assert_eq!(get(B, 2), Some(7));
        assert_eq!(get(&[], 9), None);
        assert_eq!(get(&[0; 513], 9), None);
    }

    #[test]
    fn few_beginnings_are_kept() {
        let beginnings = Beginnings::<u32>::default();
        let computed = std::cell::Cell::new(0);
        let get = |id: u32| {
            let compute = |_: &[u32]| {
                computed.set(computed.get() + 1);
                Ok::<_, Infallible>(id)
            };
            assert_eq!(beginnings.get(&[id], 2, compute).expect("infallible").map(|it| *it), Some(id));
        };
        // The first stays because it is used, and the second goes.
        for id in [0, 1, 2, 3, 0, 4, 0] {
            get(id);
        }
        assert_eq!(computed.get(), 5);
        get(1);
        assert_eq!(computed.get(), 6);
    }
}
