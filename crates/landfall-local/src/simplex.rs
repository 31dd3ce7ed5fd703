//! The downhill simplex of Nelder & Mead (1965), with the coefficients of Gao & Han (2012), which depend on the dimension.

/// When a search ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The objective is evaluated about this often at most.
    pub(crate) evaluations: usize,
    /// The search ends where all corners of the simplex have values that differ by no more.
    pub(crate) tolerance: f64,
}

/// A corner of the simplex and the objective there.
type Corner = (Vec<f64>, f64);

/// The point at which `objective` is smallest, and its value: searched from `start`, whose neighbours are `steps` away. An objective
/// of infinity or NaN bounds the region. Deterministic.
pub(crate) fn minimise(
    mut objective: impl FnMut(&[f64]) -> f64,
    start: &[f64],
    steps: &[f64],
    limits: Limits,
) -> Corner {
    let mut value = |x: &[f64]| {
        let found = objective(x);
        if found.is_nan() { f64::INFINITY } else { found }
    };
    let mut corners: Vec<Corner> = vec![(start.to_vec(), value(start))];
    for (i, step) in steps.iter().enumerate() {
        let mut x = start.to_vec();
        x[i] += step;
        let mut found = value(&x);
        if found.is_infinite() {
            x[i] = start[i] - step;
            found = value(&x);
        }
        corners.push((x, found));
    }
    let mut evaluations = corners.len();
    let last = corners.len() - 1;
    corners.sort_by(|a, b| a.1.total_cmp(&b.1));
    while evaluations < limits.evaluations && corners[last].1 - corners[0].1 > limits.tolerance {
        evaluations += step(&mut corners, &mut value);
    }
    corners.swap_remove(0)
}

/// One step: the worst corner is reflected, expanded or contracted, or all shrink towards the best. Returns the evaluations.
fn step(corners: &mut [Corner], value: &mut impl FnMut(&[f64]) -> f64) -> usize {
    let last = corners.len() - 1;
    let n = last.max(2) as f64;
    let centre = centre(&corners[..last]);
    let worst = corners[last].1;
    let along = |t: f64, corners: &[Corner]| -> Vec<f64> {
        centre.iter().zip(&corners[last].0).map(|(c, w)| c + t * (c - w)).collect()
    };
    let reflected = along(1.0, corners);
    let at_reflected = value(&reflected);
    if at_reflected < corners[0].1 {
        let expanded = along(1.0 + 2.0 / n, corners);
        let at_expanded = value(&expanded);
        place(
            corners,
            if at_expanded < at_reflected { (expanded, at_expanded) } else { (reflected, at_reflected) },
        );
        return 2;
    }
    if at_reflected < corners[last - 1].1 {
        place(corners, (reflected, at_reflected));
        return 1;
    }
    let inward = 0.75 - 0.5 / n;
    let contracted = along(if at_reflected < worst { inward } else { -inward }, corners);
    let at_contracted = value(&contracted);
    if at_contracted < at_reflected.min(worst) {
        place(corners, (contracted, at_contracted));
        return 2;
    }
    let keep = 1.0 - 1.0 / n;
    let (best, others) = corners.split_at_mut(1);
    for (x, found) in others.iter_mut() {
        for (x, b) in x.iter_mut().zip(&best[0].0) {
            *x = b + keep * (*x - b);
        }
        *found = value(x);
    }
    corners.sort_by(|a, b| a.1.total_cmp(&b.1));
    2 + last
}

/// The mean of the corners.
fn centre(corners: &[Corner]) -> Vec<f64> {
    let mut sum = vec![0.0; corners[0].0.len()];
    for (x, _) in corners {
        for (s, x) in sum.iter_mut().zip(x) {
            *s += x;
        }
    }
    sum.iter().map(|s| s / corners.len() as f64).collect()
}

/// Puts a corner in place of the worst, in order.
fn place(corners: &mut [Corner], new: Corner) {
    let last = corners.len() - 1;
    let at = corners[..last].partition_point(|c| c.1 <= new.1);
    corners[last] = new;
    corners[at..].rotate_right(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_minimum_of_a_curved_valley() {
        let valley = |x: &[f64]| (1.0 - x[0]).powi(2) + 100.0 * (x[1] - x[0] * x[0]).powi(2);
        let (x, value) =
            minimise(valley, &[-1.2, 1.0], &[0.1, 0.1], Limits { evaluations: 2000, tolerance: 1e-14 });
        assert!((x[0] - 1.0).abs() < 1e-5 && (x[1] - 1.0).abs() < 1e-5 && value < 1e-10, "{x:?} {value}");
    }

    #[test]
    fn stays_where_the_objective_is_finite() {
        let bounded = |x: &[f64]| if x[0] < 0.5 { f64::INFINITY } else { x[0] };
        let (x, _) = minimise(bounded, &[0.9], &[0.2], Limits { evaluations: 500, tolerance: 1e-12 });
        assert!((x[0] - 0.5).abs() < 1e-6, "{x:?}");
        let nowhere =
            minimise(|_| f64::NAN, &[1.0, 2.0], &[1.0, 1.0], Limits { evaluations: 50, tolerance: 1e-12 });
        assert_eq!(nowhere, (vec![1.0, 2.0], f64::INFINITY));
    }
}
