//! Attention of many small heads, sixteen at a time.
//!
//! A lane is one head of one batch entry, and every product is of two vectors: element `[i][c]` of all sixteen lies in
//! one line of [`LANES`]. Nothing is padded to vectors and no lanes are joined, whatever the number of tokens and
//! features; the matrices of sixteen heads have to stay near, though. They are turned as they are read and written,
//! four features at a time. Queries are taken one by one, and a tile is the line of scores of one query.

use crate::kernel::cpu::isa::{Kernel, Real, Simd, prefetch_read};
use crate::kernel::cpu::lanes::{LANES, SavedStat, cut};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{View, ViewMut};
use crate::ops::attention::cpu_tiles::{BATCH_PER_PANEL, Matrix, Sizes};
use crate::values::{Element, Layout, Math};
use std::ops::Range;

/// Queries whose tiles are kept together, so that a sum over queries is read and written once for all of them.
pub(in crate::ops) const BLOCK: usize = 4;

/// One value of sixteen heads.
pub(in crate::ops) type LaneVec<A> = [A; LANES];

/// Heads `first..first + count` of a task, counted over its batch entries.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Heads {
    first: usize,
    count: usize,
    heads: usize,
}

impl Heads {
    /// The groups of a task of `batch` entries.
    pub(in crate::ops) fn of(s: Sizes, batch: usize) -> impl Iterator<Item = Self> {
        let all = batch * s.heads;
        (0..all).step_by(LANES).map(move |first| Self {
            first,
            count: LANES.min(all - first),
            heads: s.heads,
        })
    }

    /// The numbers of its heads, counted over the batch entries of the task.
    pub(in crate::ops) fn numbers(self) -> Range<usize> {
        self.first..self.first + self.count
    }

    /// Where `[n, e]` of each head lies in `[B, N, h, e]`; the task's first entry is `start` there.
    #[inline(always)]
    pub(in crate::ops) fn features(self, layout: &Layout, start: usize) -> Offsets {
        self.places(|b, head| Matrix::features(layout, start + b, head))
    }

    /// Where `[n, n]` of each head lies in `[B, h, N, N]`, or the row `[n]` in `[B, h, N]`.
    #[inline(always)]
    pub(in crate::ops) fn scores(self, layout: &Layout, start: usize) -> Offsets {
        self.places(|b, head| Matrix::scores(layout, start + b, head))
    }

    #[inline(always)]
    fn places(self, of: impl Fn(usize, usize) -> Matrix) -> Offsets {
        let (mut b, mut head) = (self.first / self.heads, self.first % self.heads);
        let first = of(b, head);
        let mut at = [first.at(0, 0); LANES];
        for lane in 1..LANES {
            if lane < self.count {
                head += 1;
                if head == self.heads {
                    (b, head) = (b + 1, 0);
                }
            }
            at[lane] = of(b, head).at(0, 0);
        }
        Offsets { at, row: first.row, column: first.column }
    }
}

/// Where the matrices of sixteen heads lie.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Offsets {
    at: [usize; LANES],
    row: usize,
    column: usize,
}

impl Offsets {
    /// Loads `lines.len()` elements of row `row` of every matrix.
    #[inline(always)]
    pub(in crate::ops) fn load<T: Element<Acc: Arith + Real>, S: Simd>(
        &self,
        simd: S,
        x: &[T],
        row: usize,
        lines: &mut [LaneVec<T::Acc>],
    ) {
        let at = self.row(row);
        let (blocks, rest) =
            if self.column == 1 { lines.as_chunks_mut::<BATCH_PER_PANEL>() } else { (&mut [][..], lines) };
        for (c, block) in blocks.iter_mut().enumerate() {
            *block = T::Acc::lines(simd, &x[c * BATCH_PER_PANEL..], &at);
        }
        for (c, line) in (blocks.len() * BATCH_PER_PANEL..).zip(rest) {
            let x = &x[c * self.column..];
            *line = at.map(|at| x[at].widen());
        }
    }

    /// Asks for `len` elements of row `row` of every matrix.
    #[inline(always)]
    pub(in crate::ops) fn prefetch<T>(&self, x: &[T], row: usize, len: usize) {
        let at = self.row(row);
        for c in (0..len).step_by(LANES) {
            for at in at {
                prefetch_read(x.as_ptr().wrapping_add(at + c));
            }
        }
    }

