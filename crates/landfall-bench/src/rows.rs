//! The rows: whole training steps, and the ops that those steps are made of at their shapes.

use crate::calls::{self, Arg, Call, Data, all, call, row_name};
use crate::routing::{ROUTING, RoutingRow};
use landfall::{DType, Shape, ops, ops::cursor};
use landfall_forecast::run::{Precision, Preset, SettingsError};
use landfall_train::models::{Columns, DropoutMasks, ModelConfig, ModelKind, PatchTstConfig};
use landfall_train::nn::NormKind;

/// A row of the bench.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Row {
    Step(&'static Step, LaunchMode),
    Op(&'static OpRow),
    Routing(&'static RoutingRow),
}

/// Which launches a step is, and how they come to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaunchMode {
    /// Recorded before, and replayed; on a GPU as one graph.
    Captured,
    /// One by one, each checked as an eager call is.
    Issued,
    /// As captured, with the kernels that `landfall tune` finds.
    Tuned,
}

/// A whole training step: gather of windows or samples, forward, backward, clip, AdamW.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) config: fn() -> ModelConfig,
    /// Of series; samples have tokens.
    pub(crate) channels: usize,
    pub(crate) batch: usize,
    /// Micro-batches of a batch.
    pub(crate) accumulate: usize,
    /// A step takes a processor minutes, so there it is timed when it is asked for by name.
    large: bool,
}

/// An op at the sizes that its name says.
#[derive(Debug)]
pub(crate) struct OpRow {
    op: &'static str,
    sizes: &'static [usize],
    calls: fn(&[usize]) -> Vec<Call>,
    /// Those it is timed in. A row of bf16 is timed where it is asked for, on a GPU.
    precisions: &'static [Precision],
}

/// The step rows. `bench/peers/rows.py` has the same sizes; the number of parameters is compared at run time.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "seed", config: || ModelConfig::Patchtst(seed()), channels: 20, batch: 64, ..PATCHTST },
    Step { name: "etth1", config: || ModelConfig::Patchtst(etth1()), channels: 7, batch: 128, ..PATCHTST },
    Step {
        name: "wide",
        config: || ModelConfig::Patchtst(wide()),
        channels: 321,
        batch: 32,
        large: true,
        ..PATCHTST
    },
    Step {
        name: "deep",
        config: || ModelConfig::Patchtst(deep()),
        channels: 8,
        batch: 64,
        large: true,
        ..PATCHTST
    },
    Step { name: "tide", config: || ett(ModelKind::Tide, 96), ..ETT },
    Step { name: "tide-720", config: || ett(ModelKind::Tide, 720), ..ETT },
    Step { name: "tsmixer", config: || ett(ModelKind::Tsmixer, 96), ..ETT },
    CROSS_ASSET,
    Step { name: "cross-asset-1x256", accumulate: 256, ..CROSS_ASSET },
];

const PATCHTST: Step = Step {
    name: "",
    config: || ModelConfig::Patchtst(etth1()),
    channels: 1,
    batch: 1,
    accumulate: 1,
    large: false,
};

const ETT: Step = Step { channels: 7, batch: 32, large: true, ..PATCHTST };

const CROSS_ASSET: Step = Step {
    name: "cross-asset",
    config: || ModelKind::CrossAsset.config(),
    channels: 12,
    batch: 256,
    accumulate: 1,
    large: true,
};

/// A model's first preset for the seven columns of ETT.
fn ett(model: ModelKind, horizon: usize) -> ModelConfig {
    Preset::of(model).config().with_horizon(horizon).with_columns(Columns::only(7))
}

fn etth1() -> PatchTstConfig {
    PatchTstConfig {
        residual_attention: false,
        dropout_masks: DropoutMasks::Branches,
        ..PatchTstConfig::default()
    }
}

fn seed() -> PatchTstConfig {
    PatchTstConfig {
        context: 24,
        horizon: 1,
        patch: 8,
        stride: 4,
        d_model: 64,
        layers: 2,
        d_ff: 256,
        norm: NormKind::Layer,
        padding: false,
        dropout: 0.0,
        ..etth1()
    }
}

