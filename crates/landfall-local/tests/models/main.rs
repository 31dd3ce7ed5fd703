//! The models as a caller uses them: beside reference values, on other rows, on odd input.

mod odd;
mod other_rows;
mod reference;
mod series;
