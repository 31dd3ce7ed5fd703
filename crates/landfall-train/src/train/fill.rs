//! Fills the state of a new session: data, windows, schedule, initial values and the first cursor.

use super::layout::{Drawn, Layout};
use super::names::{CLASSES, LABELS, LEARNING_RATES, LOSS_SCALE, ORDER, TRAIN_CURSOR, VALUES, WINDOWS};
use super::{Stretch, Target};
use crate::nn::Parameters;
use landfall::ops::{self, cursor};
use landfall::{DType, Element, Error, HostTensor, State};

/// Writes all that a session begins with.
///
/// # Errors
/// A device fault.
pub(super) fn fill(
    state: &mut State,
    layout: &Layout<'_>,
    parameters: &Parameters,
    drawn: Option<Drawn>,
) -> Result<(), Error> {
    write_data(state, layout)?;
    let row = |s: &Stretch| [s.first, s.start, s.series].map(|x| x as i64);
    state.write(WINDOWS, &layout.dataset.stretches.iter().flat_map(row).collect::<Vec<i64>>())?;
    let options = layout.options;
    let rates = options.schedule.table(options.lr, layout.steps, layout.steps_per_epoch);
    state.write(LEARNING_RATES, &rates)?;
    match drawn {
        None => parameters.initialise(state, options.seed)?,
        Some(Drawn { values, orders }) => {
            parameters.begin_with(state, values)?;
            if layout.order == ops::Order::Listed {
                state.write(ORDER, &orders)?;
            }
        }
    }
    if options.dtype == DType::F16 {
        state.write(LOSS_SCALE, &[ops::LossScale::INITIAL, 0.0])?;
    }
    let mut start = [0i64; cursor::LEN];
    start[cursor::SEED] = options.seed as i64;
    start[cursor::BASE] = layout.training.base as i64;
    start[cursor::WINDOWS] = layout.training.count as i64;
    start[cursor::MICRO] = (layout.ranks.rank * options.accumulate) as i64;
    state.write(TRAIN_CURSOR, &start)
}

/// Writes values and labels.
fn write_data(state: &mut State, layout: &Layout<'_>) -> Result<(), Error> {
    write_values(state, VALUES, &layout.dataset.values)?;
    match &layout.dataset.target {
        Target::Future(_) => Ok(()),
        Target::Labels(labels) => write_values(state, LABELS, labels),
        Target::Classes { labels, classes } => {
            state.write(LABELS, labels)?;
            state.write(CLASSES, &(0..*classes as i64).collect::<Vec<i64>>())
        }
    }
}

/// Writes values in the dtype of their entry.
fn write_values(state: &mut State, name: &str, values: &[f32]) -> Result<(), Error> {
    let (slab, entry) = state.spec().find(name)?;
    if slab.dtype == DType::F32 {
        return state.write(name, values);
    }
    let data = values.iter().map(|x| x.to_f64()).collect();
    state.write_host(name, &HostTensor::new(DType::F64, entry.shape, data)?)
}
