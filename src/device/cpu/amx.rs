//! F1: tiles of the processor (AMX): products of 16 x 64 bytes by 64 x 16 bytes. Assembly, because the intrinsics are not stable.
//!
//! The tile registers are not among those that the compiler uses, so that they keep their contents from one piece of assembly to the next;
//! [`Tiles`] configures them for a thread and gives them back.

/// Whether the processor has tiles of 8-bit integers and of bf16, and the system lets this process use them.
#[cfg(target_arch = "x86_64")]
pub fn is_permitted() -> bool {
    use std::arch::x86_64::__cpuid_count;
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    let features = __cpuid_count(7, 0).edx;
    features & (BF16 | TILE | INT8) == BF16 | TILE | INT8 && ask()
}

/// Linux gives a process the room for tile registers only when it asks for it.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn ask() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_ulong = 18;
    // SAFETY: the call reads its two numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn ask() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Tiles, bf16_2x2, u8i8_1x2, u8i8_2x2};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::marker::PhantomData;

    /// All eight tiles of a thread as 16 rows of 64 bytes, until it is dropped. It stays on its thread.
    pub struct Tiles(PhantomData<*const ()>);

    #[repr(C, align(64))]
    struct Configuration {
        palette: u8,
        start_row: u8,
        reserved: [u8; 14],
        bytes_a_row: [u16; 16],
        rows: [u8; 16],
    }

    static FULL: Configuration = Configuration {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        bytes_a_row: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    };

    impl Tiles {
        /// # Safety
        /// [`super::is_permitted`] has said yes, and this thread has no other: the first to go would take the tiles of both.
        pub unsafe fn new() -> Self {
            // SAFETY: the configuration is a valid one of 64 bytes.
            unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const FULL, options(nostack, preserves_flags)) };
            Tiles(PhantomData)
        }
    }

    impl Drop for Tiles {
        fn drop(&mut self) {
            // SAFETY: there is a `Tiles`, and so there are tiles.
            unsafe { asm!("tilerelease", options(nostack, preserves_flags)) };
        }
    }

    macro_rules! two_by_two {
        ($(#[$doc:meta])* $name:ident, $value:ty, $dot:literal) => {
            $(#[$doc])*
            ///
            /// `stride` is the distance of the rows of a tile of `a`, `step` that of its tiles; those of `b` lie one after the other.
            /// `c` is 2 x 2 tiles of 16 x 16.
            ///
            /// # Safety
            /// A `Tiles` is alive on this thread, and the pointers have what `count` tiles need, of which there is one at least.
            pub unsafe fn $name(
                a: [*const u8; 2],
                stride: usize,
                step: usize,
                b: [*const u8; 2],
                count: usize,
                c: &mut [[$value; 256]; 4],
                _tiles: &Tiles,
            ) {
                debug_assert!(count > 0, "a product of nothing");
                // SAFETY: reads and writes what the contract says is there.
                unsafe {
                    asm!(
                        "tilezero tmm0",
                        "tilezero tmm1",
                        "tilezero tmm2",
                        "tilezero tmm3",
                        "2:",
                        "tileloadd tmm6, [{b0} + {row}*1]",
                        "tileloadd tmm4, [{a0} + {stride}*1]",
                        concat!($dot, " tmm0, tmm4, tmm6"),
                        "tileloadd tmm7, [{b1} + {row}*1]",
                        concat!($dot, " tmm1, tmm4, tmm7"),
                        "tileloadd tmm5, [{a1} + {stride}*1]",
                        concat!($dot, " tmm2, tmm5, tmm6"),
                        concat!($dot, " tmm3, tmm5, tmm7"),
                        "add {a0}, {step}",
                        "add {a1}, {step}",
                        "add {b0}, 1024",
                        "add {b1}, 1024",
                        "dec {count}",
                        "jnz 2b",
                        "tilestored [{c} + {row}*1], tmm0",
                        "tilestored [{c} + {row}*1 + 1024], tmm1",
                        "tilestored [{c} + {row}*1 + 2048], tmm2",
                        "tilestored [{c} + {row}*1 + 3072], tmm3",
                        a0 = inout(reg) a[0] => _,
                        a1 = inout(reg) a[1] => _,
                        b0 = inout(reg) b[0] => _,
                        b1 = inout(reg) b[1] => _,
                        count = inout(reg) count => _,
                        c = in(reg) c.as_mut_ptr(),
                        stride = in(reg) stride,
                        step = in(reg) step,
                        row = in(reg) 64usize,
                        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                        out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                        options(nostack),
                    );
                }
            }
        };
    }

    two_by_two!(
        /// Products of unsigned by signed bytes in 32-bit integers.
        u8i8_2x2, i32, "tdpbusd"
    );
    two_by_two!(
        /// Products of bf16 in f32.
        bf16_2x2, f32, "tdpbf16ps"
    );

    /// As [`u8i8_2x2`] for one tile of rows.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn u8i8_1x2(a: *const u8, b: [*const u8; 2], count: usize, c: &mut [[i32; 256]; 4], _tiles: &Tiles) {
        // SAFETY: reads and writes what the contract says is there.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "2:",
                "tileloadd tmm4, [{a0} + {row}*1]",
                "tileloadd tmm6, [{b0} + {row}*1]",
                "tdpbusd tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b1} + {row}*1]",
                "tdpbusd tmm1, tmm4, tmm7",
                "add {a0}, 1024",
                "add {b0}, 1024",
                "add {b1}, 1024",
                "dec {count}",
                "jnz 2b",
                "tilestored [{c} + {row}*1], tmm0",
                "tilestored [{c} + {row}*1 + 1024], tmm1",
                a0 = inout(reg) a => _,
                b0 = inout(reg) b[0] => _,
                b1 = inout(reg) b[1] => _,
                count = inout(reg) count => _,
                c = in(reg) c.as_mut_ptr(),
                row = in(reg) 64usize,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}
