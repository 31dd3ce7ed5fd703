//! One series from its number, and many at once.

use crate::generated::kinds::Kind;
use crate::generated::outline::{Outline, Source};
use crate::generated::parts::{Part, Parts};
use crate::generated::{events, structure};

/// Simulates time series.
///
/// ```
/// use landfall_data::generated::{Part, Parts, Simulator};
///
/// let simulator = Simulator::new(7);
/// let mut rows = vec![0.0_f32; 3 * 256];
/// simulator.fill(0, 256, 2, &mut rows);
/// let mut second = vec![0.0_f32; 256];
/// simulator.series(1, &mut second);
/// assert!(rows[256..512].iter().zip(&second).all(|(a, b)| a.to_bits() == b.to_bits()));
///
/// let complete = simulator.with_parts(Parts::ALL.without(Part::Missing));
/// complete.series(1, &mut second);
/// assert!(second.iter().all(|x| x.is_finite()));
/// ```
#[derive(Debug, Clone)]
pub struct Simulator {
    seed: u64,
    parts: Parts,
    kind: Option<Kind>,
}

impl Simulator {
    /// A simulator of all parts and kinds.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, parts: Parts::ALL, kind: None }
    }

    /// The same simulator of these parts alone. Each part draws from a stream of its own, so the others stay as they are.
    #[must_use]
    pub fn with_parts(self, parts: Parts) -> Self {
        Self { parts, ..self }
    }

    /// The same simulator, of series of this kind of calendar alone.
    #[must_use]
    pub fn with_kind(self, kind: Kind) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// Its parts.
    #[must_use]
    pub fn parts(&self) -> Parts {
        self.parts
    }

    /// The kind of calendar and the source of a series.
    #[must_use]
    pub fn describe(&self, number: u64) -> (Kind, Source) {
        let Outline { line, source, .. } = self.outline(number);
        (line.kind, source)
    }

    /// Writes the series of this number. Missing values are NaN, all others are finite; of the last 8 rows one at least is known.
    pub fn series(&self, number: u64, out: &mut [f32]) {
        let outline = self.outline(number);
        let mut values = vec![0.0_f64; out.len()];
        let own_zero = structure::source(&outline, &mut values);
        // Beyond this no series is of use, and f32 has room for its scale.
        values.iter_mut().for_each(|x| *x = if x.is_finite() { x.clamp(-1e12, 1e12) } else { 0.0 });
        if let Some(mut draws) = outline.draws(Part::Shifts).filter(|_| !own_zero) {
            events::shifts(&mut draws, outline.span, &mut values);
        }
        if let Some(mut draws) = outline.draws(Part::Outliers).filter(|_| outline.source != Source::Counts) {
            events::outliers(&mut draws, outline.span, &mut values);
        }
        if let Some(mut draws) = outline.draws(Part::Bounds) {
            events::bounds(&mut draws, &mut values);
        }
        if let Some(mut draws) = outline.draws(Part::Units) {
            events::units(&mut draws, own_zero, &mut values);
        }
        out.iter_mut().zip(&values).for_each(|(x, y)| *x = *y as f32);
        if let Some(mut draws) = outline.draws(Part::Missing) {
            events::missing(&mut draws, out);
        }
    }

    /// Writes series `first`, `first + 1`, … of `length` rows, one behind the other, on this many threads, whose number
    /// changes no value. A remainder of `out` that holds no whole series is left as it is.
    pub fn fill(&self, first: u64, length: usize, threads: usize, out: &mut [f32]) {
        if length == 0 {
            return;
        }
        let count = out.len() / length;
        let share = count.div_ceil(threads.clamp(1, count.max(1))).max(1);
        std::thread::scope(|scope| {
            for (k, rows) in out.chunks_mut(share * length).enumerate() {
                let first = first.wrapping_add((k * share) as u64);
                let mut work = move || {
                    for (number, row) in rows.chunks_exact_mut(length).enumerate() {
                        self.series(first.wrapping_add(number as u64), row);
                    }
                };
                if share >= count {
                    work();
                } else {
                    scope.spawn(work);
                }
            }
        });
    }

    fn outline(&self, number: u64) -> Outline {
        Outline::draw(self.seed, self.parts, self.kind, number)
    }
}
