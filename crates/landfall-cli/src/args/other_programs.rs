//! Arguments of the commands that exchange weights with other programs.

use super::serving::KeptIntervals;
use super::values::weights;
use clap::Args as Group;
use landfall_forecast::run::{Device, NetworkOptions, OneOrMore, Settings, Weights};
use std::path::PathBuf;

#[derive(Debug, Group)]
pub(crate) struct Import {
    /// A directory of Hugging Face transformers (PatchTSTForPrediction), or a checkpoint of the official PatchTST or of a
    /// run: .pth or .safetensors.
    pub(crate) weights: PathBuf,
    /// CSV with a header and one row per time step, or per time step and series. Repeat for more series.
    #[arg(long, value_name = "F.csv", required = true)]
    data: Vec<PathBuf>,
    /// Run directory [default: a new one in runs/].
    #[arg(long, value_name = "RUN")]
    pub(crate) out: Option<PathBuf>,
    /// Lookback window, where the weights do not say it.
    #[arg(long, value_name = "L")]
    context: Option<usize>,
    /// Rows from the start of one patch to the next, where the weights do not say it [default: half a patch].
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// Read settings from this TOML file; flags override it. Its [network] has what the weights do not say.
    #[arg(long, value_name = "F.toml")]
    pub(crate) config: Option<PathBuf>,
    /// Columns to use, in this order [default: all numeric columns].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Columns to forecast; the others are inputs only [default: all].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    target: Option<Vec<String>>,
    /// Column that names the series of each row, or columns [default: detected where a date has several rows].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    series_id: Option<Vec<String>>,
    /// Fill missing values: previous, linear or zero [default: linear].
    #[arg(long)]
    fill: Option<String>,
    /// Shares of training, validation and test rows, or ett: the training rows scale, the test rows score
    /// [default: 0.7,0.1,0.2].
    #[arg(long)]
    split: Option<String>,
    /// Device: auto (first usable GPU, otherwise the CPU), cpu, cuda or cuda:N.
    #[arg(long, value_parser = Device::computing, default_value = "auto")]
    device: Device,
    /// CPU threads.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Import {
    pub(crate) fn settings(&self) -> Settings {
        let network = self.stride.map(|stride| {
            let mut network = NetworkOptions::default();
            network.set("stride", stride);
            network
        });
        Settings {
            init: Some(self.weights.clone()),
            data: Some(OneOrMore(self.data.clone())),
            context: self.context,
            network,
            columns: self.columns.clone(),
            target: self.target.clone(),
            series_id: self.series_id.clone().map(OneOrMore),
            fill: self.fill.clone(),
            split: self.split.clone(),
            device: Some(self.device),
            threads: self.threads,
            ..Settings::default()
        }
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
