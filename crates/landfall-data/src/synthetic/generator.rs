//! Random numbers that are the same on every platform.

/// Splitmix64: one 64-bit state, every state visited once.
#[derive(Debug, Clone)]
pub(super) struct Generator {
    state: u64,
    /// The polar method yields normal values in pairs.
    spare: Option<f64>,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed, spare: None }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// U(0, 1) in steps of 2⁻⁵³.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of 0, 1, …, n − 1, equally likely but for 2⁻⁵³.
    pub(super) fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// N(0, 1) by Marsaglia's polar method.
    pub(super) fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare.take() {
            return value;
        }
        let ([x, y], square) = self.inside();
        let factor = factor(square);
        self.spare = Some(y * factor);
        x * factor
    }

    /// The values that [`Generator::normal`] would give one by one; the factors of some pairs are found at once, for that
    /// vectorises.
    pub(super) fn normals(&mut self, values: &mut [f64]) {
        const PAIRS: usize = 4;
        let spare = usize::from(self.spare.is_some()).min(values.len());
        let (before, values) = values.split_at_mut(spare);
        before.fill_with(|| self.normal());
        for values in values.chunks_mut(2 * PAIRS) {
            let (mut points, mut squares) = ([[0.0; 2]; PAIRS], [1.0; PAIRS]);
            for (point, square) in points.iter_mut().zip(&mut squares).take(values.len().div_ceil(2)) {
                (*point, *square) = self.inside();
            }
            let factors = squares.map(factor);
            for ((pair, [x, y]), factor) in values.chunks_mut(2).zip(points).zip(factors) {
                match pair {
                    [first, second] => (*first, *second) = (x * factor, y * factor),
                    last => (last[0], self.spare) = (x * factor, Some(y * factor)),
                }
            }
        }
    }

    /// A point within the unit circle and the square of its distance from the centre, which it is not.
    fn inside(&mut self) -> ([f64; 2], f64) {
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return ([x, y], square);
            }
        }
    }
}

/// What makes the coordinates of a point within the circle normal values.
// Inlined, it vectorises.
#[inline(always)]
fn factor(square: f64) -> f64 {
    (-2.0 * ln(square) / square).sqrt()
}

/// Natural logarithm of a positive normal number: exponent and mantissa apart, the mantissa, within
/// √2 of 1, by the series of 2·atanh((m − 1)/(m + 1)), whose 12 terms reach the last digit.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = f64::from((bits >> 52) as i32) - 1023.0;
    let mut mantissa = f64::from_bits((bits & MANTISSA) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let series = (0..12).rev().fold(0.0, |sum, k| sum * z * z + 1.0 / f64::from(2 * k + 1));
    exponent * std::f64::consts::LN_2 + 2.0 * z * series
}

/// Above this many values a size is a mistake, not a demonstration.
pub(super) const MAX_VALUES: usize = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // First outputs of the published reference for seed 1234567.
        let mut generator = Generator::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(std::array::from_fn(|_| generator.next()), expected);
    }

    #[test]
    fn logarithms_are_exact_to_the_last_digits() {
        for x in [1e-300, 1e-9, 0.1, 0.5, 0.708, 0.75, 0.999_999, 1.0, 1.414, 3.0] {
            assert!((ln(x) - f64::ln(x)).abs() <= 4e-16 * f64::ln(x).abs(), "{x}: {} {}", ln(x), x.ln());
        }
    }

    #[test]
    fn normal_values_are_the_same_together_as_one_by_one() {
        let (mut one, mut together) = (Generator::new(7), Generator::new(7));
        for count in (0..40).chain([1000]) {
            let mut values = vec![f64::NAN; count];
            together.normals(&mut values);
            let expected: Vec<f64> = (0..count).map(|_| one.normal()).collect();
            assert_eq!(values, expected, "{count}");
            assert_eq!(together.uniform(), one.uniform(), "{count}");
        }
    }
}
