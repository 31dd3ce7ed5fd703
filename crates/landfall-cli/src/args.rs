//! The command line.

use clap::{Args as Group, Parser, Subcommand, ValueEnum};
use landfall_train::run::{
    Device, ModelKind, Network, OneOrMore, Precision, Settings, Synthetic, Weights, named,
};
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
    /// Score a run, or a simple forecast, on the test windows.
    Evaluate(Evaluate),
    /// Forecast the rows after the last one.
    Forecast(Forecast),
    /// Predict the classes of samples.
    Predict(Predict),
    /// Print the memory plan of a training step; needs no data.
    Plan(Plan),
    /// Find the fastest kernel for each instruction of a training step, and keep it for train --tuned.
    Tune(Box<Tune>),
    /// Time training steps and single ops, in turn with other libraries.
    Bench(Bench),
    /// Say what this machine has to compute with: processor, GPUs, libraries, and what is missing.
    Doctor(Doctor),
}

/// What decides the shapes of a step.
#[derive(Debug, Group)]
pub(crate) struct Shapes {
    /// Kind of model: patchtst, dlinear or nlinear (the default recipe chooses among them), window-regressor or
    /// cross-asset.
    #[arg(long, value_parser = named::<ModelKind>)]
    pub(crate) model: Option<ModelKind>,
    /// Sizes and recipe: auto (from the data, with a choice by validation; the default), or a paper's: patchtst-42, patchtst-64, patchtst-wide, patchtst-deep, window-regressor, dlinear,
    /// dlinear-etth2 or cross-asset.
    #[arg(long)]
    pub(crate) preset: Option<String>,
    /// Rows of history.
    #[arg(long, value_name = "L")]
    pub(crate) context: Option<usize>,
    /// Rows to predict.
    #[arg(long, value_name = "H")]
    pub(crate) horizon: Option<usize>,
    /// Patch length in rows (patchtst).
    #[arg(long, value_name = "N")]
    pub(crate) patch: Option<usize>,
    /// Rows between the starts of neighbouring patches (patchtst).
    #[arg(long, value_name = "N")]
    pub(crate) stride: Option<usize>,
    /// Windows of a batch.
    #[arg(long, value_name = "B")]
    pub(crate) batch: Option<usize>,
    /// Micro-batches that a batch is cut into: they run one after another, in as much memory as one of them takes, and
    /// the mean of their gradients makes one update [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) accumulate: Option<usize>,
    /// Columns of generated data or of the plan.
    #[arg(long, value_name = "N")]
    pub(crate) channels: Option<usize>,
    /// Dropout rate.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) dropout: Option<f64>,
    /// What to compute in: f32, f64, tf32 (on a GPU), bf16 or f16. The last two keep weights, sums of norms and losses in f32.
    #[arg(long, value_parser = named::<Precision>)]
    pub(crate) dtype: Option<Precision>,
    /// Largest global gradient norm; 0 clips nothing.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) clip: Option<f64>,
    /// Read settings from this TOML file; flags win over it.
    #[arg(long, value_name = "F.toml")]
    pub(crate) config: Option<PathBuf>,
}