    /// Where row `row` of every matrix starts.
    #[inline(always)]
    fn row(&self, row: usize) -> [usize; LANES] {
        self.at.map(|at| at + row * self.row)
    }

    /// [`load`](Self::load) of every row.
    #[inline(always)]
    pub(in crate::ops) fn load_all<T: Element<Acc: Arith + Real>, S: Simd>(
        &self,
        simd: S,
        x: &[T],
        s: &Sizes,
        lines: &mut [LaneVec<T::Acc>],
    ) {
        for (i, lines) in lines.chunks_exact_mut(s.features).enumerate() {
            self.load(simd, x, i, &mut lines[..s.e]);
        }
    }

    /// [`store`](Self::store) of every row.
    #[inline(always)]
    pub(in crate::ops) fn store_all<T: Element<Acc: Arith + Real>, S: Simd>(
        &self,
        simd: S,
        lines: &[LaneVec<T::Acc>],
        s: &Sizes,
        out: &mut [T],
    ) {
        for (i, lines) in lines.chunks_exact(s.features).enumerate() {
            self.store(simd, &lines[..s.e], i, out);
        }
    }

    /// Adds row `row` of every matrix to a tile, by way of `lines`.
    #[inline(always)]
    fn add<T: Element<Acc: Arith + Real>, S: Simd>(
        &self,
        simd: S,
        x: &[T],
        row: usize,
        lines: &mut [LaneVec<T::Acc>],
        tile: &mut [LaneVec<T::Acc>],
    ) {
        self.load(simd, x, row, lines);
        for (v, more) in tile.as_flattened_mut().iter_mut().zip(lines.as_flattened()) {
            *v = *v + *more;
        }
    }

    /// Loads the one row of every matrix.
    #[inline(always)]
    pub(in crate::ops) fn load_row<T: Element, A: Arith>(&self, x: &[T], lines: &mut [LaneVec<A>]) {
        for (c, line) in lines.iter_mut().enumerate() {
            *line = self.at.map(|at| A::load(x[at + c * self.column]));
        }
    }

    /// Rounds `lines` into row `row` of every matrix.
    #[inline(always)]
    pub(in crate::ops) fn store<T: Element<Acc: Arith + Real>, S: Simd>(
        &self,
        simd: S,
        lines: &[LaneVec<T::Acc>],
        row: usize,
        out: &mut [T],
    ) {
        let at = self.row(row);
        let (blocks, rest) =
            if self.column == 1 { lines.as_chunks::<BATCH_PER_PANEL>() } else { (&[][..], lines) };
        for (c, block) in blocks.iter().enumerate() {
            T::Acc::unlines(simd, block, &mut out[c * BATCH_PER_PANEL..], &at);
        }
        for (c, line) in (blocks.len() * BATCH_PER_PANEL..).zip(rest) {
            let out = &mut out[c * self.column..];
            for (at, &v) in at.into_iter().zip(line) {
                out[at] = T::narrow(v);
            }
        }
    }
}

/// Lines of scratch memory that [`Forward`] takes.
pub(in crate::ops) fn forward_lines(s: &Sizes) -> usize {
    s.n * (3 * s.features + 2) + s.keys
}

/// Lines of scratch memory that [`Gradient`] takes.
pub(in crate::ops) fn gradient_lines(s: &Sizes) -> usize {
    s.n * (6 * s.features + 3) + s.features + 2 * BLOCK * s.keys
}

/// Attention of one task's batch entries, the first of which is `start` in the inputs.
#[derive(Debug)]
pub(in crate::ops) struct Forward<'a, T: Element> {
    pub(in crate::ops) s: Sizes,
    pub(in crate::ops) start: usize,
    pub(in crate::ops) scale: f64,
    pub(in crate::ops) q: View<'a, T>,
    pub(in crate::ops) k: View<'a, T>,
    pub(in crate::ops) v: View<'a, T>,
    /// Scores to add, unless they lie in `emitted`.
    pub(in crate::ops) previous: Option<View<'a, T>>,
    pub(in crate::ops) in_place: bool,
    pub(in crate::ops) out: ViewMut<'a, T>,
    pub(in crate::ops) lse: ViewMut<'a, T::Acc>,
    pub(in crate::ops) emitted: Option<ViewMut<'a, T>>,
    pub(in crate::ops) scratch: &'a mut [T::Acc],
}

