//! Arguments of processes that train together.

use super::Train;
use clap::Args as Group;
use landfall_forecast::run::Settings;

#[derive(Debug, Group)]
pub(crate) struct Together {
    /// Seconds that a process waits for the others, started by torchrun or Slurm, before all end with an error.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub(crate) rank_timeout: u32,
    /// Share out the optimizer's state: each process keeps and updates a part. Same results; --resume may change it (=false).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    shard_optimizer: Option<bool>,
    /// Batch norm over the batch of all processes, not over the part of each.
    #[arg(long)]
    sync_batch_norm: bool,
    /// Add the gradients of processes in their order, on GPUs too: the bytes of one process with --accumulate.
    #[arg(long)]
    rank_order: bool,
}

impl Train {
    /// The settings that its flags give.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            shard_optimizer: self.together.shard_optimizer,
            sync_batch_norm: self.together.sync_batch_norm.then_some(true),
            rank_order: self.together.rank_order.then_some(true),
            ..self.setup.settings()
        }
    }
}
