//! What a step trains on: random crops of series, cut on the device, and the loss of their forecasts.

use super::network::ZeroShot;
use super::scaling::{in_logarithms, scaled};
use super::sizes::{LEVELS, Seen};
use crate::nn::Context;
use landfall::{All, DType, Error, Graph, Keep, Rule, Spec, Value, ops};
use serde::{Deserialize, Serialize};

/// Crops of like length: so many of a batch have a context of `shortest..=context` rows, and are forecast `horizon` rows ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lengths {
    /// Crops of a batch.
    pub windows: usize,
    /// Rows of the shortest context.
    pub shortest: usize,
    /// Rows of the longest context, a multiple of the patch.
    pub context: usize,
    /// Rows that are forecast, a multiple of the patch.
    pub horizon: usize,
}

/// How crops are drawn and what their errors count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crops {
    /// The lengths of a batch, whose windows are those of the batch.
    pub lengths: Vec<Lengths>,
    /// Share of the crops of which single rows are hidden.
    pub hidden_crops: f64,
    /// The largest share of the rows that are hidden in such a crop; it is uniform below that.
    pub hidden_rows: f64,
    /// Share of the crops that are seen in logarithms where their values allow it ([`in_logarithms`]); the others as they are.
    pub logarithms: f64,
    /// What the error of a row counts falls as `(1 + (row − 1)/decay)^(−1/2)` with its distance from the context; 0 for no fall.
    pub decay: f64,
}

/// A number of crops on the device.
struct Cut {
    seen: Seen,
    /// Scaled targets `[B·queries, P]`, 0 where one is missing.
    targets: Value,
    /// What each counts: 0 where it is missing; those of a crop have sum 1.
    counts: Value,
}

impl Crops {
    /// The loss of a batch of series `[B, L]`, which hold NaN where a value is missing: the mean over crops of the weighted mean over
    /// rows of the quantile loss `max(τ·d, (τ − 1)·d)`, `d` the scaled target less the forecast, over all levels
    /// (Koenker & Bassett 1978).
    ///
    /// The series of a batch are cut one after another by [`Crops::lengths`]. A crop begins at a random row; its context has a random
    /// number of rows, uniform in the logarithm; rows before that, and those that are hidden at random, are missing to the network. All draws are of the step's random numbers, so a step that is repeated is the same.
    ///
    /// # Errors
    /// Lengths whose windows are not the batch, or that are longer than the series; a pass that is no training.
    #[track_caller]
    pub fn loss(&self, cx: &Context<'_>, network: &ZeroShot, series: Value) -> Result<Value, Error> {
        let g = cx.graph;
        let shape = g.shape(series);
        let refused = |rule: Rule| Error::from(rule.of("crops", &[g.spec(series)], None, None));
        let &[batch, length] = shape.dims() else {
            return Err(refused(Rule::Rank { arg: 0, rank: shape.rank(), expected: "2: [series, rows]" }));
        };
        let windows: usize = self.lengths.iter().map(|l| l.windows).sum();
        if windows != batch {
            let (value, expected) = (windows as f64, "the number of series of a batch");
            return Err(refused(Rule::Attribute { name: "windows of all lengths", value, expected }));
        }
        let (mut first, mut cuts) = (0, Vec::with_capacity(self.lengths.len()));
        for &lengths in &self.lengths {
            let rows = lengths.context + lengths.horizon;
            if rows > length {
                let (value, expected) = (rows as f64, "at most the rows of a series");
                return Err(refused(Rule::Attribute { name: "context and horizon", value, expected }));
            }
            let own = g.slice(series, 0, first, lengths.windows)?;
            cuts.push(self.cut(cx, own, lengths, network.config().patch)?);
            first += lengths.windows;
        }
        let seen: Vec<Seen> = cuts.iter().map(|c| c.seen).collect();
        let forecast = network.forward(cx, &seen)?;
        let of = |part: fn(&Cut) -> Value| g.concat(&cuts.iter().map(part).collect::<Vec<_>>(), 0);
        let (targets, counts) = (of(|c| c.targets)?, of(|c| c.counts)?);
        let loss = quantile_loss(g, forecast, targets, counts)?;
        g.affine(g.sum(loss, All)?, 1.0 / (LEVELS.len() * batch) as f64, 0.0)
    }

    /// The loss of each of the series `[B, L]` without chance: its last rows, as many as `horizon`, are forecast from the `rows` `[B, 1]`
    /// before them: `[B]`.
    ///
    /// # Errors
    /// Series that are shorter than the network's context and the horizon.
    #[track_caller]
    pub fn each(
        &self,
        cx: &Context<'_>,
        network: &ZeroShot,
        [series, rows]: [Value; 2],
        horizon: usize,
    ) -> Result<Value, Error> {
        let (g, c) = (cx.graph, network.config());
        let [batch, length] = g.shape(series).dims().try_into().unwrap_or([0; 2]);
        let needed = c.context + horizon;
        if needed > length {
            let (value, expected) = (needed as f64, "at most the rows of a series");
            let rule = Rule::Attribute { name: "context and horizon", value, expected };
            return Err(rule.of("crops", &[g.spec(series)], None, None).into());
        }
        let x = g.slice(series, 1, length - needed, c.context)?;
        let y = g.slice(series, 1, length - horizon, horizon)?;
        let dtype = g.spec(x).dtype;
        let age = g.arange(dtype, c.context as f64, -1.0, c.context)?;
        let known = g.cast(g.and(g.less_equal(age, rows)?, g.equal(x, x)?)?, dtype)?;
        let cut = self.told(g, [x, y, known], None, c.patch)?;
        let forecast = network.forward(cx, &[cut.seen])?;
        let loss = quantile_loss(g, forecast, cut.targets, cut.counts)?;
        let loss = g.sum(g.reshape(loss, [batch, horizon * LEVELS.len()])?, 1)?;
        g.affine(loss, 1.0 / LEVELS.len() as f64, 0.0)
    }

