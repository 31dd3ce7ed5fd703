//! Placeholder until the instruction-set module lands.
pub(crate) fn vectorised<R>(f: impl FnOnce() -> R) -> R {
    f()
}
