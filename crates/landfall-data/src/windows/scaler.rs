//! Standardisation per column, fit on the training rows.

use crate::error::series::SeriesError;
use crate::error::windows::WindowError;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::series::Series;
use crate::series::roles::Scale;
use crate::windows::digits::Digits;

/// Mean and population standard deviation of every column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Statistics")]
pub struct Scaler {
    mean: Vec<f64>,
    std: Vec<f64>,
    /// Which columns had one value in the rows that it was fit on; empty for none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    constant: Vec<bool>,
}

/// A stored scaler before it is checked.
#[derive(Deserialize)]
struct Statistics {
    mean: Vec<f64>,
    std: Vec<f64>,
    #[serde(default)]
    constant: Vec<bool>,
}

/// What a column is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// The standard deviation of the training rows, and 1 where they are constant: that of the benchmarks.
    Standard,
    /// The same, but for training rows that say nothing of the size of an error to come ([`Scaler::fit_robust`]).
    Robust,
}

impl TryFrom<Statistics> for Scaler {
    type Error = DataError;

    fn try_from(Statistics { mean, std, constant }: Statistics) -> Result<Self, DataError> {
        Ok(Self::new(mean, std)?.with_constant(constant))
    }
}

impl Scaler {
    /// A scaler of known statistics.
    ///
    /// # Errors
    /// [`WindowError::BadScaler`] unless there are as many means as standard deviations, all finite and
    /// the latter positive.
    pub fn new(mean: Vec<f64>, std: Vec<f64>) -> Result<Self, DataError> {
        let finite = mean.iter().all(|m| m.is_finite()) && std.iter().all(|s| s.is_finite() && *s > 0.0);
        if finite && mean.len() == std.len() && !mean.is_empty() {
            Ok(Self { mean, std, constant: Vec::new() })
        } else {
            Err(DataError::Window(WindowError::BadScaler { means: mean.len(), stds: std.len() }))
        }
    }

    /// Fits the statistics of `rows`, which should be the training rows alone.
    ///
    /// The mean is taken first and the variance from the differences to it (the one-pass formula loses
    /// all digits of a small spread around a large mean). A constant column is divided by 1.
    ///
    /// ```
    /// use landfall_data::{Scaler, Series};
    /// let series = Series::new("s", vec!["x".to_owned()], vec![vec![1.0, 3.0, 100.0]], None)?;
    /// let scaler = Scaler::fit(&series, 0..2)?; // the training rows
    /// assert_eq!((scaler.mean(), scaler.std()), (&[2.0][..], &[1.0][..]));
    /// assert_eq!(scaler.inverse(0, -1.0), 1.0);
    /// # Ok::<(), landfall_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// [`SeriesError::RowRange`] for rows outside the series or none, [`WindowError::Unscalable`] when the
    /// statistics of a column overflow.
    pub fn fit(series: &Series, rows: Range<usize>) -> Result<Self, DataError> {
        let fit = (0..series.channels()).map(|column| statistics(series, column, rows.clone()));
        let (mean, std) = fit.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        Self::new(mean, std)
    }

