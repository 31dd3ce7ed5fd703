//! Products on a GPU: by the matrix library where it takes the operands as they lie, else by a kernel of any strides.

use super::{MatMul, cut, sizes};
use crate::contract::{Kernel, Op, attributes};
use crate::kernel::cuda::{
    BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, WORKSPACE_ALIGNMENT, cuda_kernel,
};
use crate::values::{DType, Operand, Precision, Rule, Spec};
use arrayvec::ArrayVec;

/// Rows and columns of a block's part of the result: `TILE` in the source.
const TILE: usize = 64;

cuda_kernel! {
    /// A product of operands with any strides. What is not added, the module tells.
    pub(super) struct Product = "product", BLOCK;
    lhs: input T,
    rhs: input T,
    addend: input R,
    bias: input R,
    out: output R,
    m: size,
    n: size,
    k: size,
    lhs_row: size,
    lhs_column: size,
    rhs_row: size,
    rhs_column: size,
    out_row: size,
    out_column: size,
    bias_step: size,
    rank: u32,
    batch: dims,
    lhs_batch: dims,
    rhs_batch: dims,
    out_batch: dims,
    addend_row: size,
    addend_column: size,
    addend_batch: dims,
}

static SOURCE: Source = Source {
    name: "matmul",
    pieces: &[Piece::new("matmul", include_str!("matmul.cu"))],
    entries: &[Product::KERNEL],
};
static SMALL_K_SOURCE: Source = Source {
    name: "matmul_small_k",
    pieces: &[Piece::new("small_k", include_str!("small_k.cu"))],
    entries: &[Product::KERNEL],
};
static FEW_COLUMNS_SOURCE: Source = Source {
    name: "matmul_few_columns",
    pieces: &[Piece::new("few_columns", include_str!("few_columns.cu"))],
    entries: &[Product::KERNEL],
};

/// Inner elements of a product at most that is our kernel's however its operands lie; rows of a thread of it, `ROWS` in its
/// source, and neighbouring columns where they are contiguous.
const SMALL_K: usize = 4;
const FEW_ROWS: usize = 4;
const FEW_COLUMNS: usize = 4;
/// Products of many rows and few columns are our kernel's too: the library has a tile of columns, of which most would be empty.
/// Columns and elements of the right factor at most and rows at least; rows of a group of lanes, `ROWS` in its source, and blocks of
/// such groups at most.
const THIN: usize = 8;
const THIN_RIGHT: usize = 4096;
const THIN_ROWS: usize = 512;
const GROUP_ROWS: usize = 4;
const THIN_BLOCKS: usize = 1056;
/// Scratch memory of the matrix library, at most and at least.
const MOST: usize = 32 << 20;
pub(super) const LEAST: usize = 1 << 20;
/// Scratch memory of a product that nobody has tuned.
pub(super) fn workspace(op: &dyn Op, args: &[Spec]) -> usize {
    let each = cut::each(args[0].dtype, sizes(args));
    each.map_or_else(|| library_workspace(op, args), |each| cut::workspace(args[0].dtype, sizes(args), each))
}

/// Scratch memory for the parts of a product with a long inner axis that the matrix library makes.
fn library_workspace(_: &dyn Op, args: &[Spec]) -> usize {
    let (batch, m, n, k) = sizes(args);
    if [batch, m, n, k].contains(&0) {
        return 0;
    }
    let result = [batch, m, n, args[0].dtype.accumulate().size(), cut::PARTS];
    result.into_iter().fold(1, usize::saturating_mul).clamp(LEAST, MOST) + WORKSPACE_ALIGNMENT
}

/// What is added to a product.
pub(super) struct Added<'a> {
    pub(super) addend: Option<&'a Operand>,
    pub(super) bias: Option<&'a Operand>,
}

pub(super) fn added<'a>(call: &Call<'a>) -> Added<'a> {
    let inputs = call.inputs();
    let (addend, bias) = crate::kernel::added(inputs.len(), |i| inputs[i].layout().shape().rank());
    Added { addend: addend.map(|i| &inputs[i]), bias: bias.map(|i| &inputs[i]) }
}

/// Distances from one row and one column of an operand's matrices to the next.
pub(super) fn strides(of: &Operand) -> Result<(&[usize], usize, usize), Rule> {
    let [batch @ .., row, column] = of.layout().strides() else {
        return Err(Rule::Rank { arg: 0, rank: of.layout().shape().rank(), expected: "at least 2" });
    };
    Ok((batch, *row, *column))
}

