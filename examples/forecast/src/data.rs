//! The series.

use landfall::Error;
use landfall::rng::Rng;
use landfall_train::train::Arrays;

/// Hours that a network sees.
pub(crate) const PAST: usize = 48;
/// Hours that it forecasts.
pub(crate) const FUTURE: usize = 12;
/// Number of windows.
pub(crate) const WINDOWS: usize = 2_000;

/// Every window of an hourly series with daily and weekly seasons, an autoregressive part and noise.
pub(crate) fn windows() -> Result<Arrays, Error> {
    let (mut rng, mut drift) = (Rng::new(7, 0), 0.0);
    let value = |hour: usize| {
        let angle = |period: f64| std::f64::consts::TAU * hour as f64 / period;
        drift = 0.9 * drift + 0.2 * rng.normal();
        (angle(24.0).sin() + 0.5 * angle(168.0).sin() + drift + 0.1 * rng.normal()) as f32
    };
    let series: Vec<f32> = (0..WINDOWS + PAST + FUTURE).map(value).collect();
    let cut = |from: usize, len| (from..from + WINDOWS).flat_map(|i| &series[i..i + len]).copied().collect();
    Arrays::new().with("past", [WINDOWS, PAST], cut(0, PAST))?.with(
        "future",
        [WINDOWS, FUTURE],
        cut(PAST, FUTURE),
    )
}
