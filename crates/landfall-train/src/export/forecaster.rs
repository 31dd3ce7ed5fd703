//! The forecaster of a run as one graph, from values in original units to forecasts in original units: what
//! [`Run::forecast`](crate::run::Run::forecast) computes on the host around its network, and the network.

use crate::data::{Baseline, Scaler};
use crate::models::Task;
use crate::run::{Data, Forecaster, Run, RunError, Weights};
use crate::train::{Dataset, Session};
use landfall::{DType, Engine, Error, Graph, HostTensor, Shape, StateSpec, Value, ops};
use std::sync::Arc;

/// Entries of the graph's state that are no weights.
const MEAN: &str = "scaler.mean";
const STD: &str = "scaler.std";
const FLOOR: &str = "forecast.floor";

/// An input or output of the graph.
pub(super) struct Port {
    pub(super) name: &'static str,
    pub(super) value: Value,
    /// What it holds.
    pub(super) doc: String,
}

/// A run's forecaster, ready to be written as graphs.
pub(super) struct Forecasting {
    pub(super) run: Run,
    session: Session,
    spec: Arc<StateSpec>,
    /// The entries of the state that are no weights.
    constants: Vec<(&'static str, HostTensor)>,
}

/// The graph for one batch.
pub(super) struct Built {
    pub(super) graph: Graph,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
}

fn table(scalers: &[&Scaler], of: fn(&Scaler) -> &[f64]) -> Result<HostTensor, Error> {
    let columns = scalers.first().map_or(0, |s| s.channels());
    let data = scalers.iter().flat_map(|s| of(s).iter().copied()).collect();
    Ok(HostTensor::new(DType::F64, [scalers.len(), columns], data)?)
}

impl Forecasting {
    /// A run with these weights.
    ///
    /// # Errors
    /// As [`Run::open`] and [`Run::predictor`].
    pub(super) fn open(run: Run, weights: Weights) -> Result<Self, RunError> {
        let engine = Engine::cpu()?;
        let (session, constants) = match run.resolved().network.task() {
            Task::Regress => {
                let Data::Walk(walk) = run.load(&[], None)? else {
                    return Err(RunError::NoFuture { path: run.path().to_owned() });
                };
                let of =
                    |data: &[f64]| HostTensor::new(DType::F64, [walk.channels, walk.length], data.to_vec());
                let constants = vec![
                    (MEAN, of(&walk.mean).map_err(Error::from)?),
                    (STD, of(&walk.std).map_err(Error::from)?),
                ];
                (run.session(&engine, &Dataset::regression(&walk), weights)?, constants)
            }
            task @ (Task::Forecast | Task::Classify) => {
                let scalers: Vec<&Scaler> = run.scalers().iter().map(|(_, scaler)| scaler).collect();
                let mut constants =
                    vec![(MEAN, table(&scalers, Scaler::mean)?), (STD, table(&scalers, Scaler::std)?)];
                if task == Task::Forecast {
                    constants.extend(floors(&run, &scalers)?.map(|floors| (FLOOR, floors)));
                }
                (run.predictor(&engine, weights)?, constants)
            }
        };
        let parameters = session.model().parameters();
        let mut spec = StateSpec::new();
        let entries = |names: Vec<(&String, Shape)>| -> Vec<(String, Shape)> {
            names.into_iter().map(|(name, shape)| (name.clone(), shape)).collect()
        };
        // Whatever the run computed in, the graph computes in f32, and scales in f64.
        let weights = entries(parameters.list().iter().map(|p| (&p.name, p.shape)).collect());
        spec.add("parameters", DType::F32, &weights)?;
        let buffers = entries(parameters.buffers().iter().map(|b| (&b.name, b.shape)).collect());
        spec.add("buffers", DType::F32, &buffers)?;
        let own = constants.iter().map(|(name, value)| ((*name).to_owned(), value.spec.shape));
        spec.add("constants", DType::F64, &own.collect::<Vec<_>>())?;
        Ok(Self { run, session, spec: Arc::new(spec), constants })
    }

    /// The names of all entries of the graph's state.
    pub(super) fn entries(&self) -> Vec<String> {
        self.spec.slabs().iter().flat_map(|slab| &slab.entries).map(|entry| entry.name.clone()).collect()
    }