/// Whether there is something to multiply.
fn works(args: &[Spec]) -> bool {
    let (batch, m, n, k) = sizes(args);
    ![batch, m, n, k].contains(&0)
}

/// Whether our kernels, which round no factor, round as the library does.
fn exact(op: &dyn Op, args: &[Spec]) -> bool {
    let strict = attributes::<MatMul>(op).is_ok_and(|op| op.precision == Precision::Strict);
    strict || args[0].dtype != DType::F32
}

/// Whether the library might round to 16 bits before it adds a bias, as some of its algorithms do: its first choice does
/// not, where it may not cut the inner axis.
fn rounds_twice(op: &dyn Op, args: &[Spec]) -> bool {
    let wide = attributes::<MatMul>(op).is_ok_and(|op| op.wide);
    let biased = crate::kernel::added(args.len(), |i| args[i].shape.rank()).1.is_some();
    biased && !wide && args[0].dtype != args[0].dtype.accumulate()
}

/// The matrix library's proposal of this number, for where it was found to be faster than its first, or the first than
/// parts.
pub(super) const fn library<const I: usize>(name: &'static str) -> Kernel {
    let run = |op: &dyn Op, call: &mut Call<'_>| {
        let (op, out) = (attributes::<MatMul>(op)?, *call.output(0)?);
        if call.product(call.inputs(), &out, op.precision, I, 0)? {
            return Ok(());
        }
        if I == 0 {
            return any(call);
        }
        let what = format!("it proposes no algorithm number {I} for these operands");
        Err(Rule::Launch { file: "cublasLt", entry: "cublasLtMatmul", what }.into())
    };
    Kernel::cuda(name, run)
        .accepting(|op, args| {
            let another = || I > 0 || cut::of_library(args[0].dtype, false, sizes(args)).is_some();
            works(args) && another() && !rounds_twice(op, args)
        })
        .with_workspace(library_workspace)
}

/// The product in parts of `EACH` inner elements.
pub(super) const fn cut<const EACH: usize>(name: &'static str) -> Kernel {
    let run = |_: &dyn Op, call: &mut Call<'_>| {
        let (lhs, rhs) = (*call.input(0)?, *call.input(1)?);
        let (_, m, n, k) = sizes(&[lhs.spec(), rhs.spec()]);
        cut::run(call, EACH, (m, n, k))
    };
    Kernel::cuda(name, run)
        .accepting(|op, args| exact(op, args) && works(args) && cut::varies(args[0].dtype, sizes(args), EACH))
        .with_workspace(|_, args| cut::workspace(args[0].dtype, sizes(args), EACH))
}

/// The product in parts of `EACH` inner elements, each by the matrix library.
pub(super) const fn parts<const EACH: usize>(name: &'static str) -> Kernel {
    let run = |op: &dyn Op, call: &mut Call<'_>| {
        let (lhs, rhs, precision) = (*call.input(0)?, *call.input(1)?, attributes::<MatMul>(op)?.precision);
        let (_, m, n, k) = sizes(&[lhs.spec(), rhs.spec()]);
        if cut::by_library(call, precision, EACH, (m, n, k))? { Ok(()) } else { any(call) }
    };
    Kernel::cuda(name, run)
        .accepting(|op, args| {
            works(args) && cut::library_varies(args[0].dtype, sizes(args), EACH, library_workspace(op, args))
        })
        .with_workspace(library_workspace)
}

/// The product by our own kernel of any strides.
pub(super) const fn strided(name: &'static str) -> Kernel {
    Kernel::cuda(name, |_, call| any(call)).accepting(|op, args| exact(op, args) && works(args))
}

