//! Layer normalisation and its gradient on a GPU.

use super::{LayerNorm, sizes};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::columns::Sharing;
use crate::kernel::cuda::{
    COLUMNS, Call, Failure, GROUP, Geometry, KernelArgs, Module, Piece, ROWS, RowFrame, SINGLE_PASS, Source,
    UNITS, cuda_kernel,
};
use crate::ops::reduce::reduction::{BLOCK, Group, across, kept, row_view, single_pass, split, unit};
use crate::values::{DType, Layout, Operand, Rule, Spec, align, collapse};

cuda_kernel! {
    /// A group of lanes takes a row.
    struct Forward = "layer_norm", BLOCK;
    frame: row_frame,
    x: rows_in T,
    weight: rows_in W,
    bias: rows_in W,
    y: rows_out T,
    mean: view_out A,
    rstd: view_out A,
    share: f64,
    eps: f64,
}

static SOURCE: Source = Source {
    name: "layer_norm",
    pieces: &[UNITS, GROUP, ROWS, SINGLE_PASS, Piece::new("layer_norm", include_str!("layer_norm.cu"))],
    entries: &[Forward::KERNEL],
};

/// The same of rows that are held in registers.
static HELD: Source = Source {
    name: "layer_norm_held",
    pieces: &[UNITS, GROUP, HELD_ROWS, Piece::new("held_forward", include_str!("held_forward.cu"))],
    entries: &[Forward::KERNEL],
};

const HELD_ROWS: Piece = Piece::new("held", include_str!("held.cu"));
/// Lanes of a row that is held, at most: four units for each of a warp's.
const HELD_LANES: u64 = 128;
/// Blocks of held rows that a large GPU runs at once, each with the rows that it fetches ahead.
const HELD_BLOCKS: usize = 396;

/// Units of a lane, of rows that are held: `lanes` are as `single_pass` gives them.
fn held_units(lanes: u64) -> usize {
    (lanes as usize / 32).max(1)
}

cuda_kernel! {
    /// The gradient of the rows alone.
    struct Gradient = "gradient", BLOCK;
    frame: row_frame,
    gy: rows_in T,
    x: rows_in T,
    weight: rows_in W,
    mean: view_in M,
    rstd: view_in V,
    gx: rows_out T,
}

cuda_kernel! {
    /// The gradient of the rows, with sums over the rows of a block for the weight's and the bias's.
    struct GradientSums = "gradient_sums", BLOCK;
    frame: row_frame,
    each: size,
    gy: rows_in T,
    x: rows_in T,
    weight: rows_in W,
    mean: view_in M,
    rstd: view_in V,
    gx: rows_out T,
    share: f64,
    partial: scratch_of F64,
}

cuda_kernel! {
    /// These sums in a launch of their own.
    struct ColumnSums = "column_sums", BLOCK;
    frame: row_frame,
    each: size,
    width: u32,
    gy: rows_in T,
    x: rows_in T,
    mean: view_in M,
    rstd: view_in V,
    partial: scratch_of F64,
}

cuda_kernel! {
    /// The sums of all blocks.
    struct Finish = "finish", BLOCK;
    length: size,
    chunks: size,
    width: u32,
    partial: scratch_of F64,
    gweight: view_out W,
    gbias: view_out W,
}

static GRADIENT: Source = Source {
    name: "layer_norm_grad",
    pieces: &[UNITS, GROUP, ROWS, COLUMNS, SINGLE_PASS, FINISH, Piece::new("grad", include_str!("grad.cu"))],
    entries: &[Gradient::KERNEL, GradientSums::KERNEL, ColumnSums::KERNEL, Finish::KERNEL],
};

/// The same of rows that are held in registers.
static HELD_GRADIENT: Source = Source {
    name: "layer_norm_held_grad",
    pieces: &[
        UNITS,
        GROUP,
        COLUMNS,
        HELD_ROWS,
        FINISH,
        Piece::new("held_grad", include_str!("held_grad.cu")),
    ],
    entries: &[GradientSums::KERNEL, Finish::KERNEL],
};

const FINISH: Piece = Piece::new("finish", include_str!("finish.cu"));

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