/// What a run is: data, model, recipe, device.
#[derive(Debug, Group)]
pub(crate) struct Setup {
    /// CSV with a header line and a row for each time step, or each time step and series. Again for more series.
    #[arg(long, value_name = "F.csv")]
    pub(crate) data: Vec<PathBuf>,
    /// What separates the fields of a row; a blank stands for runs of blanks, \t for a tab [default: found in the file].
    #[arg(long, value_name = "C", value_parser = separator)]
    separator: Option<char>,
    /// The column that holds dates, or the columns, such as year,month [default: found in the file].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    date_column: Option<Vec<String>>,
    /// How dates are written, as strftime has it: %d/%m/%Y %H:%M, or unix-s, unix-ms [default: found in the file].
    #[arg(long, value_name = "FORMAT")]
    date_format: Option<String>,
    /// The column that names the series of a row, or the columns [default: found where a date has several rows].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    series_id: Option<Vec<String>>,
    /// Columns to use, in this order [default: all columns of numbers].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Columns to forecast; the others are inputs only [default: all].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    target: Option<Vec<String>>,
    /// Fill missing values: previous, linear or zero [default: linear, and rows inserted where the dates skip at most a third].
    #[arg(long)]
    fill: Option<String>,
    /// Insert rows where the dates skip some, however many, filled as --fill says.
    #[arg(long)]
    fill_gaps: bool,
    #[command(flatten)]
    pub(crate) ahead: KnownAhead,
    /// Generated data: demo (a series), walk (labelled windows) or assets (samples of tokens with classes).
    #[arg(long, value_parser = named::<Synthetic>)]
    synthetic: Option<Synthetic>,
    /// Rows of the generated series, or generated windows or samples.
    #[arg(long, value_name = "N")]
    samples: Option<usize>,
    #[command(flatten)]
    pub(crate) shapes: Shapes,
    /// ett, or shares of training, validation and test rows [default: 0.7,0.1,0.2].
    #[arg(long)]
    split: Option<String>,
    /// Seasonal period in rows [default: found from the dates and the data].
    #[arg(long, value_name = "N")]
    period: Option<usize>,
    /// Passes over the training windows.
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Updates in all, then one evaluation.
    #[arg(long, value_name = "N")]
    max_steps: Option<usize>,
    /// Learning rate.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    lr: Option<f64>,
    /// How it changes: constant, official, cosine, one-cycle or halving.
    #[arg(long, value_parser = named::<Schedule>)]
    schedule: Option<Schedule>,
    /// adam or adamw.
    #[arg(long, value_parser = named::<OptimizerKind>)]
    optimizer: Option<OptimizerKind>,
    /// Decay rates of the optimizer's moments.
    #[arg(long, value_name = "B1,B2", value_parser = betas, allow_negative_numbers = true)]
    betas: Option<Pair>,
    /// Weight decay of matrices [default: 0; 0.01 with --optimizer adamw].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    weight_decay: Option<f64>,
    /// What is minimised: mse, mae or huber [default: mse]; cross-entropy of classes.
    #[arg(long)]
    loss: Option<String>,
    /// Difference up to which the Huber loss is a square [default: 1].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    huber_delta: Option<f64>,
    /// Predict these quantiles, 0.5 among them, by the quantile loss.
    #[arg(long, value_name = "Q,Q", value_delimiter = ',', allow_negative_numbers = true)]
    quantiles: Option<Vec<f64>>,
    /// End after so many epochs without a better validation; 0 for never.
    #[arg(long, value_name = "N")]
    patience: Option<usize>,
    /// Where to compute: auto (the first GPU where all is there that the run needs, else cpu), cpu, cuda, cuda:N, or
    /// null (checks and counts, computes nothing) [default: auto].
    #[arg(long, value_parser = named::<Device>)]
    device: Option<Device>,
    /// Threads of the processor; results do not depend on them.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Seed of generated data, initial values, order and dropout.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Order of the windows: shuffle or sequential.
    #[arg(long, value_parser = named::<Order>)]
    order: Option<Order>,
    /// Where initial values and orders are drawn from: philox (ours), or pytorch (what a PyTorch program of that seed
    /// draws, for models whose layers begin uniform) [default: the preset's].
    #[arg(long, value_parser = named::<Draws>)]
    draws: Option<Draws>,
    /// Start from the weights of this checkpoint.
    #[arg(long, value_name = "W")]
    init: Option<PathBuf>,
    /// Do not train parameters whose name contains this; may be given again.
    #[arg(long, value_name = "PATTERN")]
    freeze: Option<Vec<String>>,
    /// Steps between shown ones; the run folder has them all [default: 50].
    #[arg(long, value_name = "N")]
    log_every: Option<usize>,
    /// Write a checkpoint every N steps, and every minute besides [default: 500].
    #[arg(long, value_name = "N")]
    checkpoint_every: Option<usize>,
}

#[derive(Debug, Group)]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// Train once with each of these seeds, and print mean and standard deviation.
    #[arg(long, value_name = "N,N", value_delimiter = ',', conflicts_with_all = ["seed", "resume"])]
    pub(crate) seeds: Option<Vec<u64>>,
    /// Take the kernels that landfall tune found, or finds now where it has not; the run keeps them.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) tuned: bool,
    /// Go on with this run.
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<PathBuf>,
    /// Folder of the run [default: a new one under runs].
    #[arg(long, value_name = "RUN")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// Try everything again, whatever was found before.
    #[arg(long)]
    pub(crate) again: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What people ask for by these names and is not supported, so that the answer is a sentence and no unknown flag.