pub(super) fn run(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let op = attributes::<MatMul>(op)?;
    let (lhs, rhs, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let (batch, m, n, k) = sizes(&[lhs.spec(), rhs.spec()]);
    if batch * m * n == 0 {
        return Ok(());
    }
    if let Some(each) = cut::each(lhs.dtype(), (batch, m, n, k)) {
        return cut::run(call, each, (m, n, k));
    }
    // Little more than a sum of two: the library's kernels are made for long inner axes, and for many columns.
    if k <= SMALL_K || thin(&lhs, (batch, m, n, k))? {
        return any(call);
    }
    let specs: ArrayVec<Spec, 4> = call.inputs().iter().map(Operand::spec).collect();
    if let Some(each) = cut::of_library(lhs.dtype(), rounds_twice(op, &specs), (batch, m, n, k))
        && cut::by_library(call, op.precision, each, (m, n, k))?
    {
        return Ok(());
    }
    if call.product(call.inputs(), &out, op.precision, 0, 0)? {
        return Ok(());
    }
    any(call)
}

/// Whether a product has many rows, few columns and a left factor with a contiguous inner axis.
fn thin(lhs: &Operand, (batch, m, n, k): (usize, usize, usize, usize)) -> Result<bool, Rule> {
    let fits = batch == 1 && (1..=THIN).contains(&n) && m >= THIN_ROWS && k > SMALL_K && k * n <= THIN_RIGHT;
    Ok(fits && strides(lhs)?.2 == 1)
}

/// What a kernel of ours is given. What is not added, the module tells; its place is not followed.
pub(super) fn arguments<'a>(
    [lhs, rhs]: [&'a Operand; 2],
    out: &'a Operand,
    Added { addend, bias }: &Added<'a>,
) -> Result<Product<'a>, Rule> {
    let (_, m, n, k) = sizes(&[lhs.spec(), rhs.spec()]);
    let addend = addend.unwrap_or(out);
    let (addend_batch, addend_row, addend_column) = strides(addend)?;
    let (lhs_batch, lhs_row, lhs_column) = strides(lhs)?;
    let (rhs_batch, rhs_row, rhs_column) = strides(rhs)?;
    let (out_batch, out_row, out_column) = strides(out)?;
    Ok(Product {
        lhs,
        rhs,
        addend,
        bias: bias.unwrap_or(out),
        out,
        m,
        n,
        k,
        lhs_row,
        lhs_column,
        rhs_row,
        rhs_column,
        out_row,
        out_column,
        bias_step: bias.map_or(0, |b| b.layout().strides()[0]),
        rank: lhs_batch.len() as u32,
        batch: &out.layout().shape().dims()[..lhs_batch.len()],
        lhs_batch,
        rhs_batch,
        out_batch,
        addend_row,
        addend_column,
        addend_batch,
    })
}

/// The product by a kernel of ours: of few inner elements, of few columns, or of operands with any strides.
fn any(call: &mut Call<'_>) -> Result<(), Failure> {
    let (lhs, rhs, out) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    let (batch, m, n, k) = sizes(&[lhs.spec(), rhs.spec()]);
    let added = added(call);
    let args = arguments([&lhs, &rhs], &out, &added)?;
    let Product { out_batch, out_row, out_column, lhs_row, .. } = args;
    let (module, blocks) = if (1..=SMALL_K).contains(&k) {
        let steps = out_batch.iter().all(|s| s.is_multiple_of(FEW_COLUMNS));
        let rows = out_column == 1 && out_row.is_multiple_of(FEW_COLUMNS) && steps;
        let access = (FEW_COLUMNS * out.dtype().size()).min(16) as u64;
        let whole = rows && n.is_multiple_of(FEW_COLUMNS) && out.address().is_multiple_of(access);
        let columns = if whole { FEW_COLUMNS } else { 1 };
        let module =
            Module::new(&SMALL_K_SOURCE).constant("INNER", k as u64).constant("VECTOR", columns as u64);
        (module, n.div_ceil(columns).saturating_mul(m.div_ceil(FEW_ROWS)).div_ceil(BLOCK as usize))
    } else if thin(&lhs, (batch, m, n, k))? {
        let unit = 16 / lhs.dtype().size();
        let lanes = k.div_ceil(unit).next_power_of_two().min(32);
        let whole =
            k.is_multiple_of(unit) && lhs_row.is_multiple_of(unit) && lhs.address().is_multiple_of(16);
        let module =
            Module::new(&FEW_COLUMNS_SOURCE).constant("COLUMNS", n as u64).constant("UNIT", unit as u64);
        let module = module.constant("LANES", lanes as u64).constant("WHOLE", u64::from(whole));
        let rows = BLOCK as usize / lanes * GROUP_ROWS;
        (module.constant("MOST", THIN_RIGHT as u64), m.div_ceil(rows).min(THIN_BLOCKS))
    } else {
        (Module::new(&SOURCE), m.div_ceil(TILE).saturating_mul(n.div_ceil(TILE)))
    };
    let module = (module.of("T", lhs.dtype()).of("A", lhs.dtype().accumulate()).of("R", out.dtype()))
        .constant("ADDED", u64::from(added.addend.is_some()))
        .constant("BIASED", u64::from(added.bias.is_some()));
    let blocks = batch.saturating_mul(blocks);
    call.launch(&module, Geometry::blocks(blocks, BLOCK)?, &args)
}
