//! Forecasts of series that the network was not trained on.

use super::ZeroShotError;
use super::unit::Unit;
use super::weights::Weights;
use crate::models::zero_shot::{LEVELS, RATIO, Seen, ZeroShot, scaled};
use crate::nn::{Context, Mode};
use landfall::{DType, Engine, Graph, Program, State};
use std::collections::HashMap;

/// Rows that are forecast at most.
pub const MOST_ROWS: usize = 512;
/// Series that are computed at once at most.
const AT_ONCE: usize = 256;
/// Rows of the shortest context that has a program of its own; each next one has twice as many.
const SHORTEST: usize = 32;

/// The power λ of [`Power`], chosen on M1 among 0, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5 and 1 by the mean OWA of its sets.
pub(crate) const POWER: f64 = 0.15;

/// The quantiles of a row at [`LEVELS`], ascending.
pub type Quantiles = [f64; LEVELS.len()];

/// What a program computes: rows of the context, patches to forecast, series.
type Sizes = (usize, usize, usize);

/// Forecasts series with pretrained weights, on the processor or a GPU, in f32.
///
/// A context's values are centred and scaled in f64 before, so that the results do not depend on units; positive values within a
/// ratio of [`RATIO`] are raised to a power before ([Box and Cox 1964](https://doi.org/10.1111/j.2517-6161.1964.tb00553.x)). Of a constant all quantiles
/// are the constant; of series without negative values none is negative. Beyond the rows of a pass the medians become context of
/// the next pass, and to the variance of its rows that of the rows before it is added.
#[derive(Debug)]
pub struct Forecaster {
    engine: Engine,
    network: ZeroShot,
    state: State,
    programs: HashMap<Sizes, Program>,
}

/// A series as it is continued.
struct Continued {
    /// Its last rows in f64, and after them the medians of the rows forecast so far; in powers where there is one.
    values: Vec<f64>,
    power: Option<Power>,
    /// What has been forecast.
    rows: Vec<Quantiles>,
    /// Distances of the quantiles from the median at the end of the passes so far.
    spread: Quantiles,
    /// The value of a constant, which no network needs to see.
    constant: Option<f64>,
    /// Whether no value is below 0.
    positive: bool,
}

impl Forecaster {
    /// A forecaster of these weights.
    ///
    /// # Errors
    /// Not enough memory; a device fault.
    pub fn new(engine: &Engine, weights: &Weights) -> Result<Self, ZeroShotError> {
        let network = weights.network.clone();
        let spec = network.parameters().state_spec(DType::F32)?;
        let mut state = State::new(engine, &spec)?;
        for (parameter, value) in network.parameters().list().iter().zip(&weights.values) {
            state.write_host(&parameter.name, value)?;
        }
        Ok(Self { engine: engine.clone(), network, state, programs: HashMap::new() })
    }

    /// Rows of a series that are read at most: its last ones.
    #[must_use]
    pub fn context(&self) -> usize {
        self.network.config().context
    }

    /// Forecasts each series, which is given by its rows, oldest first, NaN where a value is missing: `horizon` rows of quantiles at
    /// [`LEVELS`], in the series' units. Of a longer series the last rows are used, as many as the network's context.
    ///
    /// # Errors
    /// [`ZeroShotError::Horizon`] for no rows or more than [`MOST_ROWS`]; [`ZeroShotError::Empty`] for a series without a value,
    /// [`ZeroShotError::Infinite`] for one with an infinite value; a device fault.
    pub fn forecast<S: AsRef<[f64]>>(
        &mut self,
        series: &[S],
        horizon: usize,
    ) -> Result<Vec<Vec<Quantiles>>, ZeroShotError> {
        if horizon == 0 || horizon > MOST_ROWS {
            return Err(ZeroShotError::Horizon { horizon, most: MOST_ROWS });
        }
        let context = self.network.config().context;
        let begun = series.iter().enumerate().map(|(i, s)| Continued::new(i, s.as_ref(), context));
        let mut all: Vec<Continued> = begun.collect::<Result<_, _>>()?;
        let mut done = 0;
        while done < horizon {
            done += self.pass(&mut all, horizon - done)?;
        }
        Ok(all.into_iter().map(|c| c.finished(horizon)).collect())
    }

