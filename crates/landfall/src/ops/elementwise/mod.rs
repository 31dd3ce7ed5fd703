//! Each element by itself.

family! { gelu pointwise scalar }
