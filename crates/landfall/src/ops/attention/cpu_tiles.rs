//! The arithmetic that attention and its gradient share, on tiles of scores.
//!
//! For one batch entry and head, keys and values lie in scratch memory as *lines*, one for each token. Queries, and
//! what has their shape, lie in *panels*: [`LANES`] queries wide, one line for each feature. A tile holds the scores of
//! one panel: one line for each key, the queries along it. So the vector runs over the queries however few features a
//! head has, and the maximum and sum of softmax run down the lines: no lanes are joined. Every product is four lines
//! of the result at once, their 64 sums in registers: [`rows`] and [`columns`]. Keys and features are padded to
//! multiples of four with zeros, queries to whole panels: no tails.

use crate::kernel::cpu::lanes::LANES;
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{View, ViewMut};
use crate::values::{Element, Layout, Math, Shape};

/// Lines of a block.
pub(in crate::ops) const BATCH_PER_PANEL: usize = 4;
/// Keys that are summed in the accumulation dtype before they are added to an f64 total.
pub(in crate::ops) const GROUP: usize = 512;
/// Tasks at most, which bounds the scratch memory.
const TASKS: usize = 64;
/// Elements of a head's keys up to which sixteen heads are taken at a time: more are far from the registers.
const NEAR: usize = 2048;
/// Multiplications of a task at least.
const GRAIN: usize = 128 * 1024;

/// Sizes of a call, and what they are padded to.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Sizes {
    pub(in crate::ops) batch: usize,
    pub(in crate::ops) n: usize,
    pub(in crate::ops) heads: usize,
    pub(in crate::ops) e: usize,
    /// Keys in whole blocks.
    pub(in crate::ops) keys: usize,
    /// Features in whole blocks.
    pub(in crate::ops) features: usize,
    /// Features in whole vectors, or in a quarter or half of one.
    pub(in crate::ops) width: usize,
}

impl Sizes {
    /// Sizes of `[B, N, h, e]`.
    pub(in crate::ops) fn of(q: &Shape) -> Self {
        let &[batch, n, heads, e] = q.dims() else {
            return Self { batch: 0, n: 0, heads: 0, e: 0, keys: 0, features: 0, width: 0 };
        };
        // What a shape can be is far below the end of numbers; an inference is asked for others too.
        let whole = |n: usize, of| n.checked_next_multiple_of(of).unwrap_or(usize::MAX);
        let (keys, features) = (whole(n, BATCH_PER_PANEL), whole(e, BATCH_PER_PANEL));
        let width = if e <= LANES / 2 { features } else { whole(e, LANES) };
        Self { batch, n, heads, e, keys, features, width }
    }

    /// Elements of the lines of keys or values.
    pub(in crate::ops) fn lines(&self) -> usize {
        self.keys * self.features
    }

    /// Elements of the lines of sums for keys or values, each in whole vectors.
    pub(in crate::ops) fn sums(&self) -> usize {
        self.keys * self.width
    }

    /// Elements of a panel.
    pub(in crate::ops) fn panel(&self) -> usize {
        self.features * LANES
    }

    /// Elements of a tile of scores.
    pub(in crate::ops) fn tile(&self) -> usize {
        self.keys * LANES
    }

    /// Whether sixteen heads are taken at a time: there are as many, and what they need stays near; or a panel of
    /// queries would be half padding.
    pub(in crate::ops) fn heads_in_lanes(&self) -> bool {
        let many = self.batch.saturating_mul(self.heads) >= LANES;
        self.n <= LANES / 2 || (many && self.n.saturating_mul(self.features) <= NEAR)
    }

    /// The panels: first query, and how many there are.
    pub(in crate::ops) fn panels(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.n).step_by(LANES).map(move |from| (from, LANES.min(self.n - from)))
    }

    /// Batch entries of one task, and the number of tasks.
    pub(in crate::ops) fn tasks(&self) -> (usize, usize) {
        let work = [self.heads, self.n, self.n, self.e + 8].into_iter().fold(1, usize::saturating_mul).max(1);
        let each = self.batch.div_ceil(TASKS).max(GRAIN / work).max(1);
        // Whole groups of heads; `LANES` is a power of two.
        let whole =
            if self.heads_in_lanes() { LANES >> self.heads.trailing_zeros().min(LANES.ilog2()) } else { 1 };
        let each = each.next_multiple_of(whole);
        (each, self.batch.div_ceil(each))
    }

    /// Multiplications and additions of one product with the scores.
    pub(in crate::ops) fn flops(&self) -> usize {
        [2, self.batch, self.heads, self.n, self.n, self.e].into_iter().fold(1, usize::saturating_mul)
    }
}

