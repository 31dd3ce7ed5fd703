//! Forecasts of a run.

use super::answer::{Answered, Body, Form, Refusal, forecasts, internal};
use super::forecasts::{Forecasts, Given, Network, Read};
use super::query::{decoded, parameters};
use super::request::{Histories, Reader, Reading, refused};
use hyper::{Response, StatusCode};
use landfall_forecast::run::{Forecast, HalfWidths, Prepared, Run, RunError};
use landfall_train::data::Future;
use landfall_train::train::{Batches, Seen, Session};

/// A run that is served.
pub(super) struct OfRun {
    pub(super) run: Run,
    pub(super) reading: Reading,
    /// Of the intervals of its answers, where they have any.
    pub(super) widths: Option<HalfWidths>,
}

/// Its network.
pub(super) struct RunNetwork {
    pub(super) session: Session,
    pub(super) batches: Batches,
}

impl Network for RunNetwork {
    type Job = Prepared;
    type Done = (Prepared, Vec<f64>);

    fn most(&self) -> usize {
        self.batches.most()
    }

    fn predict(&mut self, jobs: Vec<Prepared>) -> Result<Vec<Self::Done>, String> {
        let Self { session, batches } = self;
        let engine = session.engine.clone();
        let windows: Vec<Seen<'_>> =
            jobs.iter().map(|prepared| (prepared.scaled(), prepared.known())).collect();
        let predicted = engine.enter(|| batches.predict(session, &windows)).map_err(|why| why.to_string())?;
        Ok(jobs.into_iter().zip(predicted).collect())
    }
}

/// What forecasts in a run.
pub(super) fn name(run: &Run) -> String {
    let network = run.resolved().settings.model.map(|model| model.name().to_owned());
    run.forecaster().map(|f| f.name().to_string()).or(network).unwrap_or_default()
}

impl Forecasts for OfRun {
    type Network = RunNetwork;
    /// The name of the series.
    type Asked = Option<String>;
    /// What is to be said.
    type Rest = Vec<String>;

    fn name(&self) -> String {
        name(&self.run)
    }

    fn asked(&self, query: Option<&str>) -> Result<Option<String>, Refusal> {
        let form = "the only parameter of POST /forecast is ?series=NAME, once";
        let given = parameters(query, &["series"], form)?;
        given.first().map(|(name, value)| decoded(name, value)).transpose()
    }

    fn read(&self, given: &Given, series: Option<String>) -> Result<Read<Self>, Refusal> {
        let reader = Reader { run: &self.run, reading: &self.reading };
        let Histories { all, notes } = reader.read(given, series.as_deref())?;
        // Each history of JSON stands for itself; the series of one CSV are told apart by their names.
        let only = matches!(given, Given::Json(_)) || all.len() == 1;
        let prepared = all.iter().map(|(series, future)| {
            let future = future.as_deref().map(Future::Rows);
            self.run.prepare(series, future, only).map_err(|why| {
                if let RunError::Data(why) = &why { refused(why) } else { internal(why.to_string()) }
            })
        });
        Ok((prepared.collect::<Result<_, _>>()?, notes))
    }

    fn finish(
        &self,
        done: Vec<(Prepared, Vec<f64>)>,
        notes: Vec<String>,
        form: Form,
    ) -> Result<Response<Body>, Refusal> {
        let mut all: Vec<Forecast> = Vec::with_capacity(done.len());
        for (prepared, predicted) in done {
            let mut forecast = self.run.finish(prepared, predicted);
            if let Some(widths) = &self.widths {
                widths
                    .of(forecast.context.name())
                    .map_err(|why| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, why.to_string()))?;
                widths.add_to(&mut forecast);
            }
            all.push(forecast);
        }
        let answered = Answered {
            columns: self.run.columns().get(..self.run.targets()).unwrap_or_default(),
            levels: self.run.levels(),
            interval_levels: self.widths.as_ref().map_or(&[][..], HalfWidths::levels),
            horizon: self.run.resolved().network.horizon(),
            named: self.run.scalers().len() > 1,
        };
        forecasts(&answered, &all, (form, notes))
    }
}
