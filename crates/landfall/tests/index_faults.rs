//! An index out of range: what depends on it cannot be read until it is written again, and anything else can.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::{on_each_device, own};
use landfall::ops::{Add, Copy, CrossEntropy, Gather, Neg, ScatterAdd};
use landfall::{All, DType, Engine, Error, Graph, Program, Shape, State, StateSpec, Tensor, View};
use std::sync::Arc;

on_each_device!(
    reading_the_result_fails_every_time_and_nothing_else_does,
    overwriting_ends_it,
    the_position_is_that_in_the_index,
    a_run_marks_what_depends_on_it,
    neighbours_are_not_marked,
    memory_that_is_used_again_is_sound,
    a_fault_goes_through_programs,
    memory_that_was_handed_out,
    many_launches_behind_a_fault,
    synchronize_reports_it,
    many_launches_between_two_reads,
);

fn rows(e: &Engine, index: &[i64]) -> Result<(Tensor, Tensor), Error> {
    Ok((e.tensor([3], &[10.0f32, 20.0, 30.0])?, e.tensor([index.len()], index)?))
}

const ROWS: Gather = Gather { axis: 0, rows: true };

fn is_fault<T>(result: Result<T, Error>, op: &str, value: i64) {
    let text = result.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(text.starts_with(&format!("{op}: index {value} at position ")), "{text}");
}

fn reading_the_result_fails_every_time_and_nothing_else_does(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let (x, index) = rows(&e, &[0, 7, 1])?;
    let wrong = e.eval(&ROWS, &[x.view(), index.view()])?;
    let sound = e.eval(&Neg, &[x.view()])?;
    assert_eq!(sound.read::<f32>()?, [-10.0, -20.0, -30.0]);
    for _ in 0..3 {
        is_fault(wrong.read::<f32>(), "gather", 7);
        is_fault(wrong.view().slice(0, 2, 1)?.item::<f32>(), "gather", 7);
        assert_eq!(x.read::<f32>()?, [10.0, 20.0, 30.0]);
    }
    // On every thread.
    std::thread::scope(|s| {
        s.spawn(|| is_fault(wrong.read::<f32>(), "gather", 7));
        s.spawn(|| assert!(sound.read::<f32>().is_ok()));
    });
    // What is computed with the wrong result is wrong, too.
    let negated = e.eval(&Neg, &[wrong.view()])?;
    let added = e.eval(&Add, &[sound.view(), negated.view()])?;
    drop((wrong, negated));
    is_fault(added.read::<f32>(), "gather", 7);
    // A label, whose loss is one number.
    let logits = e.tensor([2, 3], &[0.0f32; 6])?;
    let labels = e.tensor([2], &[1i64, 9])?;
    let loss = e.eval(&CrossEntropy, &[logits.view(), labels.view()])?;
    is_fault(loss.item::<f32>(), "cross_entropy", 9);
    is_fault(added.read::<f32>(), "gather", 7);
    Ok(())
}

/// The position is that in the index, row-major, whatever the table's other axes.
fn the_position_is_that_in_the_index(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let x = e.tensor([2, 3, 4], &[1.0f32; 24])?;
    for (rows, shape, at) in [(true, vec![5], 3), (true, vec![2, 2], 2), (false, vec![2, 5, 4], 26)] {
        let shape = Shape::new(&shape).unwrap_or(Shape::SCALAR);
        let mut index = vec![1i64; shape.elements()];
        index[at] = -2;
        let index = e.tensor(shape, &index)?;
        let gathered = e.eval(&Gather { axis: 1, rows }, &[x.view(), index.view()])?;
        let text = |t: &Tensor| t.read::<f32>().err().map(|e| e.to_string()).unwrap_or_default();
        assert!(
            text(&gathered).starts_with(&format!("gather: index -2 at position {at} ")),
            "{}",
            text(&gathered)
        );
        let source = e.tensor(gathered.shape(), &vec![1.0f32; gathered.shape().elements()])?;
        let args = [x.view(), index.view(), source.view()];
        let added = e.eval(&ScatterAdd { axis: 1, rows }, &args)?;
        assert!(
            text(&added).starts_with(&format!("scatter_add: index -2 at position {at} ")),
            "{}",
            text(&added)
        );
    }
    Ok(())
}

