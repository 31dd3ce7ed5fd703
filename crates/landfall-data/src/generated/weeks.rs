//! Days within weeks: a profile of the day for work days, another for the weekend, and a size and level for each day.

use crate::generated::draws::Draws;
use crate::generated::noise::unit;
use crate::generated::patterns::pattern;

/// Writes `size[d] · profile[w(d)][h] + level[d]` for hour h of day d, of unit standard deviation; a day has `rows` rows.
pub(crate) fn write(draws: &mut Draws, rows: usize, out: &mut [f64]) {
    let work = profile(draws, rows);
    let free = if draws.chance(0.7) { related(draws, &work) } else { work.clone() };
    let weekend = if draws.chance(0.85) { 2 } else { 1 + draws.below(3) };
    let (sizes, levels) = (draws.log_between(0.03, 0.6), draws.log_between(0.03, 1.2));
    let rest = (draws.between(0.1, 1.1), -draws.between(-0.2, 1.2));
    let mut days = [(1.0_f64, 0.0_f64); 7];
    for (d, (size, level)) in days.iter_mut().enumerate() {
        let odd = (1.0 + sizes * draws.normal(), levels * draws.normal());
        // Work days resemble each other more than the weekend does.
        let near = if d < 7 - weekend { 0.3 } else { 1.0 };
        (*size, *level) = (1.0 + near * (odd.0 - 1.0), near * odd.1);
        if d >= 7 - weekend {
            (*size, *level) = (*size * rest.0, *level + rest.1);
        }
    }
    let drift = if draws.chance(0.5) { draws.log_between(0.01, 0.2) } else { 0.0 };
    let (mut day, mut hour, mut today) = (draws.below(7), draws.below(rows), 1.0);
    for x in out.iter_mut() {
        let (size, level) = days[day];
        *x = today * size * if day < 7 - weekend { work[hour] } else { free[hour] } + level;
        hour += 1;
        if hour == rows {
            (hour, day) = (0, (day + 1) % 7);
            today = 1.0 + 0.8 * (today - 1.0) + drift * draws.normal();
        }
    }
    let mean = out.iter().sum::<f64>() / out.len().max(1) as f64;
    out.iter_mut().for_each(|x| *x -= mean);
    unit(out);
}

/// A profile of the day: any pattern, or two peaks, or light by day and none by night.
fn profile(draws: &mut Draws, rows: usize) -> Vec<f64> {
    let hours = |k: usize| 24.0 * k as f64 / rows as f64;
    match draws.choose(&[0.45, 0.4, 0.15]) {
        0 => pattern(draws, rows),
        1 => {
            let (first, second) = (draws.between(6.0, 12.0), draws.between(14.0, 21.0));
            let (wide, share) = (draws.between(1.0, 3.5), draws.between(0.2, 1.5));
            let bump = |t: f64, centre: f64| {
                let gap = (t - centre + 12.0).rem_euclid(24.0) - 12.0;
                libm::exp(-0.5 * (gap / wide) * (gap / wide))
            };
            let mut values: Vec<f64> =
                (0..rows).map(|k| bump(hours(k), first) + share * bump(hours(k), second)).collect();
            values.iter_mut().for_each(|x| *x += 0.03 * draws.normal());
            centred(values)
        }
        _ => {
            let night = draws.between(-0.5, 0.5);
            let wave = |k: usize| -libm::cos(std::f64::consts::TAU * hours(k) / 24.0) - night;
            centred((0..rows).map(|k| wave(k).max(0.0)).collect())
        }
    }
}

/// A profile that resembles another one: later, flatter, or mixed with a new one.
fn related(draws: &mut Draws, work: &[f64]) -> Vec<f64> {
    let (share, later) = (draws.uniform(), draws.below(1 + work.len() / 8));
    let new = pattern(draws, work.len());
    let at = |k: usize| work[(k + work.len() - later) % work.len()];
    centred((0..work.len()).map(|k| (1.0 - share) * at(k) + 0.6 * share * new[k]).collect())
}

fn centred(mut values: Vec<f64>) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.iter_mut().for_each(|x| *x -= mean);
    unit(&mut values);
    values
}
