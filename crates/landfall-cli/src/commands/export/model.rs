//! A run's forecaster as an ONNX model.

use crate::args::KeptIntervals;
use crate::commands::kept_intervals::interval_errors;
use crate::error::CliError;
use crate::output;
use landfall::Engine;
use landfall_forecast::export::{IR_VERSION, OPSET, OnnxSummary, onnx};
use landfall_forecast::run::{Precision, Run, RunError, Weights};
use landfall_train::models::Predicts;
use landfall_train::nn::Family;
use landfall_train::train::Loss;
use serde_json::json;
use std::path::Path;

/// Writes the file and says what is in it.
pub(super) fn model(
    run: Run,
    weights: Weights,
    intervals: &KeptIntervals,
    (out, in_json): (&Path, bool),
) -> Result<(), CliError> {
    let dtype = run.resolved().settings.dtype.unwrap_or(Precision::F32);
    let counts = matches!(run.resolved().training.loss, Loss::Distribution(Family::NegativeBinomial, _));
    let widths = match run.resolved().network.predicts() {
        Predicts::Rows(_) => interval_errors(&run, intervals)?,
        Predicts::Value | Predicts::Classes(_) => None,
    };
    let of = |(levels, panel): (Vec<f64>, _)| -> Result<_, RunError> {
        run.half_widths(&Engine::cpu()?, weights, (panel, None), &levels)
    };
    let widths = widths.map(of).transpose()?;
    let written = onnx(run, weights, widths.as_ref(), out)?;
    if counts {
        output::note(
            "note: the quantiles of a negative binomial distribution have no ONNX form: the output parameters has its mean m and \
             shape r, and scipy.stats.nbinom(r, r / (r + m)).ppf(level) is a quantile",
        );
    }
    if dtype != Precision::F32 {
        let name = dtype.name();
        output::note(&format!(
            "note: the run computes in {name}, the ONNX model in f32; forecasts differ by the rounding of {name}"
        ));
    }
    say(&written, (out, in_json))
}

/// Says what is in the file.
pub(super) fn say(written: &OnnxSummary, (out, in_json): (&Path, bool)) -> Result<(), CliError> {
    if in_json {
        let properties: serde_json::Map<_, _> =
            written.properties.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        return output::json(&json!({
            "out": out,
            "inputs": written.inputs,
            "outputs": written.outputs,
            "nodes": written.nodes,
            "bytes": written.bytes,
            "opset": OPSET,
            "ir_version": IR_VERSION,
            "properties": properties,
        }));
    }
    let line = |kind: &str, all: &[String]| format!("{kind} {}", all.join(", "));
    output::line(&format!(
        "{} has {} nodes of ONNX opset {OPSET} and {:.1} MB\n{}\n{}",
        out.display(),
        written.nodes,
        written.bytes as f64 / 1e6,
        line("input ", &written.inputs),
        line("output", &written.outputs)
    ))
}
