//! Random draws, the same for a seed: xoshiro256++, ziggurat normals and the functions of `libm`.

use rand_distr::{Distribution, Gamma, Poisson, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of draws.
#[derive(Debug, Clone)]
pub(crate) struct Draws(Xoshiro256PlusPlus);

impl Draws {
    /// The stream of one part of one series: another part, number or seed gives another one.
    pub(crate) fn new(seed: u64, number: u64, part: u64) -> Self {
        // One word after the other, so that seed and number do not commute.
        let mixed = [number, part].into_iter().fold(mix(seed), |state, word| mix(state ^ word));
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// U(0, 1) in steps of 2⁻⁵³.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// U(low, high).
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// exp U(ln low, ln high), of positive bounds.
    pub(crate) fn log_between(&mut self, low: f64, high: f64) -> f64 {
        libm::exp(self.between(libm::log(low), libm::log(high)))
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// −1 or 1.
    pub(crate) fn sign(&mut self) -> f64 {
        if self.chance(0.5) { 1.0 } else { -1.0 }
    }

    /// One of 0, 1, …, n − 1.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// A place of a table, as often as its weight says; 0 where no weight is positive.
    pub(crate) fn choose(&mut self, weights: &[f64]) -> usize {
        let mut left = self.uniform() * weights.iter().sum::<f64>();
        for (at, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return at;
            }
        }
        weights.iter().rposition(|w| *w > 0.0).unwrap_or(0)
    }

    /// N(0, 1).
    pub(crate) fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// Γ(shape, 1) of mean `shape`; 0 where the shape is not positive.
    pub(crate) fn gamma(&mut self, shape: f64) -> f64 {
        Gamma::new(shape, 1.0).map_or(0.0, |gamma| gamma.sample(&mut self.0))
    }

    /// Student's t with `df` degrees of freedom.
    pub(crate) fn student(&mut self, df: f64) -> f64 {
        let square = 2.0 * self.gamma(0.5 * df) / df;
        self.normal() / libm::sqrt(square.max(1e-6))
    }

    /// Poisson of this rate; 0 where the rate is not positive.
    pub(crate) fn poisson(&mut self, rate: f64) -> f64 {
        Poisson::new(rate.min(1e9)).map_or(0.0, |poisson| poisson.sample(&mut self.0))
    }

    /// Negative binomial: a Poisson whose rate is Γ-distributed with this mean and shape.
    pub(crate) fn negative_binomial(&mut self, mean: f64, shape: f64) -> f64 {
        let rate = self.gamma(shape) * mean / shape;
        self.poisson(rate)
    }
}

/// The output function of splitmix64.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
