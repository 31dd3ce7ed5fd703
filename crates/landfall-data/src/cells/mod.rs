//! Cells of a table, and the numbers that they hold.

pub(crate) mod cell;
pub(crate) mod decimal;
pub(crate) mod numbers;
pub(crate) mod units;
