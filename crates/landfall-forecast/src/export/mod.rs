//! Runs in forms that other programs read.
//!
//! [`onnx`] writes the forecaster of a run as an ONNX model, [`pretrained_onnx`] the pretrained one. There is no second definition of any model: the graph that
//! Landfall itself would run is built, and each of its ops is written as ONNX operators.

mod distribution;
mod error;
mod forecaster;
mod onnx;
mod pretrained;

pub use error::ExportError;
pub use onnx::{IR_VERSION, OPSET, OnnxSummary, onnx, pretrained_onnx};
