//! Numbers that went wrong in other systems, on each device.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::ops::{
    Adam, Add, Approximation, Cast, Compare, Comparison, Exp, Gelu, Maximum, Mul, Neg, Rem, Softmax, Sort,
    Tanh, Tested,
};
use landfall::{DType, Engine, Error, HostTensor, Spec};

on_each_device!(
    integers_are_exact_and_wrap,
    sorting_has_a_place_for_every_number,
    r22_wide_ranges_give_what_they_must,
    r27_the_first_ten_steps_are_the_papers
);

/// Integers never pass through a float: 2^53 + 1 is not 2^53, and an overflow wraps as in numpy.
fn integers_are_exact_and_wrap(e: &Engine) -> Result<(), Error> {
    const BIG: i64 = 1 << 53;
    let (a, b) = (e.tensor([4], &[BIG + 1, i64::MAX, -7, 7])?, e.tensor([4], &[BIG, 1, 3, -3])?);
    let run = |op: &dyn Tested| {
        let mut out = e.empty(DType::I64, [4])?;
        e.call(op, &[a.view(), b.view()], &mut [out.view_mut()])?;
        out.read::<i64>()
    };
    assert_eq!(run(&Add)?, [2 * BIG + 1, i64::MIN, -4, 4]);
    assert_eq!(run(&Mul)?, [BIG, i64::MAX, -21, -21]);
    // The sign of the divisor, as `%` in Python.
    assert_eq!(run(&Rem)?, [1, 0, 2, -2]);
    assert_eq!(run(&Maximum)?, [BIG + 1, i64::MAX, 3, 7]);
    let mut equal = e.empty(DType::Bool, [4])?;
    e.call(&Compare { comparison: Comparison::Equal }, &[a.view(), b.view()], &mut [equal.view_mut()])?;
    assert_eq!(equal.read::<u8>()?, [0, 0, 0, 0]);

    let x = e.tensor([3], &[200u8, 0, 255])?;
    let mut out = e.empty(DType::U8, [3])?;
    e.call(&Add, &[x.view(), x.view()], &mut [out.view_mut()])?;
    assert_eq!(out.read::<u8>()?, [144, 0, 254]);
    e.call(&Neg, &[x.view()], &mut [out.view_mut()])?;
    assert_eq!(out.read::<u8>()?, [56, 0, 1]);
    let zero = e.tensor([3], &[0u8; 3])?;
    e.call(&Rem, &[x.view(), zero.view()], &mut [out.view_mut()])?;
    assert_eq!(out.read::<u8>()?, [0, 0, 0]);
    // A cast between integers wraps too, one from a float saturates.
    let wide = e.tensor([3], &[300i64, -1, BIG + 5])?;
    e.call(&Cast { dtype: DType::U8 }, &[wide.view()], &mut [out.view_mut()])?;
    assert_eq!(out.read::<u8>()?, [44, 255, 5]);
    let float = e.tensor([3], &[300.5f32, -1.0, f32::NAN])?;
    e.call(&Cast { dtype: DType::U8 }, &[float.view()], &mut [out.view_mut()])?;
    assert_eq!(out.read::<u8>()?, [255, 0, 0]);
    Ok(())
}

/// NaN is the greatest, −0 equals 0, 64-bit integers are exact, and equal elements keep their order.
fn sorting_has_a_place_for_every_number(e: &Engine) -> Result<(), Error> {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let x = e.tensor([8], &[nan, 1.0, 0.0, -inf, -0.0, inf, -2.5, nan])?;
    for (descending, order) in [(false, [3, 6, 2, 4, 1, 5, 0, 7]), (true, [0, 7, 5, 1, 2, 4, 6, 3])] {
        let sorted = e.eval_all(&Sort { axis: 0, descending }, &[x.view()])?;
        assert_eq!(sorted[1].read::<i64>()?, order);
        let values = sorted[0].read::<f32>()?;
        let nans = if descending { 0..2 } else { 6..8 };
        assert!(values.iter().enumerate().all(|(i, v)| v.is_nan() == nans.contains(&i)), "{values:?}");
        for dtype in [DType::F64, DType::BF16, DType::F16] {
            let x = e.eval(&Cast { dtype }, &[x.view()])?;
            assert_eq!(e.eval_all(&Sort { axis: 0, descending }, &[x.view()])?[1].read::<i64>()?, order);
        }
    }
    let big = e.tensor([2, 3], &[i64::MAX, (1 << 53) + 1, 1 << 53, -1, i64::MIN, 0])?;
    let sorted = e.eval_all(&Sort { axis: 1, descending: false }, &[big.view()])?;
    assert_eq!(sorted[0].read::<i64>()?, [1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN, -1, 0]);
    assert_eq!(sorted[1].read::<i64>()?, [2, 1, 0, 1, 0, 2]);
    Ok(())
}

