//! The names of other frameworks for our ops and graph methods, and the page of the documentation that is made of them.

use crate::case::{Check, Failure, ensure};
use crate::facts::Facts;
use landfall::DType;
use std::collections::BTreeSet;
use std::path::Path;

/// What one op or method is called elsewhere. An empty cell: we do not know; `none`: it has no such function.
struct Name {
    /// Method of `Graph`, if there is one.
    method: &'static str,
    /// Op of the table, if the method is one or calls one alone; `VIEW`, `SEVERAL` or `CONSTANT`.
    op: &'static str,
    torch: &'static str,
    candle: &'static str,
    burn: &'static str,
}

/// It moves no bytes.
const VIEW: &str = "a view";
/// It is made of several ops, and its gradient of theirs.
const SEVERAL: &str = "several ops";
/// It is made of several ops and has no gradient.
const CONSTANT: &str = "several ops, constant";

macro_rules! names {
    ($($method:literal, $op:expr, $torch:literal, $candle:literal, $burn:literal;)*) => {
        &[$(Name { method: $method, op: $op, torch: $torch, candle: $candle, burn: $burn }),*]
    };
}

/// By topic. candle 0.9 (`Tensor`, unless a module is named) and burn 0.18 (`Tensor`, unless a module is named).
const TOPICS: &[(&str, &[Name])] = &[
    (
        "Arithmetic",
        names! {
            "add", "add", "add, +", "broadcast_add, +", "add, +";
            "sub", "sub", "sub, -", "broadcast_sub, -", "sub, -";
            "mul", "mul", "mul, *", "broadcast_mul, *", "mul, *";
            "div", "div", "div, /", "broadcast_div, /", "div, /";
            "rem", "rem", "remainder, %", "none", "remainder, %";
            "pow", "pow", "pow", "broadcast_pow", "powf";
            "powf", SEVERAL, "pow(x, 2.5)", "powf", "powf_scalar";
            "square", "mul", "square", "sqr", "powi_scalar(2)";
            "affine", "affine", "x * m + a", "affine", "mul_scalar, add_scalar";
            "neg", "neg", "neg, -x", "neg", "neg, -x";
            "abs", "abs", "abs", "abs", "abs";
            "sign", "sign", "sign", "sign", "sign";
            "recip", "recip", "reciprocal", "recip", "recip";
            "sqrt", "sqrt", "sqrt", "sqrt", "sqrt";
            "rsqrt", "rsqrt", "rsqrt", "none", "none";
            "exp", "exp", "exp", "exp", "exp";
            "expm1", "expm1", "expm1", "none", "none";
            "ln", "ln", "log", "log", "log";
            "log1p", "log1p", "log1p", "none", "log1p";
            "sin", "sin", "sin", "sin", "sin";
            "cos", "cos", "cos", "cos", "cos";
            "erf", "erf", "erf", "erf", "erf";
            "floor", "floor", "floor", "floor", "floor";
            "ceil", "ceil", "ceil", "ceil", "ceil";
            "round", "round", "round", "round", "round";
            "maximum", "maximum", "maximum", "broadcast_maximum", "max_pair";
            "minimum", "minimum", "minimum", "broadcast_minimum", "min_pair";
            "clamp", "clamp", "clamp", "clamp", "clamp";
            "cast", "cast", "to(dtype)", "to_dtype", "cast";
        },
    ),
    (
        "Comparison and choice",
        names! {
            "equal", "compare", "eq, ==", "broadcast_eq", "equal";
            "not_equal", "compare", "ne, !=", "broadcast_ne", "not_equal";
            "less", "compare", "lt, <", "broadcast_lt", "lower";
            "less_equal", "compare", "le, <=", "broadcast_le", "lower_equal";
            "greater", "compare", "gt, >", "broadcast_gt", "greater";
            "greater_equal", "compare", "ge, >=", "broadcast_ge", "greater_equal";
            "and", "minimum", "logical_and, &", "none", "bool_and";
            "or", "maximum", "logical_or, |", "none", "bool_or";
            "not", "compare", "logical_not, ~", "none", "bool_not";
            "select", "where", "where", "where_cond", "mask_where";
            "masked_fill", "where", "masked_fill", "where_cond", "mask_fill";
            "is_nan", "compare", "isnan", "none", "is_nan";
            "is_finite", CONSTANT, "isfinite", "none", "is_finite";
            "any", CONSTANT, "any", "none", "any, any_dim";
            "all", CONSTANT, "all", "none", "all, all_dim";
            "", "all_finite", "isfinite(x).all()", "none", "is_finite, all";
        },
    ),
    (
        "Activations",
        names! {
            "relu", "relu", "relu", "relu", "activation::relu";
            "leaky_relu", "leaky_relu", "leaky_relu", "candle_nn::ops::leaky_relu", "activation::leaky_relu";
            "elu", SEVERAL, "elu", "elu", "none";
            "sigmoid", "sigmoid", "sigmoid", "candle_nn::ops::sigmoid", "activation::sigmoid";
            "tanh", "tanh", "tanh", "tanh", "tanh";
            "silu", "silu", "silu", "silu", "activation::silu";
            "softplus", "softplus", "softplus", "none", "activation::softplus";
            "swiglu", "swiglu", "silu(gate) * x", "candle_nn::ops::swiglu", "nn::SwiGlu";
            "gelu", "gelu", "gelu", "gelu_erf (exact), gelu (tanh)", "activation::gelu";
            "softmax", "softmax", "softmax", "candle_nn::ops::softmax", "activation::softmax";
            "log_softmax", SEVERAL, "log_softmax", "candle_nn::ops::log_softmax", "activation::log_softmax";
            "", "dropout", "dropout", "candle_nn::ops::dropout", "nn::Dropout";
        },
    ),
    (
        "Reductions",
        names! {
            "sum", "sum", "sum", "sum, sum_all", "sum, sum_dim";
            "mean", "mean", "mean", "mean", "mean, mean_dim";
            "mean_all", "mean", "mean()", "mean_all", "mean";
            "max", "max", "amax", "max, max_all", "max, max_dim";
            "min", "min", "amin", "min, min_all", "min, min_dim";
            "prod", "prod", "prod", "none", "prod, prod_dim";
            "variance", SEVERAL, "var", "var", "var, var_bias";
            "standard_deviation", SEVERAL, "std", "none", "none";
            "norm", SEVERAL, "linalg.vector_norm", "norm", "linalg::vector_norm";
            "logsumexp", SEVERAL, "logsumexp", "log_sum_exp", "none";
            "cosine_similarity", SEVERAL, "cosine_similarity", "none", "linalg::cosine_similarity";
            "argmax", CONSTANT, "argmax", "argmax", "argmax";
            "argmin", CONSTANT, "argmin", "argmin", "argmin";
            "cumsum", "cumsum", "cumsum", "cumsum", "none";
            "", "global_norm", "nn.utils.get_total_norm", "none", "none";
        },
    ),
    (
        "Products and attention",
        names! {
            "matmul", "matmul", "matmul, @", "matmul, broadcast_matmul", "matmul";
            "matmul_add", "matmul", "addmm", "none", "module::linear";
            "hadamard", SEVERAL, "none", "none", "none";
            "scaled_dot_product_attention", "masked_attention", "scaled_dot_product_attention", "candle_nn::ops::sdpa (Metal)", "none";
            "attend", "masked_attention", "scaled_dot_product_attention of x.transpose(1, 2)", "none", "nn::attention::MultiHeadAttention";
            "", "attention", "scaled_dot_product_attention of x.transpose(1, 2)", "none", "none";
            "", "cosine_attention", "none", "none", "none";
            "", "grouped_matmul", "", "", "none";
            "rotary", SEVERAL, "none", "candle_nn::rotary_emb::rope", "nn::RotaryEncoding";
        },
    ),
    (
        "Norms",
        names! {
            "layer_norm", "layer_norm", "layer_norm", "candle_nn::ops::layer_norm", "nn::LayerNorm";
            "", "batch_norm", "batch_norm", "candle_nn::BatchNorm", "nn::BatchNorm";
            "", "l2_norm", "normalize", "", "linalg::vector_normalize";
            "rms_norm", SEVERAL, "rms_norm", "candle_nn::ops::rms_norm", "nn::RmsNorm";
            "group_norm", SEVERAL, "group_norm", "candle_nn::GroupNorm", "nn::GroupNorm";
            "", "running_update", "running statistics of BatchNorm", "candle_nn::BatchNorm", "nn::BatchNorm";
        },
    ),
    (
        "Convolution, pooling, recurrence",
        names! {
            "conv1d", SEVERAL, "conv1d", "conv1d", "module::conv1d";
            "max_pool", SEVERAL, "max_pool1d", "none", "module::max_pool1d";
            "mean_pool", SEVERAL, "avg_pool1d", "none", "module::avg_pool1d";
            "interpolate", SEVERAL, "nn.functional.interpolate of one axis", "upsample_nearest1d", "module::interpolate";
            "gru", "gru", "nn.GRU", "candle_nn::rnn::GRU", "nn::gru::Gru";
            "lstm", "lstm", "nn.LSTM", "candle_nn::rnn::LSTM", "nn::Lstm";
            "scan", SEVERAL, "a Python loop", "a Rust loop", "a Rust loop";
        },
    ),
    (
        "Losses",
        names! {
            "cross_entropy", "cross_entropy", "cross_entropy", "candle_nn::loss::cross_entropy", "nn::loss::CrossEntropyLoss";
            "binary_cross_entropy", SEVERAL, "binary_cross_entropy_with_logits", "candle_nn::loss::binary_cross_entropy_with_logit", "nn::loss::BinaryCrossEntropyLoss";
            "kl_divergence", SEVERAL, "kl_div(reduction='batchmean')", "none", "";
            "", "mse", "mse_loss", "candle_nn::loss::mse", "nn::loss::MseLoss";
            "", "mae", "l1_loss", "none", "";
        },
    ),
    (
        "Shapes",
        names! {
            "reshape", VIEW, "reshape, view", "reshape", "reshape";
            "unsqueeze", VIEW, "unsqueeze", "unsqueeze", "unsqueeze";
            "squeeze", VIEW, "squeeze", "squeeze", "squeeze";
            "chunk", VIEW, "chunk", "chunk", "chunk";
            "permute", VIEW, "permute", "permute", "permute";
            "transpose", VIEW, "mT, transpose(-1, -2)", "t", "transpose";
            "slice", VIEW, "narrow, x[:, 2:5]", "narrow, i", "narrow, slice";
            "slice_step", VIEW, "x[:, ::2]", "none", "";
            "broadcast_to", VIEW, "expand", "broadcast_as", "expand";
            "unfold", VIEW, "unfold", "unfold", "none";
            "detach", VIEW, "detach", "detach", "detach";
            "concat", "concat", "cat", "Tensor::cat", "Tensor::cat";
            "stack", "concat", "stack", "Tensor::stack", "Tensor::stack";
            "copy", "copy", "contiguous, clone", "contiguous, copy", "none";
            "flip", SEVERAL, "flip", "flip", "flip";
            "roll", SEVERAL, "roll", "roll", "roll";
            "tile", SEVERAL, "repeat, tile", "repeat", "repeat, repeat_dim";
            "repeat_interleave", SEVERAL, "repeat_interleave", "none", "none";
                "pad", "pad", "nn.functional.pad", "pad_with_zeros", "pad";
            "", "pad_edge", "pad(mode='replicate')", "pad_with_same", "none";
            "", "fold", "nn.functional.fold", "none", "none";
        },
    ),
    (
        "Indexing and order",
        names! {
            "gather", "gather", "gather, take_along_dim", "gather", "gather";
            "take", "gather", "index_select", "index_select", "select";
            "embedding", "gather", "nn.functional.embedding", "embedding", "module::embedding";
            "scatter_add", "scatter_add", "scatter_add", "scatter_add", "scatter";
            "index_add", "scatter_add", "index_add", "index_add", "select_assign";
            "scatter", SEVERAL, "index_copy", "none", "none";
            "sort", "sort", "sort", "sort_last_dim", "sort_with_indices";
            "argsort", "sort", "argsort", "arg_sort_last_dim", "argsort";
            "largest", "sort", "topk", "none", "topk_with_indices";
            "one_hot", CONSTANT, "one_hot", "candle_nn::encoding::one_hot", "one_hot";
            "", "lookup", "none", "none", "none";
            "", "window_gather", "none", "none", "none";
        },
    ),
    (
        "Tensors from nothing",
        names! {
            "fill", "fill", "full, zeros, ones", "full, zeros, ones", "full, zeros, ones";
            "scalar", "fill", "full_like(x, v)", "full", "full_like";
            "arange", "iota", "arange", "arange, arange_step", "Tensor::arange";
            "linspace", "iota", "linspace", "none", "none";
            "eye", CONSTANT, "eye", "eye", "Tensor::eye";
            "lower_triangle", CONSTANT, "tril(ones(..))", "tril2", "tril_mask";
            "normal", CONSTANT, "randn", "randn", "Tensor::random(Distribution::Normal)";
            "", "uniform", "rand", "rand", "Tensor::random(Distribution::Uniform)";
            "", "bernoulli", "bernoulli", "none", "Tensor::random(Distribution::Bernoulli)";
        },
    ),
    (
        "Steps of training",
        names! {
            "assign", "assign", "copy_", "Var::set", "none";
            "assign_rows", "assign_rows", "slice assignment, index_copy_", "slice_set", "slice_assign";
            "", "adam", "optim.Adam, optim.AdamW", "candle_nn::AdamW", "optim::Adam, optim::AdamW";
            "", "clip_scale", "nn.utils.clip_grad_norm_", "none", "GradientClippingConfig::Norm";
            "", "loss_scale", "amp.GradScaler", "none", "none";
            "", "accumulate", "+= of a metric", "none", "none";
            "", "micro_batch_mean", "+= of .grad", "none", "GradientsAccumulator";
            "", "ring_push", "none", "none", "none";
            "", "advance", "none", "none", "none";
            "", "advance_micro", "none", "none", "none";
            "", "batch_windows", "DataLoader", "none", "data::dataloader";
            "", "pack", "nn.utils.parameters_to_vector", "none", "none";
        },
    ),
    (
        "Mixture of experts",
        names! {
            "", "top_k", "topk of a softmax", "", "none";
            "", "route_map", "none", "", "none";
            "", "permute", "none", "", "none";
        "", "sort_chunks", "none", "", "none";
            "", "chunk_map", "none", "", "none";
            "", "pair_probs", "none", "", "none";
            "", "unpermute", "none", "", "none";
        },
    ),
    (
        "Several ranks",
        names! {
            "", "all_reduce", "distributed.all_reduce", "none", "collective all_reduce";
            "", "all_gather", "distributed.all_gather_into_tensor", "none", "none";
            "", "reduce_scatter", "distributed.reduce_scatter_tensor", "none", "none";
            "", "broadcast", "distributed.broadcast", "none", "collective broadcast";
            "", "all_to_all", "distributed.all_to_all_single", "none", "none";
        },
    ),
    (
        "Gradients of fused ops",
        names! {
            "", "attention_grad", "autograd", "none", "none";
            "", "batch_norm_grad", "autograd", "none", "none";
            "", "cosine_attention_grad", "none", "none", "none";
            "", "cross_entropy_grad", "autograd", "none", "none";
            "", "gelu_grad", "autograd", "none", "none";
            "", "grouped_matmul_grad", "none", "none", "none";
            "", "gru_grad", "autograd", "none", "none";
            "", "lstm_grad", "autograd", "none", "none";
            "", "l2_norm_grad", "autograd", "none", "none";
            "", "layer_norm_grad", "autograd", "none", "none";
            "", "mae_grad", "autograd", "none", "none";
            "", "masked_attention_grad", "autograd", "none", "none";
            "", "mse_grad", "autograd", "none", "none";
            "", "top_k_grad", "none", "none", "none";
            "", "unpermute_grad", "none", "none", "none";
        },
    ),
];

