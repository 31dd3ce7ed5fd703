//! Numbers that went wrong in other systems, on each device.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::ops::{Adam, Approximation, Exp, Gelu, Softmax, Tanh, Tested};
use landfall::{DType, Engine, Error, HostTensor, Spec};

on_each_device!(r22_wide_ranges_give_what_they_must, r27_the_first_ten_steps_are_the_papers);

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