fn wide() -> PatchTstConfig {
    PatchTstConfig { d_model: 128, heads: 16, d_ff: 256, dropout: 0.2, ..etth1() }
}

fn deep() -> PatchTstConfig {
    PatchTstConfig {
        context: 512,
        d_model: 512,
        heads: 8,
        layers: 6,
        d_ff: 2048,
        norm: NormKind::Layer,
        dropout: 0.0,
        ..etth1()
    }
}

/// Each op, what its calls are, and at which sizes: those of `seed` (6,400 patches of 64 features) and of `etth1`
/// (37,632 of 16). Products are `m x k x n`; `[batch, patches, heads, head size]` is attention's order.
macro_rules! op_rows {
    ($NAME:ident in $precisions:expr; $($op:literal $calls:ident: $([$($size:literal),*])*;)*) => {
        pub(crate) const $NAME: &[OpRow] =
            &[$($(OpRow { op: $op, sizes: &[$($size),*], calls: $calls, precisions: $precisions }),*),*];
    };
}

op_rows! { OPS in &[Precision::F32];
    "matmul" matmul: [6400, 64, 192] [6400, 64, 256] [6400, 256, 64] [37632, 16, 48] [37632, 16, 128] [37632, 128, 16] [896, 672, 96];
    "matmul-weight-grad" weight_grad: [6400, 64, 192] [6400, 64, 256] [37632, 16, 48] [37632, 16, 128] [37632, 128, 16] [896, 672, 96];
    "matmul-input-grad" input_grad: [6400, 64, 256] [37632, 16, 128] [37632, 128, 16] [896, 672, 96];
    "softmax" softmax: [25600, 5] [150528, 42];
    "layer-norm" layer_norm: [6400, 64];
    "layer-norm-grad" layer_norm_grad: [6400, 64];
    "batch-norm" batch_norm: [37632, 16];
    "batch-norm-grad" batch_norm_grad: [37632, 16];
    "gelu" gelu: [6400, 256] [37632, 128];
    "gelu-grad" gelu_grad: [6400, 256] [37632, 128];
    "dropout" dropout: [37632, 16] [37632, 128];
    "attention" attention: [1280, 5, 4, 16] [896, 42, 4, 4];
    "attention-train" attention_train: [1280, 5, 4, 16] [896, 42, 4, 4];
    "transpose" transpose: [6400, 256] [37632, 128];
    "sum-rows" sum_rows: [37632, 128];
    "sum-columns" sum_columns: [37632, 128];
    "gru-train" gru_train: [128, 96, 128];
    "gru-train-cudnn" gru_train: [128, 96, 128];
    "adam" adam: [81728] [101185];
    "add" add: [1024];
}

// Bound by memory: at least 256 MB in bf16, of long rows, of short rows and of sizes that no unit divides.
op_rows! { LARGE in &[Precision::F32, Precision::Bf16];
    "large-copy" copy: [8192, 16384];
    "large-softmax" softmax: [8192, 16384] [2097152, 64] [131071, 1031];
    "large-layer-norm" layer_norm: [8192, 16384] [2097152, 64] [131071, 1031];
    "large-transpose" transpose: [8192, 16384] [2097152, 64] [131071, 1031];
    "large-sum-rows" sum_rows: [8192, 16384] [2097152, 64] [131071, 1031];
    "large-sum-columns" sum_columns: [8192, 16384] [2097152, 64] [131071, 1031];
}

// Attention of the step rows, and of long sequences.
op_rows! { HALF in &[Precision::Bf16];
    "half-attention-train" attention_train: [896, 42, 4, 4] [10272, 42, 16, 8] [512, 64, 8, 64] [8, 8192, 16, 128];
}

fn normal(shape: impl Into<Shape>) -> Arg {
    calls::normal(DType::F32, shape)
}

fn transposed(arg: Arg) -> Arg {
    Arg { transposed: true, ..arg }
}

fn at_start() -> Arg {
    all(DType::I64, [cursor::LEN], 0.0)
}

