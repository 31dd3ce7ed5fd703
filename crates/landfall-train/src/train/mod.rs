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
mod options;
mod pool;
mod ranks;
mod schedule;
mod scores;
mod session;
mod shards;
mod steps;
mod trainer;
mod update;

pub use arrays::{Arrays, Batch};
pub use batches::{Batches, Seen};
pub use dataset::{Dataset, Span, Stretch, Target};
pub use draws::Draws;
pub use evaluation::{ClassScore, Evaluation, QuantileScore};
pub use loss::Loss;
pub use names::{FIRST_MOMENT, Moment, SECOND_MOMENT};
pub(crate) use names::{KEPT, LOSS_SCALE, PARAMETERS};
pub use optimizer::{Adam, Lion, Optimizer, OptimizerKind, Sgd, Update};
pub use options::{Betas, Order, TrainingOptions};
pub use pool::Pool;
pub use schedule::Schedule;
pub use session::{LossFunction, RING, Session, StepRecord};
pub use trainer::{Epoch, Predictor, Trainer, Weights};