/// Words of a training program that are neither op nor method of the graph: PyTorch, candle, burn, ours.
const PROGRAMS: &[[&str; 4]] = &[
    ["torch.device", "Device", "Device of a Backend", "Engine"],
    ["Tensor", "Tensor", "Tensor", "Tensor (memory), Value (in a graph), Var (with operators)"],
    ["torch.compile, CUDA graphs", "none", "none", "Program::compile, Program::run"],
    ["loss.backward()", "backward", "backward", "grad"],
    [
        "detach, no_grad",
        "detach",
        "detach, no_grad of a module",
        "Graph::detach; gradients exist only where grad asks for them",
    ],
    ["autograd.grad(create_graph=True)", "none", "none", "grad of grad"],
    ["nn.Module, nn.Parameter", "Module, VarBuilder", "Module, Param", "nn::Parameters, ParameterId"],
    ["nn.Linear", "candle_nn::Linear", "nn::Linear", "nn::Linear"],
    [
        "nn.Linear(bias=False)",
        "candle_nn::linear_no_bias",
        "nn::LinearConfig::with_bias",
        "nn::Linear::unbiased",
    ],
    ["nn.Embedding", "candle_nn::Embedding", "nn::Embedding", "nn::Embedding"],
    ["nn.Conv1d", "candle_nn::Conv1d", "nn::conv::Conv1d", "nn::Conv1d"],
    ["nn.MultiheadAttention", "none", "nn::attention::MultiHeadAttention", "nn::MultiHeadAttention"],
    ["layers nn.GRU, nn.LSTM", "candle_nn::rnn::GRU, LSTM", "nn::gru::Gru, nn::Lstm", "nn::Gru, nn::Lstm"],
    [
        "mse_loss, l1_loss of a model",
        "candle_nn::loss::mse",
        "nn::loss::MseLoss",
        "nn::loss::mse, nn::loss::mae",
    ],
    [
        "nn.LayerNorm, nn.BatchNorm1d",
        "candle_nn::LayerNorm, BatchNorm",
        "nn::LayerNorm, nn::BatchNorm",
        "nn::Norm",
    ],
    ["huber_loss", "candle_nn::loss::huber", "nn::loss::HuberLoss", "nn::loss::huber"],
    ["nn.Dropout", "candle_nn::Dropout", "nn::Dropout", "nn::Dropout"],
    ["model.train(), model.eval()", "train: bool", "AutodiffBackend, valid()", "nn::Mode"],
    ["nn.init", "candle_nn::Init", "nn::Initializer", "nn::Init"],
    ["requires_grad_(False)", "Tensor instead of Var", "no_grad of a module", "Parameters::freeze"],
    ["parameter groups of an optimizer", "none", "none", "Parameters::group"],
    ["TensorDataset, DataLoader", "none", "Dataset, DataLoader", "train::Arrays"],
    ["optim.Adam, AdamW, SGD", "candle_nn::AdamW, SGD", "optim::Adam, AdamW, Sgd", "train::OptimizerKind"],
    ["optim.lr_scheduler", "none", "lr_scheduler", "train::Schedule, Trainer::schedule"],
    ["optim.swa_utils.AveragedModel", "none", "none", "TrainingOptions::average"],
    ["a training loop", "a training loop", "Learner", "train::Trainer: fit, run, step"],
    ["autocast", "none", "none", "TrainingOptions::dtype, mixed_precision"],
    ["autocast(enabled=False)", "none", "none", "Graph::full_precision"],
    ["utils.checkpoint.checkpoint", "none", "balanced autodiff", "Graph::checkpoint"],
    ["torch.Generator", "none", "none", "Graph::draws"],
    ["optimizer.step()", "Optimizer::step", "Optimizer::step", "train::Minimiser"],
    ["state_dict, save_file", "VarMap::save", "Recorder", "checkpoint::File"],
    ["cuda.synchronize", "Device::synchronize", "Backend::sync", "Engine::synchronize"],
    ["cuda.memory_allocated", "none", "", "Engine::counters, Program::report"],
    ["autograd.set_detect_anomaly", "none", "none", "Program::find_non_finite"],
    ["torch.profiler", "none", "", "Program::profile"],
    ["autograd.Function, custom ops", "CustomOp1", "an extension of a Backend", "Op"],
];

