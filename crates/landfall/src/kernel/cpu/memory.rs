//! Host memory as device memory: aligned blocks, and slices made from checked operands.

use crate::values::{ALIGNMENT, Address, Element, Operand};
use std::alloc::{Layout as AllocLayout, alloc, dealloc};

/// Size and alignment of a huge page. Blocks of at least this size are aligned to one: a kernel that streams an arena
/// then has one TLB miss per 2 MiB instead of per 4 KiB, and prefetchers stop at fewer page boundaries.
const HUGE_PAGE: usize = 2 << 20;

fn block(bytes: usize) -> Option<AllocLayout> {
    let alignment = if bytes < HUGE_PAGE { ALIGNMENT } else { HUGE_PAGE };
    AllocLayout::from_size_align(bytes.max(1), alignment).ok()
}

/// Requests huge pages for a block of at least one. A system without free ones uses small pages.
#[cfg(target_os = "linux")]
fn ask_for_huge_pages(start: *mut u8, bytes: usize) {
    if bytes >= HUGE_PAGE {
        // SAFETY: the advice is on how to back these pages, which one block owns; it changes no byte of them.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: *mut u8, _: usize) {}

/// An aligned block, zeroed (an unwritten tensor can be read); `None` if the system is out of memory.
pub(crate) fn allocate(bytes: usize) -> Option<Address> {
    let layout = block(bytes)?;
    // SAFETY: the layout's size is at least 1.
    let p = unsafe { alloc(layout) };
    if p.is_null() {
        return None;
    }
    // Before the first access, which decides the page size.
    ask_for_huge_pages(p, layout.size());
    // SAFETY: the block has this many bytes, and nobody else knows it.
    unsafe { p.write_bytes(0, layout.size()) };
    Some(Address(p.expose_provenance() as u64))
}

/// Frees a block of [`allocate`].
pub(crate) fn free(address: Address, bytes: usize) {
    if let Some(layout) = block(bytes) {
        // SAFETY: owners (buffers, states, arenas) free each address once, with the size it was allocated with.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address.0 as usize), layout) }
    }
}

/// The bytes at an address.
pub(crate) fn bytes<'a>(from: Address, len: usize) -> &'a [u8] {
    // SAFETY: callers name bytes inside a live block of theirs that no launch is writing (launches are synchronous).
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(from.0 as usize), len) }
}

/// The bytes at an address, for writing.
pub(crate) fn bytes_mut<'a>(to: Address, len: usize) -> &'a mut [u8] {
    // SAFETY: callers name bytes inside a live block that they hold exclusively.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(to.0 as usize), len) }
}

/// The elements that an operand spans.
pub(crate) fn elements<'a, T: Element>(operand: &Operand) -> &'a [T] {
    let (start, end) = operand.span();
    if start == end {
        return &[];
    }
    let len = (end - start) as usize / size_of::<T>();
    // SAFETY: the launch was checked: the span lies in a live block, aligned for T (blocks are aligned to 64 bytes and
    // offsets are whole elements), its dtype is T's, and no output of the launch overlaps it.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start as usize), len) }
}

/// The elements that an output spans. The caller takes each output once.
pub(crate) fn elements_mut<'a, T: Element>(operand: &Operand) -> &'a mut [T] {
    let (start, end) = operand.span();
    if start == end {
        return &mut [];
    }
    let len = (end - start) as usize / size_of::<T>();
    // SAFETY: as above; outputs overlap neither each other nor an input that can be taken, and are taken once.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(start as usize), len) }
}
