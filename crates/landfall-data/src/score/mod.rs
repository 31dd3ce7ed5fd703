//! The errors of a forecast over all windows of a segment.

pub mod baseline;
pub mod conformal;
pub(crate) mod metrics;
pub(crate) mod prior;
pub(crate) mod quantile_scores;

use crate::error::score::ScoreError;
use crate::error::windows::WindowError;
use serde::{Deserialize, Serialize};

use crate::error::DataError;

/// Mean errors over all windows, steps and columns of a segment, on the scaled series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Mean squared error.
    pub mse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// Mean squared error of the windows in whole batches alone, as published figures often have it;
    /// `None` when there is no whole batch.
    pub mse_drop_last: Option<f64>,
    /// Mean absolute error of the same windows.
    pub mae_drop_last: Option<f64>,
    /// Windows scored.
    pub windows: usize,
    /// Windows in whole batches.
    pub windows_drop_last: usize,
    /// Errors of each column over all windows, in the order of the series.
    pub per_column: Vec<ColumnScore>,
}

/// Mean errors of one column in original units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnScore {
    /// Name of the column.
    pub name: String,
    /// Mean squared error, in the square of the column's unit.
    pub mse: f64,
    /// Mean absolute error, in the column's unit.
    pub mae: f64,
}

/// Sums of errors, window by window in the order of the segment.
#[derive(Debug, Clone)]
pub struct ScoreSums {
    names: Vec<String>,
    horizon: usize,
    windows: usize,
    windows_drop_last: usize,
    squared: Vec<f64>,
    absolute: Vec<f64>,
    /// The same sums in the columns' own units, per column.
    own: Vec<(f64, f64)>,
    /// Mean errors at the last whole batch.
    drop_last: Option<(f64, f64)>,
}

impl ScoreSums {
    /// Empty sums for these columns and windows of `horizon` steps; the first `windows_drop_last` fill whole batches.
    ///
    /// # Errors
    /// [`WindowError::ZeroHorizon`].
    pub fn new(names: &[String], horizon: usize, windows_drop_last: usize) -> Result<Self, DataError> {
        if horizon == 0 {
            return Err(DataError::Window(WindowError::ZeroHorizon));
        }
        let columns = names.len();
        Ok(Self {
            names: names.to_vec(),
            horizon,
            windows: 0,
            windows_drop_last,
            squared: vec![0.0; columns],
            absolute: vec![0.0; columns],
            own: vec![(0.0, 0.0); columns],
            drop_last: None,
        })
    }

    /// Adds the next window: per column the sum over its steps of the squared and of the absolute
    /// errors, both scaled, and what one scaled unit is in the column's own.
    ///
    /// # Errors
    /// [`ScoreError::ScoreColumns`] unless there is one of each per column.
    pub fn add_window(&mut self, squared: &[f64], absolute: &[f64], std: &[f64]) -> Result<(), DataError> {
        let expected = self.names.len();
        for found in [squared.len(), absolute.len(), std.len()] {
            if found != expected {
                return Err(DataError::Score(ScoreError::ScoreColumns { found, expected }));
            }
        }
        for (sums, errors) in [(&mut self.squared, squared), (&mut self.absolute, absolute)] {
            sums.iter_mut().zip(errors).for_each(|(sum, error)| *sum += error);
        }
        for (own, ((squared, absolute), std)) in
            self.own.iter_mut().zip(squared.iter().zip(absolute).zip(std))
        {
            *own = (own.0 + squared * std * std, own.1 + absolute * std);
        }
        self.windows += 1;
        if self.windows == self.windows_drop_last {
            self.drop_last = Some(self.means());
        }
        Ok(())
    }

    /// The scores of the windows added.
    ///
    /// # Errors
    /// [`ScoreError::NothingScored`] without windows.
    pub fn finish(self) -> Result<Scores, DataError> {
        if self.windows == 0 {
            return Err(DataError::Score(ScoreError::NothingScored));
        }
        let (mse, mae) = self.means();
        let count = (self.windows * self.horizon) as f64;
        let per_column = self.names.iter().zip(&self.own).map(|(name, (squared, absolute))| ColumnScore {
            name: name.clone(),
            mse: squared / count,
            mae: absolute / count,
        });
        Ok(Scores {
            mse,
            mae,
            mse_drop_last: self.drop_last.map(|(mse, _)| mse),
            mae_drop_last: self.drop_last.map(|(_, mae)| mae),
            windows: self.windows,
            windows_drop_last: if self.drop_last.is_some() { self.windows_drop_last } else { 0 },
            per_column: per_column.collect(),
        })
    }

    fn means(&self) -> (f64, f64) {
        let count = (self.windows * self.horizon * self.names.len()) as f64;
        (self.squared.iter().sum::<f64>() / count, self.absolute.iter().sum::<f64>() / count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(windows_drop_last: usize) -> ScoreSums {
        let names = ["a".to_owned(), "b".to_owned()];
        ScoreSums::new(&names, 2, windows_drop_last).expect("sums")
    }

    const STD: [f64; 2] = [1.0, 10.0];

    #[test]
    fn means_are_over_windows_steps_and_columns() {
        let mut sums = sums(1);
        sums.add_window(&[2.0, 6.0], &[1.0, 3.0], &STD).expect("two columns");
        sums.add_window(&[4.0, 8.0], &[2.0, 4.0], &STD).expect("two columns");
        let scores = sums.finish().expect("two windows");
        assert_eq!((scores.mse, scores.mae), (20.0 / 8.0, 10.0 / 8.0));
        assert_eq!((scores.mse_drop_last, scores.mae_drop_last), (Some(2.0), Some(1.0)));
        assert_eq!((scores.windows, scores.windows_drop_last), (2, 1));
        let b = ColumnScore { name: "b".to_owned(), mse: 350.0, mae: 17.5 };
        assert_eq!(scores.per_column.get(1), Some(&b));
        let json = serde_json::to_string(&scores).expect("json");
        assert_eq!(serde_json::from_str::<Scores>(&json).expect("json"), scores);
    }

    #[test]
    fn without_a_whole_batch_there_is_no_such_score() {
        let mut sums = sums(0);
        assert_eq!(
            sums.clone().finish().expect_err("no window").to_string(),
            "no windows were scored; score at least one"
        );
        sums.add_window(&[2.0, 6.0], &[1.0, 3.0], &STD).expect("two columns");
        assert_eq!(
            sums.add_window(&[2.0], &[1.0, 3.0], &STD).expect_err("one column").to_string(),
            "errors of 1 columns where 2 are scored; pass one sum per column"
        );
        let scores = sums.finish().expect("one window");
        assert_eq!((scores.windows, scores.mse_drop_last, scores.windows_drop_last), (1, None, 0));
    }
}
