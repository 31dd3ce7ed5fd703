//! Columns of a matrix, processed in lines.
//!
//! Several rows of few columns are processed as one line of up to [`LINE`] elements, so that inner loops have the
//! length of a line for any number of columns; the lanes of a column are added at the end.

use crate::kernel::cpu::View;
use crate::kernel::cpu::pointwise::Arith;
use crate::values::Element;

/// Elements of a line.
pub(crate) const LINE: usize = 256;
/// Lines summed in the accumulation dtype before they are added to f64 totals.
const LINES: usize = 128;

/// The columns of a matrix that are processed together, several rows per line.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// Rows of a line.
    pub(crate) rows: usize,
}

impl Columns {
    pub(crate) fn of(d: usize) -> impl Iterator<Item = Self> + Clone {
        (0..d).step_by(LINE).map(move |first| {
            let count = LINE.min(d - first);
            Self { first, count, rows: if d > LINE { 1 } else { LINE / count } }
        })
    }

    /// Repeats the values of the columns over a line.
    #[inline(always)]
    pub(crate) fn spread<A: Arith>(self, value: impl Fn(usize) -> A) -> [A; LINE] {
        let mut line = [A::default(); LINE];
        for j in 0..self.count {
            line[j] = value(self.first + j);
        }
        for i in self.count..self.count * self.rows {
            line[i] = line[i - self.count];
        }
        line
    }

    /// Widens rows `from..from + rows` of the columns.
    #[inline(always)]
    pub(crate) fn load<T: Element>(
        self,
        x: &View<'_, T>,
        from: usize,
        rows: usize,
        line: &mut [T::Acc; LINE],
    ) {
        let line = &mut line[..rows * self.count];
        match x.contiguous() {
            Some(all) if self.count == x.cols() => {
                for (o, v) in line.iter_mut().zip(&all[from * self.count..]) {
                    *o = v.widen();
                }
            }
            _ => {
                for (r, part) in line.chunks_mut(self.count).enumerate() {
                    x.row(from + r).widen(self.first, part);
                }
            }
        }
    }

    /// Adds the sums of `term` over the lines of rows `from..from + len`: `totals[k·width + column]`.
    #[inline(always)]
    pub(crate) fn sums<A: Arith, const K: usize>(
        self,
        (from, len): (usize, usize),
        totals: &mut [f64],
        width: usize,
        mut term: impl FnMut(usize, usize, &mut [[A; LINE]; K]),
    ) {
        let block = self.rows * LINES;
        for start in (from..from + len).step_by(block) {
            let end = (from + len).min(start + block);
            let mut sums = [[A::default(); LINE]; K];
            for row in (start..end).step_by(self.rows) {
                term(row, self.rows.min(end - row), &mut sums);
            }
            for (k, sums) in sums.iter().enumerate() {
                let totals = &mut totals[k * width + self.first..][..self.count];
                for row in sums[..self.rows * self.count].chunks(self.count) {
                    for (t, s) in totals.iter_mut().zip(row) {
                        *t += s.as_f64();
                    }
                }
            }
        }
    }
}
