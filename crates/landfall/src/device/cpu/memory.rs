//! Host memory as device memory: aligned blocks, and slices made from checked operands.

use crate::Element;
use crate::device::{ALIGNMENT, Address, Operand};
use std::alloc::{Layout as AllocLayout, alloc_zeroed, dealloc};

fn block(bytes: usize) -> Option<AllocLayout> {
    AllocLayout::from_size_align(bytes.max(1), ALIGNMENT).ok()
}

/// An aligned block, zeroed (a tensor that nothing has written can be read); `None` when there is no memory for it.
pub(super) fn allocate(bytes: usize) -> Option<Address> {
    let layout = block(bytes)?;
    // SAFETY: the layout's size is at least 1.
    let p = unsafe { alloc_zeroed(layout) };
    if p.is_null() { None } else { Some(Address(p.expose_provenance() as u64)) }
}

/// Gives back a block of [`allocate`].
pub(super) fn free(address: Address, bytes: usize) {
    if let Some(layout) = block(bytes) {
        // SAFETY: owners (buffers, states, arenas) free each address once, with the size it was allocated with.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address.0 as usize), layout) }
    }
}

/// The bytes at an address.
pub(super) fn bytes<'a>(from: Address, len: usize) -> &'a [u8] {
    // SAFETY: callers name bytes inside a live block of theirs that no launch is writing (launches are synchronous).
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(from.0 as usize), len) }
}

/// The bytes at an address, for writing.
pub(super) fn bytes_mut<'a>(to: Address, len: usize) -> &'a mut [u8] {
    // SAFETY: callers name bytes inside a live block that they hold exclusively.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(to.0 as usize), len) }
}

/// The elements that an operand spans.
pub(super) fn elements<'a, T: Element>(operand: &Operand) -> &'a [T] {
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
pub(super) fn elements_mut<'a, T: Element>(operand: &Operand) -> &'a mut [T] {
    let (start, end) = operand.span();
    if start == end {
        return &mut [];
    }
    let len = (end - start) as usize / size_of::<T>();
    // SAFETY: as above; outputs overlap neither each other nor an input that can be taken, and are taken once.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(start as usize), len) }
}
