//! Arguments of the command that trains pretrained weights further.

use super::settings::{Given, OfFineTuning};
use super::values::On;
use clap::Args as Group;
use landfall_forecast::chronos::FineTuningOptions;
use landfall_forecast::run::Settings;
use landfall_forecast::without_run::{INTERVAL, NewTuning};
use landfall_train::nn::LowRank;
use std::path::PathBuf;

#[derive(Debug, Group)]
pub(crate) struct FineTune {
    /// Folder with the weights of a Chronos-2: config.json and model.safetensors.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) pretrained: PathBuf,
    /// Folder of the new weights, which --pretrained takes; the same command goes on with a training there.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) given: Given<OfFineTuning>,
    #[command(flatten)]
    on: On,
    /// Steps.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) steps: usize,
    /// Series of a batch, covariates too.
    #[arg(long, value_name = "B", default_value_t = 256)]
    batch: usize,
    /// Steps from one validation and checkpoint to the next.
    #[arg(long, value_name = "N", default_value_t = 100)]
    every: usize,
    /// Rows that a window of training has before those that it forecasts, at least [default: the horizon].
    #[arg(long, value_name = "N")]
    shortest: Option<usize>,
    /// Train an adapter (LoRA) in place of all weights; it is merged into the new weights, and lies beside them in adapter/.
    #[arg(long)]
    adapter: bool,
    /// Rank of the adapter [default: 8].
    #[arg(long, value_name = "N", requires = "adapter")]
    rank: Option<usize>,
    /// Factor of the adapter: what it adds is alpha/rank of its product [default: twice the rank].
    #[arg(long, value_name = "X", requires = "adapter")]
    alpha: Option<f64>,
    /// Levels of the prediction intervals that are scored on the test windows, in percent [default: 80].
    #[arg(long, value_name = "P,P", value_delimiter = ',', allow_negative_numbers = true)]
    interval: Option<Vec<f64>>,
    /// Do not score the test windows.
    #[arg(long, conflicts_with = "interval")]
    pub(crate) no_test: bool,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl FineTune {
    /// The training that it asks for, of this horizon.
    pub(crate) fn asked(&self, horizon: usize) -> NewTuning {
        let (s, usual) = (&self.given.settings, FineTuningOptions::new(horizon));
        let low_rank = || {
            let usual = FineTuningOptions::low_rank();
            let rank = self.rank.unwrap_or(usual.rank);
            LowRank { rank, alpha: self.alpha.unwrap_or(2.0 * rank as f64), ..usual }
        };
        let options = FineTuningOptions {
            context: s.context,
            shortest: self.shortest,
            steps: self.steps,
            batch: self.batch,
            lr: s.lr,
            weight_decay: s.weight_decay.unwrap_or(usual.weight_decay),
            clip: s.clip.map_or(usual.clip, |clip| Some(clip).filter(|clip| *clip > 0.0)),
            every: self.every,
            dtype: s.dtype.unwrap_or(usual.dtype),
            seed: s.seed.unwrap_or(usual.seed),
            adapter: self.adapter.then(low_rank),
            ..usual
        };
        let (device, threads) = (Some(self.on.device), self.on.threads);
        let settings = Settings { device, threads, ..s.clone() };
        NewTuning { settings, weights: self.pretrained.clone(), options, out: self.out.clone() }
    }

    /// Levels of the intervals, in percent.
    pub(crate) fn intervals(&self) -> Vec<f64> {
        self.interval.clone().unwrap_or_else(|| vec![INTERVAL])
    }
}