impl<T: Element<Acc: Arith + Real>> Kernel for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let (s, start, one) = (self.s, self.start, T::Acc::of_f64(1.0));
        let mut rest = self.scratch.as_chunks_mut::<LANES>().0;
        // Features past the last stay zero.
        rest.fill(LaneVec::<T::Acc>::default());
        let [queries, keys, values] = [(); 3].map(|()| cut(&mut rest, s.n * s.features));
        let [levels, row] = [(); 2].map(|()| cut(&mut rest, s.n));
        let tile = cut(&mut rest, s.keys);
        let mut groups = Heads::of(s, self.out.outer()).peekable();
        while let Some(heads) = groups.next() {
            // What the next group reads is asked for meanwhile, and where this one writes: memory answers late.
            let next = groups.peek().copied().unwrap_or(heads);
            let next = [&self.q, &self.k, &self.v].map(|x| next.features(x.layout(), start));
            let to = heads.features(self.out.layout(), 0);
            for (x, lines) in [(&self.q, &mut *queries), (&self.k, &mut *keys), (&self.v, &mut *values)] {
                heads.features(x.layout(), start).load_all(simd, x.data(), &s, lines);
            }
            times(queries, T::Acc::of_f64(self.scale));
            for (i, (query, level)) in queries.chunks_exact_mut(s.features).zip(levels.iter_mut()).enumerate()
            {
                for (next, x) in next.iter().zip([&self.q, &self.k, &self.v]) {
                    next.prefetch(x.data(), i, s.e);
                }
                to.prefetch(self.out.data(), i, s.e);
                products(simd, query, keys, tile);
                match (&self.previous, &self.emitted) {
                    (Some(p), _) => heads.scores(p.layout(), start).add(simd, p.data(), i, row, tile),
                    (None, Some(own)) if self.in_place => {
                        heads.scores(own.layout(), 0).add(simd, own.read().data(), i, row, tile);
                    }
                    (None, _) => {}
                }
                if let Some(emitted) = &mut self.emitted {
                    heads.scores(emitted.layout(), 0).store(simd, &tile[..s.n], i, emitted.data());
                }
                let top = largest(&tile[..s.n]);
                let sum = exponentials(simd, tile, s.n, &top);
                let inverse = sum.map(|sum| one / sum);
                for c in (0..s.e).step_by(BATCH_PER_PANEL) {
                    let mut part = combine(simd, &tile[..s.n], values, s.features, c);
                    for line in &mut part {
                        for l in 0..LANES {
                            line[l] = line[l] * inverse[l];
                        }
                    }
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
pub(in crate::ops) struct Gradient<'a, T: Element> {
    pub(in crate::ops) s: Sizes,
    pub(in crate::ops) start: usize,
    pub(in crate::ops) scale: f64,
    pub(in crate::ops) q: View<'a, T>,
    pub(in crate::ops) k: View<'a, T>,
    pub(in crate::ops) v: View<'a, T>,
    pub(in crate::ops) out: View<'a, T>,
    pub(in crate::ops) lse: SavedStat<'a>,
    pub(in crate::ops) g: View<'a, T>,
    /// Scores to add, unless they lie in `g_previous`.
    pub(in crate::ops) previous: Option<View<'a, T>>,
    pub(in crate::ops) previous_in_place: bool,
    /// Cotangent of the scores, unless it lies in `g_previous`.
    pub(in crate::ops) cotangent: Option<View<'a, T>>,
    pub(in crate::ops) cotangent_in_place: bool,
    pub(in crate::ops) gq: ViewMut<'a, T>,
    pub(in crate::ops) gk: ViewMut<'a, T>,
    pub(in crate::ops) gv: ViewMut<'a, T>,
    pub(in crate::ops) g_previous: Option<ViewMut<'a, T>>,
    pub(in crate::ops) scratch: &'a mut [T::Acc],
}

impl<T: Element<Acc: Arith + Real>> Kernel for Gradient<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let (s, start, scale) = (self.s, self.start, T::Acc::of_f64(self.scale));
        let zero = LaneVec::<T::Acc>::default();
        let mut rest = self.scratch.as_chunks_mut::<LANES>().0;
        // Features past the last stay zero.
        rest.fill(zero);
        let [queries, keys, values, outer, key_sums, value_sums] =
            [(); 6].map(|()| cut(&mut rest, s.n * s.features));
        let [less, levels, row] = [(); 3].map(|()| cut(&mut rest, s.n));
        let [tiles, slopes] = [(); 2].map(|()| cut(&mut rest, BLOCK * s.keys));
        let kept = cut(&mut rest, s.features);
        let mut groups = Heads::of(s, self.gq.outer()).peekable();
        while let Some(heads) = groups.next() {
            // What the next group reads is asked for meanwhile, and where this one writes: memory answers late.
            let next = groups.peek().copied().unwrap_or(heads);
            let next =
                [&self.q, &self.k, &self.v, &self.g, &self.out].map(|x| next.features(x.layout(), start));
            let [to_q, to_k, to_v] = [&self.gq, &self.gk, &self.gv].map(|x| heads.features(x.layout(), 0));
            let operands = [
                (&self.q, &mut *queries),
                (&self.k, &mut *keys),
                (&self.v, &mut *values),
                (&self.g, &mut *outer),
            ];
            for (x, lines) in operands {
                heads.features(x.layout(), start).load_all(simd, x.data(), &s, lines);
            }
            times(queries, scale);
            let from = heads.features(self.out.layout(), start);
            for (i, (level, outer)) in levels.iter_mut().zip(outer.chunks_exact(s.features)).enumerate() {
                from.load(simd, self.out.data(), i, &mut kept[..s.e]);
                // In the order and roundings of the products below: of one key they cancel.
                *level = zero;
                for (g, o) in outer.iter().zip(&*kept) {
                    for l in 0..LANES {
                        level[l] = simd.mul_add(g[l], o[l], level[l]);
                    }
                }
            }
            match &self.lse {
                SavedStat::F32(x) => heads.scores(x.layout(), start).load_row(x.data(), less),
                SavedStat::F64(x) => heads.scores(x.layout(), start).load_row(x.data(), less),
            }
            key_sums.fill(zero);
            value_sums.fill(zero);
            for first in (0..s.n).step_by(BLOCK) {
                let block = first..s.n.min(first + BLOCK);
                for (i, (tile, slopes)) in
                    block.clone().zip(tiles.chunks_exact_mut(s.keys).zip(slopes.chunks_exact_mut(s.keys)))
                {
                    for (next, x) in next.iter().zip([&self.q, &self.k, &self.v, &self.g, &self.out]) {
                        next.prefetch(x.data(), i, s.e);
                    }
                    to_q.prefetch(self.gq.data(), i, s.e);
                    to_k.prefetch(self.gk.data(), i, s.e);
                    to_v.prefetch(self.gv.data(), i, s.e);
                    products(simd, &queries[i * s.features..][..s.features], keys, tile);
                    match (&self.previous, &self.g_previous) {
                        (Some(p), _) => heads.scores(p.layout(), start).add(simd, p.data(), i, row, tile),
                        (None, Some(own)) if self.previous_in_place => {
                            heads.scores(own.layout(), 0).add(simd, own.read().data(), i, row, tile);
                        }
                        (None, _) => {}
                    }
                    products(simd, &outer[i * s.features..][..s.features], values, slopes);
                    slope(simd, tile, slopes, [&less[i], &levels[i]]);
                    match (&self.cotangent, &self.g_previous) {
                        (Some(c), _) => heads.scores(c.layout(), start).add(simd, c.data(), i, row, slopes),
                        (None, Some(own)) if self.cotangent_in_place => {
                            heads.scores(own.layout(), 0).add(simd, own.read().data(), i, row, slopes);
                        }
                        (None, _) => {}
                    }
                    if let Some(g_previous) = &mut self.g_previous {
                        let to = heads.scores(g_previous.layout(), 0);
                        to.store(simd, &slopes[..s.n], i, g_previous.data());
                    }
                }
                for c in (0..s.e).step_by(BATCH_PER_PANEL) {
                    spread_block(simd, tiles, &outer[first * s.features..], value_sums, &s, block.len(), c);
                    spread_block(simd, slopes, &queries[first * s.features..], key_sums, &s, block.len(), c);
                    for (i, slopes) in block.clone().zip(slopes.chunks_exact(s.keys)) {
                        let mut part = combine(simd, &slopes[..s.n], keys, s.features, c);
                        times(&mut part, scale);
                        put(&part, &mut queries[i * s.features..][c..s.e]);
                    }
                }
            }
            to_q.store_all(simd, queries, &s, self.gq.data());
            to_k.store_all(simd, key_sums, &s, self.gk.data());
            to_v.store_all(simd, value_sums, &s, self.gv.data());
        }
    }
}

