//! The candidates of a comparison in the order of their errors.

use super::attempts::{done, tried};
use super::plan::Plan;
use super::significance::{Difference, Sign};
use crate::choice::{MANY, Metric};
use crate::error::ForecastError;
use crate::files::replace;
use crate::report::digits;
use crate::run::{Compared, RunError};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The file of a comparison's directory with its result.
const LEADERBOARD: &str = "leaderboard.json";

/// What the test errors of a candidate say beside those of the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is the first.
    Best,
    /// The difference is within two standard errors.
    AsGood,
    /// Its error is larger by more than that.
    Worse,
    /// Its error is smaller by more than that, which the rows before the test did not show.
    Better,
    /// There are too few windows, or other ones, to tell.
    TooFewWindows,
}

impl Verdict {
    /// It in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::AsGood => "as good",
            Self::Worse => "worse",
            Self::Better => "better in the test",
            Self::TooFewWindows => "too few windows",
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.words())
    }
}

/// A candidate of a leaderboard.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its place, from 1; none of one that failed.
    pub rank: Option<usize>,
    /// Its name.
    pub candidate: String,
    /// What its run forecasts with.
    pub forecaster: Option<String>,
    /// The error before the test rows, by which the candidates are ordered.
    pub validation: Option<f64>,
    /// The same error of the test windows.
    pub test: Option<f64>,
    /// The mean squared error of the test windows, scaled.
    pub test_mse: Option<f64>,
    /// Seconds of its training, of all attempts.
    pub seconds: f64,
    /// What its test errors say; none of one that failed.
    pub verdict: Option<Verdict>,
    /// How far its test errors are from those of the first one: the mean and its standard error.
    pub difference: Option<Difference>,
    /// Why it failed.
    pub failed: Option<String>,
    /// The directory of its run; none where it failed before there was one.
    pub run: Option<PathBuf>,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Leaderboard {
    /// The directory of the comparison.
    pub folder: PathBuf,
    /// The error that orders the candidates.
    pub metric: Metric,
    /// Whether it is that of rolling origins, and not of validation.
    pub rolling: bool,
    /// Windows that it is of, of the first candidate.
    pub windows: usize,
    /// The candidates, the best first, those that failed last.
    pub rows: Vec<Row>,
    /// What has to be known of them, a sentence each.
    pub notes: Vec<String>,
}

impl Leaderboard {
    /// That of the runs of a plan in a directory. One that is not trained yet has no row.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn of(plan: &Plan, folder: &Path) -> Result<Self, ForecastError> {
        let tried = tried(folder)?;
        let (mut worked, mut failed) = (Vec::new(), Vec::new());
        for contender in plan.contenders()? {
            let (name, run) = (contender.name(), folder.join(contender.name()));
            let own = tried.get(name).cloned().unwrap_or_default();
            let row = |compared: Option<&Compared>| Row {
                rank: None,
                candidate: name.to_owned(),
                forecaster: compared.map(|c| c.forecaster.clone()),
                validation: compared.and_then(|c| c.validation),
                test: compared.and_then(|c| c.test),
                test_mse: compared.and_then(|c| c.mse),
                seconds: own.seconds,
                verdict: None,
                difference: None,
                failed: None,
                run: run.is_dir().then(|| run.clone()),
            };
            match done(&run)? {
                Some(compared) if compared.validation.is_some() => {
                    worked.push((row(Some(&compared)), compared));
                }
                Some(compared) => {
                    let why = "no window could choose, or its error is not finite".to_owned();
                    failed.push(Row { failed: Some(why), ..row(Some(&compared)) });
                }
                None => failed.extend(own.failed.clone().map(|why| Row { failed: Some(why), ..row(None) })),
            }
        }
        let error = |c: &Compared| c.validation.unwrap_or(f64::INFINITY);
        worked.sort_by(|(_, a), (_, b)| error(a).total_cmp(&error(b)));
        let mut made = Self {
            folder: folder.to_owned(),
            metric: plan.settings.metric.unwrap_or(Metric::Mse),
            rolling: false,
            windows: 0,
            rows: Vec::new(),
            notes: Vec::new(),
        };
        if let Some((_, best)) = worked.first() {
            (made.rolling, made.windows) = (best.rolling, best.windows);
            made.notes = notes(&worked);
            let best = best.clone();
            for (i, (mut row, compared)) in worked.into_iter().enumerate() {
                row.rank = Some(i + 1);
                row.difference = if i == 0 { None } else { difference(&best, &compared) };
                let sign = row.difference.map(Difference::sign);
                row.verdict = Some(match sign {
                    _ if i == 0 => Verdict::Best,
                    Some(Sign::AsGood) => Verdict::AsGood,
                    Some(Sign::Worse) => Verdict::Worse,
                    Some(Sign::Better) => Verdict::Better,
                    None => Verdict::TooFewWindows,
                });
                made.rows.push(row);
            }
        }
        let better = made.rows.iter().filter(|row| row.verdict == Some(Verdict::Better));
        let better: Vec<&str> = better.map(|row| row.candidate.as_str()).collect();
        if let (Some(best), false) = (made.rows.first(), better.is_empty()) {
            made.notes.push(format!(
                "In the test {} had smaller errors than {} by more than chance, which the rows before it did not show.",
                better.join(", "),
                best.candidate
            ));
        }
        made.rows.extend(failed);
        Ok(made)
    }

    /// The best candidate; none where all failed.
    #[must_use]
    pub fn best(&self) -> Option<&Row> {
        self.rows.first().filter(|row| row.rank.is_some())
    }

    /// The rows as those of a table, its header first.
    #[must_use]
    pub fn table(&self) -> Vec<Vec<String>> {
        let (metric, how) = (self.metric.name(), if self.rolling { "rolling origins" } else { "validation" });
        let header = [
            "rank".to_owned(),
            "candidate".to_owned(),
            "forecaster".to_owned(),
            format!("{metric}, {how}"),
            format!("{metric}, test"),
            "MSE, test".to_owned(),
            "seconds".to_owned(),
            "verdict".to_owned(),
        ];
        let number = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), digits);
        let row = |row: &Row| {
            vec![
                row.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
                row.candidate.clone(),
                row.forecaster.clone().unwrap_or_else(|| "-".to_owned()),
                number(row.validation),
                number(row.test),
                number(row.test_mse),
                format!("{:.1}", row.seconds),
                row.verdict.map_or("failed", Verdict::words).to_owned(),
            ]
        };
        std::iter::once(header.to_vec()).chain(self.rows.iter().map(row)).collect()
    }

    /// Writes it into the directory of the comparison.
    pub(super) fn write(&self, folder: &Path) -> Result<(), RunError> {
        let path = folder.join(LEADERBOARD);
        let text = format!("{}\n", serde_json::json!(self));
        replace(&path, text.as_bytes()).map_err(|why| RunError::Write { path, why })
    }
}

