//! Attention over few tokens, sixteen heads at a time.
//!
//! With fewer tokens than a vector has lanes, a panel of queries is mostly padding. Here a lane is one head of one batch
//! entry, and every product is of two vectors: element `[i][c]` of all sixteen lies in one line of [`LANES`]. What is
//! left to pay is the turning of operands and results, once for each element.

use super::attention_tile::{Matrix, Sizes};
use super::lanes::LANES;
use crate::Element;
use crate::codegen::tile::Arith;
use crate::cpu::{View, ViewMut};
use crate::layout::Layout;
use crate::math::Math;

/// Tokens up to which heads are taken together: at half a vector, a panel of queries is half padding.
pub(super) const FEW: usize = 8;

/// One value of sixteen heads.
type Line<A> = [A; LANES];

/// Heads `first..first + count` of a task, counted over its batch entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) heads: usize,
    pub(super) n: usize,
    pub(super) e: usize,
}

impl Heads {
    /// The groups of a task of `batch` entries.
    pub(super) fn of(s: Sizes, batch: usize) -> impl Iterator<Item = Self> {
        let all = batch * s.heads;
        (0..all).step_by(LANES).map(move |first| Self {
            first,
            count: LANES.min(all - first),
            heads: s.heads,
            n: s.n,
            e: s.e,
        })
    }

    /// Where the matrix of lane `lane` lies; `start` is the task's first entry in this operand.
    #[inline(always)]
    fn features(&self, layout: &Layout, start: usize, lane: usize) -> Matrix {
        let index = self.first + lane;
        Matrix::features(layout, start + index / self.heads, index % self.heads)
    }

    /// As [`features`](Self::features), for scores and rows of them.
    #[inline(always)]
    pub(super) fn scores(&self, layout: &Layout, start: usize, lane: usize) -> Matrix {
        let index = self.first + lane;
        Matrix::scores(layout, start + index / self.heads, index % self.heads)
    }

