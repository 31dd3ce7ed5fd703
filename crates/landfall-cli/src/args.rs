//! The command line.

mod covariates;
mod headings;
mod other_programs;
mod reading;
mod serving;
mod together;

pub(crate) use covariates::CovariateArgs;
pub(crate) use headings::{command, parse};
pub(crate) use other_programs::{Export, Import};
pub(crate) use reading::ReadingArgs;
pub(crate) use serving::{Access, Backtest, KeptIntervals, Serve};
pub(crate) use together::Together;

use crate::backtesting::Refit;
use clap::{Args as Group, Parser, Subcommand, ValueEnum};
use landfall_forecast::run::{
    Device, NetworkOptions, OneOrMore, Precision, Settings, Synthetic, Weights, named,
};
use landfall_train::data::Segment;
use landfall_train::models::ModelKind;
use landfall_train::train::{Draws, OptimizerKind, Order, Schedule};
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
    /// Score a run, or a baseline, on the test windows.
    Evaluate(Evaluate),
    /// Forecast from several past origins and score against what came (rolling-origin evaluation).
    Backtest(Box<Backtest>),
    /// Forecast the rows after the last one, or after a past one.
    Forecast(Forecast),
    /// Make a run of somebody's PatchTST weights and a CSV, without training.
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
    Plan(Plan),
    /// Find the fastest GPU kernels for a training step (no hyperparameter search); train --tuned uses them.
    Tune(Box<Tune>),
    /// Show what this machine can compute with: CPU, GPUs, libraries, and what is missing.
    Doctor(Doctor),
    /// Print a completion script for a shell: bash, zsh, fish, elvish or powershell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// What decides the shapes of a step.
#[derive(Debug, Group)]
pub(crate) struct Shapes {
    /// Kind of model: patchtst, dlinear or nlinear (the default recipe chooses among them), tide, tsmixer, window-regressor
    /// or cross-asset.
    #[arg(long, value_parser = named::<ModelKind>)]
    pub(crate) model: Option<ModelKind>,
    /// Recipe: auto (sizes from the data, forecaster chosen by validation; the default but for plan), or a paper's: patchtst-42,
    /// patchtst-64, patchtst-wide, patchtst-deep, window-regressor, dlinear, dlinear-etth2, tide, tide-etth2, tsmixer,
    /// tsmixer-etth2 or cross-asset.
    #[arg(long)]
    pub(crate) preset: Option<String>,
    /// Lookback window: rows that a forecast is made from.
    #[arg(long, value_name = "L")]
    pub(crate) context: Option<usize>,
    /// Rows to forecast.
    #[arg(long, value_name = "H")]
    pub(crate) horizon: Option<usize>,
    /// Patch length in rows (patchtst).
    #[arg(long, value_name = "N")]
    pub(crate) patch: Option<usize>,
    /// Rows from the start of one patch to the next (patchtst).
    #[arg(long, value_name = "N")]
    pub(crate) stride: Option<usize>,
    /// Batch size in windows.
    #[arg(long, value_name = "B")]
    pub(crate) batch: Option<usize>,
    /// Gradient accumulation: split each batch into N micro-batches, which needs the memory of one [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) accumulate: Option<usize>,
    /// Number of columns of generated data or of the plan.
    #[arg(long, value_name = "N")]
    pub(crate) channels: Option<usize>,
    /// Dropout rate.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) dropout: Option<f64>,
    /// Precision: f32, f64, tf32 (GPU only), bf16 or f16. The last two keep weights, norms and losses in f32.
    #[arg(long, value_parser = named::<Precision>)]
    pub(crate) dtype: Option<Precision>,
    /// Clip the global gradient norm to X; 0 for no clipping.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) clip: Option<f64>,
    /// Read settings from this TOML file; flags override it.
    #[arg(long, value_name = "F.toml")]
    pub(crate) config: Option<PathBuf>,
}

