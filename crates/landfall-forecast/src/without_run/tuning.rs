//! The training of a Chronos-2 on series of files: which rows it is trained on, which choose its weights, and which test them.

use super::forecaster::PanelForecaster;
use super::reading::series;
use super::roles::Roles;
use super::windows::Scoring;
use crate::chronos::{ChronosError, FineTuning, FineTuningOptions, Group, Point, Verdict, Weights};
use crate::data::{Scaling, Segment, Split, Validation, WindowedPanel};
use crate::error::ForecastError;
use crate::run::{Device, EvaluationRecord, Settings, on_device};
use landfall::Engine;
use std::path::{Path, PathBuf};

/// The folder of the training in that of its weights, and of the adapter.
const TRAINING: &str = "training";
const ADAPTER: &str = "adapter";

/// A training that is asked for.
#[derive(Debug, Clone)]
pub struct NewTuning {
    /// Data, how it is read, columns, covariates, split, period and device.
    pub settings: Settings,
    /// The folder of the weights that are trained further.
    pub weights: PathBuf,
    /// How they are trained.
    pub options: FineTuningOptions,
    /// The folder of the new weights.
    pub out: PathBuf,
}

/// A training of a Chronos-2 on the training rows of series. Weights are chosen by the windows of the validation rows that do not overlap,
/// and tested on all windows of the test rows.
///
/// ```no_run
/// use landfall_forecast::chronos::FineTuningOptions;
/// use landfall_forecast::run::{OneOrMore, Settings};
/// use landfall_forecast::without_run::{NewTuning, Tuning};
/// let settings = Settings { data: Some(OneOrMore(vec!["sales.csv".into()])), ..Settings::default() };
/// let (weights, out) = ("chronos-2".into(), "chronos-2-sales".into());
/// let mut tuning = Tuning::new(NewTuning { settings, weights, options: FineTuningOptions::new(12), out })?;
/// tuning.run(|| false, |point| println!("{} {:?}", point.step, point.validation))?;
/// tuning.write()?; // chronos-2-sales/config.json and model.safetensors
/// let [mse, before] = tuning.test(&[80.0], || false)?.map_or([0.0; 2], |tested| [tested.chosen.mse, tested.given.mse]);
/// println!("{mse}, and {before} before");
/// # Ok::<(), landfall_forecast::ForecastError>(())
/// ```
#[derive(Debug)]
pub struct Tuning {
    panel: WindowedPanel,
    roles: Roles,
    period: usize,
    training: FineTuning,
    engine: Engine,
    weights: Weights,
    context: Option<usize>,
    out: PathBuf,
    device: String,
    notes: Vec<String>,
    summary: Vec<String>,
}

/// The scores of the test windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// Of the weights that were chosen.
    pub chosen: EvaluationRecord,
    /// Of those that were given.
    pub given: EvaluationRecord,
}

/// Why windows are not scored to the end.
enum Ended {
    Stopped,
    Failed(Box<ForecastError>),
}

impl From<ForecastError> for Ended {
    fn from(why: ForecastError) -> Self {
        Self::Failed(Box::new(why))
    }
}

impl Tuning {
    /// Begins a training, or goes on with that of the folder.
    ///
    /// # Errors
    /// Files that cannot be read; series that are too short; a folder of something else, or of another training; a device that is not there.
    pub fn new(asked: NewTuning) -> Result<Self, ForecastError> {
        let NewTuning { settings, weights, options, out } = asked;
        let weights = Weights::read(&weights)?;
        let folder = out.join(TRAINING);
        if out.exists() && !folder.exists() {
            return Err(ChronosError::Taken { folder: out }.into());
        }
        let of_windows =
            ["context", "horizon", "split", "batch", "dtype", "seed", "lr", "weight_decay", "clip"];
        let reading = settings.clone().without(|setting| of_windows.contains(&setting.name));
        let panel = series(&reading)?;
        let (roles, period) = (Roles::of(&panel, &settings.covariates()), panel.season().period);
        let split: Split = settings.split.as_deref().unwrap_or("0.7,0.1,0.2").parse()?;
        let (shortest, horizon) = (options.shortest.unwrap_or(options.horizon).max(1), options.horizon);
        let summary = panel.summary().lines();
        let demands = (Validation::Optional, Scaling::Standard);
        let split = split.with_horizon(horizon);
        let panel = WindowedPanel::fit_with(panel, split, (shortest, horizon), demands)?;
        let mut notes = panel.left_out().to_vec();
        let context = options.context.unwrap_or(weights.network.context());
        let (groups, validation) = divided(&panel, &roles, (context, horizon))?;
        if validation.is_empty() {
            notes.push(format!(
                "no series has {horizon} validation rows, so that nothing chooses among the weights: the last ones are kept"
            ));
        }
        let placed =
            on_device(
                settings.device.unwrap_or(Device::Auto),
                settings.threads,
                |engine| Ok(engine.clone()),
            )?;
        let device = placed.line();
        let (engine, context) = (placed.made, options.context);
        let training = FineTuning::new(&engine, &weights, options, groups, &validation, Some(&folder))?;
        Ok(Self { panel, roles, period, training, engine, weights, context, out, device, notes, summary })
    }

