//! Conformal prediction intervals: a forecast plus and minus an order statistic of earlier errors of the same forecaster.
//!
//! With n earlier absolute errors the interval of level p is the forecast ± the ⌈(n + 1)·p⌉-th smallest of them (Vovk,
//! Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005; Lei et al., "Distribution-Free Predictive Inference
//! for Regression", 2018). The errors are those of the most recent windows, and the set slides along with the forecasts, as in
//! EnbPI (Xu and Xie, "Conformal prediction interval for dynamic time-series", ICML 2021): errors of a series change with
//! time, and fixed ones keep a wrong width for ever.

use std::collections::VecDeque;

/// Windows whose errors make an interval: this many, or three horizons of them.
const WINDOWS: usize = 1000;

/// Errors that are kept in memory at most, over all series, target columns and steps: 512 MiB.
const ERRORS: usize = 1 << 27;

/// The number of errors that an interval of this level, in percent, needs: `n` for which ⌈(n + 1)·p⌉ ≤ n.
///
/// ```
/// use landfall_data::conformal::needed;
/// assert_eq!([50.0, 80.0, 95.0, 99.0].map(needed), [1, 4, 19, 99]);
/// ```
#[must_use]
pub fn needed(level: f64) -> usize {
    (level / (100.0 - level) - 1e-9).ceil().max(1.0) as usize
}

/// The place, from 1, of the error among `n` sorted ones that is the half width of an interval of this level.
fn rank(n: usize, level: f64) -> Option<usize> {
    let rank = ((n + 1) as f64 * level / 100.0 - 1e-9).ceil().max(1.0) as usize;
    (rank <= n).then_some(rank)
}

/// Half the width of an interval of this level, in percent, from sorted absolute errors; `None` where they are fewer than [`needed`].
#[must_use]
pub fn half_width(sorted: &[f32], level: f64) -> Option<f64> {
    sorted.get(rank(sorted.len(), level)? - 1).map(|x| f64::from(*x))
}

/// The number of windows of a series whose errors are kept: 1000, or three horizons of them where these are more; fewer where
/// `values` errors of a window (over all series) would not fit into 512 MiB, but as many as the highest level needs.
#[must_use]
pub fn window_limit(horizon: usize, values: usize, levels: &[f64]) -> usize {
    let most = levels.iter().map(|level| needed(*level)).max().unwrap_or(1);
    WINDOWS.max(3 * horizon).min(ERRORS / values.max(1)).max(most)
}

/// Absolute errors of the most recent windows of a series, sorted for each place of a window: target column and step.
///
/// ```
/// use landfall_data::conformal::RecentErrors;
/// let mut errors = RecentErrors::new(5); // of at most five windows
/// for error in [9.0, 1.0, 2.0, 4.0, 3.0, 5.0] {
///     errors.push(vec![error]); // one target column, one step
/// }
/// // The oldest window has left, and the 4th of its five successors is the half width of an interval of 60 %.
/// assert_eq!(errors.half_width(0, 60.0), Some(4.0));
/// assert_eq!(errors.half_width(0, 95.0), None); // needs 19
/// ```
#[derive(Debug, Clone)]
pub struct RecentErrors {
    limit: usize,
    windows: VecDeque<Vec<f32>>,
    sorted: Vec<Vec<f32>>,
}

impl RecentErrors {
    /// None yet, and at most those of so many windows.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), windows: VecDeque::new(), sorted: Vec::new() }
    }

    /// Adds the errors of the next window; the oldest ones leave where there are more than the limit. All windows have as many
    /// errors as the first one.
    pub fn push(&mut self, errors: Vec<f32>) {
        self.sorted.resize(errors.len(), Vec::new());
        if self.windows.len() == self.limit
            && let Some(oldest) = self.windows.pop_front()
        {
            for (sorted, error) in self.sorted.iter_mut().zip(oldest) {
                sorted.remove(sorted.partition_point(|x| x.total_cmp(&error).is_lt()));
            }
        }
        for (sorted, error) in self.sorted.iter_mut().zip(&errors) {
            sorted.insert(sorted.partition_point(|x| x.total_cmp(error).is_lt()), *error);
        }
        self.windows.push_back(errors);
    }

    /// Half the width of an interval at a place of a window; `None` where the windows are fewer than [`needed`].
    #[must_use]
    pub fn half_width(&self, place: usize, level: f64) -> Option<f64> {
        half_width(self.sorted.get(place)?, level)
    }
}

