//! The pretrained forecaster on panels of series.

use super::reading::next;
use super::roles::Roles;
use super::spread::{Made, Rows, Spread, spread};
use crate::chronos::{self, Group};
use crate::data::{Future, Panel, Series};
use crate::error::ForecastError;
use crate::pretrained_network::{Network, SHIPPED, Weights};
use crate::run::{Device, Forecast, Settings, SettingsError, Text, on_device};
use landfall::Engine;
use std::borrow::Borrow;
use std::path::Path;

/// The pretrained forecaster on a device.
///
/// ```
/// use landfall_data::{Panel, Series};
/// use landfall_forecast::run::Device;
/// use landfall_forecast::without_run::{PanelForecaster, Spread};
///
/// let sales = (0..48).map(|i| 100.0 + 30.0 * (i as f64 * 0.5236).sin()).collect();
/// let panel = Panel::new(vec![Series::new("shop", vec!["sales".to_owned()], vec![sales], None)?])?;
/// let mut forecaster = PanelForecaster::new(None, Device::Cpu, None)?;
/// let spread = Spread { quantiles: &[], intervals: &[80.0] };
/// let forecast = forecaster.forecast(&panel, 12, spread)?.remove(0);
/// let [low, high] = &forecast.intervals[0][0];
/// assert!(low[0] < forecast.values[0][0] && forecast.values[0][0] < high[0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PanelForecaster {
    network: Network,
    device: Option<String>,
    /// Rows that are read at most, where that is fewer than the network's.
    most: Option<usize>,
}

impl PanelForecaster {
    /// The forecaster of these weights, a file of `landfall pretrain` or a folder of a Chronos-2 or Chronos-Bolt, or of those that the
    /// library carries, which are called `zero-shot` too; `threads` are those of the processor.
    ///
    /// # Errors
    /// Weights that are not there, damaged or of something else; a device that is not there.
    pub fn new(
        weights: Option<&Path>,
        device: Device,
        threads: Option<usize>,
    ) -> Result<Self, ForecastError> {
        // Weights first: without them no device is needed.
        let weights = weights.filter(|path| *path != Path::new(SHIPPED) || path.exists());
        let weights = weights.map_or_else(Weights::shipped, Weights::read)?;
        let placed = on_device(device, threads, |engine| Ok(engine.clone()))?;
        Ok(Self { network: Network::new(&placed.made, &weights)?, device: placed.note(), most: None })
    }

    /// The forecaster of weights of a Chronos on an engine.
    ///
    /// # Errors
    /// Not enough memory; a device fault.
    pub fn of_chronos(engine: &Engine, weights: &chronos::Weights) -> Result<Self, ForecastError> {
        let network = Network::Chronos(Box::new(chronos::Forecaster::new(engine, weights)?));
        Ok(Self { network, device: None, most: None })
    }

    /// The same, which reads so many rows of a series at most.
    #[must_use]
    pub fn with_context(self, rows: usize) -> Self {
        Self { most: Some(rows), ..self }
    }

    /// What is read of a panel that was arranged by these settings: of weights that read covariates all columns, else those to forecast.
    ///
    /// # Errors
    /// [`SettingsError::Conflict`] for covariates that are named to weights which read none.
    pub fn roles(&self, panel: &Panel, settings: &Settings) -> Result<Roles, ForecastError> {
        if self.reads_covariates() {
            return Ok(Roles::of(panel, &settings.covariates()));
        }
        let named = [
            ("known_future", settings.known_future.is_some()),
            ("categorical", settings.categorical.is_some()),
            ("calendar", settings.calendar.is_some()),
        ];
        match named.iter().find(|(_, given)| *given) {
            Some((name, _)) => {
                let why = "they read no covariates; leave it out, or name a folder of Chronos-2";
                let second = match self.network {
                    Network::ZeroShot(_) => "Landfall's own pretrained weights",
                    Network::Chronos(_) => "the weights of a Chronos-Bolt",
                };
                let (first, second) = (Text::setting(name), second.into());
                Err(SettingsError::Conflict { first, second, why: why.into() }.into())
            }
            None => Ok(Roles::alone(panel)),
        }
    }

    /// Whether it reads covariates.
    #[must_use]
    pub fn reads_covariates(&self) -> bool {
        self.network.reads_covariates()
    }

