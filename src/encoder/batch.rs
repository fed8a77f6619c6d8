//! F2: many sequences into few batches, run on all cores, results in the order of the input.
//!
//! Knows nothing of networks: what a batch is turned into is the caller's function.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{EncoderError, Progress};

/// Tokens in a batch. 512 and 1,024 measured alike, 256 a tenth slower (the cost of reading the weights is spread thinner); a smaller batch
/// keeps a layer's activations in the cache and the threads busy to the end.
const BATCH_TOKENS: usize = 512;

type Vectors = Vec<Vec<f32>>;

/// Vectors with the index of the distinct sequence that each is of.
type Indexed = Vec<(usize, Vec<f32>)>;

/// Applies `embed` to all sequences: equal ones once, batches in parallel.
///
/// One batch a thread beats one batch on all threads by half: matrix products this small don't split well, and the steps between
/// them don't split at all.
pub(super) fn run<F>(sequences: &[&[u32]], progress: &Progress, embed: F) -> Result<Vectors, EncoderError>
where
    F: Fn(&[&[u32]]) -> Result<Vectors, EncoderError> + Sync,
{
    let distinct = Distinct::of(sequences);
    let threads = rayon::current_num_threads().max(1);
    let batches = distinct.batches(threads);
    let queue = Queue {
        batches: &batches,
        distinct: &distinct,
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        progress,
    };
    let results = if batches.len() < 2 {
        vec![queue.work(&embed)?]
    } else {
        queue.work_on(threads.min(batches.len()), &embed)?
    };
    let mut vectors = vec![Vec::new(); distinct.sequences.len()];
    for (index, vector) in results.into_iter().flatten() {
        vectors[index] = vector;
    }
    Ok(distinct.of_input.iter().map(|&index| vectors[index].clone()).collect())
}

/// The different sequences of an input.
struct Distinct<'a> {
    sequences: Vec<&'a [u32]>,
    /// How often each occurs.
    counts: Vec<usize>,
    /// Which of them each sequence of the input is.
    of_input: Vec<usize>,
}

impl<'a> Distinct<'a> {
    fn of(input: &[&'a [u32]]) -> Self {
        let mut seen = HashMap::new();
        let mut distinct = Distinct { sequences: Vec::new(), counts: Vec::new(), of_input: Vec::new() };
        for &sequence in input {
            let index = *seen.entry(sequence).or_insert(distinct.sequences.len());
            if index == distinct.sequences.len() {
                distinct.sequences.push(sequence);
                distinct.counts.push(0);
            }
            distinct.counts[index] += 1;
            distinct.of_input.push(index);
        }
        distinct
    }

    /// Batches of indices, the longest sequences first, so that the threads end close together; small enough to busy every thread.
    fn batches(&self, threads: usize) -> Vec<Vec<usize>> {
        let total: usize = self.sequences.iter().map(|sequence| sequence.len()).sum();
        let budget = BATCH_TOKENS.min(total.div_ceil(threads));
        let mut order: Vec<usize> = (0..self.sequences.len()).collect();
        order.sort_by_key(|&index| Reverse(self.sequences[index].len()));
        let mut batches: Vec<Vec<usize>> = Vec::new();
        let mut room = 0;
        for index in order {
            let length = self.sequences[index].len();
            match batches.last_mut() {
                Some(batch) if length <= room => batch.push(index),
                _ => {
                    batches.push(vec![index]);
                    room = budget.max(length);
                }
            }
            room -= length;
        }
        batches
    }
}

/// Batches that threads take one after the other.
struct Queue<'a> {
    batches: &'a [Vec<usize>],
    distinct: &'a Distinct<'a>,
    next: AtomicUsize,
    /// Sequences of the input that are embedded.
    done: AtomicUsize,
    progress: &'a Progress<'a>,
}

impl Queue<'_> {
    /// Takes batches until none is left.
    fn work<F>(&self, embed: &F) -> Result<Indexed, EncoderError>
    where
        F: Fn(&[&[u32]]) -> Result<Vectors, EncoderError>,
    {
        let mut results = Vec::new();
        while let Some(batch) = self.batches.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let sequences: Vec<&[u32]> = batch.iter().map(|&index| self.distinct.sequences[index]).collect();
            // The other threads find the queue empty then.
            let vectors = embed(&sequences).inspect_err(|_| self.next.store(self.batches.len(), Ordering::Relaxed))?;
            results.extend(batch.iter().copied().zip(vectors));
            let finished: usize = batch.iter().map(|&index| self.distinct.counts[index]).sum();
            let done = self.done.fetch_add(finished, Ordering::Relaxed) + finished;
            (self.progress)(done, self.distinct.of_input.len());
        }
        Ok(results)
    }

    /// [`Queue::work`] on several threads, each a pool of its own: candle splits a matrix product over the pool that it is called in.
    fn work_on<F>(&self, threads: usize, embed: &F) -> Result<Vec<Indexed>, EncoderError>
    where
        F: Fn(&[&[u32]]) -> Result<Vectors, EncoderError> + Sync,
    {
        let pool = || rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let pools: Vec<_> = (0..threads)
            .map(|_| pool())
            .collect::<Result<_, _>>()
            .map_err(|error| EncoderError::Threads { cause: error.to_string() })?;
        std::thread::scope(|scope| {
            let workers: Vec<_> = pools.iter().map(|pool| scope.spawn(|| pool.install(|| self.work(embed)))).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