    /// As [`Scaler::fit`], with a scale that is never that of rounding. The errors of all series are weighed by their scales,
    /// in a training and in the choice of a forecaster, so that a series whose training rows were flat and whose later rows
    /// are not (a product that is launched) would count for all others together. Where the training rows vary by less than a
    /// tenth of what all rows `known` before the test rows do, both statistics are those of the latter; where these are
    /// constant too, the scale is the column's level, and 1 for zeros.
    ///
    /// ```
    /// use landfall_data::{Scaler, Series};
    /// let launched = [vec![0.0; 70], vec![500.0; 10]].concat();
    /// let series = Series::new("s", vec!["x".to_owned()], vec![launched], None)?;
    /// let scaler = Scaler::fit_robust(&series, 0..70, 0..80)?;
    /// assert!(scaler.std()[0] > 100.0 && scaler.is_constant(0));
    /// # Ok::<(), landfall_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Scaler::fit`].
    pub fn fit_robust(series: &Series, rows: Range<usize>, known: Range<usize>) -> Result<Self, DataError> {
        let mut fit = Self::fit(series, rows.clone())?;
        fit.constant = vec![false; fit.mean.len()];
        for (column, values) in series.values().iter().enumerate() {
            let training = values.get(rows.clone()).unwrap_or_default();
            fit.constant[column] = is_constant(training);
            let std = if fit.constant[column] { 0.0 } else { fit.std[column] };
            let (mean, all) = statistics(series, column, known.clone())?;
            if is_constant(values.get(known.clone()).unwrap_or_default()) {
                let level = mean.abs();
                fit.std[column] = if level > 0.0 { level } else { 1.0 };
            } else if std < LEAST_SHARE * all {
                (fit.mean[column], fit.std[column], fit.constant[column]) = (mean, all, true);
            }
        }
        Ok(fit)
    }

    /// The same scaler of a column that is divided by another number.
    pub(crate) fn with_scale(mut self, column: usize, std: f64) -> Self {
        self.std[column] = std;
        self
    }

    /// The same scaler with the columns that had one value.
    #[must_use]
    pub fn with_constant(self, constant: Vec<bool>) -> Self {
        Self { constant: if constant.contains(&true) { constant } else { Vec::new() }, ..self }
    }

    /// Whether a column had one value in the training rows, or nearly: they say nothing of the rows to come.
    #[must_use]
    pub fn is_constant(&self, column: usize) -> bool {
        self.constant.get(column).copied().unwrap_or(false)
    }

    /// Statistics of the first value of each column over series, for columns with one value in each.
    pub(crate) fn of_series(series: &[Series]) -> (Vec<f64>, Vec<f64>) {
        let columns = series.first().map_or(0, Series::channels);
        let of = |column: usize| -> Vec<f64> {
            series.iter().filter_map(|s| s.values().get(column)?.first().copied()).collect()
        };
        let statistics = (0..columns).map(|column| mean_std(&of(column), 1));
        let pairs =
            statistics.map(|(m, s)| (m.first().copied().unwrap_or(0.0), s.first().copied().unwrap_or(1.0)));
        pairs.unzip()
    }

    /// The same scaler with the statistics over all series, or none, for the columns that are scaled so.
    ///
    /// # Errors
    /// As [`Scaler::new`].
    pub(crate) fn scaled_as(
        mut self,
        scales: &[Scale],
        (mean, std): &(Vec<f64>, Vec<f64>),
    ) -> Result<Self, DataError> {
        for (column, scale) in scales.iter().enumerate() {
            let (m, s) = match scale {
                Scale::Series => continue,
                Scale::Panel => (mean[column], std[column]),
                Scale::Unit => (0.0, 1.0),
            };
            (self.mean[column], self.std[column]) = (m, s);
        }
        Ok(Self::new(self.mean, self.std)?.with_constant(self.constant))
    }

    /// Means, one per column.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Population standard deviations, one per column; 1 for a constant column.
    pub fn std(&self) -> &[f64] {
        &self.std
    }

    /// Number of columns.
    pub fn channels(&self) -> usize {
        self.mean.len()
    }

    /// The scaled series, channel-major `[channels, rows]`: all rows of the first column, then the next.
    ///
    /// # Errors
    /// [`WindowError::ScalerChannels`] for a series of other columns, [`WindowError::FarOut`] for a value whose square, scaled,
    /// would leave `f32`.
    pub fn scale_f32(&self, series: &Series) -> Result<Vec<f32>, DataError> {
        let mut scaled = Vec::with_capacity(series.channels() * series.rows());
        for column in 0..self.channels() {
            scaled.append(&mut self.scale_column(series, column)?);
        }
        Ok(scaled)
    }

