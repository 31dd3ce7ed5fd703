//! Opens the folder of a run: its settings, and sessions with its weights.

use super::RunError;
use super::ensembles::ENSEMBLE;
use super::folder::weights_name;
use super::forecaster::{Forecaster, linear};
use super::forecasts;
use super::kinds::Weights;
use super::resolve::Resolved;
use super::settings::Settings;
use super::source::{Data, Source};
use super::values::ScalerTable;
use crate::checkpoint::{File, load_weights};
use crate::choice::linear::Linear;
use crate::data::{
    DataError, Future, Member, Panel, Purpose, ReadOptions, Scaler, Scalers, Segment, Series, SeriesError,
    TokenData, TokenNames, TokenSegments, WindowError, WindowedPanel,
};
use crate::ensemble::{Ahead, Ensemble, PretrainedMember};
use crate::files::read_text;
use crate::models::{ModelConfig, Predicts};
use crate::train::{Dataset, Evaluation, Session, Target};
use crate::zero_shot::Quantiles;
use landfall::Engine;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    path: PathBuf,
    resolved: Resolved,
    scalers: Scalers,
}

/// The rows after the last one of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Its last rows, from which they follow.
    pub context: Series,
    /// One `Vec` for each predicted column, in the units of the data: the point forecast.
    pub values: Vec<Vec<f64>>,
    /// For each predicted column, one `Vec` for each of the run's quantile levels; empty where it has none.
    pub quantiles: Vec<Vec<Vec<f64>>>,
    /// For each predicted column, the lower and the upper bounds of each interval; empty until [`Run::add_intervals`].
    pub intervals: Vec<Vec<[Vec<f64>; 2]>>,
    /// For each predicted column, how far quantiles of each step lie from the forecast, where the ensemble takes part in it: what
    /// intervals are made of where there are too few errors.
    pub spread: Vec<Vec<Quantiles>>,
}

/// The classes of samples, as a run predicts them.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassPrediction {
    /// Names of tokens, classes and features.
    pub names: TokenNames,
    /// Names of the samples N.
    pub samples: Vec<String>,
    /// Probabilities `[N, S, K]`.
    pub probabilities: Vec<f64>,
}

/// Fewer rows than these do not show their step by themselves.
const FEW: usize = 4;

/// Opens a run and a session with its weights, ready to predict: see [`Run::forecast`].
///
/// # Errors
/// As [`Run::open`] and [`Run::predictor`].
pub fn open(path: &Path, weights: Weights, engine: &Engine) -> Result<(Run, Session), RunError> {
    let run = Run::open(path)?;
    let session = run.predictor(engine, weights)?;
    Ok((run, session))
}

impl Run {
    /// Reads a run's settings.
    ///
    /// # Errors
    /// [`RunError::NotARun`] for a folder without them; settings that do not fit together.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let file = path.join("config.toml");
        let not_a_run = |why: std::io::Error| RunError::NotARun {
            path: path.to_owned(),
            why: if why.kind() != ErrorKind::NotFound {
                format!("config.toml: {why}")
            } else if path.exists() {
                "it has no config.toml".to_owned()
            } else {
                "there is nothing of this name".to_owned()
            },
        };
        let text = read_text(&file).map_err(not_a_run)?;
        let mut resolved = Settings::parse(&text, &file)?.resolve()?;
        let (models, threads) = (path.join(ENSEMBLE), resolved.settings.threads);
        let network = resolved.settings.named_network();
        if let Some(forecaster) = resolved.settings.forecaster.as_mut().filter(|_| models.exists()) {
            let network = Arc::new(PretrainedMember::new(network));
            forecaster.models = Some(Arc::new(Ensemble::read(&models, threads)?.with_network(network)));
        }
        let tables = resolved.settings.scaler.clone().unwrap_or_default();
        let known =
            |s: ScalerTable| Ok(((s.series, Scaler::new(s.mean, s.std)?.with_constant(s.constant)), s.short));
        let scalers = Scalers::new(tables.into_iter().map(known).collect::<Result<_, DataError>>()?);
        let features = resolved.settings.names.as_ref().map(|names| names.features.len());
        let columns = resolved.settings.columns.as_ref().map(Vec::len).or(features);
        let other = scalers
            .all()
            .iter()
            .map(|(_, s)| s.channels())
            .find(|found| columns.is_some_and(|c| c != *found));
        if let (Some(scaler), Some(series)) = (other, columns) {
            return Err(DataError::Window(WindowError::ScalerChannels {
                file: file.display().to_string(),
                series,
                scaler,
            })
            .into());
        }
        Ok(Self { path: path.to_owned(), resolved, scalers })
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its settings and what they amount to.
    #[must_use]
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// The scalers of its series' training rows, by the names of the series; none for windows with labels.
    #[must_use]
    pub fn scalers(&self) -> &[(String, Scaler)] {
        self.scalers.all()
    }

