//! A stable radix sort of positions by 64-bit keys, on a GPU.

use crate::kernel::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, SCAN, Source, cuda_kernel};
use crate::values::{DType, Operand, Rule, Spec};

/// Keys of one digit, and keys of one block: `DIGITS` and `TILE` in the source.
const DIGITS: usize = 256;
const TILE: usize = 2048;

cuda_kernel! {
    /// A block counts the digits of a tile.
    struct Count = "count_digits", DIGITS as u32;
    keys: input_of I64,
    tiles: output_of I32,
    n: size,
    shift: u32,
}

cuda_kernel! {
    /// One block sums all counts.
    struct RunningSum = "running_sum", DIGITS as u32;
    tiles: output_of I32,
    n: size,
}

cuda_kernel! {
    /// A block moves a tile.
    struct PlaceDigits = "place_digits", DIGITS as u32;
    keys: input_of I64,
    positions: input_of I32,
    keys_out: output_of I64,
    positions_out: output_of I32,
    tiles: input_of I32,
    n: size,
    shift: u32,
}

static RADIX: Source = Source {
    name: "radix",
    pieces: &[SCAN, Piece::new("radix", include_str!("radix/radix.cu"))],
    entries: &[Count::KERNEL, RunningSum::KERNEL, PlaceDigits::KERNEL],
};

/// Bytes of the keys and of the positions of a sort.
fn sizes(n: usize) -> [usize; 2] {
    [n * size_of::<i64>(), (n * size_of::<i32>()).next_multiple_of(8)]
}

/// Keys with their positions, before and after a pass, and the counts of a pass, all in the workspace.
pub(super) struct Room {
    n: usize,
    /// Before and after a pass: 64 bits each.
    pub(super) keys: [Operand; 2],
    pub(super) positions: [Operand; 2],
    tiles: Operand,
}

impl Room {
    /// Bytes of workspace for `n` keys.
    pub(super) fn bytes(n: usize) -> usize {
        2 * sizes(n).iter().sum::<usize>() + DIGITS * n.div_ceil(TILE) * size_of::<i32>()
    }

    /// The room for `n` keys at the start of a call's workspace.
    ///
    /// # Errors
    /// More keys than a position has bits for.
    pub(super) fn of(call: &Call<'_>, n: usize) -> Result<Self, Rule> {
        if i32::try_from(n).is_err() {
            let expected = "below 2^31";
            return Err(Rule::Attribute { name: "number of keys", value: n as f64, expected });
        }
        let [keys, positions] = sizes(n);
        let of = |at, dtype, n: usize| call.scratch(at, Spec::new(dtype, [n]));
        Ok(Self {
            n,
            keys: [of(0, DType::I64, n)?, of(keys, DType::I64, n)?],
            positions: [of(2 * keys, DType::I32, n)?, of(2 * keys + positions, DType::I32, n)?],
            tiles: of(2 * (keys + positions), DType::I32, DIGITS * n.div_ceil(TILE))?,
        })
    }

    /// Bits of the keys below `limit`.
    pub(super) fn bits(limit: usize) -> u32 {
        usize::BITS - limit.saturating_sub(1).leading_zeros()
    }

    /// Sorts the keys of side `now` by their lower `bits`, and their positions; gives the side that holds them. Stable.
    pub(super) fn sort(&self, call: &mut Call<'_>, mut now: usize, bits: u32) -> Result<usize, Failure> {
        let module = Module::new(&RADIX);
        let (n, tiles, blocks) = (self.n, &self.tiles, self.n.div_ceil(TILE));
        for shift in (0..bits).step_by(8) {
            let keys = &self.keys[now];
            let tile = Geometry::blocks(blocks, DIGITS as u32)?;
            call.launch(&module, tile, &Count { keys, tiles, n, shift })?;
            call.launch(
                &module,
                Geometry::blocks(1, DIGITS as u32)?,
                &RunningSum { tiles, n: DIGITS * blocks },
            )?;
            let args = PlaceDigits {
                keys,
                positions: &self.positions[now],
                keys_out: &self.keys[1 - now],
                positions_out: &self.positions[1 - now],
                tiles,
                n,
                shift,
            };
            call.launch(&module, tile, &args)?;
            now = 1 - now;
        }
        Ok(now)
    }
}
