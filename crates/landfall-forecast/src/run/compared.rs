//! What runs that are compared have in common, and the errors that they are compared by: `compared.json` of a run.

use super::choose::{Choice, units};
use super::folder::COMPARED;
use super::record::EvaluationRecord;
use super::resolve::Resolved;
use super::{RunError, RunFolder};
use crate::choice::{Fold, MANY, Metric, Plan, Unit};
use crate::data::{WindowForecast, WindowedPanel};
use crate::files::read_text;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::ErrorKind;
use std::path::Path;

/// The test error of one series and column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellError {
    /// The series.
    pub series: String,
    /// The column.
    pub column: String,
    /// Its test windows.
    pub windows: usize,
    /// Their error, in the metric that chose.
    pub error: f64,
}

/// The errors of a run that is compared with others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// What the run forecasts with.
    pub forecaster: String,
    /// The error that chose.
    pub metric: Metric,
    /// That of the forecaster where it was chosen; none where no window could choose.
    pub validation: Option<f64>,
    /// Windows that chose.
    pub windows: usize,
    /// Whether they are those of rolling origins.
    pub rolling: bool,
    /// Which windows they are: equal where the same ones chose.
    pub which: String,
    /// Lookback window.
    pub context: usize,
    /// Rows of a forecast.
    pub horizon: usize,
    /// The same error of the test windows; none where there is no window that tests.
    pub test: Option<f64>,
    /// The mean squared error of the test windows, scaled.
    pub mse: Option<f64>,
    /// Of each series and column.
    pub cells: Vec<CellError>,
    /// Where these are few, the mean error over them of each window that all series have, the last one last: absolute or squared, in
    /// the unit of the metric.
    pub by_window: Vec<f64>,
}

impl Compared {
    /// Those of a run, before it is tested.
    pub(crate) fn of(resolved: &Resolved, choice: &Choice, panel: &WindowedPanel, plan: &Plan) -> Self {
        let validation = choice.error(&choice.winner);
        Self {
            forecaster: choice.winner.name.clone(),
            metric: choice.metric,
            validation: Some(validation).filter(|error| error.is_finite()),
            windows: choice.windows,
            rolling: choice.rolling,
            which: which(resolved, panel, plan),
            context: resolved.network.context(),
            horizon: resolved.network.horizon(),
            test: None,
            mse: None,
            cells: Vec::new(),
            by_window: Vec::new(),
        }
    }

    /// Adds the errors of its test windows.
    pub(crate) fn tested(&mut self, errors: &TestErrors<'_>, record: &EvaluationRecord) {
        self.mse = Some(record.mse).filter(|mse| mse.is_finite());
        self.cells = errors.cells();
        let sum: f64 = self.cells.iter().map(|cell| cell.error).sum();
        self.test = Some(sum / self.cells.len() as f64).filter(|error| error.is_finite());
        if self.cells.len() < MANY {
            self.by_window = errors.by_window();
        }
    }

    /// Writes them into the folder of the run.
    pub(crate) fn write(&self, folder: &RunFolder) -> Result<(), RunError> {
        folder.write(COMPARED, &format!("{}\n", serde_json::json!(self)))
    }

    /// Those of a run's directory; none where it has none yet.
    ///
    /// # Errors
    /// [`RunError::NotARun`] for a file that cannot be read.
    pub fn read(run: &Path) -> Result<Option<Self>, RunError> {
        let unreadable =
            |why: String| RunError::NotARun { path: run.to_owned(), why: format!("{COMPARED}: {why}") };
        match read_text(&run.join(COMPARED)) {
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
            Err(why) => Err(unreadable(why.to_string())),
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|why| unreadable(why.to_string())),
        }
    }
}

/// The windows that choose, as a text that is equal where they are.
fn which(resolved: &Resolved, panel: &WindowedPanel, plan: &Plan) -> String {
    let every = resolved.settings.compared.map_or(1, |same| same.every);
    let mut text = format!("{every} {}", resolved.network.horizon());
    for fold in &plan.folds {
        for origin in Fold::origins(panel, &fold.score) {
            let series = panel.members()[origin.series].series.name();
            text += &format!("\n{series} {}", origin.at - origin.begin);
        }
    }
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Errors of test windows, of each series and column.
#[derive(Debug)]
pub(crate) struct TestErrors<'a> {
    panel: &'a WindowedPanel,
    metric: Metric,
    units: Vec<Unit>,
    /// Of each series and column the error of each window.
    all: Vec<Vec<f64>>,
}

impl<'a> TestErrors<'a> {
    /// None yet.
    pub(crate) fn new(panel: &'a WindowedPanel, period: usize, metric: Metric) -> Self {
        let units = units(panel, period);
        Self { panel, metric, all: vec![Vec::new(); units.len()], units }
    }

    /// Adds the forecast of a window, in the units of the data.
    pub(crate) fn add(&mut self, window: &WindowForecast<'_>) {
        let member = &self.panel.members()[window.series];
        for target in 0..self.panel.targets() {
            let cell = window.series * self.panel.targets() + target;
            let (std, unit) = (member.scaler.std()[target], self.units[cell]);
            let pairs = member.series.values()[target][window.start_row..].iter().zip(window.of(target));
            let errors = pairs.map(|(y, f)| (y - f) / std);
            let sum: f64 = match self.metric {
                Metric::Mase => errors.map(|e| e.abs() / unit.absolute).sum(),
                Metric::Rmsse => errors.map(|e| (e / unit.squared).powi(2)).sum(),
                Metric::Mse => errors.map(|e| e.powi(2)).sum(),
            };
            self.all[cell].push(sum / window.horizon.max(1) as f64);
        }
    }

    fn cells(&self) -> Vec<CellError> {
        let targets = self.panel.targets().max(1);
        let of = |(cell, windows): (usize, &Vec<f64>)| {
            let mean = windows.iter().sum::<f64>() / windows.len() as f64;
            let error = if self.metric == Metric::Rmsse { mean.sqrt() } else { mean };
            CellError {
                series: self.panel.members()[cell / targets].series.name().to_owned(),
                column: self.panel.columns()[cell % targets].clone(),
                windows: windows.len(),
                error,
            }
        };
        self.all.iter().enumerate().filter(|(_, windows)| !windows.is_empty()).map(of).collect()
    }

    fn by_window(&self) -> Vec<f64> {
        let tested = || self.all.iter().filter(|windows| !windows.is_empty());
        let fewest = tested().map(Vec::len).min().unwrap_or(0);
        let mean = |at: usize| {
            let errors = tested().map(|windows| windows[windows.len() - fewest + at]);
            errors.sum::<f64>() / tested().count() as f64
        };
        (0..fewest).map(mean).collect()
    }
}