/// What a run is: data, model, recipe, device.
#[derive(Debug, Group)]
pub(crate) struct Setup {
    /// CSV with a header and one row per time step, or per time step and series. Repeat for more series.
    #[arg(long, value_name = "F.csv")]
    pub(crate) data: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Columns to use, in this order [default: all numeric columns].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Columns to forecast; the others are inputs only [default: all].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    target: Option<Vec<String>>,
    /// Fill missing values: previous, linear or zero [default: linear; up to a third of skipped dates are inserted].
    #[arg(long)]
    fill: Option<String>,
    /// Insert a row for every skipped date, filled as --fill says.
    #[arg(long)]
    fill_gaps: bool,
    #[command(flatten)]
    covariates: CovariateArgs,
    /// Generate data: demo (a series), walk (labelled windows) or assets (samples of tokens with classes).
    #[arg(long, value_parser = named::<Synthetic>)]
    synthetic: Option<Synthetic>,
    /// Number of generated rows, windows or samples.
    #[arg(long, value_name = "N")]
    samples: Option<usize>,
    #[command(flatten)]
    pub(crate) shapes: Shapes,
    /// Shares of training, validation and test rows, or ett [default: 0.7,0.1,0.2].
    #[arg(long)]
    split: Option<String>,
    /// Seasonal period in rows [default: from the dates and the data].
    #[arg(long, value_name = "N")]
    period: Option<usize>,
    /// Number of epochs.
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Stop after N optimizer steps.
    #[arg(long, value_name = "N")]
    max_steps: Option<usize>,
    /// Learning rate.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    lr: Option<f64>,
    /// Learning rate schedule: constant, official, cosine, one-cycle or halving.
    #[arg(long, value_parser = named::<Schedule>)]
    schedule: Option<Schedule>,
    /// Optimizer: adam, adamw, sgd or lion.
    #[arg(long, value_parser = named::<OptimizerKind>)]
    optimizer: Option<OptimizerKind>,
    /// Decay rates of the optimizer's two moments; with sgd the first is the momentum.
    #[arg(long, value_name = "B1,B2", value_parser = betas, allow_negative_numbers = true)]
    betas: Option<Pair>,
    /// Weight decay of matrices [default: 0; 0.01 with --optimizer adamw or lion].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    weight_decay: Option<f64>,
    /// Loss: mse, mae or huber [default: mse]; normal, student-t or negative-binomial (counts) to predict a distribution;
    /// cross-entropy for classes.
    #[arg(long)]
    loss: Option<String>,
    /// Huber loss: largest error that is squared [default: 1].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    huber_delta: Option<f64>,
    /// Forecast these quantiles: of the distribution [default: 0.1,0.5,0.9], or with the quantile loss (0.5 must be one).
    #[arg(long, value_name = "Q,Q", value_delimiter = ',', allow_negative_numbers = true)]
    quantiles: Option<Vec<f64>>,
    /// Prediction intervals of these levels in percent, as in 80,95: of the test windows, and of every later forecast.
    #[arg(long, value_name = "P,P", value_delimiter = ',', allow_negative_numbers = true)]
    interval: Option<Vec<f64>>,
    /// Stop after N epochs without improvement of the validation error; 0 for never.
    #[arg(long, value_name = "N")]
    patience: Option<usize>,
    /// Device: auto (first usable GPU, otherwise the CPU), cpu, cuda, cuda:N, or null (a dry run that computes nothing)
    /// [default: auto].
    #[arg(long, value_parser = named::<Device>)]
    device: Option<Device>,
    /// CPU threads; results do not depend on them.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Seed of generated data, initial weights, shuffling and dropout.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Order of the training windows: shuffle or sequential.
    #[arg(long, value_parser = named::<Order>)]
    order: Option<Order>,
    /// Random generator: philox, or pytorch (matches torch.manual_seed) [default: the preset's, otherwise philox].
    #[arg(long, value_parser = named::<Draws>)]
    draws: Option<Draws>,
    /// Start from these weights: safetensors, a state dict of torch, or a directory of Hugging Face transformers.
    #[arg(long, value_name = "W")]
    init: Option<PathBuf>,
    /// Freeze parameters whose name contains PATTERN. Repeat for more.
    #[arg(long, value_name = "PATTERN")]
    freeze: Option<Vec<String>>,
    /// Show every Nth step; metrics.jsonl has them all [default: 50].
    #[arg(long, value_name = "N")]
    log_every: Option<usize>,
    /// Write a checkpoint every N steps too; one is written every minute
    #[arg(long, value_name = "N")]
    checkpoint_every: Option<usize>,
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

/// With what a run's network is computed, and how the result is told.
#[derive(Debug, Group)]
pub(crate) struct With {
    /// Weights of the run: best or last.
    #[arg(long, value_parser = weights, default_value = "best")]
    pub(crate) weights: Weights,
    /// Device: auto (first usable GPU, otherwise the CPU), cpu, cuda or cuda:N.
    #[arg(long, value_parser = Device::computing, default_value = "auto")]
    pub(crate) device: Device,
    /// CPU threads.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Evaluate {
    /// Run directory.
    pub(crate) run: Option<PathBuf>,
    /// A baseline instead of a run: last-value or seasonal-naive.
    #[arg(long, value_enum)]
    pub(crate) model: Option<Baseline>,
    /// CSV [default: the data of the run]. Repeat for more series.
    #[arg(long, value_name = "F.csv")]
    pub(crate) data: Vec<PathBuf>,
    /// Column that names the series of each row, or columns (baselines).
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) series_id: Option<Vec<String>>,
    /// Decimal mark of numbers: . or , (baselines).
    #[arg(long, value_name = "C", value_parser = reading::decimal)]
    pub(crate) decimal: Option<char>,
    /// Columns to use, in this order (baselines).
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// Columns to score (baselines) [default: all].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) target: Option<Vec<String>>,
    /// Fill missing values: previous, linear or zero.
    #[arg(long)]
    pub(crate) fill: Option<String>,
    /// Rows of history that the training rows have to hold (baselines) [default: those that the baseline repeats].
    #[arg(long, value_name = "L")]
    pub(crate) context: Option<usize>,
    /// Rows to predict (baselines) [default: 96].
    #[arg(long, value_name = "H")]
    pub(crate) horizon: Option<usize>,
    /// Shares of training, validation and test rows; last or last:N for the last rows as the test rows; or ett (baselines)
    /// [default: 0.7,0.1,0.2].
    #[arg(long)]
    pub(crate) split: Option<String>,
    /// Batch size, for the errors without the last partial batch (baselines) [default: 128].
    #[arg(long, value_name = "B")]
    pub(crate) batch: Option<usize>,
    /// Seasonal period in rows (seasonal-naive) [default: from the dates and the data].
    #[arg(long, value_name = "N")]
    pub(crate) period: Option<usize>,
    /// Windows to score: train, validation or test; those of train are fitted values, which the network was trained on.
    #[arg(long, value_parser = named::<Segment>, default_value = "test")]
    pub(crate) segment: Segment,
    /// Write the forecasts and actual values of all these windows to a new CSV file.
    #[arg(long, value_name = "P.csv")]
    pub(crate) predictions: Option<PathBuf>,
    /// Prediction intervals of these levels in percent, as in 80,95 [default: those of the run, otherwise none].
    #[arg(long, value_name = "P,P", value_delimiter = ',', allow_negative_numbers = true)]
    pub(crate) interval: Option<Vec<f64>>,
    #[command(flatten)]
    pub(crate) with: With,
}

