//! F1: kernels for the CPU. Which instructions there are is found out once, when the program runs.
//!
//! Everything here works on slices; tensors and models are unknown.

/// Compiles a function for each set of instructions and calls the best that `level` and the machine have.
macro_rules! by_level {
    ($(#[$doc:meta])* $visible:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? = $body:path) => {
        $(#[$doc])*
        $visible fn $name(level: $crate::device::cpu::Level, $($argument: $kind),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::device::cpu::Level;
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
                fn wide($($argument: $kind),*) $(-> $result)? {
                    $body($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn narrow($($argument: $kind),*) $(-> $result)? {
                    $body($($argument),*)
                }
                let level = level.min(Level::best());
                if level >= Level::Avx512 {
                    // SAFETY: the machine has the instructions.
                    return unsafe { wide($($argument),*) };
                }
                if level >= Level::Avx2 {
                    // SAFETY: as above.
                    return unsafe { narrow($($argument),*) };
                }
            }
            let _ = level;
            $body($($argument),*)
        }
    };
}

pub mod amx;
pub mod attention;
pub mod bf16;
pub mod floats;
pub mod pointwise;
pub mod q8;
pub mod rows;
pub mod share;

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

/// Instructions that the kernels know how to use; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What the target has for certain.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, VL and DQ.
    Avx512,
    /// The dot products of 8-bit integers of AVX-512 VNNI.
    Vnni,
    /// Tiles of 8-bit integers and bf16, which the system must permit.
    Amx,
}

impl Level {
    /// The best that this machine has.
    pub fn best() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(detect)
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Vnni => "avx512-vnni",
            Level::Amx => "amx",
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Portable
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        Level::Portable
    } else if !(is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq"))
    {
        Level::Avx2
    } else if !is_x86_feature_detected!("avx512vnni") {
        Level::Avx512
    } else if !amx::is_permitted() {
        Level::Vnni
    } else {
        Level::Amx
    }
}
