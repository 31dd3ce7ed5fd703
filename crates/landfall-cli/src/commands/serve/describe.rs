//! What the server says of itself: the run, and how to ask for forecasts.

use super::of_run::name;
use landfall_forecast::run::Run;
use landfall_forecast::without_run::{INTERVAL, PanelForecaster};
use landfall_train::data::{DateForm, Known, ReadOptions};
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;

/// Rows that a forecast reads.
fn rows(run: &Run) -> usize {
    let context = run.resolved().network.context();
    run.forecaster().map_or(context, |f| f.history(context))
}

/// The columns of a history in a file; those of the rows after it.
fn columns(run: &Run) -> (Vec<String>, Vec<String>) {
    let of = |options: ReadOptions| options.file_columns().unwrap_or_default();
    let future = run.needs_future().then(|| run.future_options()).flatten();
    (of(run.read_options()), future.map(of).unwrap_or_default())
}

/// The run, as JSON.
pub(super) fn model(run: &Run, interval_levels: &[f64], most: usize) -> String {
    let names: Vec<&str> = run.scalers().iter().map(|(name, _)| name.as_str()).collect();
    let options = run.read_options();
    let (columns, future) = columns(run);
    let features = run.known().into_iter().filter_map(|known| match known {
        Known::Calendar(feature) => Some(feature.name()),
        Known::Given | Known::Fixed => None,
    });
    let calendar: Vec<&str> = features.collect();
    json!({
        "landfall": env!("CARGO_PKG_VERSION"),
        "forecaster": name(run),
        "columns": columns,
        "known_future": future,
        "categorical": options.categorical,
        "static": options.fixed,
        "calendar": calendar,
        "targets": run.columns().get(..run.targets()).unwrap_or_default(),
        "rows": rows(run),
        "horizon": run.resolved().network.horizon(),
        "levels": run.levels(),
        "interval_levels": interval_levels,
        "series": names,
        "date_column": options.date_column,
        "date_format": options.date_format,
        "batch": most,
    })
    .to_string()
}

