//! Quantiles of any level from those of the network.

use super::forecaster::Quantiles;
use crate::models::zero_shot::LEVELS;
use statrs::distribution::{ContinuousCDF, Normal};

/// The quantile of a level between those of the network, on a line; beyond them as far out as a normal distribution has it.
#[must_use]
pub fn quantile(row: &Quantiles, level: f64) -> f64 {
    quantile_at(&LEVELS, row, level)
}

/// As [`quantile`], of a row of quantiles at other levels, ascending.
#[must_use]
pub fn quantile_at(levels: &[f64], row: &[f64], level: f64) -> f64 {
    let last = levels.len().min(row.len()).saturating_sub(1);
    let Some(median) = levels.iter().position(|l| (l - 0.5).abs() < 1e-9) else {
        // Without a median no normal distribution stands for what is beyond.
        return between(levels, row, level.clamp(levels[0], levels[last]));
    };
    let beyond = |end: usize| {
        let z = |level: f64| Normal::standard().inverse_cdf(level);
        row[median] + (row[end] - row[median]) * z(level) / z(levels[end])
    };
    // Levels are rounded: what is meant as an end is not beyond it.
    if level < levels[0] - 1e-9 && median > 0 {
        beyond(0)
    } else if level > levels[last] + 1e-9 && median < last {
        beyond(last)
    } else {
        between(levels, row, level)
    }
}

/// On a line between the two levels around this one.
fn between(levels: &[f64], row: &[f64], level: f64) -> f64 {
    let above =
        levels.iter().position(|l| level < *l).unwrap_or(levels.len() - 1).max(1).min(levels.len() - 1);
    let first = above.saturating_sub(1);
    let weight = if above == first { 0.0 } else { (level - levels[first]) / (levels[above] - levels[first]) };
    let ([low, high], weight) = ([row[first], row[above]], weight.clamp(0.0, 1.0));
    // The difference of two numbers may be none; of equal ones the mean is what they are.
    if low == high { low } else { low * (1.0 - weight) + high * weight }
}

/// The quantiles at [`LEVELS`] of errors of this standard deviation, normally distributed around 0.
#[must_use]
pub fn normal(deviation: f64) -> Quantiles {
    LEVELS.map(|level| deviation * Normal::standard().inverse_cdf(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_between_and_beyond_those_of_the_network() {
        let row = [1.0, 2.0, 3.0, 4.0, 5.0, 6.5, 7.0, 8.0, 10.0];
        for (level, value) in [(0.1, 1.0), (0.5, 5.0), (0.9, 10.0), (0.15, 1.5), (0.55, 5.75)] {
            assert!((quantile(&row, level) - value).abs() < 1e-9, "{level}");
        }
        assert_eq!(quantile(&[0.7; 9], 0.15), 0.7, "of a constant all quantiles are the constant");
        // 1.96 and 1.2816 deviations of the normal distribution.
        assert!((quantile(&row, 0.975) - (5.0 + 5.0 * 1.959_964 / 1.281_552)).abs() < 1e-4);
        assert!((quantile(&row, 0.025) - (5.0 - 4.0 * 1.959_964 / 1.281_552)).abs() < 1e-4);
    }
}