fn overwriting_ends_it(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let (x, index) = rows(&e, &[5, 0, 1])?;
    let good = e.tensor([3], &[2i64, 1, 0])?;
    let mut out = e.empty(DType::F32, [3])?;
    let fail = |out: &mut Tensor| e.call(&ROWS, &[x.view(), index.view()], &mut [out.view_mut()]);
    // By the same op, before anybody read.
    fail(&mut out)?;
    e.call(&ROWS, &[x.view(), good.view()], &mut [out.view_mut()])?;
    assert_eq!(out.read::<f32>()?, [30.0, 20.0, 10.0]);
    // By another op, after it was read.
    fail(&mut out)?;
    is_fault(out.read::<f32>(), "gather", 5);
    e.call(&Neg, &[x.view()], &mut [out.view_mut()])?;
    assert_eq!(out.read::<f32>()?, [-10.0, -20.0, -30.0]);
    // By the host.
    fail(&mut out)?;
    out.write(&[1.0f32, 2.0, 3.0])?;
    assert_eq!(out.read::<f32>()?, [1.0, 2.0, 3.0]);
    // In part: the rest is as it was. In place is no overwriting.
    fail(&mut out)?;
    e.call(&Neg, &[x.view().slice(0, 0, 1)?], &mut [out.view_mut().slice(0, 0, 1)?])?;
    assert_eq!(out.view().slice(0, 0, 1)?.item::<f32>()?, -10.0);
    is_fault(out.view().slice(0, 1, 2)?.read::<f32>(), "gather", 5);
    e.call_in_place(&Neg, 0, &mut out.view_mut(), &[])?;
    is_fault(out.view().slice(0, 1, 2)?.read::<f32>(), "gather", 5);
    // Memory that is given back and given out again.
    drop(out);
    let other = e.tensor([3], &[4.0f32, 5.0, 6.0])?;
    assert_eq!(other.read::<f32>()?, [4.0, 5.0, 6.0]);
    Ok(())
}

/// Elements of other rows and columns of the same memory.
fn neighbours_are_not_marked(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let (x, index) = rows(&e, &[0, 5, 1])?;
    for axis in [0, 1] {
        let mut table = e.tensor([3, 3], &[1.0f32; 9])?;
        let mut part = table.view_mut().slice(axis, 1, 1)?.squeeze(axis)?;
        e.call(&ROWS, &[x.view(), index.view()], std::slice::from_mut(&mut part))?;
        is_fault(table.read::<f32>(), "gather", 5);
        for i in [0, 2] {
            let other = table.view().slice(axis, i, 1)?;
            assert_eq!(other.read::<f32>()?, [1.0; 3]);
            assert_eq!(e.eval(&Neg, &[other])?.read::<f32>()?, [-1.0; 3]);
        }
        // A sound column ends it, and one beside it does not.
        for (i, ends) in [(0, false), (1, true)] {
            let part = table.view_mut().slice(axis, i, 1)?.squeeze(axis)?;
            e.call(&Neg, &[x.view()], &mut [part])?;
            assert_eq!(table.read::<f32>().is_ok(), ends);
        }
    }
    Ok(())
}

/// Marks go with the memory: what is allocated there later is sound.
fn memory_that_is_used_again_is_sound(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let (x, index) = rows(&e, &[0, 5, 1])?;
    for known in [false, true] {
        for _ in 0..50 {
            let wrong = e.eval(&ROWS, &[x.view(), index.view()])?;
            let more = e.eval(&Neg, &[wrong.view()])?;
            if known {
                is_fault(more.read::<f32>(), "gather", 5);
            }
        }
        let others: Vec<Tensor> = (0..50).map(|_| e.empty(DType::F32, [3])).collect::<Result<_, _>>()?;
        assert!(others.iter().all(|t| t.read::<f32>().is_ok()));
        e.synchronize()?;
    }
    Ok(())
}

