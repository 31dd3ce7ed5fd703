//! Batch normalisation and its gradient on a GPU.

use super::{BatchNorm, BatchNormGrad, sizes};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::columns::{BLOCK, Sharing};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Module, Param, Source};
use crate::ops::reduce::reduction::split;
use crate::values::{DType, Layout, Operand, Rule, Spec, collapse};

/// A kernel over columns: its own parameters after those of [`Columns::args`].
macro_rules! over_columns {
    ($name:literal $($own:expr),*) => {
        Entry {
            name: $name,
            block: BLOCK,
            params: &[
                Param::u64("rows"),
                Param::u64("columns"),
                Param::u64("each"),
                Param::u64("chunks"),
                Param::u32("width"),
                Param::u32("rank"),
                Param::dims("shape"),
                $($own,)*
            ],
        }
    };
}
/// Parameters that [`over_columns`] adds.
const SHARED: usize = 7;
/// Parameters of their own, at most.
const OWN: usize = 22;

static SOURCE: Source = Source {
    name: "batch_norm",
    text: concat!(
        include_str!("../../../kernel/cuda/group.cu"),
        include_str!("../../../kernel/cuda/columns.cu"),
        include_str!("batch_norm.cu")
    ),
    entries: &[
        over_columns!("statistics"
            Param::input("x", "T"),
            Param::dims("stride_x"),
            Param::u64("step_x"),
            Param::scratch_is("partial", DType::F64)
        ),
        over_columns!("normalise"
            Param::input("x", "T"),
            Param::dims("stride_x"),
            Param::u64("step_x"),
            Param::input("weight", "T"),
            Param::u64("step_weight"),
            Param::input("bias", "T"),
            Param::u64("step_bias"),
            Param::output("y", "T"),
            Param::dims("stride_y"),
            Param::u64("step_y"),
            Param::output("mean", "A"),
            Param::u64("step_mean"),
            Param::output("variance", "A"),
            Param::u64("step_variance"),
            Param::scratch_is("partial", DType::F64),
            Param::f64("eps")
        ),
    ],
};

static GRADIENT: Source = Source {
    name: "batch_norm_grad",
    text: concat!(
        include_str!("../../../kernel/cuda/group.cu"),
        include_str!("../../../kernel/cuda/columns.cu"),
        include_str!("grad.cu")
    ),
    entries: &[
        over_columns!("gradient_sums"
            Param::input("gy", "T"),
            Param::dims("stride_gy"),
            Param::u64("step_gy"),
            Param::input("x", "T"),
            Param::dims("stride_x"),
            Param::u64("step_x"),
            Param::input("mean", "M"),
            Param::u64("step_mean"),
            Param::input("variance", "V"),
            Param::u64("step_variance"),
            Param::f64("eps"),
            Param::scratch_is("partial", DType::F64)
        ),
        over_columns!("gradient"
            Param::input("gy", "T"),
            Param::dims("stride_gy"),
            Param::u64("step_gy"),
            Param::input("x", "T"),
            Param::dims("stride_x"),
            Param::u64("step_x"),
            Param::input("mean", "M"),
            Param::u64("step_mean"),
            Param::input("variance", "V"),
            Param::u64("step_variance"),
            Param::f64("eps"),
            Param::input("weight", "T"),
            Param::u64("step_weight"),
            Param::output("gx", "T"),
            Param::dims("stride_gx"),
            Param::u64("step_gx"),
            Param::output("gweight", "T"),
            Param::u64("step_gweight"),
            Param::output("gbias", "T"),
            Param::u64("step_gbias"),
            Param::scratch_is("partial", DType::F64)
        ),
    ],
};

/// Bytes of scratch memory for sums over the rows of `x`.
pub(super) fn workspace(x: &Spec) -> usize {
    let (rows, columns) = sizes(&x.shape);
    Sharing::sums(rows, columns).workspace(columns)
}

/// Distance between neighbours of a vector.
fn step(of: &Operand) -> Arg<'static> {
    Arg::U64(of.layout().strides()[0] as u64)
}