    /// Forecasts the next rows of all series; how many.
    fn pass(&mut self, all: &mut [Continued], rows: usize) -> Result<usize, ZeroShotError> {
        let c = *self.network.config();
        let queries = c.queries(rows);
        let mut by_length: HashMap<usize, Vec<&mut Continued>> = HashMap::new();
        for one in all.iter_mut().filter(|one| one.constant.is_none()) {
            let frame = frame(one.seen(c.context).len(), c.patch, c.context);
            by_length.entry(frame).or_default().push(one);
        }
        let mut frames: Vec<_> = by_length.into_iter().collect();
        frames.sort_by_key(|(rows, _)| *rows);
        for (rows, mut members) in frames {
            for part in members.chunks_mut(AT_ONCE) {
                let sizes = (rows, queries, part.len().next_power_of_two());
                self.part(sizes, part)?;
            }
        }
        Ok(queries * c.patch)
    }

    /// Forecasts some series of like length at once.
    fn part(&mut self, sizes: Sizes, part: &mut [&mut Continued]) -> Result<(), ZeroShotError> {
        let (rows, queries, batch) = sizes;
        let c = *self.network.config();
        let (mut x, mut known) = (vec![0.0f32; batch * rows], vec![0.0f32; batch * rows]);
        let mut units = Vec::with_capacity(part.len());
        for (i, one) in part.iter().enumerate() {
            let seen = one.seen(c.context);
            let unit = Unit::of(seen);
            let at = (i + 1) * rows - seen.len();
            for (k, value) in seen.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
                (x[at + k], known[at + k]) = (unit.scaled(*value) as f32, 1.0);
            }
            units.push(unit);
        }
        if !self.programs.contains_key(&sizes) {
            let program = self.compiled(sizes)?;
            self.programs.insert(sizes, program);
        }
        let Some(program) = self.programs.get_mut(&sizes) else { return Ok(()) };
        program.write("x", &x)?;
        program.write("known", &known)?;
        program.run(&mut self.state)?;
        let forecast = program.read::<f32>("forecast")?;
        let each = queries * LEVELS.len() * c.patch;
        for ((one, unit), own) in part.iter_mut().zip(&units).zip(forecast.chunks_exact(each)) {
            let value = |row: usize, level: usize| {
                let (patch, row) = (row / c.patch, row % c.patch);
                unit.original(f64::from(own[(patch * LEVELS.len() + level) * c.patch + row]))
            };
            one.extend((0..queries * c.patch).map(|row| std::array::from_fn(|level| value(row, level))));
        }
        Ok(())
    }

    /// The program of a length and a number of series.
    fn compiled(&self, (rows, queries, batch): Sizes) -> Result<Program, ZeroShotError> {
        let g = Graph::new(self.state.spec());
        let cx = Context::new(&g, self.network.parameters(), Mode::Evaluate);
        let (x, known) =
            (g.input("x", DType::F32, [batch, rows]), g.input("known", DType::F32, [batch, rows]));
        let scale = scaled(&g, x, known)?;
        let seen = Seen { values: scale.context, known, queries };
        let quantiles = self.network.forward(&cx, &[seen])?;
        let each = g.shape(quantiles).elements() / batch;
        g.output("forecast", scale.original(&g, g.reshape(quantiles, [batch, each])?)?);
        Ok(Program::compile(&self.engine, &self.state, "zero-shot", &g)?)
    }
}

/// Rows of the program that takes a context of so many.
fn frame(rows: usize, patch: usize, context: usize) -> usize {
    let shortest = SHORTEST.next_multiple_of(patch);
    let mut frame = shortest;
    while frame < rows {
        frame *= 2;
    }
    frame.min(context)
}

