//! Each element by itself.

family! { clamp gelu pointwise scalar }
