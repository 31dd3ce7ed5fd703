//! The arithmetic that attention and its gradient share, on tiles of scores.
//!
//! For one batch entry and head, keys and values lie in scratch memory as *panels*: [`LANES`] keys wide, one line for
//! each feature, so that the vector runs over the keys however few features a head has. Scores of a tile of queries
//! lie in panels too: [`LANES`] keys wide, one line for each query. So each product with the keys along the lanes is
//! [`block`]: four lines of the result at once, their 64 sums in registers. Products that sum over the keys are
//! [`dots`]. Keys are padded to whole panels with zeros, queries and features to multiples of four: no tails.

use super::lanes::{LANES, fold};
use crate::Element;
use crate::codegen::tile::Arith;
use crate::cpu::{View, ViewMut};
use crate::layout::Layout;
use crate::math::Math;
use crate::shape::Shape;

/// Lines of a block.
const FOUR: usize = 4;
/// Scores of a tile of long rows: 64 KB of f32, which stay in the second-level cache with the panels in use.
const TILE: usize = 16 * 1024;
/// Queries of a tile at most: `min(N, TILE/N)` has its largest value where both are equal.
const MAX_ROWS: usize = 128;
/// Panels (of 16 keys) that are summed in the accumulation dtype before they are added to an f64 total.
const GROUP: usize = 32;
/// Tasks at most, which bounds the scratch memory.
const TASKS: usize = 64;
/// Multiplications of a task at least.
const GRAIN: usize = 128 * 1024;

/// Sizes of a call, and what they are padded to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) n: usize,
    pub(super) heads: usize,
    pub(super) e: usize,
    /// Keys in whole panels.
    pub(super) keys: usize,
    /// Features in whole blocks.
    pub(super) features: usize,
    /// Queries of a tile, in whole blocks.
    pub(super) rows: usize,
}

impl Sizes {
    /// Sizes of `[B, N, h, e]`.
    pub(super) fn of(q: &Shape) -> Self {
        let [batch, n, heads, e] = *q.dims() else {
            return Self { batch: 0, n: 0, heads: 0, e: 0, keys: 0, features: 0, rows: FOUR };
        };
        let keys = n.next_multiple_of(LANES);
        let rows = n.min((TILE / keys.max(1)).max(2 * FOUR)).next_multiple_of(FOUR).max(FOUR);
        Self { batch, n, heads, e, keys, features: e.next_multiple_of(FOUR), rows }
    }

    /// Elements of the panels of keys or values.
    pub(super) fn panels(&self) -> usize {
        self.keys * self.features
    }

    /// Elements of a tile of queries.
    pub(super) fn queries(&self) -> usize {
        self.rows * self.features
    }

    /// Elements of a tile of scores.
    pub(super) fn scores(&self) -> usize {
        self.rows * self.keys
    }

    /// Elements of the scratch memory of [`dots`].
    pub(super) fn room(&self) -> usize {
        self.rows * FOUR * LANES
    }

    /// Batch entries of one task, and the number of tasks.
    pub(super) fn tasks(&self) -> (usize, usize) {
        let work = [self.heads, self.n, self.n, self.e + 8].into_iter().fold(1, usize::saturating_mul).max(1);
        let each = self.batch.div_ceil(TASKS).max(GRAIN / work).max(1);
        (each, self.batch.div_ceil(each))
    }

    /// Multiplications and additions of one product with the scores.
    pub(super) fn flops(&self) -> usize {
        [2, self.batch, self.heads, self.n, self.n, self.e].into_iter().fold(1, usize::saturating_mul)
    }
}

/// One matrix of a rank-4 tensor: where the elements `[row, column]` lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix {
    start: usize,
    row: usize,
    column: usize,
}

impl Matrix {
    /// `[b, .., head, ..]` of `[B, N, h, e]`.
    #[inline(always)]
    pub(super) fn features(layout: &Layout, b: usize, head: usize) -> Self {
        let [batch, row, heads, column] = *layout.strides() else {
            return Self { start: 0, row: 0, column: 0 };
        };
        Self { start: layout.offset() + b * batch + head * heads, row, column }
    }

