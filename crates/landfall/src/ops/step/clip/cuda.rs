//! Norm and finiteness on a GPU.

use crate::contract::Op;
use crate::kernel::cuda::vectors::{collapsed, contiguous};
use crate::kernel::cuda::{BLOCK, Call, Failure, Geometry, KernelArgs, Module, Piece, Source, cuda_kernel};
use crate::values::{DType, Operand, Spec};

cuda_kernel! {
    /// Takes the result away where an element is not finite.
    struct Search = "search", BLOCK;
    x: view_in T,
    out: output_of Bool,
    n: size,
    contiguous: flag,
    rank: u32,
    shape: dims,
}

cuda_kernel! {
    /// The sum of squares of each block.
    struct Squares = "squares", BLOCK;
    x: view_in T,
    partial: scratch_of F64,
    n: size,
    contiguous: flag,
    rank: u32,
    shape: dims,
}

cuda_kernel! {
    /// The root of what all blocks have.
    struct Root = "root", BLOCK;
    partial: scratch_of F64,
    out: output A,
    count: u32,
}

static NORM: Source = Source {
    name: "clip",
    pieces: &[Piece::new("clip", include_str!("clip.cu"))],
    entries: &[Search::KERNEL, Squares::KERNEL, Root::KERNEL],
};

/// Single values that one launch of `finite` looks at.
const VALUES: usize = 4;

cuda_kernel! {
    /// Looks at four single values.
    struct Finite = "finite", 32;
    x0: input T0,
    x1: input T1,
    x2: input T2,
    x3: input T3,
    out: output_of Bool,
    first: flag,
}

static FINITE: Source = Source {
    name: "finite",
    pieces: &[Piece::new("finite", include_str!("finite.cu"))],
    entries: &[Finite::KERNEL],
};

fn module(dtype: DType) -> Module {
    Module::new(&NORM).of("T", dtype).of("A", dtype.accumulate())
}

/// Elements that a thread takes at once: `N` in the source.
const UNIT: usize = 8;
/// Blocks at most: what a large GPU holds at once. Each thread goes on with the next units; all have as many.
const MAX_BLOCKS: usize = 512;

fn blocks(elements: usize) -> usize {
    Geometry::shares(elements.div_ceil(UNIT * BLOCK as usize), MAX_BLOCKS)
}

/// [`super::AllFinite`]: single values are looked at together, by a launch that writes the result; each of the others can
/// then only take it away.
pub(super) fn all_finite(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let out = *call.output(0)?;
    let single = |x: &&Operand| x.spec().shape.elements() == 1;
    let mut singles = call.inputs().iter().filter(single);
    let mut first = true;
    while let Some(x0) = singles.next() {
        // The places of those that are not there repeat the first.
        let mut x = [x0; VALUES];
        x[1..].iter_mut().zip(&mut singles).for_each(|(place, x)| *place = x);
        let module = Module::new(&FINITE).of("T0", x[0].dtype()).of("T1", x[1].dtype());
        let module = module.of("T2", x[2].dtype()).of("T3", x[3].dtype());
        let [x0, x1, x2, x3] = x;
        call.launch(&module, Geometry::blocks(1, 32)?, &Finite { x0, x1, x2, x3, out: &out, first })?;
        first = false;
    }
    if first {
        call.fill(&out, 1)?;
    }
    for x in call.inputs() {
        let n = x.spec().shape.elements();
        if n <= 1 {
            continue;
        }
        let [x] = &collapsed([x]);
        let args = Search {
            x,
            out: &out,
            n,
            contiguous: contiguous(&[x], UNIT),
            rank: x.layout().shape().rank() as u32,
            shape: x.layout().shape().dims(),
        };
        call.launch(&module(x.dtype()), Geometry::blocks(blocks(n), BLOCK)?, &args)?;
    }
    Ok(())
}

/// Bytes of the blocks' sums.
pub(super) fn norm_workspace(_: &dyn Op, args: &[Spec]) -> usize {
    args.first().map_or(0, |x| blocks(x.shape.elements()) * size_of::<f64>())
}

/// [`super::GlobalNorm`].
pub(super) fn global_norm(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (x, out) = (*call.input(0)?, *call.output(0)?);
    let (n, module) = (x.spec().shape.elements(), module(x.dtype()));
    let count = blocks(n);
    if count > 0 {
        let [x] = &collapsed([&x]);
        let args = Squares {
            x,
            partial: 0,
            n,
            contiguous: contiguous(&[x], UNIT),
            rank: x.layout().shape().rank() as u32,
            shape: x.layout().shape().dims(),
        };
        call.launch(&module, Geometry::blocks(count, BLOCK)?, &args)?;
    }
    let args = Root { partial: 0, out: &out, count: count as u32 };
    call.launch(&module, Geometry::blocks(1, BLOCK)?, &args)
}