fn matmul(s: &[usize]) -> Vec<Call> {
    vec![call(
        ops::MatMul::default(),
        [normal([s[0], s[1]]), transposed(normal([s[2], s[1]])), normal([s[2]])],
    )]
}

/// The weight is `[n, k]`, so its gradient is `cotangentᵀ · x`.
fn weight_grad(s: &[usize]) -> Vec<Call> {
    vec![call(ops::MatMul::default(), [transposed(normal([s[0], s[2]])), normal([s[0], s[1]])])]
}

fn input_grad(s: &[usize]) -> Vec<Call> {
    vec![call(ops::MatMul::default(), [normal([s[0], s[2]]), normal([s[2], s[1]])])]
}

fn softmax(s: &[usize]) -> Vec<Call> {
    vec![call(ops::Softmax { axis: 1 }, [normal([s[0], s[1]])])]
}

const EPS: f64 = 1e-5;

fn layer_norm(s: &[usize]) -> Vec<Call> {
    vec![call(ops::LayerNorm { eps: EPS }, [normal([s[0], s[1]]), normal([s[1]]), normal([s[1]])])]
}

fn layer_norm_grad(s: &[usize]) -> Vec<Call> {
    let rows = || all(DType::F32, [s[0]], 1.0);
    let x = || normal([s[0], s[1]]);
    vec![call(ops::LayerNormGrad, [x(), x(), normal([s[1]]), rows(), rows()])]
}

fn batch_norm(s: &[usize]) -> Vec<Call> {
    vec![call(ops::BatchNorm { eps: EPS }, [normal([s[0], s[1]]), normal([s[1]]), normal([s[1]])])]
}

fn batch_norm_grad(s: &[usize]) -> Vec<Call> {
    let features = || all(DType::F32, [s[1]], 1.0);
    let x = || normal([s[0], s[1]]);
    vec![call(ops::BatchNormGrad { eps: EPS }, [x(), x(), normal([s[1]]), features(), features()])]
}

fn gelu(s: &[usize]) -> Vec<Call> {
    vec![call(ops::Gelu { approximation: ops::Approximation::Erf }, [normal([s[0], s[1]])])]
}

fn gelu_grad(s: &[usize]) -> Vec<Call> {
    let x = || normal([s[0], s[1]]);
    vec![call(ops::GeluGrad { approximation: ops::Approximation::Erf }, [x(), x()])]
}

fn dropout(s: &[usize]) -> Vec<Call> {
    vec![call(ops::Dropout { rate: 0.3, stream: 1 }, [normal([s[0], s[1]]), at_start()])]
}

fn attention(s: &[usize]) -> Vec<Call> {
    let x = || normal([s[0], s[1], s[2], s[3]]);
    let op = ops::Attention { scale: (s[3] as f64).powf(-0.5), previous: false, emit_scores: false };
    vec![call(op, [x(), x(), x()])]
}

/// Forward and backward. The backward pass has arguments of its own: its time does not depend on their values.
fn attention_train(s: &[usize]) -> Vec<Call> {
    let x = || normal([s[0], s[1], s[2], s[3]]);
    let op = ops::AttentionGrad { scale: (s[3] as f64).powf(-0.5), previous: false, score_cotangent: false };
    let lse = all(DType::F32, [s[0], s[2], s[1]], (s[1] as f64).ln());
    let mut calls = attention(s);
    calls.push(call(op, [x(), x(), x(), x(), lse, x()]));
    calls
}

fn copy(s: &[usize]) -> Vec<Call> {
    vec![call(ops::Copy, [normal([s[0], s[1]])])]
}

fn transpose(s: &[usize]) -> Vec<Call> {
    vec![call(ops::Copy, [transposed(normal([s[0], s[1]]))])]
}

fn sum_rows(s: &[usize]) -> Vec<Call> {
    vec![call(ops::Reduce::new(ops::Reduction::Sum, &[1]), [normal([s[0], s[1]])])]
}

fn sum_columns(s: &[usize]) -> Vec<Call> {
    vec![call(ops::Reduce::new(ops::Reduction::Sum, &[0]), [normal([s[0], s[1]])])]
}