/// Multiplies lines by a number.
#[inline(always)]
pub(in crate::ops) fn times<A: Arith>(lines: &mut [LaneVec<A>], factor: A) {
    for v in lines.as_flattened_mut() {
        *v = *v * factor;
    }
}

/// `tile[j] = Σ_c x[c]·y[j][c]`, where `y` has as many lines for each `j` as `x`, in blocks of four.
#[inline(always)]
pub(in crate::ops) fn products<A: Arith + Real, S: Simd>(
    simd: S,
    x: &[LaneVec<A>],
    y: &[LaneVec<A>],
    tile: &mut [LaneVec<A>],
) {
    let width = x.len();
    for (c, x) in x.as_chunks::<BATCH_PER_PANEL>().0.iter().enumerate() {
        let [x0, x1, x2, x3] = *x;
        for (y, out) in y.chunks_exact(width).zip(tile.iter_mut()) {
            let Some([y0, y1, y2, y3]) = y[c * BATCH_PER_PANEL..].first_chunk::<BATCH_PER_PANEL>() else {
                break;
            };
            let mut sum = if c == 0 { LaneVec::default() } else { *out };
            for l in 0..LANES {
                sum[l] = simd.mul_add(x0[l], y0[l], sum[l]);
            }
            for l in 0..LANES {
                sum[l] = simd.mul_add(x1[l], y1[l], sum[l]);
            }
            for l in 0..LANES {
                sum[l] = simd.mul_add(x2[l], y2[l], sum[l]);
            }
            for l in 0..LANES {
                sum[l] = simd.mul_add(x3[l], y3[l], sum[l]);
            }
            *out = sum;
        }
    }
}

