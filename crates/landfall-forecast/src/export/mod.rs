//! Runs in forms that other programs read.
//!
//! [`onnx`] writes the forecaster of a run as an ONNX model, [`pretrained_onnx`] the pretrained one, [`chronos_onnx`] a pass of a Chronos-2 or
//! Chronos-Bolt. There is no second definition of any model: the graph that Landfall itself would run is built, and each of its ops is
//! written as ONNX operators.

mod chronos;
mod distribution;
mod error;
mod forecaster;
mod onnx;
mod pretrained;

pub use chronos::Pass;
pub use error::ExportError;
pub use onnx::{IR_VERSION, OPSET, OnnxSummary, chronos_onnx, onnx, pretrained_onnx};
