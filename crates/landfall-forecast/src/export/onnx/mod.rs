//! A run's forecaster as an ONNX model.

mod level;
mod lower;
mod ops;
mod pointwise;
mod proto;
mod writer;

use self::level::{BATCHES, Level, Pair};
use self::lower::Lowering;
use self::proto::{Model, OperatorSet, Property};
use self::writer::{Writer, value_info};
use super::chronos::{Chronos, Pass};
use super::error::ExportError;
use super::forecaster::{Built, Forecasting, Port};
use super::pretrained::Pretrained;
use crate::chronos;
use crate::files::create;
use crate::models::Predicts;
use crate::nn::Family;
use crate::run::{Data, HalfWidths, Run, Weights};
use crate::train::Loss;
use crate::zero_shot;
use landfall::{Error, HostTensor};
use prost::Message;
use std::path::Path;
use std::rc::Rc;

/// The version of ONNX's operators that a model is written in.
pub const OPSET: i64 = 18;

/// The version of ONNX's file format that a model is written in.
pub const IR_VERSION: i64 = 8;

/// The most bytes of a file of protocol buffers.
const LIMIT: usize = (1 << 31) - 1;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnnxSummary {
    /// Inputs: name, dtype and sizes, such as `context double[batch, 336, 7]`.
    pub inputs: Vec<String>,
    /// Outputs, in the same form.
    pub outputs: Vec<String>,
    /// Number of nodes.
    pub nodes: usize,
    /// Size of the file in bytes.
    pub bytes: usize,
    /// The metadata properties, by name.
    pub properties: Vec<(String, String)>,
}

/// Writes the forecaster of a run as one ONNX model to a new file.
///
/// Input `context` (double) `[batch, rows, columns]` holds the last rows of a series in original units, columns in the order of the
/// metadata property `columns`; a run of several series has the input `series` (int64) `[batch]` too, which says whose scaler
/// each context takes. Where the forecaster reads columns known in advance, `future` (double) `[batch, horizon, columns]` holds those of
/// the property `future` in the rows to forecast, and `static` (double) `[batch, columns]` those with one value for each series. Output
/// `forecast` (double) `[batch, horizon, targets]` is in original units, `quantiles` `[batch, horizon, targets, levels]` beside it where
/// the run has levels, and `intervals` `[batch, horizon, targets, levels, 2]` where `widths` are given; a negative binomial
/// distribution has `parameters` `[batch, horizon, targets, 2]`, mean and shape, instead of quantiles. A window-regressor has the output
/// `prediction` `[batch, 1]`; a CrossAsset the input `features` `[batch, tokens, features]` and the output `probabilities` `[batch,
/// tokens, classes]`. Values are scaled in double precision and forecast in single precision, whatever dtype the run computes in.
///
/// ```no_run
/// use landfall_forecast::export;
/// use landfall_forecast::run::{Run, Weights};
/// let run = Run::open("runs/sales".as_ref())?;
/// let written = export::onnx(run, Weights::Best, None, "sales.onnx".as_ref())?;
/// println!("{} nodes, {} bytes", written.nodes, written.bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExportError::Exists`]; [`ExportError::NoForm`] names an op that ONNX has no form of; [`ExportError::TooLarge`]; as [`Run::predictor`].
pub fn onnx(
    run: Run,
    weights: Weights,
    widths: Option<&HalfWidths>,
    path: &Path,
) -> Result<OnnxSummary, ExportError> {
    if path.exists() {
        return Err(ExportError::Exists(path.to_owned()));
    }
    expressible(&run)?;
    let forecasting = Forecasting::open(run, weights, widths)?;
    write(
        &Written {
            graph: &|batch| forecasting.graph(batch),
            entries: forecasting.entries(),
            value: &|entry| Ok(forecasting.value(entry)?),
            properties: properties(&forecasting),
        },
        path,
    )
}

/// Writes the pretrained forecaster as one ONNX model to a new file.
///
/// Input `context` (double) `[batch, rows]` holds the last rows of a series in original units, the last one last; rows before the first
/// known one, and those whose value is missing, hold NaN. At least one is known. Outputs `forecast` (double) `[batch, horizon]`, the medians, and
/// `quantiles` `[batch, horizon, levels]`, in original units. More rows than the horizon are had by taking the medians into the context.
///
/// # Errors
/// As [`onnx`].
pub fn pretrained_onnx(weights: &zero_shot::Weights, path: &Path) -> Result<OnnxSummary, ExportError> {
    if path.exists() {
        return Err(ExportError::Exists(path.to_owned()));
    }
    let pretrained = Pretrained::new(weights)?;
    write(
        &Written {
            graph: &|batch| pretrained.graph(batch),
            entries: pretrained.entries(),
            value: &|entry| Ok(pretrained.value(entry)?),
            properties: pretrained.properties(),
        },
        path,
    )
}

