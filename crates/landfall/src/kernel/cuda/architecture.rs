//! The shared memory of architectures.

/// Bytes of shared memory that a block may have on every architecture from Ampere on. Consumer GPUs have no more.
pub const SHARED_MEMORY: usize = 99 << 10;

/// Bytes of shared memory that a block may have, static and dynamic together, on an architecture such as `sm_90a`: as much as CUDA's
/// table of compute capabilities says. Of an architecture that is not known it is [`SHARED_MEMORY`], which all of them have.
///
/// ```
/// use landfall::cuda::{SHARED_MEMORY, shared_memory};
/// assert_eq!(shared_memory("sm_90a"), 227 << 10);
/// assert_eq!(shared_memory("sm_121a"), SHARED_MEMORY);
/// ```
#[must_use]
pub fn shared_memory(arch: &str) -> usize {
    match arch.strip_prefix("sm_").map(|number| number.trim_end_matches(char::is_alphabetic)) {
        Some("80" | "87") => 163 << 10,
        Some("90" | "100" | "103" | "110") => 227 << 10,
        _ => SHARED_MEMORY,
    }
}
