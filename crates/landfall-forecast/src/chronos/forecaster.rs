//! Forecasts of groups of series.

use super::error::ChronosError;
use super::folder::Weights;
use super::mixture::Mixture;
use crate::models::chronos::{Network, Seen};
use crate::nn::{Context, Mode};
use crate::zero_shot::Unit;
use landfall::{DType, Engine, Graph, Program, State};
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};

/// Series that are computed at once at most; a larger group is computed alone.
const AT_ONCE: usize = 256;
/// Passes of a forecast at most.
const MOST_PASSES: usize = 64;
/// Levels whose quantiles go on as paths beyond the first pass of a Chronos-2.
const PATHS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Series that are forecast together: each sees the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// Rows of the series to forecast, oldest first and of one length; NaN where a value is missing.
    pub targets: Vec<Vec<f64>>,
    /// Covariates that are known up to the last row, of the same length.
    pub past: Vec<Vec<f64>>,
    /// Covariates whose future is known.
    pub known: Vec<Known>,
}

/// A covariate whose future is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// Its rows, as many as the targets have; NaN where a value is missing.
    pub past: Vec<f64>,
    /// The rows after them, as many as are forecast; NaN where one is not known.
    pub future: Vec<f64>,
}

impl Group {
    /// One series without covariates.
    #[must_use]
    pub fn of(target: Vec<f64>) -> Self {
        Self { targets: vec![target], ..Self::default() }
    }

    pub(super) fn members(&self) -> usize {
        self.targets.len() + self.past.len() + self.known.len()
    }

    /// Rows of its series.
    pub(super) fn rows(&self) -> usize {
        self.targets.first().map_or(0, Vec::len)
    }

    /// All series: the targets first, those whose future is known last.
    pub(super) fn contexts(&self) -> impl Iterator<Item = &Vec<f64>> {
        self.targets.iter().chain(&self.past).chain(self.known.iter().map(|known| &known.past))
    }

    /// What all series and their kinds are, but the futures.
    pub(super) fn bytes(&self) -> impl Iterator<Item = Vec<u8>> {
        let kinds = [self.targets.len(), self.past.len(), self.known.len()];
        let kinds = kinds.iter().flat_map(|n| n.to_le_bytes()).collect();
        let rows = |series: &Vec<f64>| series.iter().flat_map(|v| v.to_le_bytes()).collect();
        std::iter::once(kinds).chain(self.contexts().map(rows))
    }

    /// What the series of this number is called in messages.
    fn named(&self, number: usize) -> String {
        let (targets, past) = (self.targets.len(), self.targets.len() + self.past.len());
        match number {
            n if n < targets => format!("target {n}"),
            n if n < past => format!("past covariate {}", n - targets),
            n => format!("known covariate {}", n - past),
        }
    }

    /// Refuses rows that do not fit each other, or are no numbers; those of the future aside.
    pub(super) fn check_past(&self, group: usize) -> Result<(), ChronosError> {
        let rows = self.targets.first().ok_or(ChronosError::NoTarget { group })?.len();
        for (number, series) in self.contexts().enumerate() {
            let what = self.named(number);
            if series.len() != rows {
                let expected = format!("the first target has {rows}");
                return Err(ChronosError::Rows { group, what, rows: series.len(), expected });
            }
            finite(group, &what, series)?;
            if number < self.targets.len() && series.iter().all(|v| v.is_nan()) {
                return Err(ChronosError::Empty { group, what });
            }
        }
        Ok(())
    }

    fn check(&self, group: usize, horizon: usize) -> Result<(), ChronosError> {
        self.check_past(group)?;
        for (number, known) in self.known.iter().enumerate() {
            let what = format!("the future of known covariate {number}");
            if known.future.len() != horizon {
                let expected = format!("the forecast has {horizon}");
                return Err(ChronosError::Rows { group, what, rows: known.future.len(), expected });
            }
            finite(group, &what, &known.future)?;
        }
        Ok(())
    }
}

fn finite(group: usize, what: &str, values: &[f64]) -> Result<(), ChronosError> {
    match values.iter().enumerate().find(|(_, v)| v.is_infinite()) {
        Some((row, &value)) => Err(ChronosError::Infinite { group, what: what.to_owned(), row, value }),
        None => Ok(()),
    }
}

