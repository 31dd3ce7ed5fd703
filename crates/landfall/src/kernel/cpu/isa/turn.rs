//! Transposes sixteen runs of four elements to four lines of sixteen, and back. Compilers turn the plain loops into one
//! move per element; with AVX-512 it is eight register shuffles.

#[cfg(target_arch = "x86_64")]
mod avx512;

use super::{Real, Simd};
use crate::values::Element;

/// `out[c][l] = x[at[l] + c]`.
#[inline(always)]
pub(super) fn lines<S: Simd, T: Element<Acc: Real>>(_: S, x: &[T], at: &[usize; 16]) -> [[T::Acc; 16]; 4] {
    std::array::from_fn(|c| std::array::from_fn(|l| x[at[l] + c].widen()))
}

/// `x[at[l] + c] = lines[c][l]`, rounded.
#[inline(always)]
pub(super) fn unlines<S: Simd, T: Element<Acc: Real>>(
    _: S,
    lines: &[[T::Acc; 16]; 4],
    x: &mut [T],
    at: &[usize; 16],
) {
    for (l, &at) in at.iter().enumerate() {
        for (c, x) in x[at..at + 4].iter_mut().enumerate() {
            *x = T::narrow(lines[c][l]);
        }
    }
}

/// [`lines`] in the accumulation dtype `f32`.
#[inline(always)]
pub(super) fn single_lines<S: Simd, T: Element<Acc = f32>>(
    simd: S,
    x: &[T],
    at: &[usize; 16],
) -> [[f32; 16]; 4] {
    #[cfg(target_arch = "x86_64")]
    if avx512::takes::<S, T>() {
        // SAFETY: a value of `S` is the proof that the CPU has this set.
        return unsafe { avx512::lines(bytemuck::cast_slice(x), at) };
    }
    lines(simd, x, at)
}

/// [`unlines`] of the accumulation dtype `f32`.
#[inline(always)]
pub(super) fn single_unlines<S: Simd, T: Element<Acc = f32>>(
    simd: S,
    lines: &[[f32; 16]; 4],
    x: &mut [T],
    at: &[usize; 16],
) {
    #[cfg(target_arch = "x86_64")]
    if avx512::takes::<S, T>() {
        // SAFETY: as above.
        return unsafe { avx512::unlines(lines, bytemuck::cast_slice_mut(x), at) };
    }
    unlines(simd, lines, x, at);
}
