//! A heap that counts allocations of all threads and fills freed memory with 0xFF, so that a read of freed memory shows.
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

pub(crate) struct Heap;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[allow(dead_code, reason = "not every test counts")]
/// Allocations since the start, on every thread.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.load(SeqCst)
}

// SAFETY: every call is handed to the system's allocator unchanged; freed memory is written while it is still ours.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the block is live and `layout.size()` bytes long until it is handed back.
        unsafe {
            p.write_bytes(0xff, layout.size());
            System.dealloc(p, layout);
        }
    }
}

#[global_allocator]
static HEAP: Heap = Heap;
