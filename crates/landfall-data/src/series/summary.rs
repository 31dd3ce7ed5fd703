//! What was read, as a person has to know it: facts, and a few lines that say them.

use crate::message::{count, list, printable};
use crate::series::season::Season;
use serde::Serialize;

/// What was read of files, and what was changed on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Where the series come from, in short.
    pub source: String,
    /// Rows of all series.
    pub rows: usize,
    /// Number of series.
    pub series: usize,
    /// The columns that name the series; empty where a file is one.
    pub series_columns: Vec<String>,
    /// The columns that are used.
    pub columns: Vec<String>,
    /// Of these the number that is to be forecast, the first ones.
    pub targets: usize,
    /// The columns that hold the date.
    pub date_columns: Vec<String>,
    /// How dates are written, in the notation of `strftime`.
    pub date_format: Option<String>,
    /// How dates advance, in words.
    pub frequency: Option<String>,
    /// The first date, as the file writes dates.
    pub first: Option<String>,
    /// The last one.
    pub last: Option<String>,
    /// The seasonal period.
    pub season: Season,
    /// Which columns are known in advance, in words, where there are any.
    pub covariates: Option<String>,
    /// What was filled, changed or left out, a sentence each.
    pub notes: Vec<String>,
}

impl Summary {
    /// The lines for a person: file, rows and columns; dates; season; covariates; then the notes.
    pub fn lines(&self) -> Vec<String> {
        let series = match (self.series, self.series_columns.is_empty()) {
            (1, true) => String::new(),
            (n, true) => format!("{n} series, "),
            (n, false) => format!("{n} series by column {}, ", quoted(&self.series_columns)),
        };
        let (targets, others) = self.columns.split_at(self.targets.min(self.columns.len()));
        let columns = match others {
            [] => format!("{} ({})", count(targets.len(), "column"), list(targets)),
            _ => format!("targets {}, further inputs {}", list(targets), list(others)),
        };
        let mut lines = vec![format!("data {}: {series}{}, {columns}", self.source, count(self.rows, "row"))];
        if let (Some(first), Some(last)) = (&self.first, &self.last) {
            let frequency = self.frequency.as_deref().unwrap_or("irregular, rows are counted as steps");
            lines.push(format!(
                "  dates: {frequency}, {first} to {last}, in column {}",
                quoted(&self.date_columns)
            ));
        } else {
            lines.push("  dates: none, rows are counted".to_owned());
        }
        lines.push(match self.season.period {
            1 => format!("  seasonal period: none ({})", self.season.why),
            period => format!("  seasonal period: {period} ({})", self.season.why),
        });
        lines.extend(self.covariates.iter().map(|which| format!("  {which}")));
        lines.extend(self.notes.iter().map(|note| format!("  note: {note}")));
        // Names of columns and series may hold line breaks.
        lines.iter().map(|line| printable(line).into_owned()).collect()
    }
}

fn quoted(names: &[String]) -> String {
    list(&names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>())
}