    /// The value of an entry of the graph's state.
    ///
    /// # Errors
    /// No such entry; a device fault.
    pub(super) fn value(&self, entry: &str) -> Result<HostTensor, Error> {
        if let Some((_, value)) = self.constants.iter().find(|(name, _)| *name == entry) {
            return Ok(value.clone());
        }
        let value = self.session.state.read_host(entry)?;
        let spec = landfall::Spec { dtype: DType::F32, ..value.spec };
        Ok(HostTensor::from_fn(spec, |i| value.data[i]))
    }

    /// Rows that a forecast reads.
    pub(super) fn rows(&self) -> usize {
        let context = self.run.resolved().network.context();
        self.run.forecaster().map_or(context, |f| f.history(context))
    }

    /// Whether a forecast needs to be told which series it continues.
    pub(super) fn several(&self) -> bool {
        self.run.resolved().network.task() == Task::Forecast && self.run.scalers().len() > 1
    }

    /// The graph for windows of this number at once.
    ///
    /// # Errors
    /// What the engine refuses.
    pub(super) fn graph(&self, batch: usize) -> Result<Built, Error> {
        let graph = Graph::new(&self.spec);
        let (inputs, outputs) = match self.run.resolved().network.task() {
            Task::Forecast => self.forecast(&graph, batch)?,
            Task::Regress => self.regress(&graph, batch)?,
            Task::Classify => self.classify(&graph, batch)?,
        };
        Ok(Built { graph, inputs, outputs })
    }

    fn forecast(&self, g: &Graph, batch: usize) -> Result<(Vec<Port>, Vec<Port>), Error> {
        let (run, rows) = (&self.run, self.rows());
        let network = &run.resolved().network;
        let (context, horizon) = (network.context(), network.horizon());
        let (columns, targets) = (run.columns().len(), run.targets());
        let (levels, point) = (run.levels().len().max(1), run.resolved().training.loss.point());
        let x = g.input("context", DType::F64, [batch, rows, columns]);
        let doc = format!("the last {rows} rows of {columns} columns, in original units");
        let mut inputs = vec![Port { name: "context", value: x, doc }];
        let series = self.several().then(|| g.input("series", DType::I64, [batch]));
        let last = run.scalers().len().saturating_sub(1);
        let doc = format!("which series each context is of: 0 to {last}, as in the metadata property series");
        inputs.extend(series.map(|value| Port { name: "series", value, doc }));
        // One row for each series, or the only one for all.
        let of_series = |entry: &str| -> Result<Value, Error> {
            match (series, g.entry(entry)?) {
                (Some(series), table) => g.take(table, 0, series),
                (None, table) => Ok(table),
            }
        };
        let windows = g.permute(x, &[0, 2, 1])?;
        let column = |v: Value| g.reshape(v, [g.shape(v).dims()[0], columns, 1]);
        let (mean, std) = (of_series(MEAN)?, of_series(STD)?);
        let scaled = g.div(g.sub(windows, column(mean)?)?, column(std)?)?;
        let scaled = g.name(g.cast(scaled, DType::F32)?, "scaled");
        let whole = [batch, targets, levels, horizon];
        let forecaster = run.forecaster();
        let share = forecaster.map_or(1.0, |f| f.share);
        let network = || {
            let window = g.slice(scaled, 2, rows - context, context)?;
            let mut y = self.session.prediction(g, window)?;
            if levels > 1 {
                // Independently trained levels may cross.
                y = g.sort(y, 2, false)?.0;
            }
            g.cast(y, DType::F64)
        };
        let baseline = match forecaster.and_then(Forecaster::baseline) {
            Some(baseline) => {
                let continued = continuation(g, baseline, g.slice(scaled, 1, 0, targets)?, horizon)?;
                Some(g.reshape(g.cast(continued, DType::F64)?, [batch, targets, 1, horizon])?)
            }
            None => None,
        };
        let mut y = match baseline {
            None => network()?,
            Some(baseline) if share == 0.0 => g.broadcast_to(baseline, whole)?,
            Some(baseline) => {
                g.add(g.affine(network()?, share, 0.0)?, g.affine(baseline, 1.0 - share, 0.0)?)?
            }
        };
        let target = |v: Value| {
            let rows = g.shape(v).dims()[0];
            g.reshape(g.slice(v, 1, 0, targets)?, [rows, targets, 1, 1])
        };
        if self.constants.iter().any(|(name, _)| *name == FLOOR) {
            y = g.maximum(y, target(of_series(FLOOR)?)?)?;
        }
        let y = g.add(g.mul(y, target(std)?)?, target(mean)?)?;
        let point = g.reshape(g.slice(y, 2, point, 1)?, [batch, targets, horizon])?;
        let value = g.copy(g.permute(point, &[0, 2, 1])?)?;
        let doc = format!(
            "the {horizon} rows after the context, of the first {targets} columns, in original units"
        );
        let mut outputs = vec![Port { name: "forecast", value, doc }];
        if levels > 1 {
            let value = g.copy(g.permute(y, &[0, 3, 1, 2])?)?;
            let doc = "as forecast, for each level of the metadata property quantiles, in ascending order"
                .to_owned();
            outputs.push(Port { name: "quantiles", value, doc });
        }
        Ok((inputs, outputs))
    }

