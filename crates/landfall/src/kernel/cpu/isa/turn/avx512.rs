//! The transposition with AVX-512.

use crate::kernel::cpu::isa::{Isa, Simd};
use crate::values::{DType, Element};
use std::arch::x86_64::{
    __m512, _mm_loadu_ps, _mm_storeu_ps, _mm512_castpd_ps, _mm512_castps_pd, _mm512_castps128_ps512,
    _mm512_castps512_ps128, _mm512_extractf32x4_ps, _mm512_insertf32x4, _mm512_loadu_ps, _mm512_storeu_ps,
    _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};

/// Whether these elements are turned here.
pub(super) const fn takes<S: Simd, T: Element>() -> bool {
    matches!((S::ISA, T::DTYPE), (Isa::Avx512, DType::F32))
}

/// Transposes each of the four adjacent 4 x 4 blocks in four registers.
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

/// Whether four elements from each offset are within `len`.
#[inline(always)]
fn within(len: usize, at: &[usize; 16]) -> bool {
    let last = at.iter().fold(0, |last, &at| last.max(at));
    len >= 4 && last <= len - 4
}

/// [`lines`](super::lines). A register holds every fourth run, so that a block transposed in place is four adjacent elements of a
/// line.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn lines(x: &[f32], at: &[usize; 16]) -> [[f32; 16]; 4] {
    assert!(within(x.len(), at), "a run ends past the data");
    // SAFETY: all four elements lie within `x`, as was just asserted.
    let run = |l: usize| unsafe { _mm_loadu_ps(x.as_ptr().add(at[l])) };
    let every_fourth = |k: usize| {
        let r = _mm512_castps128_ps512(run(k));
        let r = _mm512_insertf32x4::<1>(r, run(k + 4));
        let r = _mm512_insertf32x4::<2>(r, run(k + 8));
        _mm512_insertf32x4::<3>(r, run(k + 12))
    };
    let turned = blocks([every_fourth(0), every_fourth(1), every_fourth(2), every_fourth(3)]);
    let mut out = [[0.0; 16]; 4];
    for (line, register) in out.iter_mut().zip(turned) {
        // SAFETY: a line is the sixteen elements that are written.
        unsafe { _mm512_storeu_ps(line.as_mut_ptr(), register) };
    }
    out
}

/// [`unlines`](super::unlines).
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn unlines(lines: &[[f32; 16]; 4], x: &mut [f32], at: &[usize; 16]) {
    assert!(within(x.len(), at), "a run ends past the data");
    // SAFETY: a line is the sixteen elements that are read.
    let line = |c: usize| unsafe { _mm512_loadu_ps(lines[c].as_ptr()) };
    for (k, r) in blocks([line(0), line(1), line(2), line(3)]).into_iter().enumerate() {
        let four = [
            _mm512_castps512_ps128(r),
            _mm512_extractf32x4_ps::<1>(r),
            _mm512_extractf32x4_ps::<2>(r),
            _mm512_extractf32x4_ps::<3>(r),
        ];
        for (g, run) in four.into_iter().enumerate() {
            // SAFETY: all four elements lie within `x`, as was asserted above.
            unsafe { _mm_storeu_ps(x.as_mut_ptr().add(at[k + 4 * g]), run) };
        }
    }
}
