//! The text of every error that a call can cause: op, arguments, device, rule, numbers, and the caller's line.
mod ops;

use landfall::ops::{Add, Affine, ClipScale, Copy, Fold, MatMul, Neg, Op, Output, Pad, Reduce, Reduction};
use landfall::{DType, Engine, Error, Graph, StateSpec, Tensor, grad};
use ops::{Butterfly, Decay, Hungry, ReverseRows};
use std::sync::Arc;

/// One test a row: what is called, and the whole text up to the caller's line.
macro_rules! texts {
    ($($name:ident: |$engine:ident| $call:expr => $text:expr;)*) => { $(
        #[test]
        fn $name() -> Result<(), Error> {
            let $engine = Engine::cpu_with_threads(1)?;
            let before = $engine.counters().launches;
            let call = || -> Result<(), Error> {
                $call?;
                Ok(())
            };
            let text = call().expect_err("the call breaks a rule").to_string();
            let (rule, at) = text.rsplit_once("  (").unwrap_or((&text, ""));
            assert_eq!(rule, $text);
            assert!(at.contains("tests/errors.rs:"), "the caller's line is missing: {text}");
            assert_eq!($engine.counters().launches, before, "nothing may run");
            Ok(())
        }
    )* };
}

/// A tensor of zeros.
fn t<const N: usize>(engine: &Engine, dtype: DType, shape: [usize; N]) -> Result<Tensor, Error> {
    engine.empty(dtype, shape)
}

/// Calls an op on tensors of these shapes.
#[track_caller]
fn call<const I: usize, const O: usize>(
    engine: &Engine,
    op: &dyn Op,
    inputs: [Tensor; I],
    mut outputs: [Tensor; O],
) -> Result<(), Error> {
    let inputs = inputs.each_ref().map(Tensor::view);
    engine.call(op, &inputs, &mut outputs.each_mut().map(Tensor::view_mut))
}

fn graph() -> Graph {
    Graph::new(&Arc::new(StateSpec::new()))
}

use DType::{BF16, F16, F32, F64, I32};

