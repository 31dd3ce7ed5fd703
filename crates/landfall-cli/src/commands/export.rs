//! `landfall export`: a run's forecaster as a file for other programs.

use crate::args::Export as Args;
use crate::error::CliError;
use crate::output;
use landfall_train::export::{IR_VERSION, OPSET, onnx};
use landfall_train::run::{Precision, Run};
use serde_json::json;

/// Writes the file and says what is in it.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let run = Run::open(&args.run)?;
    let dtype = run.resolved().settings.dtype.unwrap_or(Precision::F32);
    let written = onnx(run, args.weights, &args.onnx)?;
    if dtype != Precision::F32 {
        let name = dtype.name();
        output::note(&format!(
            "note: the run computes in {name}, the ONNX model in f32; forecasts differ by the rounding of {name}"
        ));
    }
    if args.json {
        let properties: serde_json::Map<_, _> =
            written.properties.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        return output::json(&json!({
            "out": args.onnx,
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
        args.onnx.display(),
        written.nodes,
        written.bytes as f64 / 1e6,
        line("input ", &written.inputs),
        line("output", &written.outputs)
    ))
}
