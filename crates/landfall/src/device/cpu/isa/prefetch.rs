//! Lines of memory asked for before they are needed: what lies beyond the second-level cache takes longer to come than a
//! tile takes to compute, and the processor looks ahead by less than a tile.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the lines of elements `from..from + len`, as far as `data` has them, to be read.
#[inline(always)]
pub fn prefetch_read<T>(data: &[T], from: usize, len: usize) {
    for line in lines(data, from, len) {
        // SAFETY: a hint about an address inside `data`; it neither faults nor changes memory.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// Asks for the lines of elements `from..from + len`, as far as `data` has them, to be written.
#[inline(always)]
pub fn prefetch_write<T>(data: &[T], from: usize, len: usize) {
    for line in lines(data, from, len) {
        // SAFETY: a hint about an address inside `data`; it neither faults nor changes memory.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(line.as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// The part of `data` from `from` on, of at most `len` elements, a line at a time.
#[inline(always)]
fn lines<T>(data: &[T], from: usize, len: usize) -> impl Iterator<Item = &[T]> {
    let end = (from + len).min(data.len());
    data.get(from..end).unwrap_or_default().chunks((LINE / size_of::<T>().max(1)).max(1))
}
