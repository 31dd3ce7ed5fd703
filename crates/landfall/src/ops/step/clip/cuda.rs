//! Norm and finiteness on a GPU.

use crate::contract::Op;
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::{DType, Layout, Operand, Spec};

const BLOCK: u32 = 256;
/// Elements that a thread takes at once: `N` in the source.
const UNIT: usize = 8;
/// Blocks at most: what a large GPU holds at once. Each thread goes on with the next units; all have as many.
const MAX_BLOCKS: usize = 512;

static NORM: Source = Source {
    name: "clip",
    text: include_str!("clip.cu"),
    entries: &[
        Entry {
            name: "search",
            block: BLOCK,
            params: &[
                Param::input("x", "T"),
                Param::output_is("out", DType::Bool),
                Param::u64("n"),
                Param::u32("gapless"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("stride_x"),
            ],
        },
        Entry {
            name: "squares",
            block: BLOCK,
            params: &[
                Param::input("x", "T"),
                Param::scratch_is("partial", DType::F64),
                Param::u64("n"),
                Param::u32("gapless"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("stride_x"),
            ],
        },
        Entry {
            name: "root",
            block: BLOCK,
            params: &[
                Param::scratch_is("partial", DType::F64),
                Param::output("out", "A"),
                Param::u32("count"),
            ],
        },
    ],
};

/// Single values that one launch of `finite` looks at.
const VALUES: usize = 4;

static FINITE: Source = Source {
    name: "finite",
    text: include_str!("finite.cu"),
    entries: &[Entry {
        name: "finite",
        block: 32,
        params: &[
            Param::input("x0", "T0"),
            Param::input("x1", "T1"),
            Param::input("x2", "T2"),
            Param::input("x3", "T3"),
            Param::output_is("out", DType::Bool),
            Param::u32("first"),
        ],
    }],
};

fn module(dtype: DType) -> Module {
    Module::new(&NORM).of("T", dtype).of("A", dtype.accumulate())
}

fn blocks(elements: usize) -> usize {
    Geometry::shares(elements.div_ceil(UNIT * BLOCK as usize), MAX_BLOCKS)
}

/// Whether units can be moved by accesses of 16 bytes, or of a whole unit where it is smaller.
fn gapless(x: &Operand, layout: &Layout) -> u32 {
    u32::from(layout.is_contiguous() && x.address().is_multiple_of((UNIT * x.dtype().size()).min(16) as u64))
}

/// [`super::AllFinite`]: single values are looked at together, by a launch that writes the result; each of the others can
/// then only take it away.
pub(super) fn all_finite(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let out = *call.output(0)?;
    let single = |x: &&Operand| x.spec().shape.elements() == 1;
    let mut singles = call.inputs().iter().filter(single);
    let mut first = 1;
    while let Some(x0) = singles.next() {
        // The places of those that are not there repeat the first.
        let mut x = [x0; VALUES];
        x[1..].iter_mut().zip(&mut singles).for_each(|(place, x)| *place = x);
        let module = Module::new(&FINITE).of("T0", x[0].dtype()).of("T1", x[1].dtype());
        let module = module.of("T2", x[2].dtype()).of("T3", x[3].dtype());
        let [x0, x1, x2, x3] = x.map(Arg::Input);
        call.launch(
            &module,
            "finite",
            Geometry::blocks(1, 32)?,
            &[x0, x1, x2, x3, Arg::Output(&out), Arg::U32(first)],
        )?;
        first = 0;
    }
    if first == 1 {
        call.fill(&out, 1)?;
    }
    for x in call.inputs() {
        let (n, layout) = (x.spec().shape.elements(), x.layout().collapsed());
        if n <= 1 {
            continue;
        }
        let args = [
            Arg::Input(x),
            Arg::Output(&out),
            Arg::U64(n as u64),
            Arg::U32(gapless(x, &layout)),
            Arg::U32(layout.shape().rank() as u32),
            Arg::dims(layout.shape().dims()),
            Arg::dims(layout.strides()),
        ];
        call.launch(&module(x.dtype()), "search", Geometry::blocks(blocks(n), BLOCK)?, &args)?;
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
    let (n, layout, module) = (x.spec().shape.elements(), x.layout().collapsed(), module(x.dtype()));
    let count = blocks(n);
    if count > 0 {
        let args = [
            Arg::Input(&x),
            Arg::Scratch(0),
            Arg::U64(n as u64),
            Arg::U32(gapless(&x, &layout)),
            Arg::U32(layout.shape().rank() as u32),
            Arg::dims(layout.shape().dims()),
            Arg::dims(layout.strides()),
        ];
        call.launch(&module, "squares", Geometry::blocks(count, BLOCK)?, &args)?;
    }
    let args = [Arg::Scratch(0), Arg::Output(&out), Arg::U32(count as u32)];
    call.launch(&module, "root", Geometry::blocks(1, BLOCK)?, &args)
}
