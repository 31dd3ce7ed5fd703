//! Generated data, the same on every platform for a seed.
//!
//! The generator is integer arithmetic and the floating-point part uses `+ - * / sqrt` alone, which
//! IEEE 754 rounds alike everywhere; sines and logarithms of the system's library are not used.

mod assets;
mod generator;

pub use assets::{assets, bayes_accuracy};

use crate::error::series::SeriesError;
use chrono::TimeDelta;

use crate::dates::Dates;
use crate::dates::form::DateForm;
use crate::error::DataError;
use crate::series::Series;
use crate::synthetic::generator::{Generator, MAX_VALUES};
use crate::windows::scaler::mean_std;

/// A value that returns to 0, with unit variance: `x ← φ·x + √(1 − φ²)·noise`.
struct Reverting {
    phi: f64,
    value: f64,
}

impl Reverting {
    fn new(phi: f64, generator: &mut Generator) -> Self {
        Self { phi, value: generator.normal() }
    }

    fn step(&mut self, generator: &mut Generator) -> f64 {
        let value = self.value;
        self.value = self.phi * value + (1.0 - self.phi * self.phi).sqrt() * generator.normal();
        value
    }
}

/// Cosine and sine of `i/period` turns for every `i`, by rotation from those of one step.
fn circle(step: (f64, f64), period: usize) -> Vec<(f64, f64)> {
    let rotate = |&(c, s): &(f64, f64)| Some((c * step.0 - s * step.1, s * step.0 + c * step.1));
    std::iter::successors(Some((1.0, 0.0)), rotate).take(period).collect()
}

const DAY: usize = 24;
const WEEK: usize = 168;
/// cos and sin of 2π/24 and of 2π/168.
const DAY_STEP: (f64, f64) = (0.965_925_826_289_068_3, 0.258_819_045_102_520_74);
const WEEK_STEP: (f64, f64) = (0.999_300_704_788_398_5, 0.037_391_194_276_325_625);

/// What the columns of [`demo`] share: a day, a week and a slow level, each under its own noise.
struct Factors {
    day: Vec<(f64, f64)>,
    week: Vec<(f64, f64)>,
    day_amplitude: Reverting,
    half_day_amplitude: Reverting,
    level: Reverting,
}

impl Factors {
    const COUNT: usize = 4;

    fn new(generator: &mut Generator) -> Self {
        Self {
            day: circle(DAY_STEP, DAY),
            week: circle(WEEK_STEP, WEEK),
            day_amplitude: Reverting::new(0.99, generator),
            half_day_amplitude: Reverting::new(0.98, generator),
            level: Reverting::new(0.97, generator),
        }
    }

    fn at(&mut self, hour: usize, generator: &mut Generator) -> [f64; Self::COUNT] {
        let (cos, sin) = self.day[hour % DAY];
        let half_day = 2.0 * sin * cos;
        let day_amplitude = 1.0 + 0.5 * self.day_amplitude.step(generator);
        let half_day_amplitude = 0.5 + 0.5 * self.half_day_amplitude.step(generator);
        let (week_cos, week_sin) = self.week[hour % WEEK];
        [
            day_amplitude * cos + half_day_amplitude * half_day,
            day_amplitude * sin,
            0.6 * week_cos + 0.3 * week_sin,
            0.5 * self.level.step(generator),
        ]
    }
}

