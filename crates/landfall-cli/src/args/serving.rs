//! Arguments of the commands that forecast from many places: over HTTP, and from past origins.

use super::settings::{OfBacktest, Setup};
use super::values::{On, refit, weights};
use clap::Args as Group;
use landfall_forecast::backtesting::Refit;
use landfall_forecast::run::Weights;
use std::path::PathBuf;

/// Intervals of forecasts that are made later, from rows that are not known yet.
#[derive(Debug, Group)]
pub(crate) struct KeptIntervals {
    /// Prediction intervals of these levels in percent, as in 80,95 [default: those of the run, otherwise none].
    #[arg(long, value_name = "P,P", value_delimiter = ',', allow_negative_numbers = true)]
    pub(crate) interval: Option<Vec<f64>>,
    /// No prediction intervals, whatever the run has: its data is not read then.
    #[arg(long, conflicts_with = "interval")]
    pub(crate) no_interval: bool,
    /// CSV whose windows give the errors that intervals are made of [default: the data of the run]. Repeat for more series.
    #[arg(long, value_name = "F.csv", conflicts_with = "no_interval")]
    pub(crate) data: Vec<PathBuf>,
}

/// Who may ask a server.
#[derive(Debug, Group)]
pub(crate) struct Access {
    /// Names by which the server may be asked, and whose pages may ask it, beside those of the machine itself.
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// Token that requests need; other users of the machine may see it here, and not in --token-file or LANDFALL_TOKEN.
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["token_file", "no_token"])]
    pub(crate) token: Option<String>,
    /// File with the token that requests need.
    #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
    pub(crate) token_file: Option<PathBuf>,
    /// Everybody who reaches the server may ask it, beyond the machine too.
    #[arg(long)]
    pub(crate) no_token: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Serve {
    /// Run directory. Without one the pretrained forecaster continues any series, by as many rows as a request asks for.
    pub(crate) run: Option<PathBuf>,
    /// Weights of landfall pretrain, or a folder with those of a Chronos-2 or Chronos-Bolt, to serve without a run [default: those of the program].
    #[arg(long, value_name = "WEIGHTS")]
    pub(crate) pretrained: Option<PathBuf>,
    /// Address to listen on; 0.0.0.0 for all of the machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: std::net::IpAddr,
    /// Port; 0 for any that is free.
    #[arg(long, value_name = "N", default_value_t = 8080)]
    pub(crate) port: u16,
    /// Most histories of one run of the network.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) max_batch: u16,
    /// Most bytes of a request's body, in MiB.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) max_body: u16,
    /// Most histories of one request.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_histories: u16,
    /// Most histories that wait for the network; beyond, requests are answered with 503.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) queue: u16,
    /// Most connections at once; further ones wait.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Seconds that a request may take: to arrive, to be answered, and to finish when the server stops.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) timeout: u16,
    #[command(flatten)]
    pub(crate) access: Access,
    #[command(flatten)]
    pub(crate) intervals: KeptIntervals,
    /// Weights of the run: best or last.
    #[arg(long, value_parser = weights, default_value = "best")]
    pub(crate) weights: Weights,
    #[command(flatten)]
    pub(crate) on: On,
}

#[derive(Debug, Group)]
pub(crate) struct Backtest {
    /// Run directory; without one, give --data and settings of landfall train, which train a new forecaster.
    pub(crate) run: Option<PathBuf>,
    /// Pretrained weights instead, of which nothing is trained: those of landfall pretrain, a folder of a Chronos, or zero-shot for those
    /// of the program.
    #[arg(long, value_name = "WEIGHTS")]
    pub(crate) pretrained: Option<PathBuf>,
    /// Number of origins; the forecast from the last one ends with the last row.
    #[arg(long, value_name = "N")]
    pub(crate) windows: Option<usize>,
    /// Rows from one origin to the next.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) step: usize,
    /// First origin, the last row that its forecast knows: a date, or a row number of data without dates.
    #[arg(long, value_name = "DATE")]
    pub(crate) from: Option<String>,
    /// Last origin.
    #[arg(long, value_name = "DATE")]
    pub(crate) to: Option<String>,
    /// Train anew on the rows up to the origin: never (one training before the first origin, or RUN's weights), always, or
    /// at every Nth origin.
    #[arg(long, value_name = "never|always|N", value_parser = refit, default_value = "never")]
    pub(crate) refit: Refit,
    /// Write the forecasts and actual values of all windows to a new CSV file, origin after origin.
    #[arg(long, value_name = "P.csv")]
    pub(crate) predictions: Option<PathBuf>,
    /// Go on with an interrupted backtest of the same command, whose finished origins --predictions holds.
    #[arg(long, requires = "predictions")]
    pub(crate) resume: bool,
    /// Write the errors and some forecasts as one HTML file, a new one.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) setup: Setup<OfBacktest>,
}
