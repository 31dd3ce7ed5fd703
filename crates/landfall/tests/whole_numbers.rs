//! Integers beside values of i64 are exact, also beyond 2⁵³, where an `f64` has every second one.

use landfall::{DType, Engine, Error, Graph, HostTensor, Labels, Program, State, StateSpec, Value};
use std::sync::Arc;

const BIG: [i64; 6] = [(1 << 53) + 1, -(1 << 53) - 1, (1 << 60) + 1, i64::MAX, i64::MIN, 7];

/// The result of `build` of the integers `BIG`, i64.
fn of(build: impl Fn(&Graph, Value) -> Result<Value, Error>) -> Result<Vec<i64>, Error> {
    let e = Engine::cpu_with_threads(1)?;
    let spec = Arc::new(StateSpec::new());
    let g = Graph::new(&spec);
    let x = g.input("x", DType::I64, [BIG.len()]);
    g.output("y", g.cast(build(&g, x)?, DType::I64)?);
    let mut state = State::new(&e, &spec)?;
    let mut p = Program::compile(&e, &state, "numbers", &g)?;
    p.write("x", &BIG)?;
    p.run(&mut state)?;
    p.read::<i64>("y")
}

fn mapped(f: impl Fn(i64) -> i64) -> Vec<i64> {
    BIG.iter().map(|&x| f(x)).collect()
}

#[test]
fn scalars_are_exact() -> Result<(), Error> {
    for n in BIG.iter().copied().chain([0, (1 << 53) - 1, (1 << 62) + 12_345]) {
        assert_eq!(of(|g, x| g.equal(x, g.scalar(x, n)?))?, mapped(|x| i64::from(x == n)), "{n}");
        assert_eq!(of(|g, x| g.less(x, g.scalar(x, n)?))?, mapped(|x| i64::from(x < n)), "{n}");
        assert_eq!(of(|g, x| g.add(x, g.scalar(x, n)?))?, mapped(|x| x.wrapping_add(n)), "{n}");
        assert_eq!(of(|g, x| g.mul(x, g.scalar(x, n)?))?, mapped(|x| x.wrapping_mul(n)), "{n}");
        assert_eq!(of(|g, x| g.maximum(x, g.scalar(x, n)?))?, mapped(|x| x.max(n)), "{n}");
        let filled = of(|g, x| g.masked_fill(x, g.less(x, g.scalar(x, 0)?)?, n))?;
        assert_eq!(filled, mapped(|x| if x < 0 { n } else { x }), "{n}");
        assert_eq!(of(|g, _| g.fill(DType::I64, [2, 3], n))?, vec![n; 6]);
    }
    Ok(())
}

#[test]
fn ranges_are_exact() -> Result<(), Error> {
    let start = (1i64 << 60) + 1;
    assert_eq!(of(|g, _| g.arange(DType::I64, start, 3, 4))?, [start, start + 3, start + 6, start + 9]);
    assert_eq!(of(|g, _| g.arange(DType::I64, i64::MAX, -1, 2))?, [i64::MAX, i64::MAX - 1]);
    assert_eq!(of(|g, _| g.arange(DType::I64, 5, -2, 3))?, [5, 3, 1]);
    assert!(of(|g, _| g.arange(DType::I64, i64::MAX, 1, 2)).is_err());
    Ok(())
}

#[test]
fn ignored_labels_are_compared_exactly() -> Result<(), Error> {
    let e = Engine::cpu_with_threads(1)?;
    let spec = Arc::new(StateSpec::new());
    let g = Graph::new(&spec);
    let (logits, labels) = (g.input("logits", DType::F64, [2, 2]), g.input("labels", DType::I64, [2]));
    let ignored = Labels { ignored: Some((1 << 53) + 1), ..Labels::default() };
    g.output("loss", g.cross_entropy(logits, labels, ignored)?);
    let mut state = State::new(&e, &spec)?;
    let mut p = Program::compile(&e, &state, "loss", &g)?;
    p.write("logits", &[0.0f64, 0.0, 9.0, 0.0])?;
    p.write("labels", &[1i64, (1 << 53) + 1])?;
    p.run(&mut state)?;
    assert!((p.read::<f64>("loss")?[0] - 2f64.ln()).abs() < 1e-12);
    Ok(())
}

#[test]
fn what_a_dtype_does_not_hold_is_refused_with_both() {
    let told = |dtype, value: i64| {
        let g = Graph::new(&Arc::new(StateSpec::new()));
        g.fill(dtype, [2], value).expect_err("not held").to_string()
    };
    for (dtype, value) in [(DType::U8, 300), (DType::I32, 1 << 31), (DType::Bool, 2), (DType::U8, -1)] {
        let told = told(dtype, value);
        assert!(told.contains(&format!("value is {value}")) && told.contains(dtype.name()), "{told}");
    }
    let g = Graph::new(&Arc::new(StateSpec::new()));
    assert!(g.fill(DType::I64, [2], 2f64.powi(63)).is_err());
    assert!(HostTensor::new(DType::I64, [1], vec![2f64.powi(63)]).is_err());
}
