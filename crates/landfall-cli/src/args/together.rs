//! Arguments of processes that train together.

use super::settings::{Given, OfRanks};
use clap::Args as Group;

#[derive(Debug, Group)]
pub(crate) struct Together {
    /// Seconds that a process waits for the others, started by torchrun or Slurm, before all end with an error.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub(crate) rank_timeout: u32,
    #[command(flatten)]
    pub(super) given: Given<OfRanks>,
}
