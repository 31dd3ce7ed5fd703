//! [`Recurrence`] and its gradient on a GPU: a block takes a few sequences through all steps.

use super::{Cell, Recurrence, Sizes};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{
    Call, Failure, Geometry, KernelArgs, Module, Piece, SHARED_MEMORY, Source, cuda_kernel, size,
};
use crate::ops::recurrent::recurrence_grad::RecurrenceGrad;
use crate::values::{DType, Rule};

/// Threads of a block at most.
const BLOCK: u32 = 512;
/// Blocks that keep all of a GPU at work: where there are more sequences, a block takes several.
const BLOCKS: usize = 256;

cuda_kernel! {
    /// All steps of a block's sequences. A GRU has no `c0` and no `c`.
    struct Forward = "recurrence", BLOCK;
    x: view_in T,
    h0: view_in T,
    weight: view_in T,
    bias: view_in T,
    c0: view_in T,
    h: view_out T,
    saved: view_out T,
    c: view_out T,
    batch: u32,
    steps: u32,
    hidden: u32,
    width: u32,
}

cuda_kernel! {
    /// The same from the last step to the first. A GRU has no cells, but `g_s`.
    struct Backward = "recurrence_grad", BLOCK;
    weight: view_in T,
    h0: view_in T,
    h: view_in T,
    saved: view_in T,
    g_h: view_in T,
    c0: view_in T,
    c: view_in T,
    g_c: view_in T,
    g_x: view_out T,
    g_h0: view_out T,
    g_s: view_out T,
    g_c0: view_out T,
    batch: u32,
    steps: u32,
    hidden: u32,
    width: u32,
}

const CELL: Piece = Piece::new("cell", include_str!("cell.cu"));

static FORWARD: Source = Source {
    name: "recurrence",
    pieces: &[CELL, Piece::new("forward", include_str!("forward.cu"))],
    entries: &[Forward::KERNEL],
};

static BACKWARD: Source = Source {
    name: "recurrence_grad",
    pieces: &[CELL, Piece::new("grad", include_str!("grad.cu"))],
    entries: &[Backward::KERNEL],
};

/// How a block shares its sequences' units.
struct Share {
    /// Sequences of a block.
    rows: usize,
    /// Threads side by side, each with a unit or several.
    width: usize,
    /// Parts of each sum over units, each of so many threads.
    parts: usize,
}

impl Share {
    fn of(s: &Sizes) -> Self {
        let rows = (s.batch / BLOCKS).next_power_of_two().clamp(1, 4);
        let width = s.hidden.next_multiple_of(32).min(BLOCK as usize);
        // A unit for a thread at most, so that the parts of its sums can be joined.
        let most = if s.hidden <= width { BLOCK as usize / width } else { 1 };
        Self { rows, width, parts: if most >= 4 { 4 } else { most.min(2) } }
    }

    /// A module and its blocks, with `units` elements of shared memory for each unit of a sequence.
    fn module(
        &self,
        source: &'static Source,
        cell: Cell,
        s: &Sizes,
        dtype: DType,
        units: usize,
    ) -> Result<(Module, Geometry), Rule> {
        let of_unit = self.rows * units * dtype.accumulate().size();
        let shared = s.hidden * of_unit;
        if shared > SHARED_MEMORY {
            let expected = "so small that its state lies in 99 KiB of shared memory";
            return Err(Rule::Attribute { name: "hidden size", value: s.hidden as f64, expected });
        }
        let module = Module::new(source)
            .of("T", dtype)
            .of("A", dtype.accumulate())
            .constant("GATES", cell.gates() as u64)
            .constant("ROWS", self.rows as u64)
            .constant("PARTS", self.parts as u64);
        let blocks = Geometry::blocks(s.batch.div_ceil(self.rows), (self.width * self.parts) as u32)?;
        Ok((module, Geometry { shared: shared as u32, ..blocks }))
    }
}

pub(super) fn forward(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let cell = attributes::<Recurrence>(op)?.cell;
    let (x, h0, weight, bias) = (*call.input(0)?, *call.input(1)?, *call.input(2)?, *call.input(3)?);
    let (h, saved) = (*call.output(0)?, *call.output(1)?);
    // In place of an operand that a cell has not, another is passed and not touched.
    let (c0, c) = if cell == Cell::Lstm { (*call.input(4)?, *call.output(2)?) } else { (h0, h) };
    let s = Sizes::of(&h.spec().shape);
    if h.spec().shape.elements() == 0 {
        return Ok(());
    }
    let share = Share::of(&s);
    let states = if cell == Cell::Lstm { 3 } else { 2 };
    let units = states + if share.parts > 1 { share.parts * cell.gates() } else { 0 };
    let (module, geometry) = share.module(&FORWARD, cell, &s, x.dtype(), units)?;
    let args = Forward {
        x: &x,
        h0: &h0,
        weight: &weight,
        bias: &bias,
        c0: &c0,
        h: &h,
        saved: &saved,
        c: &c,
        batch: size(s.batch)?,
        steps: size(s.steps)?,
        hidden: size(s.hidden)?,
        width: share.width as u32,
    };
    call.launch(&module, geometry, &args)
}

pub(in crate::ops::recurrent) fn gradient(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let cell = attributes::<RecurrenceGrad>(op)?.cell;
    let (weight, h0, h, saved) = (*call.input(0)?, *call.input(1)?, *call.input(2)?, *call.input(3)?);
    let g_h = *call.input(4)?;
    let (g_x, g_h0, third) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let (c0, c, g_c) =
        if cell == Cell::Lstm { (*call.input(5)?, *call.input(6)?, *call.input(7)?) } else { (h0, h, g_h) };
    let (g_s, g_c0) = if cell == Cell::Lstm { (g_x, third) } else { (third, g_h0) };
    let s = Sizes::of(&h.spec().shape);
    if g_h0.spec().shape.elements() == 0 {
        return Ok(());
    }
    let share = Share::of(&s);
    let units = 2 + cell.gates() + if share.parts > 1 { share.parts } else { 0 };
    let (module, geometry) = share.module(&BACKWARD, cell, &s, h.dtype(), units)?;
    let args = Backward {
        weight: &weight,
        h0: &h0,
        h: &h,
        saved: &saved,
        g_h: &g_h,
        c0: &c0,
        c: &c,
        g_c: &g_c,
        g_x: &g_x,
        g_h0: &g_h0,
        g_s: &g_s,
        g_c0: &g_c0,
        batch: size(s.batch)?,
        steps: size(s.steps)?,
        hidden: size(s.hidden)?,
        width: share.width as u32,
    };
    call.launch(&module, geometry, &args)
}