/// Matrices of the same rows and columns: the shape of their rows with as few axes as possible, and each one's strides
/// over it and from column to column.
fn matrices<const N: usize>(of: [&Operand; N]) -> Result<[(Layout, [Arg<'static>; 2]); N], Rule> {
    let mut rows = [Layout::SCALAR; N];
    // Without rows there is nothing to walk.
    let there = of.iter().all(|o| o.spec().shape.elements() > 0);
    for (rows, operand) in rows.iter_mut().zip(of).filter(|_| there) {
        let last = operand.layout().shape().rank() - 1;
        *rows = split(operand.layout(), |a| a == last)?.0;
    }
    collapse(&mut rows);
    let mut all = rows.map(|r| (r, [Arg::dims(r.strides()), Arg::U64(0)]));
    for (matrix, operand) in all.iter_mut().zip(of) {
        let step = operand.layout().strides().last().copied().unwrap_or(0);
        matrix.1[1] = Arg::U64(step as u64);
    }
    Ok(all)
}

/// Launches of one call.
struct Launches {
    module: Module,
    rows: usize,
    columns: usize,
    /// The rows' own shape.
    shape: Layout,
}

impl Launches {
    /// Launches a kernel with its own arguments, in parts. `chunks` are those of the sums.
    fn launch(
        &self,
        call: &mut Call<'_>,
        entry: &'static str,
        sharing: &Sharing,
        chunks: usize,
        own: &[&[Arg<'_>]],
    ) -> Result<(), Failure> {
        let shared = [
            Arg::U64(self.rows as u64),
            Arg::U64(self.columns as u64),
            Arg::U64(sharing.each as u64),
            Arg::U64(chunks as u64),
            Arg::U32(sharing.width as u32),
            Arg::U32(self.shape.shape().rank() as u32),
            Arg::dims(self.shape.shape().dims()),
        ];
        let mut args = [Arg::U32(0); SHARED + OWN];
        let mut count = 0;
        for (to, arg) in args.iter_mut().zip(shared.iter().chain(own.iter().copied().flatten())) {
            *to = *arg;
            count += 1;
        }
        call.launch(&self.module, entry, sharing.blocks()?, &args[..count])
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
    let [(shape, of_x), (_, of_y)] = matrices([&x, &y])?;
    let module = Module::new(&SOURCE).of("T", x.dtype()).of("A", x.dtype().accumulate());
    let launches = Launches { module, rows, columns, shape };
    let (sums, pass) = (Sharing::sums(rows, columns), Sharing::pass(rows, columns));
    let (x, partial) = ([Arg::Input(&x), of_x[0], of_x[1]], Arg::Scratch(0));
    if rows > 0 {
        launches.launch(call, "statistics", &sums, sums.chunks, &[&x, &[partial]])?;
    }
    let (weight, bias) = ([Arg::Input(&weight), step(&weight)], [Arg::Input(&bias), step(&bias)]);
    let (mean, variance) = ([Arg::Output(&mean), step(&mean)], [Arg::Output(&variance), step(&variance)]);
    let y = [Arg::Output(&y), of_y[0], of_y[1]];
    let own: &[&[Arg<'_>]] = &[&x, &weight, &bias, &y, &mean, &variance, &[partial, Arg::F64(eps)]];
    launches.launch(call, "normalise", &pass, sums.chunks, own)
}

/// [`BatchNormGrad`].
pub(super) fn backward(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let eps = Arg::F64(attributes::<BatchNormGrad>(op)?.eps);
    let (gy, x, weight) = (*call.input(0)?, *call.input(1)?, *call.input(2)?);
    let (mean, variance) = (*call.input(3)?, *call.input(4)?);
    let (gx, gweight, gbias) = (*call.output(0)?, *call.output(1)?, *call.output(2)?);
    let (rows, columns) = sizes(&x.spec().shape);
    if columns == 0 {
        return Ok(());
    }
    let [(shape, of_gy), (_, of_x), (_, of_gx)] = matrices([&gy, &x, &gx])?;
    let module = Module::new(&GRADIENT).of("T", x.dtype()).of("A", x.dtype().accumulate());
    let module = module.of("M", mean.dtype()).of("V", variance.dtype());
    let launches = Launches { module, rows, columns, shape };
    let (sums, pass) = (Sharing::sums(rows, columns), Sharing::pass(rows, columns));
    let given = [Arg::Input(&gy), of_gy[0], of_gy[1], Arg::Input(&x), of_x[0], of_x[1]];
    let kept = [Arg::Input(&mean), step(&mean), Arg::Input(&variance), step(&variance), eps];
    let partial = Arg::Scratch(0);
    if rows > 0 {
        launches.launch(call, "gradient_sums", &sums, sums.chunks, &[&given, &kept, &[partial]])?;
    }
    let (gweight, gbias) = ([Arg::Output(&gweight), step(&gweight)], [Arg::Output(&gbias), step(&gbias)]);
    let (weight, gx) = ([Arg::Input(&weight), step(&weight)], [Arg::Output(&gx), of_gx[0], of_gx[1]]);
    let own: &[&[Arg<'_>]] = &[&given, &kept, &weight, &gx, &gweight, &gbias, &[partial]];
    launches.launch(call, "gradient", &pass, sums.chunks, own)
}
