//! Low-rank adapters (LoRA): a small correction of each named matrix, trained in place of it.

use super::context::Context;
use super::parameter::{Adapter, Init, Parameter, Parameters};
use landfall::{Error, HostTensor, Rule, Value};
use serde::{Deserialize, Serialize};
use std::panic::Location;

/// Low-rank adapters (Hu et al. 2021, [arXiv 2106.09685](https://arxiv.org/abs/2106.09685)): a weight `W [out, in]` counts as
/// `W + alpha/rank · B·A` with `A [rank, in]` and `B [out, rank]`, which alone are trained ([`Parameters::adapt`]).
///
/// ```
/// use landfall_train::nn::LowRank;
/// let adapter = LowRank { rank: 8, alpha: 16.0, targets: vec!["attention.q".to_owned(), "attention.v".to_owned()] };
/// assert_eq!(adapter.scale(), 2.0);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LowRank {
    /// Rows of A and columns of B.
    pub rank: usize,
    /// The factor of their product, times the rank.
    pub alpha: f64,
    /// Which layers: those with one of these dotted names, and those whose names end with a dot and it.
    pub targets: Vec<String>,
}

impl LowRank {
    /// The factor of the product, `alpha / rank`.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank.max(1) as f64
    }

    /// Whether a layer is meant by this target.
    fn means(target: &str, layer: &str) -> bool {
        layer.strip_suffix(target).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    }
}

/// What names of adapters begin with in files of the PEFT library, and what weights end with.
const FILED: &str = "base_model.model.";
const WEIGHT: &str = ".weight";

impl Parameters {
    /// Freezes all parameters and adds an adapter to the weight of each layer that is meant, by its names in checkpoints: of a stacked
    /// parameter to the parts that are named. [`Context::parameter`] gives weights with their adapters, so the model stays as it is.
    /// A begins uniform in ±1/√in and B with zeros: at first nothing changes. Returns how many weights have an adapter.
    ///
    /// The parameters of `layer.weight` are `layer.lora_A.weight` and `layer.lora_B.weight`, in checkpoints with `base_model.model.` in
    /// front, as the PEFT library names them.
    ///
    /// ```
    /// use landfall::Engine;
    /// use landfall_train::nn::{Linear, LowRank, Parameters, loss};
    /// use landfall_train::train::{Arrays, Trainer, TrainingOptions};
    /// let data = Arrays::new().with("x", [8, 4], vec![1.0f32; 32])?.with("y", [8, 3], vec![1.0f32; 24])?;
    /// let mut p = Parameters::new();
    /// let head = Linear::new(&mut p, "head", 4, 3);
    /// assert_eq!(p.adapt(&LowRank { rank: 2, alpha: 4.0, targets: vec!["head".to_owned()] })?, 1);
    /// assert_eq!(p.count(), 2 * 4 + 3 * 2); // what is trained
    ///
    /// let mut trainer = Trainer::new(&Engine::cpu()?, &p, &data, TrainingOptions::default(), |cx, batch| {
    ///     loss::mse(cx.graph, head.forward(cx, batch.get("x")?)?, batch.get("y")?)
    /// })?;
    /// let before = trainer.state.read::<f32>("head.weight")?;
    /// trainer.step()?;
    /// assert_eq!(trainer.state.read::<f32>("head.weight")?, before);
    /// assert_ne!(trainer.state.read::<f32>("head.lora_B.weight")?, [0.0; 6]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// A rank of 0, a factor that is not finite; a target that means no layer, a layer whose weight is no matrix or has an adapter.
    /// Then nothing is changed.
    #[track_caller]
    pub fn adapt(&mut self, how: &LowRank) -> Result<usize, Error> {
        let at = Location::caller();
        let refused = |rule: Rule| Err(rule.of("adapt", &[], None, Some(at)).into());
        let wrong = |name, value: String, takes| Rule::AttributeValue { name, value, takes, choices: &[] };
        if how.rank == 0 {
            return refused(Rule::Attribute { name: "rank", value: 0.0, expected: "at least 1" });
        }
        if !how.alpha.is_finite() {
            return refused(Rule::Attribute { name: "alpha", value: how.alpha, expected: "finite" });
        }
        let weights = || {
            let parts = |(number, p): (usize, &'_ Parameter)| {
                let own: Vec<_> =
                    p.parts.iter().enumerate().map(|(i, name)| ((number, i), name.clone())).collect();
                own
            };
            self.list
                .iter()
                .enumerate()
                .flat_map(parts)
                .filter_map(|(of, name)| Some((of, name.strip_suffix(WEIGHT)?.to_owned())))
        };
        for target in &how.targets {
            if !weights().any(|(_, layer)| LowRank::means(target, &layer)) {
                let takes = "the name of a layer with a weight, or what it ends with behind a dot";
                return refused(wrong("target", target.clone(), takes));
            }
        }
        let meant = |layer: &str| how.targets.iter().any(|target| LowRank::means(target, layer));
        let hit: Vec<_> = weights().filter(|(_, layer)| meant(layer)).collect();
        if hit.is_empty() {
            return refused(Rule::Missing { name: "a target", takes: "a layer that gets an adapter" });
        }
        for (of, layer) in &hit {
            let shape = self.list[of.0].shape;
            if shape.rank() != 2 {
                return refused(wrong(
                    "target",
                    format!("{layer}, whose weight is {shape}"),
                    "a layer whose weight is a matrix",
                ));
            }
            if self.adapters.iter().any(|adapter| adapter.of == *of) {
                return refused(wrong("target", layer.clone(), "a layer that has no adapter yet"));
            }
        }
        self.freeze("");
        for (of, layer) in &hit {
            let (rows, columns) = (self.list[of.0].part().dims()[0], self.list[of.0].shape.dims()[1]);
            let mut add = |factor: &str, shape: [usize; 2], init| {
                let name = format!("{layer}.lora_{factor}{WEIGHT}");
                self.add_stacked(&name, &[&format!("{FILED}{name}")], shape, init).index
            };
            let down = add("A", [how.rank, columns], Init::fan_in(columns));
            let up = add("B", [rows, how.rank], Init::Constant(0.0));
            self.adapters.push(Adapter { of: *of, factors: [down, up], scale: how.scale() });
        }
        Ok(hit.len())
    }