    /// The device in one line, as [`Predictor::device`](crate::forecasting::Predictor::device).
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// The rows after the last one of each series: medians, quantiles and intervals of the columns to forecast, of which alone it is made.
    /// Values that were missing and are interpolated in the panel are missing to the network.
    ///
    /// # Errors
    /// [`ZeroShotError::Horizon`](crate::zero_shot::ZeroShotError::Horizon); a device fault.
    pub fn forecast(
        &mut self,
        panel: &Panel,
        horizon: usize,
        spread: Spread<'_>,
    ) -> Result<Vec<Forecast>, ForecastError> {
        self.forecast_with(panel, (&Roles::alone(panel), None), horizon, spread)
    }

    /// As [`PanelForecaster::forecast`], with the covariates of these roles; `future` has the values of those that are known in advance
    /// and that only whoever forecasts has.
    ///
    /// # Errors
    /// As [`PanelForecaster::forecast`] and [`ahead`](crate::data::ahead).
    pub fn forecast_with(
        &mut self,
        panel: &Panel,
        (roles, future): (&Roles, Option<Future<'_>>),
        horizon: usize,
        spread: Spread<'_>,
    ) -> Result<Vec<Forecast>, ForecastError> {
        let context = self.context();
        let (mut prepared, mut groups) = (Vec::with_capacity(panel.series().len()), Vec::new());
        for series in panel.series() {
            let next = next(panel, series, (roles, future), horizon)?;
            let (one, own) = Prepared::of(series, roles, context, &next)?;
            prepared.push(one);
            groups.extend(own);
        }
        let rows = self.quantiles(&groups, horizon)?;
        let each = prepared.into_iter().zip(rows.chunks(roles.targets().max(1)));
        Ok(each.map(|(prepared, rows)| prepared.finish(rows, self.levels(), spread)).collect())
    }

    /// Rows of a series that are read at most: its last ones.
    #[must_use]
    pub fn context(&self) -> usize {
        let own = self.network.context();
        self.most.map_or(own, |most| own.min(most))
    }

    /// Rows that are forecast at most.
    #[must_use]
    pub fn most_rows(&self) -> usize {
        self.network.most_rows()
    }

    /// Levels of its quantiles, ascending.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        self.network.levels()
    }

    /// What forecasts, in a word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.network.name()
    }

    /// The rows after the last one of the groups of [`Prepared`] series, each of one column; the quantiles of a row ascend. Weights that
    /// read no covariates read the columns alone.
    ///
    /// # Errors
    /// As [`Network::quantiles`].
    pub fn quantiles<G: Borrow<Group>>(
        &mut self,
        groups: &[G],
        horizon: usize,
    ) -> Result<Vec<Rows>, ForecastError> {
        Ok(self.network.quantiles(groups, horizon)?)
    }
}

/// What is kept of a series while its columns are forecast, with those of others as a rule.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The last rows of its columns to forecast.
    context: Series,
    /// The lowest and the highest value of each column, of all its rows.
    ends: Vec<(f64, f64)>,
}

impl Prepared {
    /// Of a series with these roles of its columns, and the groups of its columns to forecast, as [`PanelForecaster::quantiles`] takes
    /// them; `context` is that of the forecaster, and `next` are the values of columns known in advance in the rows to forecast.
    ///
    /// # Errors
    /// A series without rows; no columns to forecast.
    pub fn of(
        series: &Series,
        roles: &Roles,
        context: usize,
        next: &[Vec<f64>],
    ) -> Result<(Self, Vec<Group>), ForecastError> {
        // What is kept may wait, so it has no columns that nobody forecasts.
        let names = series.columns().get(..roles.targets()).unwrap_or_default();
        let last = series.last_rows(series.rows().min(context))?.with_columns(names)?;
        let (rows, at) = (roles.rows(series), (series.rows(), context));
        let groups = (0..roles.targets()).map(|target| rows.group(target, at, next));
        let groups = groups.collect::<Result<_, _>>()?;
        let ends = (0..roles.targets()).map(|target| rows.ends(target, series.rows())).collect();
        Ok((Self { context: last, ends }, groups))
    }

    /// The forecast that follows from the quantiles of each column at [`PanelForecaster::levels`].
    #[must_use]
    pub fn finish(self, rows: &[Rows], levels: &[f64], asked: Spread<'_>) -> Forecast {
        let Self { context, ends } = self;
        let mut forecast = Forecast {
            context,
            values: Vec::new(),
            quantiles: Vec::new(),
            intervals: Vec::new(),
            spread: Vec::new(),
        };
        for (ends, rows) in ends.into_iter().zip(rows) {
            let Made { median, quantiles, intervals } = spread(rows, ends, levels, asked);
            forecast.values.push(median);
            forecast.quantiles.push(quantiles);
            forecast.intervals.push(intervals);
        }
        if asked.quantiles.is_empty() {
            forecast.quantiles.clear();
        }
        forecast
    }
}
