//! What happens to a finished series: shifts, outliers, bounds, units, missing values.

use crate::generated::draws::Draws;
use crate::generated::trends::spread;

/// Adds level shifts, some of which end, to a share of series.
pub(crate) fn shifts(draws: &mut Draws, span: f64, out: &mut [f64]) {
    if !draws.chance(0.12) {
        return;
    }
    let (rate, size) =
        (draws.log_between(0.1, 1.0) / span, draws.log_between(0.5, 4.0) * spread(out, span as usize));
    let length = draws.chance(0.4).then(|| span * draws.log_between(0.1, 1.0));
    let mut level = 0.0;
    for x in out {
        if draws.chance(rate) {
            level += size * draws.normal();
        }
        if length.is_some_and(|length| draws.chance(1.0 / length.max(1.0))) {
            level = 0.0;
        }
        *x += level;
    }
}

/// Adds outliers to a share of series: single rows, at times several in a row.
pub(crate) fn outliers(draws: &mut Draws, span: f64, out: &mut [f64]) {
    if !draws.chance(0.15) {
        return;
    }
    let (rate, size) =
        (draws.log_between(0.001, 0.02), draws.log_between(2.0, 10.0) * spread(out, span as usize));
    let (mean, stay) = (draws.normal(), if draws.chance(0.2) { 0.6 } else { 0.0 });
    let mut now = 0.0;
    for x in out {
        now = if draws.chance(rate) {
            size * (mean + draws.normal())
        } else if now != 0.0 && draws.chance(stay) {
            now
        } else {
            0.0
        };
        *x += now;
    }
}

/// Bounds a share of series: a floor, a cap, values of a grid, or values that stay for some rows.
pub(crate) fn bounds(draws: &mut Draws, out: &mut [f64]) {
    let which = draws.choose(&[0.88, 0.04, 0.02, 0.04, 0.02]);
    if which == 0 || out.is_empty() {
        return;
    }
    let mut sorted = out.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((share * sorted.len() as f64) as usize).min(sorted.len() - 1)];
    match which {
        1 => {
            let floor = at(draws.between(0.05, 0.5));
            out.iter_mut().for_each(|x| *x = x.max(floor));
        }
        2 => {
            let cap = at(draws.between(0.6, 0.95));
            out.iter_mut().for_each(|x| *x = x.min(cap));
        }
        3 => {
            let grid = (at(0.95) - at(0.05)) / draws.log_between(5.0, 200.0);
            if grid > 0.0 {
                out.iter_mut().for_each(|x| *x = (*x / grid).round() * grid);
            }
        }
        _ => {
            let (stay, mut last) = (draws.between(0.3, 0.9), out[0]);
            for x in out {
                last = if draws.chance(stay) { last } else { *x };
                *x = last;
            }
        }
    }
}

/// Gives a series a scale of 10⁻³ to 10⁶ and, where it has no zero of its own, a location.
pub(crate) fn units(draws: &mut Draws, own_zero: bool, out: &mut [f64]) {
    let size = libm::sqrt(out.iter().map(|x| x * x).sum::<f64>() / out.len().max(1) as f64).max(1e-9);
    let scale = libm::pow(10.0, draws.between(-3.0, 6.0)) / size;
    let (low, high) = out.iter().fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(*x), h.max(*x)));
    let place = match draws.choose(&[0.2, 0.5, 0.3]) {
        0 => 0.0,
        // All positive, from far away or close to 0.
        1 => (high - low) * draws.log_between(0.02, 20.0) - low,
        _ => (high - low) * 3.0 * draws.normal(),
    };
    let sign = if draws.chance(0.06) { -1.0 } else { 1.0 };
    let place = if own_zero { 0.0 } else { place };
    out.iter_mut().for_each(|x| *x = sign * scale * (*x + place));
}

/// The last rows, of which one at least is known.
pub(crate) const KNOWN: usize = 8;

/// Takes values out of a share of series: single ones, or runs.
pub(crate) fn missing(draws: &mut Draws, out: &mut [f32]) {
    if !draws.chance(0.15) {
        return;
    }
    let runs = draws.chance(0.4);
    let (share, length) = if runs {
        (draws.log_between(0.01, 0.3), draws.log_between(2.0, 30.0))
    } else {
        (draws.log_between(0.003, 0.25), 1.0)
    };
    let begins = (share / ((1.0 - share) * length)).min(1.0);
    let kept = out.last().copied();
    let mut gone = false;
    for x in out.iter_mut() {
        gone = if gone && length > 1.0 { !draws.chance(1.0 / length) } else { draws.chance(begins) };
        if gone {
            *x = f32::NAN;
        }
    }
    let tail = out.len().saturating_sub(KNOWN);
    if out[tail..].iter().all(|x| x.is_nan())
        && let (Some(last), Some(kept)) = (out.last_mut(), kept)
    {
        *last = kept;
    }
}
