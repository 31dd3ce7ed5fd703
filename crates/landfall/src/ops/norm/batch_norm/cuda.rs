//! Batch normalisation and its gradient on a GPU.

use super::{BatchNorm, BatchNormGrad, sizes};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::columns::{BLOCK, Sharing, strip};
use crate::kernel::cuda::{
    COLUMNS, Call, Failure, GROUP, KernelArgs, Module, Piece, RowFrame, RowView, STRIPS, Source, cuda_kernel,
};
use crate::ops::norm::layer_norm::cuda::rows;
use crate::values::{Layout, Operand, Rule, Spec};

cuda_kernel! {
    /// Sums of each column of a chunk.
    struct Statistics = "statistics", BLOCK;
    frame: row_frame,
    each: size,
    width: u32,
    x: rows_in T,
    partial: scratch_of F64,
}

cuda_kernel! {
    /// Adds the chunks and goes over all elements.
    struct Normalise = "normalise", BLOCK;
    frame: row_frame,
    each: size,
    chunks: size,
    width: u32,
    x: rows_in T,
    weight: view_in W,
    bias: view_in W,
    y: rows_out T,
    mean: view_out A,
    variance: view_out A,
    partial: scratch_of F64,
    eps: f64,
}

static SOURCE: Source = Source {
    name: "batch_norm",
    pieces: &[GROUP, COLUMNS, STRIPS, Piece::new("batch_norm", include_str!("batch_norm.cu"))],
    entries: &[Statistics::KERNEL, Normalise::KERNEL],
};

cuda_kernel! {
    /// Sums of each column of a chunk.
    struct GradientSums = "gradient_sums", BLOCK;
    frame: row_frame,
    each: size,
    width: u32,
    gy: rows_in T,
    x: rows_in T,
    mean: view_in M,
    variance: view_in V,
    eps: f64,
    partial: scratch_of F64,
}

cuda_kernel! {
    /// Adds the chunks and goes over all elements.
    struct Gradient = "gradient", BLOCK;
    frame: row_frame,
    each: size,
    chunks: size,
    width: u32,
    gy: rows_in T,
    x: rows_in T,
    mean: view_in M,
    variance: view_in V,
    eps: f64,
    weight: view_in W,
    gx: rows_out T,
    gweight: view_out W,
    gbias: view_out W,
    partial: scratch_of F64,
}

static GRADIENT: Source = Source {
    name: "batch_norm_grad",
    pieces: &[GROUP, COLUMNS, STRIPS, Piece::new("grad", include_str!("grad.cu"))],
    entries: &[GradientSums::KERNEL, Gradient::KERNEL],
};

/// Bytes of scratch memory for sums over the rows of `x`.
pub(super) fn workspace(x: &Spec) -> usize {
    let (rows, columns) = sizes(&x.shape);
    Sharing::strip_sums(rows, columns, x.dtype).workspace(columns)
}

/// Matrices of the same rows and columns: where their rows start, with as few axes as possible, and how each row goes on.
struct Matrices<const N: usize> {
    starts: [Layout; N],
    row: [Layout; N],
}

impl<const N: usize> Matrices<N> {
    fn new(of: [&Operand; N]) -> Result<Self, Rule> {
        let mut all = Self { starts: [Layout::SCALAR; N], row: [Layout::SCALAR; N] };
        // Without rows there is nothing to walk.
        if of.iter().all(|o| o.spec().shape.elements() > 0) {
            (all.starts, all.row) = rows(of, [])?;
        }
        Ok(all)
    }

