//! The functions in `f32`.

use super::{HALF_PI_1, HALF_PI_2, double};

kernels! {
    f32 as u32,
    exp_range -105.0, 89.0,
    tanh_max 10.0,
    cdf_max 15.0,
    ln2 0.693_145_75, 1.428_606_8e-6,
    expm1 [0.5, 0.16666542, 0.04166628, 0.008366645, 0.0013946543],
    log [0.66666776, 0.39977473, 0.29873735],
    mills 4.0, [
        0.75528514, -0.60789657, 0.3871369, -0.18652366, 0.06040349, -0.007524, -0.0035101993,
        0.0015684048, 0.0001746416, -0.00013420485,
    ],
}

/// Near 0 x + x·P(x²) (the 1 split off 2/√π ≈ 1.128 so that its rounding weighs less), else 1 − e^Q(|x|)
/// with Q ≈ ln erfc, which is smooth, and whose error is multiplied by erfc < ¼.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let z = x * x;
    let near =
        x + x * horner!(z, [0.12837917, -0.37612572, 0.112827174, -0.026802547, 0.005051095, -0.0006315129,]);
    // erf rounds to 1 from 3.92 on.
    let a = at_most(x.abs(), 4.0);
    // Q lies in [−18, 0]: no need for the care that `exp` takes at the ends of its range.
    let (r, t) = reduce_exp(horner!(
        a,
        [-0.00010453177, -1.1280609, -0.636519, -0.104525864, 0.022519017, -0.0031178426, 0.00020367533,]
    ));
    let far = 1.0 - power(t) * (1.0 + expm1_reduced(r));
    if a < 0.85 { near } else { far.copysign(x) }
}

/// x − n·π/2 and n, reduced in `f64`: as many operations as a reduction in four `f32` pieces, and it
/// serves a range 100 times as large.
#[inline(always)]
fn reduce(x: f32) -> (f32, u32) {
    let x = f64::from(x);
    let t = x * std::f64::consts::FRAC_2_PI + double::ROUNDER;
    let n = t - double::ROUNDER;
    let r = (x - n * HALF_PI_1) - n * HALF_PI_2;
    // Out of range r is arbitrary: the clamp keeps the polynomials within [−1, 1].
    (at_least(at_most(r as f32, 0.79), -0.79), t.to_bits() as u32)
}

/// Sine of r + n·π/2.
#[inline(always)]
fn wave(r: f32, n: u32) -> f32 {
    let z = r * r;
    // The sum turns −0 into +0, copysign back.
    let sine = (r + r * z * horner!(z, [-0.16666655, 0.008332173, -0.00019516649])).copysign(r);
    let cosine = 1.0 - (0.5 * z - z * z * horner!(z, [0.041666646, -0.001388731, 2.4432415e-05]));
    let value = if n & 1 == 0 { sine } else { cosine };
    f32::from_bits(value.to_bits() ^ ((n & 2) << 30))
}

#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    let (r, n) = reduce(x);
    wave(r, n)
}

#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    let (r, n) = reduce(x);
    wave(r, n.wrapping_add(1))
}

/// |x|^y = e^(y·ln|x|) in `f64`, whose 29 extra bits outweigh the factor of up to 128 by which the
/// exponential magnifies the logarithm's error.
#[inline(always)]
pub(super) fn pow(x: f32, y: f32) -> f32 {
    let wide = f64::from(y);
    let magnitude = double::exp(double::ln(f64::from(x.abs())) * wide) as f32;
    // |x| = 1 to ±∞ is 1, where the product above is 0·∞.
    let magnitude = if x.abs() == 1.0 && !y.is_nan() { 1.0 } else { magnitude };
    // Whether y is an integer, and an odd one: rounded to one it is unchanged. From 2^24 on all are even.
    let large = y.abs() >= 16_777_216.0;
    let t = wide + double::ROUNDER;
    let integer = large || t - double::ROUNDER == wide;
    let odd = !large && integer && t.to_bits() & 1 == 1;
    let signed = if odd { magnitude.copysign(x) } else { magnitude };
    let undefined = x < 0.0 && x != f32::NEG_INFINITY && !integer;
    let result = if undefined { f32::NAN } else { signed };
    if y == 0.0 || x == 1.0 { 1.0 } else { result }
}