/// Forward and backward of a GRU over `[batch, steps, hidden]` with as many inputs as units: the products with the inputs'
/// weight and of all gradients, and the steps. The two rows differ in what their peer may call.
fn gru_train(s: &[usize]) -> Vec<Call> {
    let [batch, steps, hidden] = [s[0], s[1], s[2]];
    let (rows, width, cell) = (batch * steps, 3 * hidden, ops::Cell::Gru);
    let (weight, state, states) =
        (|| normal([width, hidden]), || normal([batch, hidden]), || normal([batch, steps, hidden]));
    let gates = || normal([rows, width]);
    let bias_grad = || call(ops::Reduce::new(ops::Reduction::Sum, &[0]), [gates()]);
    vec![
        call(ops::MatMul::default(), [normal([rows, hidden]), transposed(weight()), normal([width])]),
        call(ops::Copy, [transposed(weight())]),
        call(
            ops::Recurrence { cell },
            [normal([batch, steps, width]), state(), all(DType::F32, [hidden, width], 0.05), normal([width])],
        ),
        call(
            ops::RecurrenceGrad { cell },
            [
                all(DType::F32, [width, hidden], 0.05),
                state(),
                states(),
                normal([batch, steps, 4 * hidden]),
                states(),
            ],
        ),
        call(ops::Concat { axis: 1 }, [normal([batch, 1, hidden]), normal([batch, steps - 1, hidden])]),
        call(ops::MatMul::default(), [transposed(gates()), normal([rows, hidden])]),
        call(ops::MatMul::default(), [transposed(gates()), normal([rows, hidden])]),
        call(ops::MatMul::default(), [gates(), weight()]),
        bias_grad(),
        bias_grad(),
    ]
}

/// So small that its time is the host's.
fn add(s: &[usize]) -> Vec<Call> {
    vec![call(ops::Add, [normal([s[0]]), normal([s[0]])])]
}

fn adam(s: &[usize]) -> Vec<Call> {
    let op = ops::Adam {
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.01,
        decoupled: true,
        decay_elements: s[0],
    };
    let second = Arg { data: Data::Squares, ..normal([s[0]]) };
    let (lr, scale) = (all(DType::F64, [], 1e-3), all(DType::F32, [], 1.0));
    let ok = all(DType::Bool, [], 1.0);
    vec![call(op, [normal([s[0]]), normal([s[0]]), normal([s[0]]), second, at_start(), lr, scale, ok])]
}

impl OpRow {
    /// Its calls; in another dtype than f32 all but what an op keeps in f32: statistics.
    pub(crate) fn calls(&self, dtype: DType) -> Vec<Call> {
        let mut calls = (self.calls)(self.sizes);
        for arg in calls.iter_mut().flat_map(|call| &mut call.args) {
            if matches!(arg.data, Data::Normal) {
                arg.dtype = dtype;
            }
        }
        calls
    }
}

impl Row {
    fn all() -> impl Iterator<Item = Self> {
        let steps = STEPS.iter().map(|s| Self::Step(s, LaunchMode::Captured));
        let ops = OPS.iter().chain(LARGE).chain(HALF).map(Self::Op);
        steps.chain(ops).chain(ROUTING.iter().map(Self::Routing))
    }

    /// Whether it is timed on GPUs alone, and when it is asked for.
    pub(crate) fn on_gpus(&self) -> bool {
        match self {
            Self::Step(..) => false,
            Self::Op(row) => row.precisions.contains(&Precision::Bf16),
            Self::Routing(_) => true,
        }
    }

    /// Those of these precisions that it is timed in.
    pub(crate) fn precisions(&self, asked: &[Precision]) -> Vec<Precision> {
        match self {
            Self::Step(..) => asked.to_vec(),
            Self::Op(row) => match row.precisions {
                [one] => vec![*one],
                several => asked.iter().copied().filter(|p| several.contains(p)).collect(),
            },
            Self::Routing(_) => asked.iter().copied().filter(|&p| RoutingRow::takes(p)).collect(),
        }
    }