const HEAD: &str = "# Names

What is called how in PyTorch, candle 0.9 and burn 0.18, and here. Written by `cargo xtask ops`: the columns about our ops come from the
op table, and the foreign names from one list in `crates/landfall-suite/src/names.rs`. `none` means that there is no such function, an
empty cell that we have not looked it up. PyTorch's names are those of `torch`, `torch.Tensor` or `torch.nn.functional` where they begin with
no module.

*Graph* is the method of `landfall::Graph`, *Var* the method or operator of `landfall::Var`; an op without a method is added with
`Graph::op1`, or called eagerly with `Engine::call`. *Dtypes* are those of the arguments that the op leaves open. *Lies on*: the arguments
whose memory the result may share. What is made of several ops has the dtypes and the gradient of these. [ops.md](ops.md) has the attributes, and each reason why there is no
gradient.
";

/// Methods that build or inspect a graph and compute nothing.
const BUILDERS: &[&str] = &[
    "checkpoint",
    "composed",
    "distinct",
    "draws",
    "entry",
    "full_precision",
    "in_primitives",
    "input",
    "made",
    "name",
    "name_of",
    "op",
    "op1",
    "op_dyn",
    "output",
    "repeat_so_far",
    "scope",
    "shape",
    "slab",
    "spec",
    "state_spec",
    "var",
];

