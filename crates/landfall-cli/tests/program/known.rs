//! Data with columns known in advance.

use serde_json::Value;

/// The cell of a column in an hourly row, with sales that a price and an event explain.
pub(crate) fn cell(t: usize, column: &str) -> Value {
    let (price, event) = (t * 7919 % 101, t / 5 % 3);
    match column {
        "date" => format!("2024-{:02}-{:02} {:02}:00:00", 1 + t / 24 / 28, 1 + t / 24 % 28, t % 24).into(),
        "sales" => (2 * price + 10 * event + t % 24).into(),
        "price" => price.into(),
        "event" => ["none", "fair", "strike"][event].into(),
        "weather" => (t * 31 % 17).into(),
        other => panic!("no column {other}"),
    }
}

/// Rows as a CSV.
pub(crate) fn rows(from: usize, count: usize, columns: &[&str]) -> String {
    let of = |t: usize| {
        let cells = ["date"].iter().chain(columns).map(|c| {
            let cell = cell(t, c);
            cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)
        });
        cells.collect::<Vec<_>>().join(",") + "\n"
    };
    format!("date,{}\n", columns.join(",")) + &(from..from + count).map(of).collect::<String>()
}