    /// The step's name and the way it is run, if that is not the usual one, or the op's name and its sizes.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Step(step, LaunchMode::Captured) => step.name.to_owned(),
            Self::Step(step, LaunchMode::Issued) => format!("{}-issued", step.name),
            Self::Step(step, LaunchMode::Tuned) => format!("{}-tuned", step.name),
            Self::Op(row) => row_name(row.op, row.sizes),
            Self::Routing(row) => row.name(),
        }
    }

    fn is_of(&self, selection: &str) -> bool {
        match self {
            Self::Step(step, _) => selection == "steps" || selection == step.name,
            Self::Op(row) => {
                let group = if self.on_gpus() { "large" } else { "ops" };
                selection == group || selection == row.op || selection == self.name()
            }
            Self::Routing(row) => selection == "routing" || selection == row.op || selection == self.name(),
        }
    }

    /// The rows that these words name, in the table's order: `steps`, `ops`, `large`, `routing`, an op, or a row; every step and
    /// op for no word. The large steps only by their own name, unless `large`.
    ///
    /// # Errors
    /// A word that names none, and what there is.
    pub(crate) fn select(words: &[String], large: bool) -> Result<Vec<Self>, SettingsError> {
        if let Some(word) = words.iter().find(|w| !Self::all().any(|r| r.is_of(w))) {
            let mut known = vec!["steps", "ops", "large", "routing"];
            known.extend(STEPS.iter().map(|s| s.name));
            known.extend(OPS.iter().chain(LARGE).chain(HALF).map(|o| o.op));
            known.extend(ROUTING.iter().map(|r| r.op));
            known.dedup();
            return Err(SettingsError::Unknown { key: "row", value: word.clone(), known: known.join(", ") });
        }
        let asked = |r: &Self| match words {
            [] => !r.on_gpus(),
            words => words.iter().any(|w| r.is_of(w)),
        };
        let fits = |r: &Self| large || !matches!(r, Self::Step(s, _) if s.large) || words.contains(&r.name());
        Ok(Self::all().filter(|r| asked(r) && fits(r)).collect())
    }

    /// The same step in another way; nothing for a row that is no step.
    pub(crate) fn also(&self, mode: LaunchMode) -> Option<Self> {
        match self {
            Self::Step(step, _) => Some(Self::Step(step, mode)),
            Self::Op(_) | Self::Routing(_) => None,
        }
    }

    /// The row of the peers that this one is compared with. Steps that are issued are timed alone.
    pub(crate) fn compared(&self) -> Option<String> {
        match self {
            Self::Step(_, LaunchMode::Issued) => None,
            Self::Step(step, LaunchMode::Captured | LaunchMode::Tuned) => Some(step.name.to_owned()),
            Self::Op(_) | Self::Routing(_) => Some(self.name()),
        }
    }

    /// The rows whose peers run at the same time. On a GPU each step and each large row has its memory alone: peers keep what
    /// they took until they end.
    pub(crate) fn turns(rows: Vec<Self>, gpu: bool) -> Vec<Vec<Self>> {
        let alone = |row: &Self| {
            gpu && (matches!(row, Self::Step(..)) || matches!(row, Self::Op(_)) && row.on_gpus())
        };
        let (alone, together): (Vec<Self>, Vec<Self>) = rows.into_iter().partition(alone);
        let together = (!together.is_empty()).then_some(together);
        alone.into_iter().map(|row| vec![row]).chain(together).collect()
    }

    /// Which rows a peer times in one process: each step alone, all others together. What one step compiles or captures
    /// cannot harm another row then.
    pub(crate) fn processes(rows: &[Self]) -> Vec<Vec<String>> {
        let (steps, others): (Vec<&Self>, Vec<&Self>) =
            rows.iter().partition(|r| matches!(r, Self::Step(..)));
        let mut processes: Vec<Vec<String>> = steps.iter().map(|r| vec![r.name()]).collect();
        if !others.is_empty() {
            processes.push(others.iter().map(|r| r.name()).collect());
        }
        processes
    }
}
