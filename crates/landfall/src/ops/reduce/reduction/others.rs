//! The gradient of a product.

use crate::contract::{Graph, Value};
use crate::error::Error;
use crate::values::Shape;

impl Graph {
    /// `c Π_{j ≠ i} x_j` for each element of `x`, over `axes`, with `c` of the shape of the product.
    ///
    /// By halves: the product of the lower half of each row times its upper half, and on the way back `c` times the other half. Nothing is
    /// divided, so zeros are exact, in gradients of any order.
    pub(in crate::ops) fn others(&self, x: Value, c: Value, axes: &[usize]) -> Result<Value, Error> {
        let shape = self.shape(x);
        let kept = (0..shape.rank()).filter(|a| !axes.contains(a));
        let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
        let ordered = self.permute(x, &order)?;
        let count: usize = axes.iter().map(|&a| shape.dims()[a]).product();
        let rows = self.shape(c).elements();
        let mut level = self.reshape(ordered, [rows, count])?;
        let ones = count.next_power_of_two() - count;
        if ones > 0 {
            level = self.concat(&[level, self.fill(self.spec(x).dtype, [rows, ones], 1.0)?], 1)?;
        }
        let mut halves = Vec::new();
        while self.shape(level).last() > 1 {
            let [lower, upper] = self.chunk(level, 1)?;
            halves.push((lower, upper));
            level = self.mul(lower, upper)?;
        }
        let mut c = self.reshape(c, [rows, 1])?;
        for (lower, upper) in halves.into_iter().rev() {
            c = self.concat(&[self.mul(c, upper)?, self.mul(c, lower)?], 1)?;
        }
        let mut sizes = Shape::SCALAR;
        order.iter().for_each(|&a| sizes.push(shape.dims()[a]));
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &a)| back[a] = place);
        let of_row = self.reshape(self.slice(c, 1, 0, count)?, sizes)?;
        self.permute(of_row, &back)
    }
}