/// Sums over actual values and their intervals.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct IntervalSums {
    values: f64,
    covered: f64,
    width: f64,
    score: f64,
}

impl IntervalSums {
    /// Adds an actual value `y` and its interval of this level in percent.
    pub fn add(&mut self, level: f64, (low, high): (f64, f64), y: f64) {
        let alpha = 1.0 - level / 100.0;
        self.values += 1.0;
        self.covered += f64::from(u8::from(low <= y && y <= high));
        self.width += high - low;
        self.score += high - low + 2.0 / alpha * ((low - y).max(0.0) + (y - high).max(0.0));
    }

    /// Share of the values within their interval.
    #[must_use]
    pub fn coverage(&self) -> f64 {
        self.covered / self.values
    }

    /// Mean width.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.width / self.values
    }

    /// Mean interval score: the width, and 2/α times the distance of a value that lies outside, with α = 1 − level (Winkler
    /// 1972; Gneiting and Raftery 2007). Smaller is better: neither width nor coverage alone says how good intervals are.
    #[must_use]
    pub fn score(&self) -> f64 {
        self.score / self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_widths_are_the_order_statistics_of_the_last_windows() {
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Few distinct values, so that equal ones leave too.
            ((state >> 33) % 13) as f32
        };
        let (limit, levels) = (25, [50.0, 80.0, 95.0]);
        let mut recent = RecentErrors::new(limit);
        let mut all: Vec<Vec<f32>> = Vec::new();
        for n in 1..=80 {
            let errors = vec![draw(), draw()];
            all.push(errors.clone());
            recent.push(errors);
            for (place, level) in [0, 1].into_iter().flat_map(|p| levels.map(|l| (p, l))) {
                let mut last: Vec<f32> = all.iter().rev().take(limit).map(|e| e[place]).collect();
                last.sort_by(f32::total_cmp);
                let rank = ((last.len() + 1) as f64 * level / 100.0).ceil() as usize;
                let expected = last.get(rank - 1).map(|x| f64::from(*x));
                assert_eq!(recent.half_width(place, level), expected, "{n} windows, level {level}");
                assert_eq!(expected.is_some(), last.len() >= needed(level));
            }
        }
    }

    #[test]
    fn exchangeable_errors_are_covered_as_often_as_the_level_says() {
        // 19 errors and one more of the same distribution: the coverage of 95 % is exact, 19 of 20 ranks.
        let mut covered = 0;
        for rank in 0..20 {
            let mut recent = RecentErrors::new(19);
            (0..20).filter(|x| *x != rank).for_each(|x| recent.push(vec![x as f32]));
            covered += usize::from(f64::from(rank) <= recent.half_width(0, 95.0).expect("19 errors"));
        }
        assert_eq!(covered, 19);
    }

    #[test]
    fn sums_are_coverage_width_and_interval_score() {
        let mut sums = IntervalSums::default();
        sums.add(80.0, (0.0, 2.0), 1.0);
        sums.add(80.0, (0.0, 4.0), -1.0);
        assert_eq!((sums.coverage(), sums.width()), (0.5, 3.0));
        assert!((sums.score() - (2.0 + 4.0 + 2.0 / 0.2) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_number_of_windows_fits_the_memory_and_the_level() {
        assert_eq!(window_limit(96, 96 * 7, &[80.0, 95.0]), 1000);
        assert_eq!(window_limit(720, 720, &[80.0]), 2160);
        assert_eq!(window_limit(96, ERRORS / 30, &[80.0]), 30);
        assert_eq!(window_limit(96, ERRORS / 30, &[99.0]), 99);
    }
}
