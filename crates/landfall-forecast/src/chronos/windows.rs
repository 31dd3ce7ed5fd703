//! Windows of groups, to train on and to validate by.

use super::error::ChronosError;
use super::forecaster::{Group, put};
use super::options::FineTuningOptions;
use crate::models::chronos::Chronos2Config;
use crate::train::Arrays;
use crate::zero_shot::Unit;
use landfall::Error;
use landfall::rng::Rng;

/// The arrays of a batch: what is seen and which of it is known, `[groups, members, rows]`, and the same of the rows ahead.
pub(super) const ARRAYS: [&str; 4] = ["context", "known", "ahead", "told"];

/// A window of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The number of the group, from 0.
    pub group: usize,
    /// The first row that is forecast, from 0.
    pub at: usize,
}

/// The sizes that windows of all groups share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    /// Series of a group: targets first, those whose future is known last.
    pub(super) members: usize,
    pub(super) targets: usize,
    pub(super) known: usize,
    /// Rows that are read at most.
    context: usize,
    /// Rows of the arrays, a multiple of the patch.
    rows: usize,
    horizon: usize,
    pub(super) patches: usize,
    ahead: usize,
}

impl Form {
    /// The form of windows of these groups, which must have series of the same kinds.
    pub(super) fn of(
        groups: &[Group],
        model: &Chronos2Config,
        options: &FineTuningOptions,
    ) -> Result<Self, ChronosError> {
        let kinds = |g: &Group| [g.targets.len(), g.past.len(), g.known.len()];
        let first = groups.first().map(kinds).ok_or(ChronosError::NoGroups)?;
        for (number, group) in groups.iter().enumerate() {
            group.check_past(number)?;
            if kinds(group) != first {
                return Err(ChronosError::Kinds { group: number, found: kinds(group), expected: first });
            }
        }
        let horizon = options.horizon;
        let longest = groups.iter().map(Group::rows).max().unwrap_or(0);
        let context = options.context.unwrap_or(model.context);
        let patches = horizon.div_ceil(model.patch);
        Ok(Self {
            members: first.iter().sum(),
            targets: first[0],
            known: first[2],
            context,
            rows: context.min(longest.saturating_sub(horizon)).max(1).next_multiple_of(model.patch),
            horizon,
            patches,
            ahead: patches * model.patch,
        })
    }

    /// Whether windows of both fit one model.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.members, self.targets, self.known) == (other.members, other.targets, other.known)
    }

    /// Values of a window in the arrays.
    pub(super) fn values(&self) -> usize {
        2 * self.members * (self.rows + self.ahead)
    }

    /// The arrays of windows. Of each series context and future are in the units of its context, so that f32 holds their differences.
    pub(super) fn arrays(&self, groups: &[Group], windows: &[Window]) -> Result<Arrays, Error> {
        let (members, rows, ahead) = (self.members, self.rows, self.ahead);
        let blank = |rows: usize| vec![0.0f32; windows.len() * members * rows];
        let (mut x, mut known, mut future, mut told) = (blank(rows), blank(rows), blank(ahead), blank(ahead));
        for (i, window) in windows.iter().enumerate() {
            for (member, series) in groups[window.group].contexts().enumerate() {
                let number = i * members + member;
                let seen = &series[window.at.saturating_sub(self.context)..window.at];
                let unit = Unit::of(seen);
                let own = number * rows..(number + 1) * rows;
                put(&unit, seen, rows - seen.len(), [&mut x[own.clone()], &mut known[own]]);
                if member < self.targets || member >= members - self.known {
                    let own = number * ahead..(number + 1) * ahead;
                    let next = &series[window.at..window.at + self.horizon];
                    put(&unit, next, 0, [&mut future[own.clone()], &mut told[own]]);
                }
            }
        }
        let shape = |rows: usize| [windows.len(), members, rows];
        let given = [(x, rows), (known, rows), (future, ahead), (told, ahead)];
        ARRAYS
            .iter()
            .zip(given)
            .try_fold(Arrays::new(), |all, (name, (data, rows))| all.with(name, shape(rows), data))
    }

    /// Arrays of so many windows, of zeros.
    pub(super) fn blank(&self, windows: usize) -> Result<Arrays, Error> {
        let shape = |rows: usize| [windows, self.members, rows];
        let rows = [self.rows, self.rows, self.ahead, self.ahead];
        ARRAYS.iter().zip(rows).try_fold(Arrays::new(), |all, (name, rows)| {
            all.with(name, shape(rows), vec![0.0f32; windows * self.members * rows])
        })
    }
}

/// The last window of each group that has one, to validate by.
pub(super) fn last(groups: &[Group], horizon: usize) -> Result<Vec<Window>, ChronosError> {
    let of = |(group, g): (usize, &Group)| {
        Some(Window { group, at: g.rows().checked_sub(horizon).filter(|at| *at > 0)? })
    };
    let all: Vec<Window> = groups.iter().enumerate().filter_map(of).collect();
    if all.is_empty() { Err(short(groups, horizon + 1)) } else { Ok(all) }
}

fn short(groups: &[Group], needed: usize) -> ChronosError {
    ChronosError::Short { longest: groups.iter().map(Group::rows).max().unwrap_or(0), needed }
}

/// Draws the windows that a training's steps are made of: for each a group, and then its first row ahead, both uniformly. What a step
/// draws depends on the seed and its number alone.
#[derive(Debug, Clone)]
pub struct Sampler {
    /// Groups that are long enough, and their rows.
    usable: Vec<(usize, usize)>,
    shortest: usize,
    horizon: usize,
    /// Windows of a step.
    each: usize,
    seed: u64,
}

impl Sampler {
    pub(super) fn new(
        groups: &[Group],
        options: &FineTuningOptions,
        each: usize,
    ) -> Result<Self, ChronosError> {
        let (shortest, horizon) = (options.shortest(), options.horizon);
        let needed = shortest.saturating_add(horizon);
        let rows = groups.iter().map(Group::rows).enumerate();
        let usable: Vec<_> = rows.filter(|(_, rows)| *rows >= needed).collect();
        if usable.is_empty() {
            return Err(short(groups, needed));
        }
        Ok(Self { usable, shortest, horizon, each, seed: options.seed })
    }

    /// Windows of a step.
    #[must_use]
    pub fn each(&self) -> usize {
        self.each
    }

    /// The windows of a step, counted from 0.
    #[must_use]
    pub fn windows(&self, step: usize) -> Vec<Window> {
        let of = |i: usize| {
            let number = (step as u64).wrapping_mul(self.each as u64).wrapping_add(i as u64);
            // A stream for each window; after 2³² windows they come again.
            let mut rng = Rng::new(self.seed, number as u32);
            let (group, rows) = self.usable[rng.range(0..self.usable.len())];
            Window { group, at: rng.range(self.shortest..rows - self.horizon + 1) }
        };
        (0..self.each).map(of).collect()
    }
}