    fn regress(&self, g: &Graph, batch: usize) -> Result<(Vec<Port>, Vec<Port>), Error> {
        let [columns, rows] = [0, 1].map(|axis| self.constants[0].1.dims()[axis]);
        let loss = &self.run.resolved().training.loss;
        let x = g.input("context", DType::F64, [batch, rows, columns]);
        let windows = g.sub(g.permute(x, &[0, 2, 1])?, g.entry(MEAN)?)?;
        let scaled = g.cast(g.div(windows, g.entry(STD)?)?, DType::F32)?;
        let y = self.session.prediction(g, scaled)?;
        let horizon = g.shape(y).last();
        let point = g.reshape(g.slice(y, 2, loss.point(), 1)?, [batch, horizon])?;
        let value = g.cast(point, DType::F64)?;
        let doc = format!("a window of {rows} rows of {columns} columns");
        let inputs = vec![Port { name: "context", value: x, doc }];
        let doc = "the label of each window".to_owned();
        Ok((inputs, vec![Port { name: "prediction", value, doc }]))
    }

    fn classify(&self, g: &Graph, batch: usize) -> Result<(Vec<Port>, Vec<Port>), Error> {
        let [tokens, features] = [0, 1].map(|axis| self.constants[0].1.dims()[axis]);
        let x = g.input("features", DType::F64, [batch, tokens, features]);
        let centred = g.sub(x, g.entry(MEAN)?)?;
        let scaled = g.cast(g.div(centred, g.entry(STD)?)?, DType::F32)?;
        let y = self.session.prediction(g, scaled)?;
        let classes = g.shape(y).last();
        let value = g.cast(g.reshape(y, [batch, tokens, classes])?, DType::F64)?;
        let doc = format!("samples of {tokens} tokens with {features} features, in original units");
        let inputs = vec![Port { name: "features", value: x, doc }];
        let doc = format!("how probable each of the {classes} classes is for each token");
        Ok((inputs, vec![Port { name: "probabilities", value, doc }]))
    }
}

/// The smallest scaled value of a forecast of each series and target; none where every forecast may be negative.
fn floors(run: &Run, scalers: &[&Scaler]) -> Result<Option<HostTensor>, Error> {
    let Some(f) = run.forecaster().filter(|f| !f.non_negative.is_empty()) else { return Ok(None) };
    let columns = run.columns();
    let of =
        |s: &&Scaler| columns.iter().enumerate().map(|(c, name)| f.floor(name, s, c)).collect::<Vec<_>>();
    let floors: Vec<f64> = scalers.iter().flat_map(of).collect();
    Ok(Some(HostTensor::new(DType::F64, [scalers.len(), columns.len()], floors)?))
}

/// A baseline's `[B, T, H]` after a history `[B, T, rows]`.
fn continuation(g: &Graph, baseline: Baseline, history: Value, horizon: usize) -> Result<Value, Error> {
    let (period, rows) = (baseline.period(), g.shape(history).last());
    let season = g.slice(history, 2, rows - period, period)?;
    let seasons = horizon.div_ceil(period);
    if seasons == 1 {
        return g.slice(season, 2, 0, horizon);
    }
    let repeated = g.op1(ops::Concat { axis: 2 }, &vec![season; seasons])?;
    g.slice(repeated, 2, 0, horizon)
}