fn refit(text: &str) -> Result<Refit, String> {
    match text {
        "never" => Ok(Refit::Never),
        "always" => Ok(Refit::Every(1)),
        n => match n.parse() {
            Ok(n @ 1..) => Ok(Refit::Every(n)),
            Ok(_) | Err(_) => Err("give never, always, or a number of origins from 1 on".to_owned()),
        },
    }
}

/// Baselines: forecasts that need no training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Baseline {
    LastValue,
    SeasonalNaive,
}

#[derive(Debug, Group)]
pub(crate) struct Forecast {
    /// Run directory.
    pub(crate) run: PathBuf,
    /// CSV to continue; may have newer rows than the training data [default: the data of the run]. Repeat for more series.
    #[arg(long, value_name = "F.csv")]
    pub(crate) data: Vec<PathBuf>,
    /// Fill missing values: previous, linear or zero.
    #[arg(long)]
    pub(crate) fill: Option<String>,
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
    /// Prediction intervals of these levels in percent, as in 80,95 [default: those of the run, otherwise none].
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
    /// Folder of a run.
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

/// Two numbers; a type of its own, because clap takes a list for several values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair([f64; 2]);

fn betas(text: &str) -> Result<Pair, String> {
    let parts: Result<Vec<f64>, _> = text.split(',').map(|p| p.trim().parse()).collect();
    match parts.as_deref() {
        Ok(&[first, second]) => Ok(Pair([first, second])),
        Ok(_) | Err(_) => Err("write two numbers as 0.9,0.999".to_owned()),
    }
}

fn weights(text: &str) -> Result<Weights, String> {
    match text {
        "best" => Ok(Weights::Best),
        "last" => Ok(Weights::Last),
        _ => Err("choose best or last".to_owned()),
    }
}

impl Shapes {
    pub(crate) fn settings(&self) -> Settings {
        let mut network = NetworkOptions::default();
        for (name, value) in [("patch", self.patch), ("stride", self.stride)] {
            if let Some(value) = value {
                network.set(name, value);
            }
        }
        Settings {
            network: (!network.is_empty()).then_some(network),
            model: self.model,
            preset: self.preset.clone(),
            context: self.context,
            horizon: self.horizon,
            batch: self.batch,
            accumulate: self.accumulate,
            channels: self.channels,
            dropout: self.dropout,
            dtype: self.dtype,
            clip: self.clip,
            ..Settings::default()
        }
    }
}

impl Setup {
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            data: (!self.data.is_empty()).then(|| OneOrMore(self.data.clone())),
            separator: self.reading.separator,
            decimal: self.reading.decimal,
            thousands: self.reading.thousands,
            date_column: self.reading.date_column.clone().map(OneOrMore),
            date_format: self.reading.date_format.clone(),
            series_id: self.reading.series_id.clone().map(OneOrMore),
            columns: self.columns.clone(),
            target: self.target.clone(),
            known_future: self.covariates.known_future.clone().map(OneOrMore),
            fixed: self.covariates.fixed.clone().map(OneOrMore),
            categorical: self.covariates.categorical.clone().map(OneOrMore),
            calendar: self.covariates.calendar.clone(),
            fill: self.fill.clone(),
            fill_gaps: self.fill_gaps.then_some(true),
            synthetic: self.synthetic,
            samples: self.samples,
            split: self.split.clone(),
            period: self.period,
            epochs: self.epochs,
            max_steps: self.max_steps,
            lr: self.lr,
            schedule: self.schedule,
            optimizer: self.optimizer,
            betas: self.betas.map(|p| p.0),
            weight_decay: self.weight_decay,
            device: self.device,
            threads: self.threads,
            seed: self.seed,
            order: self.order,
            draws: self.draws,
            init: self.init.clone(),
            freeze: self.freeze.clone(),
            loss: self.loss.clone(),
            huber_delta: self.huber_delta,
            quantiles: self.quantiles.clone(),
            interval: self.interval.clone(),
            patience: self.patience,
            log_every: self.log_every,
            checkpoint_every: self.checkpoint_every,
            ..self.shapes.settings()
        }
    }
}
