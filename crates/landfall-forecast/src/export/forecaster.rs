//! The forecaster of a run as one graph, from values in original units to forecasts in original units: what
//! [`Run::forecast`](crate::run::Run::forecast) computes on the host around its network, and the network.

use super::{ExportError, distribution};
use crate::data::{Baseline, Known, Scaler};
use crate::models::Predicts;
use crate::run::{Data, Forecaster, HalfWidths, Run, RunError, Weights};
use crate::train::{Dataset, Loss, Session};
use landfall::{DType, Engine, Error, Graph, HostTensor, Shape, StateSpec, Value, ops};
use std::sync::Arc;

/// Entries of the graph's state that are no weights.
const MEAN: &str = "scaler.mean";
const STD: &str = "scaler.std";
const FLOOR: &str = "forecast.floor";
const AHEAD_MEAN: &str = "scaler.future.mean";
const AHEAD_STD: &str = "scaler.future.std";
const STATIC_MEAN: &str = "scaler.static.mean";
const STATIC_STD: &str = "scaler.static.std";
const HALF: &str = "interval.half";
const LOWEST: &str = "interval.lowest";

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
    /// The columns of the inputs.
    pub(super) columns: InputColumns,
    /// Levels of the intervals, in percent.
    pub(super) intervals: Vec<f64>,
}

/// The run's columns that each input has, by their places in the run.
#[derive(Debug, Clone, Default)]
pub(super) struct InputColumns {
    /// Of the context: those to forecast, past ones, and those of `ahead`.
    pub(super) context: Vec<usize>,
    /// Those known in advance that change from row to row: given ones, then features of the dates.
    pub(super) ahead: Vec<usize>,
    /// How many of them are given.
    given: usize,
    /// Those with one value for each series.
    pub(super) fixed: Vec<usize>,
}

impl InputColumns {
    /// Those of a run; none that its forecaster does not read.
    fn of(run: &Run) -> Self {
        let known = run.known();
        let seen = run.columns().len() - known.len();
        let mut context: Vec<usize> = (0..seen).collect();
        if !run.reads_known() {
            return Self { context, ..Self::default() };
        }
        let of = |is: fn(&Known) -> bool| -> Vec<usize> {
            known.iter().enumerate().filter(|(_, why)| is(why)).map(|(at, _)| seen + at).collect()
        };
        let mut ahead = of(|why| matches!(why, Known::Given));
        let given = ahead.len();
        ahead.extend(of(|why| matches!(why, Known::Calendar(_))));
        context.extend(&ahead);
        Self { context, ahead, given, fixed: of(|why| matches!(why, Known::Fixed)) }
    }
}

/// The graph for one batch.
pub(super) struct Built {
    pub(super) graph: Graph,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
}

/// Numbers of some columns of each series.
fn table(scalers: &[&Scaler], columns: &[usize], of: fn(&Scaler) -> &[f64]) -> Result<HostTensor, Error> {
    let data = scalers.iter().flat_map(|s| columns.iter().map(|&c| of(s)[c])).collect();
    Ok(HostTensor::new(DType::F64, [scalers.len(), columns.len()], data)?)
}

