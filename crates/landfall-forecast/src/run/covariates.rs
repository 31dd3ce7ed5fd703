//! Columns of a run that are known in advance, and their values in the rows that it forecasts.

use super::values::Names;
use super::{Run, RunError, Settings};
use crate::data::{Calendar, Future, Known, Panel, Purpose, ReadOptions, Series, ahead};
use std::path::PathBuf;

impl Run {
    /// Why each of the run's last columns is known in advance.
    #[must_use]
    pub fn known(&self) -> Vec<Known> {
        let covariates = self.resolved().settings.covariates();
        let known = self.resolved().columns().known.min(self.columns().len());
        let is_of = |column: &String, names: &[String]| {
            names.iter().any(|n| n == column || column.starts_with(&format!("{n}=")))
        };
        let why = |column: &String| match Calendar::ALL.iter().find(|f| f.column() == *column) {
            Some(feature) if covariates.calendar.is_some() => Known::Calendar(*feature),
            _ if is_of(column, &covariates.fixed) => Known::Fixed,
            _ => Known::Given,
        };
        self.columns()[self.columns().len() - known..].iter().map(why).collect()
    }

    /// Columns whose values in the rows to forecast only whoever asks for a forecast has.
    fn given(&self) -> Vec<String> {
        let known = self.known();
        let columns = self.columns()[self.columns().len() - known.len()..].iter().zip(known);
        columns.filter(|(_, why)| *why == Known::Given).map(|(column, _)| column.clone()).collect()
    }

    /// Whether what the run forecasts with reads columns known in advance: its network does, a ridge regression and a
    /// baseline do not.
    #[must_use]
    pub fn reads_known(&self) -> bool {
        !self.known().is_empty() && self.forecaster().is_none_or(|f| f.ridge.is_none() && f.share > 0.0)
    }

    /// Whether a forecast needs values of columns known in advance that only whoever asks for it has.
    #[must_use]
    pub fn needs_future(&self) -> bool {
        self.reads_known() && !self.given().is_empty()
    }

    /// The values of the columns known in advance, from files with rows after the last of the data.
    ///
    /// # Errors
    /// [`RunError::NoKnown`] without such columns; whatever keeps the files from being such rows.
    pub fn load_future(&self, files: &[PathBuf]) -> Result<Panel, RunError> {
        let Some(read) = self.future_options() else {
            return Err(RunError::NoKnown { path: self.path().to_owned() });
        };
        Ok(Panel::read(files, &read)?)
    }

    /// How rows after the last of the data are read: the columns known in advance that only whoever asks for a forecast has,
    /// the dates and the series. None where the run has no such columns.
    #[must_use]
    pub fn future_options(&self) -> Option<ReadOptions> {
        let given = self.given();
        if given.is_empty() {
            return None;
        }
        Some(self.resolved().settings.future_options(given))
    }

    /// Whether the rows to forecast of these series have their values, so that a missing one is said before a session is
    /// made. Series that a forecast leaves out need none.
    ///
    /// # Errors
    /// As [`ahead`].
    pub fn check_future(&self, panel: &Panel, future: Option<Future<'_>>) -> Result<(), RunError> {
        let only = panel.series().len() == 1;
        let context = self.resolved().network.context();
        for series in panel.series() {
            if series.rows() >= context && self.need_scalers()?.of(series, only).is_some() {
                self.ahead(series, (future, only))?;
            }
        }
        Ok(())
    }

    /// The columns known in advance in the rows to forecast; those that no forecast depends on are 0.
    pub(super) fn ahead(
        &self,
        series: &Series,
        future: (Option<Future<'_>>, bool),
    ) -> Result<Vec<Vec<f64>>, RunError> {
        let (known, horizon) = (self.known(), self.resolved().network.horizon());
        match self.forecaster() {
            // A ridge regression's network has no such columns.
            Some(f) if f.ridge.is_some() => Ok(Vec::new()),
            Some(_) if !self.reads_known() => Ok(vec![vec![0.0; horizon]; known.len()]),
            Some(_) | None => Ok(ahead(series, &known, future, horizon)?),
        }
    }
}

impl Settings {
    /// How rows after the last of the data are read that have these columns known in advance.
    #[must_use]
    pub fn future_options(&self, given: Vec<String>) -> ReadOptions {
        let names = |names: &Option<Names>| names.as_ref().map(|names| names.0.clone());
        let categorical = names(&self.categorical).unwrap_or_default();
        let asked = |c: &String| given.iter().any(|g| g.starts_with(&format!("{c}=")));
        ReadOptions {
            categorical: categorical.into_iter().filter(asked).collect(),
            columns: Some(given.clone()),
            series_id: names(&self.series_id),
            date_column: names(&self.date_column),
            date_format: self.date_format.clone(),
            decimal: self.decimal,
            thousands: self.thousands,
            purpose: Purpose::Future,
            ..ReadOptions::default()
        }
    }
}
