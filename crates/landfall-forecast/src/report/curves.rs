//! Loss, learning rate and validation error from the metrics of a run.

use crate::files;
use crate::run::RunError;
use serde::Deserialize;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

/// Points of a curve that are kept at most.
const POINTS: usize = 800;

/// A curve of any length in bounded memory: where it has too many points, neighbours are averaged.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    every: usize,
    held: (f64, f64, usize),
    points: Vec<(f64, f64)>,
}

impl Default for Curve {
    fn default() -> Self {
        Self { every: 1, held: (0.0, 0.0, 0), points: Vec::new() }
    }
}

impl Curve {
    pub(super) fn add(&mut self, x: f64, y: f64) {
        self.held = (self.held.0 + x, self.held.1 + y, self.held.2 + 1);
        if self.held.2 == self.every {
            self.points.push(mean(self.held));
            self.held = (0.0, 0.0, 0);
        }
        if self.points.len() == 2 * POINTS {
            let joined = |p: &[(f64, f64)]| (f64::midpoint(p[0].0, p[1].0), f64::midpoint(p[0].1, p[1].1));
            self.points = self.points.chunks_exact(2).map(joined).collect();
            self.every *= 2;
        }
    }

    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        let rest = (self.held.2 > 0).then(|| mean(self.held));
        self.points.iter().copied().chain(rest).collect()
    }
}

fn mean((x, y, n): (f64, f64, usize)) -> (f64, f64) {
    (x / n as f64, y / n as f64)
}

/// A line of the metrics, as far as it is drawn.
#[derive(Deserialize)]
struct Line {
    step: usize,
    loss: Option<f64>,
    lr: Option<f64>,
    split: Option<String>,
    mse: Option<f64>,
    cross_entropy: Option<f64>,
}

/// The curves of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Curves {
    pub(super) loss: Curve,
    pub(super) rate: Curve,
    /// Mean squared error, or the cross-entropy of classes.
    pub(super) validation: Curve,
    /// Step and error of the best validation.
    pub(super) best: Option<(usize, f64)>,
}

impl Curves {
    /// Reads `metrics.jsonl`; a run without it has no curves.
    ///
    /// # Errors
    /// [`RunError::NotARun`] when it cannot be read.
    pub(super) fn read(run: &Path) -> Result<Self, RunError> {
        let name = "metrics.jsonl";
        let failed =
            |e: std::io::Error| RunError::NotARun { path: run.to_owned(), why: format!("{name}: {e}") };
        let file = match files::open(&run.join(name)) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(failed(e)),
        };
        let mut curves = Self::default();
        for line in BufReader::new(file).lines() {
            // The last line may be cut off where the machine went down.
            if let Ok(line) = serde_json::from_str::<Line>(&line.map_err(failed)?) {
                curves.add(&line);
            }
        }
        Ok(curves)
    }

    fn add(&mut self, line: &Line) {
        let x = line.step as f64;
        line.loss.into_iter().for_each(|y| self.loss.add(x, y));
        line.lr.into_iter().for_each(|y| self.rate.add(x, y));
        let error = line.cross_entropy.or(line.mse);
        let Some(error) = error.filter(|_| line.split.as_deref() == Some("validation")) else { return };
        self.validation.add(x, error);
        if self.best.is_none_or(|(_, best)| error <= best) {
            self.best = Some((line.step, error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_are_averaged() {
        let mut curve = Curve::default();
        (0..10_000).for_each(|i| curve.add(f64::from(i), 2.0 * f64::from(i)));
        let points = curve.points();
        assert!((POINTS / 2..2 * POINTS).contains(&points.len()), "{}", points.len());
        assert!(points.iter().all(|(x, y)| *y == 2.0 * x) && points.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn the_best_validation_is_found_and_torn_lines_are_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Curves::read(folder.path()).expect("none").loss.points().is_empty());
        let text = "{\"step\":1,\"loss\":2.0,\"lr\":0.1}\n{\"step\":1,\"split\":\"validation\",\"mse\":0.5}\n\
                    {\"step\":2,\"split\":\"validation\",\"mse\":0.4}\n{\"step\":2,\"split\":\"test\",\"mse\":0.1}\n{\"st";
        std::fs::write(folder.path().join("metrics.jsonl"), text).expect("written");
        let curves = Curves::read(folder.path()).expect("curves");
        assert_eq!((curves.loss.points(), curves.best), (vec![(1.0, 2.0)], Some((2, 0.4))));
        assert_eq!(curves.validation.points(), [(1.0, 0.5), (2.0, 0.4)]);
    }
}