impl Forecasting {
    /// A run with these weights, and intervals of these half widths.
    ///
    /// # Errors
    /// As [`Run::open`] and [`Run::predictor`]; [`ExportError::Level`].
    pub(super) fn open(run: Run, weights: Weights, widths: Option<&HalfWidths>) -> Result<Self, ExportError> {
        let engine = Engine::cpu()?;
        let mut columns = InputColumns::default();
        let (session, constants) = match run.resolved().network.predicts() {
            Predicts::Value => {
                let Data::Walk(walk) = run.load(&[], None)? else {
                    return Err(RunError::NoFuture { path: run.path().to_owned() }.into());
                };
                let of =
                    |data: &[f64]| HostTensor::new(DType::F64, [walk.channels, walk.length], data.to_vec());
                let constants = vec![
                    (MEAN, of(&walk.mean).map_err(Error::from)?),
                    (STD, of(&walk.std).map_err(Error::from)?),
                ];
                (run.session(&engine, &Dataset::regression(&walk), weights)?, constants)
            }
            predicts @ (Predicts::Rows(_) | Predicts::Classes(_)) => {
                let scalers: Vec<&Scaler> = run.scalers().iter().map(|(_, scaler)| scaler).collect();
                columns = match predicts {
                    Predicts::Rows(_) => InputColumns::of(&run),
                    Predicts::Value | Predicts::Classes(_) => {
                        let all = scalers.first().map_or(0, |s| s.channels());
                        InputColumns { context: (0..all).collect(), ..InputColumns::default() }
                    }
                };
                let mut constants = Vec::new();
                for (mean, std, columns) in [
                    (MEAN, STD, &columns.context),
                    (AHEAD_MEAN, AHEAD_STD, &columns.ahead),
                    (STATIC_MEAN, STATIC_STD, &columns.fixed),
                ] {
                    if !columns.is_empty() {
                        constants.push((mean, table(&scalers, columns, Scaler::mean)?));
                        constants.push((std, table(&scalers, columns, Scaler::std)?));
                    }
                }
                if matches!(predicts, Predicts::Rows(_)) {
                    constants.extend(floors(&run, &scalers)?.map(|floors| (FLOOR, floors)));
                    if let Loss::Distribution(family, levels) = &run.resolved().training.loss {
                        let made = distribution::constants(*family, levels, run.path())?;
                        constants.extend(made.map(|made| (distribution::QUANTILES, made)));
                    }
                    if let Some(widths) = widths {
                        constants.extend(half_widths(&run, widths)?);
                    }
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
        let intervals = widths.map(|widths| widths.levels().to_vec()).unwrap_or_default();
        Ok(Self { run, session, spec: Arc::new(spec), constants, columns, intervals })
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
        self.run.resolved().network.forecasts() && self.run.scalers().len() > 1
    }

    /// The graph for windows of this number at once.
    ///
    /// # Errors
    /// What the engine refuses.
    pub(super) fn graph(&self, batch: usize) -> Result<Built, Error> {
        let graph = Graph::new(&self.spec);
        let (inputs, outputs) = match self.run.resolved().network.predicts() {
            Predicts::Rows(_) => self.forecast(&graph, batch)?,
            Predicts::Value => self.regress(&graph, batch)?,
            Predicts::Classes(_) => self.classify(&graph, batch)?,
        };
        Ok(Built { graph, inputs, outputs })
    }

    fn forecast(&self, g: &Graph, batch: usize) -> Result<(Vec<Port>, Vec<Port>), Error> {
        let (run, rows) = (&self.run, self.rows());
        let (targets, horizon) = (run.targets(), run.resolved().network.horizon());
        let columns = self.columns.context.len();
        let x = g.input("context", DType::F64, [batch, rows, columns]);
        let doc = format!("the last {rows} rows of {columns} columns, in original units");
        let mut inputs = vec![Port { name: "context", value: x, doc }];
        let series = self.several().then(|| g.input("series", DType::I64, [batch]));
        let of_series = OfSeries { g, series };
        let windows = g.permute(x, &[0, 2, 1])?;
        let scaled = g.name(of_series.scaled(windows, (MEAN, STD))?, "scaled");
        let known = self.known(&of_series, scaled, &mut inputs)?;
        let last = run.scalers().len().saturating_sub(1);
        let doc = format!("which series each context is of: 0 to {last}, as in the metadata property series");
        inputs.extend(series.map(|value| Port { name: "series", value, doc }));
        let Predicted { values, outputs: levels, quantiles, parameters } =
            self.predicted(g, scaled, known, batch)?;
        let mut y = values;
        let target = |v: Value| {
            let rows = g.shape(v).dims()[0];
            g.reshape(g.slice(v, 1, 0, targets)?, [rows, targets, 1, 1])
        };
        if self.has(FLOOR) {
            y = g.maximum(y, target(of_series.entry(FLOOR)?)?)?;
        }
        let y = g.add(g.mul(y, target(of_series.entry(STD)?)?)?, target(of_series.entry(MEAN)?)?)?;
        let loss = &run.resolved().training.loss;
        // The mean of a distribution stands behind the quantiles, of which there are none of counts.
        let point = if matches!(loss, Loss::Distribution(..)) { levels - 1 } else { loss.point() };
        let point = g.reshape(g.slice(y, 2, point, 1)?, [batch, targets, horizon])?;
        let value = g.copy(g.permute(point, &[0, 2, 1])?)?;
        let doc = format!(
            "the {horizon} rows after the context, of the first {targets} columns, in original units"
        );
        let mut outputs = vec![Port { name: "forecast", value, doc }];
        if quantiles > 0 {
            let value = g.copy(g.permute(g.slice(y, 2, 0, quantiles)?, &[0, 3, 1, 2])?)?;
            let doc = "as forecast, for each level of the metadata property quantiles, in ascending order"
                .to_owned();
            outputs.push(Port { name: "quantiles", value, doc });
        }
        if let Some(parameters) = parameters {
            let value = g.copy(g.permute(parameters, &[0, 3, 1, 2])?)?;
            let doc = "mean m and shape r of a negative binomial distribution of each value, whose probability of success is r/(r + m)"
                .to_owned();
            outputs.push(Port { name: "parameters", value, doc });
        }
        if self.has(HALF) {
            let value = self.bounds(&of_series, point)?;
            let doc = "lower and upper bounds for each level of the metadata property intervals, in percent"
                .to_owned();
            outputs.push(Port { name: "intervals", value, doc });
        }
        Ok((inputs, outputs))
    }

    fn has(&self, constant: &str) -> bool {
        self.constants.iter().any(|(name, _)| *name == constant)
    }

    /// The columns known in advance over context and horizon, scaled `[B, K, L + H]`, in the order of the run; with inputs for
    /// them.
    fn known(
        &self,
        of_series: &OfSeries<'_>,
        scaled: Value,
        inputs: &mut Vec<Port>,
    ) -> Result<Option<Value>, Error> {
        let InputColumns { context: seen, ahead, given, fixed } = &self.columns;
        let (g, network) = (of_series.g, &self.run.resolved().network);
        let (context, horizon, batch) = (network.context(), network.horizon(), g.shape(scaled).dims()[0]);
        let mut all = Vec::new();
        if !ahead.is_empty() {
            let count = ahead.len();
            let value = g.input("future", DType::F64, [batch, horizon, count]);
            let doc = format!(
                "{count} columns known in advance in the {horizon} rows after the context, in original units"
            );
            inputs.push(Port { name: "future", value, doc });
            let after = of_series.scaled(g.permute(value, &[0, 2, 1])?, (AHEAD_MEAN, AHEAD_STD))?;
            let before = g.slice(scaled, 1, seen.len() - count, count)?;
            let before = g.slice(before, 2, g.shape(scaled).last() - context, context)?;
            let whole = g.concat(&[before, after], 2)?;
            for (first, count) in [(0, *given), (*given, count - given)] {
                if count > 0 {
                    all.push(g.slice(whole, 1, first, count)?);
                }
            }
        }
        if !fixed.is_empty() {
            let count = fixed.len();
            let value = g.input("static", DType::F64, [batch, count]);
            let doc = format!("{count} columns with one value for each series, in original units");
            inputs.push(Port { name: "static", value, doc });
            let once = g.reshape(value, [batch, count, 1])?;
            let once = of_series.scaled(once, (STATIC_MEAN, STATIC_STD))?;
            // Behind the given columns, before features of the dates.
            all.insert(usize::from(*given > 0), g.broadcast_to(once, [batch, count, context + horizon])?);
        }
        Ok(match all.as_slice() {
            [] => None,
            [one] => Some(*one),
            several => Some(g.concat(several, 1)?),
        })
    }

    /// What the forecaster makes of scaled rows `[B, C, rows]`, scaled in f64.
    fn predicted(
        &self,
        g: &Graph,
        scaled: Value,
        known: Option<Value>,
        batch: usize,
    ) -> Result<Predicted, Error> {
        let (run, rows) = (&self.run, self.rows());
        let (context, horizon) = (run.resolved().network.context(), run.resolved().network.horizon());
        let (targets, seen) = (run.targets(), self.columns.context.len() - self.columns.ahead.len());
        let loss = &run.resolved().training.loss;
        let network = || -> Result<Predicted, Error> {
            let window = g.slice(g.slice(scaled, 1, 0, seen)?, 2, rows - context, context)?;
            let y = self.session.prediction(g, window, known)?;
            match loss {
                Loss::Distribution(family, levels) => {
                    let y = g.cast(y, DType::F64)?;
                    let made = distribution::forecasts(g, *family, levels.len(), y)?;
                    let distribution::Forecasts { values, quantiles, parameters } = made;
                    Ok(Predicted { values, outputs: quantiles + 1, quantiles, parameters })
                }
                Loss::Mse | Loss::Mae | Loss::Huber(_) | Loss::Quantile(_) | Loss::CrossEntropy => {
                    let (outputs, quantiles) = (loss.outputs(), loss.levels().len());
                    // Independently trained levels may cross.
                    let y = if outputs > 1 { g.sort(y, 2, false)?.0 } else { y };
                    let values = g.cast(y, DType::F64)?;
                    let quantiles = if quantiles > 1 { quantiles } else { 0 };
                    Ok(Predicted { values, outputs, quantiles, parameters: None })
                }
            }
        };
        let share = run.forecaster().map_or(1.0, |f| f.share);
        let Some(baseline) = run.forecaster().and_then(Forecaster::baseline) else { return network() };
        let continued = continuation(g, baseline, g.slice(scaled, 1, 0, targets)?, horizon)?;
        let baseline = g.reshape(g.cast(continued, DType::F64)?, [batch, targets, 1, horizon])?;
        if share == 0.0 {
            let (outputs, levels) = (loss.outputs(), loss.levels().len());
            let values = g.broadcast_to(baseline, [batch, targets, outputs, horizon])?;
            let quantiles = if outputs > 1 { levels } else { 0 };
            return Ok(Predicted { values, outputs, quantiles, parameters: None });
        }
        let made = network()?;
        let values = g.add(g.affine(made.values, share, 0.0)?, g.affine(baseline, 1.0 - share, 0.0)?)?;
        Ok(Predicted { values, ..made })
    }

    /// Lower and upper bounds `[B, H, T, levels, 2]` around forecasts `[B, T, H]`.
    fn bounds(&self, of_series: &OfSeries<'_>, point: Value) -> Result<Value, Error> {
        let g = of_series.g;
        let (batch, targets, horizon) =
            (g.shape(point).dims()[0], g.shape(point).dims()[1], g.shape(point).last());
        let levels = self.intervals.len();
        let half = of_series.entry(HALF)?;
        let half = g.reshape(half, [g.shape(half).dims()[0], targets, levels, horizon])?;
        let point = g.reshape(point, [batch, targets, 1, horizon])?;
        let lowest = g.entry(LOWEST)?;
        let side = |value: Value| -> Result<Value, Error> {
            g.reshape(g.maximum(value, lowest)?, [batch, targets, levels, 1, horizon])
        };
        let both = g.concat(&[side(g.sub(point, half)?)?, side(g.add(point, half)?)?], 3)?;
        g.copy(g.permute(both, &[0, 4, 1, 2, 3])?)
    }

    fn regress(&self, g: &Graph, batch: usize) -> Result<(Vec<Port>, Vec<Port>), Error> {
        let [columns, rows] = [0, 1].map(|axis| self.constants[0].1.dims()[axis]);
        let loss = &self.run.resolved().training.loss;
        let x = g.input("context", DType::F64, [batch, rows, columns]);
        let windows = g.sub(g.permute(x, &[0, 2, 1])?, g.entry(MEAN)?)?;
        let scaled = g.cast(g.div(windows, g.entry(STD)?)?, DType::F32)?;
        let y = self.session.prediction(g, scaled, None)?;
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
        let y = self.session.prediction(g, scaled, None)?;
        let classes = g.shape(y).last();
        let value = g.cast(g.reshape(y, [batch, tokens, classes])?, DType::F64)?;
        let doc = format!("samples of {tokens} tokens with {features} features, in original units");
        let inputs = vec![Port { name: "features", value: x, doc }];
        let doc = format!("how probable each of the {classes} classes is for each token");
        Ok((inputs, vec![Port { name: "probabilities", value, doc }]))
    }
}

/// What a forecaster predicts, scaled.
struct Predicted {
    /// `[B, T, outputs, H]`.
    values: Value,
    outputs: usize,
    /// How many of the outputs, the first ones, are quantiles.
    quantiles: usize,
    /// Parameters of a distribution that has no quantiles here, `[B, T, 2, H]`.
    parameters: Option<Value>,
}

/// Tables of the state with a row for each series.
struct OfSeries<'a> {
    g: &'a Graph,
    /// The number of each context's series; none where there is one.
    series: Option<Value>,
}

impl OfSeries<'_> {
    /// The rows of a table for the series of each context, or the only one for all.
    fn entry(&self, name: &str) -> Result<Value, Error> {
        match (self.series, self.g.entry(name)?) {
            (Some(series), table) => self.g.take(table, 0, series),
            (None, table) => Ok(table),
        }
    }

    /// Columns `[B, C, rows]` scaled by these tables of means and standard deviations, in f32.
    fn scaled(&self, x: Value, (mean, std): (&str, &str)) -> Result<Value, Error> {
        let g = self.g;
        let column = |v: Value| g.reshape(v, [g.shape(v).dims()[0], g.shape(v).last(), 1]);
        let centred = g.sub(x, column(self.entry(mean)?)?)?;
        g.cast(g.div(centred, column(self.entry(std)?)?)?, DType::F32)
    }
}

/// The half widths of intervals of each series `[series, targets·levels·steps]`, infinite of a series with too few errors, and
/// the smallest value of each target.
fn half_widths(run: &Run, widths: &HalfWidths) -> Result<[(&'static str, HostTensor); 2], ExportError> {
    let size = run.targets() * widths.levels().len() * run.resolved().network.horizon();
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for (name, _) in run.scalers() {
        match widths.of(name) {
            Ok(half) => all.extend(half.iter().flatten().flatten()),
            Err(why) => {
                all.extend(std::iter::repeat_n(f64::INFINITY, size));
                refused.push(why);
            }
        }
    }
    if refused.len() == run.scalers().len()
        && let Some(why) = refused.into_iter().next()
    {
        return Err(why.into());
    }
    let series = run.scalers().len();
    let half = HostTensor::new(DType::F64, [series, all.len() / series.max(1)], all).map_err(Error::from)?;
    let lowest = widths.lowest().to_vec();
    let lowest = HostTensor::new(DType::F64, [lowest.len(), 1, 1], lowest).map_err(Error::from)?;
    Ok([(HALF, half), (LOWEST, lowest)])
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