/// What a program computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Sizes {
    rows: usize,
    members: usize,
    /// Rows that are forecast.
    ahead: usize,
    /// Whether a future is known.
    future: bool,
    /// Whether no token has to be hidden.
    whole: bool,
    groups: usize,
}

/// A group as it is continued: once, and beyond the first pass once for each level of the paths.
struct Path {
    /// The last rows of each series.
    contexts: Vec<Vec<f64>>,
    /// What a pass forecast of each series: its rows, for each the quantiles.
    ahead: Vec<Vec<f64>>,
}

/// Forecasts groups of series with the weights of a Chronos-2, or series with those of a Chronos-Bolt, on the processor or a GPU.
///
/// A context's values are centred and scaled in f64 before the network's own scale, so that results do not depend on units. What is
/// forecast beyond the rows of a pass goes as the authors have it: quantiles of a pass each become context of a path of their own, those at
/// 0.1 to 0.9 of a Chronos-2 and all of a Chronos-Bolt, and the quantiles of the next pass are those of all paths together.
#[derive(Debug)]
pub struct Forecaster {
    engine: Engine,
    network: Network,
    state: State,
    programs: HashMap<Sizes, Program>,
}

impl Forecaster {
    /// A forecaster of these weights, in f32.
    ///
    /// # Errors
    /// Not enough memory; a device fault.
    pub fn new(engine: &Engine, weights: &Weights) -> Result<Self, ChronosError> {
        Self::with_dtype(engine, weights, DType::F32)
    }

    /// As [`Forecaster::new`], in another float dtype.
    ///
    /// # Errors
    /// As [`Forecaster::new`].
    pub fn with_dtype(engine: &Engine, weights: &Weights, dtype: DType) -> Result<Self, ChronosError> {
        let network = weights.network.clone();
        let mut state = State::new(engine, &network.parameters().state_spec(dtype)?)?;
        weights.load(&mut state)?;
        Ok(Self { engine: engine.clone(), network, state, programs: HashMap::new() })
    }

