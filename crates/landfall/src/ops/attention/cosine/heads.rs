//! Attention of normalised queries and keys, sixteen heads at a time, as `attention_heads` does that of any.

use super::part;
use crate::kernel::cpu::isa::{Kernel, Real, Simd};
use crate::kernel::cpu::lanes::{LANES, SavedStat, cut};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{View, ViewMut};
use crate::ops::attention::cpu_heads::{
    BLOCK, Heads, LaneVec, combine, exponentials, largest, logarithm, products, put, slope, spread_block,
};
use crate::ops::attention::cpu_tiles::{BATCH_PER_PANEL, Sizes};
use crate::values::{Element, Layout, Math};

/// Lines of scratch memory that [`Forward`] takes.
pub(in crate::ops) fn forward_lines(s: &Sizes) -> usize {
    s.n * (3 * s.features + 2) + s.keys
}

/// Lines of scratch memory that [`Gradient`] takes.
pub(in crate::ops) fn gradient_lines(s: &Sizes) -> usize {
    s.n * (6 * s.features + 4) + s.features + 2 * BLOCK * s.keys
}

/// Attention of one task's batch entries, the first of which is `start` in the inputs. The layout of the temperatures is that
/// of `[B, h, 1]`.
#[derive(Debug)]
pub(in crate::ops) struct Forward<'a, T: Element, W> {
    pub(in crate::ops) s: Sizes,
    pub(in crate::ops) start: usize,
    pub(in crate::ops) eps: f64,
    pub(in crate::ops) qkv: View<'a, T>,
    pub(in crate::ops) temperature: View<'a, W>,
    pub(in crate::ops) out: ViewMut<'a, T>,
    pub(in crate::ops) lse: ViewMut<'a, T::Acc>,
    pub(in crate::ops) scratch: &'a mut [T::Acc],
}

impl<T: Element<Acc: Arith + Real>, W: Element> Kernel for Forward<'_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let (s, start, one) = (self.s, self.start, [T::Acc::of_f64(1.0); LANES]);
        let eps = T::Acc::of_f64(self.eps);
        let parts = parts(self.qkv.layout());
        let mut rest = self.scratch.as_chunks_mut::<LANES>().0;
        // Features past the last stay zero.
        rest.fill(LaneVec::<T::Acc>::default());
        let [queries, keys, values] = [(); 3].map(|()| cut(&mut rest, s.n * s.features));
        let [levels, inverse] = [(); 2].map(|()| cut(&mut rest, s.n));
        let tile = cut(&mut rest, s.keys);
        let mut groups = Heads::of(s, self.out.outer()).peekable();
        while let Some(heads) = groups.next() {
            // What the next group reads is asked for meanwhile, and where this one writes: memory answers late.
            let next = groups.peek().copied().unwrap_or(heads);
            let next = parts.each_ref().map(|part| next.features(part, start));
            let to = heads.features(self.out.layout(), 0);
            for (part, lines) in parts.iter().zip([&mut *queries, &mut *keys, &mut *values]) {
                heads.features(part, start).load_all(simd, self.qkv.data(), &s, lines);
            }
            let temperature = temperature(&self.temperature, heads, start);
            normalise(simd, queries, inverse, eps, &temperature);
            normalise(simd, keys, inverse, eps, &one);
            for (i, (query, level)) in queries.chunks_exact_mut(s.features).zip(levels.iter_mut()).enumerate()
            {
                next.iter().for_each(|next| next.prefetch(self.qkv.data(), i, s.e));
                to.prefetch(self.out.data(), i, s.e);
                products(simd, query, keys, tile);
                let top = largest(&tile[..s.n]);
                let sum = exponentials(simd, tile, s.n, &top);
                for c in (0..s.e).step_by(BATCH_PER_PANEL) {
                    let mut part = combine(simd, &tile[..s.n], values, s.features, c);
                    part.iter_mut().for_each(|line| *line = over(line, &sum));
                    put(&part, &mut query[c..s.e]);
                }
                logarithm(level, &top, &sum);
            }
            to.store_all(simd, queries, &s, self.out.data());
            heads.scores(self.lse.layout(), 0).store(simd, levels, 0, self.lse.data());
        }
    }
}

