//! The cursor: everything that changes from step to step, as one `i64[8]` on the device. Only ops read or advance it,
//! so the host writes nothing while a program runs, and a run resumes from these eight numbers.

use super::{Data, SampleArg, rules};
use crate::kernel::cpu::Call;
use crate::values::{DType, HostTensor, Rule, Spec};

/// Updates done so far: the step being run is number `STEP + 1`.
pub const STEP: usize = 0;
/// Epoch, from 0.
pub const EPOCH: usize = 1;
/// Batch within the epoch, from 0.
pub const BATCH: usize = 2;
/// Seed of all random numbers, its 64 bits as they are.
pub const SEED: usize = 3;
/// First window of the segment.
pub const BASE: usize = 4;
/// Number of windows of the segment.
pub const WINDOWS: usize = 5;
/// Micro-batch within the step, counted over all ranks: of `n` on each, rank r has `r·n` to `r·n + n − 1`. Between steps it is the
/// rank's first: 0 on one rank.
pub const MICRO: usize = 6;
/// Elements of a cursor; those not named here are reserved and 0.
pub const LEN: usize = 8;

/// The cursor at which draws with this seed begin: step 0, all else 0.
///
/// ```
/// use landfall::ops::cursor;
/// assert_eq!(cursor::seeded(7), [0, 0, 0, 7, 0, 0, 0, 0]);
/// ```
#[must_use]
pub fn seeded(seed: u64) -> [i64; LEN] {
    let mut start = [0; LEN];
    start[SEED] = seed as i64;
    start
}

/// Checks that argument `arg` is a cursor.
pub(crate) fn rule(args: &[Spec], arg: usize) -> Result<(), Rule> {
    rules::dtype(args, arg, DType::I64)?;
    rules::shape(args, arg, [LEN])
}

/// The cursor that a kernel was given as input `arg`.
pub(crate) fn read(call: &Call<'_>, arg: usize) -> Result<[i64; LEN], Rule> {
    let cursor = call.input::<i64>(arg)?;
    Ok(std::array::from_fn(|i| cursor.flat(i)))
}

/// The cursor that a reference was given.
pub(crate) fn of(host: &HostTensor) -> [i64; LEN] {
    std::array::from_fn(|i| host.data[i] as i64)
}

/// A cursor for samples.
pub(crate) fn sample(named: &[(usize, i64)]) -> SampleArg {
    let mut all = vec![0.0; LEN];
    named.iter().for_each(|&(at, value)| all[at] = value as f64);
    SampleArg::with(Some(DType::I64), [LEN], Data::Exact(all))
}
