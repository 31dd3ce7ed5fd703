//! The command line.

use crate::error::BenchError;
use clap::Parser;
use landfall_forecast::run::{Device, Precision, named};
use std::path::PathBuf;

/// Times training steps and single ops beside other libraries.
#[derive(Debug, Parser)]
#[command(name = "landfall-bench", version)]
pub(crate) struct Args {
    /// Rows to time: steps, ops, routing (GPU only), an op such as matmul, or a row's name [default: steps and ops; on a
    /// CPU, wide and deep only by name].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) rows: Vec<String>,
    /// Device: auto (first usable GPU, otherwise the CPU), cpu, cuda or cuda:N.
    #[arg(long, value_parser = Device::computing, default_value = "auto")]
    pub(crate) device: Device,
    /// Precision of step rows: f32, tf32 (GPU only), bf16 or f16; op rows take f32, routing rows f32 or bf16.
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = named::<Precision>, default_value = "f32")]
    pub(crate) dtypes: Vec<Precision>,
    /// Also time step rows without graph replay: one call per instruction.
    #[arg(long)]
    pub(crate) issued: bool,
    /// Also time step rows with the kernels that landfall tune found; where it has not run, tune now.
    #[arg(long)]
    pub(crate) tuned: bool,
    /// CPU threads of Landfall and of the peers.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Libraries to compare with: torch, jax, permutation (TransformerEngine's kernels, routing rows), or none.
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = ["torch", "jax", "permutation", "none"], default_value = "torch,jax")]
    pub(crate) peers: Vec<String>,
    /// Directory of the peers' programs [default: bench/peers here or in a parent directory].
    #[arg(long, value_name = "DIR")]
    pub(crate) peers_folder: Option<PathBuf>,
    /// Seconds to wait for a peer before it is left out.
    #[arg(long, value_name = "N", default_value_t = 600)]
    pub(crate) peer_limit: u64,
    /// Duration of one sample in seconds.
    #[arg(long, value_name = "X", default_value_t = 0.5, allow_negative_numbers = true)]
    pub(crate) seconds: f64,
    /// Samples per library; with --profile, runs that are timed.
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) samples: usize,
    /// Instead of comparing, show where the time of step rows goes: time, bytes, FLOPs, rates and distance to the floor of
    /// each node.
    #[arg(long, conflicts_with_all = ["issued", "record"])]
    pub(crate) profile: bool,
    /// With --profile: write a timeline, a new file that Perfetto and Chrome open.
    #[arg(long, value_name = "FILE.json", requires = "profile")]
    pub(crate) trace: Option<PathBuf>,
    /// Append the medians to `bench/records/<device>/<date>.csv`.
    #[arg(long)]
    pub(crate) record: bool,
    /// Print one JSON object; with --profile it has every node.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// Refuses numbers that no measurement is made with.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if !(self.seconds > 0.0 && self.seconds <= 60.0) {
            let (value, rule) = (self.seconds.to_string(), "it must be above 0 and at most 60");
            return Err(BenchError::Range { flag: "--seconds", value, rule });
        }
        if self.samples == 0 {
            let rule = "it must be at least 1";
            return Err(BenchError::Range { flag: "--samples", value: "0".to_owned(), rule });
        }
        Ok(())
    }

    /// Threads of the processor: all, unless a number is given.
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }
}
