//! A heap for tests: it counts allocations, of all threads or of those that ask for it, and fills freed memory with
//! 0xFF, so that a read of freed memory shows.

#![allow(dead_code, reason = "not every test uses both counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

/// Whether allocations of all threads are counted: a number that all of them write at each allocation takes most of the
/// time of a suite on several threads, so it is left alone until somebody asks.
static COUNTED: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Where allocations of this thread are counted besides, while they are.
    pub(crate) static COUNTER: Cell<Option<&'static AtomicU64>> = const { Cell::new(None) };
}

/// Allocations since the first call of this, on every thread.
pub(crate) fn allocations() -> u64 {
    COUNTED.store(true, SeqCst);
    ALLOCATIONS.load(SeqCst)
}

fn count() {
    if COUNTED.load(Relaxed) {
        ALLOCATIONS.fetch_add(1, SeqCst);
    }
    // A thread that is going away has no counter any more.
    if let Ok(Some(counter)) = COUNTER.try_with(Cell::get) {
        counter.fetch_add(1, SeqCst);
    }
}

// SAFETY: every method passes its arguments on to the system's allocator, whose contract is the same; counting touches
// atomics and a thread-local without a destructor, so it never allocates; freed memory is written while it is still ours.
#[allow(unsafe_code, reason = "counting allocations means being the allocator")]
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.realloc(address, layout, size) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the block is live and `layout.size()` bytes long until it is handed back.
        unsafe {
            address.write_bytes(0xff, layout.size());
            System.dealloc(address, layout);
        }
    }
}