/// Writes a pass of a Chronos-2 or Chronos-Bolt as one ONNX model to a new file: of any number of groups of series.
///
/// Input `context` (double) `[batch, rows]` holds the last rows of a series in original units, the last one last; rows before the first
/// known one, and those whose value is missing, hold NaN. Output `quantiles` (double) `[batch, horizon, levels]` is in original units, as
/// [`Forecaster::forecast`](chronos::Forecaster::forecast) has it. With several members these have a further axis behind the batch, and input
/// `future` (double) `[batch, members, horizon]` holds the rows to forecast of covariates that are known in advance; those of the others,
/// and of the series to forecast, hold NaN. A series whose rows all hold NaN is not seen by the others.
///
/// ```no_run
/// use landfall_forecast::{chronos::Weights, export};
/// let weights = Weights::read("chronos-2".as_ref())?;
/// let sizes = export::Pass { rows: 512, horizon: 64, members: 1 };
/// let written = export::chronos_onnx(&weights, sizes, "chronos-2.onnx".as_ref())?;
/// assert_eq!(written.inputs, ["context double[batch, 512]"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`onnx`]; rows or groups that the model does not read, or rows that it does not forecast in one pass.
pub fn chronos_onnx(
    weights: &chronos::Weights,
    sizes: Pass,
    path: &Path,
) -> Result<OnnxSummary, ExportError> {
    if path.exists() {
        return Err(ExportError::Exists(path.to_owned()));
    }
    let pass = Chronos::new(weights, sizes)?;
    write(
        &Written {
            graph: &|batch| pass.graph(batch),
            entries: pass.entries(),
            value: &|entry| pass.value(entry),
            properties: pass.properties(),
        },
        path,
    )
}

/// What a model is written of.
struct Written<'a> {
    /// The graph for windows of this number at once.
    graph: &'a dyn Fn(usize) -> Result<Built, Error>,
    /// The names of the entries of its state, and the value of each.
    entries: Vec<String>,
    value: &'a dyn Fn(&str) -> Result<HostTensor, ExportError>,
    /// What a user has to know of it.
    properties: Vec<(String, String)>,
}

fn write(written: &Written<'_>, path: &Path) -> Result<OnnxSummary, ExportError> {
    let (model, summary) = model(written)?;
    if summary.bytes > LIMIT {
        return Err(ExportError::TooLarge { bytes: summary.bytes, limit: LIMIT });
    }
    create(path, &model.encode_to_vec()).map_err(|why| ExportError::Write { path: path.to_owned(), why })?;
    Ok(summary)
}

