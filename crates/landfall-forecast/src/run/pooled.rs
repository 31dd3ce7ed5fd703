//! Errors of all series together: what the intervals of many series are made of.
//!
//! The held-out windows of one short series are few, and overlap. So errors are pooled: each is divided by half the width of the 80 %
//! interval that the ensemble itself gives for that window and step, and the order statistics of these ratios over all series, for each
//! step, scale the width of every later forecast (conformal prediction with a normalised score: Papadopoulos, Gammerman and Vovk 2008).

use super::RunError;
use crate::checkpoint::{File, Tensor};
use crate::data::conformal::half_width;
use landfall::{DType, HostTensor};
use std::path::Path;

/// The file of a run's directory.
const POOLED: &str = "pooled.safetensors";
/// Ratios that are kept of each step at most: their order statistics, evenly spaced.
const KEPT: usize = 2000;

/// Ratios of errors, for each step in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Pooled {
    steps: Vec<Vec<f32>>,
}

impl Pooled {
    /// Adds the absolute errors of a column of a window, each with half the width of the ensemble's own 80 % interval. A forecast without any
    /// width says nothing of others.
    pub(super) fn add(&mut self, errors: impl Iterator<Item = f64>, widths: &[f64]) {
        self.steps.resize(self.steps.len().max(widths.len()), Vec::new());
        for ((step, error), width) in self.steps.iter_mut().zip(errors).zip(widths) {
            let ratio = (error / width) as f32;
            step.extend(ratio.is_finite().then_some(ratio));
        }
    }

    /// What was added, in order.
    pub(super) fn sorted(mut self) -> Self {
        for step in &mut self.steps {
            step.sort_by(f32::total_cmp);
            if step.len() > KEPT {
                let last = step.len() - 1;
                *step = (0..KEPT).map(|i| step[i * last / (KEPT - 1)]).collect();
            }
        }
        self
    }

    /// Half the widths of an interval of this level, in percent, around a forecast with these widths of the ensemble's own 80 % interval;
    /// `None` where the ratios of a step are too few.
    pub(super) fn half_widths(&self, level: f64, widths: &[f64]) -> Option<Vec<f64>> {
        let steps = self.steps.iter().zip(widths);
        let half: Vec<f64> =
            steps.map(|(step, width)| Some(half_width(step, level)? * width)).collect::<Option<_>>()?;
        (half.len() == widths.len()).then_some(half)
    }

    /// Whether each step has ratios enough for these levels.
    pub(super) fn are_enough(&self, levels: &[f64]) -> bool {
        let enough = |step: &Vec<f32>| levels.iter().all(|level| half_width(step, *level).is_some());
        !self.steps.is_empty() && self.steps.iter().all(enough)
    }

    /// Writes them into a run's directory.
    pub(super) fn write(&self, run: &Path) -> Result<(), RunError> {
        let mut file = File::default();
        for (number, step) in self.steps.iter().enumerate() {
            let values = step.iter().map(|x| f64::from(*x)).collect();
            let tensor = HostTensor::new(DType::F32, [step.len()], values).map_err(landfall::Error::from)?;
            file.tensors.insert(format!("step.{number}"), Tensor::from(&tensor));
        }
        Ok(file.write(&run.join(POOLED))?)
    }

    /// Whether a run keeps them.
    pub(super) fn is_kept(run: &Path) -> bool {
        run.join(POOLED).exists()
    }

    /// Those of a run, where it has them.
    pub(super) fn read(run: &Path) -> Result<Option<Self>, RunError> {
        if !Self::is_kept(run) {
            return Ok(None);
        }
        let file = File::read(&run.join(POOLED))?;
        let step = |number: usize| file.tensors.get(&format!("step.{number}"));
        let mut steps = Vec::with_capacity(file.tensors.len());
        while let Some(tensor) = step(steps.len()) {
            let host = tensor.host().map_err(landfall::Error::from)?;
            steps.push(host.data.iter().map(|x| *x as f32).collect());
        }
        Ok(Some(Self { steps }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_order_statistics_of_ratios_for_each_step() {
        let mut pooled = Pooled::default();
        // Errors of 1 to 9 of a series whose own half width is 10, and of ten times as much of one of 100: the same ratios.
        for i in 1..10 {
            pooled.add([f64::from(i), 2.0 * f64::from(i)].into_iter(), &[10.0, 10.0]);
            pooled.add([10.0 * f64::from(i), 20.0 * f64::from(i)].into_iter(), &[100.0, 100.0]);
        }
        // A constant, which has no width.
        pooled.add([0.0, 1.0].into_iter(), &[0.0, 0.0]);
        let pooled = pooled.sorted();
        // The 16th of 18 ratios, ⌈19 · 0.8⌉ = 16: 0.8.
        let half = pooled.half_widths(80.0, &[1.0, 1.0]).expect("widths");
        assert!((half[0] - 0.8).abs() < 1e-6 && (half[1] - 1.6).abs() < 1e-6, "{half:?}");
        assert_eq!(pooled.half_widths(80.0, &[0.0, 0.0]), Some(vec![0.0, 0.0]));
        assert_eq!(pooled.half_widths(95.0, &[1.0, 1.0]), None);
        assert!(pooled.are_enough(&[80.0]) && !pooled.are_enough(&[80.0, 95.0]));
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Pooled::read(folder.path()).expect("no file"), None);
        pooled.write(folder.path()).expect("a file");
        assert_eq!(Pooled::read(folder.path()).expect("a file"), Some(pooled));
    }
}