/// Gradient of one task's batch entries, the first of which is `start` in the inputs.
#[derive(Debug)]
pub(in crate::ops) struct Gradient<'a, T: Element, W> {
    pub(in crate::ops) s: Sizes,
    pub(in crate::ops) start: usize,
    pub(in crate::ops) eps: f64,
    pub(in crate::ops) qkv: View<'a, T>,
    pub(in crate::ops) temperature: View<'a, W>,
    pub(in crate::ops) out: View<'a, T>,
    pub(in crate::ops) lse: SavedStat<'a>,
    pub(in crate::ops) g: View<'a, T>,
    pub(in crate::ops) gqkv: ViewMut<'a, T>,
    /// What each head adds to the gradient of its temperature.
    pub(in crate::ops) turned: &'a mut [T::Acc],
    pub(in crate::ops) scratch: &'a mut [T::Acc],
}

impl<T: Element<Acc: Arith + Real>, W: Element> Kernel for Gradient<'_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let (s, start, eps) = (self.s, self.start, T::Acc::of_f64(self.eps));
        let (zero, one) = (LaneVec::<T::Acc>::default(), [T::Acc::of_f64(1.0); LANES]);
        let (from, results) = (parts(self.qkv.layout()), parts(self.gqkv.layout()));
        let mut rest = self.scratch.as_chunks_mut::<LANES>().0;
        // Features past the last stay zero.
        rest.fill(zero);
        let [queries, keys, values, outer, key_sums, value_sums] =
            [(); 6].map(|()| cut(&mut rest, s.n * s.features));
        let [less, levels, of_queries, of_keys] = [(); 4].map(|()| cut(&mut rest, s.n));
        let [tiles, slopes] = [(); 2].map(|()| cut(&mut rest, BLOCK * s.keys));
        let row = cut(&mut rest, s.features);
        let mut groups = Heads::of(s, self.gqkv.outer()).peekable();
        while let Some(heads) = groups.next() {
            // What the next group reads is asked for meanwhile, and where this one writes: memory answers late.
            let next = groups.peek().copied().unwrap_or(heads);
            let next_parts = from.each_ref().map(|part| next.features(part, start));
            let next_rows = [&self.g, &self.out].map(|x| next.features(x.layout(), start));
            let to = results.each_ref().map(|part| heads.features(part, 0));
            for (part, lines) in from.iter().zip([&mut *queries, &mut *keys, &mut *values]) {
                heads.features(part, start).load_all(simd, self.qkv.data(), &s, lines);
            }
            heads.features(self.g.layout(), start).load_all(simd, self.g.data(), &s, outer);
            let temperature = temperature(&self.temperature, heads, start);
            normalise(simd, queries, of_queries, eps, &one);
            normalise(simd, keys, of_keys, eps, &one);
            let kept = heads.features(self.out.layout(), start);
            for (i, (level, outer)) in levels.iter_mut().zip(outer.chunks_exact(s.features)).enumerate() {
                kept.load(simd, self.out.data(), i, &mut row[..s.e]);
                // In the order and roundings of the products below: of one key they cancel.
                *level = sum_of_products(simd, outer, row);
            }
            match &self.lse {
                SavedStat::F32(x) => heads.scores(x.layout(), start).load_row(x.data(), less),
                SavedStat::F64(x) => heads.scores(x.layout(), start).load_row(x.data(), less),
            }
            key_sums.fill(zero);
            value_sums.fill(zero);
            let mut turned = zero;
            for first in (0..s.n).step_by(BLOCK) {
                let block = first..s.n.min(first + BLOCK);
                for (i, (tile, slopes)) in
                    block.clone().zip(tiles.chunks_exact_mut(s.keys).zip(slopes.chunks_exact_mut(s.keys)))
                {
                    next_parts.iter().for_each(|next| next.prefetch(self.qkv.data(), i, s.e));
                    for (next, x) in next_rows.iter().zip([&self.g, &self.out]) {
                        next.prefetch(x.data(), i, s.e);
                    }
                    to.iter().for_each(|to| to.prefetch(self.gqkv.data(), i, s.e));
                    products(simd, &queries[i * s.features..][..s.features], keys, tile);
                    tile.iter_mut().for_each(|line| *line = by(line, &temperature));
                    products(simd, &outer[i * s.features..][..s.features], values, slopes);
                    slope(simd, tile, slopes, [&less[i], &levels[i]]);
                }
                for c in (0..s.e).step_by(BATCH_PER_PANEL) {
                    spread_block(simd, tiles, &outer[first * s.features..], value_sums, &s, block.len(), c);
                    spread_block(simd, slopes, &queries[first * s.features..], key_sums, &s, block.len(), c);
                }
                for (i, slopes) in block.zip(slopes.chunks_exact(s.keys)) {
                    for c in (0..s.e).step_by(BATCH_PER_PANEL) {
                        let part = combine(simd, &slopes[..s.n], keys, s.features, c);
                        put(&part, &mut row[c..s.e]);
                    }
                    let unit = &mut queries[i * s.features..][..s.features];
                    let along = beside(simd, row, unit, &by(&of_queries[i], &temperature));
                    unit.copy_from_slice(row);
                    for l in 0..LANES {
                        turned[l] = turned[l] + along[l];
                    }
                }
            }
            for ((sums, unit), inverse) in
                key_sums.chunks_exact_mut(s.features).zip(keys.chunks_exact(s.features)).zip(&*of_keys)
            {
                beside(simd, sums, unit, &by(inverse, &temperature));
            }
            for (to, lines) in to.iter().zip([&*queries, &*key_sums, &*value_sums]) {
                to.store_all(simd, lines, &s, self.gqkv.data());
            }
            for (own, &turned) in self.turned[heads.numbers()].iter_mut().zip(&turned) {
                *own = turned;
            }
        }
    }
}

