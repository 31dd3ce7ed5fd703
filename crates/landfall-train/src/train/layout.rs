//! How a session is laid out: its numbers of windows and steps, and the slabs of its state in their order.

use super::draws::Twister;
use super::names::{
    CLASS_LABELS, CLASSES, DATA, EVALUATION_CURSOR, LABELS, LISTED_ORDER, ORDER, SUMS, TRAIN_CURSOR, VALUES,
    WINDOW_TABLE, WINDOWS,
};
use super::ranks::Ranks;
use super::sizes::Sizes;
use super::update::TrainingStep;
use super::{Dataset, Draws, Order, Span, Target, TrainingOptions, scores};
use crate::data::Segment;
use crate::nn::Parameters;
use landfall::ops;
use landfall::{DType, Error, Rule, Shape, StateSpec, World};
use std::panic::Location;

/// What follows from data and options: the numbers that state, programs and initial values agree on.
pub(super) struct Layout<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) options: &'a TrainingOptions,
    pub(super) context: usize,
    pub(super) horizon: usize,
    /// The windows of training.
    pub(super) training: Span,
    /// Windows of a batch, over all ranks.
    pub(super) batch: usize,
    /// Parts that a batch is cut into: the micro-batches of each rank.
    pub(super) parts: usize,
    /// This rank among those that compute a step together.
    pub(super) ranks: Ranks,
    /// Steps of one epoch.
    pub(super) steps_per_epoch: usize,
    /// Steps of the run.
    pub(super) steps: usize,
    /// How an epoch's windows are ordered on the device.
    pub(super) order: ops::Order,
}

/// What PyTorch draws for a session.
pub(super) struct Drawn {
    /// Initial values of the parameters, in order.
    pub(super) values: Vec<Vec<f64>>,
    /// The windows of each epoch; empty where their order is not listed.
    pub(super) orders: Vec<i64>,
}

impl<'a> Layout<'a> {
    /// The layout of a session on these data.
    ///
    /// # Errors
    /// [`Rule::Attribute`] with the caller's line when `accumulate` times the ranks does not divide the batch.
    #[track_caller]
    pub(super) fn new(
        dataset: &'a Dataset,
        context: usize,
        horizon: usize,
        options: &'a TrainingOptions,
        world: &World,
    ) -> Result<Self, Error> {
        let training = dataset.span(Segment::Train);
        // Fewer windows than a batch make one smaller batch.
        let batch = options.batch.min(training.count).max(1);
        let steps_per_epoch = (training.count / batch).max(1);
        let steps = options.max_steps.unwrap_or(options.epochs.saturating_mul(steps_per_epoch));
        let refused = |name, value: usize, expected| {
            let rule = Rule::Attribute { name, value: value as f64, expected };
            Err(rule.of("session", &[], None, Some(Location::caller())).into())
        };
        options.check().map_err(|rule| rule.of("session", &[], None, Some(Location::caller())))?;
        if options.accumulate == 0 || !batch.is_multiple_of(options.accumulate) {
            return refused("accumulate", options.accumulate, "a divisor of the batch");
        }
        let ranks = Ranks::of(world, options.rank_order);
        let parts = options.accumulate * ranks.size;
        if !batch.is_multiple_of(parts) {
            return refused("accumulate · ranks", parts, "a divisor of the batch");
        }
        let order = match (options.order, options.draws) {
            (Order::Sequential, _) => ops::Order::Sequential,
            (Order::Shuffle, Draws::Philox) => ops::Order::Shuffled,
            (Order::Shuffle, Draws::PyTorch) => ops::Order::Listed,
        };
        Ok(Self {
            dataset,
            options,
            context,
            horizon,
            training,
            batch,
            parts,
            ranks,
            steps_per_epoch,
            steps,
            order,
        })
    }

    /// Epochs that the run begins.
    fn epochs(&self) -> usize {
        self.steps.div_ceil(self.steps_per_epoch)
    }

    /// The shapes of the programs.
    pub(super) fn sizes(&self) -> Sizes<'a> {
        Sizes {
            batch: self.batch / self.parts,
            parts: self.parts,
            channels: self.dataset.channels - self.dataset.known,
            known: self.dataset.known,
            context: self.context,
            horizon: self.horizon,
            stride: self.dataset.stride,
            targets: self.dataset.targets(),
            target: &self.dataset.target,
            loss: &self.options.loss,
        }
    }

    /// What [`Draws::PyTorch`] draws; `None` with other draws.
    ///
    /// # Errors
    /// What is not known of PyTorch's draws, with the caller's line.
    #[track_caller]
    pub(super) fn drawn(&self, parameters: &Parameters) -> Result<Option<Drawn>, Error> {
        if self.options.draws != Draws::PyTorch {
            return Ok(None);
        }
        let at = Location::caller();
        let told = |rule: Rule| rule.of("session", &[], None, Some(at));
        let mut twister = Twister::new(self.options.seed);
        let values = twister.values(parameters).map_err(told)?;
        let listed = if self.order == ops::Order::Listed { self.epochs() } else { 0 };
        let orders = twister.orders(self.training.count, listed).map_err(told)?;
        Ok(Some(Drawn { values, orders }))
    }

    /// The slabs of the state, in their order: what steps change first, then what they only read.
    pub(super) fn state(&self, parameters: &Parameters) -> Result<StateSpec, Error> {
        let mut spec = StateSpec::new();
        let optimizer = self.options.optimizer.of(self.options);
        TrainingStep::new(parameters, optimizer.as_ref(), self.options, self.ranks).add_slabs(&mut spec)?;
        self.add_counters(&mut spec)?;
        self.add_data(&mut spec)?;
        let windows = entry(WINDOWS, [self.dataset.stretches.len(), 3]);
        spec.add_constant(WINDOW_TABLE, DType::I64, &[windows])?;
        if self.order == ops::Order::Listed {
            let order = entry(ORDER, [self.epochs(), self.training.count]);
            spec.add_constant(LISTED_ORDER, DType::I64, &[order])?;
        }
        TrainingStep::add_rates(&mut spec, self.steps)?;
        Ok(spec)
    }

    /// Cursors, an evaluation's sums, and the reports of steps.
    fn add_counters(&self, spec: &mut StateSpec) -> Result<(), Error> {
        TrainingStep::add_cursors(spec, &[TRAIN_CURSOR, EVALUATION_CURSOR])?;
        let shape = [self.dataset.series, self.dataset.targets()];
        let sums: Vec<_> = scores::sums(&self.options.loss).map(|name| entry(name, shape)).collect();
        spec.add(SUMS, DType::F64, &sums)?;
        TrainingStep::add_reports(spec)
    }

    /// Values and labels.
    fn add_data(&self, spec: &mut StateSpec) -> Result<(), Error> {
        let d = self.dataset;
        let mut data = vec![entry(VALUES, [d.channels, d.rows])];
        if let Target::Labels(labels) = &d.target {
            data.push(entry(LABELS, [1, labels.len()]));
        }
        spec.add_constant(DATA, self.options.dtype.accumulate(), &data)?;
        if let Target::Classes { labels, classes } = &d.target {
            let samples = labels.len() / d.channels.max(1);
            let entries = [entry(LABELS, [d.channels, samples]), entry(CLASSES, [*classes])];
            spec.add_constant(CLASS_LABELS, DType::I64, &entries)?;
        }
        Ok(())
    }
}

fn entry(name: &str, shape: impl Into<Shape>) -> (String, Shape) {
    (name.to_owned(), shape.into())
}
