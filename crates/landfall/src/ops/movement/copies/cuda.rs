//! Ops that move elements, on a GPU.

use super::{Fold, Pad};
use crate::contract::{ENTRY_ALIGNMENT, Op, attributes, part_offsets};
use crate::kernel::cuda::vectors::collapsed;
use crate::kernel::cuda::{
    BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, Transfer, cuda_kernel,
};
use crate::values::{DType, Layout, MAX_RANK, Operand, Shape};
use arrayvec::ArrayVec;

/// Copies that one launch makes.
pub(in crate::ops) const COPIES: usize = 4;

cuda_kernel! {
    /// A thread moves a unit.
    struct CopyUnits = "copy", BLOCK;
    only: transfer T,
}

cuda_kernel! {
    /// The same of several copies; rows of blocks tell them apart.
    struct CopyAll = "copies", BLOCK;
    first: transfer T,
    second: transfer T,
    third: transfer T,
    fourth: transfer T,
}

cuda_kernel! {
    /// A block moves a tile.
    struct Exchange = "exchange", BLOCK;
    x: input T,
    out: output T,
    rows: size,
    cols: size,
    stride_col: size,
    stride_row: size,
    rank: u32,
    shape: dims,
    stride_x: dims,
    stride_out: dims,
}

cuda_kernel! {
    /// A thread clears an element.
    struct Clear = "clear", BLOCK;
    out: view_out T,
    n: size,
    rank: u32,
    shape: dims,
}

cuda_kernel! {
    /// Sixteen threads clear a gap.
    struct ClearGaps = "clear_gaps", GAPS as u32 * 16;
    out: output T,
    gaps0: dims,
    gaps1: dims,
    gaps2: dims,
    gaps3: dims,
}

static MOVEMENT: Source = Source {
    name: "movement",
    pieces: &[Piece::new("movement", include_str!("movement.cu"))],
    entries: &[CopyUnits::KERNEL, CopyAll::KERNEL, Exchange::KERNEL, Clear::KERNEL, ClearGaps::KERNEL],
};

/// Gaps that one launch clears.
const GAPS: usize = 32;

fn module(dtype: DType, vector: usize) -> Module {
    bound(dtype, vector, SMALL_EDGE, false)
}

/// As [`module`], for tiles of `edge` by `edge` elements; `pairs` says that they move two elements at once.
fn bound(dtype: DType, vector: usize, edge: usize, pairs: bool) -> Module {
    let module = Module::new(&MOVEMENT).of("T", dtype).constant("VECTOR", vector as u64);
    module.constant("EDGE", edge as u64).constant("PAIRS", u64::from(pairs))
}

/// Elements of an edge of the tile that a block exchanges: many at once where both axes have them and shared memory is enough
/// for several blocks, few otherwise, so that short axes leave few threads idle.
fn edge(dtype: DType, rows: usize, cols: usize) -> usize {
    if dtype.size() <= 4 && rows.min(cols) >= LARGE_EDGE { LARGE_EDGE } else { SMALL_EDGE }
}

const SMALL_EDGE: usize = 32;
const LARGE_EDGE: usize = 64;

/// Copies elements between views of one shape.
///
/// As many neighbours as both sides hold and their addresses allow, up to 16 bytes, are moved by one access. Views whose
/// last axis is another's neighbour are moved in tiles.
pub(in crate::ops) fn copy(call: &mut Call<'_>, x: &Operand, out: &Operand) -> Result<(), Failure> {
    if out.spec().shape.elements() == 0 {
        return Ok(());
    }
    let [x, out] = &collapsed([x, out]);
    if let Some(axis) = exchanged(x.layout(), out.layout()) {
        return exchange(call, x, out, axis);
    }
    let vector = widest(x, out);
    let only = transfer(x, out, vector);
    call.launch(&module(x.dtype(), vector), Geometry::linear(only.units, BLOCK)?, &CopyUnits { only })
}

/// Up to [`COPIES`] copies of one dtype, each from the first operand into the second: in one launch where none is made in
/// tiles, because one waits as long as all of them.
pub(in crate::ops) fn copies(call: &mut Call<'_>, pairs: &[(Operand, Operand)]) -> Result<(), Failure> {
    let some = pairs.iter().filter(|(x, _)| x.spec().shape.elements() > 0);
    let all: ArrayVec<(Operand, Operand), COPIES> =
        some.map(|(x, out)| collapsed([x, out]).into()).take(COPIES).collect();
    let tiles = all.iter().any(|(x, out)| exchanged(x.layout(), out.layout()).is_some());
    let vector = all.iter().map(|(x, out)| widest(x, out)).min();
    let (Some(vector), Some(first), false) = (vector, all.first(), tiles || all.len() == 1) else {
        return pairs.iter().try_for_each(|(x, out)| copy(call, x, out));
    };
    // The places of those that are not there repeat the first; no block takes them.
    let place = |i: usize| {
        let (x, out) = all.get(i).unwrap_or(first);
        transfer(x, out, vector)
    };
    let args = CopyAll { first: place(0), second: place(1), third: place(2), fourth: place(3) };
    let most = [args.first, args.second, args.third, args.fourth].map(|copy| copy.units);
    let blocks = Geometry::linear(most.into_iter().fold(0, usize::max), BLOCK)?;
    let geometry = Geometry { grid: [blocks.grid[0], all.len() as u32, 1], ..blocks };
    call.launch(&module(first.0.dtype(), vector), geometry, &args)
}

