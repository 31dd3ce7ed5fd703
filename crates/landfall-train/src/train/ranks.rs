//! What the ranks of a step do together: the mean of their gradients, in buckets while the backward pass goes on, and of what the
//! step reports.

use landfall::ops::{self, AllReduce, Reduction};
use landfall::{ENTRY_ALIGNMENT, Error, Graph, Shape, Value};

/// Bytes of gradients that are combined at once, at least: fewer make a collective wait for its latency, more leave less of the
/// backward pass to hide it behind.
const BUCKET: usize = 8 << 20;

/// The number of ranks that compute a step together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranks(pub(super) usize);

impl Ranks {
    /// The mean of a value over the ranks: the value itself, if there is but one.
    pub(super) fn mean(self, g: &Graph, value: Value) -> Result<Value, Error> {
        if self.0 == 1 {
            return Ok(value);
        }
        g.op1(AllReduce { reduction: Reduction::Mean }, &[value])
    }

    /// The means of several small values of one dtype, in one collective.
    pub(super) fn means(self, g: &Graph, values: &[Value]) -> Result<Vec<Value>, Error> {
        if self.0 == 1 {
            return Ok(values.to_vec());
        }
        let all = self.mean(g, g.op1(ops::Pack, values)?)?;
        let mut start = 0usize;
        values
            .iter()
            .map(|&value| {
                let shape: Shape = g.shape(value);
                let at = start.next_multiple_of(ENTRY_ALIGNMENT);
                start = at + shape.elements();
                g.reshape(g.slice(all, 0, at, shape.elements())?, shape)
            })
            .collect()
    }

    /// The mean of gradients over the ranks, packed as the slab of their parameters. Neighbours are packed into buckets of
    /// [`BUCKET`] bytes, each combined where it lies as soon as its last gradient is there.
    pub(super) fn packed(self, g: &Graph, gradients: &[Value]) -> Result<Value, Error> {
        if self.0 == 1 {
            return g.op1(ops::Pack, gradients);
        }
        let mut buckets = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for (i, &gradient) in gradients.iter().enumerate() {
            bytes += g.spec(gradient).bytes();
            if bytes >= BUCKET || i + 1 == gradients.len() {
                let bucket = self.mean(g, g.op1(ops::Pack, &gradients[first..=i])?)?;
                buckets.push(g.name(bucket, &format!("gradients of bucket {}", buckets.len())));
                (first, bytes) = (i + 1, 0);
            }
        }
        g.op1(ops::Pack, &buckets)
    }
}
