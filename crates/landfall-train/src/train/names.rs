//! Names of the slabs and entries of a session's state, and of what its programs take and give. Layout, graphs,
//! reading and checkpoints all go by these.

/// Slab of trainable parameters: those that decay first.
pub(crate) const PARAMETERS: &str = "parameters";
/// Slab of frozen parameters.
pub(super) const FROZEN: &str = "frozen";
/// Slab of running statistics.
pub(super) const BUFFERS: &str = "buffers";

/// Values that are kept for every trainable element, from step to step: the optimizer's moments of the gradients, the average of
/// the weights.
#[derive(Debug, PartialEq, Eq)]
pub struct Moment {
    /// Its slab, laid out as the parameters'.
    pub(super) slab: &'static str,
    /// What its tensors' names begin with in a checkpoint.
    pub(crate) checkpoint_prefix: &'static str,
}

/// The first moment of the gradients: their running mean, or sum.
pub const FIRST_MOMENT: Moment = Moment { slab: "moment.first", checkpoint_prefix: "optimizer.first." };
/// The second moment: the running mean of their squares.
pub const SECOND_MOMENT: Moment = Moment { slab: "moment.second", checkpoint_prefix: "optimizer.second." };
/// The exponential moving average of the weights.
pub(crate) static AVERAGE: Moment = Moment { slab: "average", checkpoint_prefix: "average." };

/// All that a checkpoint may hold for a trainable parameter beside itself.
pub(crate) static KEPT: [&Moment; 3] = [&FIRST_MOMENT, &SECOND_MOMENT, &AVERAGE];

impl Moment {
    /// The name of its slab.
    pub(crate) fn slab(&self) -> &'static str {
        self.slab
    }

    /// Its entry for a parameter.
    pub(crate) fn entry(&self, parameter: &str) -> String {
        format!("{}.{parameter}", self.slab)
    }

    /// Its only entry where ranks share it out: what this rank keeps of all parameters.
    pub(super) fn shard(&self) -> String {
        format!("{}.shard", self.slab)
    }
}

/// Slab of the mean gradients of a batch that is cut.
pub(super) const GRADIENTS: &str = "gradients";
/// Entry of the mean of the gradients over the micro-batches so far, laid out as the parameters' slab.
pub(super) const MEAN_GRADIENTS: &str = "mean.gradients";
/// Slab of the other means over micro-batches.
pub(super) const MEANS: &str = "means";
/// Entry of the mean of their losses.
pub(super) const MEAN_LOSS: &str = "mean.loss";

/// The entry of the mean of the micro-batches' values of a running statistic.
pub(super) fn mean_of(buffer: &str) -> String {
    format!("mean.{buffer}")
}

/// Slab and entry of the loss scale, where there is one: the scale, and the sound steps since it changed.
pub(crate) const LOSS_SCALE: &str = "loss scale";

/// Slab and entry of a minimiser's cursor, behind its prefix.
pub(super) const CURSOR: &str = "cursor";
/// Slab of the cursors.
pub(super) const CURSORS: &str = "cursors";
/// Where training stands.
pub(super) const TRAIN_CURSOR: &str = "cursor.train";
/// Where an evaluation stands.
pub(super) const EVALUATION_CURSOR: &str = "cursor.evaluation";

/// Slab of an evaluation's sums.
pub(super) const SUMS: &str = "sums";
/// Slab of the steps' reports.
pub(super) const REPORTS: &str = "reports";
/// Loss, gradient norm and learning rate of the last steps.
pub(super) const STEP_RING: &str = "ring";

/// Slab of the values, and of the labels that are numbers.
pub(super) const DATA: &str = "data";
/// The values of all channels.
pub(super) const VALUES: &str = "data.values";
/// The labels of the windows.
pub(super) const LABELS: &str = "data.labels";
/// Slab of the labels that are classes.
pub(super) const CLASS_LABELS: &str = "classes";
/// The numbers of the classes, 0 to K − 1.
pub(super) const CLASSES: &str = "data.classes";
/// Slab of the windows.
pub(super) const WINDOW_TABLE: &str = "windows";
/// Where the windows lie.
pub(super) const WINDOWS: &str = "data.windows";
/// Slab of the listed order.
pub(super) const LISTED_ORDER: &str = "order";
/// The windows of each epoch, where their order is listed: `[epochs, windows]`.
pub(super) const ORDER: &str = "data.order";
/// Slab of the schedule.
pub(super) const SCHEDULE: &str = "schedule";
/// The learning rate of each step.
pub(super) const LEARNING_RATES: &str = "schedule.lr";

/// The context that the prediction's program takes.
pub(super) const CONTEXT: &str = "context";
/// The columns known in advance that it takes, over context and horizon.
pub(super) const KNOWN: &str = "known";
/// What a session's programs predict.
pub(super) const PREDICTION: &str = "prediction";
