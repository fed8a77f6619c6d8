//! The kernels against values of Python's `math` module and hand calculation.

use super::*;

fn check(name: &str, found: f32, expected: f32, tolerance: f32) {
    assert!((found - expected).abs() <= tolerance, "{name}: {found} instead of {expected}");
}

#[test]
fn gelu_has_the_values_of_the_error_function() {
    // 0.5 * x * (1 + math.erf(x / math.sqrt(2)))
    let table = [
        (-10.0, 0.0),
        (-3.0, -0.004_049_694),
        (-1.0, -0.158_655_25),
        (-0.5, -0.154_268_77),
        (0.0, 0.0),
        (1e-3, 0.000_500_398_9),
        (0.5, 0.345_731_23),
        (1.0, 0.841_344_8),
        (2.0, 1.954_499_7),
        (5.0, 4.999_998_6),
        (40.0, 40.0),
    ];
    for (x, expected) in table {
        check(&format!("gelu({x})"), gelu(x), expected, 1e-6 * x.abs().max(1.0));
    }
}

#[test]
fn exp_is_that_of_python() {
    // math.exp(x)
    let table = [
        (0.0, 1.0),
        (-1e-4, 0.999_9),
        (-0.5, 0.606_530_66),
        (-1.0, 0.367_879_44),
        (-10.0, 4.539_993e-5),
        (-86.0, 4.473_779_3e-38),
    ];
    for (x, expected) in table {
        check(&format!("exp({x})"), exp_of_negative(x), expected, expected * 3e-7);
    }
    check("exp of what vanishes", exp_of_negative(f32::NEG_INFINITY), 0.0, 2e-38);
}

#[test]
fn softmax_by_hand() {
    // Logits 0 and ln 3: 1/4 and 3/4. Eleven values, so that full lanes and a rest are both used.
    let mut row = [0.0; 11];
    row[10] = 2.0 * 3f32.ln();
    softmax(&mut row, 0.5);
    check("a small one", row[0], 1.0 / 13.0, 1e-7);
    check("the large one", row[10], 3.0 / 13.0, 1e-7);
}

#[test]
fn softmax_of_large_values_does_not_overflow() {
    let mut row = [1e30, 1e30, -1e30];
    softmax(&mut row, 1.0);
    assert_eq!(row, [0.5, 0.5, row[2]]);
    check("the small one", row[2], 0.0, 1e-30);
}

#[test]
fn layer_norm_by_hand() {
    // Mean 3, variance 4 - so that -1 and +1 are left, scaled by 2 and shifted by 10.
    let norm = Norm { weight: vec![2.0; 10], bias: vec![10.0; 10], epsilon: 0.0 };
    let mut row = [1.0, 5.0, 1.0, 5.0, 1.0, 5.0, 1.0, 5.0, 1.0, 5.0];
    norm.apply(&mut row);
    assert_eq!(row, [8.0, 12.0, 8.0, 12.0, 8.0, 12.0, 8.0, 12.0, 8.0, 12.0]);
}
