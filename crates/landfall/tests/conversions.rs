//! Values that conversions and constants must keep: integers rounded once, truth values of foreign bytes, the sign of a remainder,
//! numbers that a dtype does not hold, axes that are named twice.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::ops::{self, AttributeValue, Op, by_name_for};
use landfall::{
    All, DType, Engine, Error, Graph, HostTensor, Keep, Program, Rule, Spec, State, StateSpec, Value,
};
use std::sync::Arc;

on_each_device!(integers_are_rounded_once, bytes_are_truth_values, remainders_have_the_sign_of_the_divisor);

/// Runs a graph of one input and gives its outputs.
fn run<T: landfall::Element>(
    e: &Engine,
    dtype: DType,
    x: &[T],
    build: impl FnOnce(&Graph, Value) -> Result<Vec<Value>, Error>,
) -> Result<Vec<HostTensor>, Error> {
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(e, &spec)?;
    let g = Graph::new(&spec);
    let outputs = build(&g, g.input("x", dtype, [x.len()]))?;
    let names: Vec<String> = (0..outputs.len()).map(|i| format!("out {i}")).collect();
    names.iter().zip(outputs).for_each(|(name, v)| g.output(name, v));
    let mut program = Program::compile(e, &state, "conversions", &g)?;
    program.write("x", x)?;
    program.run(&mut state)?;
    names.iter().map(|name| program.read_host(name)).collect()
}

/// The nearest number of so many bits, the even one of two: of an integer, exactly.
fn nearest(x: i64, bits: u32) -> f64 {
    let (size, sign) = (i128::from(x).unsigned_abs(), if x < 0 { -1.0 } else { 1.0 });
    let shift = (128 - size.leading_zeros()).saturating_sub(bits);
    let (whole, rest) = (size >> shift, size & ((1u128 << shift) - 1));
    let half = if shift == 0 { 1 } else { 1u128 << (shift - 1) };
    let up = shift > 0 && (rest > half || (rest == half && whole & 1 == 1));
    sign * ((whole + u128::from(up)) << shift) as f64
}

/// Integers about the middles between two numbers of each float type, where rounding to f64 first goes the wrong way.
fn integers() -> Vec<i64> {
    let mut all = vec![0, 1, -1, i64::MAX, i64::MIN, i64::MIN + 1, (1 << 53) + 1, 1 << 62];
    for bits in [8, 11, 24, 53] {
        for top in bits..=62 {
            for odd in [0i64, 1, 2, 5] {
                let unit = 1i64 << (top - bits + 1).min(61);
                let middle = (1i64 << top).saturating_add(odd.saturating_mul(unit)).saturating_add(unit / 2);
                for by in [-1025, -1024, -3, -1, 0, 1, 2, 511, 1023, 1025] {
                    all.extend([middle.saturating_add(by), middle.saturating_add(by).saturating_neg()]);
                }
            }
        }
    }
    all
}

fn integers_are_rounded_once(e: &Engine) -> Result<(), Error> {
    let x = integers();
    let made = run(e, DType::I64, &x, |g, x| {
        [DType::F32, DType::BF16, DType::F16, DType::F64].iter().map(|&dtype| g.cast(x, dtype)).collect()
    })?;
    for (made, bits) in made.iter().zip([24, 8, 11, 53]) {
        for (&x, &got) in x.iter().zip(&made.data) {
            let want = nearest(x, bits);
            let want = if made.spec.dtype == DType::F16 && want.abs() >= 65_536.0 {
                f64::INFINITY.copysign(want)
            } else {
                want
            };
            assert_eq!(got, want, "{x} as {}", made.spec.dtype);
        }
    }
    // And on the host.
    for x in x {
        assert_eq!(f64::from(<f32 as landfall::Element>::from_i64(x)), nearest(x, 24), "{x}");
        assert_eq!(<half::bf16 as landfall::Element>::from_i64(x).to_f64(), nearest(x, 8), "{x}");
        if x.unsigned_abs() < 60_000 {
            assert_eq!(<half::f16 as landfall::Element>::from_i64(x).to_f64(), nearest(x, 11), "{x}");
        }
    }
    Ok(())
}

/// Every byte but 0 is true, as in the memory of other libraries.
fn bytes_are_truth_values(e: &Engine) -> Result<(), Error> {
    let x = [0u8, 1, 2, 255, 128, 0, 3, 1];
    let truths: Vec<f64> = x.iter().map(|&b| f64::from(u8::from(b != 0))).collect();
    let made = run(e, DType::Bool, &x, |g, x| {
        let reversed = g.flip(x, 0)?;
        let yes = g.cast(g.fill(DType::F32, [x_len(g, x)], 1.0)?, DType::Bool)?;
        let [f, i] = [g.cast(x, DType::F32)?, g.cast(x, DType::I64)?];
        Ok(vec![
            f,
            i,
            g.cast(x, DType::U8)?,
            g.cast(x, DType::F64)?,
            x,
            g.copy(x)?,
            g.not(x)?,
            g.not(g.not(x)?)?,
            g.equal(x, yes)?,
            g.and(x, yes)?,
            g.or(x, g.not(yes)?)?,
            g.select(x, g.scalar(f, 1.0)?, g.scalar(f, 0.0)?)?,
            g.and(x, reversed)?,
            g.sum(g.cast(x, DType::I64)?, All)?,
            g.any(x, All)?,
            g.all(x, All)?,
            g.sort(x, 0, false)?.0,
        ])
    })?;
    for (i, made) in made.iter().enumerate() {
        let want: Vec<f64> = match i {
            6 => truths.iter().map(|t| 1.0 - t).collect(),
            12 => truths.iter().zip(truths.iter().rev()).map(|(a, b)| a * b).collect(),
            13 => vec![truths.iter().sum()],
            14 => vec![1.0],
            15 => vec![0.0],
            16 => {
                let mut sorted = truths.clone();
                sorted.sort_by(f64::total_cmp);
                sorted
            }
            _ => truths.clone(),
        };
        assert_eq!(made.data, want, "output {i}");
    }
    Ok(())
}

