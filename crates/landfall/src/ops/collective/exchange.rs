//! What the kernels of the CPU share: bytes that go to all ranks, and what came back as elements.

use crate::contract::{Data, Op, Sample, SampleArg, Tested, text};
use crate::kernel::cpu::{Call, View, ViewMut};
use crate::ops::movement::copies;
use crate::ranks::Parts;
use crate::values::{DType, Element, RankFault, Rule, Shape};
use std::borrow::Cow;

/// Elements in row-major order.
pub(super) fn elements<'a, T: Element>(x: &View<'a, T>) -> Cow<'a, [T]> {
    match x.contiguous() {
        Some(all) => Cow::Borrowed(all),
        None => Cow::Owned((0..x.elements()).map(|i| x.flat(i)).collect()),
    }
}

/// Gives these elements to all ranks; what each gave.
pub(super) fn exchange<T: Element>(op: &dyn Op, call: &Call<'_>, x: &[T]) -> Result<Parts, Rule> {
    let specs: Vec<String> = call.specs().iter().map(ToString::to_string).collect();
    let what = format!("{} of {}", text(op), specs.join(", "));
    Ok(call.world().exchange(&what, bytemuck::cast_slice(x))?)
}

/// What a rank gave, as elements.
pub(super) fn typed<T: Element>(part: &[u8]) -> Cow<'_, [T]> {
    match bytemuck::try_cast_slice(part) {
        Ok(elements) => Cow::Borrowed(elements),
        Err(_) => Cow::Owned(part.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()),
    }
}

/// Writes elements in row-major order from element `at` on.
pub(super) fn write<T: Element>(out: &mut ViewMut<'_, T>, at: usize, elements: &[T]) {
    match out.contiguous() {
        Some(all) => all[at..at + elements.len()].copy_from_slice(elements),
        None => elements.iter().enumerate().for_each(|(i, &x)| out.set_flat(at + i, x)),
    }
}

/// Checks that the engine's world has the ranks that the op is for.
pub(super) fn ranks(call: &Call<'_>, expected: usize) -> Result<(), Rule> {
    let size = call.world().size();
    if size == expected { Ok(()) } else { Err(RankFault::Size { expected, size }.into()) }
}

/// The shape of one of `ranks` equal blocks along the first axis.
pub(super) fn block(shape: Shape, ranks: usize) -> Result<Shape, Rule> {
    let Some(&first) = shape.dims().first() else {
        return Err(Rule::Rank { arg: 0, rank: 0, expected: "at least 1" });
    };
    if ranks == 0 {
        return Err(Rule::Attribute { name: "ranks", value: 0.0, expected: "at least 1" });
    }
    if !first.is_multiple_of(ranks) {
        let expected = "a divisor of the first axis";
        return Err(Rule::Attribute { name: "ranks", value: ranks as f64, expected });
    }
    Ok(shape.with(0, first / ranks))
}

/// The kernel of an engine that is the only rank of its world: it meets nobody, and allocates nothing.
pub(super) fn copied<T: Element>(call: &Call<'_>) -> Result<(), Rule> {
    if let Some(x) = call.input_or_in_place::<T>(0)? {
        copies::copy_elements(call, x, call.output::<T>(0)?);
    }
    Ok(())
}

/// Samples of an op whose result, of one rank, is its argument: of the dtype under test, and of two that are no floats.
pub(super) fn samples(op: impl Tested + Copy, others: [DType; 2]) -> Vec<Sample> {
    let shapes: &[&[usize]] = &[&[0], &[1], &[4], &[3, 5], &[2, 3, 7], &[40_001]];
    let any = shapes.iter().filter_map(|s| Shape::new(s)).map(SampleArg::any);
    let whole = others.map(|dtype| SampleArg::with(Some(dtype), [5], Data::Int(0, 2)));
    any.chain(whole).map(|arg| Sample::new(op, vec![arg])).collect()
}

/// Samples that an op of blocks refuses: a scalar, and no rank.
pub(super) fn refused<O: Tested>(of: impl Fn(usize) -> O) -> [Sample; 2] {
    let bad = |ranks, shape: Shape, text| Sample::bad(of(ranks), vec![SampleArg::any(shape)], text);
    [
        bad(1, Shape::SCALAR, "arg 0 has rank 0; it must be at least 1"),
        bad(0, [4].into(), "ranks is 0; it must be at least 1"),
    ]
}