/// A copy by units of `vector` elements, what one access moves.
fn transfer<'a>(x: &'a Operand, out: &'a Operand, vector: usize) -> Transfer<'a> {
    let units = |of: &[usize], last: usize| {
        let mut v = [0; MAX_RANK];
        v.iter_mut().zip(of).for_each(|(v, &d)| *v = d / vector);
        if let Some(l) = of.len().checked_sub(1) {
            v[l] = last;
        }
        v
    };
    let dims = x.layout().shape().dims();
    let mut shape = [0; MAX_RANK];
    shape.iter_mut().zip(dims).for_each(|(s, &d)| *s = d);
    if let Some(last) = dims.len().checked_sub(1) {
        shape[last] /= vector;
    }
    let strides = |l: &Layout| {
        let last = l.strides().last().copied().unwrap_or(0);
        // Neighbours stay neighbours; with a vector of 1 every stride stays.
        units(l.strides(), if vector == 1 { last } else { 1 })
    };
    Transfer {
        x,
        out,
        units: x.layout().shape().elements() / vector,
        rank: dims.len(),
        shape,
        stride_x: strides(x.layout()),
        stride_out: strides(out.layout()),
    }
}

/// The most elements, up to 16 bytes, that are contiguous on both sides everywhere.
fn widest(x: &Operand, out: &Operand) -> usize {
    let size = x.dtype().size();
    let fits = |o: &Operand, vector: usize| {
        let (dims, strides) = (o.layout().shape().dims(), o.layout().strides());
        let Some(last) = dims.len().checked_sub(1) else { return vector == 1 };
        o.address().is_multiple_of((vector * size) as u64)
            && dims[last].is_multiple_of(vector)
            && (vector == 1 || strides[last] == 1)
            && strides[..last].iter().all(|s| s.is_multiple_of(vector))
    };
    [16, 8, 4, 2].iter().map(|b| b / size).find(|&v| v > 0 && fits(x, v) && fits(out, v)).unwrap_or(1)
}

/// The axis along which `from` has neighbours, if it is not the last and there `to` has them: worth tiles where both
/// axes are long.
fn exchanged(from: &Layout, to: &Layout) -> Option<usize> {
    let dims = from.shape().dims();
    let last = dims.len().checked_sub(1)?;
    let axis = from.strides().iter().position(|&s| s == 1)?;
    (axis != last && to.strides()[last] == 1 && dims[axis] >= 8 && dims[last] >= 8).then_some(axis)
}

/// Copies with `axis` and the last axis exchanged.
fn exchange(call: &mut Call<'_>, x: &Operand, out: &Operand, axis: usize) -> Result<(), Failure> {
    let (from, to) = (x.layout(), out.layout());
    let dims = from.shape().dims();
    let last = dims.len() - 1;
    let rest = |of: &[usize]| {
        let mut v = [0; MAX_RANK];
        let kept = of.iter().enumerate().filter(|(a, _)| *a != axis && *a != last);
        v.iter_mut().zip(kept).for_each(|(v, (_, &d))| *v = d);
        v
    };
    let outer: usize = dims.iter().product::<usize>() / dims[axis] / dims[last];
    let edge = edge(x.dtype(), dims[axis], dims[last]);
    let tiles = dims[axis].div_ceil(edge) * dims[last].div_ceil(edge);
    // Two elements of 16 bits move at once, where every pair is aligned for it on both sides.
    let even = |of: &Operand, along: usize| {
        let strides = of.layout().strides().iter().enumerate();
        of.address().is_multiple_of(4)
            && dims[along].is_multiple_of(2)
            && strides.filter(|(a, _)| *a != along).all(|(_, s)| s.is_multiple_of(2))
    };
    let pairs = edge == LARGE_EDGE && x.dtype().size() == 2 && even(x, axis) && even(out, last);
    let args = Exchange {
        x,
        out,
        rows: dims[axis],
        cols: dims[last],
        stride_col: from.strides()[last],
        stride_row: to.strides()[axis],
        rank: dims.len() as u32 - 2,
        shape: &rest(dims),
        stride_x: &rest(from.strides()),
        stride_out: &rest(to.strides()),
    };
    call.launch(&bound(x.dtype(), 1, edge, pairs), Geometry::blocks(tiles * outer, BLOCK)?, &args)
}