    /// `[b, head]` of `[B, h, N, N]`, or of `[B, h, N]` as rows of one element.
    #[inline(always)]
    pub(super) fn scores(layout: &Layout, b: usize, head: usize) -> Self {
        match *layout.strides() {
            [batch, heads, row, column] => {
                Self { start: layout.offset() + b * batch + head * heads, row, column }
            }
            [batch, heads, row] => Self { start: layout.offset() + b * batch + head * heads, row, column: 0 },
            _ => Self { start: 0, row: 0, column: 0 },
        }
    }

    /// The element `[row, column]`.
    #[inline(always)]
    pub(super) fn at(self, row: usize, column: usize) -> usize {
        self.start + row * self.row + column * self.column
    }
}

/// Packs keys or values into panels, each feature times `factor`.
#[inline(always)]
pub(super) fn pack<T: Element>(x: &View<'_, T>, m: Matrix, s: &Sizes, panels: &mut [T::Acc]) {
    for (first, panel) in (0..s.n).step_by(LANES).zip(panels.chunks_exact_mut(s.features * LANES)) {
        for lane in 0..LANES.min(s.n - first) {
            let at = m.at(first + lane, 0);
            for (c, line) in panel.chunks_exact_mut(LANES).take(s.e).enumerate() {
                line[lane] = x.data()[at + c * m.column].widen();
            }
        }
    }
}

/// Rounds panels into the rows of a matrix.
#[inline(always)]
pub(super) fn unpack<T: Element>(panels: &[T::Acc], m: Matrix, s: &Sizes, out: &mut ViewMut<'_, T>) {
    let data = out.data();
    for (first, panel) in (0..s.n).step_by(LANES).zip(panels.chunks_exact(s.features * LANES)) {
        for lane in 0..LANES.min(s.n - first) {
            let at = m.at(first + lane, 0);
            for (c, line) in panel.chunks_exact(LANES).take(s.e).enumerate() {
                data[at + c * m.column] = T::narrow(line[lane]);
            }
        }
    }
}

/// A tile of queries in both orders: a line for each query, and a line for each feature.
#[derive(Debug)]
pub(super) struct Queries<'a, A> {
    pub(super) lines: &'a mut [A],
    pub(super) turned: &'a mut [A],
}

impl<A: Arith> Queries<'_, A> {
    /// Loads rows `from..from + len`, times `factor`; rows up to the tile's end are zero.
    #[inline(always)]
    pub(super) fn load<T: Element<Acc = A>>(
        &mut self,
        x: &View<'_, T>,
        m: Matrix,
        s: &Sizes,
        (from, len): (usize, usize),
        factor: A,
    ) {
        if len < s.rows {
            self.lines.fill(A::default());
            self.turned.fill(A::default());
        }
        for (r, line) in self.lines.chunks_exact_mut(s.features).take(len).enumerate() {
            let at = m.at(from + r, 0);
            for (c, o) in line[..s.e].iter_mut().enumerate() {
                let v = x.data()[at + c * m.column].widen() * factor;
                *o = v;
                self.turned[c * s.rows + r] = v;
            }
        }
    }
}

/// `out[q][lane] = Σ_p a[p][at + q]·panel[p][lane]` for four `q`.
#[inline(always)]
pub(super) fn block<A: Arith>(a: &[A], stride: usize, at: usize, panel: &[A]) -> [[A; LANES]; FOUR] {
    // Four arrays with a loop each: as one array of four, the compiler leaves the sums in memory, a lane at a time.
    let [mut o0, mut o1, mut o2, mut o3] = [[A::default(); LANES]; FOUR];
    for (a, line) in a.chunks_exact(stride).zip(panel.as_chunks::<LANES>().0) {
        let Some(&[a0, a1, a2, a3]) = a[at..].first_chunk::<FOUR>() else { break };
        for l in 0..LANES {
            o0[l] = o0[l] + a0 * line[l];
        }
        for l in 0..LANES {
            o1[l] = o1[l] + a1 * line[l];
        }
        for l in 0..LANES {
            o2[l] = o2[l] + a2 * line[l];
        }
        for l in 0..LANES {
            o3[l] = o3[l] + a3 * line[l];
        }
    }
    [o0, o1, o2, o3]
}

