//! The register tile: a few rows of A against one panel of B, held in registers from the first product to the store.
//!
//! A tile is `MR` rows by `NV` registers. Lanes run along the columns of the panel, and every element of A is broadcast
//! directly from memory: `ROWS` tells whether the steps over `k` or the rows are adjacent in memory. Tile heights are
//! chosen so that the accumulators fill the register file minus what the loop needs (32 registers in AVX-512, 16
//! before), which also gives more independent multiply-add chains than their latency in cycles.
//!
//! Operands stream from beyond the L2 cache, whose latency no tile hides. So a tile prefetches its lines of C before
//! their sums are complete, A's rows of the tile below, and rows of B some steps ahead.

use super::super::isa::{Isa, Kernel, Lanes, Real, Simd, prefetch_read, prefetch_write};

/// Rows of A for a sweep: element `(i, p)` is `data[i * stride + p]` when `by_rows`, else `data[p * stride + i]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a, T> {
    pub(super) data: &'a [T],
    pub(super) stride: usize,
    pub(super) by_rows: bool,
}

/// The addend of a sweep's product.
#[derive(Debug, Clone, Copy)]
pub(super) enum Plus<'a, T> {
    /// None.
    Nothing,
    /// The contents of C.
    Sums,
    /// Rows of another matrix, with this stride.
    Matrix(&'a [T], usize),
}

/// `rows` rows of C under one panel of B: `C = alpha * A * B`, plus the addend of `plus`, plus `bias`.
#[derive(Debug)]
pub(super) struct Sweep<'a, T> {
    pub(super) rows: usize,
    pub(super) k: usize,
    pub(super) alpha: T,
    pub(super) a: Rows<'a, T>,
    /// The panel: row `p` is the `padded` elements from `p * b_stride` on.
    pub(super) b: &'a [T],
    pub(super) b_stride: usize,
    /// Columns of the panel that exist, and the number its rows are padded to: one register or two.
    pub(super) cols: usize,
    pub(super) padded: usize,
    pub(super) c: &'a mut [T],
    pub(super) c_stride: usize,
    /// The addend of the product.
    pub(super) plus: Plus<'a, T>,
    /// Padded like the panel.
    pub(super) bias: Option<&'a [T]>,
}

/// By reference: moving a value of this size at each dispatch costs a fifth of a shallow product.
impl<T: Real> Kernel for &mut Sweep<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match (self.a.by_rows, self.padded == T::Lanes::<S>::COUNT) {
            (true, true) => self.one_register::<S, true>(simd),
            (true, false) => self.two_registers::<S, true>(simd),
            (false, true) => self.one_register::<S, false>(simd),
            (false, false) => self.two_registers::<S, false>(simd),
        }
    }
}

/// Prefetch distance, in steps over `k`, for rows of B, and of A if its steps are far apart. A weight's gradient reads
/// each row of both for the first time, at strides that the hardware prefetcher does not predict.
const AHEAD: usize = 32;

