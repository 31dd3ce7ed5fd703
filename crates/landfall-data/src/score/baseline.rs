//! Two forecasts that need no training, scored exactly.
//!
//! They prove a split, a scaler, a metric and a window count against published figures, and any model
//! has to beat them.

use crate::error::score::ScoreError;
use crate::error::series::SeriesError;
use crate::windows::windowed::Part;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::score::{ScoreSums, Scores};
use crate::windows::window_forecast::WindowForecast;

/// A forecast that repeats what the context ends with.
///
/// ```
/// use landfall_data::Baseline;
/// let history = [1, 2, 3, 4];
/// let next: Vec<i32> = Baseline::SeasonalNaive { period: 2 }.continuation(&history).take(5).collect();
/// assert_eq!(next, [3, 4, 3, 4, 3]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// Every step is the context's last value.
    LastValue,
    /// Step `h` is the value `period` rows before it, in the context's last season.
    SeasonalNaive {
        /// Rows of a season: 24 for the days of an hourly series.
        period: usize,
    },
}

impl Baseline {
    /// Rows of history that it repeats: 1 for the last value, else the seasonal period.
    #[must_use]
    pub fn period(self) -> usize {
        match self {
            Self::LastValue => 1,
            Self::SeasonalNaive { period } => period,
        }
    }

    /// The values after `history`, endlessly: `y[h] = history[n − p + h mod p]` for `h` from 0 and the period p; none
    /// where the history has fewer than p values.
    pub fn continuation<T: Copy>(self, history: &[T]) -> impl Iterator<Item = T> {
        let start = history.len().checked_sub(self.period());
        start.and_then(|start| history.get(start..)).unwrap_or_default().iter().copied().cycle()
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LastValue => f.write_str("last value"),
            Self::SeasonalNaive { period } => write!(f, "seasonal naive ({period})"),
        }
    }
}

