//! Ops: one definition each, and the one list of them.
//!
//! An op's file holds all that the engine knows of it: shape rule, alias rule, gradient, `f64` reference, kernels,
//! cost and test samples. Nothing else in the engine names an op. A user's own op is an `impl Op` like these.

pub(crate) mod attention;
mod build;
pub(crate) mod elementwise;
pub(crate) mod experts;
pub(crate) mod loss;
pub(crate) mod matmul;
pub(crate) mod movement;
pub(crate) mod norm;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod step;

pub use crate::contract::{
    Alias, Body, Cost, Coverage, Data, FusedBody, Grad, GradRule, Kernel, MAX_OUTPUTS, Op, Outputs, Run,
    Sample, SampleArg, Spread, Vjp, attributes,
};
pub use crate::values::Precision;
pub use attention::{Attention, AttentionGrad, CosineAttention, CosineAttentionGrad};
pub use elementwise::{
    Abs, Add, Affine, Approximation, Cast, Compare, Comparison, Div, Erf, Exp, Fill, Gelu, GeluGrad, Ln,
    Maximum, Minimum, Mul, Neg, Recip, Rsqrt, Sign, Sqrt, Sub, Tanh, Where,
};
pub use experts::{
    ChunkMap, GroupedMatMul, GroupedMatMulGrad, Index, PairProbs, Permute, RouteMap, SortChunks, TopK,
    TopKGrad, Unpermute, UnpermuteGrad,
};
pub use loss::{CrossEntropy, CrossEntropyGrad, Mae, MaeGrad, Mse, MseGrad};
pub use matmul::MatMul;
pub use movement::{Concat, Copy, Fold, Pack, Pad, PadEdge};
pub use norm::{BatchNorm, BatchNormGrad, L2Norm, L2NormGrad, LayerNorm, LayerNormGrad, RunningUpdate};
pub use random::{Bernoulli, Dropout, Uniform};
pub use reduce::{Reduce, Reduction, Softmax};
use std::sync::Arc;
pub use step::cursor;
pub use step::{
    Accumulate, Adam, Advance, AdvanceMicro, AllFinite, BatchWindows, ClipScale, GlobalNorm, Lookup,
    LossScale, MicroMean, Order, RingPush, WindowGather,
};

macro_rules! ops {
    ($($Op:ident),* $(,)?) => {
        /// One op of each kind, with attributes to start from: tests, benches and the support table are made from it.
        #[must_use]
        pub fn table() -> Vec<Arc<dyn Op>> {
            vec![$(Arc::new($Op::default())),*]
        }

        /// Expands `$body!(Op)` once for each op of the table.
        #[macro_export]
        macro_rules! for_each_op {
            ($body:ident) => { $($body!($Op);)* };
        }
    };
}

ops! {
    Abs,
    Accumulate,
    Adam,
    Add,
    Advance,
    AdvanceMicro,
    Affine,
    AllFinite,
    Attention,
    AttentionGrad,
    BatchNorm,
    BatchNormGrad,
    BatchWindows,
    Bernoulli,
    Cast,
    ChunkMap,
    ClipScale,
    Compare,
    Concat,
    Copy,
    CosineAttention,
    CosineAttentionGrad,
    CrossEntropy,
    CrossEntropyGrad,
    Div,
    Dropout,
    Erf,
    Exp,
    Fill,
    Fold,
    Gelu,
    GeluGrad,
    GlobalNorm,
    GroupedMatMul,
    GroupedMatMulGrad,
    L2Norm,
    L2NormGrad,
    LayerNorm,
    LayerNormGrad,
    Ln,
    Lookup,
    LossScale,
    Mae,
    MaeGrad,
    MatMul,
    Maximum,
    MicroMean,
    Minimum,
    Mse,
    MseGrad,
    Mul,
    Neg,
    Pack,
    Pad,
    PadEdge,
    PairProbs,
    Permute,
    Recip,
    Reduce,
    RingPush,
    RouteMap,
    Rsqrt,
    RunningUpdate,
    Sign,
    Softmax,
    SortChunks,
    Sqrt,
    Sub,
    Tanh,
    TopK,
    TopKGrad,
    Uniform,
    Unpermute,
    UnpermuteGrad,
    Where,
    WindowGather,
}
