//! F1: inner products of stored rows with a query, by the widest instructions that the processor has. Knows nothing of scales.
//!
//! A scan is bound by memory, so what counts is that a row's bytes are used as they lie: 64 codes an instruction with AVX-512
//! VNNI. Without it codes are widened to 16 bits, as the 8-bit instruction of AVX2 saturates.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::codes::ZERO;

/// The kernels of one instruction set. Made by [`Self::detect`] alone, so that one is there only where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kernels(Set);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Kernels {
    /// The fastest kernels of this machine.
    pub fn detect() -> Self {
        Self::supported().next().unwrap_or(Kernels(Set::Portable))
    }

    /// All kernels of this machine, the fastest first.
    #[cfg(target_arch = "x86_64")]
    pub fn supported() -> impl Iterator<Item = Self> {
        let avx2 =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        let vnni = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni");
        [(vnni, Set::Vnni), (avx2, Set::Avx2), (true, Set::Portable)]
            .into_iter()
            .filter_map(|(there, set)| there.then_some(Kernels(set)))
    }

    /// All kernels of this machine: those that the compiler makes of plain loops.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn supported() -> impl Iterator<Item = Self> {
        std::iter::once(Kernels(Set::Portable))
    }

    /// `sum(row * (query - ZERO))`, exactly. If one is longer, its rest counts for nothing.
    pub fn dot_codes(self, row: &[u8], query: &[u8]) -> i32 {
        let length = row.len().min(query.len());
        let (row, query) = (&row[..length], &query[..length]);
        match self.0 {
            Set::Portable => portable::dot_codes(row, query),
            // SAFETY: a set is there only where `supported` has found its features.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { avx2::dot_codes(row, query) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Set::Vnni => unsafe { vnni::dot_codes(row, query) },
        }
    }

    /// Inner product of a row of little-endian 16-bit floats with a query. If one is longer, its rest counts for nothing.
    pub fn dot_halves(self, row: &[u8], query: &[f32]) -> f32 {
        let length = (row.len() / 2).min(query.len());
        let (row, query) = (&row[..2 * length], &query[..length]);
        match self.0 {
            Set::Portable => portable::dot_halves(row, query),
            // SAFETY: a set is there only where `supported` has found its features.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { avx2::dot_halves(row, query) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Set::Vnni => unsafe { vnni::dot_halves(row, query) },
        }
    }
}

mod portable {
    use super::{HalfFloatSliceExt, ZERO, f16};

    pub fn dot_codes(row: &[u8], query: &[u8]) -> i32 {
        row.iter().zip(query).map(|(&row, &query)| i32::from(row) * (i32::from(query) - i32::from(ZERO))).sum()
    }

