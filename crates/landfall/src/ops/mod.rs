//! Ops: one definition each, in families.
//!
//! An op's files hold all that the engine knows of it: shape rule, alias rule, gradient, `f64` reference, kernels, cost and
//! test samples; `op_list!` in its file names it, and one word in its family's list adds the file. Nothing else in the
//! engine names an op. A user's own op is an `impl Op` like these: `docs/add-an-op.md`.

/// Names the ops of a file, and behind a semicolon the types of their attributes: what its family exports and tests.
macro_rules! op_list {
    ($($Op:ident),*; $($Type:ident),*) => {
        /// What the file's family exports.
        pub(super) mod listed {
            pub use super::{$($Op,)* $($Type),*};

            /// One op of each kind, with attributes to start from.
            pub(in crate::ops) fn table() -> Vec<std::sync::Arc<dyn crate::contract::Tested>> {
                vec![$(std::sync::Arc::new($Op::default())),*]
            }
        }
    };
    ($($Op:ident),*) => {
        op_list! { $($Op),*; }
    };
}

/// The files of a family: each is a module, exports its ops and adds them to the table.
macro_rules! family {
    ($($file:ident)*) => {
        $(
            pub(crate) mod $file;
            pub use $file::listed::*;
        )*

        /// One op of each kind of this family.
        pub(super) fn table() -> Vec<std::sync::Arc<dyn crate::contract::Tested>> {
            let mut all = Vec::new();
            $(all.extend($file::listed::table());)*
            all
        }
    };
}

/// The families: each is exported and adds to the table.
macro_rules! families {
    ($($family:ident)*) => {
        $(pub use $family::*;)*

        /// One op of each kind, with attributes to start from, by name: tests, benches and the support table are made from it.
        #[must_use]
        pub fn table() -> Vec<Arc<dyn Tested>> {
            let mut all = Vec::new();
            $(all.extend($family::table());)*
            all.sort_by_key(|op: &Arc<dyn Tested>| op.name());
            all
        }
    };
}

pub(crate) mod attention;
mod build;
mod by_name;
mod cache;
pub(crate) mod collective;
mod composite;
mod draws;
pub(crate) mod elementwise;
pub(crate) mod experts;
pub(crate) mod indexing;
mod layers;
pub(crate) mod loss;
mod losses;
pub(crate) mod matmul;
mod methods;
pub(crate) mod movement;
pub(crate) mod norm;
mod plain;
pub(crate) mod random;
pub(crate) mod recurrent;
pub(crate) mod reduce;
mod scan;
pub(crate) mod step;
mod var;

pub use crate::contract::{
    Alias, Argument, Attribute, AttributeType, AttributeValue, Attributes, Body, Cost, Coverage, Data,
    FusedBody, Given, Grad, GradRule, Kernel, MAX_OUTPUTS, Mixing, Op, Output, Outputs, Run, Sample,
    SampleArg, Spread, Tested, Vjp, alias, arity, attributes, rules, text,
};
pub use crate::values::Precision;
pub use by_name::{Named, by_name, by_name_for, named};
pub use cache::KvCache;
pub use elementwise::pointwise::{
    kernels as pointwise_kernels, map as pointwise_reference, samples as pointwise_samples,
};
pub use layers::{Interpolation, Windows};
pub use losses::Labels;
pub use methods::{Method, Parameter, method, methods};
pub use plain::plain;
use std::sync::Arc;
pub use var::Var;

/// The elements of a cursor: everything that changes from step to step.
pub mod cursor {
    pub use crate::contract::cursor::{BASE, BATCH, EPOCH, LEN, MICRO, SEED, STEP, WINDOWS, seeded};
}

families! { attention collective elementwise experts indexing loss matmul movement norm random recurrent reduce step }
