//! Training: what a step is made of, and the loop that runs it.

mod dataset;
mod optimizer;
mod options;
mod schedule;
mod session;

pub use dataset::{Dataset, Span, Stretch, Target};
pub use optimizer::OptimizerKind;
pub(crate) use optimizer::moment as moment_name;
pub use options::{Betas, Order, TrainingOptions};
pub use schedule::Schedule;
pub use session::{Evaluation, RING, Session, StepRecord};
