//! The values that a series begins as, from its source.

use crate::generated::draws::Draws;
use crate::generated::kinds::Kind;
use crate::generated::noise::unit;
use crate::generated::outline::{Outline, Source};
use crate::generated::parts::Part;
use crate::generated::seasons::{self, Season};
use crate::generated::trends::{self, fold, spread};
use crate::generated::{counts, maps, noise, processes, sarima};

/// Writes the values of a series' source; true where zero means something, so that they may be scaled but not moved.
pub(crate) fn source(outline: &Outline, out: &mut [f64]) -> bool {
    let seasons = calendar(outline);
    let period = seasons.first().map_or(1.0, |season| season.period);
    match (outline.source, outline.draws(source_part(outline.source))) {
        (Source::Arima, Some(mut draws)) => sarima::path(&mut draws, period as usize, out),
        (Source::Process, Some(mut draws)) => processes::path(&mut draws, outline.span, period, out),
        (Source::Map, Some(mut draws)) => maps::path(&mut draws, outline.span, out),
        (Source::Counts, Some(mut draws)) => {
            let mut signal = vec![0.0; out.len()];
            let mut together = outline.together();
            additive(outline, &seasons, &mut signal);
            let level = spread(&signal, out.len());
            let turn = together.between(0.5, 1.0) / level.max(1.0);
            signal.iter_mut().for_each(|x| *x *= turn);
            counts::counts(&mut draws, &signal, out);
            return true;
        }
        (Source::Structure, _) | (_, None) => return structure(outline, &seasons, out),
    }
    if outline.source == Source::Arima && outline.line.kind != Kind::Yearly {
        add_season(outline, &seasons, out);
    }
    relate(outline, out)
}

/// Exponentiates a share of processes, so that they grow and vary in proportion; true where it does.
fn relate(outline: &Outline, out: &mut [f64]) -> bool {
    let mut draws = outline.relation();
    let width = spread(out, outline.span as usize);
    let size = draws.log_between(0.02, 0.7);
    if outline.source == Source::Map || width < 1e-9 || !draws.chance(0.5) {
        return false;
    }
    out.iter_mut().for_each(|x| *x *= size / width);
    fold(out, 3.0);
    out.iter_mut().for_each(|x| *x = libm::exp(*x));
    true
}

/// The seasons of a series; none where the part is out.
fn calendar(outline: &Outline) -> Vec<Season> {
    if outline.draws(Part::Seasons).is_none() {
        return Vec::new();
    }
    let mut draws = outline.calendar();
    let seasonal = draws.chance(outline.line.seasonal);
    let all = seasons::seasons(&mut draws, outline.line.kind);
    if seasonal { all } else { Vec::new() }
}

/// The superposed seasons, of about unit spread.
fn write_season(outline: &Outline, seasons: &[Season], out: &mut [f64]) {
    if let Some(mut draws) = outline.draws(Part::Seasons) {
        seasons::write(&mut draws, outline.line.kind, seasons, out);
    }
}

/// A part of ARIMA processes has a steady season beside its own.
fn add_season(outline: &Outline, seasons: &[Season], out: &mut [f64]) {
    let mut together = outline.together();
    let (share, weight) = (together.uniform(), together.log_between(0.2, 8.0));
    if share < 0.7 && !seasons.is_empty() {
        let mut season = vec![0.0; out.len()];
        write_season(outline, seasons, &mut season);
        let width = spread(out, 2 * seasons[0].period as usize);
        out.iter_mut().zip(&season).for_each(|(x, s)| *x += weight * width * s);
    }
}

/// Trend, seasons and noise, each of unit spread, in this order.
fn components(outline: &Outline, seasons: &[Season], rows: usize) -> [Vec<f64>; 3] {
    let mut all = [vec![0.0; rows], vec![0.0; rows], vec![0.0; rows]];
    let [trend, season, rest] = &mut all;
    if let Some(mut draws) = outline.draws(Part::Trends) {
        trends::trend(&mut draws, outline.span, trend);
    }
    write_season(outline, seasons, season);
    if let Some(mut draws) = outline.draws(Part::Noise) {
        noise::noise(&mut draws, rest);
    }
    all
}