    /// Which model it is, in a word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.network.name()
    }

    /// Whether it reads covariates, and forecasts series of a group together.
    #[must_use]
    pub fn reads_covariates(&self) -> bool {
        matches!(self.network, Network::Chronos2(_))
    }

    /// Levels of the quantiles, ascending.
    #[must_use]
    pub fn levels(&self) -> &[f64] {
        self.network.levels()
    }

    /// Rows of a series that are read at most: its last ones.
    #[must_use]
    pub fn context(&self) -> usize {
        self.network.context()
    }

    /// Rows that are forecast at most.
    #[must_use]
    pub fn most_rows(&self) -> usize {
        most_rows(&self.network)
    }

    /// Forecasts each target of each group: `horizon` rows, each the quantiles at [`Forecaster::levels`], in the target's units.
    ///
    /// # Errors
    /// [`ChronosError::Horizon`]; a group without a target, and with a Chronos-Bolt one of several series; series or futures whose rows do
    /// not fit; infinite values; a target without a value; a device fault.
    #[allow(clippy::type_complexity, reason = "groups, targets, rows, levels")]
    pub fn forecast<G: Borrow<Group>>(
        &mut self,
        groups: &[G],
        horizon: usize,
    ) -> Result<Vec<Vec<Vec<Vec<f64>>>>, ChronosError> {
        let groups: Vec<&Group> = groups.iter().map(Borrow::borrow).collect();
        let groups = groups.as_slice();
        let most = self.most_rows();
        if horizon == 0 || horizon > most {
            return Err(ChronosError::Horizon { horizon, most });
        }
        for (i, group) in groups.iter().enumerate() {
            group.check(i, horizon)?;
            if let (Network::Bolt(_), members @ 2..) = (&self.network, group.members()) {
                return Err(ChronosError::Alone { group: i, members });
            }
        }
        let context = self.context();
        let begun = |group: &&Group| {
            let contexts = group.contexts().map(|c| c[c.len().saturating_sub(context)..].to_vec()).collect();
            vec![Path { contexts, ahead: Vec::new() }]
        };
        let mut paths: Vec<Vec<Path>> = groups.iter().map(begun).collect();
        let blank = |group: &&Group| vec![Vec::with_capacity(horizon); group.targets.len()];
        let mut done: Vec<Vec<Vec<Vec<f64>>>> = groups.iter().map(blank).collect();
        let levels = self.levels().to_vec();
        let (of_paths, mixture) = match &self.network {
            Network::Chronos2(_) => (PATHS.to_vec(), Mixture::shares(&PATHS, &levels)),
            Network::Bolt(_) => (levels.clone(), Mixture::Alike),
        };
        let mut at = 0;
        while at < horizon {
            let rows = self.network.ahead(horizon - at);
            self.pass(groups, &mut paths, (at, rows))?;
            for ((group, paths), done) in groups.iter().zip(&mut paths).zip(&mut done) {
                let joined = joined(paths, &mixture, &levels);
                for (target, rows) in done.iter_mut().zip(&joined) {
                    let left = horizon - target.len();
                    target.extend(rows.chunks(levels.len()).take(left).map(<[f64]>::to_vec));
                }
                if at + rows < horizon {
                    continued(group, paths, (&joined, &levels), &of_paths, at, context);
                }
            }
            at += rows;
        }
        Ok(done)
    }

    /// Forecasts the next rows of all paths, those from `at` on.
    fn pass(
        &mut self,
        groups: &[&Group],
        paths: &mut [Vec<Path>],
        (at, ahead): (usize, usize),
    ) -> Result<(), ChronosError> {
        let patch = self.network.patch();
        let mut alike: BTreeMap<Sizes, Vec<(&Group, &mut Path)>> = BTreeMap::new();
        for (group, paths) in groups.iter().zip(paths) {
            for path in paths {
                let (rows, whole) = frame(&path.contexts, patch);
                let future = !group.known.is_empty();
                let sizes = Sizes { rows, members: group.members(), ahead, future, whole, groups: 0 };
                alike.entry(sizes).or_default().push((group, path));
            }
        }
        for (sizes, mut of) in alike {
            for part in of.chunks_mut((AT_ONCE / sizes.members).max(1)) {
                self.part(Sizes { groups: part.len().next_power_of_two(), ..sizes }, part, at)?;
            }
        }
        Ok(())
    }

    /// Forecasts some groups of like sizes at once.
    fn part(
        &mut self,
        sizes: Sizes,
        part: &mut [(&Group, &mut Path)],
        at: usize,
    ) -> Result<(), ChronosError> {
        let levels = self.levels().len();
        let Sizes { rows, members, ahead, .. } = sizes;
        let blank = |rows: usize| vec![0.0f32; sizes.groups * members * rows];
        let (mut x, mut known, mut future, mut told) = (blank(rows), blank(rows), blank(ahead), blank(ahead));
        // A group that only fills a program up is of zeros that count as known.
        known.fill(1.0);
        let mut units = Vec::with_capacity(part.len() * members);
        for (i, (group, path)) in part.iter().enumerate() {
            let first = members - group.known.len();
            for (member, context) in path.contexts.iter().enumerate() {
                let (number, seen) = (i * members + member, &context[context.len().saturating_sub(rows)..]);
                let unit = Unit::of(seen);
                let own = number * rows..(number + 1) * rows;
                known[own.clone()].fill(0.0);
                put(&unit, seen, rows - seen.len(), [&mut x[own.clone()], &mut known[own]]);
                if let Some(covariate) = member.checked_sub(first).and_then(|i| group.known.get(i)) {
                    let values = covariate.future.get(at..).unwrap_or_default();
                    let own = number * ahead..(number + 1) * ahead;
                    let values = &values[..values.len().min(ahead)];
                    put(&unit, values, 0, [&mut future[own.clone()], &mut told[own]]);
                }
                units.push(unit);
            }
        }
        if !self.programs.contains_key(&sizes) {
            let program = self.compiled(sizes)?;
            self.programs.insert(sizes, program);
        }
        let Some(program) = self.programs.get_mut(&sizes) else { return Ok(()) };
        program.write("x", &x)?;
        program.write("known", &known)?;
        if sizes.future {
            program.write("future", &future)?;
            program.write("told", &told)?;
        }
        program.run(&mut self.state)?;
        let forecast = program.read::<f32>("forecast")?;
        let mut all = units.iter().zip(forecast.chunks_exact(levels * ahead));
        for (_, path) in part {
            let own = all.by_ref().take(members).map(|(unit, quantiles)| {
                let value = |i: usize| f64::from(quantiles[i % levels * ahead + i / levels]);
                (0..ahead * levels).map(|i| unit.original(value(i))).collect()
            });
            path.ahead = own.collect();
        }
        Ok(())
    }

    /// The program of these sizes.
    fn compiled(&self, sizes: Sizes) -> Result<Program, ChronosError> {
        let g = Graph::new(self.state.spec());
        let cx = Context::new(&g, self.network.parameters(), Mode::Evaluate);
        let Sizes { members, ahead, whole, .. } = sizes;
        let input = |name: &str, rows: usize| g.input(name, DType::F32, [sizes.groups * members, rows]);
        let (context, known) = (input("x", sizes.rows), input("known", sizes.rows));
        let quantiles = match &self.network {
            Network::Chronos2(network) => {
                let future = sizes.future.then(|| [input("future", ahead), input("told", ahead)]);
                let patches = ahead / network.config().patch;
                network.forward(&cx, &Seen { context, known, future, patches, members, whole })?
            }
            Network::Bolt(network) => network.forward(&cx, [context, known], whole)?,
        };
        g.output("forecast", quantiles.scale.original(&g, quantiles.quantiles)?);
        Ok(Program::compile(&self.engine, &self.state, "chronos", &g)?)
    }
}

