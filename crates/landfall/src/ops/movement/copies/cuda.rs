//! Ops that move elements, on a GPU.

use super::{Fold, Pad};
use crate::contract::{ENTRY_ALIGNMENT, Op, attributes, part_offsets};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::{DType, Layout, MAX_RANK, Operand, Shape, collapse};
use arrayvec::ArrayVec;

const BLOCK: u32 = 256;

/// Copies that one launch makes.
pub(in crate::ops) const COPIES: usize = 4;

macro_rules! copies {
    ($($x:literal $out:literal $n:literal $rank:literal $shape:literal $stride_x:literal $stride_out:literal),*) => {
        &[$(
            Param::input($x, "T"),
            Param::output($out, "T"),
            Param::u64($n),
            Param::u32($rank),
            Param::dims($shape),
            Param::dims($stride_x),
            Param::dims($stride_out),
        )*]
    };
}

static MOVEMENT: Source = Source {
    name: "movement",
    text: include_str!("movement.cu"),
    entries: &[
        Entry {
            name: "copy",
            block: BLOCK,
            params: &[
                Param::input("x", "T"),
                Param::output("out", "T"),
                Param::u64("n"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("stride_x"),
                Param::dims("stride_out"),
            ],
        },
        Entry {
            name: "copies",
            block: BLOCK,
            params: copies!("x0" "out0" "n0" "rank0" "shape0" "stride_x0" "stride_out0",
                "x1" "out1" "n1" "rank1" "shape1" "stride_x1" "stride_out1",
                "x2" "out2" "n2" "rank2" "shape2" "stride_x2" "stride_out2",
                "x3" "out3" "n3" "rank3" "shape3" "stride_x3" "stride_out3"),
        },
        Entry {
            name: "exchange",
            block: BLOCK,
            params: &[
                Param::input("x", "T"),
                Param::output("out", "T"),
                Param::u64("rows"),
                Param::u64("cols"),
                Param::u64("stride_col"),
                Param::u64("stride_row"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("stride_x"),
                Param::dims("stride_out"),
            ],
        },
        Entry {
            name: "clear",
            block: BLOCK,
            params: &[
                Param::output("out", "T"),
                Param::u64("n"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("stride_out"),
            ],
        },
        Entry {
            name: "clear_gaps",
            block: GAPS as u32 * 16,
            params: &[
                Param::output("out", "T"),
                Param::dims("gaps0"),
                Param::dims("gaps1"),
                Param::dims("gaps2"),
                Param::dims("gaps3"),
            ],
        },
    ],
};

/// Gaps that one launch clears.
const GAPS: usize = 32;

fn module(dtype: DType, vector: usize) -> Module {
    Module::new(&MOVEMENT).of("T", dtype).constant("VECTOR", vector as u64)
}

/// Copies elements between views of one shape.
///
/// As many neighbours as both sides hold and their addresses allow, up to 16 bytes, are moved by one access. Views whose
/// last axis is another's neighbour are moved in tiles.
pub(in crate::ops) fn copy(call: &mut Call<'_>, x: &Operand, out: &Operand) -> Result<(), Failure> {
    if out.spec().shape.elements() == 0 {
        return Ok(());
    }
    let (x, out) = &collapsed(x, out);
    if let Some(axis) = exchanged(x.layout(), out.layout()) {
        return exchange(call, x, out, axis);
    }
    let vector = widest(x, out);
    let (n, args) = moved(x, out, vector);
    call.launch(&module(x.dtype(), vector), "copy", Geometry::linear(n, BLOCK)?, &args)
}

/// Up to [`COPIES`] copies of one dtype, each from the first operand into the second: in one launch where none is made in
/// tiles, because one waits as long as all of them.
pub(in crate::ops) fn copies(call: &mut Call<'_>, pairs: &[(Operand, Operand)]) -> Result<(), Failure> {
    let some = pairs.iter().filter(|(x, _)| x.spec().shape.elements() > 0);
    let all: ArrayVec<(Operand, Operand), COPIES> =
        some.map(|(x, out)| collapsed(x, out)).take(COPIES).collect();
    let tiles = all.iter().any(|(x, out)| exchanged(x.layout(), out.layout()).is_some());
    let vector = all.iter().map(|(x, out)| widest(x, out)).min();
    let (Some(vector), Some(first), false) = (vector, all.first(), tiles || all.len() == 1) else {
        return pairs.iter().try_for_each(|(x, out)| copy(call, x, out));
    };
    let mut args = ArrayVec::<Arg<'_>, { 7 * COPIES }>::new();
    let mut most = 0;
    for (x, out) in &all {
        let (n, each) = moved(x, out, vector);
        most = most.max(n);
        args.extend(each);
    }
    // The places of those that are not there repeat the first; no block takes them.
    for _ in all.len()..COPIES {
        args.extend(moved(&first.0, &first.1, vector).1);
    }
    let blocks = Geometry::linear(most, BLOCK)?;
    let geometry = Geometry { grid: [blocks.grid[0], all.len() as u32, 1], ..blocks };
    call.launch(&module(first.0.dtype(), vector), "copies", geometry, &args)
}

/// Both sides of a copy with as few axes as possible.
fn collapsed(x: &Operand, out: &Operand) -> (Operand, Operand) {
    let mut layouts = [*x.layout(), *out.layout()];
    collapse(&mut layouts);
    let [from, to] = layouts;
    (x.relaid(from), out.relaid(to))
}

/// What is moved, and a copy's arguments: sizes and strides in units of `vector` elements, what one access moves.
fn moved<'a>(x: &'a Operand, out: &'a Operand, vector: usize) -> (usize, [Arg<'a>; 7]) {
    let units = |of: &[usize], last: usize| {
        let mut v = [0; MAX_RANK];
        v.iter_mut().zip(of).for_each(|(v, &d)| *v = d / vector);
        if let Some(l) = of.len().checked_sub(1) {
            v[l] = last;
        }
        v
    };
    let dims = x.layout().shape().dims();
    let inner = dims.last().map_or(1, |d| d / vector);
    let mut shape = [0; MAX_RANK];
    shape.iter_mut().zip(dims).for_each(|(s, &d)| *s = d);
    if let Some(last) = dims.len().checked_sub(1) {
        shape[last] = inner;
    }
    let strides = |l: &Layout| {
        let last = l.strides().last().copied().unwrap_or(0);
        // Neighbours stay neighbours; with a vector of 1 every stride stays.
        units(l.strides(), if vector == 1 { last } else { 1 })
    };
    let n = x.layout().shape().elements() / vector;
    let args = [
        Arg::Input(x),
        Arg::Output(out),
        Arg::U64(n as u64),
        Arg::U32(dims.len() as u32),
        Arg::dims(&shape),
        Arg::dims(&strides(x.layout())),
        Arg::dims(&strides(out.layout())),
    ];
    (n, args)
}

/// The most elements, up to 16 bytes, that both sides hold side by side everywhere.
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
    let tiles = dims[axis].div_ceil(32) * dims[last].div_ceil(32);
    let args = [
        Arg::Input(x),
        Arg::Output(out),
        Arg::U64(dims[axis] as u64),
        Arg::U64(dims[last] as u64),
        Arg::U64(from.strides()[last] as u64),
        Arg::U64(to.strides()[axis] as u64),
        Arg::U32(dims.len() as u32 - 2),
        Arg::dims(&rest(dims)),
        Arg::dims(&rest(from.strides())),
        Arg::dims(&rest(to.strides())),
    ];
    call.launch(&module(x.dtype(), 1), "exchange", Geometry::blocks(tiles * outer, BLOCK)?, &args)
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
    let mut layout = [*out.layout()];
    collapse(&mut layout);
    let args = [
        Arg::Output(out),
        Arg::U64(n as u64),
        Arg::U32(layout[0].shape().rank() as u32),
        Arg::dims(layout[0].shape().dims()),
        Arg::dims(layout[0].strides()),
    ];
    call.launch(&module(out.dtype(), 1), "clear", Geometry::linear(n, BLOCK)?, &args)
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
    let mut gaps = [0u64; GAPS];
    let (mut count, mut end) = (0, 0);
    let offsets = part_offsets(inputs.iter().map(Operand::spec), ENTRY_ALIGNMENT);
    let ends = [(out.spec().shape.elements(), None)];
    let parts = offsets.zip(inputs.iter().map(Some)).enumerate().map(|(i, (at, x))| (at, x.map(|x| (i, x))));
    for (start, part) in parts.chain(ends) {
        // Along a row that is not gapless the gap is cleared as a view.
        if start > end {
            if out.layout().is_contiguous() {
                gaps[count] = (end * ENTRY_ALIGNMENT + start - end) as u64;
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

fn clear_gaps(call: &mut Call<'_>, out: &Operand, gaps: &[u64; GAPS]) -> Result<(), Failure> {
    let part = |i: usize| {
        let mut v = [0; MAX_RANK];
        v.copy_from_slice(&gaps[8 * i..8 * i + 8]);
        Arg::Dims(v)
    };
    let args = [Arg::Output(out), part(0), part(1), part(2), part(3)];
    call.launch(&module(out.dtype(), 1), "clear_gaps", Geometry::blocks(1, GAPS as u32 * 16)?, &args)
}

static FOLD: Source = Source {
    name: "fold",
    text: include_str!("fold.cu"),
    entries: &[Entry {
        name: "fold",
        block: BLOCK,
        params: &[
            Param::input("x", "T"),
            Param::output("out", "T"),
            Param::u64("n"),
            Param::u64("length"),
            Param::u64("windows"),
            Param::u64("size"),
            Param::u64("step"),
            Param::u64("stride_window"),
            Param::u64("stride_in"),
            Param::u64("stride_i"),
            Param::u32("rank"),
            Param::dims("shape"),
            Param::dims("stride_x"),
            Param::dims("stride_out"),
        ],
    }],
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
    let args = [
        Arg::Input(&x),
        Arg::Output(&out),
        Arg::U64(n as u64),
        Arg::U64(op.length as u64),
        Arg::U64(windows as u64),
        Arg::U64(op.size as u64),
        Arg::U64(op.step as u64),
        Arg::U64(from[rank - 1] as u64),
        Arg::U64(from[rank] as u64),
        Arg::U64(to[rank - 1] as u64),
        Arg::U32(rank as u32 - 1),
        Arg::dims(outer.dims()),
        Arg::dims(&from[..rank - 1]),
        Arg::dims(&to[..rank - 1]),
    ];
    let module = Module::new(&FOLD).of("T", x.dtype());
    call.launch(&module, "fold", Geometry::linear(n, BLOCK)?, &args)
}
