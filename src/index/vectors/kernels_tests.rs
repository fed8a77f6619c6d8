//! Every kernel of this machine against plain loops in 64 bits.

use proptest::prelude::*;

use super::*;

/// Lengths around the multiples of what a kernel takes at once.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![0..200usize, Just(384), Just(2048), 1000..1100usize]
}

fn codes_by_hand(row: &[u8], query: &[u8]) -> i64 {
    row.iter().zip(query).map(|(&row, &query)| i64::from(row) * (i64::from(query) - 128)).sum()
}

proptest! {
    #[test]
    fn codes_are_multiplied_exactly(
        (row, query) in (lengths(), lengths(), any::<bool>()).prop_flat_map(|(a, b, same)| {
            (prop::collection::vec(any::<u8>(), a), prop::collection::vec(any::<u8>(), if same { a } else { b }))
        })
    ) {
        let expected = codes_by_hand(&row, &query);
        for kernels in Kernels::supported() {
            prop_assert_eq!(i64::from(kernels.dot_codes(&row, &query)), expected, "{:?}", kernels);
        }
    }

    #[test]
    fn halves_are_multiplied_to_float_precision(
        (row, query) in lengths().prop_flat_map(|it| {
            (prop::collection::vec(-1f32..1.0, it), prop::collection::vec(-1f32..1.0, it))
        })
    ) {
        let halves: Vec<f16> = row.iter().copied().map(f16::from_f32).collect();
        let bytes: Vec<u8> = halves.iter().flat_map(|it| it.to_le_bytes()).collect();
        let expected: f64 = halves.iter().zip(&query).map(|(a, b)| a.to_f64() * f64::from(*b)).sum();
        for kernels in Kernels::supported() {
            let found = f64::from(kernels.dot_halves(&bytes, &query));
            prop_assert!((found - expected).abs() <= 1e-6 * row.len().max(1) as f64, "{:?}: {} {}", kernels, found, expected);
        }
    }
}

#[test]
fn extreme_codes_do_not_saturate() {
    for length in [31, 32, 64, 100, 4096] {
        for (row, query) in [(255, 255), (255, 0), (0, 255), (128, 0)] {
            let (row, query) = (vec![row; length], vec![query; length]);
            for kernels in Kernels::supported() {
                let found = i64::from(kernels.dot_codes(&row, &query));
                assert_eq!(found, codes_by_hand(&row, &query), "{kernels:?} at {length}");
            }
        }
    }
}
