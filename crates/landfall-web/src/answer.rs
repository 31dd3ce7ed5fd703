//! What the page shows.

use landfall_data::{Panel, Purpose, ReadOptions};
use landfall_forecast::ForecastError;
use landfall_forecast::run::{Device, Forecast};
use landfall_forecast::table::Table;
use landfall_forecast::without_run::{INTERVAL, PanelForecaster, Roles, Spread, check, unused};
use serde_json::{Value, json};

/// The rows after the last one of each series of a CSV, as JSON: `columns`, `level` of the interval in percent, `label`, the name of what
/// tells rows apart, `series`, `notes`, and `csv`, the same table as `landfall forecast` writes. Each series has its `name`, the `dates` of
/// its last rows (null without dates) and the `rows` ahead as text, and for each column `history`, `median`, `low` and `high`. What keeps
/// the CSV from being forecast is `error`, a sentence.
///
/// ```
/// let csv = b"day,sales\n2024-01-01,3\n2024-01-02,5\n2024-01-03,4\n2024-01-04,5\n";
/// let answer: serde_json::Value = serde_json::from_str(&landfall_web::answer(csv, 1))?;
/// assert_eq!(answer["series"][0]["rows"][0], "2024-01-05");
/// assert!(answer["series"][0]["median"][0][0].is_f64());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn answer(csv: &[u8], horizon: usize) -> String {
    forecast(csv, horizon).unwrap_or_else(|why| json!({"error": why.to_string()})).to_string()
}

fn forecast(csv: &[u8], horizon: usize) -> Result<Value, ForecastError> {
    let intervals = [INTERVAL];
    let spread = Spread { quantiles: &[], intervals: &intervals };
    let mut forecaster = PanelForecaster::new(None, Device::Cpu, Some(1))?;
    check(horizon, forecaster.most_rows(), spread)?;
    // Nothing but the CSV says how it is read.
    let panel =
        Panel::parse(csv, "the CSV", &ReadOptions { purpose: Purpose::Unknown, ..Default::default() })?;
    let roles = Roles::alone(&panel);
    let forecasts = forecaster.forecast(&panel, horizon, spread)?;
    let columns = panel.columns().get(..panel.targets()).unwrap_or_default();
    let table = Table::new(&forecasts, columns, (&[], &intervals), horizon);
    if let Some(name) = table.named_twice() {
        return Ok(
            json!({"error": format!("two columns of the forecast would be called `{name}`: rename that column")}),
        );
    }
    let labels = table.labels();
    let notes: Vec<String> =
        panel.notices().iter().cloned().chain(unused(&panel, &roles)).chain(labels.note.clone()).collect();
    let series: Vec<Value> = forecasts.iter().zip(&labels.rows).map(|(f, rows)| one(f, rows)).collect();
    Ok(json!({
        "columns": columns, "level": INTERVAL, "label": labels.label, "series": series, "notes": notes, "csv": table.csv(),
    }))
}

/// A series with these names of its rows ahead.
fn one(forecast: &Forecast, rows: &[String]) -> Value {
    let Forecast { context, values, intervals, .. } = forecast;
    let dates =
        context.dates().map(|dates| dates.values().iter().map(|at| dates.format(*at)).collect::<Vec<_>>());
    let bound = |which: usize| -> Vec<&Vec<f64>> {
        intervals.iter().flatten().filter_map(|bounds| bounds.get(which)).collect()
    };
    json!({
        "name": context.name(), "dates": dates, "rows": rows, "history": context.values(),
        "median": values, "low": bound(0), "high": bound(1),
    })
}