/// The largest line. A NaN is passed over: its exponential makes the row NaN.
#[inline(always)]
pub(in crate::ops) fn largest<A: Arith>(tile: &[LaneVec<A>]) -> LaneVec<A> {
    let mut top = [A::of_f64(f64::NEG_INFINITY); LANES];
    for line in tile {
        for l in 0..LANES {
            top[l] = if line[l] > top[l] { line[l] } else { top[l] };
        }
    }
    top
}

/// `tile[j] ← exp(tile[j] − less)` and `Σ_j tile[j]`, with lines up to `n`; those past them become 0.
#[inline(always)]
pub(in crate::ops) fn exponentials<A: Arith + Real, S: Simd>(
    simd: S,
    tile: &mut [LaneVec<A>],
    n: usize,
    less: &LaneVec<A>,
) -> LaneVec<A> {
    tile[n..].fill([A::of_f64(f64::NEG_INFINITY); LANES]);
    let (less, mut sums) = ([*less; BATCH_PER_PANEL], [LaneVec::default(); BATCH_PER_PANEL]);
    // Four lines are long enough to vectorise as a loop; one would be unrolled first, and its steps taken apart.
    for chunk in tile.as_chunks_mut::<BATCH_PER_PANEL>().0 {
        for (v, less) in chunk.as_flattened_mut().iter_mut().zip(less.as_flattened()) {
            *v = Math::weight(*v - *less, |a, b, c| simd.mul_add(a, b, c));
        }
        for (sum, v) in sums.as_flattened_mut().iter_mut().zip(chunk.as_flattened()) {
            *sum = *sum + *v;
        }
    }
    let [mut sum, s1, s2, s3] = sums;
    for l in 0..LANES {
        sum[l] = (sum[l] + s1[l]) + (s2[l] + s3[l]);
    }
    sum
}

/// Puts the lines of some features, as many as there are, into a row from the first of them on.
#[inline(always)]
pub(in crate::ops) fn put<A: Copy>(part: &[LaneVec<A>; BATCH_PER_PANEL], row: &mut [LaneVec<A>]) {
    let count = BATCH_PER_PANEL.min(row.len());
    row[..count].copy_from_slice(&part[..count]);
}

/// `level ← top + ln(sum)`: the logarithm of a sum of exponentials, from those of the differences to the largest.
#[inline(always)]
pub(in crate::ops) fn logarithm<A: Arith + Real>(level: &mut LaneVec<A>, top: &LaneVec<A>, sum: &LaneVec<A>) {
    for l in 0..LANES {
        level[l] = top[l] + Math::ln(sum[l]);
    }
}

