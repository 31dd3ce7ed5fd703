//! Flags that are no settings and that several commands have, and how values are read.

use clap::Args as Group;
use landfall_forecast::backtesting::Refit;
use landfall_forecast::run::{Device, Weights};

/// What a network is computed on.
#[derive(Debug, Group)]
pub(crate) struct On {
    /// Device: auto (first usable GPU, otherwise the CPU), cpu, cuda or cuda:N.
    #[arg(long, value_parser = Device::computing, default_value = "auto")]
    pub(crate) device: Device,
    /// CPU threads.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

pub(super) fn refit(text: &str) -> Result<Refit, String> {
    match text {
        "never" => Ok(Refit::Never),
        "always" => Ok(Refit::Every(1)),
        n => match n.parse() {
            Ok(n @ 1..) => Ok(Refit::Every(n)),
            Ok(_) | Err(_) => Err("give never, always, or a number of origins from 1 on".to_owned()),
        },
    }
}

pub(super) fn weights(text: &str) -> Result<Weights, String> {
    match text {
        "best" => Ok(Weights::Best),
        "last" => Ok(Weights::Last),
        _ => Err("choose best or last".to_owned()),
    }
}