/// Rows that a network forecasts at most.
pub(crate) fn most_rows(network: &Network) -> usize {
    network.pass() * MOST_PASSES
}

/// Writes the values that are there from a row on, and ones beside them.
pub(super) fn put(unit: &Unit, values: &[f64], from: usize, [to, known]: [&mut [f32]; 2]) {
    for (k, value) in values.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
        // Twice this is still a number.
        (to[from + k], known[from + k]) = (unit.scaled(*value).clamp(-1e37, 1e37) as f32, 1.0);
    }
}

/// Rows of the program that takes these contexts, and whether every patch of each has a value: the patches are a power of two, of full
/// contexts as many as there are.
fn frame(contexts: &[Vec<f64>], patch: usize) -> (usize, bool) {
    let first = |c: &Vec<f64>| c.len() - c.iter().position(|v| !v.is_nan()).unwrap_or(c.len());
    let rows = contexts.iter().map(first).max().unwrap_or(0).max(1);
    let patches = rows.div_ceil(patch);
    let has = |c: &Vec<f64>| {
        let own = &c[c.len().saturating_sub(patches * patch)..];
        own.rchunks(patch).len() == patches && own.rchunks(patch).all(|rows| rows.iter().any(|v| !v.is_nan()))
    };
    let whole = contexts.iter().all(has);
    (if whole { patches } else { patches.next_power_of_two() } * patch, whole)
}

/// The quantiles of all paths together: of each series its rows.
fn joined(paths: &[Path], mixture: &Mixture, levels: &[f64]) -> Vec<Vec<f64>> {
    if let [path] = paths {
        return path.ahead.clone();
    }
    let series = paths.first().map_or(0, |path| path.ahead.len());
    let mut samples = Vec::with_capacity(paths.len() * levels.len());
    let of = |series: usize| {
        let rows = paths[0].ahead[series].len();
        let mut all = Vec::with_capacity(rows);
        for row in (0..rows).step_by(levels.len()) {
            let own = paths.iter().map(|path| &path.ahead[series][row..row + levels.len()]);
            mixture.joined(own, levels, &mut samples, &mut all);
        }
        all
    };
    (0..series).map(of).collect()
}

/// Appends what was forecast to the contexts of all paths, each path at its own level; of covariates what is known.
fn continued(
    group: &Group,
    paths: &mut Vec<Path>,
    (joined, levels): (&[Vec<f64>], &[f64]),
    of_paths: &[f64],
    at: usize,
    context: usize,
) {
    // A single level is a single path.
    if let [path] = paths.as_slice() {
        let copy = || Path { contexts: path.contexts.clone(), ahead: Vec::new() };
        *paths = of_paths.iter().map(|_| copy()).collect();
    }
    let first = group.members() - group.known.len();
    for (path, &level) in paths.iter_mut().zip(of_paths) {
        for (member, (context_rows, rows)) in path.contexts.iter_mut().zip(joined).enumerate() {
            let future = member.checked_sub(first).and_then(|i| group.known.get(i));
            for (row, quantiles) in rows.chunks(levels.len()).enumerate() {
                let known = future.and_then(|known| known.future.get(at + row)).filter(|v| !v.is_nan());
                let own = || crate::zero_shot::quantile_at(levels, quantiles, level);
                context_rows.push(known.copied().unwrap_or_else(own));
            }
            let extra = context_rows.len().saturating_sub(context);
            context_rows.drain(..extra);
        }
    }
}
