//! A forecast in its three parts, so that the networks' part may be done for several at once: what is scaled, what the network
//! predicts of it, and what the forecaster makes of that.

use super::RunError;
use super::open::{Forecast, Run};
use crate::data::{DataError, Future, Scaler, Series, scaler_of};

/// The last rows of a series, ready for a run's network.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    context: Series,
    scaler: Scaler,
    scaled: Vec<f64>,
    known: Vec<f64>,
    /// The scaled rows that a chosen forecaster reads, `[columns, rows]`, and their number.
    history: Option<(Vec<f64>, usize)>,
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
        let (scalers, context) = (self.need_scalers()?, self.resolved().network.context());
        let Some(scaler) = scaler_of(scalers, series, only) else {
            let known = scalers.iter().map(|(name, _)| name.clone()).collect();
            return Err(DataError::NoKnownSeries { file: series.source().to_owned(), known }.into());
        };
        let last = series.last_rows(context)?;
        let mut scaled = scaler.scale_f64(&last)?;
        let why = self.known();
        let ahead_of = scaled.split_off((series.channels() - why.len()) * context);
        let known = self.scaled_ahead((series, scaler), &ahead_of, (future, only))?;
        let history = match self.forecaster() {
            Some(f) => {
                let history = series.last_rows(f.history(context))?;
                Some((scaler.scale_f64(&history)?, history.rows()))
            }
            None => None,
        };
        Ok(Prepared { context: last, scaler: scaler.clone(), scaled, known, history })
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
        let Prepared { context, scaler, history, .. } = prepared;
        let (horizon, loss) = (self.resolved().network.horizon(), &self.resolved().training.loss);
        let size = loss.outputs() * horizon;
        if let (Some(f), Some((scaled, rows))) = (self.forecaster(), history) {
            for (c, predicted) in predicted.chunks_exact_mut(size).enumerate() {
                let floor = f.floor(&context.columns()[c], &scaler, c);
                f.combine(&scaled[c * rows..][..rows], floor, horizon, predicted);
            }
        }
        let column = |(c, all): (usize, &[f64])| -> Vec<Vec<f64>> {
            let units = |level: &[f64]| level.iter().map(|&x| scaler.inverse(c, x)).collect();
            all.chunks_exact(horizon).map(units).collect()
        };
        let levels: Vec<_> = predicted.chunks_exact(size).enumerate().map(column).collect();
        let values = levels.iter().map(|l| l[loss.point()].clone()).collect();
        let quantiles = match loss.levels().len() {
            0 => Vec::new(),
            n => levels.into_iter().map(|all| all.into_iter().take(n).collect()).collect(),
        };
        Forecast { context, values, quantiles, intervals: Vec::new() }
    }
}
