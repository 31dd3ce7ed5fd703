//! Forecasts without a run: series that nothing was trained on, by the pretrained forecaster.

use crate::chronos;
use crate::data::{Digits, Frame, Panel, Series};
use crate::error::ForecastError;
use crate::models::zero_shot::LEVELS;
use crate::run::{
    Data, Device, Forecast, OneOrMore, Settings, SettingsError, Text, interval_levels, on_device,
};
use crate::zero_shot::{self, Weights, ZeroShotError, quantile_at};
use std::path::Path;

/// Level of the interval, in percent, that a forecast has where none is asked for: the outermost quantiles of the network.
pub const INTERVAL: f64 = 80.0;

/// What a forecast holds beside its medians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread<'a> {
    /// Levels of quantiles, above 0 and below 1.
    pub quantiles: &'a [f64],
    /// Levels of central intervals, in percent.
    pub intervals: &'a [f64],
}

/// The series that settings name, to be forecast without a run: data, how it is read, and columns.
///
/// # Errors
/// Settings that do not fit together; files that cannot be read; data that is no series.
pub fn series(settings: &Settings) -> Result<Panel, ForecastError> {
    // Which levels there are is no matter of reading.
    let settings = Settings { quantiles: None, ..settings.clone() };
    match settings.resolve()?.load()? {
        Data::Series(panel) => Ok(panel),
        Data::Walk(_) | Data::Tokens(_) => Err(ForecastError::NoSeries),
    }
}

/// As [`series`], of a data frame in place of files, which `source` names in messages.
///
/// # Errors
/// As [`series`].
pub fn series_of_frame(settings: &Settings, frame: &Frame, source: &str) -> Result<Panel, ForecastError> {
    let data = Some(OneOrMore(vec![source.into()]));
    let settings = Settings { quantiles: None, data, ..settings.clone() };
    Ok(settings.resolve()?.load_frame(frame, source)?)
}

/// Checks what is asked for before anything is read: a horizon of at most [`PanelForecaster::most_rows`], and levels.
///
/// # Errors
/// [`ZeroShotError::Horizon`]; [`SettingsError::Range`] for levels.
pub fn check(horizon: usize, most: usize, spread: Spread<'_>) -> Result<(), ForecastError> {
    if horizon == 0 || horizon > most {
        return Err(ZeroShotError::Horizon { horizon, most }.into());
    }
    interval_levels(spread.intervals)?;
    let refused = |level: f64, rule: &'static str| {
        let setting = Text::setting("quantiles");
        Err(SettingsError::Range { setting, value: level.to_string(), rule: rule.into() }.into())
    };
    for (i, &level) in spread.quantiles.iter().enumerate() {
        if !(0.0 < level && level < 1.0) {
            return refused(level, "levels are above 0 and below 1, as in {quantiles 0.1,0.5,0.9}");
        }
        if spread.quantiles[..i].contains(&level) {
            return refused(level, "a level is given twice");
        }
    }
    Ok(())
}

/// That a panel has columns which the network cannot use, in a sentence.
#[must_use]
pub fn unused(panel: &Panel) -> Option<String> {
    let rest = panel.columns().get(panel.targets()..).filter(|rest| !rest.is_empty())?;
    Some(format!("the pretrained forecaster reads no covariates: {} left out", rest.join(", ")))
}

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
}

/// What forecasts.
#[derive(Debug)]
enum Network {
    ZeroShot(Box<zero_shot::Forecaster>),
    Chronos(Box<chronos::Forecaster>),
}

/// What is forecast of a column: of each row the quantiles at the forecaster's levels.
pub type Rows = Vec<Vec<f64>>;

impl PanelForecaster {
    /// The forecaster of these weights, a file of `landfall pretrain` or a folder of a Chronos-2 or Chronos-Bolt, or of those that the
    /// library carries; `threads` are those of the processor.
    ///
    /// # Errors
    /// Weights that are not there, damaged or of something else; a device that is not there.
    pub fn new(
        weights: Option<&Path>,
        device: Device,
        threads: Option<usize>,
    ) -> Result<Self, ForecastError> {
        // Weights first: without them no device is needed.
        if let Some(folder) = weights.filter(|path| path.is_dir()) {
            let weights = chronos::Weights::read(folder)?;
            let placed = on_device(device, threads, |engine| Ok(engine.clone()))?;
            let forecaster = chronos::Forecaster::new(&placed.made, &weights)?;
            let network = Network::Chronos(Box::new(forecaster));
            return Ok(Self { network, device: placed.note() });
        }
        let weights = weights.map_or_else(Weights::shipped, Weights::read)?;
        let placed = on_device(device, threads, |engine| Ok(engine.clone()))?;
        let forecaster = zero_shot::Forecaster::new(&placed.made, &weights)?;
        let network = Network::ZeroShot(Box::new(forecaster));
        Ok(Self { network, device: placed.note() })
    }

