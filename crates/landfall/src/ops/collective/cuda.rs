//! Collectives on a GPU: by NCCL, or as copies where the GPU is alone.

use crate::kernel::cuda::{
    Call, Collective, Combination, Failure, Geometry, KernelArgs, Module, Piece, Seat, Source, cuda_kernel,
};
use crate::ops::movement::copies;
use crate::ops::reduce::reduction::Reduction;
use crate::values::{DType, Layout, Operand, RankFault, Rule};

/// Threads of a block of the stand-in, and its blocks: few, as NCCL takes, so that other work finds room.
const THREADS: u32 = 512;
const BLOCKS: usize = 16;

cuda_kernel! {
    /// A thread moves some elements.
    struct StandIn = "stand_in", THREADS;
    x: input T,
    out: output T,
    n: size,
    nanoseconds: u64,
}

static STAND_IN: Source = Source {
    name: "stand_in",
    pieces: &[Piece::new("stand_in", include_str!("stand_in.cu"))],
    entries: &[StandIn::KERNEL],
};

fn stand_in(dtype: DType) -> Module {
    Module::new(&STAND_IN).of("T", dtype)
}

pub(super) const fn combination(of: Reduction) -> Combination {
    match of {
        Reduction::Sum => Combination::Sum,
        Reduction::Mean => Combination::Mean,
        Reduction::Max => Combination::Max,
        Reduction::Min => Combination::Min,
        Reduction::Prod => Combination::Product,
    }
}

/// Runs a collective for a world of `ranks`; `None` if it is for a world of any size.
///
/// NCCL takes contiguous memory. A strided argument is copied into the place of the result first, where the collective allows
/// that.
///
/// # Errors
/// [`RankFault::Size`] in a world of another size; [`Rule::NotContiguous`] for a strided result, or a strided argument that has no
/// place to be copied to; a device fault.
pub(super) fn run(call: &mut Call<'_>, what: Collective, ranks: Option<usize>) -> Result<(), Failure> {
    let seat = call.seat();
    if let Some(expected) = ranks.filter(|&ranks| ranks != seat.size()) {
        return Err(Rule::from(RankFault::Size { expected, size: seat.size() }).into());
    }
    let (out, x) =
        (*call.output(0)?, call.in_place(0).is_none().then(|| call.input(0).copied()).transpose()?);
    if out.spec().shape.elements() == 0 && x.is_none_or(|x| x.spec().shape.elements() == 0) {
        // Nobody waits for a collective of nothing: all ranks have the same shapes.
        return Ok(());
    }
    match seat {
        Seat::Alone => x.map_or(Ok(()), |x| copies::cuda::copy(call, &x, &out)),
        Seat::StandIn(nanoseconds) => {
            let x = contiguous(call, x.unwrap_or(out), &out)?;
            let n = out.spec().shape.elements();
            let blocks = n.div_ceil(THREADS as usize).min(BLOCKS);
            let args = StandIn { x: &x, out: &out, n, nanoseconds };
            call.launch(&stand_in(out.dtype()), Geometry::blocks(blocks, THREADS)?, &args)
        }
        Seat::Rank { rank, size } => {
            let elements = out.spec().shape.elements();
            let (count, place) = match what {
                Collective::AllReduce(_) | Collective::Broadcast { .. } => (elements, Some(out)),
                Collective::AllGather => {
                    let block = elements / size;
                    let shape = x.unwrap_or(out).spec().shape;
                    let own = Layout::contiguous(shape).shifted(out.layout().offset() + rank * block);
                    (block, Some(out.relaid(own)))
                }
                Collective::ReduceScatter(_) => (elements, None),
                Collective::AllToAll => (elements / size, None),
            };
            required(&out)?;
            let from = match (x, place) {
                (None, _) => out,
                (Some(x), Some(place)) => contiguous(call, x, &place)?,
                (Some(x), None) => required(&x)?,
            };
            call.collective(what, count, &from, &out)
        }
    }
}

/// [`run`] for what one rank has.
///
/// # Errors
/// [`RankFault::Size`] if there is no such rank; as [`run`].
pub(super) fn broadcast(call: &mut Call<'_>, root: usize) -> Result<(), Failure> {
    let size = call.seat().size();
    if root >= size {
        return Err(Rule::from(RankFault::Size { expected: root.saturating_add(1), size }).into());
    }
    run(call, Collective::Broadcast { root }, None)
}

/// The operand, or a contiguous copy of it in another's place.
fn contiguous(call: &mut Call<'_>, x: Operand, place: &Operand) -> Result<Operand, Failure> {
    if x.layout().is_contiguous() {
        return Ok(x);
    }
    copies::cuda::copy(call, &x, &required(place)?)?;
    Ok(*place)
}

/// The operand, if it is contiguous.
fn required(x: &Operand) -> Result<Operand, Rule> {
    if x.layout().is_contiguous() {
        return Ok(*x);
    }
    Err(Rule::NotContiguous { shape: x.spec().shape, strides: x.layout().strides().to_vec() })
}

#[cfg(test)]
mod tests {
    use super::stand_in;
    use crate::cuda::Compiler;
    use crate::values::DType;

    /// No op's kernel is the stand-in, so the check of all kernels does not see it.
    #[test]
    fn the_stand_in_compiles_for_every_dtype() {
        let compiler = match Compiler::uncached("sm_90a") {
            Ok(compiler) => compiler,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        for &dtype in DType::ALL {
            compiler.compile(&stand_in(dtype)).expect("it compiles");
        }
    }
}
