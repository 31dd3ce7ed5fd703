//! Arguments of the commands that exchange weights with other programs.

use super::serving::KeptIntervals;
use super::settings::{Given, OfImport};
use super::values::{On, weights};
use clap::Args as Group;
use landfall_forecast::run::{NetworkOptions, Settings, Weights};
use std::path::PathBuf;

#[derive(Debug, Group)]
pub(crate) struct Import {
    /// A directory of Hugging Face transformers (PatchTSTForPrediction), a checkpoint of the official PatchTST or of a run (.pth or
    /// .safetensors), or a folder of a Chronos, which is checked and needs no run.
    pub(crate) weights: PathBuf,
    /// Run directory [default: a new one in runs/]; of a Chronos-2 a folder for a copy [default: none].
    #[arg(long, value_name = "RUN")]
    pub(crate) out: Option<PathBuf>,
    /// Rows from the start of one patch to the next, where the weights do not say it [default: half a patch].
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// Read settings from this TOML file; flags override it. Its [network] has what the weights do not say.
    #[arg(long, value_name = "F.toml")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    given: Given<OfImport>,
    #[command(flatten)]
    on: On,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Import {
    /// The first argument that only a run has a use for.
    pub(crate) fn of_runs(&self) -> Option<String> {
        let data = self.given.settings.data.as_ref().map(|_| "--data".to_owned());
        data.or_else(|| self.given.own()).or_else(|| self.stride.map(|_| "--stride".to_owned()))
    }

    pub(crate) fn settings(&self) -> Settings {
        let network = self.stride.map(|stride| {
            let mut network = NetworkOptions::default();
            network.set("stride", stride);
            network
        });
        let given = self.given.settings.clone();
        let (device, threads) = (Some(self.on.device), self.on.threads);
        Settings { init: Some(self.weights.clone()), network, device, threads, ..given }
    }
}

#[derive(Debug, Group)]
pub(crate) struct Export {
    /// Run directory. Without one the pretrained forecaster is written, as an ONNX model.
    pub(crate) run: Option<PathBuf>,
    /// Weights of landfall pretrain, without a run [default: those of the program].
    #[arg(long, value_name = "W.safetensors", conflicts_with = "run", requires = "onnx")]
    pub(crate) pretrained: Option<PathBuf>,
    /// Weights of the run: best or last.
    #[arg(long, value_parser = weights, default_value = "best")]
    pub(crate) weights: Weights,
    /// Write the whole forecaster as a new ONNX model: from values in original units to forecasts in original units.
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) onnx: Option<PathBuf>,
    /// Print one JSON object about the ONNX model.
    #[arg(long, requires = "onnx")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) intervals: KeptIntervals,
    /// Write a new checkpoint of the official PatchTST: a state dict of torch, or safetensors by its name.
    #[arg(long, value_name = "FILE.pth")]
    pub(crate) official: Option<PathBuf>,
    /// Write a new directory that PatchTSTForPrediction of Hugging Face transformers reads.
    #[arg(long, value_name = "DIR")]
    pub(crate) hugging_face: Option<PathBuf>,
}