    /// The device in one line, as [`Predictor::device`](crate::forecasting::Predictor::device).
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// The rows after the last one of each series: medians, quantiles and intervals of the columns to forecast. Values that were missing
    /// and are interpolated in the panel are missing to the network.
    ///
    /// # Errors
    /// [`ZeroShotError::Horizon`]; a device fault.
    pub fn forecast(
        &mut self,
        panel: &Panel,
        horizon: usize,
        spread: Spread<'_>,
    ) -> Result<Vec<Forecast>, ForecastError> {
        let (targets, context) = (panel.targets(), self.context());
        let (mut prepared, mut columns) = (Vec::with_capacity(panel.series().len()), Vec::new());
        for series in panel.series() {
            let (one, own) = Prepared::of(series, targets, context)?;
            prepared.push(one);
            columns.extend(own);
        }
        let rows = self.quantiles(&columns, horizon)?;
        let each = prepared.into_iter().zip(rows.chunks(targets.max(1)));
        Ok(each.map(|(prepared, rows)| prepared.finish(rows, self.levels(), spread)).collect())
    }

    /// Rows of a series that are read at most: its last ones.
    #[must_use]
    pub fn context(&self) -> usize {
        match &self.network {
            Network::ZeroShot(forecaster) => forecaster.context(),
            Network::Chronos(forecaster) => forecaster.context(),
        }
    }

    /// Rows that are forecast at most.
    #[must_use]
    pub fn most_rows(&self) -> usize {
        match &self.network {
            Network::ZeroShot(_) => zero_shot::MOST_ROWS,
            Network::Chronos(forecaster) => forecaster.most_rows(),
        }
    }

    /// Levels of its quantiles, ascending.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        match &self.network {
            Network::ZeroShot(_) => &LEVELS,
            Network::Chronos(forecaster) => forecaster.levels(),
        }
    }

    /// What forecasts, in a word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match &self.network {
            Network::ZeroShot(_) => "zero-shot",
            Network::Chronos(forecaster) => forecaster.name(),
        }
    }

    /// The rows after the last one of columns of [`Prepared`] series, each column for itself; the quantiles of a row ascend.
    ///
    /// # Errors
    /// As [`zero_shot::Forecaster::forecast`] and [`chronos::Forecaster::forecast`].
    pub fn quantiles<S: AsRef<[f64]>>(
        &mut self,
        columns: &[S],
        horizon: usize,
    ) -> Result<Vec<Rows>, ForecastError> {
        match &mut self.network {
            Network::ZeroShot(forecaster) => {
                let all = forecaster.forecast(columns, horizon)?;
                Ok(all.into_iter().map(|rows| rows.iter().map(|row| row.to_vec()).collect()).collect())
            }
            Network::Chronos(forecaster) => {
                let groups = columns.iter().map(|column| chronos::Group::of(column.as_ref().to_vec()));
                let mut all = forecaster.forecast(&groups.collect::<Vec<_>>(), horizon)?;
                // Those of the network may cross; the bounds of an interval may not.
                all.iter_mut().flatten().flatten().for_each(|row| row.sort_by(f64::total_cmp));
                Ok(all.into_iter().flatten().collect())
            }
        }
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
    /// Of a series whose first columns, `targets` of them, are to be forecast, and these columns, as [`PanelForecaster::quantiles`]
    /// takes them; `context` is that of the forecaster.
    ///
    /// # Errors
    /// A series without rows; no columns to forecast.
    pub fn of(
        series: &Series,
        targets: usize,
        context: usize,
    ) -> Result<(Self, Vec<Vec<f64>>), ForecastError> {
        // What is kept may wait, so it has no columns that nobody forecasts.
        let names = series.columns().get(..targets).unwrap_or_default();
        let last = series.last_rows(series.rows().min(context))?.with_columns(names)?;
        let (mut columns, mut ends) = (Vec::with_capacity(targets), Vec::with_capacity(targets));
        for column in 0..targets {
            let mut values = known(series, column);
            ends.push(values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v))));
            // A value that is interpolated has a known one after it, so the last row of a column is known.
            columns.push(values.split_off(values.len().saturating_sub(context)));
        }
        Ok((Self { context: last, ends }, columns))
    }

    /// The forecast that follows from the quantiles of each column at [`PanelForecaster::levels`].
    #[must_use]
    pub fn finish(self, rows: &[Rows], levels: &[f64], spread: Spread<'_>) -> Forecast {
        let Self { context, ends } = self;
        let mut forecast = Forecast {
            context,
            values: Vec::new(),
            quantiles: Vec::new(),
            intervals: Vec::new(),
            spread: Vec::new(),
        };
        for ((low, high), rows) in ends.into_iter().zip(rows) {
            // The network's numbers are f32, in units of about this width.
            let digits = Digits::of_f32(high / 2.0 - low / 2.0);
            let at = |level: f64| -> Vec<f64> {
                let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
                // Beyond the quantiles of the network there may be no number.
                let round = |x: f64| digits.round(x).clamp(f64::MIN, f64::MAX).max(floor);
                rows.iter().map(|row| round(quantile_at(levels, row, level))).collect()
            };
            forecast.values.push(at(0.5));
            forecast.quantiles.push(spread.quantiles.iter().map(|level| at(*level)).collect());
            let bounds = |level: &f64| [at(0.5 - level / 200.0), at(0.5 + level / 200.0)];
            forecast.intervals.push(spread.intervals.iter().map(bounds).collect());
        }
        if spread.quantiles.is_empty() {
            forecast.quantiles.clear();
        }
        forecast
    }
}

/// The rows of a column; NaN where a value was missing.
fn known(series: &Series, column: usize) -> Vec<f64> {
    let mut values = series.values().get(column).cloned().unwrap_or_default();
    for &row in series.interpolated(column) {
        if let Some(value) = values.get_mut(row) {
            *value = f64::NAN;
        }
    }
    values
}