fn x_len(g: &Graph, x: Value) -> usize {
    g.shape(x).elements()
}

fn remainders_have_the_sign_of_the_divisor(e: &Engine) -> Result<(), Error> {
    // Each with divisors of both signs.
    let x = [-6.0, -3.0, 0.0, -0.0, 3.0, 6.0, 7.5, -7.5, 0.1];
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        let made = run(e, DType::F64, &x, |g, x| {
            let x = g.cast(x, dtype)?;
            [3.0, -3.0, f64::INFINITY, f64::NEG_INFINITY]
                .iter()
                .map(|&by| g.rem(x, g.scalar(x, by)?))
                .collect()
        })?;
        for (made, by) in made.iter().zip([3.0f64, -3.0, f64::INFINITY, f64::NEG_INFINITY]) {
            for (x, r) in x.iter().zip(&made.data) {
                assert_eq!(r.is_sign_negative(), by.is_sign_negative(), "{x} % {by} is {r:?} in {dtype}");
                assert!(r.abs() <= by.abs(), "{x} % {by} is {r:?} in {dtype}");
            }
        }
    }
    Ok(())
}

#[test]
fn numbers_that_a_dtype_does_not_hold_are_refused() -> Result<(), Error> {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    for (dtype, holds, not) in [
        (DType::F16, vec![65_504.0, -65_519.0, f64::INFINITY, f64::NAN, 1e-30], vec![65_520.0, -1e5, 1e300]),
        (DType::BF16, vec![3.38e38, f64::NEG_INFINITY], vec![3.4e38, -1e39]),
        (DType::F32, vec![3.4e38, f64::INFINITY], vec![3.5e38, -1e300]),
        (DType::F64, vec![1e308, f64::INFINITY], vec![]),
        (DType::I64, vec![-9_223_372_036_854_775_808.0], vec![9_223_372_036_854_775_808.0, 0.5, f64::NAN]),
        (DType::U8, vec![255.0], vec![256.0, -1.0]),
        (DType::Bool, vec![1.0], vec![2.0]),
    ] {
        for value in holds {
            HostTensor::new(dtype, [], vec![value])?;
            g.fill(dtype, [], value)?;
        }
        for value in not {
            let told = HostTensor::new(dtype, [2], vec![0.0, value]).err().map(|e| e.rule);
            assert!(matches!(told, Some(Rule::Number { index: 1, .. })), "{value} of {dtype}: {told:?}");
            let told = g.fill(dtype, [], value).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(told.contains("value is "), "{value} of {dtype}: {told}");
        }
    }
    let x = g.input("x", DType::F16, [3]);
    let told = g.scalar(x, 70_000.0).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(told.contains("value is 70000; it must be at most 65504"), "{told}");
    Ok(())
}

#[test]
fn an_axis_is_named_once() -> Result<(), Box<dyn std::error::Error>> {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let x = g.input("x", DType::F32, [2, 3, 4]);
    let yes = g.is_nan(x)?;
    let tries = [
        ("sum", g.sum(x, [0, 0])),
        ("mean", g.mean(x, [1, -2])),
        ("max", g.max(x, Keep([2, 1, 2]))),
        ("min", g.min(x, [0, -3])),
        ("prod", g.prod(x, [0, 0])),
        ("variance", g.variance(x, [1, 1], 0)),
        ("standard_deviation", g.standard_deviation(x, [1, 1], 0)),
        ("norm", g.norm(x, [-1, 2])),
        ("logsumexp", g.logsumexp(x, [0, 0])),
        ("any", g.any(yes, [0, 0])),
        ("all", g.all(yes, [0, 0])),
        ("permute", g.permute(x, &[0, 0, 1])),
    ];
    for (name, tried) in tries {
        let told = tried.err().map(|e| e.to_string()).unwrap_or_default();
        let fits = told.contains("is named twice") || told.contains("must name each of the 3 axes once");
        assert!(fits, "{name}: {told:?}");
    }
    let spec = Spec::new(DType::F32, [2, 3, 4]);
    for name in ["sum", "mean", "max", "min", "prod"] {
        for axes in [vec![0, 0], vec![1, -2], vec![2, 0, 2]] {
            let told =
                by_name_for(name, &[("axes", AttributeValue::Ints(axes.clone()))], &[spec])?.infer(&[spec]);
            assert!(matches!(told, Err(Rule::AxisTwice { .. })), "{name} over {axes:?}: {told:?}");
        }
    }
    let told = ops::Reduce::new(ops::Reduction::Sum, &[1, 1]).infer(&[spec]).err();
    assert!(matches!(told, Some(Rule::AxisTwice { axis: 1 })), "{told:?}");
    Ok(())
}
