//! Products beyond what the generated suite checks: precisions, and long inner axes.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::gpu;
use landfall::ops::{MatMul, Precision};
use landfall::{DType, Engine, Error};

type Sizes = (usize, usize, usize);

/// A number in [-1, 1), the same in every run.
fn value(k: usize, salt: u64) -> f32 {
    let mut z = (k as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(salt);
    z = (z ^ (z >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (z >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// The largest distance of an element of a product of f32 from the same sum in f64, in units of the sum of absolute
/// values.
fn error(engine: &Engine, precision: Precision, (m, n, k): Sizes) -> Result<f64, Error> {
    let op = MatMul { precision, ..MatMul::default() };
    let data = |count: usize, salt| (0..count).map(|i| value(i, salt)).collect::<Vec<_>>();
    let (a, b) = (data(m * k, 1), data(k * n, 2));
    let (mut lhs, mut rhs) = (engine.empty(DType::F32, [m, k])?, engine.empty(DType::F32, [k, n])?);
    let mut out = engine.empty(DType::F32, [m, n])?;
    lhs.write(&a)?;
    rhs.write(&b)?;
    engine.reserve(engine.workspace(&op, &[lhs.spec(), rhs.spec()])?)?;
    engine.call(&op, &[lhs.view(), rhs.view()], &mut [out.view_mut()])?;
    let out = out.read::<f32>()?;
    let mut worst = 0.0f64;
    for i in 0..m {
        for j in 0..n {
            let terms = || (0..k).map(|p| f64::from(a[i * k + p]) * f64::from(b[p * n + j]));
            let (sum, scale) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            worst = worst.max((f64::from(out[i * n + j]) - sum).abs() / scale);
        }
    }
    Ok(worst)
}

/// Measured on an H200: strict at most 1.7e-7, TF32, whose factors are rounded to 10 bits, 1.5e-4.
#[test]
fn on_cuda_strict_products_are_not_rounded_and_tf32_ones_are() -> Result<(), Error> {
    let Some(engine) = gpu()? else { return Ok(()) };
    for sizes in [(64, 64, 64), (96, 128, 5000), (16, 16, 40_000), (5376, 16, 128)] {
        let (strict, tf32) =
            (error(&engine, Precision::Strict, sizes)?, error(&engine, Precision::Tf32, sizes)?);
        println!("{sizes:?}: strict {strict:.1e}, tf32 {tf32:.1e}");
        assert!(strict < 1e-6, "{sizes:?}: {strict} of the sum of absolute values");
        assert!(tf32 < 1e-3, "{sizes:?}: {tf32} of the sum of absolute values");
        // A small result with a long inner axis is a kernel of ours, which rounds nothing.
        let rounds = sizes.2 > 4096 || tf32 > 4.0 * strict;
        assert!(rounds, "{sizes:?}: TF32 ({tf32}) rounds nothing (strict: {strict})");
    }
    Ok(())
}

#[test]
fn tf32_is_for_cuda() -> Result<(), Error> {
    let told = error(&Engine::cpu_with_threads(1)?, Precision::Tf32, (2, 2, 2)).map_err(|e| e.to_string());
    let said = told.as_ref().is_err_and(|t| t.contains("no kernel of cpu takes"));
    assert!(said, "{told:?}");
    Ok(())
}