/// One matrix of a rank-4 tensor: where the elements `[row, column]` lie.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Matrix {
    start: usize,
    pub(in crate::ops) row: usize,
    pub(in crate::ops) column: usize,
}

impl Matrix {
    /// `[b, .., head, ..]` of `[B, N, h, e]`.
    #[inline(always)]
    pub(in crate::ops) fn features(layout: &Layout, b: usize, head: usize) -> Self {
        let [batch, row, heads, column] = *layout.strides() else {
            return Self { start: 0, row: 0, column: 0 };
        };
        Self { start: layout.offset() + b * batch + head * heads, row, column }
    }

    /// `[b, head]` of `[B, h, N, N]`, or of `[B, h, N]`: a row or a column.
    #[inline(always)]
    pub(in crate::ops) fn scores(layout: &Layout, b: usize, head: usize) -> Self {
        match *layout.strides() {
            [batch, heads, row, column] => {
                Self { start: layout.offset() + b * batch + head * heads, row, column }
            }
            [batch, heads, along] => {
                Self { start: layout.offset() + b * batch + head * heads, row: along, column: along }
            }
            _ => Self { start: 0, row: 0, column: 0 },
        }
    }

    /// The element `[row, column]`.
    #[inline(always)]
    pub(in crate::ops) fn at(self, row: usize, column: usize) -> usize {
        self.start + row * self.row + column * self.column
    }
}

/// Loads rows `from..from + len` as lines of `width` elements, each times `factor`; what is past a row's features stays.
#[inline(always)]
pub(in crate::ops) fn load_lines<T: Element>(
    x: &View<'_, T>,
    m: Matrix,
    (from, len, features): (usize, usize, usize),
    factor: T::Acc,
    lines: &mut [T::Acc],
    width: usize,
) where
    T::Acc: Arith,
{
    for (r, line) in lines.chunks_exact_mut(width).take(len).enumerate() {
        let data = &x.data()[m.at(from + r, 0)..];
        if m.column == 1 {
            for (o, v) in line[..features].iter_mut().zip(&data[..features]) {
                *o = v.widen() * factor;
            }
        } else {
            for (c, o) in line[..features].iter_mut().enumerate() {
                *o = data[c * m.column].widen() * factor;
            }
        }
    }
}

/// Loads the queries `from..from + len` into a panel, each feature times `factor`; the lanes past them are zero.
#[inline(always)]
pub(in crate::ops) fn load_panel<T: Element>(
    x: &View<'_, T>,
    m: Matrix,
    s: &Sizes,
    (from, len): (usize, usize),
    factor: T::Acc,
    panel: &mut [T::Acc],
) where
    T::Acc: Arith,
{
    if len < LANES {
        panel.fill(T::Acc::default());
    }
    for lane in 0..len {
        let data = &x.data()[m.at(from + lane, 0)..];
        for (c, line) in panel.as_chunks_mut::<LANES>().0.iter_mut().take(s.e).enumerate() {
            line[lane] = data[c * m.column].widen() * factor;
        }
    }
}

/// `sum[lane] += factor·line[lane]` of several sums, a loop for each: as one array of arrays, the compiler leaves the sums in
/// memory, a lane at a time.
macro_rules! add_products {
    ($line:ident; $($sum:ident $factor:ident),+) => {
        $(for l in 0..LANES {
            $sum[l] = $sum[l] + $factor * $line[l];
        })+
    };
}

/// `out[i][lane] = Σ_p a[i·stride + p]·panel[p·width + lane]` for four rows `i` of `a`.
#[inline(always)]
pub(in crate::ops) fn rows<A: Arith>(
    a: &[A],
    stride: usize,
    panel: &[A],
    width: usize,
) -> [[A; LANES]; BATCH_PER_PANEL] {
    let [mut o0, mut o1, mut o2, mut o3] = [[A::default(); LANES]; BATCH_PER_PANEL];
    let (a0, a1, a2, a3) = (a, &a[stride..], &a[2 * stride..], &a[3 * stride..]);
    let scalars = a0.iter().zip(a1).zip(a2.iter().zip(a3));
    for (((&a0, &a1), (&a2, &a3)), line) in scalars.zip(panel.chunks(width)) {
        let Some(line) = line.first_chunk::<LANES>() else { break };
        add_products!(line; o0 a0, o1 a1, o2 a2, o3 a3);
    }
    [o0, o1, o2, o3]
}

