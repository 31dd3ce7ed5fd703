//! The seasonal period of a series: from its dates where they say it, else from its values.

use std::fmt;

use serde::Serialize;

use super::{Frequency, Panel, Series};

/// Rows after which a series repeats itself, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Season {
    /// Rows of a season; 1 where there is none.
    pub period: usize,
    /// How that is known, such as `monthly dates`.
    pub why: String,
}

impl fmt::Display for Season {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.period {
            1 => write!(f, "none ({})", self.why),
            period => write!(f, "{period} ({})", self.why),
        }
    }
}

/// Share of the rows that a season is looked for in: the training rows.
const TRAIN: f64 = 0.7;
/// Rows that are looked at, the last ones of the training rows: autocorrelation costs rows times lags.
const MAX_ROWS: usize = 4000;

impl Season {
    /// The season of a panel: that of its dates' frequency, unless the series is shorter than two of them; without one,
    /// the period that most of the series' columns repeat with.
    #[must_use]
    pub fn of(panel: &Panel) -> Self {
        let longest = panel.series().iter().max_by_key(|s| s.rows());
        let dated = longest.and_then(|s| Some((s.dates()?.spacing().usual, s.rows())));
        if let Some((frequency, rows)) = dated
            && let Some(period) = calendar(frequency).into_iter().find(|p| rows >= 2 * p)
        {
            return Self { period, why: format!("{frequency} dates") };
        }
        let mut votes = std::collections::BTreeMap::new();
        for series in panel.series().iter().take(20) {
            for values in series.values().iter().take(panel.targets()).take(20) {
                let rows = (series.rows() as f64 * TRAIN) as usize;
                let first = rows.saturating_sub(MAX_ROWS);
                *votes.entry(repeats(values.get(first..rows).unwrap_or_default())).or_insert(0_usize) += 1;
            }
        }
        let most = votes.into_iter().max_by_key(|(_, count)| *count).map_or(1, |(period, _)| period);
        match most {
            1 => Self { period: 1, why: "the training rows repeat with no period".to_owned() },
            period => Self { period, why: "autocorrelation of the training rows".to_owned() },
        }
    }
}

/// Seasons of a frequency in rows, the usual one first; none where the calendar has none.
fn calendar(frequency: Frequency) -> Vec<usize> {
    let of_day = |seconds: i64| usize::try_from(86_400 / seconds).unwrap_or(1);
    match frequency {
        Frequency::Monthly { months: 12, .. } => Vec::new(),
        Frequency::Monthly { months, .. } if 12 % months == 0 => vec![12 / months as usize],
        Frequency::BusinessDays => vec![5],
        Frequency::Regular { step } => match step.num_seconds() {
            604_800 => vec![52],
            86_400 => vec![7],
            seconds @ 1..86_400 if 86_400 % seconds == 0 => {
                let hour = usize::try_from(3_600 / seconds).unwrap_or(0);
                let day = of_day(seconds);
                // Of minutes and seconds a day is long; an hour is the next cycle.
                if hour > 1 { vec![day, hour] } else { vec![day] }
            }
            _ => Vec::new(),
        },
        Frequency::Monthly { .. } | Frequency::Irregular { .. } | Frequency::Unknown => Vec::new(),
    }
}

/// The period that values repeat with, 1 for none: the lag of the highest autocorrelation after its first zero, of the
/// values without their straight line. It must exceed 1.96/√n, what 95 % of the autocorrelations of white noise stay
/// under, and be a peak between its neighbours; three periods must fit.
pub(crate) fn repeats(values: &[f64]) -> usize {
    let n = values.len();
    if n < 12 {
        return 1;
    }
    let x = without_line(values);
    let variance: f64 = x.iter().map(|v| v * v).sum();
    if variance <= 0.0 || !variance.is_finite() {
        return 1;
    }
    let lags = n / 3;
    let correlation: Vec<f64> = (0..=lags + 1)
        .map(|lag| {
            let products: f64 = x.iter().zip(x.get(lag..).unwrap_or_default()).map(|(a, b)| a * b).sum();
            products / variance
        })
        .collect();
    let at = |lag: usize| correlation.get(lag).copied().unwrap_or(0.0);
    let Some(zero) = (1..=lags).find(|lag| at(*lag) < 0.0) else { return 1 };
    let peaks = (zero..=lags).filter(|&lag| lag > 1 && at(lag) >= at(lag - 1) && at(lag) > at(lag + 1));
    let bound = 1.96 / (n as f64).sqrt();
    let best = peaks.max_by(|a, b| at(*a).total_cmp(&at(*b)));
    best.filter(|lag| at(*lag) > bound.max(0.2)).unwrap_or(1)
}

/// Values without the straight line that fits them best.
fn without_line(values: &[f64]) -> Vec<f64> {
    let n = values.len() as f64;
    let (mean_t, mean) = ((n - 1.0) / 2.0, values.iter().sum::<f64>() / n);
    let (mut products, mut squares) = (0.0, 0.0);
    for (t, v) in values.iter().enumerate() {
        products += (t as f64 - mean_t) * (v - mean);
        squares += (t as f64 - mean_t).powi(2);
    }
    let slope = products / squares;
    values.iter().enumerate().map(|(t, v)| v - mean - slope * (t as f64 - mean_t)).collect()
}

impl Series {
    /// The seasonal period of one column's rows, from their autocorrelation alone.
    #[must_use]
    pub fn repeats(&self, column: usize) -> usize {
        self.values().get(column).map_or(1, |values| repeats(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise between −1 and 1 from a linear congruential generator.
    fn noise(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1 << 30) - 1.0
        }
    }

    #[test]
    fn periods_are_found_through_trend_and_noise() {
        for period in [4, 7, 11, 12, 24, 52] {
            let mut draw = noise(period as u64);
            let wave = |i: usize| (i as f64 * std::f64::consts::TAU / period as f64).sin();
            let values: Vec<f64> =
                (0..8 * period).map(|i| 3.0 * wave(i) + 0.05 * i as f64 + draw()).collect();
            assert_eq!(repeats(&values), period);
        }
    }

    #[test]
    fn noise_and_random_walks_repeat_with_no_period() {
        let mut found = 0;
        for seed in 0..40 {
            let mut draw = noise(seed);
            let white: Vec<f64> = (0..300).map(|_| draw()).collect();
            found += usize::from(repeats(&white) > 1);
        }
        assert!(found <= 2, "{found} of 40 series of white noise have a period");
        assert_eq!(repeats(&[5.0; 100]), 1);
        assert_eq!(repeats(&[1.0, 2.0, 1.0]), 1);
    }
}