/// The API in plain text, with examples of this run.
pub(super) fn help(run: &Run, interval_levels: &[f64], address: SocketAddr) -> String {
    let (rows, horizon) = (rows(run), run.resolved().network.horizon());
    let (columns, future) = columns(run);
    let list = columns.join(", ");
    let targets = run.columns().get(..run.targets()).unwrap_or_default().join(", ");
    let options = run.read_options();
    let date = match options.date_column.as_deref() {
        Some([one]) => one.clone(),
        Some(_) | None => "date".to_owned(),
    };
    let form = options.date_format.as_deref().and_then(DateForm::new);
    let dated = json!(form.and_then(|form| form.example()).as_deref().unwrap_or("2024-12-31 13:00:00"));
    let named = |column: &String| options.categorical.contains(column);
    let lists = |columns: &[String]| {
        let list = |c: &String| {
            let cells = if named(c) { "[\"name\", \"name\", ...]" } else { "[1.5, 1.7, ...]" };
            format!("{}: {cells}", json!(c))
        };
        columns.iter().map(list).collect::<Vec<_>>().join(", ")
    };
    let cell = |c: &String| format!("{}: {}", json!(c), if named(c) { "\"name\"" } else { "1.5" });
    let cells = columns.iter().map(cell).collect::<Vec<_>>().join(", ");
    let (body, after, ahead) = if future.is_empty() {
        let body = "-H 'Content-Type: text/csv' --data-binary @history.csv";
        (body, String::new(), String::new())
    } else {
        let ahead = format!(
            "
Each history needs {}, known in advance, in the {horizon} rows after it: `future`.
",
            future.join(", ")
        );
        let body = "-F data=@history.csv -F future=@future.csv";
        (body, format!(", \"future\": {{\"dates\": [...], \"columns\": {{{}}}}}", lists(&future)), ahead)
    };
    let dates = if run.known().iter().any(|known| matches!(known, Known::Calendar(_))) {
        "with dates"
    } else {
        "with dates or without"
    };
    let more = if future.is_empty() { "" } else { ", \"future\": ..." };
    let beside = match (run.levels().is_empty(), interval_levels.is_empty()) {
        (true, true) => "",
        (false, true) => ", \"quantiles\": [...]",
        (true, false) => ", \"intervals\": [...]",
        (false, false) => ", \"quantiles\": [...], \"intervals\": [...]",
    };
    let lists = lists(&columns);
    let several = if run.scalers().len() > 1 {
        let names: Vec<&str> = run.scalers().iter().map(|(name, _)| name.as_str()).take(8).collect();
        format!(
            "\nThe run has {} series ({}{}): name one with \"series\": \"{}\" beside the columns, or ?series=NAME for a CSV.\n",
            run.scalers().len(),
            names.join(", "),
            if names.len() < run.scalers().len() { ", ..." } else { "" },
            names.first().copied().unwrap_or_default()
        )
    } else {
        String::new()
    };
    format!(
        "\
Landfall forecasts {targets}: the {horizon} rows after a history of at least {rows} rows of {list}.
{ahead}
POST /forecast    a history (application/json or text/csv) in, its forecast out
GET  /model       columns, rows, horizon and quantile levels, as JSON
GET  /health      whether the server answers
GET  /metrics     counts for Prometheus

A CSV with a header, and a CSV back:

  curl http://{address}/forecast {body}

The same, and JSON back:

  curl http://{address}/forecast -H 'Accept: application/json' {body}

JSON by columns, {dates}; null is a missing value:

  curl http://{address}/forecast -H 'Content-Type: application/json' \\
    -d '{{\"dates\": [{dated}, ...], \"columns\": {{{lists}}}{after}}}'

JSON by rows:

  -d '{{\"rows\": [{{{date}: {dated}, {cells}}}, ...]{more}}}'

Several histories at once, each as above:

  -d '{{\"histories\": [{{\"columns\": ...}}, {{\"columns\": ...}}]}}'
{several}
The answer has one list of values for each of its columns:

  {{\"columns\": [...], \"forecasts\": [{{\"dates\": [...], \"values\": [[...], ...]{beside}}}]}}

What is wrong with a request is said in JSON: {{\"status\": 422, \"error\": \"...\"}}.
",
        date = json!(date)
    )
}

/// The pretrained forecaster, as JSON: columns, series and horizon are those of a request.
pub(super) fn pretrained(weights: Option<&Path>, forecaster: &PanelForecaster, most: usize) -> String {
    json!({
        "landfall": env!("CARGO_PKG_VERSION"),
        "forecaster": forecaster.name(),
        "weights": weights,
        "columns": null,
        "targets": null,
        "rows": 1,
        "covariates": forecaster.reads_covariates(),
        "context": forecaster.context(),
        "horizon": null,
        "longest_horizon": forecaster.most_rows(),
        "levels": [],
        "interval_levels": [INTERVAL],
        "series": null,
        "batch": most,
    })
    .to_string()
}

/// What of the API is for weights that read covariates.
const COVARIATES: &str = "  \
  known-future=price     columns whose values in the rows to forecast stand in `future`
  categorical=sky        columns whose values are names
  calendar=weekday       features of the dates

With target= the columns that are not to be forecast are covariates. The rows after a history have the values of those known in
advance, a second CSV (-F data=@history.csv -F future=@future.csv) or beside its columns:

  -d '{\"columns\": {\"sales\": [...], \"price\": [...]}, \"future\": {\"columns\": {\"price\": [...]}}}'
";

/// The API without a run in plain text.
pub(super) fn help_without_run(forecaster: &PanelForecaster, address: SocketAddr) -> String {
    let (context, most) = (forecaster.context(), forecaster.most_rows());
    let covariates = if forecaster.reads_covariates() { COVARIATES } else { "" };
    format!(
        "\
Landfall's pretrained forecaster continues any series: 1 to {most} rows after a history, of which it reads the last {context} rows.

POST /forecast?horizon=N    a history (application/json or text/csv) in, its forecast out
GET  /model                 rows, the longest horizon and levels, as JSON
GET  /health                whether the server answers
GET  /metrics               counts for Prometheus

A CSV with a header, of one series or several, and a CSV back:

  curl 'http://{address}/forecast?horizon=12' -H 'Content-Type: text/csv' --data-binary @history.csv

JSON by columns, with dates or without; null is a missing value:

  curl 'http://{address}/forecast?horizon=12' -H 'Content-Type: application/json' \\
    -d '{{\"dates\": [\"2024-12-31\", ...], \"columns\": {{\"sales\": [1.5, null, ...]}}}}'

JSON by rows:

  -d '{{\"rows\": [{{\"date\": \"2024-12-31\", \"sales\": 1.5}}, ...]}}'

Several histories at once, each as above and with the same columns:

  -d '{{\"histories\": [{{\"series\": \"north\", \"columns\": ...}}, {{\"series\": \"south\", \"columns\": ...}}]}}'

What is asked for stands in the address:

  horizon=12             rows to forecast, always
  interval=50,95         levels of intervals in percent, or none; {INTERVAL} if left out
  quantiles=0.1,0.9      levels of quantiles
  target=sales           the columns to forecast, all columns of numbers if left out
  series=north           the name of a single series
{covariates}
The answer has one list of values for each of its columns; notes say which columns are left out:

  {{\"columns\": [...], \"interval_levels\": [...], \"forecasts\": [{{\"dates\": [...], \"values\": [[...], ...], \"intervals\": [...]}}], \"notes\": [...]}}

What is wrong with a request is said in JSON: {{\"status\": 422, \"error\": \"...\"}}.
"
    )
}
