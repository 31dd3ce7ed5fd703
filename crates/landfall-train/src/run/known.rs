//! The columns of a run that are known in advance.

use super::RunError;
use super::open::Run;
use super::settings::Names;
use crate::data::{Calendar, Known, Panel, ReadOptions};
use std::path::Path;

impl Run {
    /// Why each of the run's last columns is known in advance.
    #[must_use]
    pub fn known(&self) -> Vec<Known> {
        let settings = &self.resolved().settings;
        let covariates = settings.covariates();
        let known = self.resolved().columns().known;
        let first = self.columns().len() - known.min(self.columns().len());
        let is_of = |column: &String, names: &[String]| {
            names.iter().any(|n| n == column || column.starts_with(&format!("{n}=")))
        };
        let why = |column: &String| match Calendar::ALL.iter().find(|f| f.column() == *column) {
            Some(feature) if covariates.calendar.is_some() => Known::Calendar(*feature),
            _ if is_of(column, &covariates.fixed) => Known::Fixed,
            _ => Known::Given,
        };
        self.columns()[first..].iter().map(why).collect()
    }

    /// Whether the network that forecasts reads columns that are known in advance.
    #[must_use]
    pub fn reads_known(&self) -> bool {
        !self.known().is_empty() && self.forecaster().is_none_or(|f| f.ridge.is_none() && f.share > 0.0)
    }

    /// Whether a forecast needs values of columns known in advance that only whoever asks for it has.
    #[must_use]
    pub fn needs_future(&self) -> bool {
        self.reads_known() && self.known().contains(&Known::Given)
    }

    /// The values of the columns known in advance, from a file with rows after the last of the data.
    ///
    /// # Errors
    /// Whatever keeps the file from being such rows.
    pub fn load_future(&self, file: &Path) -> Result<Panel, RunError> {
        let known = self.known();
        let columns = self.columns().iter().rev().take(known.len()).rev().zip(&known);
        let given: Vec<String> =
            columns.filter(|(_, why)| **why == Known::Given).map(|(column, _)| column.clone()).collect();
        let settings = &self.resolved().settings;
        if given.is_empty() {
            return Err(RunError::NoKnown { path: self.path().to_owned() });
        }
        let names = |names: &Option<Names>| names.as_ref().map(|names| names.0.clone());
        let categorical = names(&settings.categorical).unwrap_or_default();
        let asked = |c: &String| given.iter().any(|g| g.starts_with(&format!("{c}=")));
        let read = ReadOptions {
            categorical: categorical.into_iter().filter(asked).collect(),
            columns: Some(given),
            series_id: names(&settings.series_id),
            date_column: names(&settings.date_column),
            date_format: settings.date_format.clone(),
            ..ReadOptions::default()
        };
        Ok(Panel::read(&[file], &read)?)
    }
}