    /// One column of the scaled series, so that not all have to be in memory again.
    ///
    /// # Errors
    /// As [`Scaler::scale_f32`].
    pub fn scale_column(&self, series: &Series, column: usize) -> Result<Vec<f32>, DataError> {
        let (channels, values) = (series.channels(), series.values().get(column));
        let statistics = self.mean.get(column).zip(self.std.get(column));
        let (Some(values), Some((mean, std))) = (values.filter(|_| channels == self.channels()), statistics)
        else {
            let (file, scaler) = (series.source().to_owned(), self.channels());
            return Err(DataError::Window(WindowError::ScalerChannels { file, series: channels, scaler }));
        };
        let scaled = |(row, value): (usize, &f64)| {
            let distance = (value - mean) / std;
            if distance.is_nan() || distance.abs() > FARTHEST {
                let name = series.columns().get(column).map_or("", String::as_str);
                return Err(far_out(series, name, (*value, distance), row));
            }
            Ok(distance as f32)
        };
        values.iter().enumerate().map(scaled).collect()
    }

    /// The statistics of the first columns.
    ///
    /// # Errors
    /// As [`Scaler::new`].
    pub(crate) fn of_first(&self, columns: usize) -> Result<Self, DataError> {
        let first = |all: &[f64]| all.iter().take(columns).copied().collect();
        let constant = self.constant.iter().take(columns).copied().collect();
        Ok(Self::new(first(&self.mean), first(&self.std))?.with_constant(constant))
    }

    /// [`Scaler::scale_f32`] widened: a scaled series is stored in `f32`, and a calculation in `f64`
    /// starts from the same stored values.
    ///
    /// # Errors
    /// As [`Scaler::scale_f32`].
    pub fn scale_f64(&self, series: &Series) -> Result<Vec<f64>, DataError> {
        Ok(self.scale_f32(series)?.into_iter().map(f64::from).collect())
    }

    /// The digits that scaled values of f32 have in the unit of a column.
    ///
    /// # Panics
    /// When `channel` is not below [`Scaler::channels`].
    #[must_use]
    pub fn digits(&self, channel: usize) -> Digits {
        Digits::of_f32(self.std[channel])
    }

    /// A scaled value of column `channel` in the column's own unit.
    ///
    /// # Panics
    /// When `channel` is not below [`Scaler::channels`].
    pub fn inverse(&self, channel: usize, scaled: f64) -> f64 {
        scaled * self.std[channel] + self.mean[channel]
    }
}

/// The share of the spread of all known rows that the training rows have at least, where their spread is the scale.
const LEAST_SHARE: f64 = 0.1;

/// Values that differ by no more than this share of the largest are one value, and rounding.
const ROUNDING: f64 = 1e-9;

/// Whether values are one value, but for rounding.
fn is_constant(values: &[f64]) -> bool {
    let extremes =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
    extremes.1 - extremes.0 <= ROUNDING * extremes.0.abs().max(extremes.1.abs())
}

/// Mean and standard deviation of rows of a column.
fn statistics(series: &Series, column: usize, rows: Range<usize>) -> Result<(f64, f64), DataError> {
    let values = series.values().get(column).and_then(|values| values.get(rows.clone()));
    let Some(values) = values.filter(|values| !values.is_empty()) else {
        let (file, start, end) = (series.source().to_owned(), rows.start, rows.end);
        return Err(DataError::Series(SeriesError::RowRange { file, start, end, rows: series.rows() }));
    };
    match mean_std(values, 1) {
        (mean, std) if mean.iter().chain(&std).all(|x| x.is_finite()) => Ok((mean[0], std[0])),
        _ => {
            let column = series.columns().get(column).cloned().unwrap_or_default();
            Err(DataError::Window(WindowError::Unscalable { file: series.source().to_owned(), column }))
        }
    }
}

/// Below this, squares lose digits or vanish.
const TINY: f64 = 1e-140;

/// Standard deviations beyond which values are refused: squares of errors of that size, summed over the windows, still
/// fit into 32 bits.
const FARTHEST: f64 = 1e12;

