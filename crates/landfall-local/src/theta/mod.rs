//! The Theta method: exponential smoothing of a series and its trend line, weighed against each other.
//!
//! `standard` is that of Assimakopoulos & Nikolopoulos (2000), `dynamic` the dynamic optimised model of Fiorucci et al. (2016).
//! Both work on a series without its season.

pub(crate) mod dynamic;
pub(crate) mod standard;

/// The smoothing parameters of Theta lie here.
const ALPHA: (f64, f64) = (0.05, 0.99);

/// The variance of step h of exponential smoothing over that of step 1: 1 + (h − 1) α² (Hyndman et al. 2008, table 6.2).
fn growth(alpha: f64, step: usize) -> f64 {
    1.0 + (step - 1) as f64 * alpha * alpha
}

/// The level before the first row at which the squared errors are smallest: each error is `free` − `weight` · level, so the
/// least-squares level has a closed form.
fn best_level(errors: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut cross, mut square) = (0.0, 0.0);
    for (free, weight) in errors {
        cross += free * weight;
        square += weight * weight;
    }
    if square > 0.0 { cross / square } else { 0.0 }
}

/// The `x` of a range at which `objective` is smallest: the best of a grid, then golden sections around it.
fn minimise_within(range: (f64, f64), objective: impl Fn(f64) -> f64) -> f64 {
    const POINTS: usize = 16;
    const RATIO: f64 = 0.618_033_988_749_894_8;
    let width = (range.1 - range.0) / POINTS as f64;
    let grid = (0..=POINTS).map(|i| range.0 + width * i as f64).map(|x| (x, objective(x)));
    let best = grid.fold((range.0, f64::INFINITY), |a, b| if b.1 < a.1 { b } else { a });
    let (mut low, mut high) = ((best.0 - width).max(range.0), (best.0 + width).min(range.1));
    while high - low > 1e-5 {
        let (a, b) = (high - RATIO * (high - low), low + RATIO * (high - low));
        if objective(a) <= objective(b) { high = b } else { low = a }
    }
    let middle = (low + high) / 2.0;
    if objective(middle) < best.1 { middle } else { best.0 }
}
