//! The ensemble: the pretrained forecaster and statistical models of each series, which are forecast without a training of steps.
//!
//! A forecast is half the median of the pretrained network and half the mean of two statistical models: ETS and dynamic Theta, of demand with
//! many zeros Croston and TSB. The models keep the parameters that they were fit with; their states, and the network, follow the rows
//! that a forecast is made from. So one fit serves all windows of a series, later rows, and other files of it. An ensemble may also
//! have one of these as its only member ([`Members`]). The network is the one that the library carries, or a named one
//! ([`Ensemble::with_network`]).

mod error;
mod members;
mod network;

pub use error::EnsembleError;
pub use members::Members;
pub use network::{NamedNetwork, PretrainedMember, Reach};

use crate::files;
use crate::zero_shot::{Quantiles, normal};
use landfall_local::{Fitted, Task, forecast_all};
use network::quantiles;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows before a forecast that a statistical model reads, and rows that it is fit on, at most: the context of the shipped network.
const ROWS: usize = 1024;

/// Rows of a column of a series, to be forecast from.
#[derive(Debug, Clone, Copy)]
pub struct Past<'a> {
    /// Number of the series, as of [`Ensemble::place`], and the first of the rows counted from the first row of the series at its
    /// fit. Where that is not known, models are fit to these rows.
    pub fit: Option<(usize, i64)>,
    /// The column.
    pub column: usize,
    /// The rows, oldest first, all known.
    pub values: &'a [f64],
}

/// What an ensemble forecasts.
#[derive(Debug, Clone, PartialEq)]
pub struct Ahead {
    /// The next values, in their units.
    pub values: Vec<f64>,
    /// How far quantiles of each step lie from its value: those of the pretrained network from its median, without it those of a normal
    /// distribution of the models' mean deviation. One row alone shows no spread, and nothing stands here.
    pub spread: Vec<Quantiles>,
}

impl Ahead {
    /// Half the width of the 80 % interval of each step; 0 where no spread is known.
    pub fn half_widths(&self) -> impl Iterator<Item = f64> {
        half_widths_of(&self.spread).chain(std::iter::repeat(0.0)).take(self.values.len())
    }
}

/// Half the width of the 80 % interval of each of these steps.
pub fn half_widths_of(spread: &[Quantiles]) -> impl Iterator<Item = f64> {
    spread.iter().map(|row| 0.5 * (row[row.len() - 1] - row[0]))
}

/// The models of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Column {
    /// The row of the series with which their rows begin.
    start: usize,
    models: Vec<Fitted>,
}

/// The columns of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Series {
    name: String,
    /// The date of its first row, in milliseconds since 1970.
    first: Option<i64>,
    /// How many rows there were.
    rows: usize,
    columns: Vec<Column>,
}

/// The rows of a series that models are fit on.
#[derive(Debug, Clone)]
pub struct Known<'a> {
    /// Its name.
    pub name: &'a str,
    /// The date of its first row, in milliseconds since 1970.
    pub first: Option<i64>,
    /// The rows of each column up to the last one that may be known.
    pub columns: Vec<&'a [f64]>,
}

/// What is kept of an ensemble.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fits {
    members: Members,
    /// Rows of a season.
    season: usize,
    series: Vec<Series>,
}

/// An ensemble that was fit to series, ready to forecast them from any rows.
///
/// ```
/// use landfall_forecast::ensemble::{Ensemble, Known, Members, Past};
///
/// let sales: Vec<f64> = (0..48).map(|i| 100.0 + f64::from(i) + 30.0 * (f64::from(i) * 0.5236).sin()).collect();
/// // The parameters are of 40 rows, the forecast follows 44.
/// let known = Known { name: "shop", first: None, columns: vec![&sales[..40]] };
/// let ensemble = Ensemble::fit(Members::All, 12, [known], Some(1))?;
/// let past = Past { fit: Some((0, 0)), column: 0, values: &sales[..44] };
/// let ahead = ensemble.forecast(&[past], 4)?.remove(0);
/// assert!((ahead.values[0] - sales[44]).abs() < 20.0, "{ahead:?}");
/// # Ok::<(), landfall_forecast::ensemble::EnsembleError>(())
/// ```
#[derive(Debug)]
pub struct Ensemble {
    fits: Fits,
    places: HashMap<String, usize>,
    threads: Option<usize>,
    network: Arc<PretrainedMember>,
    /// The last forecasts of many rows, by what they were of: windows are evaluated, scored and drawn one after the other.
    last: Mutex<Vec<(u64, Arc<Vec<Ahead>>)>>,
}

