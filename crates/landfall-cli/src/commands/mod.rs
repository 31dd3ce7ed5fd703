//! The commands.

pub(crate) mod backtest;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod evaluate;
pub(crate) mod export;
pub(crate) mod fine_tune;
pub(crate) mod forecast;
pub(crate) mod import;
mod kept_intervals;
pub(crate) mod plan;
pub(crate) mod predict;
mod predictions;
pub(crate) mod pretrain;
pub(crate) mod report;
pub(crate) mod seeds;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod train;
pub(crate) mod tune;

use crate::output;
use landfall_forecast::run::{
    ClassRecord, EvaluationRecord, IntervalRecord, IntervalScore, QuantileRecord, SeriesRecord, Text,
};
use landfall_train::data::{DataError, Fill, Metrics, QuantileScores};

/// A fill rule by its name.
fn fill(name: Option<&String>) -> Result<Option<Fill>, DataError> {
    name.map(|n| n.parse()).transpose()
}

/// Lines that a person has to know of and that are no errors.
fn note_all<'a>(notes: impl IntoIterator<Item = &'a String>) {
    notes.into_iter().for_each(|note| output::note(&format!("note: {note}")));
}

/// The same of texts that mention settings.
fn note_texts(notes: &[Text]) {
    notes.iter().for_each(|note| output::note(&format!("note: {note}")));
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

/// The negative log-likelihood in one line.
fn nll_line(nll: f64, units: &str) -> String {
    format!("Mean negative log-likelihood {} ({units})", output::digits(nll))
}

/// CRPS and WQL, and the share of the values below each quantile, in one line.
fn quantile_scores_line(q: &QuantileScores, units: &str) -> String {
    let below = q.levels.iter().map(|l| format!("{} {:.1} %", l.level, 100.0 * l.below));
    let wql = q.wql.map_or_else(|| "-".to_owned(), output::digits);
    let below = below.collect::<Vec<_>>().join(", ");
    format!("CRPS {} ({units}), WQL {wql}; values below the quantiles: {below}", output::digits(q.crps))
}

/// Why no intervals of the baseline stand beside those of a forecast, where there are none.
fn no_baseline_intervals(r: &EvaluationRecord) -> Option<String> {
    Some(r.intervals.iter().find(|i| i.baseline.is_none())?.no_baseline())
}

/// The scores of intervals as a table's rows, beside those of the baseline.
fn interval_rows(name: &str, r: &EvaluationRecord, units: &str) -> Vec<Vec<String>> {
    let first = format!("intervals, {units}");
    let header = [&first, "coverage", "mean width", "interval score"].map(str::to_owned).to_vec();
    let row = |level: f64, name: &str, s: &IntervalScore| {
        let coverage = format!("{:.1} %", 100.0 * s.coverage);
        vec![
            format!("{level} % of {name}"),
            coverage,
            output::digits(s.width),
            output::digits(s.interval_score),
        ]
    };
    let both = |i: &IntervalRecord| {
        let beside = i.baseline.as_ref().map(|s| row(i.level, &i.baseline_name, s));
        [Some(row(i.level, name, &i.own)), beside]
    };
    std::iter::once(header).chain(r.intervals.iter().flat_map(both).flatten()).collect()
}

/// The scores of classes as a table's rows, beside what they are to be compared with.
fn class_rows(name: &str, r: &EvaluationRecord, c: &ClassRecord) -> Vec<Vec<String>> {
    let header = [&format!("{} samples of {}", r.windows, r.split), "accuracy", "cross-entropy"];
    let scores = [name, &output::digits(c.accuracy), &output::digits(c.cross_entropy)];
    [header, scores].map(|row| row.map(str::to_owned).to_vec()).to_vec()
}

/// The errors of each series as a table's rows.
fn series_rows(r: &EvaluationRecord, units: &str) -> Vec<Vec<String>> {
    let header = [&format!("series, {units}"), "windows", "MSE", "MAE"].map(str::to_owned).to_vec();
    let row = |s: &SeriesRecord| {
        vec![s.name.clone(), s.windows.to_string(), output::digits(s.mse), output::digits(s.mae)]
    };
    let mut rows = vec![header];
    if r.series.len() <= SHOWN {
        rows.extend(r.series.iter().map(row));
        return rows;
    }
    let mut sorted: Vec<&SeriesRecord> = r.series.iter().collect();
    sorted.sort_by(|a, b| b.mse.total_cmp(&a.mse));
    rows.extend(sorted.iter().take(LARGEST).map(|s| row(s)));
    let rest = &sorted[LARGEST..];
    let middle = rest[rest.len() / 2];
    let windows = rest.iter().map(|s| s.windows).sum::<usize>().to_string();
    let name = format!("{} more, the median", rest.len());
    rows.push(vec![name, windows, output::digits(middle.mse), output::digits(middle.mae)]);
    rows
}

/// Series whose errors are all printed; of more, those of the largest errors are, and the median of the others.
const SHOWN: usize = 12;
const LARGEST: usize = 6;

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