/// `sum[lane] += p[lane]·line[lane]` of several sums, a loop for each.
macro_rules! add_products {
    ($simd:ident, $p:ident; $($sum:ident $line:ident),+) => {
        $(for l in 0..LANES {
            $sum[l] = $simd.mul_add($p[l], $line[l], $sum[l]);
        })+
    };
}

/// `Σ_j p[j]·y[j][c..c + 4]`, where `y` has `width` lines for each `j`.
#[inline(always)]
pub(in crate::ops) fn combine<A: Arith + Real, S: Simd>(
    simd: S,
    p: &[LaneVec<A>],
    y: &[LaneVec<A>],
    width: usize,
    c: usize,
) -> [LaneVec<A>; BATCH_PER_PANEL] {
    let [mut o0, mut o1, mut o2, mut o3] = [LaneVec::default(); BATCH_PER_PANEL];
    for (p, y) in p.iter().zip(y.chunks_exact(width)) {
        let Some([y0, y1, y2, y3]) = y[c..].first_chunk::<BATCH_PER_PANEL>() else { break };
        add_products!(simd, p; o0 y0, o1 y1, o2 y2, o3 y3);
    }
    [o0, o1, o2, o3]
}

/// `weights ← exp(weights − less)`, `slopes ← (slopes − level)·weights`.
#[inline(always)]
pub(in crate::ops) fn slope<A: Arith + Real, S: Simd>(
    simd: S,
    weights: &mut [LaneVec<A>],
    slopes: &mut [LaneVec<A>],
    [less, level]: [&LaneVec<A>; 2],
) {
    let (less, level) = ([*less; BATCH_PER_PANEL], [*level; BATCH_PER_PANEL]);
    for (weights, slopes) in weights
        .as_chunks_mut::<BATCH_PER_PANEL>()
        .0
        .iter_mut()
        .zip(slopes.as_chunks_mut::<BATCH_PER_PANEL>().0)
    {
        let lines = weights.as_flattened_mut().iter_mut().zip(slopes.as_flattened_mut());
        for ((p, s), (less, level)) in lines.zip(less.as_flattened().iter().zip(level.as_flattened())) {
            *p = Math::weight(*p - *less, |a, b, c| simd.mul_add(a, b, c));
            *s = (*s - *level) * *p;
        }
    }
}

/// Adds the products of a block of queries to sums over queries: `to[j][c + i] += Σ_q tiles[q][j]·x[q][c + i]`.
#[inline(always)]
pub(in crate::ops) fn spread_block<A: Arith + Real, S: Simd>(
    simd: S,
    tiles: &[LaneVec<A>],
    x: &[LaneVec<A>],
    to: &mut [LaneVec<A>],
    s: &Sizes,
    len: usize,
    c: usize,
) {
    // Of few keys, what stays in registers is not used often enough to pay for its load.
    if len == BLOCK && s.n >= LANES {
        spread::<A, S, BLOCK>(simd, tiles, x, to, s, c);
    } else {
        for (tile, x) in tiles.chunks_exact(s.keys).zip(x.chunks_exact(s.features)).take(len) {
            spread::<A, S, 1>(simd, tile, x, to, s, c);
        }
    }
}

/// [`spread_block`] of `Q` queries, whose lines stay in registers.
#[inline(always)]
fn spread<A: Arith + Real, S: Simd, const Q: usize>(
    simd: S,
    tiles: &[LaneVec<A>],
    x: &[LaneVec<A>],
    to: &mut [LaneVec<A>],
    s: &Sizes,
    c: usize,
) {
    let x: [[LaneVec<A>; BATCH_PER_PANEL]; Q] =
        std::array::from_fn(|q| x[q * s.features + c..].first_chunk().copied().unwrap_or_default());
    let tiles: [&[LaneVec<A>]; Q] = std::array::from_fn(|q| &tiles[q * s.keys..][..s.n]);
    for (j, to) in to.chunks_exact_mut(s.features).enumerate() {
        let Some(to) = to[c..].first_chunk_mut::<BATCH_PER_PANEL>() else { break };
        let [mut t0, mut t1, mut t2, mut t3] = *to;
        for q in 0..Q {
            let (p, [x0, x1, x2, x3]) = (&tiles[q][j], &x[q]);
            add_products!(simd, p; t0 x0, t1 x1, t2 x2, t3 x3);
        }
        *to = [t0, t1, t2, t3];
    }
}