/// The engine's operators on `Var`.
const OPERATORS: &[(&str, &str)] = &[
    ("add", "x + y"),
    ("sub", "x - y"),
    ("mul", "x * y"),
    ("div", "x / y"),
    ("rem", "x % y"),
    ("neg", "-x"),
    ("not", "!x"),
];

/// The page.
pub(crate) fn render(facts: &[Facts]) -> Check<String> {
    let (methods, of_var) = methods()?;
    let listed = || TOPICS.iter().flat_map(|(_, names)| *names);
    let known = |op: &str| facts.iter().find(|f| f.names.contains(&op));
    for fact in facts {
        for op in &fact.names {
            ensure!(
                listed().any(|n| n.op == *op),
                "op {op} has no entry in the list of names: add what it is called elsewhere, or `none`, to \
                 crates/landfall-suite/src/names.rs"
            );
        }
    }
    for method in methods.iter().filter(|m| !BUILDERS.contains(&m.as_str())) {
        ensure!(
            listed().any(|n| n.method == method),
            "Graph::{method} has no entry in the list of names: add what it is called elsewhere, or `none`, to \
             crates/landfall-suite/src/names.rs"
        );
    }
    let mut text = HEAD.to_owned();
    for (topic, names) in TOPICS {
        text.push_str(&format!(
            "\n## {topic}\n\n| PyTorch | candle | burn | Graph | Var | op | dtypes | devices | lies on | gradient |\n|{}\n",
            "---|".repeat(10)
        ));
        for name in *names {
            ensure!(
                name.method.is_empty() || methods.contains(name.method),
                "there is no Graph::{}; take it out of the list of names",
                name.method
            );
            let fact = match name.op {
                VIEW | SEVERAL | CONSTANT => None,
                op => Some(known(op).ok_or_else(|| Failure(format!("there is no op {op} in the table")))?),
            };
            text.push_str(&row(name, fact, &methods, &of_var));
        }
    }
    text.push_str("\n## Programs\n\n| PyTorch | candle | burn | Landfall |\n|---|---|---|---|\n");
    for row in PROGRAMS {
        text.push_str(&format!("| {} |\n", row.map(str::to_owned).join(" | ")));
    }
    Ok(text)
}

