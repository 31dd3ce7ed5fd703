//! Quantiles of any level from those of the network.

use super::forecaster::Quantiles;
use crate::models::zero_shot::LEVELS;
use statrs::distribution::{ContinuousCDF, Normal};

/// The quantile of a level between those of the network, on a line; beyond them as far out as a normal distribution has it.
#[must_use]
pub fn quantile(row: &Quantiles, level: f64) -> f64 {
    let (last, middle) = (LEVELS.len() - 1, LEVELS.len() / 2);
    let beyond = |end: usize| {
        let z = |level: f64| Normal::standard().inverse_cdf(level);
        row[middle] + (row[end] - row[middle]) * z(level) / z(LEVELS[end])
    };
    let at = (level - LEVELS[0]) / (LEVELS[1] - LEVELS[0]);
    match at {
        // Levels are rounded: what is meant as an end is not beyond it.
        _ if at < -1e-9 => beyond(0),
        _ if at > last as f64 + 1e-9 => beyond(last),
        _ => {
            let first = (at.max(0.0) as usize).min(last - 1);
            let weight = at - first as f64;
            let [low, high] = [row[first], row[first + 1]];
            // The difference of two numbers may be none; of equal ones the mean is what they are.
            if low == high { low } else { low * (1.0 - weight) + high * weight }
        }
    }
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