impl<T: Real> Sweep<'_, T> {
    #[inline(always)]
    fn one_register<S: Simd, const ROWS: bool>(&mut self, simd: S) {
        match S::ISA {
            Isa::Avx512 => self.tiles::<S, 16, 1, ROWS>(simd),
            Isa::Avx2 => self.tiles::<S, 12, 1, ROWS>(simd),
            Isa::Baseline => self.tiles::<S, 8, 1, ROWS>(simd),
        }
    }

    #[inline(always)]
    fn two_registers<S: Simd, const ROWS: bool>(&mut self, simd: S) {
        match S::ISA {
            Isa::Avx512 => self.tiles::<S, 12, 2, ROWS>(simd),
            Isa::Avx2 => self.tiles::<S, 6, 2, ROWS>(simd),
            Isa::Baseline => self.tiles::<S, 4, 2, ROWS>(simd),
        }
    }

    /// Whether all accesses of the tiles are within the slices.
    #[inline(always)]
    fn in_bounds(&self, width: usize) -> bool {
        let (last_row, last_k) = (self.rows - 1, self.k.saturating_sub(1));
        let last_a = if self.a.by_rows { (last_row, last_k) } else { (last_k, last_row) };
        let a_end = last_a.0.saturating_mul(self.a.stride).saturating_add(last_a.1);
        self.padded == width
            && (self.k == 0 || a_end < self.a.data.len())
            && (self.k == 0 || last_k.saturating_mul(self.b_stride).saturating_add(width) <= self.b.len())
            && self.cols <= width
            && last_row.saturating_mul(self.c_stride).saturating_add(self.cols) <= self.c.len()
            && match self.plus {
                Plus::Nothing | Plus::Sums => true,
                Plus::Matrix(data, stride) => {
                    last_row.saturating_mul(stride).saturating_add(self.cols) <= data.len()
                }
            }
            && self.bias.is_none_or(|bias| bias.len() >= width)
    }

    /// All rows: whole tiles, then tiles of four rows, then single rows.
    #[inline(always)]
    fn tiles<S: Simd, const MR: usize, const NV: usize, const ROWS: bool>(&mut self, simd: S) {
        if self.rows == 0 {
            return;
        }
        assert!(self.in_bounds(NV * T::Lanes::<S>::COUNT), "a sweep leaves its slices: {} rows", self.rows);
        let mut row = 0;
        while self.rows - row >= MR {
            self.tile::<S, MR, NV, ROWS>(simd, row);
            row += MR;
        }
        while self.rows - row >= 4 {
            self.tile::<S, 4, NV, ROWS>(simd, row);
            row += 4;
        }
        while row < self.rows {
            self.tile::<S, 1, NV, ROWS>(simd, row);
            row += 1;
        }
    }

    /// One tile: rows `row..row + MR`, which [`in_bounds`](Self::in_bounds) has admitted.
    // Loops over indices, with bodies of one statement: the compiler unrolls those completely and keeps `acc` in
    // registers. Iterators over the array, or one loop that does everything for a row, leave it in memory, at half the
    // speed.
    #[allow(clippy::needless_range_loop, reason = "see above")]
    #[inline(always)]
    fn tile<S: Simd, const MR: usize, const NV: usize, const ROWS: bool>(&mut self, _proof: S, row: usize) {
        let lanes = T::Lanes::<S>::COUNT;
        let (a_stride, b_stride) = (self.a.stride, self.b_stride);
        // SAFETY: `S` is proof of the instruction set. `in_bounds` held for all rows of the sweep: every element of A
        // at rows below `rows` and steps below `k`, `NV` registers of B at each step, `cols` elements of C in each
        // row, and `NV` registers of bias lie in their slices. Whole registers are stored to C only when `cols` is
        // all of them, and else to `rest`, whose rows hold two of the widest.
        unsafe {
            let mut acc = [[T::Lanes::<S>::splat(T::default()); NV]; MR];
            let mut a =
                self.a.data.as_ptr().wrapping_add(if ROWS { row.wrapping_mul(a_stride) } else { row });
            let mut b = self.b.as_ptr();
            let c = self.c.as_ptr().wrapping_add(row * self.c_stride);
            // Rows of C are prefetched evenly over the steps: the number of outstanding requests is small.
            let line = 64 / size_of::<T>();
            let lines = self.k.div_ceil(line);
            for part in 0..lines {
                for i in (part..MR).step_by(lines) {
                    for v in 0..NV {
                        prefetch_write(c.wrapping_add(i * self.c_stride + v * lanes));
                    }
                }
                if ROWS {
                    // A cache line of each row of the tile below.
                    for i in MR..2 * MR {
                        prefetch_read(a.wrapping_add(i * a_stride));
                    }
                }
                for _ in 0..line.min(self.k - part * line) {
                    for v in 0..NV {
                        prefetch_read(b.wrapping_add(AHEAD * b_stride + v * lanes));
                    }
                    if !ROWS {
                        // Its last element: the tile above has prefetched the first.
                        prefetch_read(a.wrapping_add(AHEAD * a_stride + MR - 1));
                    }
                    let b_row: [T::Lanes<S>; NV] =
                        std::array::from_fn(|v| T::Lanes::<S>::load(b.add(v * lanes)));
                    for i in 0..MR {
                        let value = T::Lanes::<S>::splat(*a.add(if ROWS { i * a_stride } else { i }));
                        for v in 0..NV {
                            acc[i][v] = value.mul_add(b_row[v], acc[i][v]);
                        }
                    }
                    a = a.wrapping_add(if ROWS { 1 } else { a_stride });
                    b = b.wrapping_add(b_stride);
                }
            }
            if self.alpha != T::ONE {
                let alpha = T::Lanes::<S>::splat(self.alpha);
                for i in 0..MR {
                    for v in 0..NV {
                        acc[i][v] = acc[i][v].mul(alpha);
                    }
                }
            }
            if self.cols < NV * lanes {
                let mut rest = [[T::default(); 32]; MR];
                for i in 0..MR {
                    for v in 0..NV {
                        acc[i][v].store(rest[i].as_mut_ptr().add(v * lanes));
                    }
                }
                return self.store_part(row, &rest);
            }
            let c = self.c.as_mut_ptr().add(row * self.c_stride);
            let plus = match self.plus {
                Plus::Nothing => None,
                Plus::Sums => Some((c.cast_const(), self.c_stride)),
                Plus::Matrix(data, stride) => Some((data.as_ptr().add(row * stride), stride)),
            };
            if let Some((plus, stride)) = plus {
                for i in 0..MR {
                    for v in 0..NV {
                        acc[i][v] = T::Lanes::<S>::load(plus.add(i * stride + v * lanes)).add(acc[i][v]);
                    }
                }
            }
            if let Some(bias) = self.bias {
                for v in 0..NV {
                    let bias = T::Lanes::<S>::load(bias.as_ptr().add(v * lanes));
                    for i in 0..MR {
                        acc[i][v] = acc[i][v].add(bias);
                    }
                }
            }
            for i in 0..MR {
                for v in 0..NV {
                    acc[i][v].store(c.add(i * self.c_stride + v * lanes));
                }
            }
        }
    }

    /// Stores sums of a panel that is narrower than its registers, with the same arithmetic.
    fn store_part(&mut self, row: usize, sums: &[[T; 32]]) {
        for (i, line) in sums.iter().enumerate() {
            let c = &mut self.c[(row + i) * self.c_stride..][..self.cols];
            for (j, (c, &sum)) in c.iter_mut().zip(line).enumerate() {
                let sum = match self.plus {
                    Plus::Nothing => sum,
                    Plus::Sums => c.plus(sum),
                    Plus::Matrix(data, stride) => data[(row + i) * stride + j].plus(sum),
                };
                *c = self.bias.map_or(sum, |bias| sum.plus(bias[j]));
            }
        }
    }
}
