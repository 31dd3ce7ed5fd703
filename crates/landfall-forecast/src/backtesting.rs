//! Rolling-origin evaluation as the program does it, in steps that print nothing.
//!
//! A [`Rolling`] goes from origin to origin. At each one the forecaster sees the rows up to the origin and nothing else
//! ([`Panel::known_at`]): a run's own weights, those of a new run that is trained on these rows, by the same steps as
//! `landfall train`, or pretrained weights.

use crate::backtest::{Backtest, Unit};
use crate::data::{Future, Member, Origins, Panel, Scaler, Segment, Series, WindowForecast};
use crate::error::ForecastError;
use crate::forecasting::Predictor;
use crate::models::Predicts;
use crate::report::name_cell;
use crate::run::{Device, Forecast, Observer, Resolved, Run, RunError, SCALED, Settings, Weights};
use crate::training::{Ended, NewRun, Ready};
use crate::without_run::{PanelForecaster, Roles, SCORED, Spread};
use std::collections::{BTreeMap, HashMap, HashSet};
use tempfile::TempDir;

/// When a forecaster is trained anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refit {
    /// Once at most: one forecaster serves all origins.
    Never,
    /// At the first origin and at every so many after it.
    Every(usize),
}

impl Refit {
    /// The origin at which the forecaster of an origin is trained.
    fn origin(self, origin: usize) -> usize {
        match self {
            Self::Never => 0,
            Self::Every(n) => origin - origin % n.max(1),
        }
    }
}

/// Where the forecasters come from.
pub enum Forecasters {
    /// A run: its weights forecast from all origins.
    Of(Box<Predictor>),
    /// New runs of these settings.
    New(Box<Settings>),
    /// Pretrained weights, and what they read of the series.
    Pretrained(Box<PanelForecaster>, Roles),
}

/// A forecaster that serves some origins.
struct Fit {
    /// The origin at which it is trained.
    origin: usize,
    /// Rows that a forecast needs.
    needed: usize,
    /// For each series what its errors are measured in; none for a series that the forecaster does not know.
    units: Vec<Option<Vec<Unit>>>,
    /// The trained forecaster, and its directory, once it is needed.
    trained: Option<(TempDir, Predictor)>,
}

/// What a backtest takes from its forecaster.
struct Scales {
    levels: Vec<f64>,
    period: usize,
    units: &'static str,
    /// Values of each row, and which of them is the point forecast.
    outputs: usize,
    point: usize,
    /// Rows that are known of a window at least.
    needed: usize,
}

/// A backtest that goes from origin to origin.
pub struct Rolling {
    panel: Panel,
    origins: Origins,
    refit: Refit,
    forecasters: Forecasters,
    fit: Option<Fit>,
    tested: Backtest,
    levels: Vec<f64>,
    period: usize,
    units: &'static str,
    /// How often each forecaster was trained, by its name.
    names: BTreeMap<String, usize>,
    sizes: (usize, usize, usize),
    /// Whether all series have dates.
    dated: bool,
}

impl Rolling {
    /// A backtest before its first origin.
    ///
    /// # Errors
    /// Series that are too short at the first origin for the forecaster or for its training, with the numbers.
    pub fn new(
        panel: Panel,
        origins: Origins,
        refit: Refit,
        forecasters: Forecasters,
    ) -> Result<Self, ForecastError> {
        let of_run = |resolved: &Resolved| Scales {
            levels: resolved.training.loss.levels().to_vec(),
            period: resolved.period,
            units: resolved.units(),
            outputs: resolved.training.loss.outputs(),
            point: resolved.training.loss.point(),
            needed: resolved.network.context(),
        };
        let scales = match &forecasters {
            Forecasters::Of(predictor) => of_run(predictor.run().resolved()),
            Forecasters::New(settings) => {
                let first = panel.known_at(|s| origins.known(0, s))?;
                of_run(&settings.resolve()?.sized(&first)?)
            }
            Forecasters::Pretrained(..) => Scales {
                levels: SCORED.to_vec(),
                period: panel.season().period,
                units: SCALED,
                outputs: SCORED.len(),
                point: SCORED.len() / 2,
                needed: 1,
            },
        };
        let Scales { levels, period, units, outputs, point, needed } = scales;
        let sizes = (outputs, point, panel.targets());
        let tested = Backtest::new(&panel, &origins, (period, needed), &levels);
        let (fit, names, dated) = (None, BTreeMap::new(), panel.series().iter().all(|s| s.dates().is_some()));
        let mut rolling = Self {
            panel,
            origins,
            refit,
            forecasters,
            fit,
            tested,
            levels,
            period,
            units,
            names,
            sizes,
            dated,
        };
        let fit = rolling.prepared(0)?;
        let needed = fit.needed;
        let eligible =
            |o: usize| rolling.panel.series().iter().any(|s| rolling.origins.known(o, s) >= needed);
        if !eligible(0) {
            let rows = rolling.panel.series().iter().map(|s| rolling.origins.known(0, s)).max();
            return Err(ForecastError::TooEarly {
                origin: rolling.label(0),
                rows: rows.unwrap_or(0),
                needed,
            });
        }
        rolling.fit = Some(fit);
        Ok(rolling)
    }