/// The model of a forecaster.
fn model(forecasting: &Written<'_>) -> Result<(Model, OnnxSummary), ExportError> {
    let [first, second] = [(forecasting.graph)(BATCHES[0])?, (forecasting.graph)(BATCHES[1])?];
    let both = |a: &[Port], b: &[Port]| -> Vec<(&'static str, String, Pair)> {
        a.iter().zip(b).map(|(a, b)| (a.name, a.doc.clone(), [a.value, b.value])).collect()
    };
    let (inputs, outputs) = (both(&first.inputs, &second.inputs), both(&first.outputs, &second.outputs));
    let graphs = [first, second].map(|Built { graph, .. }| Rc::new(graph));
    let mut w = Writer::new("landfall", inputs.first().map_or("context", |(name, ..)| name));
    // The names that a user sees are not to be had by values inside.
    for (name, ..) in inputs.iter().chain(&outputs) {
        w.fresh(name);
    }
    let leaves = inputs.iter().map(|(name, _, pair)| (pair[0], (*name).to_owned()));
    let mut level = Level::new(graphs, leaves, &forecasting.entries)?;
    let mut lowering = Lowering { w, weights: forecasting.value };
    for (name, _, pair) in &outputs {
        let value = lowering.value(&mut level, *pair)?;
        lowering.w.node_into("Identity", &[&value], Vec::new(), vec![(*name).to_owned()]);
    }
    let mut graph = lowering.w.graph;
    let mut texts = [Vec::new(), Vec::new()];
    for (side, ports) in [&inputs, &outputs].into_iter().enumerate() {
        for (name, doc, pair) in ports {
            let (dtype, dims) = (level.dtype(*pair), level.dims(*pair)?);
            let info = value_info(name, dtype, &dims, doc);
            texts[side].push(writer::describe(name, dtype, &dims));
            if side == 0 { graph.input.push(info) } else { graph.output.push(info) }
        }
    }
    let properties = forecasting.properties.clone();
    let nodes = graph.node.len();
    let model = Model {
        ir_version: IR_VERSION,
        producer_name: "landfall".to_owned(),
        producer_version: env!("CARGO_PKG_VERSION").to_owned(),
        doc_string: "A forecaster of Landfall: values in original units in, forecasts in original units out."
            .to_owned(),
        graph: Some(graph),
        opset_import: vec![OperatorSet { domain: String::new(), version: OPSET }],
        metadata_props: properties
            .iter()
            .map(|(key, value)| Property { key: key.clone(), value: value.clone() })
            .collect(),
    };
    let bytes = model.encoded_len();
    let [inputs, outputs] = texts;
    Ok((model, OnnxSummary { inputs, outputs, nodes, bytes, properties }))
}

/// What a user has to know of the model: lists are JSON.
fn properties(forecasting: &Forecasting) -> Vec<(String, String)> {
    let run = &forecasting.run;
    let resolved = run.resolved();
    let json = |value: serde_json::Value| value.to_string();
    let names = |places: &[usize]| -> Vec<String> {
        places.iter().filter_map(|&place| run.columns().get(place).cloned()).collect()
    };
    let mut all = vec![("landfall", env!("CARGO_PKG_VERSION").to_owned())];
    match resolved.network.predicts() {
        Predicts::Rows(_) => {
            all.extend([
                ("columns", json(names(&forecasting.columns.context).into())),
                ("targets", json(run.columns().get(..run.targets()).unwrap_or_default().into())),
                ("context", forecasting.rows().to_string()),
                ("horizon", resolved.network.horizon().to_string()),
                ("quantiles", json(run.levels().into())),
            ]);
            for (key, places) in
                [("future", &forecasting.columns.ahead), ("static", &forecasting.columns.fixed)]
            {
                if !places.is_empty() {
                    all.push((key, json(names(places).into())));
                }
            }
            if !forecasting.intervals.is_empty() {
                all.push(("intervals", json(forecasting.intervals.clone().into())));
            }
            let network = resolved.settings.model.map(|model| model.name().to_owned());
            all.extend(run.forecaster().map(|f| f.name()).or(network).map(|name| ("forecaster", name)));
            if forecasting.several() {
                let names: Vec<&str> = run.scalers().iter().map(|(name, _)| name.as_str()).collect();
                all.push(("series", json(names.into())));
            }
            // Known while the data of the run can be read.
            if let Ok(Data::Series(panel)) = run.load(&[], None)
                && let Some(frequency) = panel.frequency()
            {
                all.push(("frequency", frequency.to_string()));
            }
        }
        Predicts::Value => all.push(("context", resolved.network.context().to_string())),
        Predicts::Classes(_) => {
            if let Some(names) = &resolved.settings.names {
                all.extend([
                    ("tokens", json(names.tokens.clone().into())),
                    ("features", json(names.features.clone().into())),
                    ("classes", json(names.classes.clone().into())),
                ]);
            }
        }
    }
    all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Refuses what no output of a model can say.
fn expressible(run: &Run) -> Result<(), ExportError> {
    let counts = matches!(run.resolved().training.loss, Loss::Distribution(Family::NegativeBinomial, _));
    if let Some(member) = run.forecaster().filter(|f| f.share == 0.0).and_then(|f| f.member) {
        return Err(ExportError::Member { path: run.path().to_owned(), member: member.name() });
    }
    if run.forecaster().is_some_and(|f| f.ensemble) {
        return Err(ExportError::Ensemble { path: run.path().to_owned() });
    }
    if counts && run.forecaster().is_some_and(|f| f.share != 1.0) {
        return Err(ExportError::Averaged { path: run.path().to_owned() });
    }
    Ok(())
}