    /// What they have in common. The kernels share columns, not rows: lanes are of no use to them.
    fn frame(&self, count: usize, length: usize) -> RowFrame<'_> {
        RowFrame { count, length, lanes: 1, across: 0, starts: &self.starts[0], row: &self.row[0] }
    }

    /// The columns of a thread, and whether it takes those of a row by one access in all of these matrices.
    fn bind(&self, module: Module, of: [&Operand; N]) -> Module {
        let strip = strip(of[0].spec().shape.last(), of[0].dtype());
        let whole = (of.iter().zip(&self.starts).zip(&self.row)).all(|((o, starts), row)| {
            let size = (strip * o.dtype().size()) as u64;
            o.address().is_multiple_of(size)
                && row.strides() == [1]
                && starts.shape().rank() == 1
                && starts.strides()[0].is_multiple_of(strip)
        });
        module.constant("STRIP", strip as u64).constant("WHOLE", u64::from(whole))
    }

    /// Matrix `i`.
    fn view<'a>(&'a self, i: usize, operand: &'a Operand) -> RowView<'a> {
        RowView { operand, contiguous: false, starts: &self.starts[i], row: &self.row[i] }
    }
}

/// [`BatchNorm`].
pub(super) fn forward(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let eps = attributes::<BatchNorm>(op)?.eps;
    let (x, weight, bias) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
    let (y, mean, variance) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let (rows, columns) = sizes(&x.spec().shape);
    if columns == 0 {
        return Ok(());
    }
    let matrices = Matrices::new([&x, &y])?;
    let module = matrices.bind(Module::new(&SOURCE), [&x, &y]);
    let (frame, partial) = (matrices.frame(rows, columns), 0);
    let (x, y) = (matrices.view(0, &x), matrices.view(1, &y));
    let dtype = x.operand.dtype();
    let module = module.of("T", dtype).of("W", weight.dtype()).of("A", dtype.accumulate());
    let (sums, pass) = (Sharing::strip_sums(rows, columns, dtype), Sharing::strip_pass(rows, columns, dtype));
    let one = sums.chunks == 1;
    let module = module.constant("ONE_CHUNK", u64::from(one));
    if rows > 0 && !one {
        let args = Statistics { frame, each: sums.each, width: sums.width as u32, x, partial };
        call.launch(&module, sums.blocks()?, &args)?;
    }
    let args = Normalise {
        frame,
        each: pass.each,
        chunks: sums.chunks,
        width: pass.width as u32,
        x,
        weight: &weight,
        bias: &bias,
        y,
        mean: &mean,
        variance: &variance,
        partial,
        eps,
    };
    call.launch(&module, pass.blocks()?, &args)
}

/// [`BatchNormGrad`].
pub(super) fn backward(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let eps = attributes::<BatchNormGrad>(op)?.eps;
    let (gy, x, weight) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
    let (mean, variance) = (*call.input(3)?, *call.input(4)?);
    let (gx, gweight, gbias) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let (rows, columns) = sizes(&x.spec().shape);
    if columns == 0 {
        return Ok(());
    }
    let matrices = Matrices::new([&gy, &x, &gx])?;
    let module = matrices.bind(Module::new(&GRADIENT), [&gy, &x, &gx]);
    let module = module.of("T", x.dtype()).of("W", weight.dtype());
    let module = module.of("A", x.dtype().accumulate()).of("M", mean.dtype()).of("V", variance.dtype());
    let (frame, partial) = (matrices.frame(rows, columns), 0);
    let (gy, x, gx) = (matrices.view(0, &gy), matrices.view(1, &x), matrices.view(2, &gx));
    let (mean, variance) = (&mean, &variance);
    let dtype = x.operand.dtype();
    let (sums, pass) = (Sharing::strip_sums(rows, columns, dtype), Sharing::strip_pass(rows, columns, dtype));
    let one = sums.chunks == 1;
    let module = module.constant("ONE_CHUNK", u64::from(one));
    if rows > 0 && !one {
        let (each, width) = (sums.each, sums.width as u32);
        let args = GradientSums { frame, each, width, gy, x, mean, variance, eps, partial };
        call.launch(&module, sums.blocks()?, &args)?;
    }
    let args = Gradient {
        frame,
        each: pass.each,
        chunks: sums.chunks,
        width: pass.width as u32,
        gy,
        x,
        mean,
        variance,
        eps,
        weight: &weight,
        gx,
        gweight: &gweight,
        gbias: &gbias,
        partial,
    };
    call.launch(&module, pass.blocks()?, &args)
}