    /// Loads `[n, e]` of every head, times `factor`. Lanes past the last head are zero.
    #[inline(always)]
    pub(super) fn load<T: Element<Acc: Arith>>(
        &self,
        x: &View<'_, T>,
        start: usize,
        factor: T::Acc,
        lines: &mut [T::Acc],
    ) {
        if self.count < LANES {
            lines.fill(T::Acc::default());
        }
        for lane in 0..self.count {
            let m = self.features(x.layout(), start, lane);
            for (i, rows) in lines.chunks_exact_mut(self.e * LANES).take(self.n).enumerate() {
                let data = &x.data()[m.at(i, 0)..];
                for (c, line) in rows.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                    line[lane] = data[c * m.column].widen() * factor;
                }
            }
        }
    }

    /// Rounds `[n, e]` of every head into `out`.
    #[inline(always)]
    pub(super) fn store<T: Element>(&self, lines: &[T::Acc], out: &mut ViewMut<'_, T>) {
        let layout = *out.layout();
        for lane in 0..self.count {
            let m = self.features(&layout, 0, lane);
            for (i, rows) in lines.chunks_exact(self.e * LANES).take(self.n).enumerate() {
                let data = &mut out.data()[m.at(i, 0)..];
                for (c, line) in rows.as_chunks::<LANES>().0.iter().enumerate() {
                    data[c * m.column] = T::narrow(line[lane]);
                }
            }
        }
    }

    /// Adds `[n, n]` of every head to the tile.
    #[inline(always)]
    pub(super) fn add_scores<T: Element<Acc: Arith>>(
        &self,
        x: &View<'_, T>,
        start: usize,
        tile: &mut [T::Acc],
    ) {
        for lane in 0..self.count {
            let m = self.scores(x.layout(), start, lane);
            for (at, line) in tile.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                line[lane] = line[lane] + x.data()[m.at(at / self.n, at % self.n)].widen();
            }
        }
    }

    /// Rounds the tile into `[n, n]` of every head.
    #[inline(always)]
    pub(super) fn store_scores<T: Element>(&self, tile: &[T::Acc], out: &mut ViewMut<'_, T>) {
        let layout = *out.layout();
        for lane in 0..self.count {
            let m = self.scores(&layout, 0, lane);
            for (at, line) in tile.as_chunks::<LANES>().0.iter().enumerate() {
                out.data()[m.at(at / self.n, at % self.n)] = T::narrow(line[lane]);
            }
        }
    }

    /// Position of row `i` of lane `lane` in a contiguous `[B, h, N]` that starts at entry `start`.
    #[inline(always)]
    pub(super) fn row(&self, start: usize, lane: usize, i: usize) -> usize {
        (start * self.heads + self.first + lane) * self.n + i
    }

    /// `tile[i][j] = Σ_c x[i][c]·y[j][c]`.
    #[inline(always)]
    pub(super) fn products<A: Arith>(&self, x: &[A], y: &[A], tile: &mut [A]) {
        let (rows, width) = (tile.chunks_exact_mut(self.n * LANES), self.e * LANES);
        for (x, row) in x.chunks_exact(width).zip(rows) {
            for (y, out) in y.chunks_exact(width).zip(row.as_chunks_mut::<LANES>().0) {
                let mut sum = [A::default(); LANES];
                for (x, y) in x.as_chunks::<LANES>().0.iter().zip(y.as_chunks::<LANES>().0) {
                    for l in 0..LANES {
                        sum[l] = sum[l] + x[l] * y[l];
                    }
                }
                *out = sum;
            }
        }
    }

    /// `out[i][c] = Σ_j tile[i][j]·x[j][c]`, or with `turned` `Σ_j tile[j][i]·x[j][c]`, times `factor[i]`.
    #[inline(always)]
    pub(super) fn combine<A: Arith>(
        &self,
        tile: &[A],
        turned: bool,
        x: &[A],
        factor: impl Fn(usize) -> Line<A>,
        out: &mut [A],
    ) {
        let (n, width) = (self.n, self.e * LANES);
        let tile = tile.as_chunks::<LANES>().0;
        for (i, out) in out.chunks_exact_mut(width).take(n).enumerate() {
            let factor = factor(i);
            for (c, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let mut sum = [A::default(); LANES];
                for j in 0..n {
                    let (p, x) =
                        (&tile[if turned { j * n + i } else { i * n + j }], &x[(j * self.e + c) * LANES..]);
                    let Some(x) = x.first_chunk::<LANES>() else { break };
                    for l in 0..LANES {
                        sum[l] = sum[l] + p[l] * x[l];
                    }
                }
                for l in 0..LANES {
                    out[l] = sum[l] * factor[l];
                }
            }
        }
    }

    /// Turns products `tile[i][j] = g[i]·v[j]` into the gradient of the scores:
    /// `tile ← weights·(tile − Σ_c g[i][c]·kept[i][c])`.
    #[inline(always)]
    pub(super) fn slope<A: Arith>(&self, weights: &[A], g: &[A], kept: &[A], tile: &mut [A]) {
        let (width, height) = (self.e * LANES, self.n * LANES);
        let rows = weights.chunks_exact(height).zip(tile.chunks_exact_mut(height));
        for ((g, kept), (weights, row)) in g.chunks_exact(width).zip(kept.chunks_exact(width)).zip(rows) {
            let mut level = [A::default(); LANES];
            for (g, kept) in g.as_chunks::<LANES>().0.iter().zip(kept.as_chunks::<LANES>().0) {
                for l in 0..LANES {
                    level[l] = level[l] + g[l] * kept[l];
                }
            }
            for (line, p) in row.as_chunks_mut::<LANES>().0.iter_mut().zip(weights.as_chunks::<LANES>().0) {
                for l in 0..LANES {
                    line[l] = p[l] * (line[l] - level[l]);
                }
            }
        }
    }

    /// Takes `less[i]` off row `i` of the tile and replaces it by its exponentials.
    #[inline(always)]
    pub(super) fn exponentials<A: Arith>(&self, tile: &mut [A], less: &[Line<A>; FEW]) {
        for (row, less) in tile.chunks_exact_mut(self.n * LANES).zip(less) {
            for line in row.as_chunks_mut::<LANES>().0 {
                for l in 0..LANES {
                    line[l] = line[l] - less[l];
                }
            }
        }
        // One long loop: the exponential's steps vectorise in it.
        for v in tile {
            *v = Math::exp(*v);
        }
    }

    /// The largest element of each row of the tile.
    #[inline(always)]
    pub(super) fn largest<A: Arith>(&self, tile: &[A]) -> [Line<A>; FEW] {
        self.joined(tile, A::of_f64(f64::NEG_INFINITY), Math::max)
    }

    /// The sum of each row of the tile.
    #[inline(always)]
    pub(super) fn sums<A: Arith>(&self, tile: &[A]) -> [Line<A>; FEW] {
        self.joined(tile, A::default(), |a, b| a + b)
    }

    #[inline(always)]
    fn joined<A: Arith>(&self, tile: &[A], start: A, join: impl Fn(A, A) -> A) -> [Line<A>; FEW] {
        let mut all = [[start; LANES]; FEW];
        for (row, out) in tile.chunks_exact(self.n * LANES).zip(&mut all) {
            for line in row.as_chunks::<LANES>().0 {
                for l in 0..LANES {
                    out[l] = join(out[l], line[l]);
                }
            }
        }
        all
    }
}
