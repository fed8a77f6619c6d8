//! The kernels of every level that this machine has, against sums in f64.

use super::rows::Rows;
use super::*;

/// Values between -1 and 1.
pub fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn levels() -> impl Iterator<Item = Level> {
    let all = [Level::Portable, Level::Avx2, Level::Avx512, Level::Vnni, Level::Amx];
    all.into_iter().filter(|it| *it <= Level::best())
}

/// A product as it is by hand, and the sum of the sizes of what is added in each of its values.
struct Expected {
    values: Vec<f64>,
    sizes: Vec<f64>,
}

/// Rows of inputs, outputs and inner values.
#[derive(Debug, Clone, Copy)]
struct Sizes(usize, usize, usize);

struct Case {
    sizes: Sizes,
    inputs: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Case {
    fn new(sizes: Sizes) -> Self {
        let Sizes(rows, outputs, inner) = sizes;
        Case { sizes, inputs: random(rows * inner, 1), weights: random(outputs * inner, 2), bias: random(outputs, 3) }
    }

    fn expected(&self) -> Expected {
        let Sizes(_, outputs, inner) = self.sizes;
        let (mut values, mut sizes) = (Vec::new(), Vec::new());
        for input in self.inputs.chunks(inner) {
            for output in 0..outputs {
                let products =
                    input.iter().zip(&self.weights[output * inner..]).map(|(a, b)| f64::from(*a) * f64::from(*b));
                let (sum, size) = products.fold((0.0, 0.0), |(sum, size), it| (sum + it, size + it * it));
                values.push(sum + f64::from(self.bias[output]));
                sizes.push(size.sqrt());
            }
        }
        Expected { values, sizes }
    }

    fn rows(&self) -> Rows<'_> {
        let Sizes(rows, _, inner) = self.sizes;
        Rows::new(&self.inputs, rows, inner, inner).expect("as many values")
    }

    fn by_q8(&self, twice: q8::Twice, level: Level) -> Vec<f32> {
        let Sizes(rows, outputs, inner) = self.sizes;
        let mut tiles = vec![0; q8::packed_size(outputs, inner)];
        let (mut scales, mut sums) = (vec![0.0; outputs], vec![0; outputs]);
        let groups =
            tiles.chunks_mut(q8::packed_size(q8::OUTPUTS, inner)).zip(self.weights.chunks(q8::OUTPUTS * inner));
        for ((tiles, values), (scales, sums)) in
            groups.zip(scales.chunks_mut(q8::OUTPUTS).zip(sums.chunks_mut(q8::OUTPUTS)))
        {
            q8::pack(values, inner, tiles, scales, sums).expect("finite");
        }
        let weights = q8::Weights::new(tiles, scales, &sums, inner).expect("sizes that fit");
        let mut out = vec![f32::NAN; rows * outputs];
        q8::product(&q8::Inputs::new(self.rows(), twice, level), &[weights], Some(&self.bias), &mut out, level);
        out
    }

    /// Each value may be off by `share` of the root of the summed squares of what is added.
    #[track_caller]
    fn check(&self, found: &[f32], share: f64, what: &str) {
        let Expected { values, sizes } = self.expected();
        for (at, ((found, value), size)) in found.iter().zip(values).zip(sizes).enumerate() {
            let off = (f64::from(*found) - value).abs();
            assert!(off <= share * size + 1e-5, "{:?} {what}: value {at} is {found} instead of {value}", self.sizes);
        }
    }
}

const SIZES: [Sizes; 6] =
    [Sizes(1, 1, 1), Sizes(3, 16, 64), Sizes(5, 40, 100), Sizes(16, 33, 64), Sizes(33, 170, 700), Sizes(50, 64, 130)];

#[test]
fn products_of_f32_are_exact_to_rounding_at_every_level() {
    for case in SIZES.map(Case::new) {
        let Sizes(rows, outputs, inner) = case.sizes;
        for level in levels() {
            let mut out = vec![f32::NAN; rows * outputs];
            let read = |rows: std::ops::Range<usize>, to: &mut [f32]| {
                to.copy_from_slice(&case.weights[rows.start * inner..rows.end * inner]);
            };
            floats::product(case.rows(), &read, Some(&case.bias), &mut out, level);
            case.check(&out, 3e-6, level.name());
        }
    }
}

#[test]
fn products_of_8_bits_are_the_same_at_every_level() {
    for case in SIZES.map(Case::new) {
        for (twice, share) in [(q8::Twice::Outliers, 0.03), (q8::Twice::All, 0.02)] {
            let first = case.by_q8(twice, Level::Portable);
            case.check(&first, share, "portable");
            for level in levels() {
                assert_eq!(case.by_q8(twice, level), first, "{:?} by {}", case.sizes, level.name());
            }
        }
    }
}

#[test]
fn an_outlier_does_not_cost_the_other_values_their_precision() {
    for spike in [0, 77, 599] {
        let mut case = Case::new(Sizes(20, 48, 600));
        // Where the weights are zero the spike itself has no part in the product.
        for row in [0, 3, 19] {
            case.inputs[row * 600 + spike] = 1000.0;
        }
        case.weights.iter_mut().skip(spike).step_by(600).for_each(|it| *it = 0.0);
        for level in levels() {
            case.check(&case.by_q8(q8::Twice::Outliers, level), 0.04, level.name());
        }
    }
}

