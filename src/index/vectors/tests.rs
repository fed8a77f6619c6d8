//! Search against a plain loop in 64 bits.

use half::f16;
use proptest::prelude::*;

use super::*;

/// Pseudo-random vectors (a xorshift generator), the same at every run.
pub(super) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A sum of even numbers: near enough to a normal distribution.
    fn normal(&mut self) -> f32 {
        (0..4).map(|_| (self.next() >> 40) as f32 / (1 << 24) as f32 - 0.5).sum::<f32>() * 1.7
    }

    pub fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        unit((0..dimensions).map(|_| self.normal()).collect())
    }

    /// A vector beside another: as similar to it as windows of one topic are.
    pub fn near(&mut self, centre: &[f32], noise: f32) -> Vec<f32> {
        let other = self.vector(centre.len());
        unit(centre.iter().zip(other).map(|(a, b)| a + noise * b).collect())
    }
}

pub(super) fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    crate::vector::normalise(&mut vector);
    vector
}

/// Rows in memory from vectors and their candidates.
pub(super) fn rows(dimensions: usize, vectors: &[(u32, Vec<f32>)]) -> Rows {
    let mut encoder = RowsEncoder::new(dimensions).expect("supported");
    for (_, vector) in vectors {
        let halves: Vec<f16> = vector.iter().copied().map(f16::from_f32).collect();
        encoder.push(&halves).expect("finite");
    }
    let owners = vectors.iter().map(|it| it.0).collect();
    Rows::new(RowParts::held(dimensions, encoder.finish(), owners)).expect("whole")
}

/// The similarity of every candidate in 64 bits, best first.
fn by_hand(segments: &[Rows], query: &[f32], accept: Accept) -> Vec<(u32, f64)> {
    let mut best = std::collections::BTreeMap::new();
    for rows in segments {
        for (row, &owner) in rows.owners().iter().enumerate().filter(|it| *it.1 != DELETED && accept(*it.1)) {
            let values = rows.row(row).expect("whole");
            let similarity: f64 = values.iter().zip(query).map(|(a, b)| a.to_f64() * f64::from(*b)).sum();
            let entry = best.entry(owner).or_insert(f64::NEG_INFINITY);
            *entry = similarity.max(*entry);
        }
    }
    let mut sorted: Vec<_> = best.into_iter().collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    sorted
}

/// The share of hits that are as similar as those that a plain loop gives: which of equally similar ones is found does not matter.
/// What is found has to be accepted, found once, sorted, and as similar as it is said to be.
#[track_caller]
pub(super) fn recall(index: &dyn VectorIndex, segments: &[Rows], query: &[f32], k: usize, accept: Accept) -> f64 {
    let expected = by_hand(segments, query, accept);
    let found = index.search(query, k, accept).expect("sound");
    assert_eq!(found.len(), k.min(expected.len()), "too many or too few");
    assert!(found.windows(2).all(|it| it[0].1 > it[1].1 || (it[0].1 == it[1].1 && it[0].0 < it[1].0)), "{found:?}");
    for (candidate, similarity) in &found {
        let entry = expected.iter().find(|it| it.0 == *candidate).expect("an accepted candidate");
        assert!((entry.1 - f64::from(*similarity)).abs() < 1e-5, "{similarity} instead of {}", entry.1);
    }
    let Some(last) = expected[..found.len()].last() else { return 1.0 };
    found.iter().filter(|it| f64::from(it.1) >= last.1 - 1e-6).count() as f64 / found.len() as f64
}

/// Candidates of one to seven rows about centres, in segments; and queries beside some of them.
pub(super) fn sample(dimensions: usize, sizes: &[usize], seed: u64) -> (Vec<Rows>, Vec<Vec<f32>>) {
    let mut random = Random(seed);
    let total: usize = sizes.iter().sum();
    let centres: Vec<_> = (0..total.div_ceil(50).max(1)).map(|_| random.vector(dimensions)).collect();
    let mut candidate = 0;
    let segments = sizes.iter().map(|&size| {
        let mut vectors = Vec::new();
        while vectors.len() < size {
            let topic = random.near(&centres[random.0 as usize % centres.len()], 0.8);
            for _ in 0..(1 + random.next() % 7).min((size - vectors.len()) as u64) {
                vectors.push((candidate, random.near(&topic, 0.5)));
            }
            candidate += 1;
        }
        rows(dimensions, &vectors)
    });
    let segments = segments.collect();
    let queries = (0..20).map(|it| random.near(&centres[it % centres.len()], 1.0)).collect();
    (segments, queries)
}

#[track_caller]
fn check(dimensions: usize, sizes: &[usize], k: usize, accept: Accept) {
    let (segments, queries) = sample(dimensions, sizes, 77);
    for query in &queries {
        assert_eq!(recall(&Exact { segments: &segments }, &segments, query, k, accept), 1.0);
        assert_eq!(recall(&Scan { segments: &segments }, &segments, query, k, accept), 1.0);
    }
}

#[test]
fn the_best_are_found_as_by_hand() {
    check(384, &[3000], 10, &|_| true);
    check(100, &[500, 1, 70], 10, &|_| true);
    check(3, &[40, 0], 5, &|_| true);
    check(1, &[9], 3, &|_| true);
}

