//! Placeholder until the elementary functions land.
use crate::Accumulate;
use std::ops::{Div, Neg};
pub(crate) trait Math: Accumulate + Div<Output = Self> + Neg<Output = Self> {
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn tanh(self) -> Self;
    fn erf(self) -> Self;
    fn sqrt(self) -> Self;
    fn recip(self) -> Self;
    fn rsqrt(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn abs(self) -> Self;
    fn max(self, o: Self) -> Self;
    fn min(self, o: Self) -> Self;
    fn normal_cdf(self) -> Self;
}
fn erf64(x: f64) -> f64 {
    let mut s = x;
    let mut t = x;
    let mut n = 0.0;
    if x.abs() > 5.0 {
        return x.signum();
    }
    while t.abs() > 1e-18 * s.abs() && n < 300.0 {
        n += 1.0;
        t *= -x * x / n;
        s += t / (2.0 * n + 1.0);
    }
    s * std::f64::consts::FRAC_2_SQRT_PI
}
macro_rules! m {
    ($t:ty) => {
        impl Math for $t {
            fn exp(self) -> Self {
                <$t>::exp(self)
            }
            fn ln(self) -> Self {
                <$t>::ln(self)
            }
            fn tanh(self) -> Self {
                <$t>::tanh(self)
            }
            fn erf(self) -> Self {
                erf64(self as f64) as $t
            }
            fn sqrt(self) -> Self {
                <$t>::sqrt(self)
            }
            fn recip(self) -> Self {
                1.0 / self
            }
            fn rsqrt(self) -> Self {
                1.0 / <$t>::sqrt(self)
            }
            fn sin(self) -> Self {
                <$t>::sin(self)
            }
            fn cos(self) -> Self {
                <$t>::cos(self)
            }
            fn abs(self) -> Self {
                <$t>::abs(self)
            }
            fn max(self, o: Self) -> Self {
                if self.is_nan() || o.is_nan() { <$t>::NAN } else { <$t>::max(self, o) }
            }
            fn min(self, o: Self) -> Self {
                if self.is_nan() || o.is_nan() { <$t>::NAN } else { <$t>::min(self, o) }
            }
            fn normal_cdf(self) -> Self {
                0.5 * (1.0 + erf64(self as f64 / 2f64.sqrt())) as $t
            }
        }
    };
}
m!(f32);
m!(f64);
