//! What is no picture, and networks that are none.

use super::*;

#[track_caller]
fn check(values: &[u8], width: u32, height: u32, valid: bool) {
    assert_eq!(Pixels::new(width, height, values).is_some(), valid);
}

#[test]
fn pixels_need_three_bytes_each() {
    check(&[0; 6], 2, 1, true);
    check(&[0; 5], 2, 1, false);
    check(&[], 0, 0, false);
    check(&[], u32::MAX, u32::MAX, false);
}

#[test]
fn bytes_that_are_no_network_are_refused() {
    let error = Ocr::load(Cow::Borrowed(b"no network"), Cow::Borrowed(b""), "a\n").err().unwrap().to_string();
    assert!(error.starts_with("the detection network can't be loaded"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}