/// A generated hourly series with dates, from 2020-01-01.
///
/// Every column mixes the same four factors with its own weights: two phases of a day whose
/// amplitudes drift, a week, and a level that wanders back to its mean; a linear trend and noise that
/// fades over hours are its own. The noise is what sets a model apart: seasonal naive and last value
/// copy it into the forecast, a model that averages it out over the context is well below both.
///
/// ```
/// use landfall_data::synthetic;
/// let series = synthetic::demo(100, 3, 1)?;
/// assert_eq!((series.rows(), series.channels()), (100, 3));
/// # Ok::<(), landfall_data::DataError>(())
/// ```
///
/// # Errors
/// [`SeriesError::BadSize`] for no rows or columns, or more than memory or the calendar hold.
pub fn demo(rows: usize, channels: usize, seed: u64) -> Result<Series, DataError> {
    let bad_size =
        || DataError::Series(SeriesError::BadSize { shape: format!("{rows} rows of {channels} columns") });
    if rows == 0 || channels == 0 || rows.checked_mul(channels).is_none_or(|n| n > MAX_VALUES) {
        return Err(bad_size());
    }
    let generator = &mut Generator::new(seed);
    let mut factors = Factors::new(generator);
    let mut columns: Vec<_> = (0..channels).map(|_| DemoColumn::new(generator)).collect();
    let mut values = vec![Vec::with_capacity(rows); channels];
    for hour in 0..rows {
        let shared = factors.at(hour, generator);
        let passed = hour as f64 / rows as f64;
        for (column, values) in columns.iter_mut().zip(&mut values) {
            values.push(column.at(&shared, passed, generator));
        }
    }
    let names = (1..=channels).map(|i| format!("series_{i}")).collect();
    let dates = hourly(rows).ok_or_else(bad_size)?;
    Series::new(format!("demo series (seed {seed})"), names, values, Some(dates))
}

struct DemoColumn {
    weights: [f64; Factors::COUNT],
    scale: f64,
    offset: f64,
    trend: f64,
    noise: Reverting,
}

impl DemoColumn {
    fn new(generator: &mut Generator) -> Self {
        Self {
            weights: std::array::from_fn(|_| generator.normal()),
            scale: 1.0 + 9.0 * generator.uniform(),
            offset: 50.0 * generator.uniform(),
            trend: generator.uniform() - 0.5,
            noise: Reverting::new(0.7, generator),
        }
    }

    fn at(&mut self, shared: &[f64; Factors::COUNT], passed: f64, generator: &mut Generator) -> f64 {
        let mix: f64 = self.weights.iter().zip(shared).map(|(w, x)| w * x).sum();
        self.offset + self.scale * (mix + self.trend * passed + 0.8 * self.noise.step(generator))
    }
}

fn hourly(rows: usize) -> Option<Dates> {
    let form = DateForm::new("%Y-%m-%d %H:%M:%S")?;
    let first = form.read("2020-01-01 00:00:00")?.local;
    let hour = TimeDelta::hours(1);
    let dates: Vec<_> =
        std::iter::successors(Some(first), |date| date.checked_add_signed(hour)).take(rows).collect();
    (dates.len() == rows).then_some(Dates::from_ascending("date".to_owned(), form, dates, 0))
}

/// Windows of random walks with the mean of each window as its label.
#[derive(Debug, Clone, PartialEq)]
pub struct WalkData {
    /// Number of windows.
    pub samples: usize,
    /// Columns of a window.
    pub channels: usize,
    /// Steps of a window.
    pub length: usize,
    /// `[samples, channels, length]`, z-scored per channel and position over all samples.
    pub inputs: Vec<f32>,
    /// `[samples]`: the mean of a window's values before they were z-scored.
    pub labels: Vec<f32>,
    /// `[channels, length]`: the means that were subtracted.
    pub mean: Vec<f64>,
    /// `[channels, length]`: the population standard deviations divided by, 1 where all samples agree.
    pub std: Vec<f64>,
}

