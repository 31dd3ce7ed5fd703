//! How threads share rows on a GPU: the host's side of `rows.cu`.

use crate::contract::Op;
use crate::kernel::cuda::{Geometry, Module, Piece};
use crate::values::{Operand, Rule, Spec};

/// What a map says, checked.
pub(in crate::ops) const CELLS: Piece = Piece::new("cells", include_str!("cells.cu"));
/// Rows that teams move.
pub(in crate::ops) const TEAM_ROWS: Piece = Piece::new("rows", include_str!("rows.cu"));
/// Barriers of Hopper.
pub(in crate::ops) const BARRIERS: Piece = Piece::new("barriers", include_str!("barriers.cu"));

/// Threads of a block at most.
pub(in crate::ops) const BLOCK: u32 = 256;
/// Units that a thread has under way at once: `U` in the sources.
const UNITS: usize = 4;
/// Both for kernels that write the rows of a token's pairs: a row is done soon, and the next begins.
pub(in crate::ops) const WRITERS: (u32, usize) = (512, 2);

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
    /// Threads of a block at most.
    block: u32,
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
    fn of(self, lanes: u32, block: u32) -> u32 {
        let lanes = match self {
            Self::Own => lanes,
            Self::Half => (lanes / 2).max(1),
            Self::Twice => 2 * lanes,
        };
        if lanes > 32 { lanes.next_multiple_of(32).min(block) } else { lanes }
    }
}

impl Team {
    /// For rows of `columns` elements of these operands, `[.., columns]`, all of one dtype: units of 16 bytes where
    /// the rows are whole units, else of one element.
    pub(in crate::ops) fn new(columns: usize, operands: &[&Operand], share: Share) -> Self {
        Self::spread(columns, operands, (BLOCK, UNITS), share)
    }

    /// The same in blocks of so many threads at most, each with so many units under way.
    pub(in crate::ops) fn spread(
        columns: usize,
        operands: &[&Operand],
        (block, under_way): (u32, usize),
        share: Share,
    ) -> Self {
        let widest = operands.iter().map(|o| 16 / o.dtype().size()).min().unwrap_or(1);
        let vector = if columns.is_multiple_of(widest) { widest } else { 1 };
        let whole = |o: &&Operand| {
            let [row, column] = strides(o);
            column == 1 && row.is_multiple_of(vector) && o.address().is_multiple_of(16)
        };
        let units = columns / vector;
        let whole = vector > 1 && operands.iter().all(whole);
        Self { vector, whole, units, lanes: share.of(lanes(units, block, under_way), block), block }
    }

    /// The module with the constants of these teams.
    pub(in crate::ops) fn of(self, module: Module) -> Module {
        module.constant("V", self.vector as u64).constant("WHOLE", u64::from(self.whole))
    }

    /// Blocks that clear rows without a pair: a row a thread.
    pub(in crate::ops) fn clearing(self, rows: usize) -> usize {
        rows.div_ceil(self.threads() as usize)
    }

    fn threads(self) -> u32 {
        if self.lanes > 32 { self.lanes } else { self.block }
    }

    /// A team for each of `count` rows, behind `before` other blocks; one block where there is no row.
    pub(in crate::ops) fn geometry(self, count: usize, before: usize) -> Result<Geometry, Rule> {
        let each = (self.threads() / self.lanes) as usize;
        Geometry::blocks((before + count.div_ceil(each)).max(1), self.threads())
    }
}

/// Threads for a row: few enough that each has several units under way, and each about as many.
fn lanes(units: usize, block: u32, under_way: usize) -> u32 {
    let passes = units.div_ceil(block as usize * under_way).max(1);
    let lanes = units.div_ceil(under_way * passes).max(1);
    let lanes = if lanes <= 32 { lanes.next_power_of_two() } else { lanes.next_multiple_of(32) };
    lanes as u32
}

/// Strides of a matrix.
fn strides(operand: &Operand) -> [usize; 2] {
    match *operand.layout().strides() {
        [row, column] => [row, column],
        [row] => [row, 0],
        _ => [0, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Share, UNITS, WRITERS, lanes};

    #[test]
    fn teams_are_parts_of_a_warp_or_whole_warps_and_cover_a_row_evenly() {
        for (block, under_way) in [(BLOCK, UNITS), WRITERS] {
            for units in (0..3000).chain([4096, 65_536, 1_000_003]) {
                let own = lanes(units, block, under_way);
                for lanes in [own, Share::Half.of(own, block), Share::Twice.of(own, block)] {
                    assert!(
                        lanes.is_power_of_two() && lanes <= 32 || lanes.is_multiple_of(32) && lanes <= block,
                        "{units}: {lanes}"
                    );
                }
                let passes = units.div_ceil(own as usize * under_way);
                // No pass more than a block of the largest size needs.
                assert!(passes <= units.div_ceil(block as usize * under_way).max(1), "{units}: {own}");
            }
        }
        // 7168 elements of bf16 are 896 units: four for each of 224 threads, two for each of 448.
        assert_eq!([896, 512, 16, 1].map(|units| lanes(units, BLOCK, UNITS)), [224, 128, 4, 1]);
        assert_eq!([896, 512, 16, 1].map(|units| lanes(units, WRITERS.0, WRITERS.1)), [448, 256, 8, 1]);
    }
}