/// Adds to each panel of `sums` (a line for each feature) the product over the queries of a tile:
/// `sums[key, feature] += Σ_r scores[r, key]·lines[r, feature]`.
#[inline(always)]
pub(super) fn gather<A: Arith>(scores: &[A], lines: &[A], s: &Sizes, sums: &mut [A]) {
    let panels = scores.chunks_exact(s.rows * LANES).zip(sums.chunks_exact_mut(s.features * LANES));
    for (scores, sums) in panels {
        for (c, sums) in (0..s.features).step_by(FOUR).zip(sums.chunks_exact_mut(FOUR * LANES)) {
            let part = block(lines, s.features, c, scores);
            for (sum, part) in sums.chunks_exact_mut(LANES).zip(&part) {
                for l in 0..LANES {
                    sum[l] = sum[l] + part[l];
                }
            }
        }
    }
}

/// Calls `result(r, c, Σ_key scores[r, key]·panels[key, c..c + 4])` for rows `0..len` and every four features.
///
/// `room` ([`Sizes::room`]) takes the lanes of all rows before any are joined: joined at once, the compiler prefers
/// the narrow vectors of the joining for the products too.
#[inline(always)]
pub(super) fn dots<A: Arith>(
    scores: &[A],
    panels: &[A],
    s: &Sizes,
    len: usize,
    room: &mut [A],
    mut result: impl FnMut(usize, usize, &[f64; FOUR]),
) {
    let (height, depth) = (s.rows * LANES, s.features * LANES);
    for c in (0..s.features).step_by(FOUR) {
        let mut totals = [[0.0; FOUR]; MAX_ROWS];
        for (scores, panels) in scores.chunks(height * GROUP).zip(panels.chunks(depth * GROUP)) {
            for (r, room) in room.chunks_exact_mut(FOUR * LANES).take(len).enumerate() {
                let sums = lanes(scores, panels, (height, r * LANES), (depth, c * LANES));
                for (room, sum) in room.chunks_exact_mut(LANES).zip(&sums) {
                    room.copy_from_slice(sum);
                }
            }
            for (total, room) in totals.iter_mut().zip(room.chunks_exact(FOUR * LANES)).take(len) {
                for (t, lanes) in total.iter_mut().zip(room.as_chunks::<LANES>().0) {
                    *t += fold(*lanes, |a, b| a + b).as_f64();
                }
            }
        }
        for (r, total) in totals[..len].iter().enumerate() {
            result(r, c, total);
        }
    }
}

/// The lanes of one row of scores times four features.
#[inline(always)]
fn lanes<A: Arith>(
    scores: &[A],
    panels: &[A],
    (height, row): (usize, usize),
    (depth, feature): (usize, usize),
) -> [[A; LANES]; FOUR] {
    let [mut o0, mut o1, mut o2, mut o3] = [[A::default(); LANES]; FOUR];
    for (scores, panel) in scores.chunks_exact(height).zip(panels.chunks_exact(depth)) {
        let panel = panel[feature..].as_chunks::<LANES>().0;
        let (Some(x), [p0, p1, p2, p3, ..]) = (scores[row..].first_chunk::<LANES>(), panel) else { break };
        for l in 0..LANES {
            o0[l] = o0[l] + x[l] * p0[l];
        }
        for l in 0..LANES {
            o1[l] = o1[l] + x[l] * p1[l];
        }
        for l in 0..LANES {
            o2[l] = o2[l] + x[l] * p2[l];
        }
        for l in 0..LANES {
            o3[l] = o3[l] + x[l] * p3[l];
        }
    }
    [o0, o1, o2, o3]
}

/// Scores of a tile, `scores[r, key] = Σ_c turned[c, r]·panels[key, c]`; −∞ in the lanes past the last key.
#[inline(always)]
pub(super) fn scores<A: Arith>(turned: &[A], panels: &[A], s: &Sizes, out: &mut [A]) {
    for (panel, out) in panels.chunks_exact(s.features * LANES).zip(out.chunks_exact_mut(s.rows * LANES)) {
        for (r, out) in (0..s.rows).step_by(FOUR).zip(out.chunks_exact_mut(FOUR * LANES)) {
            let part = block(turned, s.rows, r, panel);
            for (out, part) in out.chunks_exact_mut(LANES).zip(&part) {
                out.copy_from_slice(part);
            }
        }
    }
    if s.n < s.keys {
        let last = out.len() - s.rows * LANES;
        for line in out[last..].chunks_exact_mut(LANES) {
            line[s.n % LANES..].fill(A::of_f64(f64::NEG_INFINITY));
        }
    }
}

