//! The update of parameters, as a call of a traced function.

use landfall::{Error, Graph, Value as Node};
use landfall_train::nn::Parameters;
use landfall_train::train::{Held, Minimiser, Optimizer};
use std::sync::Arc;

/// Parameters, an optimizer, and how it treats them.
#[derive(Debug)]
pub(crate) struct Minimisation {
    pub(super) parameters: Parameters,
    pub(super) optimizer: Arc<dyn Optimizer>,
    pub(super) weight_decay: f64,
    pub(super) clip: Option<f64>,
}

impl Minimisation {
    /// Appends the update to a graph: the norm of the gradients, and whether the step was sound.
    pub(super) fn append(&self, g: &Graph, loss: Node, lr: Node, held: &Held) -> Result<Vec<Node>, Error> {
        let minimiser = Minimiser::new("", &self.parameters, self.optimizer.as_ref());
        let minimiser = minimiser.weight_decay(self.weight_decay).clip(self.clip);
        let minimised = minimiser.minimise_held(g, loss, lr, held)?;
        Ok(vec![minimised.norm, minimised.ok])
    }
}
