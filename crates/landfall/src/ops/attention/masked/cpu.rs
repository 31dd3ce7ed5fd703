//! [`MaskedAttention`] and its gradient on the CPU.
//!
//! A task has whole batch entries. Keys lie feature by feature in its scratch memory, so that the scores of a query are one loop
//! over keys for each feature; values lie key by key, so that a sum over keys is one loop over features.

use super::{MaskedAttention, Sizes};
use crate::kernel::cpu::isa::Real;
use crate::kernel::cpu::lanes::{LANES, SavedStat, Slots, cut};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, View, ViewMut};
use crate::ops::attention::cpu_tiles::Matrix;
use crate::values::{DType, Element, Math, Rule, Spec, product};

/// Keys that are summed in the accumulation dtype before they are added to an f64 total.
const TILE: usize = 512;

/// Elements of a line of features, and of a line of keys.
fn widths(s: &Sizes) -> (usize, usize) {
    (s.features.max(1).next_multiple_of(LANES), s.keys.next_multiple_of(LANES))
}

/// Tasks at most: each has scratch memory.
const TASKS: usize = 32;

/// Batch entries of a task, and the number of tasks.
fn tasks(s: &Sizes) -> (usize, usize) {
    let each = s.batch.div_ceil(TASKS).max(1);
    (each, s.batch.div_ceil(each))
}

/// Elements of a task of the forward op: keys, values, scores and a query.
pub(super) fn forward_slot(s: &Sizes) -> usize {
    let (width, keys) = widths(s);
    s.features * keys + s.keys * width + keys + width
}

/// Bytes for all tasks.
pub(super) fn workspace(args: &[Spec], slot: impl Fn(&Sizes) -> usize) -> usize {
    let s = Sizes::of(&args[0].shape, &args[1].shape);
    product([tasks(&s).1, slot(&s), args[0].dtype.accumulate().size()])
}

/// What hides keys from queries: the mask and the numbers of keys.
struct Hiding<'a, T> {
    s: Sizes,
    boolean: Option<View<'a, u8>>,
    added: Option<View<'a, T>>,
    lengths: Option<View<'a, i64>>,
}

impl<'a, T: Element> Hiding<'a, T>
where
    T::Acc: Arith,
{
    fn of(op: &'a MaskedAttention, s: Sizes, call: &Call<'a>) -> Result<Self, Rule> {
        let boolean = op.mask && call.dtype(3)? == DType::Bool;
        let lengths = op.lengths_at().map(|at| call.input::<i64>(at)).transpose()?;
        if let Some(lengths) = &lengths {
            let wrong = (0..s.batch).find(|&b| !(0..=s.keys as i64).contains(&lengths.flat(b)));
            if let Some(b) = wrong {
                call.flag(b, lengths.flat(b), s.keys + 1);
            }
        }
        Ok(Self {
            s,
            boolean: if boolean { Some(call.input(3)?) } else { None },
            added: if op.mask && !boolean { Some(call.input(3)?) } else { None },
            lengths,
        })
    }

    /// The number of keys that are there.
    #[inline(always)]
    fn keys(&self, b: usize) -> usize {
        self.lengths.as_ref().map_or(self.s.keys, |l| l.flat(b).clamp(0, self.s.keys as i64) as usize)
    }

    /// Masks the scores of query `i`.
    #[inline(always)]
    fn apply(&self, scores: &mut [T::Acc], b: usize, head: usize, i: usize) {
        if let Some(mask) = &self.boolean {
            let m = Matrix::scores(mask.layout(), b, head);
            for (j, s) in scores.iter_mut().enumerate() {
                if mask.data()[m.at(i, j)] == 0 {
                    *s = T::Acc::of_f64(f64::NEG_INFINITY);
                }
            }
        }
        if let Some(mask) = &self.added {
            let m = Matrix::scores(mask.layout(), b, head);
            let hidden = T::Acc::of_f64(f64::NEG_INFINITY);
            for (j, s) in scores.iter_mut().enumerate() {
                let added = mask.data()[m.at(i, j)].widen();
                *s = if added == hidden { hidden } else { *s + added };
            }
        }
    }
}