    /// The parameters that are no part of an adapter, in order.
    pub fn base(&self) -> impl Iterator<Item = &Parameter> {
        let of_adapter = |i: &usize| self.adapters.iter().any(|adapter| adapter.factors.contains(i));
        (0..self.list().len()).filter(move |i| !of_adapter(i)).map(|i| &self.list[i])
    }

    /// The values of a parameter with its adapters in it, of what `value` gives for it and for their factors.
    ///
    /// ```
    /// use landfall::{DType, HostTensor};
    /// use landfall_train::nn::{Linear, LowRank, Parameters};
    /// let mut p = Parameters::new();
    /// Linear::unbiased(&mut p, "head", 2, 2);
    /// p.adapt(&LowRank { rank: 1, alpha: 3.0, targets: vec!["head".to_owned()] })?;
    /// let ones = |p: &landfall_train::nn::Parameter| {
    ///     HostTensor::new(DType::F32, p.shape, vec![1.0; p.shape.elements()])
    /// };
    /// let merged = p.merged(&p.list()[0], ones).map_err(landfall::Error::from)?;
    /// assert_eq!(merged.data, [4.0; 4]); // 1 + 3 · 1 · 1
    /// assert_eq!(p.base().count(), 1);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `value`.
    pub fn merged<E>(
        &self,
        parameter: &Parameter,
        mut value: impl FnMut(&Parameter) -> Result<HostTensor, E>,
    ) -> Result<HostTensor, E> {
        let mut whole = value(parameter)?;
        let own = |adapter: &&Adapter| self.list[adapter.of.0].name == parameter.name;
        for adapter in self.adapters.iter().filter(own) {
            let [down, up] = adapter.factors.map(|i| &self.list[i]);
            let (columns, rank) = (down.shape.dims()[1], down.shape.dims()[0]);
            let (down, up) = (value(down)?.data, value(up)?.data);
            let first = adapter.of.1 * up.len() / rank * columns;
            let part = &mut whole.data[first..first + up.len() / rank * columns];
            for (row, up) in part.chunks_mut(columns).zip(up.chunks(rank)) {
                for (down, up) in down.chunks(columns).zip(up) {
                    row.iter_mut().zip(down).for_each(|(w, a)| *w += adapter.scale * up * a);
                }
            }
        }
        Ok(whole)
    }
}

impl Context<'_> {
    /// A parameter's value with its adapters, in the dtype of the parameters.
    #[track_caller]
    pub(super) fn adapted(&self, number: usize, weight: Value) -> Result<Value, Error> {
        let (g, p) = (self.graph, self.parameters);
        let of = |part: usize| p.adapters.iter().find(|adapter| adapter.of == (number, part));
        let parts = p.list()[number].parts.len();
        if (0..parts).all(|part| of(part).is_none()) {
            return Ok(weight);
        }
        let rows = g.shape(weight).dims()[0] / parts;
        let one = |part: usize| {
            let own = if parts == 1 { weight } else { g.slice(weight, 0, part * rows, rows)? };
            let Some(adapter) = of(part) else { return Ok(own) };
            let [down, up] = adapter.factors.map(|i| self.entry(&p.list()[i]));
            g.add(own, g.affine(g.matmul(up?, down?)?, adapter.scale, 0.0)?)
        };
        g.full_precision(|| {
            let all = (0..parts).map(one).collect::<Result<Vec<_>, Error>>()?;
            if let [whole] = all.as_slice() { Ok(*whole) } else { g.concat(&all, 0) }
        })
    }
}
