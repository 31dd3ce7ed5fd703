//! Numbers that are written in decimal digits, as the floats that are nearest to them.

use std::fmt;

/// A number `unscaled / 10^scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Decimal {
    unscaled: i128,
    scale: u32,
}

/// Most digits after the point: `5^scale`, doubled, fits 128 bits.
const MOST: u32 = 54;

impl Decimal {
    /// `None` for more than 54 digits after the point.
    pub(crate) fn new(unscaled: i128, scale: u32) -> Option<Self> {
        (scale <= MOST).then_some(Self { unscaled, scale })
    }

    /// Whether it is an integer from 0 on that is written without a point.
    pub(crate) fn is_count(self) -> bool {
        self.scale == 0 && self.unscaled >= 0
    }

    /// The nearest float; of two equally near ones the even one.
    pub(crate) fn value(self) -> f64 {
        let magnitude = nearest(self.unscaled.unsigned_abs(), self.scale);
        if self.unscaled < 0 { -magnitude } else { magnitude }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = self.scale as usize;
        let digits = format!("{:0>1$}", self.unscaled.unsigned_abs(), scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let (sign, point) = (if self.unscaled < 0 { "-" } else { "" }, if scale > 0 { "." } else { "" });
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

/// The float nearest to `magnitude / 10^scale`, for at most [`MOST`] digits after the point.
fn nearest(magnitude: u128, scale: u32) -> f64 {
    // Powers of ten up to 10^22 are floats, and a quotient of two floats is rounded once.
    if magnitude < 1 << 53 && scale <= 22 {
        return magnitude as f64 / 10_u128.pow(scale) as f64;
    }
    let divisor = 5_u128.pow(scale);
    let (mut quotient, mut rest, mut shift) = (magnitude / divisor, magnitude % divisor, scale);
    // Long division in base 2, to more digits than a float has; the last one says whether others follow.
    while rest > 0 && quotient < 1 << 63 {
        rest *= 2;
        quotient = quotient * 2 + u128::from(rest >= divisor);
        rest %= divisor;
        shift += 1;
    }
    let rounded = (quotient | u128::from(rest > 0)) as f64;
    rounded * 0.5_f64.powi(i32::try_from(shift).unwrap_or(i32::MAX))
}

/// The number of the fewest decimal digits that are this f32 and no other: 0.1 for `0.1_f32`, whose own value is
/// 0.100000001490116. So a column of f32 is what it is in a CSV.
pub(crate) fn shortest(x: f32) -> f64 {
    let magnitude = f64::from(x.abs());
    if x == 0.0 || !x.is_finite() {
        return f64::from(x);
    }
    let first = magnitude.log10().floor() as i32;
    // Nine digits tell each f32 from its neighbours; one more in case the logarithm is rounded up.
    let found = (0..10).find_map(|digits| {
        let last = first - digits;
        let unit = 10_f64.powi(last.abs());
        let scaled = if last < 0 { magnitude * unit } else { magnitude / unit };
        let [below, above] = [scaled.floor(), scaled.floor() + 1.0].map(|n| written(n as u128, last));
        // The nearer one first, of equally near ones the upper; the other may be this f32 alone beside a power of two.
        let ordered = if scaled.fract() < 0.5 { [below, above] } else { [above, below] };
        ordered.into_iter().find(|v| *v as f32 == x.abs())
    });
    let magnitude = found.unwrap_or(magnitude);
    if x < 0.0 { -magnitude } else { magnitude }
}

/// The float nearest to `digits · 10^last`.
fn written(digits: u128, last: i32) -> f64 {
    match u32::try_from(last) {
        Ok(zeros) => digits.saturating_mul(10_u128.pow(zeros)) as f64,
        Err(_) => nearest(digits, last.unsigned_abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits that look random: a multiplicative generator modulo 2^64.
    fn bits(n: usize) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |x| {
            Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        })
        .map(|x| x ^ (x >> 29))
        .take(n)
    }

    #[test]
    fn a_decimal_is_read_as_its_digits_are() {
        let wide = bits(60_000).map(|b| i128::from(b as i64) * i128::from(b >> 3));
        let some = bits(60_000).map(|b| i128::from(b as i64 >> (b % 60)));
        let ends = [0, 1, -1, i128::MAX, i128::MIN, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, 5];
        for (i, unscaled) in wide.chain(some).chain(ends).enumerate() {
            for scale in [0, i as u32 % 55, 54] {
                let decimal = Decimal::new(unscaled, scale).expect("few digits");
                let read: f64 = decimal.to_string().parse().expect("digits");
                assert_eq!(decimal.value().to_bits(), read.to_bits(), "{decimal}");
            }
        }
        assert_eq!(Decimal::new(1, 55), None);
        let text = |unscaled, scale| Decimal::new(unscaled, scale).map(|d| d.to_string());
        assert_eq!(text(-5, 2).as_deref(), Some("-0.05"));
        assert_eq!(text(150, 2).as_deref(), Some("1.50"));
        assert_eq!(text(7, 0).as_deref(), Some("7"));
    }

    #[test]
    fn an_f32_is_the_number_of_its_shortest_digits() {
        let near = |x: f32| [x.next_down(), x, x.next_up()];
        let twos = (-149..128).flat_map(|e| near(2_f32.powi(e)));
        let tens = (-45..39).flat_map(|e| near(format!("1e{e}").parse().expect("a number")));
        let all = bits(300_000).map(|b| f32::from_bits((b >> 16) as u32));
        for x in twos.chain(tens).chain(all).chain([0.0, -0.0, f32::MAX, f32::MIN, 0.1, 16_777_216.0]) {
            if x.is_nan() {
                assert!(shortest(x).is_nan());
                continue;
            }
            let read: f64 = format!("{x:?}").parse().expect("a number");
            assert_eq!(shortest(x).to_bits(), read.to_bits(), "{x:?}");
        }
    }
}
