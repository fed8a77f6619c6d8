//! Stored tensors against the values that they are made of.

use safetensors::serialize;
use safetensors::tensor::TensorView;

use super::*;

/// A file of one matrix `a` of two rows.
fn file(kind: Dtype, bytes: &[u8]) -> TensorFile {
    let columns = bytes.len() / (kind.bitsize() / 8) / 2;
    let view = TensorView::new(kind, vec![2, columns], bytes).expect("a matrix");
    let file = serialize([("a", view)], None).expect("one tensor");
    TensorFile::open(&file.into()).expect("just made")
}

/// The matrix and its second row, bit for bit.
#[track_caller]
fn check(kind: Dtype, bytes: &[u8], expected: &[f32]) {
    let bits = |values: &[f32]| values.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
    let stored = file(kind, bytes).get("a", &[2, expected.len() / 2]).expect("it is there");
    assert_eq!(bits(&stored.values()), bits(expected));
    let mut row = vec![0.0; expected.len() / 2];
    stored.copy_row_to(1, &mut row).expect("it has two rows");
    assert_eq!(bits(&row), bits(&expected[expected.len() / 2..]));
    assert_eq!(stored.copy_row_to(2, &mut row), None);
    let mut rows = vec![7.0; expected.len()];
    stored.copy_rows_to(0, expected.len() / 2, &mut rows[..expected.len() / 2]);
    assert_eq!(bits(&rows[..expected.len() / 2]), bits(&expected[..expected.len() / 2]));
    rows.fill(7.0);
    stored.copy_rows_to(1, expected.len() / 2, &mut rows);
    assert_eq!(bits(&rows[..expected.len() / 2]), bits(&expected[expected.len() / 2..]));
    assert!(rows[expected.len() / 2..].iter().all(|&it| it.to_bits() == 7f32.to_bits()), "there is no third row");
    assert_eq!(stored.copy_row_to(usize::MAX, &mut row), None);
}

/// The value of a finite half of so many bits of mantissa, by the definition of the format.
fn value(half: u16, mantissa: i32, bias: i32) -> f32 {
    let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from((half & 0x7fff) >> mantissa);
    let fraction = f64::from(half & ((1 << mantissa) - 1)) / f64::from(1 << mantissa);
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(exponent - bias),
    };
    (sign * magnitude) as f32
}

#[test]
fn every_finite_half_is_its_value() {
    for (kind, mantissa, bias) in [(Dtype::F16, 10, 15), (Dtype::BF16, 7, 127)] {
        let exponents = 0x7fff >> mantissa;
        let halves: Vec<u16> = (0..=u16::MAX).filter(|half| (half & 0x7fff) >> mantissa != exponents).collect();
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let values: Vec<f32> = halves.iter().map(|&half| value(half, mantissa, bias)).collect();
        check(kind, &bytes, &values);
        // Rows that don't come out in eights, and begin at any byte.
        check(kind, &bytes[2 * 1000..2 * 1054], &values[1000..1054]);
    }
}

#[test]
fn floats_are_as_they_are() {
    let values = [0.0, -0.0, 1.5, f32::MAX, f32::MIN_POSITIVE / 2.0, -3.0];
    check(Dtype::F32, &values.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>(), &values);
}

#[test]
fn what_is_not_of_floats_has_no_values() {
    for (kind, bytes) in [(Dtype::F64, vec![0; 32]), (Dtype::I8, vec![1; 4]), (Dtype::F8_E4M3, vec![1; 4])] {
        let file = file(kind, &bytes);
        assert!(file.get("a", &[2, 2]).is_err_and(|error| error.contains(&format!("holds {kind:?}"))));
        let stored = file.get_of("a", &[2, 2], &[kind]).expect("it is there");
        assert!(!stored.is_of_floats() && stored.values().iter().all(|it| it.is_nan()), "{kind:?}");
    }
}

#[test]
fn one_value_that_is_not_finite_is_found_in_every_type() {
    for (kind, sound, infinite) in [
        (Dtype::F16, &[0x00, 0xfb][..], &[0x00, 0x7c][..]),
        (Dtype::BF16, &[0x7f, 0x7f], &[0x80, 0xff]),
        (Dtype::F32, &[0xff, 0xff, 0x7f, 0x7f], &[0x00, 0x00, 0x80, 0x7f]),
    ] {
        for (last, expected) in [(sound, None), (infinite, Some("a"))] {
            assert_eq!(file(kind, &[sound, last].concat()).non_finite(), expected, "{kind:?}");
        }
    }
}

#[test]
fn tensors_of_several_files_are_one_list() {
    let mut all = file(Dtype::F16, &[0; 4]);
    let view = TensorView::new(Dtype::I8, vec![3], &[1, 2, 3]).expect("a vector");
    let other = serialize([("b", view)], None).expect("one tensor");
    all.join(TensorFile::open(&other.clone().into()).expect("just made")).expect("no name is in both");
    assert!(all.has("a") && all.has("b") && !all.has("c"));
    assert_eq!(all.get_of("b", &[3], &[Dtype::I8]).expect("it is there").bytes(), [1, 2, 3]);
    assert_eq!(all.join(TensorFile::open(&other.into()).expect("just made")), Err("b".to_owned()));
}

#[test]
fn what_is_asked_for_must_be_what_is_there() {
    let file = file(Dtype::F16, &[0; 8]);
    let refused = |name: &str, shape: &[usize], kinds: &[Dtype]| file.get_of(name, shape, kinds).err();
    assert_eq!(refused("b", &[2, 2], &[Dtype::F16]).as_deref(), Some("tensor `b` is missing"));
    assert_eq!(refused("a", &[4], &[Dtype::F16]).as_deref(), Some("tensor `a` has shape [2, 2] instead of [4]"));
    assert_eq!(
        refused("a", &[2, 2], &[Dtype::I8, Dtype::F32]).as_deref(),
        Some("tensor `a` holds F16 instead of I8, F32")
    );
}

#[test]
fn a_table_of_contents_has_a_limit() {
    let mut hostile = vec![b' '; (1 << 24) + 16];
    hostile[..8].copy_from_slice(&((1u64 << 24) + 8).to_le_bytes());
    assert!(TensorFile::open(&hostile.into()).is_err());
}

#[test]
fn a_mapped_file_is_its_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, b"abc").expect("writable");
    assert_eq!(*Bytes::map(&path).expect("there"), *b"abc");
    assert!(Bytes::map(&folder.path().join("none")).is_err());
}