/// Loads the first `n` tokens of a head: feature by feature into `columns`, and token by token into `lines`, where asked for.
#[inline(always)]
fn load<T: Element>(
    x: &View<'_, T>,
    m: Matrix,
    s: &Sizes,
    n: usize,
    columns: &mut [T::Acc],
    lines: &mut [T::Acc],
) {
    let (width, keys) = widths(s);
    for j in 0..n {
        for c in 0..s.features {
            let v = x.data()[m.at(j, c)].widen();
            if let Some(to) = columns.get_mut(c * keys + j) {
                *to = v;
            }
            if let Some(to) = lines.get_mut(j * width + c) {
                *to = v;
            }
        }
    }
}

/// `out[j] ← Σ_c row[c] · columns[c][j]` of the keys that `out` has.
#[inline(always)]
fn dots<A: Arith>(row: &[A], columns: &[A], pitch: usize, out: &mut [A]) {
    out.fill(A::ZERO);
    for (c, &q) in row.iter().enumerate() {
        for (o, &k) in out.iter_mut().zip(&columns[c * pitch..]) {
            *o = *o + q * k;
        }
    }
}

/// `Σ_j weights[j] · lines[j]` where `weights[j]` is not 0, of [`LANES`] features from `c` on.
#[inline(always)]
fn over_keys<A: Arith>(weights: &[A], lines: &[A], width: usize, c: usize) -> [f64; LANES] {
    let mut totals = [0.0; LANES];
    for (tile, weights) in weights.chunks(TILE).enumerate() {
        let mut part = [A::ZERO; LANES];
        // Of a key with a weight of 0 nothing is read: it may be NaN.
        for (j, &w) in weights.iter().enumerate().filter(|(_, w)| **w != A::ZERO) {
            let line = &lines[(tile * TILE + j) * width + c..][..LANES];
            for l in 0..LANES {
                part[l] = part[l] + w * line[l];
            }
        }
        for l in 0..LANES {
            totals[l] += part[l].as_f64();
        }
    }
    totals
}

/// `lines[j] ← lines[j] + weights[j] · row` where `weights[j]` is not 0.
#[inline(always)]
fn spread<A: Arith>(weights: &[A], row: &[A], lines: &mut [A]) {
    for (line, &w) in lines.chunks_exact_mut(row.len()).zip(weights).filter(|(_, w)| **w != A::ZERO) {
        for (l, &x) in line.iter_mut().zip(row) {
            *l = *l + w * x;
        }
    }
}

