//! The same work in each allocation mode of the sanitizer.

use super::Engine;
use crate::error::{Allocator, Error, Finding, Violation};

/// Runs the same work in each allocation mode of the sanitizer, and returns its results if all modes agree bit for bit.
/// `work` creates its tensors, states and programs on the engine that it is given.
///
/// # Errors
/// Errors of `work`; [`Error::Sanitizer`] for the first launch that violates the contract; [`Finding::Disagree`] if two
/// modes give different bytes.
pub fn agree<E: From<Error>>(
    engine: &Engine,
    mut work: impl FnMut(&Engine) -> Result<Vec<Vec<u8>>, E>,
) -> Result<Vec<Vec<u8>>, E> {
    let want = work(&engine.sanitized(Allocator::NeverReuse))?;
    for allocator in [Allocator::ReuseAtOnce, Allocator::Shuffled(1), Allocator::Shuffled(2)] {
        let got = work(&engine.sanitized(allocator))?;
        let differ = |i: usize| got.get(i) != want.get(i);
        if let Some(result) = (0..want.len().max(got.len())).find(|&i| differ(i)) {
            let bytes = |of: &[Vec<u8>]| of.get(result).cloned().unwrap_or_default();
            let (got, want) = (bytes(&got), bytes(&want));
            let byte = (0..want.len().max(got.len())).find(|&b| got.get(b) != want.get(b)).unwrap_or(0);
            let finding = Finding::Disagree { allocator, result, byte };
            return Err(Error::from(Violation::of_memory(engine.device(), finding)).into());
        }
    }
    Ok(want)
}
