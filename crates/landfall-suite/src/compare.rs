//! How far a result may be from the reference.
//!
//! An error is counted in units of `ε·(|want| + tiny) + s·ε_acc·condition`: ε of the output's dtype, `tiny` its smallest
//! normal number, ε_acc of the dtype that arithmetic runs in, and the condition of the element: how much it changes
//! when every floating-point argument changes by a relative 1. It is measured with the reference on perturbed
//! arguments, so it knows of cancellation in a sum and of the steepness of a function, whatever the op. With s a sum in f32
//! may be as far off where its result is stored in 16 bits as where it is stored in f32.

use crate::case::{Case, Check, Random, ensure};
use landfall::{DType, HostTensor};

/// Largest error of a kernel in its unit, by the dtype of the output: at least twice and less than 10 times what is measured
/// over ten seeds of the data (`LANDFALL_DATA_SEED=3 cargo test --test suite parity -- --nocapture` prints it). On an H200 sums
/// of 300 and 3,000 products in f32 are 15.7 off, means of 6,400 values in f64 85.8.
const BOUNDS: &[(DType, f64)] =
    &[(DType::F32, 32.0), (DType::F64, 256.0), (DType::BF16, 1.0), (DType::F16, 1.0)];

/// The bound for outputs of a dtype; integers are exact.
pub(crate) fn bound(dtype: DType) -> f64 {
    BOUNDS.iter().find(|b| b.0 == dtype).map_or(0.0, |b| b.1)
}

/// The same of an op's body against its kernel: it rounds after each of its ops.
pub(crate) const BODY: f64 = 16.0;

/// Relative size of the perturbations: far above the rounding of f64, far below where a function bends.
const STEP: f64 = 1e-6;

/// Worst error of the floating-point outputs of each dtype, in its unit.
pub(crate) type Worst = Vec<(DType, f64)>;

/// Notes a measured error.
pub(crate) fn note(worst: &mut Worst, dtype: DType, ratio: f64) {
    match worst.iter_mut().find(|w| w.0 == dtype) {
        Some(w) => w.1 = w.1.max(ratio),
        None => worst.push((dtype, ratio)),
    }
}

/// Text of measured errors.
pub(crate) fn describe(worst: &Worst) -> String {
    let mut parts: Vec<String> = worst.iter().map(|(d, r)| format!("{d} {r:.2}")).collect();
    parts.sort();
    parts.join(", ")
}

/// Compares results with what is wanted; integers and truth values exactly. Notes the worst error of each dtype.
pub(crate) fn close(
    case: &Case,
    got: &[HostTensor],
    want: &[HostTensor],
    bound: impl Fn(DType) -> f64,
    worst: &mut Worst,
) -> Check {
    ensure!(got.len() == want.len(), "{} outputs, not {}", got.len(), want.len());
    // Few trials say too little of one element in thousands by chance: what exceeds its bound is measured again with many.
    let mut conditions = None;
    let mut precise = None;
    for (j, (got, want)) in got.iter().zip(want).enumerate() {
        let dtype = want.spec.dtype;
        let rounded = want.rounded();
        for i in 0..want.data.len() {
            let (g, r, w) = (got.data[i], rounded.data[i], want.data[i]);
            if g == r || (g.is_nan() && r.is_nan()) {
                if w.is_finite() && r.is_finite() && dtype.is_float() {
                    note(worst, dtype, (r - w).abs() / unit(dtype, w));
                }
                continue;
            }
            ensure!(dtype.is_float(), "output {j} element {i} is {g}, the reference says {r}");
            let unit = |conditions: &[Vec<f64>]| unit(dtype, w) + accumulated(case, dtype) * conditions[j][i];
            // Beyond the largest finite number only the last step before it is left to compare.
            let finite = if g.is_infinite() { rounded_away(dtype, g) } else { g };
            let ratio = |unit: f64| (finite - w).abs() / unit;
            let bound = bound(dtype) * roundings(case, dtype);
            let mut found = unit(measured(&mut conditions, case, FEW_TRIALS)?);
            if ratio(found) > bound {
                found = unit(measured(&mut precise, case, MANY_TRIALS)?);
            }
            let (unit, ratio) = (found, ratio(found));
            note(worst, dtype, ratio);
            ensure!(
                ratio <= bound,
                "output {j} element {i} is {g:e}, the reference says {w:e}: {ratio:.2} units of {unit:e}, \
                 at most {bound} are allowed"
            );
        }
    }
    Ok(())
}

