//! A forecast in its three parts, so that the networks' part may be done for several at once: what is scaled, what the network
//! predicts of it, and what the forecaster makes of that.

use super::RunError;
use super::ensembles::Rows;
use super::open::{Forecast, Run};
use crate::choice::Partner;
use crate::data::{Baseline, DataError, Digits, Future, Scaler, Series, WindowError};
use crate::ensemble::Ahead;
use landfall::DType;

/// The last rows of a series, ready for a run's network.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    context: Series,
    scaler: Scaler,
    scaled: Vec<f64>,
    known: Vec<f64>,
    /// The scaled rows that a chosen forecaster reads, `[columns, rows]`, and their number.
    history: Option<(Vec<f64>, usize)>,
    /// What the ensemble forecasts of each target column; nothing where it takes no part.
    ensemble: Vec<Ahead>,
    /// What forecasts a series that is too short for the network.
    by_itself: Option<Partner>,
}

impl Prepared {
    /// What the network reads: `[columns, context]`, scaled, of the columns that are not known in advance.
    #[must_use]
    pub fn scaled(&self) -> &[f64] {
        &self.scaled
    }

    /// The columns known in advance that it reads: `[columns, context + horizon]`, scaled.
    #[must_use]
    pub fn known(&self) -> &[f64] {
        &self.known
    }
}

impl Run {
    /// Scales the last rows of a series; of an `only` one the name does not matter to a run of one series. `future` has the
    /// values of the columns that are known in advance.
    ///
    /// # Errors
    /// When the series is shorter than the context, has other columns, or is none of the run's; when values that are known in
    /// advance are missing.
    pub fn prepare(
        &self,
        series: &Series,
        future: Option<Future<'_>>,
        only: bool,
    ) -> Result<Prepared, RunError> {
        let ahead = self.ensemble_ahead(std::slice::from_ref(&series), only)?.remove(0);
        self.prepare_with(series, future, only, ahead)
    }

    /// What the ensemble forecasts of the target columns of each series; nothing where it takes no part.
    pub(super) fn ensemble_ahead(&self, series: &[&Series], only: bool) -> Result<Vec<Vec<Ahead>>, RunError> {
        let mut all = vec![Vec::new(); series.len()];
        let Some(forecaster) = self.forecaster() else { return Ok(all) };
        let Some(models) = forecaster.models.as_deref() else {
            return if forecaster.ensemble { Err(RunError::NoModels) } else { Ok(all) };
        };
        let scalers = self.need_scalers()?;
        let takes_part = |s: &Series| {
            let short = scalers.of(s, only).is_some_and(|known| self.is_by_itself(known.short, s));
            (forecaster.ensemble || short && models.place(s.name(), only).is_some()) && s.rows() > 0
        };
        let mut rows = Vec::new();
        let mut places = Vec::new();
        for (i, series) in series.iter().enumerate().filter(|(_, s)| takes_part(s)) {
            let Some(known) = scalers.of(series, only) else { continue };
            rows.push(Rows { series, scaler: known.scaler, known: series.rows() });
            places.push(i);
        }
        let sizes = (self.targets(), self.resolved().network.horizon());
        let found = forecaster.ahead(&rows, sizes, only)?;
        for (place, own) in places.into_iter().zip(found.chunks_exact(sizes.0.max(1))) {
            all[place] = own.to_vec();
        }
        Ok(all)
    }

    /// As [`Run::prepare`], with what the ensemble forecasts.
    pub(super) fn prepare_with(
        &self,
        series: &Series,
        future: Option<Future<'_>>,
        only: bool,
        ensemble: Vec<Ahead>,
    ) -> Result<Prepared, RunError> {
        let (scalers, context) = (self.need_scalers()?, self.resolved().network.context());
        let Some(known) = scalers.of(series, only) else {
            let known = scalers.names();
            return Err(DataError::Window(WindowError::NoKnownSeries {
                file: series.source().to_owned(),
                known,
            })
            .into());
        };
        let scaler = known.scaler;
        if self.is_by_itself(known.short, series) {
            return self.prepare_short(series, scaler, ensemble);
        }
        let last = series.last_rows(context)?;
        let mut scaled = scaler.scale_f64(&last)?;
        let why = self.known();
        let ahead_of = scaled.split_off((series.channels() - why.len()) * context);
        let known = self.scaled_ahead((series, scaler), &ahead_of, (future, only))?;
        let history = match self.forecaster().map(|f| f.history(context)) {
            // The rows that the network reads, as a rule.
            Some(rows) if rows == context => Some(([scaled.as_slice(), &ahead_of].concat(), rows)),
            Some(rows) => Some((scaler.scale_f64(&series.last_rows(rows)?)?, rows)),
            None => None,
        };
        let scaler = scaler.clone();
        Ok(Prepared { context: last, scaler, scaled, known, history, ensemble, by_itself: None })
    }

    /// Refuses a series that has fewer rows than its forecast needs.
    ///
    /// # Errors
    /// [`SeriesError::TooFewRows`](crate::data::SeriesError::TooFewRows).
    pub fn check_rows(&self, only: &Series) -> Result<(), RunError> {
        let short = self.need_scalers()?.of(only, true).is_some_and(|known| known.short);
        if !self.is_by_itself(short, only) {
            only.last_rows(self.resolved().network.context())?;
        }
        Ok(())
    }