/// Their sum, for the logarithm of a rate.
fn additive(outline: &Outline, seasons: &[Season], out: &mut [f64]) {
    let [trend, season, _] = components(outline, seasons, out.len());
    out.iter_mut().zip(&trend).zip(&season).for_each(|((x, t), s)| *x = t + s);
    fold(out, 4.0);
}

/// Composes trend, seasons and noise: added; multiplied; or exponentiated.
fn structure(outline: &Outline, seasons: &[Season], out: &mut [f64]) -> bool {
    let mut draws = outline.together();
    let [mut trend, season, mut rest] = components(outline, seasons, out.len());
    let relative = draws.chance(outline.line.relative);
    let weights = Weights::draw(&mut draws, outline.line.kind);
    if draws.chance(0.12) && !seasons.is_empty() {
        // Noise that is larger in the high season.
        rest.iter_mut().zip(&season).for_each(|(e, s)| *e *= libm::exp(0.6 * s.clamp(-3.0, 3.0)));
        unit(&mut rest);
    }
    let Weights { season: a, noise: c } = weights;
    if !relative {
        let limit = draws.log_between(4.0, 200.0);
        fold(&mut trend, limit);
        for (t, x) in out.iter_mut().enumerate() {
            *x = trend[t] + a * season[t] + c * rest[t];
        }
        return false;
    }
    // How much the logarithm changes within a span.
    let size = draws.log_between(0.02, 0.5);
    let limit = draws.between(1.5, 4.0);
    trend.iter_mut().for_each(|x| *x *= size);
    fold(&mut trend, limit);
    let swing = if draws.chance(0.6) { draws.log_between(0.02, 0.9) } else { (a * size).min(1.2) };
    // Years are noisy in proportion to their trend.
    let calm = if outline.line.kind == Kind::Yearly { 0.95 } else { 0.5 };
    let rough = draws.log_between(0.002, 0.4).min(if draws.chance(calm) { c * size } else { 1.0 });
    let product = draws.chance(0.5);
    for (t, x) in out.iter_mut().enumerate() {
        let (s, e) = (swing * season[t], (rough * rest[t]).clamp(-3.0, 3.0));
        *x = libm::exp(trend[t])
            * if product { (1.0 + s).max(0.0) * (1.0 + e) } else { libm::exp((s + e).clamp(-4.0, 4.0)) };
    }
    true
}

/// The part that a source needs.
fn source_part(source: Source) -> Part {
    match source {
        Source::Structure => Part::Trends,
        Source::Arima => Part::Arima,
        Source::Process => Part::Processes,
        Source::Counts => Part::Counts,
        Source::Map => Part::Maps,
    }
}

/// Sizes beside a trend of unit spread.
#[derive(Debug, Clone, Copy)]
struct Weights {
    season: f64,
    noise: f64,
}

impl Weights {
    /// Steady sharp seasons with little noise are common in quarterly and monthly data; walks with little noise in yearly.
    fn draw(draws: &mut Draws, kind: Kind) -> Self {
        let season = match kind {
            Kind::Daily | Kind::Hourly | Kind::Minutely => draws.log_between(0.2, 15.0),
            Kind::Yearly | Kind::Quarterly | Kind::Monthly | Kind::Weekly | Kind::Other => {
                draws.log_between(0.06, 8.0)
            }
        };
        let noise = match kind {
            Kind::Yearly => draws.log_between(0.003, 0.25),
            Kind::Quarterly | Kind::Monthly => {
                draws.log_between(0.02, 1.5) * if draws.chance(0.5) { season.min(1.0) } else { 1.0 }
            }
            Kind::Weekly | Kind::Daily | Kind::Hourly | Kind::Minutely | Kind::Other => {
                draws.log_between(0.03, 2.0) * if draws.chance(0.4) { season } else { 1.0 }
            }
        };
        Self { season, noise }
    }
}