/// Positive values in powers, `((v/low)^λ − 1)/λ` with [`POWER`] λ: what grows or varies in proportion does so about evenly there.
#[derive(Debug, Clone, Copy)]
struct Power {
    /// The smallest value.
    low: f64,
}

impl Power {
    /// That of positive values, the largest less than [`RATIO`] times the smallest; of others there is none.
    fn of(values: &[f64]) -> Option<Self> {
        let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        (low > 0.0 && low <= high && high / RATIO < low).then_some(Self { low })
    }

    fn raised(self, value: f64) -> f64 {
        (POWER * ((value - self.low) / self.low).ln_1p()).exp_m1() / POWER
    }

    fn original(self, raised: f64) -> f64 {
        let logarithm = (POWER * raised).max(-1.0).ln_1p() / POWER;
        (self.low + self.low * logarithm.exp_m1()).min(f64::MAX)
    }
}

impl Continued {
    fn new(series: usize, values: &[f64], context: usize) -> Result<Self, ZeroShotError> {
        if let Some((row, &value)) = values.iter().enumerate().find(|(_, v)| v.is_infinite()) {
            return Err(ZeroShotError::Infinite { series, row, value });
        }
        let last = &values[values.len().saturating_sub(context)..];
        // Where the last rows have no value, those before them are all that is known.
        let last = if last.iter().all(|v| v.is_nan()) { values } else { last };
        let first = last.iter().position(|v| !v.is_nan()).ok_or(ZeroShotError::Empty { series })?;
        let constant = last.iter().all(|v| v.is_nan() || *v == last[first]).then_some(last[first]);
        let positive = !last.iter().any(|v| *v < 0.0);
        let power = Power::of(last);
        let value = |&v: &f64| power.map_or(v, |power| power.raised(v));
        let (values, rows, spread) =
            (last[first..].iter().map(value).collect(), Vec::new(), Quantiles::default());
        Ok(Self { values, power, rows, spread, constant, positive })
    }

    /// The rows that a network sees: without missing ones in front.
    fn seen(&self, context: usize) -> &[f64] {
        let last = &self.values[self.values.len().saturating_sub(context)..];
        let first = last.iter().position(|v| !v.is_nan()).unwrap_or(0);
        &last[first..]
    }

    /// Takes the rows of a pass: ordered, and wider by what the passes before left open.
    fn extend(&mut self, rows: impl Iterator<Item = Quantiles>) {
        let middle = LEVELS.len() / 2;
        let first = self.rows.len();
        for mut row in rows {
            row.sort_by(f64::total_cmp);
            let median = row[middle];
            let apart = |i: usize| (row[i] - median).hypot(self.spread[i]).copysign(i as f64 - middle as f64);
            let wide: Quantiles =
                std::array::from_fn(|i| if i == middle { median } else { median + apart(i) });
            self.rows.push(wide);
            self.values.push(median);
        }
        let own = &self.rows[first..];
        let last = &own[own.len().saturating_sub(LAST)..];
        self.spread = std::array::from_fn(|i| {
            last.iter().map(|row| (row[i] - row[middle]).abs()).sum::<f64>() / last.len().max(1) as f64
        });
    }

    fn finished(mut self, horizon: usize) -> Vec<Quantiles> {
        if let Some(constant) = self.constant {
            return vec![[constant; LEVELS.len()]; horizon];
        }
        self.rows.truncate(horizon);
        // The distance of two of the largest numbers is none.
        self.rows.iter_mut().flatten().for_each(|x| *x = x.clamp(f64::MIN, f64::MAX));
        if let Some(power) = self.power {
            self.rows.iter_mut().flatten().for_each(|x| *x = power.original(*x));
        }
        if self.positive {
            self.rows.iter_mut().flatten().for_each(|x| *x = x.max(0.0));
        }
        self.rows
    }
}

