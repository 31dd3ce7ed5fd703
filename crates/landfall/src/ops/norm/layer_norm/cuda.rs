//! Layer normalisation and its gradient on a GPU.

use super::{LayerNorm, sizes};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::columns::Sharing;
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::ops::reduce::reduction::{BLOCK, Group, across, gapless, split, unit};
use crate::values::{DType, Layout, Operand, Rule, Spec, collapse};
use arrayvec::ArrayVec;

static SOURCE: Source = Source {
    name: "layer_norm",
    text: concat!(
        include_str!("../../../kernel/cuda/units.cu"),
        include_str!("../../../kernel/cuda/group.cu"),
        include_str!("../../../kernel/cuda/rows.cu"),
        include_str!("whole.cu"),
        include_str!("layer_norm.cu")
    ),
    entries: &[Entry {
        name: "layer_norm",
        block: BLOCK,
        params: &[
            Param::u64("rows"),
            Param::u64("length"),
            Param::u32("lanes"),
            Param::u32("across"),
            Param::u32("rank"),
            Param::dims("shape"),
            Param::dims("shape_row"),
            Param::input("x", "T"),
            Param::u32("gapless_x"),
            Param::dims("stride_x"),
            Param::dims("stride_row_x"),
            Param::input("weight", "W"),
            Param::u32("gapless_weight"),
            Param::dims("stride_weight"),
            Param::input("bias", "W"),
            Param::u32("gapless_bias"),
            Param::dims("stride_bias"),
            Param::output("y", "T"),
            Param::u32("gapless_y"),
            Param::dims("stride_y"),
            Param::dims("stride_row_y"),
            Param::output("mean", "A"),
            Param::dims("stride_mean"),
            Param::output("rstd", "A"),
            Param::dims("stride_rstd"),
            Param::f64("share"),
            Param::f64("eps"),
        ],
    }],
};

