//! Training: what a step is made of, and the loop that runs it.

mod arrays;
mod batches;
mod dataset;
mod draws;
mod evaluation;
mod fill;
mod layout;
mod loss;
mod names;
mod optimizer;
mod optimizer_kind;
mod options;
mod ranks;
mod schedule;
mod scores;
mod session;
mod shards;
mod sizes;
mod steps;
mod trainer;
mod update;

pub use arrays::{Arrays, Batch};
pub use batches::{Batches, Seen};
pub use dataset::{Dataset, Span, Stretch, Target};
pub use draws::Draws;
pub use evaluation::{ClassScore, Evaluation, QuantileScore};
pub use loss::{Loss, LossFunction};
pub use names::{FIRST_MOMENT, Moment, SECOND_MOMENT};
pub(crate) use names::{KEPT, LOSS_SCALE, PARAMETERS};
pub use optimizer::{Adam, Lion, Optimizer, Sgd, Update};
pub use optimizer_kind::{Betas, OptimizerKind};
pub use options::{Order, TrainingOptions};
pub use schedule::Schedule;
pub use session::{Session, StepRecord};
pub use trainer::{Epoch, Predictor, Trainer, Weights};
pub use update::RING;