    /// Whether a series that was too short for the run's windows is so still, and is forecast by itself. It has no quantiles.
    fn is_by_itself(&self, short: bool, series: &Series) -> bool {
        let context = self.resolved().network.context();
        let needed = self.forecaster().map_or(context, |f| f.history(context));
        let alone = self.forecaster().is_some_and(|f| f.ensemble && f.share == 0.0);
        (short || alone) && series.rows() < needed && self.levels().is_empty()
    }

    /// A series that is too short for the network, which was known when it was trained: it is forecast by the ensemble, or, where
    /// that has no models of it, by its own last season, where it has one, else by its last value. What the network reads
    /// instead is 0.
    fn prepare_short(
        &self,
        series: &Series,
        scaler: &Scaler,
        ensemble: Vec<Ahead>,
    ) -> Result<Prepared, RunError> {
        let (rows, network) = (series.rows(), &self.resolved().network);
        let period = self.resolved().period;
        let by_itself = match period {
            _ if !ensemble.is_empty() => Partner::Ensemble,
            2.. if period <= rows => Partner::Baseline(Baseline::SeasonalNaive { period }),
            _ => Partner::Baseline(Baseline::LastValue),
        };
        let known = self.known().len();
        let own = series.channels() - known;
        let reads_known = self.forecaster().is_none_or(|f| f.ridge.is_none());
        let ahead = if reads_known { known * (network.context() + network.horizon()) } else { 0 };
        Ok(Prepared {
            context: series.clone(),
            scaler: scaler.clone(),
            scaled: vec![0.0; own * network.context()],
            known: vec![0.0; ahead],
            history: Some((scaler.scale_f64(series)?, rows)),
            ensemble,
            by_itself: Some(by_itself),
        })
    }

    /// The scaled columns known in advance over context and horizon, of which `past` are those over the context.
    fn scaled_ahead(
        &self,
        (series, scaler): (&Series, &Scaler),
        past: &[f64],
        future: (Option<Future<'_>>, bool),
    ) -> Result<Vec<f64>, RunError> {
        let context = self.resolved().network.context();
        let ahead = self.ahead(series, future)?;
        let (first, mut known) = (series.channels() - ahead.len(), Vec::new());
        for (at, (past, ahead)) in past.chunks_exact(context).zip(&ahead).enumerate() {
            let (mean, std) = (scaler.mean()[first + at], scaler.std()[first + at]);
            known.extend(past);
            known.extend(ahead.iter().map(|x| (x - mean) / std));
        }
        Ok(known)
    }

    /// The forecast that follows from what the network predicts of [`Prepared::scaled`]: `[targets, levels, horizon]`, the
    /// levels of a row in order.
    #[must_use]
    pub fn finish(&self, prepared: Prepared, mut predicted: Vec<f64>) -> Forecast {
        let Prepared { context, scaler, history, ensemble, by_itself, .. } = prepared;
        let (horizon, loss) = (self.resolved().network.horizon(), &self.resolved().training.loss);
        let size = loss.outputs() * horizon;
        let forecaster = self.forecaster();
        if let Some((scaled, rows)) = history {
            for (c, predicted) in predicted.chunks_exact_mut(size).enumerate() {
                let (name, past) = (&context.columns()[c], &scaled[c * rows..][..rows]);
                let (mean, std) = (scaler.mean()[c], scaler.std()[c]);
                let own = ensemble.get(c).map_or(&[][..], |ahead| &ahead.values);
                let own: Vec<f64> = own.iter().map(|y| (y - mean) / std).collect();
                match (by_itself, forecaster) {
                    (Some(Partner::Ensemble), _) => {
                        predicted.iter_mut().zip(&own).for_each(|(p, own)| *p = *own);
                    }
                    (Some(Partner::Baseline(baseline)), _) => {
                        predicted.iter_mut().zip(baseline.continuation(past)).for_each(|(p, own)| *p = own);
                    }
                    (None, Some(f)) => {
                        let sizes = (self.resolved().network.context(), horizon);
                        f.combine((past, &own), f.prior(name, &scaler, c), sizes, predicted);
                    }
                    (None, None) => {}
                }
            }
        }
        let column = |(c, all): (usize, &[f64])| -> Vec<Vec<f64>> {
            let lowest = forecaster.map_or(f64::NEG_INFINITY, |f| f.lowest(&context.columns()[c]));
            let digits = self.digits(&scaler, c);
            let unit = |&x: &f64| digits.round(scaler.inverse(c, x)).max(lowest);
            let units = |level: &[f64]| level.iter().map(unit).collect();
            all.chunks_exact(horizon).map(units).collect()
        };
        let levels: Vec<_> = predicted.chunks_exact(size).enumerate().map(column).collect();
        let values = levels.iter().map(|l| l[loss.point()].clone()).collect();
        let quantiles = match loss.levels().len() {
            0 => Vec::new(),
            n => levels.into_iter().map(|all| all.into_iter().take(n).collect()).collect(),
        };
        let spread = ensemble.into_iter().map(|ahead| ahead.spread).collect();
        Forecast { context, values, quantiles, intervals: Vec::new(), spread }
    }

    /// The digits that its forecasts of a column have.
    pub(super) fn digits(&self, scaler: &Scaler, column: usize) -> Digits {
        if self.resolved().training.dtype == DType::F64 { Digits::ALL } else { scaler.digits(column) }
    }
}
