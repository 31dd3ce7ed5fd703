//! How charts look: their sizes, and the classes of their lines.

/// Width and height of a chart; three stand beside each other on a wide screen.
pub(in crate::report) const SIZE: (f64, f64) = (440.0, 260.0);
/// Of a chart as wide as the page.
pub(in crate::report) const WIDE: (f64, f64) = (1080.0, 320.0);

/// Class of the n-th baseline.
pub(in crate::report) const BASELINES: [&str; 2] = ["last", "seasonal"];