    pub fn dot_halves(row: &[u8], query: &[f32]) -> f32 {
        const WIDTH: usize = 64;
        let (mut halves, mut floats, mut lanes) = ([f16::ZERO; WIDTH], [0f32; WIDTH], [0f32; 16]);
        for (bytes, query) in row.chunks(2 * WIDTH).zip(query.chunks(WIDTH)) {
            let count = (bytes.len() / 2).min(query.len());
            for (half, bytes) in halves[..count].iter_mut().zip(bytes.as_chunks().0) {
                *half = f16::from_le_bytes(*bytes);
            }
            halves[..count].convert_to_f32_slice(&mut floats[..count]);
            for (row, query) in floats[..count].chunks(lanes.len()).zip(query.chunks(lanes.len())) {
                for ((lane, row), query) in lanes.iter_mut().zip(row).zip(query) {
                    *lane += row * query;
                }
            }
        }
        lanes.iter().sum()
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{ZERO, portable};

    #[target_feature(enable = "avx2")]
    pub fn dot_codes(row: &[u8], query: &[u8]) -> i32 {
        let ((rows, row_rest), (queries, query_rest)) = (row.as_chunks::<32>(), query.as_chunks::<32>());
        let zero = _mm256_set1_epi16(i16::from(ZERO));
        let mut sums = [_mm256_setzero_si256(); 2];
        for (row, query) in rows.iter().zip(queries) {
            for (half, sum) in sums.iter_mut().enumerate() {
                // SAFETY: 16 bytes at 0 and at 16 of arrays of 32.
                let (row, query) = unsafe {
                    (
                        _mm_loadu_si128(row.as_ptr().add(16 * half).cast()),
                        _mm_loadu_si128(query.as_ptr().add(16 * half).cast()),
                    )
                };
                let query = _mm256_sub_epi16(_mm256_cvtepu8_epi16(query), zero);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_cvtepu8_epi16(row), query));
            }
        }
        let sum = _mm256_add_epi32(sums[0], sums[1]);
        let sum = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b00_00_11_10>(sum));
        let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b00_00_00_01>(sum));
        _mm_cvtsi128_si32(sum) + portable::dot_codes(row_rest, query_rest)
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub fn dot_halves(row: &[u8], query: &[f32]) -> f32 {
        let ((rows, row_rest), (queries, query_rest)) = (row.as_chunks::<64>(), query.as_chunks::<32>());
        let mut sums = [_mm256_setzero_ps(); 4];
        for (row, query) in rows.iter().zip(queries) {
            for (part, sum) in sums.iter_mut().enumerate() {
                // SAFETY: for part 0 to 3, 16 bytes at 16 * part of 64, and 8 floats at 8 * part of 32.
                let (row, query) = unsafe {
                    (_mm_loadu_si128(row.as_ptr().add(16 * part).cast()), _mm256_loadu_ps(query.as_ptr().add(8 * part)))
                };
                *sum = _mm256_fmadd_ps(_mm256_cvtph_ps(row), query, *sum);
            }
        }
        let sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
        let mut lanes = [0f32; 8];
        // SAFETY: 8 floats into an array of 8.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
        lanes.iter().sum::<f32>() + portable::dot_halves(row_rest, query_rest)
    }
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    use std::arch::x86_64::*;

    use super::{ZERO, portable};

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub fn dot_codes(row: &[u8], query: &[u8]) -> i32 {
        let ((rows, row_rest), (queries, query_rest)) = (row.as_chunks::<64>(), query.as_chunks::<64>());
        let ((row_pairs, last_row), (query_pairs, last_query)) = (rows.as_chunks::<2>(), queries.as_chunks::<2>());
        // Two sums, so that a product need not wait for the one before it.
        let (mut even, mut odd) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for (row, query) in row_pairs.iter().zip(query_pairs) {
            even = add_products(even, &row[0], &query[0]);
            odd = add_products(odd, &row[1], &query[1]);
        }
        for (row, query) in last_row.iter().zip(last_query) {
            even = add_products(even, row, query);
        }
        _mm512_reduce_add_epi32(_mm512_add_epi32(even, odd)) + portable::dot_codes(row_rest, query_rest)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn add_products(sum: __m512i, row: &[u8; 64], query: &[u8; 64]) -> __m512i {
        // SAFETY: 64 bytes of arrays of 64.
        let (row, query) =
            unsafe { (_mm512_loadu_si512(row.as_ptr().cast()), _mm512_loadu_si512(query.as_ptr().cast())) };
        // Flipping the sign bit of a code takes `ZERO` from it.
        _mm512_dpbusd_epi32(sum, row, _mm512_xor_si512(query, _mm512_set1_epi8(ZERO as i8)))
    }

    #[target_feature(enable = "avx512f")]
    pub fn dot_halves(row: &[u8], query: &[f32]) -> f32 {
        let ((rows, row_rest), (queries, query_rest)) = (row.as_chunks::<128>(), query.as_chunks::<64>());
        let mut sums = [_mm512_setzero_ps(); 4];
        for (row, query) in rows.iter().zip(queries) {
            for (part, sum) in sums.iter_mut().enumerate() {
                // SAFETY: for part 0 to 3, 32 bytes at 32 * part of 128, and 16 floats at 16 * part of 64.
                let (row, query) = unsafe {
                    (
                        _mm256_loadu_si256(row.as_ptr().add(32 * part).cast()),
                        _mm512_loadu_ps(query.as_ptr().add(16 * part)),
                    )
                };
                *sum = _mm512_fmadd_ps(_mm512_cvtph_ps(row), query, *sum);
            }
        }
        let sum = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
        _mm512_reduce_add_ps(sum) + portable::dot_halves(row_rest, query_rest)
    }
}

#[cfg(test)]
#[path = "kernels_tests.rs"]
mod tests;
