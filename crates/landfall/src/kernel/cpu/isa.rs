//! Instruction sets: selected once per process; generic bodies are compiled once for each.
//!
//! A [`Kernel`] is ordinary generic Rust. [`dispatch`] calls its `run` from a function with the CPU's target features
//! enabled; because `run` is `#[inline(always)]`, its loops are compiled again there, with those features, and
//! vectorize to that width. No intrinsics are needed for pointwise work.
//!
//! Pointwise results are the same bytes on every instruction set: Rust never contracts `a * b + c` implicitly, and the
//! wider sets only change the number of elements per instruction. Code that needs a fused multiply-add calls
//! [`Simd::mul_add`] or [`Lanes::mul_add`], and then differs between sets that have one and the x86-64 baseline, which
//! has none.
//!
//! On other architectures than x86-64, [`Isa::Baseline`] is the one set: plain arrays, which the compiler maps to the
//! target's registers. 64-bit ARM fuses, so that its results are those of AVX2 and AVX-512.

mod lanes;
mod prefetch;
mod turn;

pub use lanes::{Lanes, Real};
pub use prefetch::{prefetch_read, prefetch_write, read_ahead, write_ahead};
use std::sync::OnceLock;

/// An instruction set that kernels are compiled for, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// The baseline of the target (SSE2 on x86-64, NEON on 64-bit ARM).
    Baseline,
    /// AVX2, FMA and F16C: 256-bit vectors.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, and FMA: 512-bit vectors.
    Avx512,
}

impl Isa {
    /// Every instruction set, narrowest first.
    pub const ALL: &'static [Self] = &[Self::Baseline, Self::Avx2, Self::Avx512];

    /// The set of this process: the widest of the CPU, or the one that `LANDFALL_ISA` names (`baseline`, `avx2`,
    /// `avx512`), limited to what the CPU supports. An unknown name is ignored.
    #[must_use]
    pub fn detect() -> Self {
        static CHOSEN: OnceLock<Isa> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let asked = std::env::var("LANDFALL_ISA").ok().and_then(|name| Self::parse(&name));
            asked.map_or(Self::widest(), |isa| isa.min(Self::widest()))
        })
    }

    /// The widest set of the CPU.
    #[must_use]
    pub fn widest() -> Self {
        static WIDEST: OnceLock<Isa> = OnceLock::new();
        *WIDEST.get_or_init(probe)
    }

    /// The sets that this CPU can run, narrowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|&isa| isa <= Self::widest())
    }

    /// Its name, as in `LANDFALL_ISA`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The set of this name, if there is one.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|isa| isa.name() == name)
    }

    /// Elements of `T` in one vector register.
    #[must_use]
    pub fn lanes<T: Real>(self) -> usize {
        match self {
            Self::Baseline => T::Lanes::<Baseline>::COUNT,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => T::Lanes::<Avx2>::COUNT,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => T::Lanes::<Avx512>::COUNT,
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => T::Lanes::<Baseline>::COUNT,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn probe() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx2, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        (false, _) => Isa::Baseline,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn probe() -> Isa {
    Isa::Baseline
}

/// Whether the target's baseline has a fused multiply-add, as every 64-bit ARM CPU does.
const BASELINE_FUSES: bool = cfg!(target_arch = "aarch64");

/// Proof that the CPU supports an instruction set: only [`dispatch`] makes one, after a CPU check.
///
/// # Safety
/// A value exists only if the CPU supports every instruction that the methods of `F32` and `F64` use.
pub unsafe trait Simd: Copy + Send + Sync + 'static {
    /// The set that this type stands for.
    const ISA: Isa;
    /// A vector register of `f32`.
    type F32: Lanes<f32>;
    /// A vector register of `f64`.
    type F64: Lanes<f64>;

    /// Whether the set has a fused multiply-add.
    const FUSES: bool = BASELINE_FUSES || !matches!(Self::ISA, Isa::Baseline);

    /// `a·b + c`: one rounding if the set has a fused multiply-add, else two. Vectorizes in loops.
    #[inline(always)]
    #[must_use]
    fn mul_add<A: Real>(self, a: A, b: A, c: A) -> A {
        if Self::FUSES { a.fused(b, c) } else { a.times(b).plus(c) }
    }
}

/// The [`Isa::Baseline`] proof.
#[derive(Debug, Clone, Copy)]
pub struct Baseline(());

// SAFETY: arrays need no instructions that the target lacks.
unsafe impl Simd for Baseline {
    const ISA: Isa = Isa::Baseline;
    type F32 = lanes::Array<f32, 4>;
    type F64 = lanes::Array<f64, 2>;
}

#[cfg(target_arch = "x86_64")]
macro_rules! instruction_set {
    ($name:ident, $f32:ident, $f64:ident, $run:ident, $features:literal) => {
        #[doc = concat!("The [`Isa::", stringify!($name), "`] proof.")]
        #[derive(Debug, Clone, Copy)]
        pub struct $name(());

        // SAFETY: the field is private, and the one function that fills it has the features.
        unsafe impl Simd for $name {
            const ISA: Isa = Isa::$name;
            type F32 = lanes::$f32;
            type F64 = lanes::$f64;
        }

        #[target_feature(enable = $features)]
        fn $run<K: Kernel>(kernel: K) -> K::Output {
            kernel.run($name(()))
        }
    };
}

#[cfg(target_arch = "x86_64")]
instruction_set!(Avx2, F32x8, F64x4, run_avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
instruction_set!(Avx512, F32x16, F64x8, run_avx512, "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");

/// A body that is compiled once for each instruction set.
///
/// [`vectorised`] takes a closure instead, for bodies that do not name vector registers.
pub trait Kernel {
    /// What it returns.
    type Output;
    /// The body. Implementors mark it `#[inline(always)]`, and everything hot that it calls too: only inlined code is
    /// compiled with the wider instructions.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Runs `kernel` compiled for the instruction set of this process.
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    dispatch_on(Isa::detect(), kernel)
}

/// Runs a closure compiled for the instruction set of this process. It must be written `#[inline(always)] || …`, and
/// its callees must be inlined too: the rest runs as compiled for the baseline, with the same result.
pub fn vectorised<R>(body: impl FnOnce() -> R) -> R {
    struct Body<F>(F);
    impl<R, F: FnOnce() -> R> Kernel for Body<F> {
        type Output = R;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> R {
            (self.0)()
        }
    }
    dispatch(Body(body))
}

/// Runs `kernel` compiled for `isa`, or for the widest instruction set of the CPU if that is narrower.
pub fn dispatch_on<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    match isa.min(Isa::widest()) {
        Isa::Baseline => kernel.run(Baseline(())),
        // SAFETY: `Isa::widest` has asked the CPU for every feature of this set.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { run_avx2(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { run_avx512(kernel) },
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => kernel.run(Baseline(())),
    }
}

#[cfg(test)]
mod tests;
