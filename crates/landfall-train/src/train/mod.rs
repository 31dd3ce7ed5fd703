//! Training: what a step is made of, and the loop that runs it.

mod dataset;
mod draws;
mod loss;
mod optimizer;
mod options;
mod schedule;
mod scores;
mod session;
mod steps;

pub use dataset::{Dataset, Span, Stretch, Target};
pub use draws::Draws;
pub use loss::Loss;
pub use optimizer::OptimizerKind;
pub(crate) use optimizer::{LOSS_SCALE, moment as moment_name};
pub use options::{Betas, Order, TrainingOptions};
pub use schedule::Schedule;
pub use session::{ClassScore, Evaluation, LossFunction, QuantileScore, RING, Session, StepRecord};
