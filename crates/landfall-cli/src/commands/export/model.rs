//! A run's forecaster as an ONNX model.

use crate::error::CliError;
use crate::output;
use landfall_train::export::{IR_VERSION, OPSET, onnx};
use landfall_train::run::{Precision, Run, Weights};
use serde_json::json;
use std::path::Path;

/// Writes the file and says what is in it.
pub(super) fn model(run: Run, weights: Weights, out: &Path, in_json: bool) -> Result<(), CliError> {
    let dtype = run.resolved().settings.dtype.unwrap_or(Precision::F32);
    let written = onnx(run, weights, out)?;
    if dtype != Precision::F32 {
        let name = dtype.name();
        output::note(&format!(
            "note: the run computes in {name}, the ONNX model in f32; forecasts differ by the rounding of {name}"
        ));
    }
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
