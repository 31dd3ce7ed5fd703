//! The forecast of a page in a browser: a CSV as text goes in, medians and intervals come out as JSON, by the pretrained network on one
//! thread of the processor. `cargo xtask page` compiles it to WebAssembly and puts it into `page.html`.
#![deny(unsafe_code)]

mod answer;
#[allow(unsafe_code, reason = "what the page calls has names without a crate; nothing else may")]
pub mod device;

pub use answer::answer;