static GRADIENT: Source = Source {
    name: "layer_norm_grad",
    text: concat!(
        include_str!("../../../kernel/cuda/units.cu"),
        include_str!("../../../kernel/cuda/group.cu"),
        include_str!("../../../kernel/cuda/rows.cu"),
        include_str!("../../../kernel/cuda/columns.cu"),
        include_str!("whole.cu"),
        include_str!("grad.cu")
    ),
    entries: &[
        Entry {
            name: "gradient",
            block: BLOCK,
            params: &[
                Param::u64("rows"),
                Param::u64("length"),
                Param::u32("lanes"),
                Param::u32("across"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("shape_row"),
                Param::input("gy", "T"),
                Param::u32("gapless_gy"),
                Param::dims("stride_gy"),
                Param::dims("stride_row_gy"),
                Param::input("x", "T"),
                Param::u32("gapless_x"),
                Param::dims("stride_x"),
                Param::dims("stride_row_x"),
                Param::input("weight", "W"),
                Param::u32("gapless_weight"),
                Param::dims("stride_weight"),
                Param::input("mean", "M"),
                Param::dims("stride_mean"),
                Param::input("rstd", "V"),
                Param::dims("stride_rstd"),
                Param::output("gx", "T"),
                Param::u32("gapless_gx"),
                Param::dims("stride_gx"),
                Param::dims("stride_row_gx"),
            ],
        },
        Entry {
            name: "gradient_sums",
            block: BLOCK,
            params: &[
                Param::u64("rows"),
                Param::u64("length"),
                Param::u64("each"),
                Param::u32("lanes"),
                Param::u32("across"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("shape_row"),
                Param::input("gy", "T"),
                Param::u32("gapless_gy"),
                Param::dims("stride_gy"),
                Param::dims("stride_row_gy"),
                Param::input("x", "T"),
                Param::u32("gapless_x"),
                Param::dims("stride_x"),
                Param::dims("stride_row_x"),
                Param::input("weight", "W"),
                Param::u32("gapless_weight"),
                Param::dims("stride_weight"),
                Param::input("mean", "M"),
                Param::dims("stride_mean"),
                Param::input("rstd", "V"),
                Param::dims("stride_rstd"),
                Param::output("gx", "T"),
                Param::u32("gapless_gx"),
                Param::dims("stride_gx"),
                Param::dims("stride_row_gx"),
                Param::f64("share"),
                Param::scratch_is("partial", DType::F64),
            ],
        },
        Entry {
            name: "column_sums",
            block: BLOCK,
            params: &[
                Param::u64("rows"),
                Param::u64("length"),
                Param::u64("each"),
                Param::u32("width"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::input("gy", "T"),
                Param::dims("stride_gy"),
                Param::u64("step_gy"),
                Param::input("x", "T"),
                Param::dims("stride_x"),
                Param::u64("step_x"),
                Param::input("mean", "M"),
                Param::dims("stride_mean"),
                Param::input("rstd", "V"),
                Param::dims("stride_rstd"),
                Param::scratch_is("partial", DType::F64),
            ],
        },
        Entry {
            name: "finish",
            block: BLOCK,
            params: &[
                Param::u64("length"),
                Param::u64("chunks"),
                Param::u32("width"),
                Param::scratch_is("partial", DType::F64),
                Param::output("gweight", "W"),
                Param::u64("step_gweight"),
                Param::output("gbias", "W"),
                Param::u64("step_gbias"),
            ],
        },
    ],
};

/// Blocks of `gradient_sums` that keep all of a GPU at work, and the most groups of rows of one: each is a term of sums in
/// the accumulation type.
const BLOCKS: usize = 256;
const GROUPS: usize = 64;
/// Columns of a block that adds up their sums, at most: a line of memory of pairs of f64.
const WIDTH: usize = 8;

/// How blocks share the sums over the rows: those that walk rows of at most a unit a lane keep them.
fn walked(rows: usize, columns: usize, dtype: DType) -> Option<Sharing> {
    let group = Group::whole(rows.max(1), columns, dtype);
    if rows == 0 || columns > group.lanes * unit(dtype) {
        return None;
    }
    let each = group.blocks.div_ceil(BLOCKS).min(GROUPS);
    let width = columns.next_power_of_two().min(WIDTH);
    Some(Sharing { width, groups: columns.div_ceil(width), chunks: group.blocks.div_ceil(each), each })
}

/// Bytes of scratch memory for the gradient's sums over the rows of `x`.
pub(super) fn workspace(x: &Spec) -> usize {
    let (rows, columns) = sizes(&x.shape);
    walked(rows, columns, x.dtype).unwrap_or_else(|| Sharing::sums(rows, columns)).workspace(columns)
}

/// Matrices of the same rows, and vectors with an element for each: starts of the rows, with as few axes as possible,
/// and each matrix's row.
pub(in crate::ops) fn rows<const M: usize, const V: usize, const N: usize>(
    matrices: [&Operand; M],
    vectors: [&Operand; V],
) -> Result<([Layout; N], [Layout; M]), Rule> {
    let (mut starts, mut row) = ([Layout::SCALAR; N], [Layout::SCALAR; M]);
    for (i, operand) in matrices.iter().enumerate() {
        let last = operand.layout().shape().rank() - 1;
        (starts[i], row[i]) = split(operand.layout(), |a| a == last)?;
    }
    for (start, operand) in starts[M..].iter_mut().zip(vectors) {
        *start = *operand.layout();
    }
    collapse(&mut starts);
    Ok((starts, row))
}

/// A matrix's arguments: its flag and strides.
pub(in crate::ops) fn matrix(of: &Operand, starts: &Layout, row: &Layout) -> [Arg<'static>; 3] {
    [Arg::U32(gapless(of, starts, row)), Arg::dims(starts.strides()), Arg::dims(row.strides())]
}

/// A vector's along the rows.
fn vector(of: &Operand) -> [Arg<'static>; 2] {
    let mut row = [*of.layout()];
    collapse(&mut row);
    [Arg::U32(gapless(of, &Layout::SCALAR, &row[0])), Arg::dims(row[0].strides())]
}

/// Whether rows are as `whole.cu` says: `WHOLE` in the sources. `gapless` are the flags of all that is read and written.
fn whole(
    group: &Group,
    length: usize,
    dtype: DType,
    starts: &Layout,
    row: &Layout,
    gapless: &[Arg<'_>],
) -> u64 {
    let unit = unit(dtype);
    u64::from(
        group.lanes <= 32
            && length <= group.lanes * unit
            && length.is_multiple_of(unit)
            && starts.shape().rank() <= 1
            && across(starts, row) == 0
            && gapless.iter().all(|flag| matches!(flag, Arg::U32(1))),
    )
}

fn step(row: &Layout) -> Arg<'static> {
    Arg::U64(row.strides().first().copied().unwrap_or(0) as u64)
}

/// [`LayerNorm`].
pub(super) fn forward(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let eps = attributes::<LayerNorm>(op)?.eps;
    let (x, weight, bias) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
    let (y, mean, rstd) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let (count, length) = sizes(&x.spec().shape);
    if count == 0 {
        return Ok(());
    }
    let ([of_x, of_y, of_mean, of_rstd], [row_x, row_y]) = rows([&x, &y], [&mean, &rstd])?;
    let group = Group::whole(count, length.max(1), x.dtype());
    let [gapless_x, stride_x, stride_row_x] = matrix(&x, &of_x, &row_x);
    let [gapless_y, stride_y, stride_row_y] = matrix(&y, &of_y, &row_y);
    let ([gapless_weight, stride_weight], [gapless_bias, stride_bias]) = (vector(&weight), vector(&bias));
    let module = Module::new(&SOURCE).of("T", x.dtype()).of("A", x.dtype().accumulate());
    let module = module.of("W", weight.dtype());
    let flags = [gapless_x, gapless_y, gapless_weight, gapless_bias];
    let whole = whole(&group, length, x.dtype(), &of_x, &row_x, &flags);
    let module = module.constant("UNIT", unit(x.dtype()) as u64).constant("WHOLE", whole);
    let args = [
        Arg::U64(count as u64),
        Arg::U64(length as u64),
        Arg::U32(group.lanes as u32),
        Arg::U32(across(&of_x, &row_x)),
        Arg::U32(of_x.shape().rank() as u32),
        Arg::dims(of_x.shape().dims()),
        Arg::dims(row_x.shape().dims()),
        Arg::Input(&x),
        gapless_x,
        stride_x,
        stride_row_x,
        Arg::Input(&weight),
        gapless_weight,
        stride_weight,
        Arg::Input(&bias),
        gapless_bias,
        stride_bias,
        Arg::Output(&y),
        gapless_y,
        stride_y,
        stride_row_y,
        Arg::Output(&mean),
        Arg::dims(of_mean.strides()),
        Arg::Output(&rstd),
        Arg::dims(of_rstd.strides()),
        Arg::F64(1.0 / length as f64),
        Arg::F64(eps),
    ];
    call.launch(&module, "layer_norm", Geometry::blocks(group.blocks, BLOCK)?, &args)
}

/// [`crate::ops::norm::layer_norm::LayerNormGrad`].
pub(super) fn backward(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (gy, x, weight) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
    let (mean, rstd) = (*call.input(3)?, *call.input(4)?);
    let (gx, gweight, gbias) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let (count, length) = sizes(&x.spec().shape);
    if length == 0 {
        return Ok(());
    }
    let module = Module::new(&GRADIENT).of("T", x.dtype()).of("A", x.dtype().accumulate());
    let module = module.of("W", weight.dtype()).of("M", mean.dtype()).of("V", rstd.dtype());
    let mut module = module.constant("UNIT", unit(x.dtype()) as u64);
    let walked = walked(count, length, x.dtype());
    let sharing = walked.unwrap_or_else(|| Sharing::sums(count, length));
    if count > 0 {
        let (starts, row) = rows([&gy, &x, &gx], [&mean, &rstd])?;
        let [of_gy, of_x, of_gx, of_mean, of_rstd] = starts;
        let [row_gy, row_x, row_gx] = row;
        let group = Group::whole(count, length, x.dtype());
        let [gapless_weight, stride_weight] = vector(&weight);
        let (stride_mean, stride_rstd) = (Arg::dims(of_mean.strides()), Arg::dims(of_rstd.strides()));
        let (rank, shape) = (Arg::U32(of_x.shape().rank() as u32), Arg::dims(of_x.shape().dims()));
        let of = [matrix(&gy, &of_gy, &row_gy), matrix(&x, &of_x, &row_x), matrix(&gx, &of_gx, &row_gx)];
        let flags = [of[0][0], of[1][0], of[2][0], gapless_weight];
        module.set("WHOLE", whole(&group, length, x.dtype(), &of_x, &row_x, &flags));
        let mut args = ArrayVec::<Arg<'_>, 29>::new();
        args.extend([Arg::U64(count as u64), Arg::U64(length as u64)]);
        args.extend(walked.map(|w| Arg::U64(w.each as u64)));
        args.extend([Arg::U32(group.lanes as u32), Arg::U32(across(&of_x, &row_x)), rank, shape]);
        args.push(Arg::dims(row_x.shape().dims()));
        args.push(Arg::Input(&gy));
        args.extend(of[0]);
        args.push(Arg::Input(&x));
        args.extend(of[1]);
        args.extend([Arg::Input(&weight), gapless_weight, stride_weight]);
        args.extend([Arg::Input(&mean), stride_mean, Arg::Input(&rstd), stride_rstd]);
        args.push(Arg::Output(&gx));
        args.extend(of[2]);
        if walked.is_some() {
            args.extend([Arg::F64(1.0 / length as f64), Arg::Scratch(0)]);
            call.launch(&module, "gradient_sums", Geometry::blocks(sharing.chunks, BLOCK)?, &args)?;
        } else {
            call.launch(&module, "gradient", Geometry::blocks(group.blocks, BLOCK)?, &args)?;
            let args = [
                Arg::U64(count as u64),
                Arg::U64(length as u64),
                Arg::U64(sharing.each as u64),
                Arg::U32(sharing.width as u32),
                rank,
                shape,
                Arg::Input(&gy),
                Arg::dims(of_gy.strides()),
                step(&row_gy),
                Arg::Input(&x),
                Arg::dims(of_x.strides()),
                step(&row_x),
                Arg::Input(&mean),
                stride_mean,
                Arg::Input(&rstd),
                stride_rstd,
                Arg::Scratch(0),
            ];
            call.launch(&module, "column_sums", sharing.blocks()?, &args)?;
        }
    } else {
        module.set("WHOLE", 0);
    }
    let args = [
        Arg::U64(length as u64),
        Arg::U64(sharing.chunks as u64),
        Arg::U32(sharing.width as u32),
        Arg::Scratch(0),
        Arg::Output(&gweight),
        step(gweight.layout()),
        Arg::Output(&gbias),
        step(gbias.layout()),
    ];
    call.launch(&module, "finish", sharing.finish()?, &args)
}
