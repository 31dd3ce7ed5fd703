//! One candidate: whether its results equal those of the op's default, and its time.

use super::case::{Scratch, TuningCase};
use crate::contract::{Kernel, Op, Spread};
use crate::device::{Device, Launch};
use crate::error::{Allocator, Error};
use crate::sanitizer::{POISON, Sanitizer};
use crate::values::{Address, HostTensor};
use std::sync::Arc;
use std::time::Duration;

/// Tolerance between a candidate's results and those of the op's default: units in the last place of the output's
/// dtype, at the element; and of the accumulation dtype, at the largest element of the output, for another order of
/// summation. Random walks of rounding errors over a million terms stay below the latter.
const APART: (f64, f64) = (2.0, 64.0);

/// A case in private memory between guard bands: every launch of a candidate is checked there as under the sanitizer.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    case: &'a TuningCase,
    bare: &'a Arc<dyn Device>,
    checked: Arc<dyn Device>,
    scratch: Scratch,
    /// The contents of the operands, one per index distribution, and the results of the op's default.
    arguments: Vec<(Vec<Vec<u8>>, Vec<HostTensor>)>,
}

impl<'a> Bench<'a> {
    /// Runs the op's default, `own`. The workspace is large enough for any of `kernels`.
    pub(super) fn new(
        case: &'a TuningCase,
        bare: &'a Arc<dyn Device>,
        own: &'static Kernel,
        kernels: &[&'static Kernel],
        spreads: &[Spread],
    ) -> Result<Self, Error> {
        let specs = case.specs();
        let workspace = kernels.iter().map(|k| (k.workspace)(case.op.as_ref(), &specs)).max().unwrap_or(0);
        let checked: Arc<dyn Device> = Sanitizer::new(Arc::clone(bare), Allocator::NeverReuse);
        let scratch = Scratch::new(&checked, case, workspace)?;
        let mut this = Self { case, bare, checked, scratch, arguments: Vec::new() };
        for &spread in spreads {
            let contents = case.contents(spread, POISON);
            let want = this.results(own, &contents)?;
            this.arguments.push((contents, want));
        }
        Ok(this)
    }

    /// The instruction under trial.
    pub(super) fn instruction(&self) -> String {
        self.case.exact()
    }

    fn launch(&self, kernel: &'static Kernel) -> Launch<'_> {
        let op = self.case.op.as_ref();
        let workspace_bytes = (kernel.workspace)(op, &self.case.specs());
        let (inputs, outputs) = (&self.scratch.inputs, &self.scratch.outputs);
        Launch { op, kernel, inputs, outputs, workspace: self.scratch.workspace.0, workspace_bytes }
    }

    /// The complete outputs of a kernel, run twice over memory that is poisoned wherever it may not read.
    fn results(&self, kernel: &'static Kernel, contents: &[Vec<u8>]) -> Result<Vec<HostTensor>, Error> {
        self.scratch.load(contents)?;
        self.checked.launch(&self.launch(kernel))?;
        self.scratch.results()
    }

    /// Checks that a candidate gives the results of the op's default and touches nothing else; returns the reason if
    /// not.
    ///
    /// # Errors
    /// A device fault, after which nothing more can be tried.
    pub(super) fn differs(&self, kernel: &'static Kernel) -> Result<Option<String>, Error> {
        for (contents, want) in &self.arguments {
            match self.results(kernel, contents) {
                Ok(got) => {
                    if let Some(why) = apart(self.case.op.as_ref(), &got, want) {
                        return Ok(Some(why));
                    }
                }
                Err(fault @ (Error::Cuda { .. } | Error::Memory { .. } | Error::Absent(_))) => {
                    return Err(fault);
                }
                Err(refused) => return Ok(Some(refused.to_string())),
            }
        }
        Ok(None)
    }

    /// Times of each kernel, with operands restored and cold caches before each launch, the kernels in turn.
    pub(super) fn times(
        &self,
        kernels: &[&'static Kernel],
        rounds: usize,
        flush: (Address, usize),
    ) -> Result<Vec<Vec<Duration>>, Error> {
        let mut times = vec![vec![Duration::ZERO; rounds]; kernels.len()];
        for (contents, _) in &self.arguments {
            self.scratch.load(contents)?;
            for round in 0..rounds {
                for (kernel, times) in kernels.iter().zip(&mut times) {
                    self.scratch.restore(contents)?;
                    times[round] += self.bare.timed(&self.launch(kernel), flush)?;
                }
            }
        }
        Ok(times)
    }
}

/// The first element that is out of tolerance; integers and booleans must be equal.
fn apart(op: &dyn Op, got: &[HostTensor], want: &[HostTensor]) -> Option<String> {
    got.iter().zip(want).enumerate().find_map(|(j, (got, want))| {
        let dtype = want.spec.dtype;
        let largest = want.data.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
        let (last, sums) = (APART.0 * dtype.epsilon(), APART.1 * op.accumulate(dtype).epsilon() * largest);
        let near = |g: f64, w: f64| {
            g == w
                || (g.is_nan() && w.is_nan())
                || (dtype.is_float() && (g - w).abs() <= last * w.abs() + sums)
        };
        let i = (0..want.data.len()).find(|&i| !near(got.data[i], want.data[i]))?;
        let (g, w) = (got.data[i], want.data[i]);
        Some(format!("element {i} of output {j} is {g:e}, that of the op's own choice is {w:e}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::MatMul;
    use crate::values::{DType, Spec};

    #[test]
    fn results_may_differ_by_rounding_and_by_no_more() {
        let tensor =
            |dtype, data: &[f64]| vec![HostTensor::from_fn(Spec::new(dtype, [data.len()]), |i| data[i])];
        let op = MatMul::default();
        let apart = |dtype, got: &[f64], want: &[f64]| apart(&op, &tensor(dtype, got), &tensor(dtype, want));
        let e = DType::F32.epsilon();
        assert_eq!(apart(DType::F32, &[1.0 + e, 60.0 * e], &[1.0, 0.0]), None);
        let far = apart(DType::F32, &[1.0, 70.0 * e], &[1.0, 0.0]);
        assert!(far.is_some_and(|why| why.starts_with("element 1 of output 0")));
        assert!(apart(DType::F32, &[f64::NAN], &[1.0]).is_some());
        assert!(apart(DType::F32, &[1.0], &[f64::NAN]).is_some());
        assert_eq!(apart(DType::F32, &[f64::NAN], &[f64::NAN]), None);
        assert!(apart(DType::F32, &[f64::INFINITY], &[1.0]).is_some());
        // One unit in the last place of bf16, not three.
        let e = DType::BF16.epsilon();
        assert_eq!(apart(DType::BF16, &[1.0 + e], &[1.0]), None);
        assert!(apart(DType::BF16, &[1.0 + 3.0 * e], &[1.0]).is_some());
        assert!(apart(DType::I32, &[5.0], &[4.0]).is_some());
    }
}
