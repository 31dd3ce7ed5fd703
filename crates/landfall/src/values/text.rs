//! Errors whose `Debug` is their text.

/// Makes `Debug` of errors print what `Display` does: Rust prints an error that `main` returns by its `Debug`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_text {
    ($Error:ty) => {
        impl ::std::fmt::Debug for $Error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    };
}

pub(crate) use debug_as_text;