/// Out of one program, through ops, into another, to the outputs that depend on it and no others.
fn a_fault_goes_through_programs(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(&e, &spec)?;
    let g = Graph::new(&spec);
    let (table, index) = (g.input("table", DType::F32, [3, 2]), g.input("index", DType::I64, [2]));
    g.output("rows", g.embedding(table, index)?);
    g.output("sum", g.sum(g.exp(table)?, All)?);
    let mut first = Program::compile(&e, &state, "first", &g)?;
    let g = Graph::new(&spec);
    let (a, b) = (g.input("a", DType::F32, [2, 2]), g.input("b", DType::F32, [2, 2]));
    g.output("of a", g.tanh(g.affine(a, 2.0, 1.0)?)?);
    g.output("of b", g.tanh(g.affine(b, 2.0, 1.0)?)?);
    g.output("of both", g.matmul(a, b)?);
    let mut second = Program::compile(&e, &state, "second", &g)?;
    second.write("b", &[0.0f32; 4])?;
    first.write("table", &[0.0f32; 6])?;
    for (bad, index) in [(true, [0i64, 3]), (false, [0, 2]), (true, [-1, 0]), (false, [1, 1])] {
        first.write("index", &index)?;
        first.run(&mut state)?;
        let rows = first.view("rows")?;
        let copied = e.eval_views(&Neg, &[&rows])?;
        second.write_views(&[("a", &copied[0])])?;
        second.run(&mut state)?;
        let ends = [first.read::<f32>("rows"), second.read::<f32>("of a"), second.read::<f32>("of both")];
        for end in ends {
            assert_eq!(end.is_err(), bad);
            if bad {
                is_fault(end, "gather", *index.iter().find(|&&i| i != 0).unwrap_or(&0));
            }
        }
        assert_eq!(first.read::<f32>("sum")?, [6.0]);
        assert!(second.read::<f32>("of b").is_ok());
    }
    Ok(())
}

/// Another library reads without asking: handing out checks, and so does what writes there afterwards.
fn memory_that_was_handed_out(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let [table, good, bad] = [
        View::from(e.tensor([3, 1], &[10.0f32, 20.0, 30.0])?),
        View::from(e.tensor([2], &[2i64, 0])?),
        View::from(e.tensor([2], &[2i64, 3])?),
    ];
    let wrong = e.eval_views(&ROWS, &[&table, &bad])?;
    is_fault(wrong[0].hand_out(), "gather", 3);
    let out = View::from(e.empty(DType::F32, [2, 1])?);
    // Before, a call only leaves a mark.
    e.call_views(&ROWS, &[&table, &bad], &[&out])?;
    e.call_views(&ROWS, &[&table, &good], &[&out])?;
    assert_eq!(out.hand_out()?, out.address());
    is_fault(e.call_views(&ROWS, &[&table, &bad], &[&out]), "gather", 3);
    is_fault(e.call_views(&Copy, &[&wrong[0]], &[&out]), "gather", 3);
    is_fault(out.hand_out(), "gather", 3);
    e.call_views(&ROWS, &[&table, &good], &[&out])?;
    assert_eq!(out.read::<f32>()?, [30.0, 10.0]);
    // A program that writes there.
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(&e, &spec)?;
    let g = Graph::new(&spec);
    let (x, index) = (g.input("x", DType::F32, [3, 1]), g.input("index", DType::I64, [2]));
    g.output("rows", g.exp(g.embedding(x, index)?)?);
    let mut p = Program::compile(&e, &state, "rows", &g)?;
    p.bind(&[("x", &table), ("rows", &out)])?;
    p.write("index", &[0i64, -2])?;
    for _ in 0..2 {
        is_fault(p.run(&mut state), "gather", -2);
        is_fault(p.issue(&mut state), "gather", -2);
        is_fault(p.reissue(&mut state), "gather", -2);
    }
    p.write("index", &[0i64, 1])?;
    p.run(&mut state)?;
    assert_eq!(out.hand_out()?, out.address());
    Ok(())
}

/// More launches between a fault and the read than the host notes at a time.
fn many_launches_behind_a_fault(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let (x, index) = rows(&e, &[0, 7, 1])?;
    let mut wrong = e.eval(&ROWS, &[x.view(), index.view()])?;
    let mut right = e.eval(&Neg, &[x.view()])?;
    for _ in 0..9_001 {
        wrong = e.eval(&Neg, &[wrong.view()])?;
        right = e.eval(&Neg, &[right.view()])?;
    }
    assert_eq!(right.read::<f32>()?, [10.0, 20.0, 30.0]);
    is_fault(wrong.read::<f32>(), "gather", 7);
    Ok(())
}

