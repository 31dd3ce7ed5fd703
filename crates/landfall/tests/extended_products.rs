//! Products that take over, in a program, what would rearrange their results: the values are those of single calls.

use landfall::{DType, Engine, Error, Graph, HostTensor, Program, Spec, State, StateSpec, Value, grad};
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
        let loss = g.add(g.sum(g.mul(y, y)?, &all)?, g.sum(b, [0])?)?;
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

/// The elements of `Σ_p a[.., p] · b[p, ..]` of two matrices of [`value`]s, from these numbers on.
fn product((m, n, k): (usize, usize, usize), a: usize, b: usize) -> Vec<f64> {
    let at = |i: usize| (0..k).map(|p| value(a + i / n * k + p) * value(b + p * n + i % n)).sum();
    (0..m * n).map(at).collect()
}

/// What is summed in f32 and wanted in f32 is not rounded to 16 bits between.
#[test]
fn a_sum_of_16_bits_that_is_cast_to_f32_is_made_in_f32() -> Check {
    let engine = Engine::cpu_with_threads(1)?;
    for low in [DType::BF16, DType::F16] {
        let g = Graph::new(&state(&[("w", &[90, 6])]));
        let x = g.input("x", DType::F32, [4, 90]);
        let (a, b) = (g.cast(x, low)?, g.cast(g.entry("w")?, low)?);
        let y = g.cast(g.reshape(g.matmul(a, b)?, [2, 12])?, DType::F32)?;
        g.output("y", g.neg(y)?);
        let read_twice = g.matmul(g.transpose(b)?, b)?;
        g.output("low", g.neg(read_twice)?);
        g.output("wide", g.neg(g.cast(read_twice, DType::F32)?)?);
        g.output("sum", g.neg(g.cast(g.sum(b, [0])?, DType::F32)?)?);
        let program = ran(&engine, &g, x)?;

        let want: Vec<f64> = product((4, 6, 90), 7000, 0).iter().map(|x| -x).collect();
        let rounds = |x: &f64| HostTensor::from_fn(Spec::new(low, [1]), |_| *x).rounded().data[0] != *x;
        assert!(want.iter().any(rounds), "a sum that {low} cannot hold");
        assert_eq!(program.read_host("y")?.data, want, "{low}");
        assert_eq!(program.read_host("low")?.data, program.read_host("wide")?.data, "{low}");
        let sum = |j: usize| -(0..90usize).map(|p| value(p * 6 + j)).sum::<f64>();
        assert_eq!(program.read_host("sum")?.data, (0..6).map(sum).collect::<Vec<_>>(), "{low}");
        let rows = program.report().rows;
        let products: Vec<&str> = rows.iter().filter(|r| r.op == "matmul").map(|r| r.spec.as_str()).collect();
        assert_eq!(products, ["f32[4, 6]", &format!("{low}[6, 6]")], "{rows:#?}");
        // Of both factors, and of the product that is also read as it is.
        assert_eq!(made_by(&program, "cast"), 3, "{rows:#?}");
    }
    Ok(())
}

/// A residual, with a bias and without, of every shape that a product has; the sum is one value of the product's.
#[test]
fn a_product_adds_what_is_added_to_it() -> Check {
    let engine = Engine::cpu_with_threads(1)?;
    for biased in [false, true] {
        let g = Graph::new(&state(&[("w", &[5, 6]), ("b", &[6])]));
        let x = g.input("x", DType::F32, [2, 4, 11]);
        let (w, b) = (g.entry("w")?, g.entry("b")?);
        let (rows, residual) = (g.copy(g.slice(x, 2, 0, 5)?)?, g.copy(g.slice(x, 2, 5, 6)?)?);
        let y = if biased { g.matmul_add(rows, w, b)? } else { g.matmul(rows, w)? };
        g.output("sum", g.neg(g.name(g.add(residual, y)?, "sum"))?);
        let program = ran(&engine, &g, x)?;
        for (i, got) in program.read_host("sum")?.data.iter().enumerate() {
            let (row, j) = (i / 6, i % 6);
            let terms = (0..5).map(|p| value(7000 + row * 11 + p) * value(p * 6 + j));
            let bias = if biased { value(32 + j) } else { 0.0 };
            assert_eq!(*got, -(value(7000 + row * 11 + 5 + j) + terms.sum::<f64>() + bias), "at {i}");
        }
        let rows = program.report().rows;
        assert_eq!(made_by(&program, "add"), 0, "{rows:#?}");
        assert!(rows.iter().any(|r| r.op == "matmul" && r.name == "sum"), "{rows:#?}");
    }
    Ok(())
}

/// Of two products the later one adds the earlier one; of three the third adds that sum.
#[test]
fn a_sum_of_products_is_products_alone() -> Check {
    let engine = Engine::cpu_with_threads(1)?;
    let g = Graph::new(&state(&[("u", &[5, 6]), ("v", &[5, 6]), ("w", &[5, 6])]));
    let x = g.input("x", DType::F32, [4, 5]);
    let [u, v, w] = ["u", "v", "w"].map(|name| g.entry(name));
    let sum = g.add(g.matmul(x, u?)?, g.matmul(x, v?)?)?;
    let sum = g.add(sum, g.matmul(x, w?)?)?;
    g.output("sum", sum);
    let program = ran(&engine, &g, x)?;
    let [a, b, c] = [0, 32, 64].map(|at| product((4, 6, 5), 7000, at));
    let want: Vec<f64> = a.iter().zip(&b).zip(&c).map(|((a, b), c)| a + b + c).collect();
    assert_eq!(program.read_host("sum")?.data, want);
    assert_eq!(program.report().instructions, 3, "{:#?}", program.report().rows);
    Ok(())
}

/// A row that is added to all, a product that is read elsewhere too, and a sum that waits for an update of what the
/// product reads: these stay sums.
#[test]
fn other_sums_stay() -> Check {
    let engine = Engine::cpu_with_threads(1)?;
    let g = Graph::new(&state(&[("w", &[5, 5]), ("row", &[5])]));
    let x = g.input("x", DType::F32, [5, 5]);
    let (w, row) = (g.entry("w")?, g.entry("row")?);
    g.output("row", g.add(g.matmul(x, w)?, row)?);
    let twice = g.matmul(w, x)?;
    g.output("twice", g.add(twice, x)?);
    g.output("product", g.neg(twice)?);
    // In 16 bits with a bias, which a GPU's library cannot add together with a tensor.
    let low = |v| g.cast(v, DType::BF16);
    let (a, b, bias) = (low(x)?, low(w)?, low(row)?);
    g.output("low", g.add(g.matmul_add(a, b, bias)?, a)?);
    let before = g.matmul(x, g.transpose(w)?)?;
    let update = landfall::ops::RunningUpdate { momentum: 0.5, unbiased_count: None };
    let updated = g.op1(update, &[w, x, g.fill(DType::Bool, [], 1.0)?])?;
    g.output("updated", g.add(before, updated)?);
    let program = ran(&engine, &g, x)?;
    // Four products, four sums, two casts (the product takes `x` as its addend is), a negation, the update and its condition.
    assert_eq!(program.report().instructions, 13, "{:#?}", program.report().rows);
    for (i, got) in program.read_host("updated")?.data.iter().enumerate() {
        let terms = (0..5).map(|p| value(7000 + i / 5 * 5 + p) * value(i % 5 * 5 + p));
        assert_eq!(*got, terms.sum::<f64>() + 0.5 * (value(i) + value(7000 + i)), "at {i}");
    }
    Ok(())
}
