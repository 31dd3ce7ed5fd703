//! Memory of another library, for tests: a vector's, or another engine's.

use landfall::{DType, DeviceKind, Element, Engine, Error, Foreign, ForeignStream, Layout, View};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// An owner that counts its drops.
struct Counted<T> {
    _memory: T,
    drops: Arc<AtomicUsize>,
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
    }
}

/// A vector's memory, and how often its owner was dropped.
pub(crate) fn of_vector<T: Element>(data: Vec<T>) -> (Foreign, Arc<AtomicUsize>) {
    let drops = Arc::new(AtomicUsize::new(0));
    let (address, bytes) = (data.as_ptr().expose_provenance() as u64, size_of_val(data.as_slice()));
    let owner = Counted { _memory: data, drops: Arc::clone(&drops) };
    // SAFETY: a vector's elements do not move while it is owned, and the owner is this one.
    (unsafe { Foreign::new(DeviceKind::Cpu, address, bytes, owner) }, drops)
}

/// The memory of a view once more, `skip` bytes in: another handle to the same bytes, as another library has it.
pub(crate) fn again(view: &View, skip: usize) -> Foreign {
    let bytes = view.spec().bytes() - skip;
    // SAFETY: the view, which is kept, keeps its memory; tests use one of the two at a time, or in stream order.
    unsafe { Foreign::new(view.device(), view.address() + skip as u64, bytes, view.clone()) }
}

/// The stream of another engine; `None` on the CPU.
pub(crate) fn stream(of: &Engine) -> Option<ForeignStream> {
    // SAFETY: the tests keep that engine for longer than the one that follows it.
    of.stream().map(|handle| unsafe { ForeignStream::new(handle) })
}

/// The view in another engine on the same device, whose stream is ordered behind the first's.
///
/// # Errors
/// A device fault.
pub(crate) fn shared(view: &View, from: &Engine, to: &Engine) -> Result<View, Error> {
    let memory = again(view, 0);
    let memory = match stream(from) {
        Some(stream) => memory.on_stream(stream),
        None => memory,
    };
    to.wrap(memory, view.dtype(), *view.layout())
}

/// A contiguous layout of so many elements.
pub(crate) fn flat(elements: usize) -> Layout {
    Layout::contiguous([elements].into())
}

/// The dtype of most tests.
pub(crate) const F32: DType = DType::F32;