    /// The series.
    #[must_use]
    pub fn panel(&self) -> &Panel {
        &self.panel
    }

    /// The origins.
    #[must_use]
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// Levels of the quantiles that are forecast beside each point forecast.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        &self.levels
    }

    /// The seasonal period of the baseline and of MASE.
    #[must_use]
    pub fn period(&self) -> usize {
        self.period
    }

    /// What errors are in.
    #[must_use]
    pub fn units(&self) -> &'static str {
        self.units
    }

    /// What was trained so far: names of forecasters, and how often each was.
    #[must_use]
    pub fn names(&self) -> &BTreeMap<String, usize> {
        &self.names
    }

    /// The errors so far.
    pub fn tested(&mut self) -> &mut Backtest {
        &mut self.tested
    }

    /// The name of an origin.
    #[must_use]
    pub fn label(&self, origin: usize) -> String {
        self.origins.label(origin, &self.panel)
    }

    /// Values of one window: those of its target columns, levels and steps.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, usize) {
        let (outputs, _, targets) = self.sizes;
        (targets, outputs, self.origins.horizon())
    }

    /// A window of these values, `[targets, levels, horizon]`.
    #[must_use]
    pub fn window<'v>(&self, series: usize, start_row: usize, values: &'v [f64]) -> WindowForecast<'v> {
        let (outputs, point, _) = self.sizes;
        WindowForecast {
            series,
            window: 0,
            start_row,
            horizon: self.origins.horizon(),
            outputs,
            point,
            values,
            bounds: &[],
            widths: &[],
        }
    }

    /// What names a row of a window in a file of predictions: series where there are several, cutoff, step and date.
    #[must_use]
    pub fn row(&self, origin: usize, series: usize, step: usize) -> Vec<String> {
        let all = self.panel.series();
        let (own, dated) = (&all[series], self.dated);
        let known = self.origins.known(origin, own);
        let label = |row: usize| if dated { own.label(row) } else { row.to_string() };
        let series = (all.len() > 1).then(|| name_cell(own.name()).into_owned());
        let names = [label(known - 1), (step + 1).to_string(), label(known + step)];
        series.into_iter().chain(names).collect()
    }

    /// The actual value of a step of a window.
    #[must_use]
    pub fn actual(&self, origin: usize, series: usize, target: usize, step: usize) -> f64 {
        let own = &self.panel.series()[series];
        own.values()[target][self.origins.known(origin, own) + step]
    }

    /// Where the forecasters come from.
    #[must_use]
    pub fn forecasters(&self) -> &Forecasters {
        &self.forecasters
    }

    /// The forecaster of an origin, not trained yet.
    fn prepared(&self, origin: usize) -> Result<Fit, ForecastError> {
        let origin = self.refit.origin(origin);
        let series = self.panel.series();
        let sizes = |period| (self.panel.targets(), period);
        match &self.forecasters {
            Forecasters::Of(predictor) => {
                let run = predictor.run();
                let resolved = run.resolved();
                let unit = |s: &Series| {
                    let scaler = run.scaler(s, series.len() == 1)?;
                    let training = resolved.split.rows(s.rows()).map_or(s.rows(), |rows| rows[0]);
                    Some(Unit::of(s, scaler, 0..training, sizes(self.period)))
                };
                let history = run.forecaster().map(|f| f.history(resolved.network.context()));
                let needed = history.unwrap_or(resolved.network.context());
                Ok(Fit { origin, needed, units: series.iter().map(unit).collect(), trained: None })
            }
            Forecasters::Pretrained(..) => {
                // Nothing is trained: units are those of the rows up to the first origin.
                let unit = |s: &Series| -> Result<_, ForecastError> {
                    let rows = 0..self.origins.known(origin, s);
                    if rows.is_empty() {
                        return Ok(None);
                    }
                    let scaler = Scaler::fit_robust(s, rows.clone(), rows.clone())?;
                    Ok(Some(Unit::of(s, &scaler, rows, sizes(self.period))))
                };
                let units = series.iter().map(unit).collect::<Result<_, _>>()?;
                Ok(Fit { origin, needed: 1, units, trained: None })
            }
            Forecasters::New(settings) => {
                let made = || -> Result<Fit, ForecastError> {
                    let known = self.panel.known_at(|s| self.origins.known(origin, s))?;
                    let mut resolved = settings.resolve()?.sized(&known)?;
                    let needed = resolved.network.context().max(resolved.period);
                    let (_, windowed) = resolved.forecast(known)?;
                    let members: HashMap<&str, &Member> =
                        windowed.members().iter().map(|m| (m.series.name(), m)).collect();
                    let unit = |s: &Series| {
                        let m = members.get(s.name())?;
                        let training = m.segments.rows(Segment::Train);
                        Some(Unit::of(&m.series, &m.scaler, training, sizes(self.period)))
                    };
                    Ok(Fit { origin, needed, units: series.iter().map(unit).collect(), trained: None })
                };
                made().map_err(|why| self.at(origin, why))
            }
        }
    }

    fn at(&self, origin: usize, why: ForecastError) -> ForecastError {
        ForecastError::AtOrigin { origin: self.label(origin), why: Box::new(why) }
    }

    /// The series that have a forecast from an origin, by their places; its forecaster is prepared and not trained.
    ///
    /// # Errors
    /// Series that are too short for the training.
    pub fn begin(&mut self, origin: usize) -> Result<Vec<usize>, ForecastError> {
        if self.fit.as_ref().is_none_or(|fit| fit.origin != self.refit.origin(origin)) {
            self.fit = Some(self.prepared(origin)?);
        }
        let Some(fit) = &self.fit else { return Ok(Vec::new()) };
        let origins = &self.origins;
        let has = |(i, s): &(usize, &Series)| {
            origins.is_whole(origin, s) && origins.known(origin, s) >= fit.needed && fit.units[*i].is_some()
        };
        let places: Vec<usize> = self.panel.series().iter().enumerate().filter(has).map(|(i, _)| i).collect();
        for &i in &places {
            if let Some(units) = fit.units[i].as_ref().filter(|_| !self.tested.has_units(i)) {
                self.tested.measure(i, units.clone());
            }
        }
        self.tested.begin_origin(self.origins.label(origin, &self.panel));
        Ok(places)
    }

    /// Adds a window that was forecast, from an origin that was begun: `values` are those of a series, `[targets, levels,
    /// horizon]`.
    ///
    /// # Errors
    /// What `each` returns, which gets the window.
    pub fn add(
        &mut self,
        (origin, series): (usize, usize),
        values: &[f64],
        each: &mut dyn FnMut(&WindowForecast<'_>) -> Result<(), ForecastError>,
    ) -> Result<(), ForecastError> {
        let whole = &self.panel.series()[series];
        let start_row = self.origins.known(origin, whole);
        let window = WindowForecast { window: origin, ..self.window(series, start_row, values) };
        each(&window)?;
        self.tested.add(&window, whole, &whole.known_at(start_row)?);
        Ok(())
    }

    /// Forecasts from an origin, after training where that is due; `each` gets the window of each series. `false` when the
    /// observer stopped the training.
    ///
    /// # Errors
    /// As [`Rolling::begin`]; a training that fails; a device fault; what `each` returns.
    pub fn step(
        &mut self,
        origin: usize,
        observer: &mut dyn Observer,
        each: &mut dyn FnMut(&WindowForecast<'_>) -> Result<(), ForecastError>,
    ) -> Result<bool, ForecastError> {
        let places = self.begin(origin)?;
        if places.is_empty() {
            return Ok(true);
        }
        let trained = self.trained(observer);
        if !trained.map_err(|why| self.at(origin, why))? {
            return Ok(false);
        }
        let begun: HashSet<&str> = places.iter().map(|i| self.panel.series()[*i].name()).collect();
        let rows = |s: &Series| {
            if begun.contains(s.name()) { self.origins.known(origin, s) } else { 0 }
        };
        let known = self.panel.known_at(rows)?;
        let later = Some(Future::Longer(&self.panel));
        let forecasts = match (&mut self.forecasters, &mut self.fit) {
            (Forecasters::Pretrained(forecaster, roles), _) => {
                let spread = Spread { quantiles: &SCORED, intervals: &[] };
                forecaster.forecast_with(&known, (roles, later), self.origins.horizon(), spread)?
            }
            (_, Some(Fit { trained: Some((_, predictor)), .. })) => predictor.forecast(&known, later)?.0,
            (Forecasters::Of(predictor), _) => predictor.forecast(&known, later)?.0,
            (Forecasters::New(_), _) => return Ok(false),
        };
        for (i, forecast) in places.into_iter().zip(forecasts) {
            let Forecast { values, mut quantiles, .. } = forecast;
            quantiles.resize(values.len(), Vec::new());
            // Behind the quantiles of a distribution stands its mean.
            let outputs = self.sizes.0;
            let levels = quantiles.into_iter().zip(values).flat_map(|(mut levels, point)| {
                if levels.len() < outputs {
                    levels.push(point);
                }
                levels
            });
            self.add((origin, i), &levels.flatten().collect::<Vec<f64>>(), each)?;
        }
        Ok(true)
    }

    /// Trains the forecaster of the origin that was begun, where that is to be done.
    fn trained(&mut self, observer: &mut dyn Observer) -> Result<bool, ForecastError> {
        let (Forecasters::New(settings), Some(fit)) = (&self.forecasters, &mut self.fit) else {
            return Ok(true);
        };
        if fit.trained.is_some() {
            return Ok(true);
        }
        let folder =
            tempfile::tempdir().map_err(|why| RunError::Write { path: std::env::temp_dir(), why })?;
        let known = self.panel.known_at(|s| self.origins.known(fit.origin, s))?;
        let (settings, out) = (settings.as_ref().clone(), Some(folder.path().join("run")));
        let (device, threads) = (settings.device.unwrap_or(Device::Auto), settings.threads);
        let ready = Ready::on(NewRun { settings, out, ..NewRun::default() }, known)?;
        let begun = ready.begin()?;
        let path = begun.path().to_owned();
        let Ended::Done(trained) = begun.fit(observer)? else { return Ok(false) };
        let Ended::Done(_) = trained.choose(&|| observer.stop())? else { return Ok(false) };
        let run = Run::open(&path)?;
        *self.names.entry(run.forecaster_name()).or_insert(0) += 1;
        fit.trained = Some((folder, Predictor::new(run, Weights::Best, device, threads)?));
        Ok(true)
    }

    /// Which series have fewer windows than there are origins, a sentence each.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let origins = self.origins.count();
        let of = |(i, s): (usize, &Series)| {
            let windows = self.tested.windows_of(i);
            (windows < origins).then(|| {
                format!(
                    "series `{}` has a forecast from {windows} of {origins} origins: from the others it has too few rows before them, \
                     or fewer than {} after them",
                    s.name(),
                    self.origins.horizon()
                )
            })
        };
        self.panel.series().iter().enumerate().filter_map(of).collect()
    }
}

/// Refuses runs that forecast no rows of series.
///
/// # Errors
/// [`RunError::Classes`], [`RunError::NoFuture`].
pub fn forecasts_rows(run: &Run) -> Result<(), RunError> {
    let path = run.path().to_owned();
    match run.resolved().network.predicts() {
        Predicts::Rows(_) => Ok(()),
        Predicts::Classes(_) => Err(RunError::Classes { path }),
        Predicts::Value => Err(RunError::NoFuture { path }),
    }
}