/// Rows at the end of a pass whose spread the next pass adds.
const LAST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::zero_shot::ZeroShotConfig;
    use crate::models::{Model, ZeroShotForecaster, ZeroShotForecasterConfig};

    /// A small network with the values it begins with.
    fn small() -> Forecaster {
        let config = ZeroShotConfig { patch: 4, context: 64, horizon: 16, width: 24, layers: 1, heads: 3 };
        let network = ZeroShot::new(config).expect("sizes that fit");
        let engine = Engine::cpu_with_threads(1).expect("a CPU");
        let spec = network.parameters().state_spec(DType::F32).expect("a layout");
        let mut state = State::new(&engine, &spec).expect("memory");
        network.parameters().initialise(&mut state, 3).expect("values");
        let list = network.parameters().list();
        let values = list.iter().map(|p| state.read_host(&p.name).expect("a value")).collect();
        Forecaster::new(&engine, &Weights { network, values }).expect("a forecaster")
    }

    fn wave(rows: usize, size: f64) -> Vec<f64> {
        (0..rows).map(|i| size * (3.0 + (i as f64 * 0.7).sin() + i as f64 * 0.01)).collect()
    }

    #[test]
    fn a_batch_forecasts_what_each_series_alone_does() {
        let mut forecaster = small();
        let series: Vec<Vec<f64>> = [3, 10, 33, 64, 500].map(|rows| wave(rows, 1.0)).into();
        let together = forecaster.forecast(&series, 10).expect("forecasts");
        for (one, all) in series.iter().zip(&together) {
            let alone = forecaster.forecast(&[one], 10).expect("a forecast").remove(0);
            assert_eq!((alone.len(), all.len()), (10, 10));
            for (a, b) in alone.iter().flatten().zip(all.iter().flatten()) {
                assert!((a - b).abs() < 1e-5 * (1.0 + b.abs()), "{a} {b}");
            }
            assert!(all.iter().all(|row| row.is_sorted()), "quantiles ascend");
        }
        // The last rows alone are seen.
        let last = forecaster.forecast(&[&series[4][436..]], 10).expect("a forecast").remove(0);
        assert_eq!(last, together[4]);
    }

    #[test]
    fn the_model_that_is_trained_further_continues_windows_alike() {
        let engine = Engine::cpu_with_threads(2).expect("a CPU");
        let mut forecaster =
            Forecaster::new(&engine, &Weights::shipped().expect("weights")).expect("a forecaster");
        let sizes =
            ZeroShotForecasterConfig { context: 43, horizon: 300, ..ZeroShotForecasterConfig::default() };
        // Around 0, where no power bends.
        let series: Vec<f64> = wave(43, 1.0).iter().map(|x| x - 3.0).collect();
        let expected = forecaster.forecast(&[&series], 300).expect("a forecast").remove(0);
        let model = ZeroShotForecaster::new(sizes).expect("sizes that fit");
        let g = Graph::new(forecaster.state.spec());
        let cx = Context::new(&g, model.parameters(), Mode::Evaluate);
        let x = g.input("x", DType::F32, [1, 1, 43]);
        g.output("y", model.forward(&cx, x).expect("a pass"));
        let mut program =
            Program::compile(&forecaster.engine, &forecaster.state, "windows", &g).expect("a program");
        program.write("x", &series.iter().map(|x| *x as f32).collect::<Vec<_>>()).expect("x");
        program.run(&mut forecaster.state).expect("a run");
        let medians = program.read::<f32>("y").expect("medians");
        assert_eq!(medians.len(), 300);
        let apart = medians.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b[4]).abs());
        let apart: Vec<f64> = apart.collect();
        // The forecaster puts quantiles that cross in order, as in one of the first rows here, and goes on from there.
        let largest = |rows: std::ops::Range<usize>| apart[rows].iter().fold(0.0, |a: f64, b| a.max(*b));
        assert!(largest(0..16) < 0.02 && largest(16..128) < 5e-6 && largest(128..300) < 1e-3, "{apart:?}");
    }

    #[test]
    fn units_do_not_matter() {
        let mut forecaster = small();
        let plain = forecaster.forecast(&[wave(40, 1.0)], 60).expect("a forecast").remove(0);
        for size in [1e30, 1e-30, 1e300] {
            let other = forecaster.forecast(&[wave(40, size)], 60).expect("a forecast").remove(0);
            for (a, b) in plain.iter().flatten().zip(other.iter().flatten()) {
                assert!((a - b / size).abs() < 1e-5 * (1.0 + a.abs()), "{size}: {a} {b}");
            }
        }
        // Far from 0, where f32 has no digits left for the shape and powers bend nothing.
        let far = |by: f64| {
            let series: Vec<f64> = wave(40, 1.0).iter().map(|x| x + by).collect();
            forecaster.forecast(&[series], 60).expect("a forecast").remove(0)
        };
        let [near, far] = [1e8, 1e9].map(far);
        for (a, b) in near.iter().flatten().zip(far.iter().flatten()) {
            assert!(((a - 1e8) - (b - 1e9)).abs() < 1e-4 * (1.0 + (a - 1e8).abs()), "{a} {b}");
        }
    }

    #[test]
    fn powers_are_undone_and_hold_what_they_are_made_for() {
        let power = Power::of(&[2.0, f64::NAN, 99.0]).expect("positive values within the ratio");
        for value in [0.001, 1.0, 2.0, 50.0, 1e12] {
            assert!((power.original(power.raised(value)) / value - 1.0).abs() < 1e-9, "{value}");
        }
        assert!(power.original(-1e9) == 0.0 && power.original(1e300) == f64::MAX);
        for other in [vec![0.0, 1.0], vec![-1.0, 5.0], vec![1.0, 50.0], vec![f64::NAN]] {
            assert!(Power::of(&other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn passes_widen_and_missing_rows_are_not_values() {
        let mut forecaster = small();
        let long = forecaster.forecast(&[wave(40, 1.0)], 48).expect("a forecast").remove(0);
        let short = forecaster.forecast(&[wave(40, 1.0)], 16).expect("a forecast").remove(0);
        assert_eq!(short[..], long[..16]);
        let width = |row: &Quantiles| row[8] - row[0];
        let mean = |rows: &[Quantiles]| rows.iter().map(width).sum::<f64>() / rows.len() as f64;
        assert!(mean(&long[16..32]) > mean(&long[..16]), "{} {}", mean(&long[16..32]), mean(&long[..16]));
        assert!(mean(&long[32..]) > mean(&long[16..32]));
        let mut gaps = wave(40, 1.0);
        gaps.splice(0..0, [f64::NAN; 7]);
        assert_eq!(forecaster.forecast(&[&gaps], 16).expect("a forecast").remove(0), short);
        gaps[20] = f64::NAN;
        assert_ne!(forecaster.forecast(&[&gaps], 16).expect("a forecast").remove(0), short);
    }

    #[test]
    fn constants_stay_and_what_cannot_be_forecast_is_told() {
        let mut forecaster = small();
        let constant = forecaster.forecast(&[vec![5.5, f64::NAN, 5.5], vec![0.0]], 3).expect("forecasts");
        assert_eq!(constant, [vec![[5.5; 9]; 3], vec![[0.0; 9]; 3]]);
        let falling: Vec<f64> = (0..20).map(|i| 20.0 - f64::from(i)).collect();
        let rows = forecaster.forecast(&[falling], 200).expect("a forecast").remove(0);
        assert!(rows.iter().flatten().all(|x| *x >= 0.0), "no value was below 0");
        let told = |f: &mut Forecaster, series: &[Vec<f64>], horizon| {
            f.forecast(series, horizon).expect_err("no forecast").to_string()
        };
        assert_eq!(told(&mut forecaster, &[vec![1.0]], 513), "the horizon is 513; it must be 1 to 512 rows");
        assert!(
            told(&mut forecaster, &[vec![1.0], vec![]], 1).contains("series 1, counted from 0, has no value")
        );
        assert!(told(&mut forecaster, &[vec![f64::NAN]], 1).contains("has no value"));
        let infinite = told(&mut forecaster, &[vec![1.0, f64::INFINITY]], 1);
        assert!(infinite.contains("has inf in row 1"), "{infinite}");
    }
}
