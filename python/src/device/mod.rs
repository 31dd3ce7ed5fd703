//! Memory that is shared with other libraries, by DLPack, by numpy's array interface and by Arrow's C interface: the only unsafe
//! code of the package.

mod abi;
mod arrow;
mod export;
mod import;
mod layout;
mod numpy;
mod parent;
mod xla;

pub(crate) use abi::{CPU, CUDA, MAX_VERSION};
pub(crate) use arrow::batches;
pub(crate) use export::capsule;
pub(crate) use import::{Imported, from_capsule, from_exchange_api};
pub(crate) use numpy::{Element, elements, from_array};
pub(crate) use parent::adopt;
pub(crate) use xla::{_xla_layout, Call, Given, Handler, Refused, capsule as xla_capsule};