    /// The scaler of a series, by its name; the only one there is serves an `only` series.
    #[must_use]
    pub fn scaler(&self, series: &Series, only: bool) -> Option<&Scaler> {
        self.scalers.of(series, only).map(|known| known.scaler)
    }

    /// Names of its columns, those that it forecasts first.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        self.resolved.settings.columns.as_deref().unwrap_or_default()
    }

    /// Number of columns that it forecasts.
    #[must_use]
    pub fn targets(&self) -> usize {
        let columns = self.resolved.columns();
        match &self.resolved.settings.target {
            _ if columns.targets > 0 => columns.targets,
            Some(targets) => targets.len(),
            None => self.columns().len(),
        }
    }

    /// Levels of the quantiles that it forecasts, none for a point forecast alone.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        self.resolved.training.loss.levels()
    }

    /// Its data, or the same columns of other files. Other files may be without the run's column of dates: then rows are
    /// counted, and a notice says so.
    ///
    /// # Errors
    /// A column that is not there; whatever keeps a file from being series.
    pub fn load(&self, data: &[PathBuf], fill: Option<crate::data::Fill>) -> Result<Data, RunError> {
        let mut source = self.resolved.source.clone();
        let columns = self.resolved.settings.file_columns();
        match &mut source {
            Source::Files { paths, read } => {
                read.columns = columns;
                read.fill = fill.or(read.fill);
                if !data.is_empty() {
                    data.clone_into(paths);
                    read.purpose = Purpose::Run;
                }
            }
            source @ (Source::Demo { .. } | Source::Walk { .. } | Source::Assets { .. })
                if !data.is_empty() =>
            {
                let read = ReadOptions { columns, fill, purpose: Purpose::Run, ..Default::default() };
                *source = Source::Files { paths: data.to_owned(), read: Box::new(read) };
            }
            Source::Demo { .. } | Source::Walk { .. } | Source::Assets { .. } => {}
        }
        let load = |source: &Source| self.resolved.load_from(source);
        match load(&source) {
            Err(RunError::Data(DataError::Series(SeriesError::UnknownColumn { file, name, known })))
                if !data.is_empty() =>
            {
                let Source::Files { read, .. } = &mut source else { return load(&source) };
                if !read.date_column.take().is_some_and(|columns| columns.contains(&name)) {
                    return Err(DataError::Series(SeriesError::UnknownColumn { file, name, known }).into());
                }
                read.date_format = None;
                let notice = format!("{file}: no column `{name}`, where the run had dates; rows are counted");
                Ok(match load(&source)? {
                    Data::Series(panel) => Data::Series(panel.with_notice(notice)),
                    other @ (Data::Walk(_) | Data::Tokens(_)) => other,
                })
            }
            loaded => loaded,
        }
    }

    /// How the run reads files: its columns but for those that follow from the dates, its dates, its series, and what it
    /// fills. What was read so becomes data of the run by [`Run::arranged`].
    #[must_use]
    pub fn read_options(&self) -> ReadOptions {
        let columns = self.resolved.settings.file_columns();
        match &self.resolved.source {
            Source::Files { read, .. } => ReadOptions { columns, ..(**read).clone() },
            Source::Demo { .. } | Source::Walk { .. } | Source::Assets { .. } => {
                ReadOptions { columns, ..ReadOptions::default() }
            }
        }
    }

    /// Series that were read by [`Run::read_options`], with the run's columns in its order: those to forecast, then the
    /// covariates, features of the dates among them.
    ///
    /// # Errors
    /// As [`Panel::with_covariates`].
    pub fn arranged(&self, panel: Panel) -> Result<Panel, DataError> {
        self.resolved.arranged(panel)
    }

    /// Windows over series under the run's split and scalers.
    ///
    /// # Errors
    /// When the series are too short, have other columns, or are none of the run's.
    pub fn windowed(&self, panel: Panel) -> Result<WindowedPanel, RunError> {
        let n = &self.resolved.network;
        let scalers = self.need_scalers()?;
        let sizes = (n.context(), n.horizon());
        WindowedPanel::with_scalers(panel, self.resolved.split, sizes, scalers)
            .map_err(|why| if why.is_too_short() { RunError::Untested { why } } else { why.into() })
    }

    /// The same windows, with their scaled values.
    ///
    /// # Errors
    /// As [`Run::windowed`]; when a value overflows when scaled.
    pub fn dataset(&self, panel: Panel) -> Result<(Dataset, WindowedPanel), RunError> {
        let panel = self.windowed(panel)?;
        Ok((Dataset::windowed(&panel)?, panel))
    }

    /// Series under the run's scalers, without windows that test: to forecast alone.
    ///
    /// # Errors
    /// As [`WindowedPanel::untested`].
    pub fn untested(&self, panel: Panel) -> Result<WindowedPanel, RunError> {
        let n = &self.resolved.network;
        Ok(WindowedPanel::untested(panel, (n.context(), n.horizon()))?)
    }

    /// Samples of tokens under the run's split and scalers.
    ///
    /// # Errors
    /// When there are too few samples, or they are of other tokens or features.
    pub fn samples(&self, data: TokenData) -> Result<(Dataset, TokenData), RunError> {
        let segments = TokenSegments::new(&data, self.resolved.split)?;
        let data = data.scaled(&self.token_scalers()?)?;
        Ok((Dataset::classification(&data, segments), data))
    }

    /// What the run forecasts with, where validation chose it.
    #[must_use]
    pub fn forecaster(&self) -> Option<&Forecaster> {
        self.resolved.settings.forecaster.as_ref()
    }

    /// The name of what it forecasts with: of the forecaster, where one was chosen, else of its network.
    #[must_use]
    pub fn forecaster_name(&self) -> String {
        self.forecaster().map_or_else(|| self.resolved.trained_kind().name().to_owned(), Forecaster::name)
    }

    /// Errors over all windows of a segment: of the forecaster, where one was chosen, else of the session's network.
    ///
    /// # Errors
    /// A device fault.
    pub fn evaluate(
        &self,
        session: &mut Session,
        panel: &WindowedPanel,
        segment: Segment,
    ) -> Result<Evaluation, RunError> {
        let engine = session.engine.clone();
        let network = |session: &mut Session| engine.enter(|| session.evaluate(segment));
        let constant = |m: &Member| (0..panel.targets()).any(|c| m.scaler.is_constant(c));
        let alone = |f: &&Forecaster| {
            f.share == 1.0 && f.non_negative.is_empty() && !panel.members().iter().any(constant)
        };
        let Some(f) = self.forecaster().filter(|f| !alone(f)) else {
            return Ok(network(session)?);
        };
        let forecast = forecasts::evaluate(session, panel, segment, f)?;
        // A likelihood is one of the network's distribution.
        let nll = if self.levels().is_empty() { None } else { network(session)?.nll };
        Ok(Evaluation { nll, ..forecast })
    }

    /// The network whose weights the run keeps.
    #[must_use]
    pub fn kept_network(&self) -> ModelConfig {
        let (context, horizon) = (self.resolved.network.context(), self.resolved.network.horizon());
        self.forecaster()
            .filter(|f| f.ridge.is_some())
            .and_then(|f| linear(f.network, context, horizon))
            .map_or_else(|| self.resolved.network.clone(), Linear::config)
    }

    /// The file of the run's weights, and what it holds.
    ///
    /// # Errors
    /// [`RunError::NoWeights`]; a damaged file.
    pub fn weights(&self, weights: Weights) -> Result<(PathBuf, File), RunError> {
        let name = match weights {
            Weights::Best => "best.safetensors",
            Weights::Last => "checkpoint.safetensors",
        };
        let path = match self.forecaster().filter(|f| f.ridge.is_some()) {
            Some(f) => self.path.join(weights_name(f.network)),
            None => self.path.join(name),
        };
        if !path.exists() {
            return Err(RunError::NoWeights { path, weights });
        }
        let file = File::read(&path)?;
        Ok((path, file))
    }

    /// A session over this data with the run's weights.
    ///
    /// # Errors
    /// As [`Run::weights`]; a foreign file; as [`Session::new`].
    pub fn session(&self, engine: &Engine, dataset: &Dataset, weights: Weights) -> Result<Session, RunError> {
        let (path, file) = self.weights(weights)?;
        self.compute_on(engine);
        let mut resolved = self.resolved.clone();
        let ridge = self.forecaster().is_some_and(|f| f.ridge.is_some());
        let without_known = ridge.then(|| dataset.without_known());
        let dataset = without_known.as_ref().unwrap_or(dataset);
        if ridge {
            resolved.network = self.kept_network();
            resolved.settings.freeze = None;
            resolved.forget_covariates();
        }
        if dataset.span(Segment::Train).count < resolved.training.batch {
            // One smaller batch, which is not cut: this session does not train.
            resolved.training.accumulate = 1;
        }
        let mut session = resolved.session(engine, dataset)?;
        load_weights(&path, &file, &mut session)?;
        Ok(session)
    }

    /// Has the ensemble's pretrained network compute on this engine, where the run names one.
    pub(crate) fn compute_on(&self, engine: &Engine) {
        let models = self.forecaster().and_then(|forecaster| forecaster.models.as_deref());
        models.into_iter().for_each(|models| models.network().compute_on(engine));
    }

    /// Makes ready what a first forecast would make: the pretrained network of the run's ensemble. For a program that goes on to forecast.
    ///
    /// # Errors
    /// Weights that are named, and are no longer there or have changed; not enough memory; a device fault.
    pub fn make_ready(&self) -> Result<(), RunError> {
        let models = self.forecaster().and_then(|forecaster| forecaster.models.as_deref());
        models.map_or(Ok(()), |models| Ok(models.make_ready()?))
    }

    /// A session that predicts and holds no data.
    ///
    /// # Errors
    /// As [`Run::session`].
    pub fn predictor(&self, engine: &Engine, weights: Weights) -> Result<Session, RunError> {
        let n = &self.resolved.network;
        if let (Some(tokens), Predicts::Classes(classes)) = (n.tokens(), n.predicts()) {
            let blank = Dataset::blank_classes(tokens, n.context(), classes, 1);
            return self.session(engine, &blank, weights);
        }
        let channels = self.need_scalers()?.all().first().map_or(0, |(_, scaler)| scaler.channels());
        let mut blank = Dataset::blank(channels, n.context(), n.horizon(), 1);
        blank.target = Target::Future(self.targets());
        blank.known = self.resolved.columns().known;
        self.session(engine, &blank, weights)
    }

    /// The rows after the last one of a series of the run. For an only series the name does not matter.
    ///
    /// # Errors
    /// When the series is shorter than the context, has other columns, or is none of the run's; a device fault.
    pub fn forecast(&self, session: &mut Session, series: &Series) -> Result<Forecast, RunError> {
        self.forecast_one(session, series, None, true)
    }

    /// As [`Run::forecast`] of a run whose covariates are known in advance: `future` are their values
    /// ([`Run::load_future`]).
    ///
    /// # Errors
    /// As [`Run::forecast`]; values that are missing, or of other dates than those to be forecast.
    pub fn forecast_with(
        &self,
        session: &mut Session,
        series: &Series,
        future: Future<'_>,
    ) -> Result<Forecast, RunError> {
        self.forecast_one(session, series, Some(future), true)
    }

    fn forecast_one(
        &self,
        session: &mut Session,
        series: &Series,
        future: Option<Future<'_>>,
        only: bool,
    ) -> Result<Forecast, RunError> {
        let ensemble = self.ensemble_ahead(&[series], only)?.remove(0);
        self.forecast_beside(session, series, (future, only), ensemble)
    }

    /// The forecast of a series of which the ensemble's is known.
    fn forecast_beside(
        &self,
        session: &mut Session,
        series: &Series,
        (future, only): (Option<Future<'_>>, bool),
        ensemble: Vec<Ahead>,
    ) -> Result<Forecast, RunError> {
        let prepared = self.prepare_with(series, future, only, ensemble)?;
        let predicted = session.predict_with(prepared.scaled(), prepared.known())?;
        Ok(self.finish(prepared, predicted))
    }

    /// [`Run::forecast`] of each series; of several, those that it refuses are left out, and said.
    ///
    /// # Errors
    /// As [`Run::forecast`], when no series remains.
    pub fn forecast_all(
        &self,
        session: &mut Session,
        panel: &Panel,
        future: Option<Future<'_>>,
    ) -> Result<(Vec<Forecast>, Vec<String>), RunError> {
        // Thousands of short predictions, each of which would otherwise be handed to the engine's threads by itself.
        let engine = session.engine.clone();
        engine.enter(|| self.forecast_each(session, panel, future))
    }

    fn forecast_each(
        &self,
        session: &mut Session,
        panel: &Panel,
        future: Option<Future<'_>>,
    ) -> Result<(Vec<Forecast>, Vec<String>), RunError> {
        let (mut forecasts, mut left_out, mut first) = (Vec::new(), Vec::new(), None);
        let only = panel.series().len() == 1;
        let step = std::cell::OnceCell::new();
        let ensemble = self.ensemble_ahead(&panel.series().iter().collect::<Vec<_>>(), only)?;
        for (series, ensemble) in panel.series().iter().zip(ensemble) {
            let dated;
            let series = match series.rows() < FEW && !only {
                true => {
                    dated = series.with_step(*step.get_or_init(|| panel.usual_step()));
                    &dated
                }
                false => series,
            };
            match self.forecast_beside(session, series, (future, only), ensemble) {
                Ok(forecast) => forecasts.push(forecast),
                Err(RunError::Data(
                    why @ (DataError::Series(SeriesError::TooFewRows { .. })
                    | DataError::Window(WindowError::NoKnownSeries { .. })),
                )) => {
                    left_out.push(format!("series `{}` is left out: {why}", series.name()));
                    first.get_or_insert(why);
                }
                Err(why) => return Err(why),
            }
        }
        match first {
            Some(why) if forecasts.is_empty() => Err(why.into()),
            Some(_) | None => Ok((forecasts, left_out)),
        }
    }

    /// The samples in a file, scaled as the run's; their classes need not be known.
    ///
    /// # Errors
    /// [`RunError::NoClasses`] for a run that predicts none; whatever keeps the file from being samples of the run's
    /// tokens and features.
    pub fn unlabelled(&self, path: &Path) -> Result<TokenData, RunError> {
        let (scalers, names) = (self.token_scalers()?, self.resolved.settings.names.as_ref());
        Ok(TokenData::read(path, names, false)?.scaled(&scalers)?)
    }

    /// The classes of scaled samples ([`Run::unlabelled`]).
    ///
    /// # Errors
    /// A device fault; samples of other sizes than the session's.
    pub fn classes(&self, session: &mut Session, data: TokenData) -> Result<ClassPrediction, RunError> {
        let width = data.names.tokens.len() * data.names.features.len();
        let mut probabilities = Vec::new();
        let mut sample = Vec::with_capacity(width);
        for inputs in data.inputs.chunks_exact(width.max(1)) {
            sample.clear();
            sample.extend(inputs.iter().map(|&x| f64::from(x)));
            probabilities.append(&mut session.predict(&sample)?);
        }
        Ok(ClassPrediction { names: data.names, samples: data.samples, probabilities })
    }

    /// The scalers of the run's tokens, in their order.
    fn token_scalers(&self) -> Result<Vec<Scaler>, RunError> {
        match self.resolved.network.predicts() {
            Predicts::Classes(_) => Ok(self.scalers.all().iter().map(|(_, scaler)| scaler.clone()).collect()),
            Predicts::Rows(_) | Predicts::Value => Err(RunError::NoClasses { path: self.path.clone() }),
        }
    }

    pub(super) fn need_scalers(&self) -> Result<&Scalers, RunError> {
        match (self.scalers.all(), self.resolved.network.predicts()) {
            (_, Predicts::Classes(_)) => Err(RunError::Classes { path: self.path.clone() }),
            ([], Predicts::Value) => Err(RunError::NoFuture { path: self.path.clone() }),
            ([], Predicts::Rows(_)) => Err(RunError::NotARun {
                path: self.path.clone(),
                why: "its config.toml has no [[scaler]]".to_owned(),
            }),
            _ => Ok(&self.scalers),
        }
    }
}
