//! Batching with a stand-in for the network that shows what it was given.

use std::sync::Mutex;

use super::*;

/// Each sequence becomes its length and its first id.
fn stand_in(batch: &[&[u32]]) -> Result<Vectors, EncoderError> {
    Ok(batch.iter().map(|sequence| vec![sequence.len() as f32, sequence[0] as f32]).collect())
}

fn sequences(lengths: &[usize]) -> Vec<Vec<u32>> {
    lengths.iter().enumerate().map(|(index, &length)| vec![index as u32; length]).collect()
}

fn views(sequences: &[Vec<u32>]) -> Vec<&[u32]> {
    sequences.iter().map(Vec::as_slice).collect()
}

#[test]
fn results_are_in_the_order_of_the_input() {
    let lengths: Vec<usize> = (0..100).map(|index| 1 + index * 7919 % 256).collect();
    let input = sequences(&lengths);
    let found = run(&views(&input), &|_, _| (), stand_in).expect("the stand-in never fails");
    let expected: Vec<Vec<f32>> =
        lengths.iter().enumerate().map(|(index, &length)| vec![length as f32, index as f32]).collect();
    assert_eq!(found, expected);
}

#[test]
fn equal_sequences_are_computed_once_and_counted_each() {
    let (a, b) = (vec![1; 300], vec![2; 300]);
    let computed = Mutex::new(Vec::new());
    let most = AtomicUsize::new(0);
    let progress = |done, total| {
        assert_eq!(total, 4);
        most.fetch_max(done, Ordering::Relaxed);
    };
    let embed = |batch: &[&[u32]]| {
        computed.lock().expect("no panic in another thread").extend(batch.iter().map(|sequence| sequence[0]));
        stand_in(batch)
    };
    let found = run(&[&a, &b, &a, &a], &progress, embed).expect("the stand-in never fails");
    assert_eq!(found.iter().map(|vector| vector[1]).collect::<Vec<_>>(), [1.0, 2.0, 1.0, 1.0]);
    let mut computed = computed.into_inner().expect("no panic in another thread");
    computed.sort_unstable();
    assert_eq!(computed, [1, 2]);
    assert_eq!(most.into_inner(), 4);
}

#[test]
fn nothing_gives_nothing() {
    assert_eq!(run(&[], &|_, _| (), stand_in).expect("the stand-in never fails"), Vectors::new());
}

#[test]
fn batches_keep_to_the_budget() {
    // Greedy by hand, longest first: 600 is over the budget alone; 300 + 200 = 500; 100 + 12.
    let input = sequences(&[100, 600, 12, 300, 200]);
    let views = views(&input);
    assert_eq!(Distinct::of(&views).batches(1), [vec![1], vec![3, 4], vec![0, 2]]);
}

#[test]
fn a_small_input_is_spread_over_the_threads() {
    let input = sequences(&[100, 100, 100, 100]);
    let views = views(&input);
    assert_eq!(Distinct::of(&views).batches(2), [vec![0, 1], vec![2, 3]]);
}

#[test]
fn the_first_error_ends_the_work() {
    let input = sequences(&[512; 64]);
    let calls = AtomicUsize::new(0);
    let failing = |_: &[&[u32]]| {
        calls.fetch_add(1, Ordering::Relaxed);
        Err(EncoderError::NotBundled)
    };
    let error = run(&views(&input), &|_, _| (), failing).expect_err("every batch fails");
    assert!(matches!(error, EncoderError::NotBundled));
    assert!(calls.into_inner() <= rayon::current_num_threads());
}