/// `out[i][lane] = Σ_p a[p·stride + at + i]·tile[p][lane]` for four columns `i` of `a`.
#[inline(always)]
pub(in crate::ops) fn columns<A: Arith>(
    a: &[A],
    stride: usize,
    at: usize,
    tile: &[A],
) -> [[A; LANES]; BATCH_PER_PANEL] {
    let [mut o0, mut o1, mut o2, mut o3] = [[A::default(); LANES]; BATCH_PER_PANEL];
    for (a, line) in a.chunks_exact(stride).zip(tile.as_chunks::<LANES>().0) {
        let Some(&[a0, a1, a2, a3]) = a[at..].first_chunk::<BATCH_PER_PANEL>() else { break };
        add_products!(line; o0 a0, o1 a1, o2 a2, o3 a3);
    }
    [o0, o1, o2, o3]
}

/// Scores of a tile, `tile[key][lane] = Σ_c lines[key][c]·panel[c][lane]`; −∞ in the lines past the last key.
#[inline(always)]
pub(in crate::ops) fn scores<A: Arith>(lines: &[A], panel: &[A], s: &Sizes, tile: &mut [A]) {
    let blocks =
        lines.chunks_exact(BATCH_PER_PANEL * s.features).zip(tile.chunks_exact_mut(BATCH_PER_PANEL * LANES));
    for (lines, tile) in blocks {
        let part = rows(lines, s.features, panel, LANES);
        for (out, part) in tile.as_chunks_mut::<LANES>().0.iter_mut().zip(&part) {
            *out = *part;
        }
    }
    tile[s.n * LANES..].fill(A::of_f64(f64::NEG_INFINITY));
}

/// `Σ_key lines[key][c + i]·tile[key][lane]` for four features, in f64 over groups of keys.
#[inline(always)]
pub(in crate::ops) fn over_keys<A: Arith>(
    lines: &[A],
    c: usize,
    s: &Sizes,
    tile: &[A],
) -> [[f64; LANES]; BATCH_PER_PANEL] {
    let mut totals = [[0.0; LANES]; BATCH_PER_PANEL];
    for (lines, tile) in lines.chunks(GROUP * s.features).zip(tile.chunks(GROUP * LANES)) {
        let part = columns(lines, s.features, c, tile);
        for (total, part) in totals.iter_mut().zip(&part) {
            for l in 0..LANES {
                total[l] += part[l].as_f64();
            }
        }
    }
    totals
}

/// Adds to the lines of `sums` the products over the queries of a panel:
/// `sums[key][c] += Σ_lane tile[key][lane]·lines[lane][c]`.
#[inline(always)]
pub(in crate::ops) fn over_queries<A: Arith>(tile: &[A], lines: &[A], s: &Sizes, sums: &mut [A]) {
    match s.width {
        4 => over_groups::<A, 4>(tile, lines, sums),
        8 => over_groups::<A, 8>(tile, lines, sums),
        _ => {
            for c in (0..s.width).step_by(LANES) {
                let blocks = tile
                    .chunks_exact(BATCH_PER_PANEL * LANES)
                    .zip(sums.chunks_exact_mut(BATCH_PER_PANEL * s.width));
                for (tile, sums) in blocks {
                    let part = rows(tile, LANES, &lines[c..], s.width);
                    for (sum, part) in sums.chunks_exact_mut(s.width).zip(&part) {
                        for (sum, part) in sum[c..c + LANES].iter_mut().zip(part) {
                            *sum = *sum + *part;
                        }
                    }
                }
            }
        }
    }
}