fn row(name: &Name, fact: Option<&Facts>, methods: &BTreeSet<String>, of_var: &BTreeSet<String>) -> String {
    let code = |text: &str| match text {
        "" => String::new(),
        text => format!("`{text}`"),
    };
    let var = match OPERATORS.iter().find(|(method, _)| *method == name.method) {
        Some((_, operator)) => code(operator),
        None if of_var.contains(name.method) => code(name.method),
        // A method of `Var` alone.
        None if name.method.is_empty() && of_var.contains(name.op) && !methods.contains(name.op) => {
            code(name.op)
        }
        None => String::new(),
    };
    let foreign = |text: &str| match text {
        "" | "none" => text.to_owned(),
        text => text.split(", ").map(|t| t.replace('|', "\\|")).collect::<Vec<_>>().join(", "),
    };
    let ours = match fact {
        Some(f) => {
            let gradient = if f.gradient.starts_with("none") { "no" } else { "yes" };
            format!("`{}` | {} | {} | {} | {gradient}", name.op, dtypes(&f.marks), f.devices, f.alias)
        }
        None if name.op == VIEW => format!("{VIEW} | all | all | x | yes"),
        None if name.op == CONSTANT => format!("{SEVERAL} |  | all |  | no"),
        None => format!("{SEVERAL} |  | all |  | theirs"),
    };
    format!(
        "| {} | {} | {} | {} | {var} | {ours} |\n",
        foreign(name.torch),
        foreign(name.candle),
        foreign(name.burn),
        code(name.method)
    )
}

