//! Vector registers of `f32` and `f64`, for GEMM, the only kernel that must allocate registers itself.

use super::{BASELINE_FUSES, Simd, turn};
use crate::values::{Accumulate, Element};
use std::fmt;

/// A vector element type: `f32` or `f64`.
pub trait Real: Accumulate {
    /// Its register on an instruction set.
    type Lanes<S: Simd>: Lanes<Self>;
    /// One.
    const ONE: Self;
    /// `self * rhs`, rounded.
    #[must_use]
    fn times(self, rhs: Self) -> Self;
    /// `self + rhs`, rounded.
    #[must_use]
    fn plus(self, rhs: Self) -> Self;
    /// `self * rhs + addend`, rounded once: one call per element if the CPU has no instruction for it.
    #[must_use]
    fn fused(self, rhs: Self, addend: Self) -> Self;
    /// `out[c][l] = x[at[l] + c]`: transposes sixteen runs of four elements to four lines.
    #[must_use]
    fn lines<S: Simd, T: Element<Acc = Self>>(simd: S, x: &[T], at: &[usize; 16]) -> [[Self; 16]; 4];
    /// `x[at[l] + c] = lines[c][l]`, rounded: the inverse of [`lines`](Self::lines).
    fn unlines<S: Simd, T: Element<Acc = Self>>(
        simd: S,
        lines: &[[Self; 16]; 4],
        x: &mut [T],
        at: &[usize; 16],
    );
}

macro_rules! real {
    ($ty:ident, $lanes:ident, $lines:path, $unlines:path) => {
        impl Real for $ty {
            type Lanes<S: Simd> = S::$lanes;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn times(self, rhs: Self) -> Self {
                self * rhs
            }
            #[inline(always)]
            fn plus(self, rhs: Self) -> Self {
                self + rhs
            }
            #[inline(always)]
            fn fused(self, rhs: Self, addend: Self) -> Self {
                self.mul_add(rhs, addend)
            }
            #[inline(always)]
            fn lines<S: Simd, T: Element<Acc = Self>>(simd: S, x: &[T], at: &[usize; 16]) -> [[Self; 16]; 4] {
                $lines(simd, x, at)
            }
            #[inline(always)]
            fn unlines<S: Simd, T: Element<Acc = Self>>(
                simd: S,
                lines: &[[Self; 16]; 4],
                x: &mut [T],
                at: &[usize; 16],
            ) {
                $unlines(simd, lines, x, at);
            }
        }
    };
}
real!(f32, F32, turn::single_lines, turn::single_unlines);
real!(f64, F64, turn::lines, turn::unlines);

/// A vector register.
///
/// # Safety
/// `load` and `store` touch `COUNT` elements and no more, and `COUNT` is at most 16.
pub unsafe trait Lanes<T>: Copy + fmt::Debug {
    /// Elements in it.
    const COUNT: usize;
    /// `value` in every lane.
    ///
    /// # Safety
    /// The CPU has the instruction set.
    unsafe fn splat(value: T) -> Self;
    /// Reads `COUNT` elements.
    ///
    /// # Safety
    /// The CPU has the instruction set, and `COUNT` elements at `source` may be read. No alignment is asked for.
    unsafe fn load(source: *const T) -> Self;
    /// Writes `COUNT` elements.
    ///
    /// # Safety
    /// The CPU has the instruction set, and `COUNT` elements at `target` may be written. No alignment is asked for.
    unsafe fn store(self, target: *mut T);
    /// `self + rhs`, rounded.
    ///
    /// # Safety
    /// The CPU has the instruction set.
    unsafe fn add(self, rhs: Self) -> Self;
    /// `self * rhs`, rounded.
    ///
    /// # Safety
    /// The CPU has the instruction set.
    unsafe fn mul(self, rhs: Self) -> Self;
    /// `self * rhs + addend`: one rounding where the set has a fused multiply-add, else two.
    ///
    /// # Safety
    /// The CPU has the instruction set.
    unsafe fn mul_add(self, rhs: Self, addend: Self) -> Self;
}

/// A register as an array, which the compiler maps to the target's registers.
#[derive(Debug, Clone, Copy)]
pub struct Array<T, const N: usize>([T; N]);

// SAFETY: `N` elements are read and written, and more than 16 do not compile.
unsafe impl<T: Real, const N: usize> Lanes<T> for Array<T, N> {
    const COUNT: usize = {
        assert!(N <= 16, "wider than any register");
        N
    };
    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Self([value; N])
    }
    #[inline(always)]
    unsafe fn load(source: *const T) -> Self {
        // SAFETY: the caller's contract; an array is read as its elements, at any address.
        Self(unsafe { source.cast::<[T; N]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, target: *mut T) {
        // SAFETY: the caller's contract.
        unsafe { target.cast::<[T; N]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, rhs: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].plus(rhs.0[i])))
    }
    #[inline(always)]
    unsafe fn mul(self, rhs: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].times(rhs.0[i])))
    }
    #[inline(always)]
    unsafe fn mul_add(self, rhs: Self, addend: Self) -> Self {
        // Without the instruction, a fused one is a libm call per lane.
        Self(std::array::from_fn(|i| match BASELINE_FUSES {
            true => self.0[i].fused(rhs.0[i], addend.0[i]),
            false => self.0[i].times(rhs.0[i]).plus(addend.0[i]),
        }))
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! register {
    ($name:ident, $ty:ident, $count:literal, $raw:ident: $splat:ident $load:ident $store:ident $add:ident $mul:ident $fma:ident) => {
        #[doc = concat!(stringify!($count), " lanes of `", stringify!($ty), "`.")]
        #[derive(Debug, Clone, Copy)]
        pub struct $name(std::arch::x86_64::$raw);

        // SAFETY: the instructions move a whole register, of `$count` elements.
        unsafe impl Lanes<$ty> for $name {
            const COUNT: usize = $count;
            #[inline(always)]
            unsafe fn splat(value: $ty) -> Self {
                // SAFETY: the caller's contract, here and in each method below.
                Self(unsafe { std::arch::x86_64::$splat(value) })
            }
            #[inline(always)]
            unsafe fn load(source: *const $ty) -> Self {
                // SAFETY: as above.
                Self(unsafe { std::arch::x86_64::$load(source) })
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $ty) {
                // SAFETY: as above.
                unsafe { std::arch::x86_64::$store(target, self.0) }
            }
            #[inline(always)]
            unsafe fn add(self, rhs: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { std::arch::x86_64::$add(self.0, rhs.0) })
            }
            #[inline(always)]
            unsafe fn mul(self, rhs: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { std::arch::x86_64::$mul(self.0, rhs.0) })
            }
            #[inline(always)]
            unsafe fn mul_add(self, rhs: Self, addend: Self) -> Self {
                // SAFETY: as above.
                Self(unsafe { std::arch::x86_64::$fma(self.0, rhs.0, addend.0) })
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
register!(F32x8, f32, 8, __m256: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_add_ps _mm256_mul_ps _mm256_fmadd_ps);
#[cfg(target_arch = "x86_64")]
register!(F64x4, f64, 4, __m256d: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_add_pd _mm256_mul_pd _mm256_fmadd_pd);
#[cfg(target_arch = "x86_64")]
register!(F32x16, f32, 16, __m512: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_add_ps _mm512_mul_ps _mm512_fmadd_ps);
#[cfg(target_arch = "x86_64")]
register!(F64x8, f64, 8, __m512d: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_add_pd _mm512_mul_pd _mm512_fmadd_pd);