texts! {
    arity: |e| call(&e, &Add, [t(&e, F32, [4])?], [t(&e, F32, [4])?])
        => "add(f32[4] on cpu): takes 2 arguments (lhs, rhs), got 1";
    arity_beyond_the_limit: |e| {
        let a = t(&e, F32, [1])?;
        e.call(&landfall::ops::Pack, &[a.view(); 17], &mut [])
    } => "pack( on cpu): takes at most 16 arguments in an eager call, got 17";
    outputs: |e| call(&e, &Butterfly, [t(&e, F64, [4])?, t(&e, F64, [4])?], [t(&e, F64, [4])?])
        => "butterfly(f64[4], f64[4] on cpu): writes 2 outputs, got 1";
    outputs_beyond_the_limit: |e| {
        let mut outs = [(); 5].map(|()| e.empty(F32, [1]).expect("five elements fit"));
        e.call(&Neg, &[], &mut outs.each_mut().map(Tensor::view_mut))
    } => "neg( on cpu): writes 4 outputs, got 5";
    outputs_of_op1: |_e| {
        let g = graph();
        let x = g.input("x", F64, [4]);
        g.op1(Butterfly, &[x, x])
    } => "butterfly(f64[4], f64[4]): writes 2 outputs, got 1";
    axis: |e| call(&e, &Reduce::new(Reduction::Sum, &[2]), [t(&e, F32, [4, 8])?], [t(&e, F32, [4])?])
        => "sum(f32[4, 8] on cpu): axis is 2, the rank is 2; axis must be < rank and at least −rank";
    axis_of_a_view: |e| t(&e, F32, [4, 8])?.view().slice(2, 0, 1).map(|_| ())
        => "slice(f32[4, 8] on cpu): axis is 2, the rank is 2; axis must be < rank and at least −rank";
    rank: |e| call(&e, &Fold::default(), [t(&e, F32, [4])?], [t(&e, F32, [4])?])
        => "fold(f32[4] on cpu): arg 0 has rank 1; it must be at least 2";
    dim: |e| call(&e, &MatMul::default(), [t(&e, F32, [4, 8])?, t(&e, F32, [7, 2])?], [t(&e, F32, [4, 2])?])
        => "matmul(f32[4, 8], f32[7, 2] on cpu): arg 0 axis 1 is 8, arg 1 axis 0 is 7; they must be equal";
    shapes: |e| call(&e, &Add, [t(&e, F32, [4, 8])?, t(&e, F32, [4, 6])?], [t(&e, F32, [4, 8])?])
        => "add(f32[4, 8], f32[4, 6] on cpu): arg 0 is [4, 8], arg 1 is [4, 6]; their shapes must be equal";
    arg_shape: |e| {
        let args = [t(&e, F32, [4, 8])?, t(&e, F32, [8, 2])?, t(&e, F32, [3])?];
        call(&e, &MatMul::default(), args, [t(&e, F32, [4, 2])?])
    } => "matmul(f32[4, 8], f32[8, 2], f32[3] on cpu): arg 2 is [3]; it must be [2]";
    dtype: |e| call(&e, &Affine::default(), [t(&e, I32, [3])?], [t(&e, I32, [3])?])
        => "affine(i32[3] on cpu): arg 0 is i32; it must be f32, f64, bf16 or f16";
    dtypes: |e| call(&e, &Add, [t(&e, F32, [3])?, t(&e, BF16, [3])?], [t(&e, F32, [3])?])
        => "add(f32[3], bf16[3] on cpu): arg 0 is f32, arg 1 is bf16; their dtypes must be equal";
    r04_destination_larger: |e| call(&e, &Neg, [t(&e, F32, [4])?], [t(&e, F32, [6])?])
        => "neg(f32[4] on cpu): output 0 must be f32[4], the destination given is f32[6]";
    r04_destination_smaller: |e| call(&e, &Neg, [t(&e, F32, [4])?], [t(&e, F32, [3])?])
        => "neg(f32[4] on cpu): output 0 must be f32[4], the destination given is f32[3]";
    r04_destination_of_another_shape: |e| call(&e, &Neg, [t(&e, F32, [2, 3])?], [t(&e, F32, [3, 2])?])
        => "neg(f32[2, 3] on cpu): output 0 must be f32[2, 3], the destination given is f32[3, 2]";
    destination_of_another_dtype: |e| call(&e, &Neg, [t(&e, F32, [4])?], [t(&e, F16, [4])?])
        => "neg(f32[4] on cpu): output 0 must be f32[4], the destination given is f16[4]";
    r07_product_in_place: |e| {
        let (mut a, b) = (t(&e, F32, [4, 4])?, t(&e, F32, [4, 4])?);
        e.call_in_place(&MatMul::default(), 0, &mut a.view_mut(), &[b.view()])
    } => "matmul(f32[4, 4], f32[4, 4] on cpu): output 0 and input 0 are Identical in memory (bytes 0..64 and 0..64); the op allows no shared memory";
    r29_copy_in_place: |e| {
        let mut a = t(&e, F32, [4, 4])?;
        e.call_in_place(&Copy, 0, &mut a.view_mut(), &[])
    } => "copy(f32[4, 4] on cpu): output 0 and input 0 are Identical in memory (bytes 0..64 and 0..64); the op allows no shared memory";
    r30_second_output_in_place: |e| {
        // The rows have a destination of their own shape; the probabilities are given their own memory twice.
        let (mut x, mut p) = (t(&e, F64, [4, 2])?, t(&e, F64, [4])?);
        assert_eq!(ReverseRows.outputs(), [Output::FULL; 2]);
        let mut targets = [x.view_mut(), p.view_mut()];
        e.call_updating(&ReverseRows, &[0, 1], &mut targets, &[])
    } => "reverse_rows(f64[4, 2], f64[4] on cpu): output 0 and input 0 are Identical in memory (bytes 0..64 and 0..64); the op allows no shared memory";
    update_elsewhere: |e| {
        let (a, b) = (t(&e, F64, [4])?, t(&e, F64, [4])?);
        call(&e, &Decay { keep: 0.5 }, [a, b], [t(&e, F64, [4])?])
    } => "decay(f64[4], f64[4] on cpu): output 0 and input 0 are Disjoint in memory; the op allows this output to be its updated input and nothing else";
    in_place_on_another_half: |e| {
        // Two halves that interleave in memory are never handed out.
        let mut a = t(&e, F32, [4, 4])?;
        a.view_mut().permute(&[1, 0])?.split_at_mut(2).map(|_| ())
    } => "split_at_mut(f32[4, 4] on cpu): outputs 0 and 1 share memory (bytes 0..56 and 8..64); each output needs its own";
    device: |e| {
        let null = Engine::null();
        let (a, mut out) = (t(&null, F32, [4])?, t(&e, F32, [4])?);
        e.call(&Neg, &[a.view()], &mut [out.view_mut()])
    } => "neg(f32[4] on cpu): operand 0 belongs to another engine (on null; this one works on cpu); make it with this engine, or copy it through the host";
    device_of_an_output: |e| {
        let other = Engine::cpu_with_threads(1)?;
        let (a, mut out) = (t(&e, F32, [4])?, t(&other, F32, [4])?);
        e.call(&Neg, &[a.view()], &mut [out.view_mut()])
    } => "neg(f32[4] on cpu): operand 1 belongs to another engine (on cpu; this one works on cpu); make it with this engine, or copy it through the host";
    unsupported: |e| call(&e, &Hungry, [t(&e, F32, [4])?], [t(&e, F32, [4])?])
        => "hungry(f32[4] on cpu): no kernel of cpu takes f32";
    unsupported_in_a_program: |e| {
        let g = graph();
        let x = g.input("x", F32, [4]);
        g.output("y", g.op1(Hungry, &[x])?);
        let state = landfall::State::new(&e, g.state_spec())?;
        landfall::Program::compile(&e, &state, "p", &g)
    } => "hungry(f32[4] on cpu): no kernel of cpu takes f32";
    workspace: |e| call(&e, &Hungry, [t(&e, F64, [4])?], [t(&e, F64, [4])?])
        => "hungry(f64[4] on cpu): needs 256 bytes of workspace, 0 are reserved; call Engine::reserve(256) before";
    reshape: |e| t(&e, F32, [4, 3])?.view().reshape([5, 2]).map(|_| ())
        => "reshape(f32[4, 3] on cpu): shape [4, 3] has 12 elements, [5, 2] has 10; a reshape keeps their number";
    reshape_of_a_transpose: |e| t(&e, F32, [4, 4])?.view().permute(&[1, 0])?.reshape([16]).map(|_| ())
        => "reshape(f32[4, 4] on cpu): strides [1, 4] of shape [4, 4] do not allow shape [16] without moving elements; copy it first";
    broadcast: |e| t(&e, F32, [4, 3])?.view().broadcast_to([4, 6]).map(|_| ())
        => "broadcast_to(f32[4, 3] on cpu): shape [4, 3] cannot be broadcast to [4, 6]; each size, aligned at the end, must be 1 or equal";
    permutation: |e| t(&e, F32, [4, 3])?.view().permute(&[1, 1]).map(|_| ())
        => "permute(f32[4, 3] on cpu): axes [1, 1] must name each of the 2 axes once";
    slice: |e| t(&e, F32, [4, 3])?.view().slice(1, 2, 2).map(|_| ())
        => "slice(f32[4, 3] on cpu): slice of 2 from 2 in steps of 1 on axis 1 of size 3; it must lie inside";
    split: |e| t(&e, F32, [4, 3])?.view_mut().split_at_mut(5).map(|_| ())
        => "split_at_mut(f32[4, 3] on cpu): slice of 0 from 5 in steps of 1 on axis 0 of size 4; it must lie inside";
    squeeze: |e| t(&e, F32, [4, 3])?.view().squeeze(1).map(|_| ())
        => "squeeze(f32[4, 3] on cpu): axis 1 has size 3; only an axis of size 1 can be squeezed";
    unfold: |e| t(&e, F32, [4, 3])?.view().unfold(4, 1).map(|_| ())
        => "unfold(f32[4, 3] on cpu): windows of 4 every 1 do not fit the last axis of [4, 3]";
    update_also_read: |e| {
        let g = graph();
        let x = g.neg(g.input("x", F64, [4]))?;
        g.output("y", g.op1(Decay { keep: 0.5 }, &[x, x])?);
        let state = landfall::State::new(&e, g.state_spec())?;
        landfall::Program::compile(&e, &state, "p", &g)
    } => "decay(f64[4], f64[4] on cpu): input 0 is updated in place, but it is another of the op's inputs too";
    update_of_a_strided_view: |e| {
        let g = graph();
        let x = g.neg(g.input("x", F64, [4, 3]))?;
        let t = g.transpose(x)?;
        let c = g.copy(t)?;
        g.output("y", g.op1(Decay { keep: 0.5 }, &[t, c])?);
        let state = landfall::State::new(&e, g.state_spec())?;
        landfall::Program::compile(&e, &state, "p", &g)
    } => "decay(f64[3, 4], f64[3, 4] on cpu): input 0 is updated in place, but it is not contiguous";
    update_before_a_read_that_needs_it: |e| {
        let g = graph();
        let x = g.neg(g.input("x", F64, [4]))?;
        let new = g.op1(Decay { keep: 0.5 }, &[x, g.tanh(x)?])?;
        g.output("y", g.add(x, new)?);
        let state = landfall::State::new(&e, g.state_spec())?;
        landfall::Program::compile(&e, &state, "p", &g)
    } => "decay(f64[4], f64[4]): input 0 is updated in place, but it is also read by something that needs the update first";
    graph_broadcast: |_e| {
        let g = graph();
        let (a, b) = (g.input("a", F32, [4, 3]), g.input("b", F32, [4]));
        g.add(a, b)
    } => "add(f32[4, 3], f32[4]): shape [4] cannot be broadcast to [4, 3]; each size, aligned at the end, must be 1 or equal";
    graph_pad: |_e| {
        let g = graph();
        g.op1(Pad { axis: 3, before: 1, after: 1 }, &[g.input("a", F32, [4, 3])])
    } => "pad(f32[4, 3]): axis is 3, the rank is 2; axis must be < rank and at least −rank";
    no_gradient: |_e| {
        let g = graph();
        let w = g.input("w", F32, []);
        let loss = g.op1(ClipScale { max: 1.0 }, &[w])?;
        grad(&g, loss, &[("w".into(), w)])
    } => "the gradient with respect to w runs through clip_scale#0: clip_scale(f32[]): not differentiable: clipping is outside of the loss";
}

#[test]
fn host_data_that_does_not_fit() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    let mut a = t(&e, F32, [4, 3])?;
    let text = |r: Result<(), Error>| r.expect_err("it does not fit").to_string();
    assert_eq!(
        text(a.write(&[0.0f32; 11])),
        "tensor is f32[4, 3], the memory of the host is f32[11]; dtype and number of elements must be equal"
    );
    assert_eq!(
        text(a.write(&[0.0f64; 12])),
        "tensor is f32[4, 3], the memory of the host is f64[12]; dtype and number of elements must be equal"
    );
    assert_eq!(
        text(a.read::<i32>().map(|_| ())),
        "tensor is f32[4, 3], the memory of the host is i32[12]; dtype and number of elements must be equal"
    );
    assert_eq!(
        text(e.empty(F64, [usize::MAX / 2, 4]).map(|_| ())),
        "empty( on cpu): shape [9223372036854775807, 4] has more than 2^48 elements (axes of size 0 not counted), which no memory \
         holds; choose smaller sizes"
    );
    let text = text(e.empty(F64, [1 << 40, 4]).map(|_| ()));
    assert!(text.starts_with("allocation of 35184372088832 bytes on cpu failed ("), "{text}");
    Ok(())
}
