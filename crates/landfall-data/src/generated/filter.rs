//! Stable ARMA filters, from roots inside of the stability region.
//!
//! A polynomial is a product of `1 − rB` for real roots and of `1 − 2r cos(ω) B + r²B²` for pairs, all with `r < 1`, as in *Zero-shot
//! forecasting by simulation alone* (arXiv 2601.00970).

use crate::generated::draws::Draws;

/// The largest modulus of a root.
const EDGE: f64 = 0.985;

/// An ARMA filter: `y_t = Σ a_k y_{t−k} + e_t + Σ b_k e_{t−k}`.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// a₁, a₂, …
    own: Vec<f64>,
    /// b₁, b₂, …
    shocks: Vec<f64>,
}

impl Filter {
    /// A stable, invertible filter of at most these orders.
    pub(crate) fn draw(draws: &mut Draws, most_own: usize, most_shocks: usize) -> Self {
        let (own, shocks) = (draws.below(most_own + 1), draws.below(most_shocks + 1));
        let own = polynomial(draws, own).iter().map(|c| -c).collect();
        Self { own, shocks: polynomial(draws, shocks) }
    }

    /// Filters shocks in place.
    pub(crate) fn apply(&self, values: &mut [f64]) {
        let mut before = vec![0.0; self.shocks.len()];
        for t in 0..values.len() {
            let shock = values[t];
            let mut sum = shock;
            for (b, e) in self.shocks.iter().zip(&before) {
                sum += b * e;
            }
            for (a, y) in self.own.iter().zip(values[..t].iter().rev()) {
                sum += a * y;
            }
            if before.pop().is_some() {
                before.insert(0, shock);
            }
            values[t] = sum;
        }
    }
}

/// c₁, c₂, … of `1 + c₁B + c₂B² + …`, with all roots outside of the unit circle.
fn polynomial(draws: &mut Draws, order: usize) -> Vec<f64> {
    let mut all = vec![1.0];
    let mut left = order;
    while left > 0 {
        let size = EDGE * libm::sqrt(draws.uniform());
        let factor = if left >= 2 && draws.chance(0.6) {
            let turn = draws.between(0.05, std::f64::consts::PI);
            vec![1.0, -2.0 * size * libm::cos(turn), size * size]
        } else {
            vec![1.0, -size * if draws.chance(0.7) { 1.0 } else { -1.0 }]
        };
        left -= factor.len() - 1;
        let mut product = vec![0.0; all.len() + factor.len() - 1];
        for (i, x) in all.iter().enumerate() {
            for (j, y) in factor.iter().enumerate() {
                product[i + j] += x * y;
            }
        }
        all = product;
    }
    all.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn a_filter_is_its_recursion() {
        let filter = Filter { own: vec![0.5, -0.25], shocks: vec![0.4] };
        let mut values = [1.0, 0.0, 2.0, 0.0];
        filter.apply(&mut values);
        // y₁ = .5·1 + .4·1, y₂ = 2 + .5·.9 − .25·1, y₃ = .5·2.2 − .25·.9 + .4·2
        for (found, expected) in values.iter().zip([1.0, 0.9, 2.2, 1.675]) {
            assert!((found - expected).abs() < 1e-12, "{values:?}");
        }
    }
}