/// Adds rows `from..from + len` of a matrix of scores.
#[inline(always)]
pub(super) fn add_rows<T: Element>(
    x: &View<'_, T>,
    m: Matrix,
    s: &Sizes,
    (from, len): (usize, usize),
    scores: &mut [T::Acc],
) {
    for r in 0..len {
        for (first, panel) in (0..s.n).step_by(LANES).zip(scores.chunks_exact_mut(s.rows * LANES)) {
            let line = &mut panel[r * LANES..(r + 1) * LANES];
            let at = m.at(from + r, first);
            let n = LANES.min(s.n - first);
            if m.column == 1 {
                for (o, v) in line.iter_mut().zip(&x.data()[at..at + n]) {
                    *o = *o + v.widen();
                }
            } else {
                for (l, o) in line[..n].iter_mut().enumerate() {
                    *o = *o + x.data()[at + l * m.column].widen();
                }
            }
        }
    }
}

/// Rounds rows of a tile of scores into a matrix.
#[inline(always)]
pub(super) fn store_rows<T: Element>(
    scores: &[T::Acc],
    m: Matrix,
    s: &Sizes,
    (from, len): (usize, usize),
    out: &mut ViewMut<'_, T>,
) {
    let data = out.data();
    for r in 0..len {
        for (first, panel) in (0..s.n).step_by(LANES).zip(scores.chunks_exact(s.rows * LANES)) {
            let line = &panel[r * LANES..(r + 1) * LANES];
            let at = m.at(from + r, first);
            let n = LANES.min(s.n - first);
            if m.column == 1 {
                for (o, &v) in data[at..at + n].iter_mut().zip(line) {
                    *o = T::narrow(v);
                }
            } else {
                for (l, &v) in line[..n].iter().enumerate() {
                    data[at + l * m.column] = T::narrow(v);
                }
            }
        }
    }
}

/// The largest score of a row.
#[inline(always)]
pub(super) fn row_max<A: Arith>(scores: &[A], r: usize, s: &Sizes) -> A {
    let mut top = [A::of_f64(f64::NEG_INFINITY); LANES];
    for panel in scores.chunks_exact(s.rows * LANES) {
        let line = &panel[r * LANES..(r + 1) * LANES];
        for l in 0..LANES {
            top[l] = Math::max(top[l], line[l]);
        }
    }
    fold(top, Math::max)
}

/// The sum of a row.
#[inline(always)]
pub(super) fn row_sum<A: Arith>(scores: &[A], r: usize, s: &Sizes) -> f64 {
    let mut total = 0.0;
    for group in scores.chunks(s.rows * LANES * GROUP) {
        let mut sums = [A::default(); LANES];
        for panel in group.chunks_exact(s.rows * LANES) {
            let line = &panel[r * LANES..(r + 1) * LANES];
            for l in 0..LANES {
                sums[l] = sums[l] + line[l];
            }
        }
        total += fold(sums, |a, b| a + b).as_f64();
    }
    total
}

/// Replaces the scores by their exponentials after taking `less[r]` off each row.
#[inline(always)]
pub(super) fn exponentials<A: Arith>(scores: &mut [A], less: &[A], s: &Sizes) {
    for panel in scores.chunks_exact_mut(s.rows * LANES) {
        for (line, &less) in panel.chunks_exact_mut(LANES).zip(less) {
            for v in line {
                *v = *v - less;
            }
        }
    }
    // One long loop, which vectorises whatever the rows' length.
    for v in scores {
        *v = Math::exp(*v);
    }
}

/// Elements of scratch memory cut one after the other.
#[inline(always)]
pub(super) fn cut<'a, A>(rest: &mut &'a mut [A], len: usize) -> &'a mut [A] {
    let (part, tail) = std::mem::take(rest).split_at_mut(len);
    *rest = tail;
    part
}
