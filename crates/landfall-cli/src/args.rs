//! The command line.

#[cfg(test)]
mod documents;
mod fine_tuning;
pub(crate) mod headings;
mod other_programs;
mod serving;
mod settings;
mod together;
mod values;

pub(crate) use fine_tuning::FineTune;
pub(crate) use other_programs::{Export, Import};
pub(crate) use serving::{Access, Backtest, KeptIntervals, Serve};
use settings::{Given, OfBaseline, OfChannels, OfCompared, OfReading};
pub(crate) use settings::{Setup, Shapes, of_pretrained};
pub(crate) use together::Together;
use values::{On, weights};

use clap::{Args as Group, Parser, Subcommand, ValueEnum};
use landfall_forecast::run::{Device, Settings, Weights, named};
use landfall_train::data::Segment;
use landfall_train::data::generated::Parts;
use std::path::PathBuf;

/// Trains forecasters from a CSV, scores them, and forecasts.
#[derive(Debug, Parser)]
#[command(name = "landfall", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model; without --data, on a generated series.
    Train(Box<Train>),
    /// Train several forecasters on the same data, and order them by their errors: a leaderboard.
    Compare(Box<Compare>),
    /// Score a run, or a baseline, on the test windows.
    Evaluate(Evaluate),
    /// Forecast from several past origins and score against what came (rolling-origin evaluation).
    Backtest(Box<Backtest>),
    /// Forecast the rows after the last one, or after a past one.
    Forecast(Forecast),
    /// Make a run of somebody's PatchTST weights and a CSV, without training; check a folder of a Chronos.
    Import(Box<Import>),
    /// Write a run's forecasts, errors and training curves as one HTML file.
    Report(Report),
    /// Predict the classes of samples.
    Predict(Predict),
    /// Answer forecasts over HTTP.
    Serve(Serve),
    /// Write a run's forecaster as a file that other programs run: ONNX.
    Export(Export),
    /// Print the memory plan of a training step, of patchtst-42 unless --model or --preset is given; needs no data.
    Plan(Box<Plan>),
    /// Find the fastest GPU kernels for a training step (no hyperparameter search); train --tuned uses them.
    Tune(Box<Tune>),
    /// Write simulated series as a CSV, to test forecasters with.
    Simulate(Simulate),
    /// Pretrain the forecaster of unknown series, on simulated ones, by a recipe.
    Pretrain(Pretrain),
    /// Train the weights of a Chronos-2 further on a CSV: all of them, or an adapter (LoRA).
    FineTune(Box<FineTune>),
    /// Show what this machine can compute with: CPU, GPUs, libraries, and what is missing.
    Doctor(Doctor),
    /// Print a completion script for a shell: bash, zsh, fish, elvish or powershell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Group)]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// Train once per seed; print mean and standard deviation.
    #[arg(long, value_name = "N,N", value_delimiter = ',', conflicts_with_all = ["seed", "resume"])]
    pub(crate) seeds: Option<Vec<u64>>,
    /// Use the kernels that landfall tune found; where it has not run, tune now.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) tuned: bool,
    /// Resume this run.
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<PathBuf>,
    /// Run directory [default: a new one in runs/].
    #[arg(long, value_name = "RUN")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) together: Together,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Train {
    /// The settings that its flags give.
    pub(crate) fn settings(&self) -> Settings {
        self.setup.settings().or(self.together.given.settings.clone())
    }
}

#[derive(Debug, Group)]
pub(crate) struct Compare {
    /// Forecasters to compare, two or more: auto (the default recipe), ensemble, its members ets, theta, dynamic-theta, croston, tsb and pretrained,
    /// seasonal-naive, and networks: nlinear, dlinear, patchtst, tsmixer, tide, nbeats, zero-shot (the pretrained one, trained further)
    /// [default: seasonal-naive,ets,dynamic-theta,pretrained,ensemble,nlinear,dlinear,auto; to add networks name all].
    #[arg(long = "candidates", id = "contenders", value_name = "A,B", value_delimiter = ',')]
    pub(crate) candidates: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) given: Given<OfCompared>,
    /// Read settings from this TOML file; flags override it.
    #[arg(long, value_name = "F.toml")]
    pub(crate) config: Option<PathBuf>,
    /// Directory of the comparison, with a run directory for each forecaster [default: a new one in runs/].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with this comparison; what is done stays.
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// Ignore earlier results and tune again.
    #[arg(long)]
    pub(crate) again: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Simulate {
    /// Number of series.
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) count: u64,
    /// Rows of each series.
    #[arg(long, value_name = "N", default_value = "120")]
    pub(crate) length: usize,
    /// Frequency: yearly, quarterly, monthly, weekly, daily, business days, hourly, every 30 min or every 15 min.
    #[arg(long, default_value = "monthly")]
    pub(crate) frequency: String,
    /// Seed of the series.
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
    /// Parts of the simulation: all, those named (trends,seasons), or all but those with a minus (-missing,-outliers).
    #[arg(long, value_name = "P,P", default_value = "all", allow_hyphen_values = true)]
    pub(crate) parts: Parts,
    /// Write a new file instead of to standard output.
    #[arg(long, value_name = "F.csv")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Group)]
