//! The CPU's operations against those put together from candle's.

use super::*;
use crate::device::linear::Linear;

fn random(shape: &[usize], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| next()).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).expect("as many values")
}

#[track_caller]
fn check(what: &str, found: &Tensor, expected: &Tensor, tolerance: f32) {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    let values = |it: &Tensor| it.flatten_all().and_then(|it| it.to_vec1::<f32>()).expect("f32");
    for (at, (found, expected)) in values(found).into_iter().zip(values(expected)).enumerate() {
        assert!((found - expected).abs() <= tolerance, "{what}: value {at} is {found} instead of {expected}");
    }
}

#[test]
fn attention_is_candles() {
    for (rows, before, heads, kv_heads, head, causal) in [
        (vec![1], 0, 1, 1, 8, true),
        (vec![5, 70, 1], 0, 4, 2, 16, true),
        (vec![33, 64], 3, 4, 1, 40, true),
        (vec![100, 7], 0, 2, 2, 72, false),
        (vec![50], 40, 6, 3, 128, true),
    ] {
        let all: usize = rows.iter().sum();
        let mut start = 0;
        let mut next = |count: usize| {
            start += count;
            start - count..start
        };
        let sequences: Vec<Range<usize>> = rows.iter().map(|count| next(*count)).collect();
        // One matrix for all three: the rows are strided.
        let qkv = random(&[all, heads + 2 * kv_heads, head], 1);
        let part = |first: usize, count: usize| qkv.narrow(1, first, count).expect("it is there");
        let (query, key, value) = (part(0, heads), part(heads, kv_heads), part(heads + kv_heads, kv_heads));
        let prefix = (random(&[before.max(1), kv_heads, head], 2), random(&[before.max(1), kv_heads, head], 3));
        for (compute, tolerance) in [(Compute::F32, 2e-6), (Compute::Q8, 1e-2)] {
            let prefix = (before > 0).then_some((&prefix.0, &prefix.1));
            let how = Attention { sequences: &sequences, prefix, causal, scale: 0.4, compute };
            let found = attention(&query, &key, &value, &how).expect("sound shapes");
            let expected = composed::attention(&query, &key, &value, &how).expect("sound shapes");
            check(&format!("{rows:?} of {heads} heads, {compute:?}"), &found, &expected, tolerance);
        }
    }
}

#[test]
fn steps_between_products_are_candles() {
    for (rows, width) in [(1, 8), (17, 40), (40, 200)] {
        let (x, y) = (random(&[rows, width], 1), random(&[rows, width], 2));
        let (weight, bias) = (random(&[width], 3), random(&[width], 4));
        let same = |what: &str, found: Result<Tensor>, expected: Result<Tensor>| {
            check(what, &found.expect("sound"), &expected.expect("sound"), 2e-6);
        };
        same("rms norm", rms_norm(&x, &weight, 1e-6), composed::rms_norm(&x, &weight, 1e-6));
        same("layer norm", layer_norm(&x, &weight, &bias, 1e-6), composed::layer_norm(&x, &weight, &bias, 1e-6));
        same("swiglu", swiglu(&x), composed::swiglu(&x));
        same("gelu", gelu_tanh(&x), composed::gelu_tanh(&x));
        same("gelu", gelu_erf(&x), composed::gelu_erf(&x));
        same("sum", add(&x, &y), &x + &y);
        let heads = x.reshape((rows, 2, width / 2)).expect("an even width");
        let (cos, sin) = (random(&[rows, width / 4], 5), random(&[rows, width / 4], 6));
        same("rope", rope(&heads, &cos, &sin), composed::rope(&heads, &cos, &sin));
    }
}

/// A file of one matrix.
fn stored(matrix: &Tensor) -> crate::device::tensors::Stored {
    let (rows, columns) = matrix.dims2().expect("a matrix");
    let values = matrix.flatten_all().and_then(|it| it.to_vec1::<f32>()).expect("f32");
    let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![rows, columns], &bytes);
    let file = safetensors::serialize([("w", view.expect("sound"))], None).expect("one tensor");
    crate::device::tensors::TensorFile::open(&file.into())
        .expect("just made")
        .get("w", &[rows, columns])
        .expect("it is there")
}

#[test]
fn linear_layers_are_candles() {
    for (rows, inner, outputs) in [(1, 64, [16, 16]), (5, 100, [40, 3]), (33, 600, [170, 20]), (50, 64, [128, 1])] {
        let x = random(&[rows, inner], 1);
        let weights = outputs.map(|it| random(&[it, inner], it as u64));
        let bias = random(&[outputs[0] + outputs[1]], 9);
        let all = Tensor::cat(&weights, 0).and_then(|it| x.matmul(&it.t()?)?.broadcast_add(&bias)).expect("sound");
        let parts: Vec<_> = weights.iter().map(stored).collect();
        let values = bias.to_vec1::<f32>().expect("f32");
        for (compute, tolerance) in [(Compute::F32, 3e-5), (Compute::Q8, 0.012 * (inner as f32).sqrt())] {
            let linear = Linear::new(&parts, Some(values.clone()), compute).expect("sound");
            check(&format!("{rows} rows, {compute:?}"), &linear.forward(&x).expect("sound"), &all, tolerance);
        }
    }
}

#[test]
fn sequences_that_share_rows_or_have_none_are_refused() {
    let x = random(&[6, 1, 8], 1);
    for sequences in [[0..4, 3..6], [2..4, 0..2], [0..0, 0..6], [0..3, 3..7], [0..3, 3..3]] {
        let how = Attention { sequences: &sequences, prefix: None, causal: true, scale: 1.0, compute: Compute::F32 };
        assert!(attention(&x, &x, &x, &how).is_err(), "{sequences:?}");
    }
}

#[test]
fn weights_of_another_length_are_refused() {
    let (x, short) = (random(&[2, 8], 1), random(&[7], 2));
    assert!(rms_norm(&x, &short, 1e-6).is_err());
    assert!(layer_norm(&x, &short, &short, 1e-6).is_err());
}