/// Regression 22: values far from 0 saturate or overflow as the function does; none becomes NaN or something else.
fn r22_wide_ranges_give_what_they_must(e: &Engine) -> Result<(), Error> {
    let x = [-3e4, -120.0, -88.0, -10.5, -1.0, 0.0, 1e-3, 10.0, 88.0, 120.0, 3e4];
    // Two units in the last place of a result near 1.
    for (dtype, bound) in [(DType::F32, 2.4e-7), (DType::BF16, 1.6e-2), (DType::F16, 2e-3)] {
        let spec = Spec::new(dtype, [1, x.len()]);
        let x = e.from_host(&HostTensor::from_fn(spec, |i| x[i]))?;
        let ops: [&dyn Tested; 5] = [
            &Exp,
            &Tanh,
            &Gelu { approximation: Approximation::Erf },
            &Gelu { approximation: Approximation::Tanh },
            &Softmax { axis: 1 },
        ];
        for op in ops {
            let mut out = e.empty(dtype, spec.shape)?;
            out.poison(0xff)?;
            e.reserve(e.workspace(op, &[spec])?)?;
            e.call(op, &[x.view()], &mut [out.view_mut()])?;
            let exact = op.reference(&[x.read_host()?]).remove(0);
            let want = HostTensor::from_bytes(spec, &exact.to_bytes())?.data;
            for (i, (g, w)) in out.read_host()?.data.iter().zip(want).enumerate() {
                let near = *g == w || (g - w).abs() <= bound * (1.0 + w.abs());
                assert!(near, "{} of {dtype} at element {i}: {g}, it must be {w}", op.name());
            }
        }
    }
    Ok(())
}

/// Regression 27: ten steps on the gradient of x² from x = 1, lr = 0.1, against the paper's algorithm 1 in f64, with
/// bias-corrected moments as quantities of their own. A counter that is off by one misses the first step by far.
fn r27_the_first_ten_steps_are_the_papers(e: &Engine) -> Result<(), Error> {
    for (weight_decay, decoupled) in [(0.0, true), (0.01, true), (0.01, false)] {
        let op = Adam { weight_decay, decoupled, decay_elements: 1, ..Adam::default() };
        let (mut p, mut m, mut v) =
            (e.tensor([1], &[1.0f32])?, e.tensor([1], &[0.0f32])?, e.tensor([1], &[0.0f32])?);
        let (lr, one) = (e.tensor([], &[0.1f64])?, e.tensor([], &[1.0f32])?);
        let ok = e.from_host(&HostTensor::new(DType::Bool, [], vec![1.0])?)?;
        let (mut x, mut first, mut second) = (1.0f64, 0.0, 0.0);
        for step in 1..=10i32 {
            let mut g = 2.0 * x;
            if decoupled {
                x -= 0.1 * weight_decay * x;
            } else {
                g += weight_decay * x;
            }
            first += 0.1 * (g - first);
            second += 0.001 * (g * g - second);
            let corrected = (first / (1.0 - 0.9f64.powi(step)), second / (1.0 - 0.999f64.powi(step)));
            x -= 0.1 * corrected.0 / (corrected.1.sqrt() + 1e-8);

            let grad = e.tensor([1], &[2.0 * p.read::<f32>()?[0]])?;
            let cursor = e.tensor([8], &[i64::from(step) - 1, 0, 0, 0, 0, 0, 0, 0])?;
            e.call_updating(
                &op,
                &[0, 2, 3],
                &mut [p.view_mut(), m.view_mut(), v.view_mut()],
                &[grad.view(), cursor.view(), lr.view(), one.view(), ok.view()],
            )?;
            let got = f64::from(p.read::<f32>()?[0]);
            // Ten steps, each rounded to f32 (1.2e-7 near 1).
            assert!((got - x).abs() < 1.2e-6, "step {step}: {got}, by the paper {x}");
        }
    }
    Ok(())
}
