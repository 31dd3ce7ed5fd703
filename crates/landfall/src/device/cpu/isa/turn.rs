//! Turning sixteen pieces of four elements into four lines of sixteen, and back. Compilers make of the plain loops an
//! element's move at a time; with AVX-512 it is eight shuffles of whole registers.

use super::{Isa, Simd};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m512, _mm_loadu_ps, _mm_storeu_ps, _mm512_castpd_ps, _mm512_castps_pd, _mm512_castps128_ps512,
    _mm512_castps512_ps128, _mm512_extractf32x4_ps, _mm512_insertf32x4, _mm512_loadu_ps, _mm512_storeu_ps,
    _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};

/// `out[c][l] = x[l][c]`.
#[inline(always)]
pub(super) fn lines<S: Simd, T: Copy>(_: S, x: &[[T; 4]; 16]) -> [[T; 16]; 4] {
    std::array::from_fn(|c| std::array::from_fn(|l| x[l][c]))
}

/// `out[l][c] = x[c][l]`.
#[inline(always)]
pub(super) fn pieces<S: Simd, T: Copy>(_: S, x: &[[T; 16]; 4]) -> [[T; 4]; 16] {
    std::array::from_fn(|l| std::array::from_fn(|c| x[c][l]))
}

/// [`lines`] of `f32`.
#[inline(always)]
pub(super) fn single_lines<S: Simd>(simd: S, x: &[[f32; 4]; 16]) -> [[f32; 16]; 4] {
    #[cfg(target_arch = "x86_64")]
    if S::ISA == Isa::Avx512 {
        // SAFETY: `simd` is the proof that the CPU has this set.
        return unsafe { lines_avx512(x) };
    }
    lines(simd, x)
}

/// [`pieces`] of `f32`.
#[inline(always)]
pub(super) fn single_pieces<S: Simd>(simd: S, x: &[[f32; 16]; 4]) -> [[f32; 4]; 16] {
    #[cfg(target_arch = "x86_64")]
    if S::ISA == Isa::Avx512 {
        // SAFETY: as above.
        return unsafe { pieces_avx512(x) };
    }
    pieces(simd, x)
}

/// Turns each of the four blocks of four that lie side by side in four registers.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn blocks([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
    let (low, high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let (low_2, high_2) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    let [low, high, low_2, high_2] =
        [_mm512_castps_pd(low), _mm512_castps_pd(high), _mm512_castps_pd(low_2), _mm512_castps_pd(high_2)];
    [
        _mm512_castpd_ps(_mm512_unpacklo_pd(low, low_2)),
        _mm512_castpd_ps(_mm512_unpackhi_pd(low, low_2)),
        _mm512_castpd_ps(_mm512_unpacklo_pd(high, high_2)),
        _mm512_castpd_ps(_mm512_unpackhi_pd(high, high_2)),
    ]
}

/// [`lines`]. A register holds every fourth piece, so that a block turned in place is four neighbours of a line.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn lines_avx512(x: &[[f32; 4]; 16]) -> [[f32; 16]; 4] {
    // SAFETY: a piece is the four elements that are read.
    let piece = |l: usize| unsafe { _mm_loadu_ps(x[l].as_ptr()) };
    let every_fourth = |k: usize| {
        let r = _mm512_castps128_ps512(piece(k));
        let r = _mm512_insertf32x4::<1>(r, piece(k + 4));
        let r = _mm512_insertf32x4::<2>(r, piece(k + 8));
        _mm512_insertf32x4::<3>(r, piece(k + 12))
    };
    let turned = blocks([every_fourth(0), every_fourth(1), every_fourth(2), every_fourth(3)]);
    let mut out = [[0.0; 16]; 4];
    for (line, register) in out.iter_mut().zip(turned) {
        // SAFETY: a line is the sixteen elements that are written.
        unsafe { _mm512_storeu_ps(line.as_mut_ptr(), register) };
    }
    out
}

/// [`pieces`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn pieces_avx512(x: &[[f32; 16]; 4]) -> [[f32; 4]; 16] {
    // SAFETY: a line is the sixteen elements that are read.
    let line = |c: usize| unsafe { _mm512_loadu_ps(x[c].as_ptr()) };
    let mut out = [[0.0; 4]; 16];
    for (k, r) in blocks([line(0), line(1), line(2), line(3)]).into_iter().enumerate() {
        let four = [
            _mm512_castps512_ps128(r),
            _mm512_extractf32x4_ps::<1>(r),
            _mm512_extractf32x4_ps::<2>(r),
            _mm512_extractf32x4_ps::<3>(r),
        ];
        for (g, piece) in four.into_iter().enumerate() {
            // SAFETY: a piece is the four elements that are written.
            unsafe { _mm_storeu_ps(out[k + 4 * g].as_mut_ptr(), piece) };
        }
    }
    out
}