/// Sets every element of a view to zero.
pub(in crate::ops) fn clear(call: &mut Call<'_>, out: &Operand) -> Result<(), Failure> {
    let n = out.spec().shape.elements();
    if n == 0 {
        return Ok(());
    }
    if out.layout().is_contiguous() {
        return call.fill(out, 0);
    }
    let [out] = &collapsed([out]);
    let shape = out.layout().shape();
    let args = Clear { out, n, rank: shape.rank() as u32, shape: shape.dims() };
    call.launch(&module(out.dtype(), 1), Geometry::linear(n, BLOCK)?, &args)
}

/// [`super::Copy`].
pub(super) fn copy_op(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (x, out) = (*call.input(0)?, *call.output(0)?);
    copy(call, &x, &out)
}

/// [`Pad`].
pub(super) fn pad(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Pad>(op)?;
    let (x, out) = (*call.input(0)?, *call.output(0)?);
    let n = x.spec().shape.dims()[op.axis];
    for (start, len) in [(0, op.before), (op.before + n, op.after)] {
        let edge = out.relaid(out.layout().slice(op.axis, start, len, 1)?);
        clear(call, &edge)?;
    }
    let inside = out.relaid(out.layout().slice(op.axis, op.before, n, 1)?);
    copy(call, &x, &inside)
}

/// [`super::Pack`]: each part that does not lie in its place yet, then the gaps, 32 in a launch.
pub(super) fn pack(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let out = *call.output(0)?;
    let inputs = call.inputs();
    let mut gaps = [0; GAPS];
    let (mut count, mut end) = (0, 0);
    let offsets = part_offsets(inputs.iter().map(Operand::spec), ENTRY_ALIGNMENT);
    let ends = [(out.spec().shape.elements(), None)];
    let parts = offsets.zip(inputs.iter().map(Some)).enumerate().map(|(i, (at, x))| (at, x.map(|x| (i, x))));
    for (start, part) in parts.chain(ends) {
        // Along a row that is not contiguous the gap is cleared as a view.
        if start > end {
            if out.layout().is_contiguous() {
                gaps[count] = end * ENTRY_ALIGNMENT + start - end;
                count += 1;
            } else {
                let gap = out.relaid(out.layout().slice(0, end, start - end, 1)?);
                clear(call, &gap)?;
            }
        }
        if count == GAPS {
            clear_gaps(call, &out, &gaps)?;
            (gaps, count) = ([0; GAPS], 0);
        }
        let Some((i, x)) = part else { continue };
        let n = x.spec().shape.elements();
        if call.in_place(i).is_none() {
            let place = out.layout().slice(0, start, n, 1)?.reshape(x.spec().shape)?;
            copy(call, x, &out.relaid(place))?;
        }
        end = start + n;
    }
    if count > 0 { clear_gaps(call, &out, &gaps) } else { Ok(()) }
}

fn clear_gaps(call: &mut Call<'_>, out: &Operand, gaps: &[usize; GAPS]) -> Result<(), Failure> {
    let args =
        ClearGaps { out, gaps0: &gaps[..8], gaps1: &gaps[8..16], gaps2: &gaps[16..24], gaps3: &gaps[24..] };
    call.launch(&module(out.dtype(), 1), Geometry::blocks(1, GAPS as u32 * 16)?, &args)
}

cuda_kernel! {
    /// A thread adds the windows of an element.
    struct AddWindows = "fold", BLOCK;
    x: view_in T,
    out: view_out T,
    n: size,
    length: size,
    windows: size,
    size: size,
    step: size,
    stride_window: size,
    stride_in: size,
    stride_i: size,
    rank: u32,
    shape: dims,
}

static FOLD: Source = Source {
    name: "fold",
    pieces: &[Piece::new("fold", include_str!("fold.cu"))],
    entries: &[AddWindows::KERNEL],
};

/// [`Fold`].
pub(super) fn fold(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<Fold>(op)?;
    let (x, out) = (*call.input(0)?, *call.output(0)?);
    let (n, rank) = (out.spec().shape.elements(), out.spec().shape.rank());
    let windows = x.spec().shape.dims()[rank - 1];
    if n == 0 || windows == 0 {
        return clear(call, &out);
    }
    let (from, to) = (x.layout().strides(), out.layout().strides());
    let outer: Shape = out.spec().shape.without(rank - 1);
    let args = AddWindows {
        x: &x,
        out: &out,
        n,
        length: op.length,
        windows,
        size: op.size,
        step: op.step,
        stride_window: from[rank - 1],
        stride_in: from[rank],
        stride_i: to[rank - 1],
        rank: rank as u32 - 1,
        shape: outer.dims(),
    };
    let module = Module::new(&FOLD).of("T", x.dtype());
    call.launch(&module, Geometry::linear(n, BLOCK)?, &args)
}
