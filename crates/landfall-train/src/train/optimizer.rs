//! Optimizers: slabs of the state, and the end of a step's graph.

use super::TrainingOptions;
use super::names::{
    BUFFERS, FROZEN, GRADIENTS, LOSS_SCALE, MEAN_GRADIENTS, MEAN_LOSS, MEANS, MOMENTS, PARAMETERS, mean_of,
};
use crate::nn::Parameters;
use landfall::{DType, Error, Graph, Shape, StateSpec, Value, ops};
use serde::{Deserialize, Serialize};

/// Which optimizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerKind {
    /// Adam (Kingma & Ba 2015); weight decay is added to the gradient.
    Adam,
    /// AdamW (Loshchilov & Hutter 2019); weight decay shrinks the parameters.
    AdamW,
}

/// Adds the slabs that a model and its optimizer need under these options.
pub(crate) fn add_slabs(
    spec: &mut StateSpec,
    p: &Parameters,
    options: &TrainingOptions,
) -> Result<(), Error> {
    let dtype = options.dtype;
    let entries = |list: &[&crate::nn::Parameter]| {
        list.iter().map(|p| (p.name.clone(), p.shape)).collect::<Vec<(String, Shape)>>()
    };
    let wide = dtype.accumulate();
    let trainable = entries(&p.trainable());
    let frozen: Vec<&crate::nn::Parameter> = p.list().iter().filter(|p| p.frozen).collect();
    spec.add(PARAMETERS, wide, &trainable)?;
    spec.add_constant(FROZEN, wide, &entries(&frozen))?;
    let buffers: Vec<(String, Shape)> = p.buffers().iter().map(|b| (b.name.clone(), b.shape)).collect();
    spec.add(BUFFERS, wide, &buffers)?;
    for moment in &MOMENTS {
        let named: Vec<(String, Shape)> = trainable.iter().map(|(n, s)| (moment.entry(n), *s)).collect();
        spec.add(moment.slab, wide, &named)?;
    }
    if options.accumulate > 1 {
        let elements = spec.find_slab(PARAMETERS)?.1.elements;
        spec.add(GRADIENTS, wide, &[(MEAN_GRADIENTS.to_owned(), [elements].into())])?;
        let statistics = p.buffers().iter().map(|b| (mean_of(&b.name), b.shape));
        let means: Vec<_> =
            std::iter::once((MEAN_LOSS.to_owned(), Shape::SCALAR)).chain(statistics).collect();
        spec.add(MEANS, wide, &means)?;
    }
    if dtype == DType::F16 {
        spec.add(LOSS_SCALE, DType::F32, &[(LOSS_SCALE.to_owned(), [2].into())])?;
    }
    Ok(())
}

/// What the optimizer needs of a step.
pub(crate) struct Update {
    /// Gradients, packed as the parameters' slab.
    pub(crate) gradients: Value,
    /// The step's cursor.
    pub(crate) cursor: Value,
    /// Learning rate, an f64 scalar.
    pub(crate) lr: Value,
    /// Factor of the gradients.
    pub(crate) scale: Value,
    /// Whether the step is sound.
    pub(crate) ok: Value,
}

/// Appends the update of every trainable parameter: one op over the whole slab.
pub(crate) fn update(
    g: &Graph,
    p: &Parameters,
    options: &TrainingOptions,
    step: &Update,
) -> Result<(), Error> {
    let (_, slab) = g.state_spec().find_slab(PARAMETERS)?;
    let decaying = p.trainable().iter().filter(|p| p.decay).count();
    let decay_elements = slab.entries.get(decaying).map_or(slab.elements, |e| e.offset);
    let op = ops::Adam {
        beta1: options.betas.first,
        beta2: options.betas.second,
        eps: 1e-8,
        weight_decay: options.weight_decay,
        decoupled: options.optimizer == OptimizerKind::AdamW,
        decay_elements,
    };
    let [first, second] = &MOMENTS;
    let (parameters, first, second) = (g.slab(PARAMETERS)?, g.slab(first.slab)?, g.slab(second.slab)?);
    g.op(op, &[parameters, step.gradients, first, second, step.cursor, step.lr, step.scale, step.ok])?;
    Ok(())
}