#[test]
fn rows_of_zeros_give_the_bias() {
    let mut case = Case::new(Sizes(17, 20, 64));
    case.inputs.fill(0.0);
    for twice in [q8::Twice::Outliers, q8::Twice::All] {
        for level in levels() {
            case.check(&case.by_q8(twice, level), 0.0, level.name());
        }
    }
}

#[test]
fn weights_that_are_not_finite_are_refused() {
    for bad in [f32::NAN, f32::INFINITY] {
        for at in [0, 40, 69] {
            let mut values = random(70, 1);
            values[at] = bad;
            let mut tiles = vec![0; q8::packed_size(1, 70)];
            assert_eq!(q8::pack(&values, 70, &mut tiles, &mut [0.0], &mut [0]), None, "{bad} at {at}");
        }
    }
}

#[test]
fn values_that_are_not_finite_show_in_every_product_of_their_row() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut case = Case::new(Sizes(3, 20, 130));
        case.inputs[130 + 7] = bad;
        for (twice, level) in levels().flat_map(|it| [(q8::Twice::Outliers, it), (q8::Twice::All, it)]) {
            let found = case.by_q8(twice, level);
            let rows: Vec<bool> = found.chunks(20).map(|row| row.iter().all(|it| it.is_finite())).collect();
            assert_eq!(rows, [true, false, true], "{bad} by {}", level.name());
            assert!(found[20..40].iter().all(|it| it.is_nan()), "{bad} by {}", level.name());
        }
    }
}

/// Queries, keys, width of a head, heads.
#[derive(Debug, Clone, Copy)]
struct Heads(usize, usize, usize, usize);

/// Attention of some heads by hand, in f64.
fn attended(Heads(queries, keys, width, heads): Heads, causal: bool, all: [&[f32]; 3]) -> Vec<f64> {
    let [query, key, value] = all;
    let product = |row: &[f32], at: usize| -> f64 {
        row.iter().zip(&key[at * width..]).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let mut out = Vec::new();
    for (at, row) in query.chunks(width).enumerate() {
        let seen = if causal { keys - queries + at / heads + 1 } else { keys };
        let weights: Vec<f64> = (0..seen).map(|at| (0.5 * product(row, at)).exp()).collect();
        let total: f64 = weights.iter().sum();
        out.extend((0..width).map(|column| {
            let weighted = weights.iter().enumerate().map(|(at, it)| it * f64::from(value[at * width + column]));
            weighted.sum::<f64>() / total
        }));
    }
    out
}

#[test]
fn attention_is_that_by_hand_at_every_level() {
    let sizes =
        [Heads(1, 1, 8, 1), Heads(5, 9, 16, 2), Heads(33, 33, 40, 1), Heads(70, 70, 72, 2), Heads(50, 97, 128, 3)];
    for (sizes, causal) in sizes.into_iter().flat_map(|it| [(it, true), (it, false)]) {
        let Heads(queries, keys, width, heads) = sizes;
        let all = [random(queries * heads * width, 1), random(keys * width, 2), random(keys * width, 3)];
        let expected = attended(sizes, causal, [&all[0], &all[1], &all[2]]);
        let rows = |values, count| Rows::new(values, count, width, width).expect("as many values");
        let firsts: Vec<usize> = (0..heads).map(|head| head * width).collect();
        let of_head = |first: &usize| Rows::new(&all[0][*first..], queries, width, heads * width).expect("as many");
        let of_heads: Vec<Rows> = firsts.iter().map(of_head).collect();
        for (level, narrow) in levels().map(|it| (it, false)).chain([(Level::Amx, true)]) {
            let mut out = vec![f32::NAN; queries * heads * width];
            let columns = share::Columns::new(&mut out, heads * width);
            let group = attention::Group {
                queries: &of_heads,
                keys: rows(&all[1], keys),
                values: rows(&all[2], keys),
                causal,
                scale: 0.5,
                narrow,
            };
            // SAFETY: nobody else knows of these values.
            unsafe { group.attend(&attention::Output { columns: &columns, row: 0, heads: &firsts }, level) };
            let tolerance = if narrow { 1e-2 } else { 2e-6 };
            for (at, (found, expected)) in out.iter().zip(&expected).enumerate() {
                let off = (f64::from(*found) - expected).abs();
                assert!(off <= tolerance, "{sizes:?} {} {narrow}: value {at} is {found}", level.name());
            }
        }
    }
}

#[test]
fn steps_between_products_are_the_same_at_every_level() {
    let (x, y, z) = (random(77, 1), random(77, 2), random(77, 3));
    type Step<'a> = (&'static str, &'a dyn Fn(Level, &mut [f32]));
    let steps: [Step; 6] = [
        ("swiglu", &|level, out| pointwise::swiglu(level, &x, &y, out)),
        ("gelu by tanh", &|level, out| pointwise::gelu_tanh_of(level, &x, out)),
        ("gelu by erf", &|level, out| pointwise::gelu_of(level, &x, out)),
        ("rms norm", &|level, out| pointwise::rms_norm(level, &x, &y, 1e-6, out)),
        ("layer norm", &|level, out| pointwise::layer_norm(level, &x, &y, &z, 1e-6, out)),
        ("sum", &|level, out| pointwise::add(level, &x, &y, out)),
    ];
    for (name, step) in steps {
        let by = |level| {
            let mut out = vec![f32::NAN; 77];
            step(level, &mut out);
            out
        };
        let first = by(Level::Portable);
        for level in levels() {
            for (found, expected) in by(level).iter().zip(&first) {
                assert!((found - expected).abs() <= 1e-6, "{name} by {}: {found} for {expected}", level.name());
            }
        }
    }
}
