//! Adam against the paper.

use super::*;
use crate::Engine;
use crate::error::Error;

/// Ten steps on the gradient of x² from x = 1, lr = 0.1, written out in scalars after the paper's algorithm 1, with
/// bias-corrected moments as quantities of their own.
fn by_the_paper(steps: i32, weight_decay: f64, decoupled: bool) -> Vec<f64> {
    let (mut x, mut m, mut v) = (1.0f64, 0.0, 0.0);
    (1..=steps)
        .map(|t| {
            let mut g = 2.0 * x;
            if decoupled {
                x -= 0.1 * weight_decay * x
            } else {
                g += weight_decay * x
            }
            m += 0.1 * (g - m);
            v += 0.001 * (g * g - v);
            let (mh, vh) = (m / (1.0 - 0.9f64.powi(t)), v / (1.0 - 0.999f64.powi(t)));
            x -= 0.1 * mh / (vh.sqrt() + 1e-8);
            x
        })
        .collect()
}

fn run(weight_decay: f64, decoupled: bool) -> Result<Vec<f64>, Error> {
    let engine = Engine::cpu_with_threads(1)?;
    let op = Adam { weight_decay, decoupled, ..Adam::default() };
    let (mut p, mut m, mut v) =
        (engine.tensor([1], &[1.0])?, engine.tensor([1], &[0.0])?, engine.tensor([1], &[0.0])?);
    let (lr, one) = (engine.tensor([], &[0.1])?, engine.tensor([], &[1.0])?);
    let ok = engine.from_host(&HostTensor::new(DType::Bool, [], vec![1.0])?)?;
    let mut path = Vec::new();
    for step in 0..10i64 {
        let grad = engine.tensor([1], &[2.0 * p.read::<f64>()?[0]])?;
        let cursor = engine.tensor([8], &[step, 0, 0, 0, 0, 0, 0, 0])?;
        engine.call_updating(
            &op,
            &[0, 2, 3],
            &mut [p.view_mut(), m.view_mut(), v.view_mut()],
            &[grad.view(), cursor.view(), lr.view(), one.view(), ok.view()],
        )?;
        path.push(p.read::<f64>()?[0]);
    }
    Ok(path)
}

#[test]
fn the_first_ten_steps_are_those_of_the_paper() -> Result<(), Error> {
    for (weight_decay, decoupled) in [(0.0, true), (0.01, true), (0.01, false)] {
        let (got, want) = (run(weight_decay, decoupled)?, by_the_paper(10, weight_decay, decoupled));
        for (t, (g, w)) in got.iter().zip(&want).enumerate() {
            assert!((g - w).abs() < 1e-13, "step {}: {g}, by the paper {w}", t + 1);
        }
    }
    // The first step by hand: both corrected moments are the gradient's, so it is lr · 2 / (2 + ε).
    assert!((run(0.0, true)?[0] - (1.0 - 0.2 / (2.0 + 1e-8))).abs() < 1e-15);
    Ok(())
}