/// [`over_queries`] of `W` features: a vector holds those of `LANES / W` queries, whose sums are joined at the end.
#[inline(always)]
fn over_groups<A: Arith, const W: usize>(tile: &[A], lines: &[A], sums: &mut [A]) {
    let blocks = tile.chunks_exact(BATCH_PER_PANEL * LANES).zip(sums.chunks_exact_mut(BATCH_PER_PANEL * W));
    for (tile, sums) in blocks {
        let [mut o0, mut o1, mut o2, mut o3] = [[A::default(); LANES]; BATCH_PER_PANEL];
        let [t0, t1, t2, t3] = tile.as_chunks::<LANES>().0 else { break };
        for (p, line) in lines.as_chunks::<LANES>().0.iter().enumerate().take(W) {
            let first = p * (LANES / W);
            for l in 0..LANES {
                o0[l] = o0[l] + t0[first + l / W] * line[l];
            }
            for l in 0..LANES {
                o1[l] = o1[l] + t1[first + l / W] * line[l];
            }
            for l in 0..LANES {
                o2[l] = o2[l] + t2[first + l / W] * line[l];
            }
            for l in 0..LANES {
                o3[l] = o3[l] + t3[first + l / W] * line[l];
            }
        }
        for (sum, part) in sums.chunks_exact_mut(W).zip([o0, o1, o2, o3]) {
            for part in part.chunks_exact(W) {
                for c in 0..W {
                    sum[c] = sum[c] + part[c];
                }
            }
        }
    }
}

/// Adds rows `from..from + len` of a matrix of scores.
#[inline(always)]
pub(in crate::ops) fn add_rows<T: Element>(
    x: &View<'_, T>,
    m: Matrix,
    s: &Sizes,
    (from, len): (usize, usize),
    tile: &mut [T::Acc],
) where
    T::Acc: Arith,
{
    for lane in 0..len {
        let row = &x.data()[m.at(from + lane, 0)..];
        for (key, line) in tile.as_chunks_mut::<LANES>().0.iter_mut().take(s.n).enumerate() {
            line[lane] = line[lane] + row[key * m.column].widen();
        }
    }
}

/// Rounds a tile of scores into rows `from..from + len` of a matrix.
#[inline(always)]
pub(in crate::ops) fn store_rows<T: Element>(
    tile: &[T::Acc],
    m: Matrix,
    s: &Sizes,
    (from, len): (usize, usize),
    out: &mut ViewMut<'_, T>,
) {
    for lane in 0..len {
        let row = &mut out.data()[m.at(from + lane, 0)..];
        for (key, line) in tile.as_chunks::<LANES>().0.iter().take(s.n).enumerate() {
            row[key * m.column] = T::narrow(line[lane]);
        }
    }
}

/// Joins the lines of a tile, in four chains that overlap.
#[inline(always)]
fn down<A: Arith>(tile: &[A], start: A, join: impl Fn(A, A) -> A) -> [A; LANES] {
    let [mut t0, mut t1, mut t2, mut t3] = [[start; LANES]; BATCH_PER_PANEL];
    for lines in tile.as_chunks::<LANES>().0.chunks_exact(BATCH_PER_PANEL) {
        let [l0, l1, l2, l3] = lines else { break };
        for l in 0..LANES {
            t0[l] = join(t0[l], l0[l]);
        }
        for l in 0..LANES {
            t1[l] = join(t1[l], l1[l]);
        }
        for l in 0..LANES {
            t2[l] = join(t2[l], l2[l]);
        }
        for l in 0..LANES {
            t3[l] = join(t3[l], l3[l]);
        }
    }
    for l in 0..LANES {
        t0[l] = join(join(t0[l], t1[l]), join(t2[l], t3[l]));
    }
    t0
}

/// The largest score of each query.
#[inline(always)]
pub(in crate::ops) fn largest<A: Arith>(tile: &[A]) -> [A; LANES] {
    down(tile, A::of_f64(f64::NEG_INFINITY), Math::max)
}

/// The sum of each query's line of weights.
#[inline(always)]
pub(in crate::ops) fn sums<A: Arith>(tile: &[A]) -> [f64; LANES] {
    let mut totals = [0.0; LANES];
    for group in tile.chunks(GROUP * LANES) {
        let part = down(group, A::default(), |a, b| a + b);
        for l in 0..LANES {
            totals[l] += part[l].as_f64();
        }
    }
    totals
}

/// Replaces the scores by their exponentials after taking `less` off each query's.
#[inline(always)]
pub(in crate::ops) fn exponentials<A: Arith>(tile: &mut [A], less: &[A; LANES]) {
    for line in tile.as_chunks_mut::<LANES>().0 {
        for l in 0..LANES {
            line[l] = line[l] - less[l];
        }
    }
    // One long loop: the exponential's steps vectorise in it, and not in a short one that is unrolled first.
    for v in tile {
        *v = Math::exp(*v);
    }
}