/// What the rows of all operands have in common, and the lanes that share one.
pub(in crate::ops) fn frame<'a>(x: &Operand, starts: &'a Layout, row: &'a Layout) -> (RowFrame<'a>, Group) {
    let (count, length) = sizes(&x.spec().shape);
    let group = Group::whole(count, length.max(1), x.dtype());
    let (lanes, across) = (group.lanes as u32, across(starts, row));
    (RowFrame { count, length, lanes, across, starts, row }, group)
}

/// The axes of a vector along the rows, as few as possible.
fn vector(of: &Operand) -> Layout {
    let mut row = [*of.layout()];
    collapse(&mut row);
    row[0]
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
    let (row_weight, row_bias) = (vector(&weight), vector(&bias));
    let (frame, group) = frame(&x, &of_x, &row_x);
    let args = Forward {
        frame,
        x: row_view(&x, &of_x, &row_x),
        weight: row_view(&weight, &Layout::SCALAR, &row_weight),
        bias: row_view(&bias, &Layout::SCALAR, &row_bias),
        y: row_view(&y, &of_y, &row_y),
        mean: &mean.relaid(of_mean),
        rstd: &rstd.relaid(of_rstd),
        share: 1.0 / length as f64,
        eps,
    };
    let (lanes, passes) = kept(&frame, x.dtype(), &[args.x, args.weight, args.bias, args.y]);
    let held = passes == 1 && (1..=HELD_LANES).contains(&lanes);
    let module = Module::new(if held { &HELD } else { &SOURCE });
    let module = module.of("T", x.dtype()).of("A", x.dtype().accumulate()).of("W", weight.dtype());
    let module = module.constant("UNIT", unit(x.dtype()) as u64);
    let module = module.constant("SINGLE_PASS", lanes).constant("PASSES", passes);
    let blocks =
        if held { (group.blocks.div_ceil(held_units(lanes))).min(HELD_BLOCKS) } else { group.blocks };
    call.launch(&module, Geometry::blocks(blocks, BLOCK)?, &args)
}

/// The module of a source for a gradient's operands.
fn bound(source: &'static Source, call: &Call<'_>, lanes: u64) -> Result<Module, Rule> {
    let (x, weight, mean, rstd) = (call.input(1)?, call.input(2)?, call.input(3)?, call.input(4)?);
    let module = Module::new(source).of("T", x.dtype()).of("A", x.dtype().accumulate());
    let module = module.of("W", weight.dtype()).of("M", mean.dtype()).of("V", rstd.dtype());
    Ok(module.constant("UNIT", unit(x.dtype()) as u64).constant("SINGLE_PASS", lanes).constant("PASSES", 1))
}

/// Calls `with` with what the launches of a gradient have in common, and the lanes of its rows; `gx` is where that of the rows goes.
fn gradient<R>(
    inputs: &[Operand],
    gx: &Operand,
    with: impl FnOnce(&Gradient<'_>, &Group) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let &[gy, x, weight, mean, rstd] = inputs else {
        return Err(Rule::Arity { takes: "5 arguments".to_owned(), got: inputs.len() }.into());
    };
    let (starts, row) = rows([&gy, &x, gx], [&mean, &rstd])?;
    let [of_gy, of_x, of_gx, of_mean, of_rstd] = starts;
    let [row_gy, row_x, row_gx] = row;
    let row_weight = vector(&weight);
    let (frame, group) = frame(&x, &of_x, &row_x);
    let args = Gradient {
        frame,
        gy: row_view(&gy, &of_gy, &row_gy),
        x: row_view(&x, &of_x, &row_x),
        weight: row_view(&weight, &Layout::SCALAR, &row_weight),
        mean: &mean.relaid(of_mean),
        rstd: &rstd.relaid(of_rstd),
        gx: row_view(gx, &of_gx, &row_gx),
    };
    with(&args, &group)
}

/// Launches the sums over the rows alone, into scratch memory.
fn sums(call: &mut Call<'_>, module: &Module, args: &Gradient<'_>, sharing: &Sharing) -> Result<(), Failure> {
    let &Gradient { frame, gy, x, mean, rstd, .. } = args;
    let width = sharing.width as u32;
    let args = ColumnSums { frame, each: sharing.each, width, gy, x, mean, rstd, partial: 0 };
    call.launch(module, sharing.blocks()?, &args)
}