#[derive(Debug, Group)]
pub(crate) struct KnownAhead {
    #[arg(long, hide = true, num_args = 0..)]
    known_future: Option<Vec<String>>,
    #[arg(long, hide = true, num_args = 0..)]
    covariates: Option<Vec<String>>,
}

impl KnownAhead {
    /// The flag that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let known = self.known_future.as_ref().map(|_| "--known-future");
        known.or_else(|| self.covariates.as_ref().map(|_| "--covariates"))
    }
}

#[derive(Debug, Group)]
pub(crate) struct Evaluate {
    /// Folder of a run.
    pub(crate) run: Option<PathBuf>,
    /// A simple forecast instead of a run: last-value or seasonal-naive.
    #[arg(long, value_enum)]
    pub(crate) model: Option<Simple>,
    /// CSV; a run's own if left out. Again for more series.
    #[arg(long, value_name = "F.csv")]
    pub(crate) data: Vec<PathBuf>,
    /// The column that names the series of a row, or the columns (simple forecasts).
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) series_id: Option<Vec<String>>,
    /// Columns to use, in this order (simple forecasts).
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// Columns to score (simple forecasts) [default: all].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) target: Option<Vec<String>>,
    /// Fill missing values: previous, linear or zero.
    #[arg(long)]
    pub(crate) fill: Option<String>,
    /// Rows of history (simple forecasts) [default: 336].
    #[arg(long, value_name = "L")]
    pub(crate) context: Option<usize>,
    /// Rows to predict (simple forecasts) [default: 96].
    #[arg(long, value_name = "H")]
    pub(crate) horizon: Option<usize>,
    /// ett, or three shares (simple forecasts) [default: 0.7,0.1,0.2].
    #[arg(long)]
    pub(crate) split: Option<String>,
    /// Windows of a batch, for the scores over whole batches (simple forecasts) [default: 128].
    #[arg(long, value_name = "B")]
    pub(crate) batch: Option<usize>,
    /// Seasonal period in rows (seasonal-naive) [default: found from the dates and the data].
    #[arg(long, value_name = "N")]
    pub(crate) period: Option<usize>,
    /// Which weights of the run: best or last.
    #[arg(long, value_parser = weights, default_value = "best")]
    pub(crate) weights: Weights,
    /// Write the forecast of every test window here, as CSV, beside the actual values; a new file.
    #[arg(long, value_name = "P.csv")]
    pub(crate) predictions: Option<PathBuf>,
    /// Where to compute: auto (the first GPU where all is there that the work needs, else cpu), cpu, cuda or cuda:N.
    #[arg(long, value_parser = computing, default_value = "auto")]
    pub(crate) device: Device,
    /// Threads of the processor.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Forecasts that need no training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Simple {
    LastValue,
    SeasonalNaive,
}