/// Random walks: per sample and channel the first value is U(0, 1), each next one a step N(0, 0.1²) on.
///
/// # Errors
/// [`SeriesError::BadSize`] when a size is 0 or their product too large.
pub fn walk(samples: usize, channels: usize, length: usize, seed: u64) -> Result<WalkData, DataError> {
    let window = channels.checked_mul(length).filter(|&window| window > 0);
    let total =
        window.and_then(|window| window.checked_mul(samples)).filter(|n| (1..=MAX_VALUES).contains(n));
    let (Some(window), Some(total)) = (window, total) else {
        let shape = format!("{samples} windows of {channels} channels and {length} steps");
        return Err(DataError::Series(SeriesError::BadSize { shape }));
    };
    let mut generator = Generator::new(seed);
    let mut inputs = Vec::with_capacity(total);
    let mut labels = Vec::with_capacity(samples);
    let mut noise = vec![0.0; length - 1];
    for _ in 0..samples {
        let mut sum = 0.0;
        for _ in 0..channels {
            let mut value = generator.uniform();
            generator.normals(&mut noise);
            inputs.push(value as f32);
            sum += value;
            for normal in &noise {
                value += 0.1 * normal;
                inputs.push(value as f32);
                sum += value;
            }
        }
        labels.push((sum / window as f64) as f32);
    }
    let (mean, std) = mean_std(&inputs, window);
    for row in inputs.chunks_exact_mut(window) {
        for ((value, mean), std) in row.iter_mut().zip(&mean).zip(&std) {
            *value = ((f64::from(*value) - mean) / std) as f32;
        }
    }
    Ok(WalkData { samples, channels, length, inputs, labels, mean, std })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dates::frequency::Frequency;
    use crate::score::baseline;
    use crate::score::baseline::Baseline;
    use crate::segment::Segment;
    use crate::windows::scaler::Scaler;
    use crate::windows::split::{Segments, Split};

    #[test]
    fn sines_are_exact_to_the_last_digits() {
        for (step, period) in [(DAY_STEP, DAY), (WEEK_STEP, WEEK)] {
            for (i, (cos, sin)) in circle(step, period).into_iter().enumerate() {
                let angle = std::f64::consts::TAU * i as f64 / period as f64;
                assert!(
                    (cos - angle.cos()).abs() < 1e-13 && (sin - angle.sin()).abs() < 1e-13,
                    "{i}/{period}"
                );
            }
        }
    }

    /// Mean and standard deviation.
    fn statistics(values: &[f64]) -> (f64, f64) {
        let (mean, std) = mean_std(values, 1);
        (mean[0], std[0])
    }

    #[test]
    fn normal_values_have_the_moments_of_a_normal() {
        let mut generator = Generator::new(7);
        let values: Vec<f64> = (0..200_000).map(|_| generator.normal()).collect();
        let (mean, std) = statistics(&values);
        let fourth = values.iter().map(|v| v.powi(4)).sum::<f64>() / values.len() as f64;
        // Five standard errors each.
        assert!(mean.abs() < 0.012 && (std - 1.0).abs() < 0.008 && (fourth - 3.0).abs() < 0.11);
    }

    #[test]
    fn a_demo_depends_on_its_seed_alone() {
        let series = demo(500, 3, 1).expect("small");
        assert_eq!(series, demo(500, 3, 1).expect("small"));
        assert_ne!(series, demo(500, 3, 2).expect("small"));
        assert_eq!((series.rows(), series.channels()), (500, 3));
        assert_eq!(series.columns(), ["series_1", "series_2", "series_3"]);
        let dates = series.dates().expect("dated");
        assert_eq!(dates.frequency(), Frequency::Regular { step: TimeDelta::hours(1) });
        assert_eq!(dates.format(dates.values()[499]), "2020-01-21 19:00:00");
        let text = demo(0, 3, 1).expect_err("no rows").to_string();
        assert_eq!(
            text,
            "cannot generate 0 rows of 3 columns; every size must be at least 1 and their product fit in memory"
        );
        assert!(demo(1, 0, 1).is_err() && demo(usize::MAX, 2, 1).is_err() && demo(1 << 40, 1, 1).is_err());
    }

    /// A lower bound of what a model can learn: the same hour of the last seven days, averaged, so the
    /// day is kept and its noise divided.
    fn averaged_days(series: &Series, scaler: &Scaler, segments: &Segments) -> f64 {
        let scaled = scaler.scale_f64(series).expect("scaled");
        let windows = segments.windows(Segment::Test);
        let (mut sum, mut count) = (0.0, 0.0);
        for start in windows.starts() {
            for column in scaled.chunks_exact(series.rows()) {
                let first = windows.target(start).start;
                for (h, row) in windows.target(start).enumerate() {
                    let past = (1..=7).map(|day| column[first - day * DAY + h % DAY]);
                    let error = past.sum::<f64>() / 7.0 - column[row];
                    sum += error * error;
                    count += 1.0;
                }
            }
        }
        sum / count
    }

    #[test]
    fn a_demo_rewards_more_than_repetition() {
        for seed in 0..5 {
            let series = demo(3000, 4, seed).expect("small");
            let split = Split::ratio(0.7, 0.1, 0.2).expect("ratios");
            let segments = Segments::new(split, series.rows(), 168, 24).expect("long enough");
            let scaler = Scaler::fit(&series, segments.rows(Segment::Train)).expect("fit");
            let windows = segments.windows(Segment::Test);
            let parts = [crate::windows::windowed::Part { series: &series, scaler: &scaler, windows }];
            let mse = |kind| baseline::score(kind, &parts, 4, 32).expect("scores").mse;
            let (last, naive) = (mse(Baseline::LastValue), mse(Baseline::SeasonalNaive { period: DAY }));
            let learned = averaged_days(&series, &scaler, &segments);
            eprintln!("seed {seed}: last {last:.3}, seasonal naive {naive:.3}, averaged days {learned:.3}");
            assert!(learned < 0.8 * naive.min(last), "seed {seed}: {learned} against {naive} and {last}");
        }
    }

    #[test]
    fn walks_are_scored_per_channel_and_position() {
        let data = walk(4000, 2, 24, 3).expect("small");
        assert_eq!((data.inputs.len(), data.labels.len()), (4000 * 48, 4000));
        for position in [0, 23, 24, 47] {
            let values: Vec<f64> =
                data.inputs.iter().skip(position).step_by(48).map(|&v| f64::from(v)).collect();
            let (mean, std) = statistics(&values);
            assert!(mean.abs() < 1e-6 && (std - 1.0).abs() < 1e-6, "{position}: {mean} {std}");
            // U(0, 1) has variance 1/12; every step adds 0.01.
            let expected = (1.0 / 12.0 + 0.01 * (position % 24) as f64).sqrt();
            assert!((data.std[position] - expected).abs() < 0.03, "{position}: {}", data.std[position]);
            assert!((data.mean[position] - 0.5).abs() < 0.05);
        }
        // The label is the mean of the raw values.
        let raw = data.inputs[..48].iter().zip(data.mean.iter().zip(&data.std));
        let mean = raw.map(|(&v, (m, s))| f64::from(v) * s + m).sum::<f64>() / 48.0;
        assert!((mean - f64::from(data.labels[0])).abs() < 1e-6);
        assert_eq!(data, walk(4000, 2, 24, 3).expect("small"));
    }

    #[test]
    fn walks_are_the_same_everywhere() {
        // From the same definitions in Python, with its own logarithm.
        let data = walk(3, 2, 4, 2021).expect("small");
        assert_eq!(data.labels, [0.360_519_53, 0.506_393_97, 0.201_183_23]);
    }

    #[test]
    fn walks_of_no_size_are_refused() {
        assert_eq!(
            walk(10, 0, 24, 1).expect_err("no channels").to_string(),
            "cannot generate 10 windows of 0 channels and 24 steps; every size must be at least 1 and their \
             product fit in memory"
        );
        assert!(walk(usize::MAX, 2, 24, 1).is_err());
        // One sample agrees with itself everywhere.
        assert_eq!(walk(1, 1, 2, 1).expect("one").std, [1.0, 1.0]);
    }
}