    /// Cuts a crop of each series `[B, L]`.
    fn cut(&self, cx: &Context<'_>, series: Value, l: Lengths, patch: usize) -> Result<Cut, Error> {
        let g = cx.graph;
        let [batch, length] = g.shape(series).dims().try_into().unwrap_or([0; 2]);
        let rows = l.context + l.horizon;
        let dtype = g.spec(series).dtype;
        // Where it begins.
        let places = (length - rows + 1) as f64;
        let start = g.cast(g.floor(g.affine(drawn(cx, dtype, [batch, 1])?, places, 0.0)?)?, DType::I64)?;
        let base = g.arange(DType::I64, 0i64, length as i64, batch)?;
        let starts = g.add(base, g.reshape(start, [batch])?)?;
        let gather = ops::WindowGather { stride: 1, offset: 0, length: rows, width: rows };
        let all =
            g.reshape(g.op1(gather, &[g.reshape(series, [1, batch * length])?, starts])?, [batch, rows])?;
        let (x, y) = (g.slice(all, 1, 0, l.context)?, g.slice(all, 1, l.context, l.horizon)?);
        // How many rows of context it has.
        let (least, most) = ((l.shortest as f64).ln(), ((l.context + 1) as f64).ln());
        let rows_seen = g.floor(g.exp(g.affine(drawn(cx, dtype, [batch, 1])?, most - least, least)?)?)?;
        let age = g.arange(dtype, l.context as f64, -1.0, l.context)?;
        let mut known = g.and(g.less_equal(age, rows_seen)?, g.equal(x, x)?)?;
        if self.hidden_crops > 0.0 {
            let chosen = g.less(drawn(cx, dtype, [batch, 1])?, g.scalar(x, self.hidden_crops)?)?;
            let share = g.affine(drawn(cx, dtype, [batch, 1])?, self.hidden_rows, 0.0)?;
            let share = g.select(chosen, share, g.scalar(x, 0.0)?)?;
            known = g.and(known, g.greater_equal(drawn(cx, dtype, [batch, l.context])?, share)?)?;
        }
        let chosen = g.less(drawn(cx, dtype, [batch, 1])?, g.scalar(x, self.logarithms)?)?;
        self.told(g, [x, y, g.cast(known, dtype)?], Some(chosen), patch)
    }

    /// What the network sees of contexts `[B, R]` with these known rows, and the targets `[B, H]` that come after them; those that are
    /// chosen, or all, in logarithms.
    fn told(
        &self,
        g: &Graph,
        [x, y, known]: [Value; 3],
        chosen: Option<Value>,
        patch: usize,
    ) -> Result<Cut, Error> {
        let dtype = g.spec(x).dtype;
        let [batch, horizon] = g.shape(y).dims().try_into().unwrap_or([0; 2]);
        let there = g.equal(y, y)?;
        let zero = g.scalar(y, 0.0)?;
        let [x, y] = in_logarithms(g, [x, y, known], chosen)?;
        let scale = scaled(g, x, known)?;
        let targets = scale.targets(g, g.select(there, y, zero)?)?;
        let there = g.cast(there, dtype)?;
        let counts = g.mul(there, self.falling(g, dtype, horizon)?)?;
        let sum = g.maximum(g.sum(counts, Keep(1))?, g.scalar(y, 1e-6)?)?;
        let queries = horizon / patch;
        let patches = |v| g.reshape(v, [batch * queries, patch]);
        Ok(Cut {
            seen: Seen { values: scale.context, known, queries },
            targets: patches(targets)?,
            counts: patches(g.div(counts, sum)?)?,
        })
    }

    /// What rows count by their distance.
    fn falling(&self, g: &Graph, dtype: DType, horizon: usize) -> Result<Value, Error> {
        if self.decay == 0.0 {
            return g.fill(dtype, [horizon], 1.0);
        }
        g.rsqrt(g.arange(dtype, 1.0, 1.0 / self.decay, horizon)?)
    }
}

/// `counts·max(τ·d, (τ − 1)·d)` of forecasts `[U, Q, P]` and targets `[U, P]`, for each level.
fn quantile_loss(g: &Graph, forecast: Value, targets: Value, counts: Value) -> Result<Value, Error> {
    let [patches, levels, patch] = g.shape(forecast).dims().try_into().unwrap_or([0; 3]);
    let wide = |v| g.reshape(v, [patches, 1, patch]);
    let distance = g.sub(wide(targets)?, forecast)?;
    let (first, step) = (LEVELS[0], LEVELS[1] - LEVELS[0]);
    let level = g.reshape(g.arange(g.spec(forecast).dtype, first, step, levels)?, [levels, 1])?;
    let below = g.mul(g.affine(level, 1.0, -1.0)?, distance)?;
    g.mul(g.maximum(g.mul(level, distance)?, below)?, wide(counts)?)
}

/// Uniform numbers in [0, 1) of a step.
fn drawn(cx: &Context<'_>, dtype: DType, shape: [usize; 2]) -> Result<Value, Error> {
    cx.uniform(Spec::new(dtype, shape), 0.0, 1.0)
}