#[derive(Debug, Group)]
pub(crate) struct Forecast {
    /// Folder of a run.
    pub(crate) run: PathBuf,
    /// CSV whose last rows to start from; the run's own if left out. Again for more series.
    #[arg(long, value_name = "F.csv")]
    pub(crate) data: Vec<PathBuf>,
    /// Fill missing values: previous, linear or zero.
    #[arg(long)]
    pub(crate) fill: Option<String>,
    #[command(flatten)]
    pub(crate) ahead: KnownAhead,
    /// Write a CSV here instead of to standard output.
    #[arg(long, value_name = "F.csv")]
    pub(crate) out: Option<PathBuf>,
    /// Which weights of the run: best or last.
    #[arg(long, value_parser = weights, default_value = "best")]
    pub(crate) weights: Weights,
    /// Where to compute: auto (the first GPU where all is there that the work needs, else cpu), cpu, cuda or cuda:N.
    #[arg(long, value_parser = computing, default_value = "auto")]
    pub(crate) device: Device,
    /// Threads of the processor.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Predict {
    /// Folder of a run.
    pub(crate) run: PathBuf,
    /// CSV of samples with the run's tokens and features; classes in it are not looked at.
    #[arg(long, value_name = "F.csv")]
    pub(crate) data: PathBuf,
    /// Write a CSV here instead of to standard output.
    #[arg(long, value_name = "F.csv")]
    pub(crate) out: Option<PathBuf>,
    /// Which weights of the run: best or last.
    #[arg(long, value_parser = weights, default_value = "best")]
    pub(crate) weights: Weights,
    /// Where to compute: auto (the first GPU where all is there that the work needs, else cpu), cpu, cuda or cuda:N.
    #[arg(long, value_parser = computing, default_value = "auto")]
    pub(crate) device: Device,
    /// Threads of the processor.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) shapes: Shapes,
    /// For which device, which has to be there: auto, cpu, cuda or cuda:N. null plans what does not depend on one
    /// [default: null].
    #[arg(long, value_parser = named::<Device>, default_value = "null", hide_default_value = true)]
    pub(crate) device: Device,
    /// List every value, not only those alive at the peak.
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

#[derive(Debug, Group)]
pub(crate) struct Bench {
    /// Rows to time: steps, ops, routing (on a GPU), an op such as matmul, or a row's name [default: steps and ops; wide
    /// and deep on a processor by their names only].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) rows: Vec<String>,
    /// Where to compute: auto (the first GPU where all is there that the rows need, else cpu), cpu, cuda or cuda:N.
    #[arg(long, value_parser = computing, default_value = "auto")]
    pub(crate) device: Device,
    /// What step rows compute in: f32, tf32 (on a GPU), bf16 or f16; op rows are of f32, routing rows of f32 or bf16.
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = named::<Precision>, default_value = "f32")]
    pub(crate) dtypes: Vec<Precision>,
    /// Time step rows a second time, alone: every instruction issued by a call of its own instead of replayed.
    #[arg(long)]
    pub(crate) issued: bool,
    /// Time step rows once more with the kernels that landfall tune found, or finds now where it has not.
    #[arg(long)]
    pub(crate) tuned: bool,
    /// Threads of the processor, ours and the peers'.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Libraries to compare with: torch, jax, permutation (TransformerEngine's kernels, for the routing rows), or none.
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = ["torch", "jax", "permutation", "none"], default_value = "torch,jax")]
    pub(crate) peers: Vec<String>,
    /// Folder of the peers' programs [default: bench/peers here or in a folder above].
    #[arg(long, value_name = "DIR")]
    pub(crate) peers_folder: Option<PathBuf>,
    /// Seconds that a peer may take for one answer before it is left out.
    #[arg(long, value_name = "N", default_value_t = 600)]
    pub(crate) peer_limit: u64,
    /// Seconds of one sample.
    #[arg(long, value_name = "X", default_value_t = 0.5, allow_negative_numbers = true)]
    pub(crate) seconds: f64,
    /// Samples of each side.
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) samples: usize,
    /// Append the medians to bench/records/<device>/<date>.csv.
    #[arg(long)]
    pub(crate) record: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Two numbers; a type of its own, because clap takes a list for several values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair([f64; 2]);

/// One character; `\t` for a tab, which few shells pass on.
fn separator(text: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (text, characters.next(), characters.next()) {
        ("\\t", ..) => Ok('\t'),
        (_, Some(one), None) if one.is_ascii() => Ok(one),
        _ => Err("give one ASCII character, or \\t for a tab".to_owned()),
    }
}

fn betas(text: &str) -> Result<Pair, String> {
    let parts: Result<Vec<f64>, _> = text.split(',').map(|p| p.trim().parse()).collect();
    match parts.as_deref() {
        Ok(&[first, second]) => Ok(Pair([first, second])),
        Ok(_) | Err(_) => Err("write two numbers as 0.9,0.999".to_owned()),
    }
}

/// A device that computes.
fn computing(name: &str) -> Result<Device, String> {
    match named(name)? {
        Device::Null => Err("null computes nothing; choose auto, cpu, cuda or cuda:N".to_owned()),
        device @ (Device::Auto | Device::Cpu | Device::Cuda(_)) => Ok(device),
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
        let network = Network { patch: self.patch, stride: self.stride, ..Network::default() };
        Settings {
            network: (network != Network::default()).then_some(network),
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
            separator: self.separator,
            date_column: self.date_column.clone().map(OneOrMore),
            date_format: self.date_format.clone(),
            series_id: self.series_id.clone().map(OneOrMore),
            columns: self.columns.clone(),
            target: self.target.clone(),
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
            patience: self.patience,
            log_every: self.log_every,
            checkpoint_every: self.checkpoint_every,
            ..self.shapes.settings()
        }
    }
}
