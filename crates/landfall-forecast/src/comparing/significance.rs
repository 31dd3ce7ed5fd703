//! Whether two errors differ by more than chance, from the differences of paired observations.

use serde::Serialize;

/// Standard errors within which a difference may be chance.
const CHANCE: f64 = 2.0;

/// A mean of differences, and how far it may be off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub standard_error: f64,
}

/// What a difference of an error from the best one says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It is within two standard errors.
    AsGood,
    /// The error is larger by more than that.
    Worse,
    /// The error is smaller by more than that.
    Better,
}

impl Difference {
    /// The difference of observations that do not depend on each other, such as errors of series: the standard error is their sample
    /// deviation divided by the root of their number. None of fewer than two.
    ///
    /// ```
    /// use landfall_forecast::comparing::Difference;
    /// let found = Difference::of_series(&[1.0, 3.0, 2.0, 6.0]).expect("four differences");
    /// assert_eq!((found.mean, found.standard_error), (3.0, (14.0f64 / 3.0 / 4.0).sqrt()));
    /// ```
    #[must_use]
    pub fn of_series(differences: &[f64]) -> Option<Self> {
        let n = differences.len() as f64;
        if differences.len() < 2 {
            return None;
        }
        let mean = differences.iter().sum::<f64>() / n;
        let squares = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>();
        Some(Self { mean, standard_error: (squares / (n - 1.0) / n).sqrt() })
    }

    /// The difference of errors of consecutive windows of this horizon, of which neighbours share rows (Diebold and Mariano 1995): the
    /// variance is that of Newey and West (1987) with the weights of Bartlett up to the lag `horizon` − 1, the correction for small
    /// samples that of Harvey, Leybourne and Newbold (1997). None of fewer than two windows, or than two horizons of them.
    ///
    /// ```
    /// use landfall_forecast::comparing::Difference;
    /// assert_eq!(Difference::of_windows(&[1.0, 3.0, 2.0], 2), None);
    /// let found = Difference::of_windows(&[1.0, 3.0, 2.0, 6.0], 2).expect("two horizons of windows");
    /// assert!((found.mean / found.standard_error - 2.2156).abs() < 1e-4);
    /// ```
    #[must_use]
    pub fn of_windows(differences: &[f64], horizon: usize) -> Option<Self> {
        let (n, horizon) = (differences.len(), horizon.max(1));
        if n < 2 || n < 2 * horizon {
            return None;
        }
        let (count, h) = (n as f64, horizon as f64);
        let mean = differences.iter().sum::<f64>() / count;
        let apart: Vec<f64> = differences.iter().map(|d| d - mean).collect();
        let covariance =
            |lag: usize| apart.iter().zip(&apart[lag..]).map(|(a, b)| a * b).sum::<f64>() / count;
        let lagged: f64 = (1..horizon).map(|lag| (1.0 - lag as f64 / h) * covariance(lag)).sum();
        // Rounding alone makes it negative.
        let variance = (covariance(0) + 2.0 * lagged).max(0.0) / count;
        let correction = (count + 1.0 - 2.0 * h + h * (h - 1.0) / count) / count;
        Some(Self { mean, standard_error: (variance / correction).sqrt() })
    }

    /// What it says.
    #[must_use]
    pub fn sign(self) -> Sign {
        match self.mean.abs() > CHANCE * self.standard_error {
            false => Sign::AsGood,
            true if self.mean > 0.0 => Sign::Worse,
            true => Sign::Better,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_windows(differences: &[f64], horizon: usize) -> Difference {
        Difference::of_windows(differences, horizon).expect("enough windows")
    }

    #[test]
    fn windows_of_one_row_are_a_sample() {
        // Deviations −2, 0, −1, 3 from the mean of 3: 14 / 4 over 4 windows, corrected by (4 + 1 − 2) / 4.
        let found = of_windows(&[1.0, 3.0, 2.0, 6.0], 1);
        assert!((found.standard_error - (14.0f64 / 4.0 / 4.0 / 0.75).sqrt()).abs() < 1e-12);
        assert_eq!(found.mean, 3.0);
        let sample = Difference::of_series(&[1.0, 3.0, 2.0, 6.0]).expect("a sample");
        assert!((sample.standard_error - found.standard_error).abs() < 1e-12);
    }

    #[test]
    fn windows_that_share_rows_have_the_variance_of_newey_and_west() {
        // Two rows: covariances 14 / 4 and (−2·0 + 0·−1 + −1·3) / 4 with weight ½, so 2.75 / 4 over 4 windows; the correction is
        // (4 + 1 − 4 + 2 / 4) / 4.
        let found = of_windows(&[1.0, 3.0, 2.0, 6.0], 2);
        assert!((found.standard_error - (2.75f64 / 4.0 / 0.375).sqrt()).abs() < 1e-12);
        // Three rows, six windows: deviations 1, 1, 0, 0, −1, −1; covariances 4 / 6, (1 + 0 + 0 + 0 + 1) / 6 and (0 + 0 + 0 + 0) / 6,
        // weights ⅔ and ⅓; the correction is (6 + 1 − 6 + 6 / 6) / 6.
        let found = of_windows(&[3.0, 3.0, 2.0, 2.0, 1.0, 1.0], 3);
        let variance: f64 = (4.0 / 6.0 + 2.0 * (2.0 / 3.0) * (2.0 / 6.0)) / 6.0;
        assert!((found.standard_error - (variance / (2.0 / 6.0)).sqrt()).abs() < 1e-12);
        assert_eq!(found.mean, 2.0);
    }

    #[test]
    fn too_few_say_nothing() {
        assert_eq!(Difference::of_windows(&[1.0; 5], 3), None);
        assert_eq!(Difference::of_windows(&[1.0], 1), None);
        assert_eq!(Difference::of_windows(&[], 1), None);
        assert_eq!(Difference::of_series(&[1.0]), None);
    }

    #[test]
    fn two_standard_errors_may_be_chance() {
        let sign = |mean| Difference { mean, standard_error: 1.0 }.sign();
        assert_eq!([-2.1, -2.0, 0.0, 2.0, 2.1].map(sign), {
            use Sign::{AsGood, Better, Worse};
            [Better, AsGood, AsGood, AsGood, Worse]
        });
        // The same forecasts twice, and errors that differ by the same amount everywhere.
        assert_eq!(of_windows(&[0.0; 8], 2).sign(), Sign::AsGood);
        assert_eq!(of_windows(&[0.5; 8], 2).sign(), Sign::Worse);
    }
}
