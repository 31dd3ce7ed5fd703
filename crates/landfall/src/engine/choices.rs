//! Kernels chosen for instructions, as text: for run folders, checkpoints and the cache.

use crate::contract::{self, Op};
use crate::engine::Engine;
use crate::error::Error;
use crate::values::{Layout, Spec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The hash of this build's sources: in another build a kernel of the same name may compute something else.
pub(crate) const SOURCES: &str = env!("LANDFALL_SOURCES");

/// The kernel of each instruction that does not use its op's default, and the device, driver and build for which the
/// choices are valid. Programs compiled with the same choices on the same device give the same bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choices {
    /// Name of the device.
    pub device: String,
    /// Driver and library versions.
    pub driver: String,
    /// Hash of the engine's sources.
    pub sources: String,
    /// Kernel names by instruction: op with attributes, and dtype, sizes and memory order of each operand.
    pub kernels: BTreeMap<String, String>,
}

impl Choices {
    /// No choices, for this engine's device and this build.
    ///
    /// # Errors
    /// A device fault.
    pub(crate) fn of(engine: &Engine) -> Result<Self, Error> {
        let hardware = engine.bare().hardware()?;
        let (device, driver) = (hardware.name, hardware.driver);
        Ok(Self { device, driver, sources: SOURCES.to_owned(), kernels: BTreeMap::new() })
    }

    /// The reason why they are invalid for an engine, if they are: another device, driver or build, where a kernel of
    /// the same name may sum in another order.
    ///
    /// # Errors
    /// A device fault.
    pub fn foreign(&self, engine: &Engine) -> Result<Option<String>, Error> {
        let own = Self::of(engine)?;
        let pairs = [
            ("device", &self.device, &own.device),
            ("driver", &self.driver, &own.driver),
            ("build", &self.sources, &own.sources),
        ];
        let other = pairs.into_iter().find(|(_, was, is)| was != is);
        Ok(other.map(|(what, was, is)| format!("its {what} was {was:?} and is {is:?}")))
    }

    /// The kernel chosen for an instruction.
    #[must_use]
    pub(crate) fn kernel(&self, of: &str) -> Option<&str> {
        self.kernels.get(of).map(String::as_str)
    }
}

/// An operand in a key.
pub(crate) struct Seen<'a> {
    pub(crate) spec: Spec,
    pub(crate) layout: &'a Layout,
}

/// An instruction's key: op, attributes, and dtype, sizes and memory order of each operand. Equal keys get equal
/// choices.
pub(crate) fn exact<'a>(
    op: &dyn Op,
    inputs: impl Iterator<Item = Seen<'a>>,
    outputs: impl Iterator<Item = Seen<'a>>,
) -> String {
    text(op, inputs, outputs, |size| size)
}

/// The key of all instructions of similar sizes, for which the same kernels are fast.
pub(crate) fn alike<'a>(
    op: &dyn Op,
    inputs: impl Iterator<Item = Seen<'a>>,
    outputs: impl Iterator<Item = Seen<'a>>,
) -> String {
    text(op, inputs, outputs, bucket)
}

/// Rounds up to the next of four sizes between powers of two.
fn bucket(size: usize) -> usize {
    if size <= 8 {
        return size;
    }
    let step = 1 << (size.ilog2() - 2);
    size.next_multiple_of(step)
}

fn text<'a>(
    op: &dyn Op,
    inputs: impl Iterator<Item = Seen<'a>>,
    outputs: impl Iterator<Item = Seen<'a>>,
    size: impl Fn(usize) -> usize,
) -> String {
    let mut text = contract::text(op);
    let mut add = |before: &str, seen: Seen<'_>| {
        let dims: Vec<usize> = seen.spec.shape.dims().iter().map(|&d| size(d)).collect();
        // Formatting into a string cannot fail.
        _ = write!(text, "{before}{}{dims:?}{}", seen.spec.dtype, order(seen.layout));
    };
    inputs.for_each(|seen| add(" ", seen));
    outputs.enumerate().for_each(|(j, seen)| add(if j == 0 { " -> " } else { " " }, seen));
    text
}

/// The axes of an operand that is not contiguous, outermost first, broadcast ones in brackets; with a star
/// where the innermost one has gaps.
fn order(layout: &Layout) -> String {
    if layout.is_contiguous() {
        return String::new();
    }
    let strides = layout.strides();
    let mut axes: Vec<usize> = (0..strides.len()).collect();
    axes.sort_by_key(|&a| std::cmp::Reverse(strides[a]));
    let walked = |&a: &usize| strides[a] > 0 && layout.shape().dims()[a] > 1;
    let gaps = axes.iter().copied().rfind(walked).is_some_and(|a| strides[a] > 1);
    let axis = |a: usize| if strides[a] == 0 { format!("({a})") } else { a.to_string() };
    let listed: Vec<String> = axes.into_iter().map(axis).collect();
    format!("@{}{}", listed.join(","), if gaps { "*" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::MatMul;
    use crate::values::DType;

    #[test]
    fn sizes_fall_into_four_steps_between_powers_of_two() {
        assert_eq!(
            [0, 1, 7, 8, 9, 10, 11, 33, 100, 1000].map(bucket),
            [0, 1, 7, 8, 10, 10, 12, 40, 112, 1024]
        );
        for size in 1..5000 {
            let of = bucket(size);
            assert!(size <= of && of < size + size.div_ceil(4) + 1, "{size}: {of}");
            assert_eq!(bucket(of), of);
        }
    }

    #[test]
    fn a_key_tells_layouts_apart() {
        let rows = Layout::contiguous([20, 30].into());
        let spec = Spec::new(DType::F32, [20, 30]);
        let turned = Layout::contiguous([30, 20].into()).permute(&[1, 0]).expect("a permutation");
        let stepped = Layout::contiguous([20, 60].into()).slice(1, 0, 30, 2).expect("inside");
        let one = Layout::contiguous([1, 30].into()).broadcast_to([20, 30].into()).expect("from one");
        let key = |layout: &Layout| {
            let op = MatMul::default();
            exact(&op, [Seen { spec, layout }].into_iter(), std::iter::empty())
        };
        assert_eq!(key(&rows), "matmul(precision=strict, wide=false) f32[20, 30]");
        assert!(key(&turned).ends_with("f32[20, 30]@1,0"), "{}", key(&turned));
        assert!(key(&stepped).ends_with("@0,1*"), "{}", key(&stepped));
        assert!(key(&one).ends_with("@1,(0)"), "{}", key(&one));
    }
}