pub(crate) struct Pretrain {
    /// Recipe [default: the one that the program carries].
    #[arg(value_name = "RECIPE.toml")]
    pub(crate) recipe: Option<PathBuf>,
    /// Directory of the pretraining; one that is there goes on.
    #[arg(long, value_name = "DIR", default_value = "runs/zero-shot")]
    pub(crate) out: PathBuf,
    /// Steps, in place of the recipe's.
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<usize>,
    /// Seed of initial values, order and crops, in place of the recipe's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Stop after so many seconds, with a checkpoint.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) time_limit: Option<u64>,
    #[command(flatten)]
    pub(crate) on: On,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// With what a run's network is computed, and how the result is told.
#[derive(Debug, Group)]
pub(crate) struct With {
    /// Weights of the run: best or last.
    #[arg(long, value_parser = weights, default_value = "best")]
    pub(crate) weights: Weights,
    #[command(flatten)]
    pub(crate) on: On,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Evaluate {
    /// Run directory, whose own data may be left out.
    pub(crate) run: Option<PathBuf>,
    /// A baseline instead of a run: last-value or seasonal-naive.
    #[arg(long, value_enum)]
    pub(crate) model: Option<Baseline>,
    /// Pretrained weights instead of a run: those of landfall pretrain, a folder of a Chronos, or zero-shot for those of the program.
    #[arg(long, value_name = "WEIGHTS")]
    pub(crate) pretrained: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) given: Given<OfBaseline>,
    /// Windows to score: train, validation or test; those of train are fitted values, which the network was trained on.
    #[arg(long, value_parser = named::<Segment>, default_value = "test")]
    pub(crate) segment: Segment,
    /// Write the forecasts and actual values of all these windows to a new CSV file.
    #[arg(long, value_name = "P.csv")]
    pub(crate) predictions: Option<PathBuf>,
    /// Prediction intervals of these levels in percent, as in 80,95 [default: those of the run, 80 of pretrained weights, otherwise none].
    #[arg(long, value_name = "P,P", value_delimiter = ',', allow_negative_numbers = true)]
    pub(crate) interval: Option<Vec<f64>>,
    #[command(flatten)]
    pub(crate) with: With,
}

/// Baselines: forecasts that need no training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Baseline {
    LastValue,
    SeasonalNaive,
}

#[derive(Debug, Group)]
pub(crate) struct Forecast {
    /// Run directory, whose own data may be left out. Without one the pretrained forecaster continues --data by --horizon rows.
    pub(crate) run: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) given: Given<OfReading>,
    /// Weights of landfall pretrain, or a folder with those of a Chronos-2 or Chronos-Bolt, for a forecast without a run [default: those of the program].
    #[arg(long, value_name = "WEIGHTS")]
    pub(crate) pretrained: Option<PathBuf>,
    /// Forecast from a past row, the last one that is known: a date, or a row number (from 0) of data without dates
    /// [default: the last row].
    #[arg(long, value_name = "DATE")]
    pub(crate) at: Option<String>,
    /// CSV with the values of the columns known in advance (--known-future), a row for each row to forecast. Repeat where
    /// each series has a file.
    #[arg(long, value_name = "F.csv")]
    pub(crate) future: Vec<PathBuf>,
    /// Write a CSV here instead of to standard output.
    #[arg(long, value_name = "F.csv")]
    pub(crate) out: Option<PathBuf>,
    /// Prediction intervals of these levels in percent, as in 80,95 [default: those of the run; 80 without a run].
    #[arg(long, value_name = "P,P", value_delimiter = ',', allow_negative_numbers = true)]
    pub(crate) interval: Option<Vec<f64>>,
    /// No prediction intervals, whatever the run has.
    #[arg(long, conflicts_with = "interval")]
    pub(crate) no_interval: bool,
    /// Draw the forecast of the first series and column in the terminal instead of printing a CSV.
    #[arg(long, conflicts_with = "json")]
    pub(crate) plot: bool,
    #[command(flatten)]
    pub(crate) with: With,
}

#[derive(Debug, Group)]
pub(crate) struct Report {
    /// Run directory.
    pub(crate) run: PathBuf,
    /// Write the report here, a new file [default: report.html in the run's folder].
    #[arg(long, value_name = "FILE.html")]
    pub(crate) out: Option<PathBuf>,
    /// Write a forecast of a test window as a picture too, a new file.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
    /// CSV to report on; the run's own if left out. Again for more series.
    #[arg(long, value_name = "F.csv")]
    pub(crate) data: Vec<PathBuf>,
    /// Fill missing values: previous, linear or zero.
    #[arg(long)]
    pub(crate) fill: Option<String>,
    /// Prediction intervals of these levels in percent, as in 80,95 [default: those of the run, otherwise none].
    #[arg(long, value_name = "P,P", value_delimiter = ',', allow_negative_numbers = true)]
    pub(crate) interval: Option<Vec<f64>>,
    #[command(flatten)]
    pub(crate) with: With,
}

#[derive(Debug, Group)]
pub(crate) struct Predict {
    /// Run directory.
    pub(crate) run: PathBuf,
    /// CSV of samples with the run's tokens and features; labels in it are ignored.
    #[arg(long, value_name = "F.csv")]
    pub(crate) data: PathBuf,
    /// Write a CSV here instead of to standard output.
    #[arg(long, value_name = "F.csv")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) with: With,
}

#[derive(Debug, Group)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) shapes: Shapes,
    #[command(flatten)]
    pub(crate) channels: Given<OfChannels>,
    /// Device to plan for: auto, cpu, cuda or cuda:N (must be present), or null for what no device changes
    /// [default: null].
    #[arg(long, value_parser = named::<Device>, default_value = "null", hide_default_value = true)]
    pub(crate) device: Device,
    /// List every value, not only those live at the peak.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Doctor {
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