    /// The training.
    #[must_use]
    pub fn training(&self) -> &FineTuning {
        &self.training
    }

    /// The series, divided.
    #[must_use]
    pub fn panel(&self) -> &WindowedPanel {
        &self.panel
    }

    /// What a person has to know of the data.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The folder of the new weights.
    #[must_use]
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// The data in a few lines.
    #[must_use]
    pub fn summary(&self) -> &[String] {
        &self.summary
    }

    /// The device in one line.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Trains: see [`FineTuning::run`].
    ///
    /// # Errors
    /// As [`FineTuning::run`].
    pub fn run(
        &mut self,
        stop: impl FnMut() -> bool,
        each: impl FnMut(&Point),
    ) -> Result<Verdict, ForecastError> {
        Ok(self.training.run(stop, each)?)
    }

    /// Writes the chosen weights in the form of the authors' package, an adapter merged into them; the adapter apart too. The folder of
    /// the adapter, if there is one.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self) -> Result<Option<PathBuf>, ForecastError> {
        self.training.weights()?.write(&self.out)?;
        let Some(adapter) = self.training.adapter()? else { return Ok(None) };
        let folder = self.out.join(ADAPTER);
        adapter.write(&folder)?;
        Ok(Some(folder))
    }

    /// Scores the chosen weights and those that were given on the test windows, with central intervals of these levels in percent; nothing
    /// when `stop` says so.
    ///
    /// # Errors
    /// A device fault.
    pub fn test(&self, intervals: &[f64], stop: impl Fn() -> bool) -> Result<Option<Tested>, ForecastError> {
        let of = Scoring {
            panel: &self.panel,
            roles: &self.roles,
            segment: Segment::Test,
            period: self.period,
            intervals,
        };
        let scored = |weights: &Weights| {
            let mut forecaster = PanelForecaster::of_chronos(&self.engine, weights)?;
            if let Some(rows) = self.context {
                forecaster = forecaster.with_context(rows);
            }
            forecaster.evaluate(&of, |_| if stop() { Err(Ended::Stopped) } else { Ok(()) })
        };
        let both = || -> Result<Tested, Ended> {
            let given = scored(&self.weights)?;
            let chosen = match self.training.chosen() {
                Some((0, _)) => given.clone(),
                _ => scored(&self.training.weights().map_err(ForecastError::from)?)?,
            };
            Ok(Tested { chosen, given })
        };
        match both() {
            Ok(tested) => Ok(Some(tested)),
            Err(Ended::Stopped) => Ok(None),
            Err(Ended::Failed(why)) => Err(*why),
        }
    }
}

/// The groups to train on: of each series the training rows. And those that validate, by their last windows: of each series the windows of
/// its validation rows that do not overlap.
fn divided(
    panel: &WindowedPanel,
    roles: &Roles,
    (context, horizon): (usize, usize),
) -> Result<(Vec<Group>, Vec<Group>), ForecastError> {
    let (mut training, mut validation) = (Vec::new(), Vec::new());
    for member in panel.members() {
        let rows = roles.rows(&member.series);
        let until = member.segments.rows(Segment::Train).end;
        let windows = member.segments.windows(Segment::Validation);
        let ends = windows.starts().rev().step_by(horizon).map(|start| windows.target(start).end);
        let ends: Vec<usize> = ends.collect();
        for target in 0..roles.targets() {
            training.push(rows.group(target, (until, usize::MAX), &[])?);
            for end in &ends {
                validation.push(rows.group(target, (*end, context + horizon), &[])?);
            }
        }
    }
    Ok((training, validation))
}
