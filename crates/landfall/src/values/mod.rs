//! Values: the vocabulary of all floors. Dtypes, shapes, layouts, operands, host tensors, scalar expressions, and the
//! rules that a call may violate.

mod ancestors;
mod axes;
mod block;
pub(crate) mod dtype;
mod edges;
mod expression;
mod host;
mod layout;
mod math;
mod number;
mod operand;
mod precision;
mod ranks;
mod repeat;
mod rule;
mod shape;
mod text;

pub(crate) use ancestors::Ancestors;
pub(crate) use axes::twice;
pub use axes::{All, Axes, Axis, Keep};
pub use block::{Block, StoredId};
pub(crate) use dtype::with_dtype;
pub use dtype::{Accumulate, Class, DType, Element};
pub(crate) use edges::{Ranges, direct};
pub(crate) use expression::MAX_STEPS;
pub use expression::{Binary, Expression, Reg, Step, Unary};
pub use host::HostTensor;
pub(crate) use layout::collapse;
pub use layout::{Layout, Relation};
pub use math::Math;
pub use number::Number;
pub(crate) use operand::{ALIGNMENT, Address, align};
pub use operand::{DeviceKind, Operand, Overlap};
pub use precision::Precision;
pub use ranks::RankFault;
pub use repeat::Repeat;
pub use rule::{OpError, Rule};
pub(crate) use shape::product;
pub use shape::{MAX_ELEMENTS, MAX_RANK, Shape, Spec};
pub(crate) use text::debug_as_text;