fn far_out(series: &Series, column: &str, (value, spread): (f64, f64), row: usize) -> DataError {
    let dated = |dates: &crate::dates::Dates| Some(format!(" ({})", dates.format(*dates.values().get(row)?)));
    DataError::Window(WindowError::FarOut {
        file: series.source().to_owned(),
        column: column.to_owned(),
        row: row + 1,
        date: series.dates().and_then(dated).unwrap_or_default(),
        value,
        spread: spread.abs(),
    })
}

/// Means and population standard deviations of the columns of a row-major matrix; of equal values that value and 1.
pub(crate) fn mean_std<T: Copy + Into<f64>>(values: &[T], columns: usize) -> (Vec<f64>, Vec<f64>) {
    let rows = || values.chunks_exact(columns.max(1));
    let count = rows().len() as f64;
    let (mut mean, mut std) = (vec![0.0; columns], vec![0.0; columns]);
    for row in rows() {
        for (sum, &value) in mean.iter_mut().zip(row) {
            *sum += value.into();
        }
    }
    mean.iter_mut().for_each(|mean| *mean /= count);
    for row in rows() {
        for ((sum, mean), &value) in std.iter_mut().zip(&mean).zip(row) {
            let difference = value.into() - mean;
            *sum += difference * difference;
        }
    }
    for (column, std) in std.iter_mut().enumerate() {
        *std = (*std / count).sqrt();
        // Squares of tiny differences underflow, so they are taken of the differences relative to the largest one.
        if *std < TINY {
            let difference = |row: &[T]| row.get(column).map_or(0.0, |&value| value.into() - mean[column]);
            let largest = rows().map(|row| difference(row).abs()).fold(0.0, f64::max);
            let squares: f64 = rows().map(|row| (difference(row) / largest).powi(2)).sum();
            *std = if largest > 0.0 { largest * (squares / count).sqrt() } else { 1.0 };
        }
    }
    // Compared, not computed: the rounded mean of equal values may differ from them by a last digit,
    // and dividing by that difference would blow it up to one.
    let first = |column: usize| values.get(column).map_or(0.0, |&value| value.into());
    let mut equal: Vec<usize> = (0..columns).collect();
    for row in rows() {
        equal.retain(|&column| row[column].into() == first(column));
        if equal.is_empty() {
            break;
        }
    }
    for column in equal {
        (mean[column], std[column]) = (first(column), 1.0);
    }
    (mean, std)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: Vec<f64>) -> Series {
        Series::new("s", vec!["a".to_owned()], vec![values], None).expect("a series")
    }

    #[test]
    fn statistics_are_those_of_the_population() {
        let scaler =
            Scaler::fit(&series(vec![2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0, 1e9]), 0..8).expect("fit");
        assert_eq!((scaler.mean(), scaler.std()), (&[5.0][..], &[2.0][..]));
        assert_eq!(scaler.inverse(0, 2.0), 9.0);
        let wide = scaler.scale_f64(&series(vec![5.3])).expect("scaled");
        assert_eq!(wide, [f64::from(((5.3 - 5.0) / 2.0) as f32)]);
    }

    #[test]
    fn a_small_spread_round_a_large_mean_survives() {
        let scaler = Scaler::fit(&series(vec![1e9 - 1.0, 1e9 + 1.0]), 0..2).expect("fit");
        assert_eq!(scaler.std(), [1.0]);
    }

    #[test]
    fn columns_of_any_scale_are_scaled_alike() {
        for scale in [1.0, 1e-100, 1e-150, 1e-300, 1e-305] {
            let column = series([3.0, 1.0, 4.0, 1.0, 5.0].map(|x| x * scale).to_vec());
            let scaler = Scaler::fit(&column, 0..5).expect("fit");
            let scaled = scaler.scale_f64(&column).expect("scaled");
            let close = |(a, b): (&f64, f64)| assert!((a - b).abs() < 1e-6, "{scale:e}: {scaled:?}");
            scaled.iter().zip([0.125, -1.125, 0.75, -1.125, 1.375]).for_each(close);
        }
    }

    #[test]
    fn a_value_far_from_the_training_rows_is_named() {
        let mut values = vec![1.0, 2.0, 3.0, 4.0];
        let scaler = Scaler::fit(&series(values.clone()), 0..4).expect("fit");
        values.push(1e30);
        assert_eq!(
            scaler.scale_f32(&series(values)).expect_err("far").to_string(),
            "s: row 5, column `a`: 1e30 is 9e29 standard deviations from the mean of the training rows; correct the value, \
             or leave the column out"
        );
    }

    #[test]
    fn a_constant_column_divides_by_one() {
        let constant = series(vec![0.1; 10]);
        let scaler = Scaler::fit(&constant, 0..10).expect("fit");
        assert_eq!(scaler.std(), [1.0]);
        assert_eq!(scaler.scale_f32(&constant).expect("scaled"), [0.0; 10]);
    }

    #[test]
    fn the_columns_of_a_matrix_are_scored_as_each_alone() {
        let columns =
            [[0.1, 0.1, 0.1, 0.1], [1e9, 1e9 + 1.0, 1e9, 1e9 - 2.0], [0.1, 0.1, 0.1, 0.2], [0.0; 4]];
        let matrix: Vec<f64> = (0..4).flat_map(|row| columns.map(|column| column[row])).collect();
        let (mean, std) = mean_std(&matrix, 4);
        for (i, column) in columns.iter().enumerate() {
            assert_eq!(mean_std(column, 1), (vec![mean[i]], vec![std[i]]), "{column:?}");
        }
        assert_eq!((mean[0], std[0], std[1], std[3]), (0.1, 1.0, 1.1875_f64.sqrt(), 1.0));
    }

    #[test]
    fn what_cannot_be_scaled_is_refused() {
        let text = |rows| Scaler::fit(&series(vec![1.0, 2.0]), rows).expect_err("refused").to_string();
        assert_eq!(text(1..3), "rows 1..3 are not within the 2 rows of s; choose a range inside");
        assert_eq!(text(1..1), "rows 1..1 are not within the 2 rows of s; choose a range inside");
        let wide = series(vec![f64::MAX, -f64::MAX, f64::MAX]);
        let error = Scaler::fit(&wide, 0..3).expect_err("overflow").to_string();
        let expected = "s: column `a` cannot be scaled, its values span too wide a range; rescale the column";
        assert_eq!(error, expected);
        let scaler = Scaler::fit(&series(vec![1.0, 2.0]), 0..2).expect("fit");
        assert_eq!(
            scaler.scale_f32(&wide).expect_err("beyond f32").to_string(),
            "s: row 1, column `a`: 1.7976931348623157e308 is inf standard deviations from the mean of the training rows; \
             correct the value, or leave the column out"
        );
        let two = Scaler::new(vec![0.0; 2], vec![1.0; 2]).expect("two columns");
        assert_eq!(
            two.scale_f32(&wide).expect_err("one column").to_string(),
            "s: 1 columns and a scaler for 2; use the columns that the scaler was fit on"
        );
    }

    #[test]
    fn a_stored_scaler_is_checked() {
        let scaler = Scaler::new(vec![1.5], vec![0.25]).expect("sound");
        let text = serde_json::to_string(&scaler).expect("json");
        assert_eq!(text, r#"{"mean":[1.5],"std":[0.25]}"#);
        assert_eq!(serde_json::from_str::<Scaler>(&text).expect("json"), scaler);
        let error = serde_json::from_str::<Scaler>(r#"{"mean":[1.5],"std":[0.0]}"#).expect_err("zero");
        assert_eq!(
            error.to_string(),
            "the scaler is damaged (1 means, 1 standard deviations; all must be finite, std positive); fit it again"
        );
    }
}