/// Launches the sum of what blocks have added.
fn finish(
    call: &mut Call<'_>,
    module: &Module,
    sharing: &Sharing,
    length: usize,
    first: usize,
) -> Result<(), Failure> {
    let (gweight, gbias) = (*call.output(first)?, *call.output(first + 1)?);
    let (chunks, width) = (sharing.chunks, sharing.width as u32);
    let args = Finish { length, chunks, width, partial: 0, gweight: &gweight, gbias: &gbias };
    call.launch(module, sharing.finish()?, &args)
}

/// Launches the gradient of the rows with the sums that its blocks keep on the way, if they can; the module, if so.
fn walk(call: &mut Call<'_>, gx: &Operand, sharing: &Sharing) -> Result<Module, Failure> {
    let dtype = gx.dtype();
    gradient(call.inputs(), gx, |args, _| {
        let lanes = single_pass(&args.frame, dtype, &[args.gy, args.x, args.weight, args.gx]);
        let held = (1..=HELD_LANES).contains(&lanes);
        let module = bound(if held { &HELD_GRADIENT } else { &GRADIENT }, call, lanes)?;
        let &Gradient { frame, gy, x, weight, mean, rstd, gx } = args;
        let (each, partial, share) = (sharing.each, 0, 1.0 / frame.length as f64);
        let args = GradientSums { frame, each, gy, x, weight, mean, rstd, gx, share, partial };
        let threads = if held { BLOCK / held_units(lanes) as u32 } else { BLOCK };
        call.launch(&module, Geometry::blocks(sharing.chunks, threads)?, &args)?;
        Ok(module)
    })
}

/// [`crate::ops::norm::layer_norm::LayerNormGrad`].
pub(super) fn backward(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    with_sums(call, Some(*call.output(0)?))
}

/// [`crate::ops::norm::layer_norm::LayerNormGradSums`].
pub(super) fn backward_sums(call: &mut Call<'_>) -> Result<(), Failure> {
    with_sums(call, None)
}

/// The sums over the rows, and the gradient of the rows if it has a place; else it goes to scratch memory where the same launch makes it.
fn with_sums(call: &mut Call<'_>, rows: Option<Operand>) -> Result<(), Failure> {
    let x = *call.input(1)?;
    let (count, length) = sizes(&x.spec().shape);
    if length == 0 {
        return Ok(());
    }
    let walked = walked(count, length, x.dtype());
    let sharing = walked.unwrap_or_else(|| Sharing::sums(count, length));
    let mut module = bound(&GRADIENT, call, 0)?;
    if walked.is_some() {
        let scratch = || call.scratch(align(sharing.workspace(length)), x.spec());
        let gx = rows.map_or_else(scratch, Ok)?;
        module = walk(call, &gx, &sharing)?;
    } else if count > 0 {
        gradient(call.inputs(), &rows.unwrap_or(x), |args, group| {
            if rows.is_some() {
                call.launch(&module, Geometry::blocks(group.blocks, BLOCK)?, args)?;
            }
            sums(call, &module, args, &sharing)
        })?;
    }
    finish(call, &module, &sharing, length, usize::from(rows.is_some()))
}

/// [`crate::ops::norm::layer_norm::LayerNormGradRows`].
pub(super) fn backward_rows(call: &mut Call<'_>) -> Result<(), Failure> {
    let gx = *call.output(0)?;
    if gx.spec().shape.elements() == 0 {
        return Ok(());
    }
    let module = bound(&GRADIENT, call, 0)?;
    gradient(call.inputs(), &gx, |args, group| {
        call.launch(&module, Geometry::blocks(group.blocks, BLOCK)?, args)
    })
}

/// Bytes of scratch memory of the sums alone.
pub(super) fn workspace_of_sums(x: &Spec) -> usize {
    let (rows, columns) = sizes(&x.shape);
    match walked(rows, columns, x.dtype) {
        Some(sharing) => align(sharing.workspace(columns)).saturating_add(x.bytes()),
        None => Sharing::sums(rows, columns).workspace(columns),
    }
}