/// Where queries, keys and values lie in `[B, N, 3, h, e]`.
fn parts(qkv: &Layout) -> [Layout; 3] {
    [0, 1, 2].map(|i| part(qkv, i))
}

/// The temperatures of sixteen heads.
#[inline(always)]
fn temperature<W: Element, A: Arith>(x: &View<'_, W>, heads: Heads, start: usize) -> LaneVec<A> {
    let mut line = [LaneVec::default()];
    heads.scores(x.layout(), start).load_row(x.data(), &mut line);
    line[0]
}

#[inline(always)]
fn by<A: Arith>(x: &LaneVec<A>, y: &LaneVec<A>) -> LaneVec<A> {
    std::array::from_fn(|l| x[l] * y[l])
}

#[inline(always)]
fn over<A: Arith>(x: &LaneVec<A>, y: &LaneVec<A>) -> LaneVec<A> {
    std::array::from_fn(|l| x[l] / y[l])
}

#[inline(always)]
fn sum_of_products<A: Arith + Real, S: Simd>(simd: S, x: &[LaneVec<A>], y: &[LaneVec<A>]) -> LaneVec<A> {
    let mut sum = LaneVec::default();
    for (x, y) in x.iter().zip(y) {
        for l in 0..LANES {
            sum[l] = simd.mul_add(x[l], y[l], sum[l]);
        }
    }
    sum
}

/// Divides rows by their lengths, and multiplies them by `factor`. What they are divided by is kept, inverted.
#[inline(always)]
fn normalise<A: Arith + Real, S: Simd>(
    simd: S,
    rows: &mut [LaneVec<A>],
    inverse: &mut [LaneVec<A>],
    eps: A,
    factor: &LaneVec<A>,
) {
    let width = rows.len() / inverse.len().max(1);
    for (row, inverse) in rows.chunks_exact_mut(width.max(1)).zip(inverse) {
        // Four sums, whose additions overlap.
        let mut sums = [LaneVec::default(); BATCH_PER_PANEL];
        for lines in row.as_chunks::<BATCH_PER_PANEL>().0 {
            for (sum, x) in sums.as_flattened_mut().iter_mut().zip(lines.as_flattened()) {
                *sum = simd.mul_add(*x, *x, *sum);
            }
        }
        let [s0, s1, s2, s3] = sums;
        let mut scale = LaneVec::default();
        for l in 0..LANES {
            inverse[l] = A::of_f64(1.0) / Math::sqrt((s0[l] + s1[l]) + (s2[l] + s3[l]) + eps);
            scale[l] = inverse[l] * factor[l];
        }
        row.iter_mut().for_each(|line| *line = by(line, &scale));
    }
}

/// The slope of a row from that of the row of length 1 that it becomes: `g ← factor·(g − u·Σ g·u)`. The sum is the result.
#[inline(always)]
fn beside<A: Arith + Real, S: Simd>(
    simd: S,
    g: &mut [LaneVec<A>],
    u: &[LaneVec<A>],
    factor: &LaneVec<A>,
) -> LaneVec<A> {
    let along = sum_of_products(simd, g, u);
    for (g, u) in g.iter_mut().zip(u) {
        for l in 0..LANES {
            g[l] = factor[l] * (g[l] - u[l] * along[l]);
        }
    }
    along
}