pub(super) fn forward<T: Element>(op: &MaskedAttention, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith + Real,
{
    let (q, k, v) = (call.input::<T>(0)?, call.input::<T>(1)?, call.input::<T>(2)?);
    let (out, lse) = (call.output::<T>(0)?, call.output::<T::Acc>(1)?);
    let s = Sizes::of(q.layout().shape(), k.layout().shape());
    let hiding = Hiding::<T>::of(op, s, call)?;
    if out.elements() == 0 {
        return Ok(());
    }
    let slot = forward_slot(&s);
    let (each, tasks) = tasks(&s);
    let slots = Slots { data: &mut call.workspace::<T::Acc>()?[..tasks * slot], each, width: slot };
    let scale = T::Acc::of_f64(op.scale);
    let (width, pitch) = widths(&s);
    call.parallel(
        (out, lse, slots),
        s.batch,
        each,
        #[inline(always)]
        |start, (mut out, mut lse, slots)| {
            let mut rest = &mut slots.data[..slot];
            rest.fill(T::Acc::ZERO);
            let (keys, values) = (cut(&mut rest, s.features * pitch), cut(&mut rest, s.keys * width));
            let (scores, query) = (cut(&mut rest, pitch), cut(&mut rest, width));
            for index in 0..out.outer() * s.key_heads {
                let (b, shared) = (index / s.key_heads, index % s.key_heads);
                let n = hiding.keys(start + b);
                load(&k, Matrix::features(k.layout(), start + b, shared), &s, n, keys, &mut []);
                load(&v, Matrix::features(v.layout(), start + b, shared), &s, n, &mut [], values);
                for row in 0..s.group() * s.queries {
                    let (head, i) = (shared * s.group() + row / s.queries, row % s.queries);
                    let scores = &mut scores[..s.visible(op.causal, i, n)];
                    let from = Matrix::features(q.layout(), start + b, head);
                    for (c, x) in query[..s.features].iter_mut().enumerate() {
                        *x = q.data()[from.at(i, c)].widen() * scale;
                    }
                    dots(&query[..s.features], keys, pitch, scores);
                    hiding.apply(scores, start + b, head, i);
                    let top = scores.iter().fold(T::Acc::of_f64(f64::NEG_INFINITY), |m, &s| Math::max(m, s));
                    let base = if top.as_f64() == f64::NEG_INFINITY { T::Acc::ZERO } else { top };
                    for s in &mut *scores {
                        *s = Math::exp(*s - base);
                    }
                    let total: f64 = scores.iter().map(|s| s.as_f64()).sum();
                    let at = Matrix::scores(lse.layout(), b, head).at(i, 0);
                    lse.data()[at] = T::Acc::of_f64(top.as_f64() + total.ln());
                    // A query that sees no key has no weights either.
                    let inverse = if total == 0.0 { 0.0 } else { total.recip() };
                    let to = Matrix::features(out.layout(), b, head);
                    for c in (0..s.features).step_by(LANES) {
                        let sums = over_keys(scores, values, width, c);
                        for (l, &sum) in sums[..LANES.min(s.features - c)].iter().enumerate() {
                            out.data()[to.at(i, c + l)] = T::narrow(T::Acc::of_f64(sum * inverse));
                        }
                    }
                }
            }
        },
    );
    Ok(())
}

/// The gradient.
pub(in crate::ops) mod gradient {
    use super::*;

    /// Elements of a task: keys twice, values, sums of both, a total and a tile each; scores and slopes; a query and its slope.
    fn slot(s: &Sizes) -> usize {
        let (width, keys) = widths(s);
        2 * s.features * keys + 5 * s.keys * width + 2 * keys + 2 * width
    }

    pub(in crate::ops) fn workspace(args: &[Spec]) -> usize {
        super::workspace(args, slot)
    }

    pub(in crate::ops) fn run<T: Element>(op: &MaskedAttention, call: &Call<'_>) -> Result<(), Rule>
    where
        T::Acc: Arith + Real,
    {
        let (q, k, v) = (call.input::<T>(0)?, call.input::<T>(1)?, call.input::<T>(2)?);
        let at = op.operands();
        let (out, lse, g) = (call.input::<T>(at)?, SavedStat::of(call, at + 1)?, call.input::<T>(at + 2)?);
        let (gq, gk, gv) = (call.output::<T>(0)?, call.output::<T>(1)?, call.output::<T>(2)?);
        let s = Sizes::of(q.layout().shape(), k.layout().shape());
        let hiding = Hiding::<T>::of(op, s, call)?;
        if s.batch == 0 {
            return Ok(());
        }
        let slot = slot(&s);
        let (each, tasks) = tasks(&s);
        let slots = Slots { data: &mut call.workspace::<T::Acc>()?[..tasks * slot], each, width: slot };
        let scale = T::Acc::of_f64(op.scale);
        let (width, pitch) = widths(&s);
        call.parallel(
            (gq, gk, gv, slots),
            s.batch,
            each,
            #[inline(always)]
            |start, (mut gq, mut gk, mut gv, slots)| {
                let mut rest = &mut slots.data[..slot];
                rest.fill(T::Acc::ZERO);
                let (keys, values) = (cut(&mut rest, s.features * pitch), cut(&mut rest, s.features * pitch));
                let lines = cut(&mut rest, s.keys * width);
                let (weights, slopes) = (cut(&mut rest, pitch), cut(&mut rest, pitch));
                let (query, slope) = (cut(&mut rest, width), cut(&mut rest, width));
                // Of keys and values, tiles of queries and their totals.
                let (tiles, totals) = rest.split_at_mut(2 * s.keys * width);
                for index in 0..gq.outer() * s.key_heads {
                    let (b, shared) = (index / s.key_heads, index % s.key_heads);
                    let n = hiding.keys(start + b);
                    load(&k, Matrix::features(k.layout(), start + b, shared), &s, n, keys, lines);
                    load(&v, Matrix::features(v.layout(), start + b, shared), &s, n, values, &mut []);
                    tiles.fill(T::Acc::ZERO);
                    totals.fill(T::Acc::ZERO);
                    let rows = s.group() * s.queries;
                    for row in 0..rows {
                        let (head, i) = (shared * s.group() + row / s.queries, row % s.queries);
                        let visible = s.visible(op.causal, i, n);
                        let (weights, slopes) = (&mut weights[..visible], &mut slopes[..visible]);
                        let [from_q, from_g, from_out] = [q.layout(), g.layout(), out.layout()]
                            .map(|l| Matrix::features(l, start + b, head));
                        let mut level = 0.0;
                        for c in 0..s.features {
                            query[c] = q.data()[from_q.at(i, c)].widen() * scale;
                            slope[c] = g.data()[from_g.at(i, c)].widen();
                            level += slope[c].as_f64() * out.data()[from_out.at(i, c)].widen().as_f64();
                        }
                        let level = T::Acc::of_f64(level);
                        let less = lse.get::<T::Acc>(((start + b) * s.heads + head) * s.queries + i);
                        let less = if less.as_f64() == f64::NEG_INFINITY { T::Acc::ZERO } else { less };
                        dots(&query[..s.features], keys, pitch, weights);
                        hiding.apply(weights, start + b, head, i);
                        for w in &mut *weights {
                            *w = Math::exp(*w - less);
                        }
                        dots(&slope[..s.features], values, pitch, slopes);
                        for (d, &w) in slopes.iter_mut().zip(&*weights) {
                            *d = if w == T::Acc::ZERO { w } else { w * (*d - level) };
                        }
                        let (key_tile, value_tile) = tiles.split_at_mut(s.keys * width);
                        spread(slopes, query, key_tile);
                        spread(weights, slope, value_tile);
                        if (row + 1) % TILE == 0 || row + 1 == rows {
                            for (total, part) in totals.iter_mut().zip(&mut *tiles) {
                                *total = *total + std::mem::take(part);
                            }
                        }
                        let to = Matrix::features(gq.layout(), b, head);
                        for c in (0..s.features).step_by(LANES) {
                            let sums = over_keys(slopes, lines, width, c);
                            for (l, &sum) in sums[..LANES.min(s.features - c)].iter().enumerate() {
                                gq.data()[to.at(i, c + l)] = T::narrow(T::Acc::of_f64(sum * op.scale));
                            }
                        }
                    }
                    let (key_totals, value_totals) = totals.split_at(s.keys * width);
                    store(key_totals, Matrix::features(gk.layout(), b, shared), &s, &mut gk);
                    store(value_totals, Matrix::features(gv.layout(), b, shared), &s, &mut gv);
                }
            },
        );
        Ok(())
    }

    /// Rounds the lines of all keys of a head.
    #[inline(always)]
    fn store<T: Element>(lines: &[T::Acc], m: Matrix, s: &Sizes, out: &mut ViewMut<'_, T>) {
        for (j, line) in lines.chunks_exact(widths(s).0).enumerate() {
            for (c, &v) in line[..s.features].iter().enumerate() {
                out.data()[m.at(j, c)] = T::narrow(v);
            }
        }
    }
}
