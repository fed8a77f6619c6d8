//! F1: functions of single values, and the steps made of them, over rows.

/// `exp(x)` for `x <= 0` to 3e-7 relative: 2^n by the exponent bits times Cephes' polynomial on [-ln2/2, ln2/2].
///
/// Below -87 the result would be subnormal; it is held at exp(-87), which vanishes in any sum of a softmax (its largest term is 1).
#[inline(always)]
pub fn exp_of_negative(x: f32) -> f32 {
    /// 1.5 * 2^23: adding it leaves the nearest integer in the low bits, without a call for rounding.
    const ROUND: f32 = 12_582_912.0;
    // What is no number stays none.
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127).wrapping_shl(23));
    (p * r * r + r + 1.0) * power
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    let small = exp_of_negative(-x.abs());
    let over = if x > 0.0 { 1.0 } else { small };
    over / (1.0 + small)
}

/// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`, by `1 + tanh(y) = 2 sigmoid(2 y)`.
#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    /// `2 sqrt(2 / pi)`.
    const FACTOR: f32 = 1.595_769;
    x * sigmoid(FACTOR * (x + 0.044_715 * x * x * x))
}

/// `0.5 x (1 + erf(x / sqrt 2))`.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function to 5e-7: the rational approximation (odd degree 13 over even degree 8, on [-4, 4]) of Eigen's `generic_fast_erf`.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let x = x.clamp(-4.0, 4.0);
    let s = x * x;
    let p = -2.726_142_3e-10;
    let p = p * s + 2.770_681_4e-8;
    let p = p * s - 2.101_024e-6;
    let p = p * s - 5.692_506_4e-5;
    let p = p * s - 7.349_906_3e-4;
    let p = p * s - 2.954_6e-3;
    let p = p * s - 1.609_603_3e-2;
    let q = -1.456_607_2e-5;
    let q = q * s - 2.133_740_5e-4;
    let q = q * s - 1.682_827e-3;
    let q = q * s - 7.373_329e-3;
    let q = q * s - 1.426_473_9e-2;
    x * p / q
}

#[inline(always)]
fn swiglu_row(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        *out = gate * sigmoid(*gate) * up;
    }
}

by_level!(
    /// `silu(gate) * up`.
    pub fn swiglu(gate: &[f32], up: &[f32], out: &mut [f32]) = swiglu_row
);

#[inline(always)]
fn gelu_tanh_row(row: &[f32], out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(row) {
        *out = gelu_tanh(*x);
    }
}

by_level!(
    /// GELU by the tanh approximation.
    pub fn gelu_tanh_of(row: &[f32], out: &mut [f32]) = gelu_tanh_row
);

#[inline(always)]
fn gelu_row(row: &[f32], out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(row) {
        *out = gelu(*x);
    }
}

by_level!(
    /// GELU by the error function.
    pub fn gelu_of(row: &[f32], out: &mut [f32]) = gelu_row
);

/// Sixteen partial sums: one running sum would keep the compiler from using vector registers, and lose more digits.
#[inline(always)]
fn sum(row: &[f32], map: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; 16];
    let (chunks, rest) = row.as_chunks::<16>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += map(x);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|&x| map(x)).sum::<f32>()
}

#[inline(always)]
fn rms_norm_row(row: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let scale = 1.0 / (sum(row, |x| x * x) / row.len() as f32 + epsilon).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(row).zip(weight) {
        *out = x * scale * weight;
    }
}

by_level!(
    /// `row * weight / rms(row)`.
    pub fn rms_norm(row: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) = rms_norm_row
);

#[inline(always)]
fn layer_norm_row(row: &[f32], weight: &[f32], bias: &[f32], epsilon: f32, out: &mut [f32]) {
    let count = row.len() as f32;
    let mean = sum(row, |x| x) / count;
    let variance = sum(row, |x| (x - mean) * (x - mean)) / count;
    let scale = 1.0 / (variance + epsilon).sqrt();
    for (((out, x), weight), bias) in out.iter_mut().zip(row).zip(weight).zip(bias) {
        *out = (x - mean) * scale * weight + bias;
    }
}

by_level!(
    /// Layer normalisation of a row.
    pub fn layer_norm(row: &[f32], weight: &[f32], bias: &[f32], epsilon: f32, out: &mut [f32]) = layer_norm_row
);

#[inline(always)]
fn rope_row(head: &[f32], cos: &[f32], sin: &[f32], out: &mut [f32]) {
    let half = cos.len();
    let (first, second) = head.split_at(half);
    let (low, high) = out.split_at_mut(half);
    for at in 0..half.min(second.len()).min(low.len()).min(high.len()).min(sin.len()) {
        low[at] = first[at] * cos[at] - second[at] * sin[at];
        high[at] = second[at] * cos[at] + first[at] * sin[at];
    }
}

by_level!(
    /// Rotary embedding of one head by halves.
    pub fn rope(head: &[f32], cos: &[f32], sin: &[f32], out: &mut [f32]) = rope_row
);

#[inline(always)]
fn add_row(x: &[f32], y: &[f32], out: &mut [f32]) {
    for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
        *out = x + y;
    }
}

by_level!(
    /// The sum.
    pub fn add(x: &[f32], y: &[f32], out: &mut [f32]) = add_row
);
