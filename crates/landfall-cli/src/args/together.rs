//! Arguments of processes that train together.

use super::Train;
use super::settings::{Given, OfRanks};
use clap::Args as Group;
use landfall_forecast::run::Settings;

#[derive(Debug, Group)]
pub(crate) struct Together {
    /// Seconds that a process waits for the others, started by torchrun or Slurm, before all end with an error.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub(crate) rank_timeout: u32,
    #[command(flatten)]
    given: Given<OfRanks>,
}

impl Train {
    /// The settings that its flags give.
    pub(crate) fn settings(&self) -> Settings {
        self.setup.settings().or(self.together.given.settings.clone())
    }
}
