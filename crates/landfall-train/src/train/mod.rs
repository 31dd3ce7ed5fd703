//! Training: what a step is made of, and the loop that runs it.

mod dataset;
mod draws;
mod evaluation;
mod fill;
mod layout;
mod loss;
mod names;
mod optimizer;
mod options;
mod schedule;
mod scores;
mod session;
mod steps;

pub use dataset::{Dataset, Span, Stretch, Target};
pub use draws::Draws;
pub use evaluation::{ClassScore, Evaluation, QuantileScore};
pub use loss::Loss;
pub(crate) use names::{LOSS_SCALE, MOMENTS};
pub use optimizer::OptimizerKind;
pub use options::{Betas, Order, TrainingOptions};
pub use schedule::Schedule;
pub use session::{LossFunction, RING, Session, StepRecord};
