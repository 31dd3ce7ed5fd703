//! Each element by itself.

family! { clamp functions gelu pointwise scalar }