/// Forecasts of many rows that are remembered: those of validation and of test windows.
const REMEMBERED: usize = 2;

impl PartialEq for Ensemble {
    fn eq(&self, other: &Self) -> bool {
        self.fits == other.fits
    }
}

impl Ensemble {
    /// Fits models to the columns of series, each by its rows up to the last one that may be known, a season being `season` rows (1: none). A
    /// column without rows has no models, and no forecast. Results do not depend on `threads`.
    ///
    /// # Errors
    /// [`EnsembleError::Local`] for rows that are not finite.
    pub fn fit<'a>(
        members: Members,
        season: usize,
        series: impl IntoIterator<Item = Known<'a>>,
        threads: Option<usize>,
    ) -> Result<Self, EnsembleError> {
        let (mut all, mut tasks) = (Vec::new(), Vec::new());
        for Known { name, first, columns } in series {
            let rows = columns.first().map_or(0, |values| values.len());
            let of = |values: &'a [f64]| {
                let start = values.len().saturating_sub(ROWS);
                let task = |model| Task { model, values: &values[start..], season, horizon: 1 };
                let models = if values.is_empty() { &[][..] } else { members.models(values) };
                let own: Vec<Task<'_>> = models.iter().copied().map(task).collect();
                (start, own)
            };
            let mut places = Vec::with_capacity(columns.len());
            for (start, own) in columns.into_iter().map(of) {
                places.push((start, own.len()));
                tasks.extend(own);
            }
            all.push((name, (first, rows), places));
        }
        let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
        let mut found = forecast_all(&tasks, threads.unwrap_or(1)).into_iter();
        let series = all.into_iter().map(|(name, (first, rows), columns)| -> Result<Series, EnsembleError> {
            let column = |(start, count): (usize, usize)| -> Result<Column, EnsembleError> {
                let models = found.by_ref().take(count).map(|one| one.map(|(fitted, _)| fitted));
                let local = |why| EnsembleError::Local { series: name.to_owned(), why };
                Ok(Column { start, models: models.collect::<Result<_, _>>().map_err(local)? })
            };
            let columns = columns.into_iter().map(column).collect::<Result<_, _>>()?;
            Ok(Series { name: name.to_owned(), first, rows, columns })
        });
        let fits = Fits { members, season, series: series.collect::<Result<_, _>>()? };
        Ok(Self::of(fits, threads))
    }

    fn of(fits: Fits, threads: Option<usize>) -> Self {
        let places = fits.series.iter().enumerate().map(|(i, s)| (s.name.clone(), i)).collect();
        Self { fits, places, threads, network: Arc::default(), last: Mutex::default() }
    }

    /// The same with another pretrained network than a new one of the library's.
    #[must_use]
    pub fn with_network(self, network: Arc<PretrainedMember>) -> Self {
        Self { network, ..self }
    }

    /// Its pretrained network, whether it takes part or not.
    #[must_use]
    pub fn network(&self) -> &PretrainedMember {
        &self.network
    }

    /// Makes its pretrained network ready where it takes part, which else the first forecast does.
    ///
    /// # Errors
    /// [`EnsembleError::Weights`]; not enough memory; a device fault.
    pub fn make_ready(&self) -> Result<(), EnsembleError> {
        if self.fits.members.share() > 0.0 { self.network.with(self.threads, |_| Ok(())) } else { Ok(()) }
    }

    /// Rows that it forecasts at most.
    #[must_use]
    pub fn most_rows(members: Members, reach: Reach) -> usize {
        if members == Members::None {
            0
        } else if members.share() > 0.0 {
            reach.most_rows
        } else {
            usize::MAX
        }
    }

    /// The work of a forecast from so many rows, in tokens of the shipped network: 8 rows each, and those of the future. One of a
    /// statistical model alone is less than a 64th of it.
    #[must_use]
    pub fn work(members: Members, reach: Reach, rows: usize, horizon: usize) -> usize {
        let tokens = |context: usize| (rows.min(context) + horizon.max(32)).div_ceil(8);
        match (members.share() > 0.0, members.alone()) {
            (true, _) => (tokens(reach.context) as f64 * reach.cost).ceil() as usize,
            (false, Some(_)) => tokens(ROWS).div_ceil(64),
            (false, None) => tokens(ROWS),
        }
    }

    /// The number of a series by its name, where it has models; the only one there is serves an `only` series.
    #[must_use]
    pub fn place(&self, name: &str, only: bool) -> Option<usize> {
        match only && self.fits.series.len() == 1 {
            true => Some(0),
            false => self.places.get(name).copied(),
        }
    }

    /// The date of the first row of a series at its fit, in milliseconds since 1970, and the number of its rows.
    #[must_use]
    pub fn rows(&self, place: usize) -> (Option<i64>, usize) {
        self.fits.series.get(place).map_or((None, 0), |s| (s.first, s.rows))
    }

    /// The next `horizon` values after each of these, in their units.
    ///
    /// # Errors
    /// A value that is not finite; a series without rows; more rows than [`Ensemble::most_rows`].
    pub fn forecast(&self, past: &[Past<'_>], horizon: usize) -> Result<Vec<Ahead>, EnsembleError> {
        let last = |past: &Past<'_>| past.values.len().saturating_sub(ROWS);
        let statistical = |past: &Past<'_>| -> Result<Ahead, EnsembleError> {
            let local = |why| EnsembleError::Local { series: self.series(past.fit), why };
            let values = &past.values[last(past)..];
            let kept = past.fit.and_then(|(place, first)| {
                let column = self.fits.series.get(place)?.columns.get(past.column)?;
                let start = first + last(past) as i64 - column.start as i64;
                (!column.models.is_empty()).then_some((start, &column.models))
            });
            let own;
            let (start, models) = match kept {
                Some(kept) => kept,
                None => {
                    let fit = |model| Fitted::new(model, values, self.fits.season);
                    let models = self.fits.members.models(values).iter().copied();
                    own = models.map(fit).collect::<Result<_, _>>().map_err(local)?;
                    (0, &own)
                }
            };
            let share = 1.0 / models.len().max(1) as f64;
            let (mut mean, mut deviation) = (vec![0.0; horizon], vec![0.0; horizon]);
            for fitted in models {
                let found = fitted.predict(values, start, horizon).map_err(local)?;
                mean.iter_mut().zip(found.values).for_each(|(m, y)| *m += share * y);
                deviation.iter_mut().zip(found.spread).for_each(|(d, s)| *d += share * s);
            }
            Ok(Ahead { values: mean, spread: deviation.into_iter().map(normal).collect() })
        };
        let mut all = past.iter().map(statistical).collect::<Result<Vec<_>, _>>()?;
        let share = self.fits.members.share();
        if share > 0.0 {
            let first = |past: &Past<'_>| past.values.len().saturating_sub(self.network.context());
            let rows: Vec<&[f64]> = past.iter().map(|past| &past.values[first(past)..]).collect();
            let found = self.network.with(self.threads, |network| quantiles(network, &rows, horizon))?;
            for (ahead, rows) in all.iter_mut().zip(found) {
                for ((m, spread), quantiles) in ahead.values.iter_mut().zip(&mut ahead.spread).zip(rows) {
                    let median = quantiles[quantiles.len() / 2];
                    *m = share * median + (1.0 - share) * *m;
                    *spread = quantiles.map(|q| q - median);
                }
            }
        }
        for (ahead, past) in all.iter_mut().zip(past) {
            if past.values.len() < 2 {
                ahead.spread.clear();
            }
        }
        Ok(all)
    }

    /// As [`Ensemble::forecast`], and the same again without computing it where these rows were among the last that were asked for.
    ///
    /// # Errors
    /// As [`Ensemble::forecast`].
    pub fn forecast_again(
        &self,
        past: &[Past<'_>],
        horizon: usize,
    ) -> Result<Arc<Vec<Ahead>>, EnsembleError> {
        let mut hasher = DefaultHasher::new();
        horizon.hash(&mut hasher);
        for Past { fit, column, values } in past {
            (fit, column, values.len()).hash(&mut hasher);
            // The rows that a forecast does not read say nothing of it.
            let read = ROWS.max(self.network.context());
            values[values.len().saturating_sub(read)..].iter().for_each(|y| y.to_bits().hash(&mut hasher));
        }
        let key = hasher.finish();
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = last().iter().find(|(of, _)| *of == key) {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(self.forecast(past, horizon)?);
        let mut last = last();
        last.truncate(REMEMBERED - 1);
        last.insert(0, (key, Arc::clone(&found)));
        Ok(found)
    }

    fn series(&self, fit: Option<(usize, i64)>) -> String {
        let known = fit.and_then(|(place, _)| self.fits.series.get(place));
        known.map_or_else(|| "that is new".to_owned(), |s| s.name.clone())
    }

    /// Writes the models into a file.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), EnsembleError> {
        let wrong = |why: String| EnsembleError::File { path: path.to_owned(), why };
        let text = serde_json::to_string(&self.fits).map_err(|e| wrong(e.to_string()))?;
        files::replace(path, text.as_bytes()).map_err(|e| wrong(e.to_string()))
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`EnsembleError::File`].
    pub fn read(path: &Path, threads: Option<usize>) -> Result<Self, EnsembleError> {
        let wrong = |why: String| EnsembleError::File { path: path.to_owned(), why };
        let text = files::read_text(path).map_err(|e| wrong(e.to_string()))?;
        let fits: Fits = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        Ok(Self::of(fits, threads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zero_shot::{Forecaster, Weights};
    use landfall::Engine;
    use landfall_local::Model;

    /// A trend with a season of four.
    fn wave(rows: usize) -> Vec<f64> {
        let season = [4.0, -1.0, -6.0, 3.0];
        (0..rows).map(|i| 50.0 + 0.5 * i as f64 + season[i % 4] + 0.3 * (i as f64 * 1.7).sin()).collect()
    }

    fn fit(members: Members, rows: &[f64]) -> Ensemble {
        let known = Known { name: "a", first: None, columns: vec![rows] };
        Ensemble::fit(members, 4, [known], Some(1)).expect("models")
    }

    #[test]
    fn models_keep_their_parameters_and_follow_the_rows() {
        let all = wave(60);
        let ensemble = fit(Members::Statistical, &all[..40]);
        let ahead = |fit, from: usize, to: usize| {
            let past = Past { fit, column: 0, values: &all[from..to] };
            ensemble.forecast(&[past], 4).expect("a forecast").remove(0).values
        };
        // Later rows are followed, and the season keeps its phase wherever rows begin.
        for (from, to) in [(0, 40), (0, 43), (0, 56), (5, 56), (14, 55)] {
            let found = ahead(Some((0, from as i64)), from, to);
            for (y, actual) in found.iter().zip(&all[to..]) {
                assert!((y - actual).abs() < 1.5, "{from}..{to}: {found:?} {:?}", &all[to..]);
            }
        }
        // Parameters are those of the fit: another fit of more rows forecasts otherwise.
        let later = fit(Members::Statistical, &all[..56]);
        let past = Past { fit: Some((0, 0)), column: 0, values: &all[..56] };
        assert_ne!(later.forecast(&[past], 4).expect("a forecast")[0].values, ahead(Some((0, 0)), 0, 56));
        // Rows that are not placed are fit by themselves.
        let found = ahead(None, 7, 47);
        assert!(found.iter().zip(&all[47..]).all(|(y, actual)| (y - actual).abs() < 1.5), "{found:?}");
    }

    #[test]
    fn it_is_half_the_pretrained_network_and_keeps_its_spread() {
        let rows = wave(48);
        let past = [Past { fit: Some((0, 0)), column: 0, values: &rows }];
        let all = fit(Members::All, &rows).forecast(&past, 6).expect("a forecast").remove(0);
        let half = fit(Members::Statistical, &rows).forecast(&past, 6).expect("a forecast").remove(0);
        let engine = Engine::cpu_with_threads(1).expect("a CPU");
        let mut network = Forecaster::new(&engine, &Weights::shipped().expect("weights")).expect("a network");
        let quantiles = network.forecast(&[&rows], 6).expect("a forecast").remove(0);
        for (step, row) in quantiles.iter().enumerate() {
            let mean = 0.5 * row[4] + 0.5 * half.values[step];
            assert!((all.values[step] - mean).abs() < 1e-9);
            assert_eq!(all.spread[step], row.map(|q| q - row[4]));
            assert!(half.spread[step][0] < 0.0 && half.spread[step][4] == 0.0 && half.spread[step][8] > 0.0);
        }
    }

    #[test]
    fn a_large_network_is_more_work() {
        let large = Reach { context: 2048, most_rows: 64, cost: 30.0 };
        let work = |members, reach| Ensemble::work(members, reach, 4096, 32);
        for members in [Members::All, Members::Pretrained] {
            assert_eq!(work(members, Reach::default()), 132);
            assert_eq!(work(members, large), 30 * 260);
            assert_eq!(Ensemble::most_rows(members, large), 64);
        }
        // Where it has no part its reach says nothing.
        assert_eq!(work(Members::Statistical, large), 132);
        assert_eq!(work(Members::Ets, large), 3);
        assert_eq!(Ensemble::most_rows(Members::Ets, large), usize::MAX);
    }

    #[test]
    fn one_member_alone_forecasts_as_it_is() {
        let rows = wave(48);
        let past = [Past { fit: Some((0, 0)), column: 0, values: &rows }];
        let of = |members| fit(members, &rows).forecast(&past, 6).expect("a forecast").remove(0);
        let engine = Engine::cpu_with_threads(1).expect("a CPU");
        let mut network = Forecaster::new(&engine, &Weights::shipped().expect("weights")).expect("a network");
        let medians =
            network.forecast(&[&rows], 6).expect("a forecast").remove(0).into_iter().map(|row| row[4]);
        assert_eq!(of(Members::Pretrained).values, medians.collect::<Vec<f64>>());
        for (members, model) in
            [(Members::Ets, Model::Ets), (Members::Theta, Model::Theta), (Members::Tsb, Model::Tsb)]
        {
            let own = Fitted::new(model, &rows, 4).expect("a fit").predict(&rows, 0, 6).expect("a forecast");
            assert_eq!(of(members).values, own.values);
            assert_eq!(of(members).spread, own.spread.into_iter().map(normal).collect::<Vec<Quantiles>>());
        }
        for members in Members::ALONE {
            assert_eq!(members.alone(), Some(members));
            assert_eq!(serde_json::json!(members), members.setting());
        }
        assert_eq!([Members::All, Members::Statistical, Members::None].map(Members::alone), [None; 3]);
    }

    #[test]
    fn a_file_has_all_of_it_and_many_series_are_as_each_alone() {
        let (short, long) = (wave(3), wave(70));
        let demand = [0.0, 0.0, 3.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0];
        let known = |name, rows| Known { name, first: Some(86_400_000), columns: vec![rows] };
        let all = [known("short", &short[..]), known("long", &long[..]), known("demand", &demand[..])];
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ensemble.json");
        let one = Ensemble::fit(Members::All, 4, all.clone(), Some(1)).expect("models");
        let two = Ensemble::fit(Members::All, 4, all.clone(), Some(2)).expect("models");
        assert_eq!(one, two);
        one.write(&path).expect("a file");
        let read = Ensemble::read(&path, Some(1)).expect("the file");
        assert_eq!((one.rows(1), read.rows(1)), ((Some(86_400_000), 70), (Some(86_400_000), 70)));
        let past: Vec<Past<'_>> = all
            .iter()
            .map(|k| Past { fit: one.place(k.name, false).map(|p| (p, 0)), column: 0, values: k.columns[0] })
            .collect();
        let together = read.forecast(&past, 5).expect("forecasts");
        for (past, own) in past.iter().zip(&together) {
            let alone = one.forecast(&[*past], 5).expect("a forecast").remove(0);
            for (a, b) in alone.values.iter().zip(&own.values) {
                assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{a} {b}");
            }
            assert!(own.values.iter().all(|y| y.is_finite()));
        }
        assert!(together[2].values.iter().all(|y| (0.0..3.0).contains(y)), "{:?}", together[2].values);
        std::fs::write(&path, "{").expect("a file");
        let why = Ensemble::read(&path, None).expect_err("half a file").to_string();
        assert!(why.contains("ensemble.json") && why.ends_with("train the run again"), "{why}");
    }
}
