//! The commands.

pub(crate) mod bench;
pub(crate) mod doctor;
pub(crate) mod evaluate;
pub(crate) mod export;
pub(crate) mod forecast;
pub(crate) mod plan;
pub(crate) mod predict;
mod predictions;
pub(crate) mod report;
mod seeds;
pub(crate) mod serve;
pub(crate) mod train;
pub(crate) mod tune;

use crate::output;
use landfall_train::data::{DataError, Fill, Metrics};
use landfall_train::run::{ClassRecord, EvaluationRecord, QuantileRecord, SeriesRecord};

/// A fill rule by its name.
fn fill(name: Option<&String>) -> Result<Option<Fill>, DataError> {
    name.map(|n| n.parse()).transpose()
}

/// Lines that a person has to know of and that are no errors.
fn note_all<'a>(notes: impl IntoIterator<Item = &'a String>) {
    notes.into_iter().for_each(|note| output::note(&format!("note: {note}")));
}

/// The scores of quantiles in one line.
fn quantile_line(q: &QuantileRecord) -> String {
    let QuantileRecord { pinball, coverage, coverage_nominal } = q;
    format!(
        "Mean quantile loss {}, interval coverage {:.1} % (nominal {:.0} %)",
        output::digits(*pinball),
        100.0 * coverage,
        100.0 * coverage_nominal
    )
}

/// The scores of classes as a table's rows, beside what they are to be compared with.
fn class_rows(name: &str, r: &EvaluationRecord, c: &ClassRecord) -> Vec<Vec<String>> {
    let header = [&format!("{} samples of {}", r.windows, r.split), "accuracy", "cross-entropy"];
    let scores = [name, &output::digits(c.accuracy), &output::digits(c.cross_entropy)];
    [header, scores].map(|row| row.map(str::to_owned).to_vec()).to_vec()
}

/// The errors of each series as a table's rows.
fn series_rows(r: &EvaluationRecord) -> Vec<Vec<String>> {
    let header = ["series, scaled", "windows", "MSE", "MAE"].map(str::to_owned).to_vec();
    let row = |s: &SeriesRecord| {
        vec![s.name.clone(), s.windows.to_string(), output::digits(s.mse), output::digits(s.mae)]
    };
    std::iter::once(header).chain(r.series.iter().map(row)).collect()
}

/// The headings of [`metric_cells`].
const METRICS: [&str; 4] = ["RMSE", "MASE", "sMAPE", "R²"];

/// RMSE, MASE, sMAPE in percent and R², with a dash for what is not defined.
fn metric_cells(metrics: Option<&Metrics>) -> [String; 4] {
    let cell = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), output::digits);
    let m = metrics.copied().unwrap_or_default();
    [
        cell(m.rmse),
        cell(m.mase),
        m.smape.map_or_else(|| "-".to_owned(), |x| format!("{} %", output::digits(x))),
        cell(m.r2),
    ]
}