/// The dtypes with a mark, in words where there is one for them.
fn dtypes(marks: &[&str]) -> String {
    let taken: Vec<DType> =
        DType::ALL.iter().zip(marks).filter(|(_, mark)| !mark.trim().is_empty()).map(|(d, _)| *d).collect();
    let floats = DType::ALL.iter().filter(|d| d.is_float()).count();
    let all_floats = taken.iter().filter(|d| d.is_float()).count() == floats;
    let rest: Vec<&str> = taken.iter().filter(|d| !d.is_float()).map(|d| d.name()).collect();
    match (all_floats, rest.len()) {
        (true, 0) => "floats".to_owned(),
        _ if taken.len() == DType::ALL.len() => "all".to_owned(),
        (true, _) => format!("floats, {}", rest.join(", ")),
        (false, _) => taken.iter().map(|d| d.name()).collect::<Vec<_>>().join(", "),
    }
}

/// The public methods of `Graph` and of `Var`, from the engine's source: macros make many of them.
fn methods() -> Check<(BTreeSet<String>, BTreeSet<String>)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../landfall/src");
    let (mut of_graph, mut of_var) = (BTreeSet::new(), BTreeSet::new());
    let mut folders = vec![source.join("ops"), source.join("contract"), source.join("passes")];
    while let Some(folder) = folders.pop() {
        let failed = |e: std::io::Error| Failure(format!("{}: {e}", folder.display()));
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).map_err(failed)?;
                in_blocks(&text, "impl Graph {", "&self", &mut of_graph);
                in_blocks(&text, "impl<'g> Var<'g> {", "self", &mut of_var);
            }
        }
    }
    ensure!(
        of_graph.contains("tanh") && of_graph.contains("conv1d"),
        "methods of Graph were not found: {of_graph:?}"
    );
    ensure!(
        of_var.contains("matmul") && of_var.contains("powf"),
        "methods of Var were not found: {of_var:?}"
    );
    Ok((of_graph, of_var))
}