/// Spacing of the dtype's numbers at `want`.
fn unit(dtype: DType, want: f64) -> f64 {
    let tiny = match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 => 6.103_515_625e-5,
        DType::F32 | DType::BF16 => f64::from(f32::MIN_POSITIVE),
        DType::I32 | DType::I64 | DType::U8 | DType::Bool => 0.0,
    };
    dtype.epsilon() * (want.abs() + tiny)
}

/// The largest finite number of a dtype, with the sign of `x`.
fn rounded_away(dtype: DType, x: f64) -> f64 {
    let largest = match dtype {
        DType::F16 => 65_504.0,
        DType::BF16 => 3.389_531_389_251_535_5e38,
        DType::F32 => f64::from(f32::MAX),
        DType::F64 | DType::I32 | DType::I64 | DType::U8 | DType::Bool => f64::MAX,
    };
    largest.copysign(x)
}

/// How much more a result may differ where an op rounds factors of its sums to 16 bits: each is rounded by itself, and so are
/// what they were made of.
fn roundings(case: &Case, output: DType) -> f64 {
    if output.size() == 2 && arithmetic(case, output).size() == 2 { 4.0 } else { 1.0 }
}

/// The dtype that the op's arithmetic runs in for this case: the coarsest, where dtypes are mixed.
fn arithmetic(case: &Case, output: DType) -> DType {
    let inputs = case.inputs.iter().map(|h| h.spec.dtype).filter(|d| d.is_float());
    let dtypes = inputs.chain([output]).map(|d| case.op.accumulate(d));
    dtypes.max_by(|a, b| a.epsilon().total_cmp(&b.epsilon())).unwrap_or(output)
}

/// s·ε_acc: what a condition of 1 adds to the unit of an error.
fn accumulated(case: &Case, output: DType) -> f64 {
    let dtype = arithmetic(case, output);
    dtype.epsilon() * bound(dtype) / bound(output)
}

/// Random changes from which a condition is measured. Of six the root mean square is below half of its value in one of 70 elements and
/// below a quarter in one of 4,000; of 96 it is within a quarter of it.
const FEW_TRIALS: usize = 6;
const MANY_TRIALS: usize = 96;

/// The conditions of a case, measured at the first use.
fn measured<'a>(known: &'a mut Option<Vec<Vec<f64>>>, case: &Case, trials: usize) -> Check<&'a [Vec<f64>]> {
    if known.is_none() {
        *known = Some(condition(case, trials)?);
    }
    Ok(known.as_deref().unwrap_or_default())
}

/// How much each output element changes when every floating-point argument changes by a relative 1: the root mean
/// square of a few random changes.
///
/// Each is made twice, once a hundredth as large. Where a function bends or jumps beyond the smaller change, that one
/// counts; where it jumps at the very argument, as a comparison does, there is no tolerance for it.
fn condition(case: &Case, trials: usize) -> Check<Vec<Vec<f64>>> {
    let at = case.reference()?;
    let mut found: Vec<Vec<f64>> = at.iter().map(|h| vec![0.0; h.data.len()]).collect();
    for trial in 0..trials {
        let moved = |step: f64| -> Check<Vec<HostTensor>> {
            let mut random = Random::new("condition", case.sample * trials + trial);
            let mut moved = case.clone();
            for h in moved.inputs.iter_mut().filter(|h| h.spec.dtype.is_float()) {
                h.data.iter_mut().for_each(|x| *x *= 1.0 + step * random.sign());
            }
            moved.reference()
        };
        let (far, near) = (moved(STEP)?, moved(STEP / 100.0)?);
        for (((found, a), far), near) in found.iter_mut().zip(&at).zip(far).zip(near) {
            for (((f, a), far), near) in found.iter_mut().zip(&a.data).zip(far.data).zip(near.data) {
                let (far, near) = ((a - far).abs() / STEP, (a - near).abs() / (STEP / 100.0));
                let slope = if near > 10.0 * far { 0.0 } else { far.min(near) };
                // Uniform changes have a third of the square of a change by 1.
                let square = 3.0 / trials as f64 * slope.powi(2);
                *f = if square.is_finite() { *f + square } else { *f };
            }
        }
    }
    found.iter_mut().flatten().for_each(|f| *f = f.sqrt());
    Ok(found)
}
