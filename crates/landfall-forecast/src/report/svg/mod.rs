//! Charts as SVG text: plain numbers in, text out.

mod axes;
mod bars;
mod lines;
mod text;

pub(super) use axes::{date_ticks, row_ticks, ticks};
pub(super) use bars::Bars;
pub(super) use lines::{Line, LineChart};
pub use text::digits;
pub(super) use text::{escape, shortened};