/// Scores a baseline on the first `targets` columns of the scaled series, in `f64`, over the windows of all parts in
/// their order; `batch` counts the windows that whole batches hold. The parts have the same columns and horizon.
///
/// # Errors
/// [`ScoreError::BadPeriod`] for a season of no rows or longer than the rows before the first target, [`SeriesError::RowRange`]
/// for windows outside the series, [`ScoreError::NothingScored`] without windows, and what
/// [`Scaler::scale_f32`](crate::Scaler::scale_f32) refuses.
pub fn score(
    baseline: Baseline,
    parts: &[Part<'_>],
    targets: usize,
    batch: usize,
) -> Result<Scores, DataError> {
    let Some(first) = parts.first() else { return Err(DataError::Score(ScoreError::NothingScored)) };
    let names = first.series.columns().get(..targets).unwrap_or(first.series.columns());
    let windows: usize = parts.iter().map(|part| part.windows.count()).sum();
    let whole = windows - windows.checked_rem(batch).unwrap_or(windows);
    let mut sums = ScoreSums::new(names, first.windows.horizon(), whole)?;
    parts.iter().try_for_each(|part| add(baseline, part, names.len(), &mut sums))?;
    sums.finish()
}

/// Forecasts every window of these parts, in their order: `each` gets them one at a time, in the units of the data.
///
/// # Errors
/// [`ScoreError::BadPeriod`] and [`SeriesError::RowRange`] as [`score`]; what `each` returns.
pub fn forecasts<E: From<DataError>>(
    baseline: Baseline,
    parts: &[Part<'_>],
    targets: usize,
    mut each: impl FnMut(WindowForecast<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut values = Vec::new();
    for (series, part) in parts.iter().enumerate() {
        fits(baseline, part)?;
        let (windows, horizon) = (&part.windows, part.windows.horizon());
        for (window, start) in windows.starts().enumerate() {
            let start_row = windows.target(start).start;
            values.clear();
            for column in part.series.values().iter().take(targets) {
                let history = column.get(..start_row).unwrap_or_default();
                values.extend(baseline.continuation(history).take(horizon));
            }
            let values = &values;
            let forecast = WindowForecast {
                series,
                window,
                start_row,
                horizon,
                outputs: 1,
                point: 0,
                values,
                bounds: &[],
                widths: &[],
            };
            each(forecast)?;
        }
    }
    Ok(())
}

/// Checks that windows lie within their series, with a seasonal period of rows before the first target.
fn fits(baseline: Baseline, part: &Part<'_>) -> Result<(), DataError> {
    let Part { series, windows, .. } = part;
    let (period, rows) = (baseline.period(), series.rows());
    let history = windows.target(windows.base()).start;
    if period == 0 || period > history {
        return Err(DataError::Score(ScoreError::BadPeriod { period, history }));
    }
    if windows.end() > rows {
        let (file, start, end) = (series.source().to_owned(), windows.base(), windows.end());
        return Err(DataError::Series(SeriesError::RowRange { file, start, end, rows }));
    }
    Ok(())
}

fn add(baseline: Baseline, part: &Part<'_>, targets: usize, sums: &mut ScoreSums) -> Result<(), DataError> {
    let Part { series, scaler, windows } = part;
    fits(baseline, part)?;
    let scaled = |c| Ok(scaler.scale_column(series, c)?.into_iter().map(f64::from).collect());
    let scaled = (0..targets).map(scaled).collect::<Result<Vec<Vec<f64>>, DataError>>()?;
    let std = scaler.std().get(..targets).unwrap_or_default();
    let (mut squared, mut absolute) = (vec![0.0; targets], vec![0.0; targets]);
    for start in windows.starts() {
        let target = windows.target(start);
        let columns = scaled.iter().zip(squared.iter_mut().zip(&mut absolute));
        for (column, (squared, absolute)) in columns {
            let history = column.get(..target.start).unwrap_or_default();
            let truth = column.get(target.clone()).unwrap_or_default();
            (*squared, *absolute) = (0.0, 0.0);
            for (value, forecast) in truth.iter().zip(baseline.continuation(history)) {
                let error = forecast - value;
                *squared += error * error;
                *absolute += error.abs();
            }
        }
        sums.add_window(&squared, &absolute, std)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Series;
    use crate::windows::Windows;
    use crate::windows::scaler::Scaler;

    fn one(
        baseline: Baseline,
        series: &Series,
        scaler: &Scaler,
        windows: Windows,
        batch: usize,
    ) -> Result<Scores, DataError> {
        score(baseline, &[Part { series, scaler, windows }], 1, batch)
    }

    #[test]
    fn parts_are_scored_together_in_their_own_units() {
        let names = || vec!["a".to_owned(), "b".to_owned()];
        let series = |a: [f64; 3]| Series::new("s", names(), vec![a.to_vec(), vec![0.0; 3]], None);
        let (first, second) =
            (series([0.0, 1.0, 3.0]).expect("sound"), series([0.0, 0.0, 4.0]).expect("sound"));
        let scalers = [1.0, 2.0].map(|std| Scaler::new(vec![0.0; 2], vec![std; 2]).expect("sound"));
        let windows = Windows::new(0..3, 1, 1).expect("two windows");
        let parts = [(&first, &scalers[0]), (&second, &scalers[1])].map(|(series, scaler)| Part {
            series,
            scaler,
            windows,
        });
        // Errors 1, 2 and 0, 4, the latter halved by its scaler; whole batches of three hold all but the last.
        let scores = score(Baseline::LastValue, &parts, 1, 3).expect("scores");
        assert_eq!((scores.mse, scores.mae, scores.windows), (9.0 / 4.0, 5.0 / 4.0, 4));
        assert_eq!((scores.mse_drop_last, scores.windows_drop_last), (Some(5.0 / 3.0), 3));
        assert_eq!((scores.per_column.len(), scores.per_column[0].mse), (1, 21.0 / 4.0));
        assert_eq!(score(Baseline::LastValue, &parts, 2, 3).expect("scores").mse, 9.0 / 8.0);
    }

    #[test]
    fn forecasts_repeat_the_end_of_the_context() {
        let series = Series::new("s", vec!["a".to_owned()], vec![vec![0.0, 2.0, 4.0, 1.0, 8.0, 3.0]], None)
            .expect("a series");
        let scaler = Scaler::new(vec![5.0], vec![2.0]).expect("sound");
        let windows = Windows::new(0..6, 2, 3).expect("two windows");
        // Last value: 2 against 4, 1, 8, then 4 against 1, 8, 3, halved by the scaler.
        let last = one(Baseline::LastValue, &series, &scaler, windows, 1).expect("scores");
        assert_eq!((last.mse, last.mae), (67.0 / 4.0 / 6.0, 17.0 / 2.0 / 6.0));
        assert_eq!((last.per_column[0].mse, last.per_column[0].mae), (67.0 / 6.0, 17.0 / 6.0));
        assert_eq!((last.windows, last.windows_drop_last, last.mse_drop_last), (2, 2, Some(last.mse)));
        // Season of two: 0, 2, 0 against 4, 1, 8, then 2, 4, 2 against 1, 8, 3.
        let season = Baseline::SeasonalNaive { period: 2 };
        let seasonal = one(season, &series, &scaler, windows, 4).expect("scores");
        assert_eq!((seasonal.mse, seasonal.mae), (99.0 / 4.0 / 6.0, 19.0 / 2.0 / 6.0));
        assert_eq!((seasonal.windows_drop_last, seasonal.mse_drop_last), (0, None));
        let daily = Baseline::SeasonalNaive { period: 1 };
        assert_eq!(one(daily, &series, &scaler, windows, 1).expect("scores"), last);
    }

    #[test]
    fn what_cannot_be_scored_is_refused() {
        let series = Series::new("s", vec!["a".to_owned()], vec![vec![0.0; 6]], None).expect("a series");
        let scaler = Scaler::new(vec![0.0], vec![1.0]).expect("sound");
        let text = |period, rows| {
            let windows = Windows::new(0..rows, 2, 3).expect("windows");
            let baseline = Baseline::SeasonalNaive { period };
            one(baseline, &series, &scaler, windows, 1).expect_err("refused").to_string()
        };
        assert_eq!(
            text(3, 6),
            "a seasonal period of 3 needs as many rows of history, there are 2; choose 1 to 2"
        );
        assert_eq!(
            text(0, 6),
            "a seasonal period of 0 needs as many rows of history, there are 2; choose 1 to 2"
        );
        assert_eq!(text(2, 7), "rows 0..7 are not within the 6 rows of s; choose a range inside");
    }
}
