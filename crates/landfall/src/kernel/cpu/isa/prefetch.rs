//! Software prefetching: memory beyond the L2 cache has a latency longer than the computation of a tile, and the
//! hardware prefetcher looks ahead by less than a tile.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches the cache line at `address` for reading. Any address is allowed: a hint never faults.
#[inline(always)]
pub fn prefetch_read<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of the target has the instruction, which reads nothing as far as the program can tell.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches the cache line at `address` for writing. Any address is allowed.
#[inline(always)]
pub fn prefetch_write<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above; where the CPU has no such instruction it does nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches elements `from..from + len` of `data`, clipped to its length, for reading.
#[inline(always)]
pub fn read_ahead<T>(data: &[T], from: usize, len: usize) {
    lines(data, from, len).for_each(|line| prefetch_read(line.as_ptr()));
}

/// Prefetches elements `from..from + len` of `data`, clipped to its length, for writing.
#[inline(always)]
pub fn write_ahead<T>(data: &[T], from: usize, len: usize) {
    lines(data, from, len).for_each(|line| prefetch_write(line.as_ptr()));
}

/// The part of `data` from `from` on, of at most `len` elements, one line at a time.
#[inline(always)]
fn lines<T>(data: &[T], from: usize, len: usize) -> impl Iterator<Item = &[T]> {
    let end = (from + len).min(data.len());
    data.get(from..end).unwrap_or_default().chunks((LINE / size_of::<T>().max(1)).max(1))
}