#[test]
fn a_filter_leaves_what_it_accepts() {
    check(64, &[400, 100], 10, &|it| it % 2 == 0);
    check(64, &[400, 100], 10, &|it| it % 10 == 0);
    check(64, &[400, 100], 10, &|it| it == 3 || it == 110);
    check(64, &[400, 100], 10, &|_| false);
}

#[test]
fn more_than_there_are_gives_all() {
    check(64, &[400], 100_000, &|_| true);
    check(64, &[400], usize::MAX, &|_| true);
    check(64, &[400], 0, &|_| true);
    check(64, &[1], 1, &|_| true);
}

#[test]
fn deleted_rows_are_never_found_and_living_ones_all_are() {
    let (mut segments, queries) = sample(64, &[600, 200], 5);
    for rows in &mut segments {
        rows.delete(|owner| owner % 2 == 1);
    }
    let living: std::collections::BTreeSet<u32> =
        segments.iter().flat_map(|it| it.owners()).copied().filter(|it| *it != DELETED).collect();
    for query in &queries {
        for index in [&Scan { segments: &segments } as &dyn VectorIndex, &Exact { segments: &segments }] {
            let found = index.search(query, usize::MAX, &|_| true).expect("sound");
            assert_eq!(found.iter().map(|it| it.0).collect::<std::collections::BTreeSet<_>>(), living);
            assert_eq!(recall(index, &segments, query, 10, &|_| true), 1.0);
        }
    }
}

#[test]
fn nothing_is_found_in_nothing() {
    let empty = [rows(4, &[])];
    for segments in [&empty[..], &[]] {
        for index in [&Scan { segments } as &dyn VectorIndex, &Exact { segments }] {
            assert_eq!(index.search(&[1.0; 4], 10, &|_| true), Ok(Vec::new()));
        }
    }
}

#[test]
fn a_vector_of_zeros_is_like_nothing() {
    let segments = [rows(2, &[(0, vec![0.0, 0.0]), (1, vec![0.6, 0.8]), (2, vec![-0.6, 0.8])])];
    for index in [&Scan { segments: &segments } as &dyn VectorIndex, &Exact { segments: &segments }] {
        let numbers =
            |query: &[f32]| index.search(query, 3, &|_| true).expect("sound").iter().map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(numbers(&[1.0, 0.0]), [1, 0, 2]);
        assert_eq!(numbers(&[0.0, 0.0]), [0, 1, 2]);
    }
}

#[test]
fn a_query_of_another_model_is_refused() {
    let segments = [rows(2, &[(0, vec![0.6, 0.8])])];
    for index in [&Scan { segments: &segments } as &dyn VectorIndex, &Exact { segments: &segments }] {
        let error = |query: &[f32]| index.search(query, 1, &|_| true).expect_err("refused");
        assert_eq!(error(&[1.0]), VectorError::Dimensions { found: 1, expected: 2 });
        assert_eq!(error(&[1.0, f32::NAN]), VectorError::NotFinite);
    }
    let mixed = [rows(2, &[]), rows(3, &[])];
    assert!(Scan { segments: &mixed }.search(&[1.0; 2], 1, &|_| true).is_err());
}

#[test]
fn sections_of_another_length_are_refused() {
    let mut encoder = RowsEncoder::new(2).expect("supported");
    encoder.push(&[f16::ONE, f16::ZERO]).expect("finite");
    let encoded = encoder.finish();
    for owners in [vec![], vec![0, 0]] {
        assert!(Rows::new(RowParts::held(2, encoded.clone(), owners)).is_err());
    }
    for cut in [
        Encoded { codes: vec![1], ..encoded.clone() },
        Encoded { scales: vec![1], ..encoded.clone() },
        Encoded { values: vec![1], ..encoded },
    ] {
        assert!(Rows::new(RowParts::held(2, cut, vec![0])).is_err());
    }
}

#[test]
fn a_list_is_reranked_by_the_best_row_of_each() {
    let segment = rows(2, &[(0, vec![1.0, 0.0]), (0, vec![0.0, 1.0]), (1, vec![0.5, 0.5])]);
    let found = similarities(&segment, &[0..2, 2..3, 1..2, 3..3], &[0.25, 0.5]);
    assert_eq!(found, Ok(vec![Some(0.5), Some(0.375), Some(0.5), None]));
    let outside = 2..4;
    assert!(similarities(&segment, std::slice::from_ref(&outside), &[0.25, 0.5]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_scan_finds_what_a_plain_loop_finds(
        seed in 1..u64::MAX, dimensions in 1..300usize, sizes in prop::collection::vec(0..300usize, 0..4), k in 0..20usize,
    ) {
        let (segments, queries) = sample(dimensions, &sizes, seed);
        let (mut scan, mut exact) = (0.0, 0.0);
        for query in &queries {
            scan += recall(&Scan { segments: &segments }, &segments, query, k, &|_| true) / queries.len() as f64;
            exact += recall(&Exact { segments: &segments }, &segments, query, k, &|_| true) / queries.len() as f64;
        }
        prop_assert!(exact > 0.9999, "exact {exact}");
        prop_assert!(scan >= 0.98, "scan {scan}");
    }
}
