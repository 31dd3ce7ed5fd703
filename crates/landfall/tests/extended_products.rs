//! Products that take over, in a program, what would rearrange their results: the values are those of single calls.

use landfall::{DType, Engine, Error, Graph, HostTensor, Program, State, StateSpec, Value, grad};
use std::sync::Arc;

type Check<T = ()> = Result<T, Error>;

/// A small number in steps of 1/64, the same in every run: products of a few are exact in every dtype but 16 bits.
fn value(k: usize) -> f64 {
    let mut z = (k as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((z >> 40) % 129) as f64 / 64.0 - 1.0
}

fn state(entries: &[(&str, &[usize])]) -> Arc<StateSpec> {
    let mut spec = StateSpec::new();
    let entries: Vec<_> = entries
        .iter()
        .map(|(name, dims)| ((*name).to_owned(), landfall::Shape::new(dims).expect("a small rank")))
        .collect();
    spec.add("parameters", DType::F32, &entries).expect("sound entries");
    Arc::new(spec)
}

/// A program over a state whose every entry, and whose input `x`, hold [`value`]s; after one run.
fn ran(engine: &Engine, g: &Graph, x: Value) -> Check<Program> {
    let mut state = State::new(engine, g.state_spec())?;
    for slab in g.state_spec().slabs() {
        for e in &slab.entries {
            let data: Vec<f32> = (0..e.shape.elements()).map(|k| value(k + e.offset) as f32).collect();
            state.write(&e.name, &data)?;
        }
    }
    let mut program = Program::compile(engine, &state, "products", g)?;
    let data: Vec<f32> = (0..g.shape(x).elements()).map(|k| value(k + 7000) as f32).collect();
    program.write("x", &data)?;
    program.run(&mut state)?;
    Ok(program)
}

fn made_by(program: &Program, op: &str) -> usize {
    program.report().rows.iter().filter(|r| r.op == op).count()
}

/// The gradient of a weight that the model reads transposed is written where the packing wants it, with nothing moved.
#[test]
fn a_product_that_is_read_transposed_is_made_transposed() -> Check {
    for dims in [&[6usize, 5][..], &[3, 6, 5]] {
        let engine = Engine::cpu_with_threads(1)?;
        let g = Graph::new(&state(&[("w", dims), ("b", &[3])]));
        let rank = dims.len();
        let mut rows = dims.to_vec();
        rows[rank - 2] = 4;
        let x = g.input("x", DType::F32, landfall::Shape::new(&rows).expect("a small rank"));
        let (w, b) = (g.entry("w")?, g.entry("b")?);
        let y = g.matmul(x, g.transpose(w)?)?;
        let all: Vec<usize> = (0..rank).collect();
        let loss = g.add(g.sum(g.mul(y, y)?, &all)?, g.sum(b, &[0])?)?;
        let gradients = grad(&g, loss, &[("w".to_owned(), w), ("b".to_owned(), b)])?;
        let packed = g.name(g.op1(landfall::ops::Pack, &gradients)?, "packed");
        g.output("negative", g.neg(packed)?);
        g.output("y", g.neg(y)?);
        let program = ran(&engine, &g, x)?;

        // The sums themselves: the negative of 2 yᵀ x, of the negative of y.
        let (y, x) = (program.read_host("y")?, HostTensor::from_fn(g.spec(x), |k| value(k + 7000)));
        let (m, n, batch) = (rows[rank - 1], dims[rank - 2], rows[..rank - 2].iter().product::<usize>());
        let got = program.read_host("negative")?;
        for (at, got) in got.data[..batch * n * m].iter().enumerate() {
            let (s, i, j) = (at / (n * m), at / m % n, at % m);
            let terms = (0..4).map(|r| y.data[(s * 4 + r) * n + i] * x.data[(s * 4 + r) * m + j]);
            assert_eq!(*got, 2.0 * terms.sum::<f64>(), "{dims:?} at {at}");
        }
        let rows = program.report().rows;
        let row = |op: &str, spec: &str| {
            let mut found = rows.iter().filter(|r| r.op == op && r.spec == spec);
            found.next().map(|r| (r.offset, r.bytes))
        };
        let spec = |dims: &[usize]| format!("f32{dims:?}");
        let (product, pack) = (row("matmul", &spec(dims)), rows.iter().find(|r| r.name == "packed"));
        assert_eq!(product.map(|p| p.0), pack.map(|p| p.offset), "{dims:?}: {rows:#?}");
        assert_eq!(made_by(&program, "copy"), 0, "{rows:#?}");
    }
    Ok(())
}

/// One that is also read as it lies stays as it is.
#[test]
fn a_product_with_other_readers_stays() -> Check {
    let engine = Engine::cpu_with_threads(1)?;
    let g = Graph::new(&state(&[("w", &[5, 6])]));
    let x = g.input("x", DType::F32, [4, 5]);
    let y = g.name(g.matmul(x, g.entry("w")?)?, "y");
    g.output("t", g.neg(g.transpose(y)?)?);
    g.output("y", g.neg(y)?);
    let program = ran(&engine, &g, x)?;
    let (t, y) = (program.read_host("t")?, program.read_host("y")?);
    for (at, t) in t.data.iter().enumerate() {
        assert_eq!(*t, y.data[at % 4 * 6 + at / 4], "at {at}");
    }
    assert!(y.data.iter().any(|y| *y != 0.0));
    let rows = program.report().rows;
    assert!(rows.iter().any(|r| r.name == "y" && r.spec == "f32[4, 6]"), "{rows:#?}");
    Ok(())
}
