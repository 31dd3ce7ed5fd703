//! How threads share rows on a GPU: the host's side of `rows.cu`.

use crate::cuda::{Arg, Geometry, Module, Operand};
use crate::error::Rule;
use crate::ops::Op;
use crate::shape::Spec;

/// How a kernel spreads a row over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) struct Spread {
    /// Threads of a block at most.
    pub(in crate::ops) block: u32,
    /// Units that a thread has under way at once.
    units: usize,
}

/// For kernels that write a row for each that they read, or several: many threads with few registers each. 7168 elements of
/// 16 bits are then two units for each of 448 threads.
pub(in crate::ops) const MOVES: Spread = Spread { block: 512, units: 2 };
/// For kernels that read several rows for one that they write: threads that have many units under way.
pub(in crate::ops) const READS: Spread = Spread { block: 256, units: 4 };
/// Rows that a block clears: those whose flags a warp reads at once.
const CLEARED: usize = 32;

/// The threads that move a row together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) struct Team {
    /// Elements of a unit: `V`. It follows from dtype and columns alone, and with it the order of every sum: results do
    /// not depend on where operands lie.
    pub(in crate::ops) vector: usize,
    /// Whether units are moved whole, `WHOLE`; else element by element, at any distance from each other.
    pub(in crate::ops) whole: bool,
    /// Units of a row.
    pub(in crate::ops) units: usize,
    /// Threads of a team.
    pub(in crate::ops) lanes: u32,
    spread: Spread,
}

/// Threads that share a row, beside those that its length asks for: for kernels that differ in nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) enum Share {
    /// As many as that.
    Own,
    /// Half as many: each has more units, and more rows are under way in a block.
    Half,
    /// Twice as many.
    Twice,
}

/// Whether rows are long enough for teams of another size.
pub(in crate::ops) fn shares(_: &dyn Op, args: &[Spec]) -> bool {
    args[0].shape.last() >= 64 && args[0].shape.elements() > 0
}

impl Share {
    /// As many threads as a team may have.
    fn of(self, lanes: u32, most: u32) -> u32 {
        let lanes = match self {
            Self::Own => lanes,
            Self::Half => (lanes / 2).max(1),
            Self::Twice => 2 * lanes,
        };
        if lanes > 32 { lanes.next_multiple_of(32).min(most) } else { lanes }
    }
}

impl Team {
    /// For rows of `columns` elements of these operands, `[.., columns]`, all of one dtype: units of 16 bytes where
    /// the rows are whole units, else of one element.
    pub(in crate::ops) fn new(columns: usize, operands: &[&Operand], spread: Spread, share: Share) -> Self {
        let widest = operands.iter().map(|o| 16 / o.dtype().size()).min().unwrap_or(1);
        let vector = if columns.is_multiple_of(widest) { widest } else { 1 };
        let whole = |o: &&Operand| {
            let [row, column] = strides(o);
            column == 1 && row.is_multiple_of(vector) && o.address().is_multiple_of(16)
        };
        let units = columns / vector;
        let whole = vector > 1 && operands.iter().all(whole);
        Self { vector, whole, units, lanes: share.of(lanes(units, spread), spread.block), spread }
    }

    /// The module with the constants of these teams.
    pub(in crate::ops) fn of(self, module: Module) -> Module {
        let units = self.spread.units as u64;
        module.constant("V", self.vector as u64).constant("WHOLE", u64::from(self.whole)).constant("U", units)
    }

    fn threads(self) -> u32 {
        if self.lanes > 32 { self.lanes } else { self.spread.block }
    }

    /// A team for each of `count` rows, behind `before` other blocks; one block where there is no row.
    pub(in crate::ops) fn geometry(self, count: usize, before: usize) -> Result<Geometry, Rule> {
        let each = (self.threads() / self.lanes) as usize;
        Geometry::blocks((before + count.div_ceil(each)).max(1), self.threads())
    }
}

/// Threads for a row: few enough that each has several units under way, and each about as many.
fn lanes(units: usize, spread: Spread) -> u32 {
    let passes = units.div_ceil(spread.block as usize * spread.units).max(1);
    let lanes = units.div_ceil(spread.units * passes).max(1);
    let lanes = if lanes <= 32 { lanes.next_power_of_two() } else { lanes.next_multiple_of(32) };
    lanes as u32
}

/// Blocks that clear rows without a pair.
pub(in crate::ops) fn clearing(rows: usize) -> usize {
    rows.div_ceil(CLEARED)
}

/// Strides of a matrix.
pub(in crate::ops) fn strides(operand: &Operand) -> [usize; 2] {
    match *operand.layout().strides() {
        [row, column] => [row, column],
        [row] => [row, 0],
        _ => [0, 0],
    }
}

/// Strides of a matrix or a vector as an argument.
pub(in crate::ops) fn dims(operand: &Operand) -> Arg<'static> {
    Arg::dims(&strides(operand))
}

#[cfg(test)]
mod tests {
    use super::{MOVES, READS, Share, lanes};

    #[test]
    fn teams_are_parts_of_a_warp_or_whole_warps_and_cover_a_row_evenly() {
        for spread in [MOVES, READS] {
            for units in (0..3000).chain([4096, 65_536, 1_000_003]) {
                let own = lanes(units, spread);
                for lanes in [own, Share::Half.of(own, spread.block), Share::Twice.of(own, spread.block)] {
                    assert!(
                        lanes.is_power_of_two() && lanes <= 32
                            || lanes.is_multiple_of(32) && lanes <= spread.block,
                        "{units}: {lanes}"
                    );
                }
                let passes = units.div_ceil(own as usize * spread.units);
                // No pass more than a block of the largest size needs.
                let least = units.div_ceil(spread.block as usize * spread.units).max(1);
                assert!(passes <= least, "{units}: {own}");
            }
        }
        // 7168 elements of bf16 are 896 units.
        assert_eq!([896, 512, 16, 1].map(|units| lanes(units, READS)), [224, 128, 4, 1]);
        assert_eq!([896, 512, 16, 1].map(|units| lanes(units, MOVES)), [448, 256, 8, 1]);
    }
}