/// The methods in each block that begins with this line: functions that take `receiver`, and names in the macros of methods.
fn in_blocks(text: &str, head: &str, receiver: &str, found: &mut BTreeSet<String>) {
    let (mut inside, mut made) = (false, false);
    let lines: Vec<&str> = text.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        match *line {
            line if line == head => inside = true,
            "}" => inside = false,
            _ => {}
        }
        if !inside {
            continue;
        }
        let line = line.trim();
        if line.ends_with("methods! {") {
            made = true;
        } else if line == "}" {
            made = false;
        } else if made && !line.starts_with("//") {
            // `name = ops::Name;`, `name(argument: Type); name();` or `name name`.
            let parts = line.split([';', ' ']).filter(|p| !p.is_empty());
            let named = match line.split_once(" = ") {
                Some((name, _)) => vec![name],
                None if line.contains('(') => line
                    .split(';')
                    .filter_map(|call| call.trim().split_once('('))
                    .map(|(name, _)| name)
                    .collect(),
                None => parts.collect(),
            };
            found.extend(named.into_iter().map(str::to_owned));
        }
        if let Some(rest) = line.strip_prefix("pub fn ") {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let signature = lines[i..lines.len().min(i + 3)].join(" ");
            if signature.contains(receiver) {
                found.insert(name);
            }
        }
    }
}