/// How far the test errors of a candidate are from those of the best one: of many series and columns from the difference of each, of
/// fewer from the difference of each window. None where there are too few that both have.
fn difference(best: &Compared, other: &Compared) -> Option<Difference> {
    if best.cells.len() >= MANY {
        let key = |c: &'_ crate::run::CellError| (c.series.clone(), c.column.clone(), c.windows);
        let of_best: HashMap<_, f64> = best.cells.iter().map(|c| (key(c), c.error)).collect();
        let pairs = other.cells.iter().filter_map(|c| Some(c.error - of_best.get(&key(c))?));
        let differences: Vec<f64> = pairs.collect();
        return Difference::of_series(&differences).filter(|_| differences.len() >= MANY);
    }
    // Both end with the last window.
    let pairs = best.by_window.iter().rev().zip(other.by_window.iter().rev());
    let differences: Vec<f64> = pairs.map(|(b, o)| o - b).collect();
    Difference::of_windows(&differences, best.horizon)
}

/// What has to be known of candidates, the best first.
fn notes(worked: &[(Row, Compared)]) -> Vec<String> {
    let Some((first, best)) = worked.first() else { return Vec::new() };
    let how = if best.rolling { "rolling origins before the test rows" } else { "validation" };
    let mut notes = vec![format!(
        "The order is that of {} over {how}, {} windows; the test has no part in it.",
        best.metric.name(),
        best.windows
    )];
    notes.push(if best.cells.len() >= MANY {
        format!(
            "Verdicts compare the test {} of {} series and columns with those of {}: within two standard errors is as good.",
            best.metric.name(),
            best.cells.len(),
            first.candidate
        )
    } else if best.by_window.len() >= 2 * best.horizon {
        format!(
            "Verdicts compare the errors of {} test windows with those of {} (Diebold and Mariano): within two standard errors is as good.",
            best.by_window.len(),
            first.candidate
        )
    } else {
        format!(
            "The test has {} windows, and a verdict needs twice the horizon, {}.",
            best.by_window.len(),
            2 * best.horizon
        )
    });
    for (row, other) in &worked[1..] {
        if other.which != best.which {
            notes.push(format!(
                "{} was scored on other windows than {} ({} of them, with a lookback window of {} rows in place of {}), so that its place \
                 may be chance.",
                row.candidate, first.candidate, other.windows, other.context, best.context
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::CellError;

    fn compared(validation: f64, errors: &[f64], horizon: usize) -> Compared {
        Compared {
            forecaster: "one".to_owned(),
            metric: Metric::Rmsse,
            validation: Some(validation),
            windows: 9,
            rolling: false,
            which: "same".to_owned(),
            context: 4,
            horizon,
            test: None,
            mse: None,
            cells: Vec::new(),
            by_window: errors.to_vec(),
        }
    }

    #[test]
    fn few_series_are_compared_by_windows_from_the_last_one_back() {
        let best = compared(1.0, &[9.0, 1.0, 1.0, 1.0, 1.0], 2);
        let found = difference(&best, &compared(2.0, &[2.0, 4.0, 3.0, 7.0], 2)).expect("windows");
        assert_eq!(found, Difference::of_windows(&[6.0, 2.0, 3.0, 1.0], 2).expect("windows"));
        assert_eq!(difference(&best, &compared(2.0, &[2.0; 3], 2)), None);
    }

    #[test]
    fn many_series_are_compared_by_each() {
        let cells = |errors: &dyn Fn(usize) -> f64| -> Vec<CellError> {
            let one = |i| CellError {
                series: format!("s{i}"),
                column: "y".to_owned(),
                windows: 1,
                error: errors(i),
            };
            (0..MANY).map(one).collect()
        };
        let of = |cells| Compared { cells, ..compared(1.0, &[], 2) };
        let best = of(cells(&|i| (i * i) as f64));
        let shuffled = of(cells(&|i| (i * i + i) as f64).into_iter().rev().collect());
        let all: Vec<f64> = (0..MANY).map(|i| i as f64).collect();
        let (found, expected) = (difference(&best, &shuffled), Difference::of_series(&all));
        let (found, expected) = (found.expect("series"), expected.expect("series"));
        assert!((found.mean - expected.mean).abs() < 1e-12);
        assert!((found.standard_error - expected.standard_error).abs() < 1e-12);
        assert_eq!(found.sign(), Sign::Worse);
        // Series of other windows are no pairs.
        let mut other = best.clone();
        other.cells[0].windows = 2;
        assert_eq!(difference(&best, &other), None);
    }
}