/// Of a program only what depends on the fault, and what is kept from run to run.
fn a_run_marks_what_depends_on_it(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let mut spec = StateSpec::new();
    spec.add("kept", DType::F32, &[("sum".to_owned(), [2].into())])?;
    spec.add("other", DType::F32, &[("rest".to_owned(), [2].into())])?;
    let spec = Arc::new(spec);
    let mut state = State::new(&e, &spec)?;
    state.write("sum", &[1.0f32, 2.0])?;
    state.write("rest", &[5.0f32, 6.0])?;
    let g = Graph::new(&spec);
    let (index, sum) = (g.input("index", DType::I64, [2]), g.entry("sum")?);
    let table = g.arange(DType::F32, 0.0, 10.0, 4)?;
    let picked = g.embedding(g.reshape(table, [4, 1])?, index)?;
    let picked = g.reshape(picked, [2])?;
    let yes = g.fill(DType::Bool, [2], 1.0)?;
    g.assign(sum, g.add(sum, picked)?, yes)?;
    g.output("total", g.sum(picked, All)?);
    g.output("nothing of it", g.affine(g.entry("rest")?, 2.0, 0.0)?);
    let mut p = Program::compile(&e, &state, "adds", &g)?;
    p.write("index", &[1i64, 3])?;
    p.run(&mut state)?;
    assert_eq!((p.read::<f32>("total")?, state.read::<f32>("sum")?), (vec![40.0], vec![11.0, 32.0]));
    p.write("index", &[1i64, 4])?;
    p.run(&mut state)?;
    for _ in 0..2 {
        is_fault(p.read::<f32>("total"), "gather", 4);
        is_fault(state.read::<f32>("sum"), "gather", 4);
    }
    // What the run did not write, or wrote of that.
    assert_eq!(state.read::<f32>("rest")?, [5.0, 6.0]);
    assert_eq!(p.read::<f32>("nothing of it")?, [10.0, 12.0]);
    // A sound run gives its outputs, but the sum still holds what was added before.
    p.write("index", &[0i64, 0])?;
    p.run(&mut state)?;
    assert_eq!(p.read::<f32>("total")?, [0.0]);
    is_fault(state.read::<f32>("sum"), "gather", 4);
    state.write("sum", &[0.0f32, 0.0])?;
    p.run(&mut state)?;
    assert_eq!(state.read::<f32>("sum")?, [0.0, 0.0]);
    // A fault of an early run is not forgotten by the sound ones behind it.
    p.write("index", &[-1i64, 0])?;
    p.run(&mut state)?;
    p.write("index", &[0i64, 0])?;
    (0..5).try_for_each(|_| p.run(&mut state))?;
    is_fault(state.read::<f32>("sum"), "gather", -1);
    Ok(())
}

fn synchronize_reports_it(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let (x, index) = rows(&e, &[0, 3])?;
    e.synchronize()?;
    let wrong = e.eval(&ROWS, &[x.view(), index.view()])?;
    is_fault(e.synchronize(), "gather", 3);
    e.synchronize()?;
    is_fault(wrong.read::<f32>(), "gather", 3);
    Ok(())
}

/// More launches than there are records on a GPU: none is lost, none is blamed on another.
fn many_launches_between_two_reads(e: &Engine) -> Result<(), Error> {
    let e = own(e)?;
    let (x, good) = rows(&e, &[0, 1])?;
    let bad = e.tensor([2], &[0i64, 8])?;
    let mut all = Vec::new();
    for i in 0..2500 {
        let index = if i % 700 == 3 { &bad } else { &good };
        all.push(e.eval(&ROWS, &[x.view(), index.view()])?);
    }
    for (i, t) in all.iter().enumerate() {
        if i % 700 == 3 {
            is_fault(t.read::<f32>(), "gather", 8);
        } else {
            assert_eq!(t.read::<f32>()?, [10.0, 20.0]);
        }
    }
    Ok(())
}
