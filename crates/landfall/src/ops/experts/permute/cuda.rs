//! Rows in the order of a map, on a GPU.

use super::Permute;
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::ops::experts::routing::cuda::{BARRIERS, CELLS, Share, TEAM_ROWS, Team, WRITERS};
use crate::values::{Rule, Spec};

/// A kernel that copies rows by the map.
macro_rules! copies_rows {
    ($(#[$doc:meta])* $Name:ident = $kernel:literal, $block:expr; $($own:tt)*) => {
        cuda_kernel! {
            $(#[$doc])*
            struct $Name = $kernel, $block;
            x: view_in T,
            map: view_in I,
            source: view_in I,
            p: view_in P,
            y: view_out T,
            py: view_out P,
            faults: faults,
            tokens: size,
            rows: size,
            experts: size,
            most: u32,
            $($own)*
        }
    };
}

copies_rows! {
    /// A team writes the rows of a token.
    ByTeams = "permute", WRITERS.0;
    units: size,
    lanes: u32,
    clear: u32,
}

static SOURCE: Source = Source {
    name: "permute",
    pieces: &[CELLS, TEAM_ROWS, PAIR, Piece::new("permute", include_str!("permute.cu"))],
    entries: &[ByTeams::KERNEL],
};

copies_rows! {
    /// Blocks that read at the same moments.
    Together = "permute_together", HANDS;
    arrived: scratch_of I32,
    bytes: size,
    parts: size,
    piece: u32,
    slots: u32,
    batch: u32,
}

static TOGETHER: Source = Source {
    name: "permute_together",
    pieces: &[BARRIERS, CELLS, TEAM_ROWS, PAIR, Piece::new("together", include_str!("together.cu"))],
    entries: &[Together::KERNEL],
};

const PAIR: Piece = Piece::new("pair", include_str!("pair.cu"));

/// A warp that asks for rows, one that writes them, and six for what there is besides.
const HANDS: u32 = 256;

/// How rows are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By teams of so many threads.
    Teams(Share),
    /// By blocks that read at the same moments: whole rows of 16 bytes, on Hopper.
    Together,
}

/// How [`Way::Together`] moves rows: in `parts` of `piece` bytes, of which each block has `slots` and asks for `batch` at once.
struct Pieces {
    parts: usize,
    piece: usize,
    slots: usize,
    batch: usize,
}

/// Bytes of a piece at most, and of all slots of a block; slots at most: `SLOTS` in the source.
const PIECE: usize = 16 << 10;
const HELD: usize = 112 << 10;
const SLOTS: usize = 64;
/// Two blocks for each multiprocessor of an H100 or H200. Where there are fewer, some run after the others, which do not wait
/// for them.
const BLOCKS: usize = 264;
/// Bytes of the result, and of a row, from which on [`Way::Together`] is taken unasked: more than an L2 holds, and rows that
/// are worth a copy of their own.
const LARGE: [usize; 2] = [128 << 20, 2 << 10];

impl Pieces {
    /// For rows of so many bytes, a multiple of 16.
    fn of(bytes: usize) -> Self {
        let parts = bytes.div_ceil(PIECE).max(1);
        let piece = bytes.div_ceil(parts).next_multiple_of(16);
        let slots = (HELD / piece.max(1)).min(SLOTS);
        // A few are still to be written when the next ones are asked for.
        Self { parts, piece, slots, batch: slots - 1 - (slots - 1) / 8 }
    }
}

/// Whether [`Way::Together`] takes contiguous operands of these specs.
pub(super) fn whole_rows(op: &dyn Op, args: &[Spec]) -> bool {
    let bytes = args[0].shape.last() * args[0].dtype.size();
    let moves = attributes::<Permute>(op).is_ok_and(|op| !op.drop_zero);
    moves && args[0].shape.elements() > 0 && bytes.is_multiple_of(16)
}

/// Bytes of the counter of blocks that are ready to read.
pub(super) fn workspace(_: &dyn Op, _: &[Spec]) -> usize {
    size_of::<i32>()
}

/// [`Permute`], in the way that is asked for, or the fastest that the device and the operands allow.
pub(super) fn permute(op: &dyn Op, call: &mut Call<'_>, asked: Option<Way>) -> Result<(), Failure> {
    let op = attributes::<Permute>(op)?;
    let (x, map, source, y) = (*call.input(0)?, *call.input(1)?, *call.input(2)?, *call.output(0)?);
    // Without probabilities the kernel has no use of them: any operands stand in.
    let (p, py) = if op.probs { (*call.input(3)?, *call.output(1)?) } else { (x, y) };
    let (tokens, rows) = (x.spec().shape.dims()[0], y.spec().shape.dims()[0]);
    if rows == 0 {
        return Ok(());
    }
    let most = map.spec().shape.last() / 2;
    let bytes = x.spec().shape.last() * x.dtype().size();
    let share = if let Some(Way::Teams(share)) = asked { share } else { Share::Own };
    let team = Team::spread(x.spec().shape.last(), &[&x, &y], WRITERS, share);
    let of = |source| {
        team.of(Module::new(source))
            .of("T", x.dtype())
            .of("I", map.dtype())
            .of("P", p.dtype())
            .constant("PROBS", u64::from(op.probs))
    };
    let moving = || of(&TOGETHER).only("sm_90a");
    let whole = team.whole && !op.drop_zero && tokens > 0 && bytes.is_multiple_of(16);
    let large = most > 1 && rows.saturating_mul(bytes) >= LARGE[0] && bytes >= LARGE[1];
    let together = match asked {
        Some(Way::Together) if !whole => {
            let what = "rows must be whole units of 16 bytes, and all of them moved".to_owned();
            return Err(Rule::Launch { file: "permute_together", entry: "permute_together", what }.into());
        }
        Some(way) => way == Way::Together,
        None => whole && large && call.has(&moving()),
    };
    let (experts, most) = (p.spec().shape.last(), most as u32);
    let (x, map, source, p, y, py) = (&x, &map, &source, &p, &y, &py);
    if together {
        let Pieces { parts, piece, slots, batch } = Pieces::of(bytes);
        let blocks = tokens.saturating_mul(parts).min(BLOCKS);
        let geometry = Geometry { shared: (slots * piece) as u32, ..Geometry::blocks(blocks, HANDS)? };
        let args = Together {
            x,
            map,
            source,
            p,
            y,
            py,
            faults: (),
            tokens,
            rows,
            experts,
            most,
            arrived: 0,
            bytes,
            parts,
            piece: piece as u32,
            slots: slots as u32,
            batch: batch as u32,
        };
        return call.launch(&moving(), geometry, &args);
    }
    let clear = team.clearing(rows);
    let module = of(&SOURCE).constant("DROP_ZERO", u64::from(op.drop_zero));
    let args = ByTeams {
        x,
        map,
        source,
        p,
        y,
        py,
        faults: (),
        tokens,
        rows,
        experts,
        most,
        units: team.units,
        lanes: team.lanes,
        clear: clear as u32,
    };
    call.launch(&module, team.geometry(tokens, clear)?, &args)
}

#[cfg(test)]
mod tests {
    use super::{HELD, PIECE, Pieces, SLOTS};

    #[test]
    fn pieces_cover_a_row_and_leave_a_slot_to_write_while_others_fill() {
        for bytes in (1..5000).map(|units| 16 * units).chain([1 << 20, (1 << 30) + 16]) {
            let Pieces { parts, piece, slots, batch } = Pieces::of(bytes);
            assert!(parts * piece >= bytes && (parts - 1) * piece < bytes, "{bytes}: {parts} of {piece}");
            assert!(piece.is_multiple_of(16) && piece <= PIECE, "{bytes}: {piece}");
            assert!(slots <= SLOTS && slots * piece <= HELD, "{bytes}: {slots} of {piece}");
            assert!((1..slots).contains(&batch), "{bytes}: {batch} of {slots}");
        }
        // 7,168 elements of bf16: eight rows, of which seven are asked for at once.
        let Pieces { parts, piece, slots, batch } = Pieces::of(14_336);
        assert_eq!((parts, piece, slots, batch), (1, 14_336, 8, 7));
    }
}
