//! What gather and scatter-add have in common: an axis of a table, an index, and picked elements, as layouts of one shape.

use crate::contract::{AttributeValue, rules};
use crate::kernel::cpu::Call;
use crate::kernel::cuda::Piece;
use crate::values::{DType, Layout, MAX_RANK, Rule, Shape, Spec};
use arrayvec::ArrayVec;

/// How an index names elements of a table along `axis`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Indexing {
    pub(super) axis: usize,
    /// Whether an index names a whole row, all elements with this index along the axis; else there is one for each element.
    pub(super) rows: bool,
}

/// The value of an attribute that a call by name leaves out: elements are picked, as in PyTorch, by an index of the table's rank, and
/// rows by any other.
pub(super) fn left_out(attribute: &str, args: &[Spec]) -> Option<AttributeValue> {
    let [table, index, ..] = args else { return None };
    (attribute == "rows").then(|| AttributeValue::Bool(table.shape.rank() != index.shape.rank()))
}

/// The picked elements in the order `[index.., rest..]`: `rest` are the axes of the table but the indexed one.
pub(super) struct Parts {
    /// Size of the indexed axis, and its stride in the table.
    pub(super) size: usize,
    pub(super) step: usize,
    /// Where an index of 0 leads: the table, the same for every index.
    pub(super) table: Layout,
    pub(super) index: Layout,
    pub(super) picked: Layout,
    /// Elements of `rest`.
    pub(super) rest: usize,
    /// Indices along the indexed axis, and elements of `rest` behind that axis; of whole rows 0.
    pub(super) count: usize,
    pub(super) inner: usize,
}

/// The row that an index names, in CUDA C++.
pub(super) const NAMED: Piece = Piece::new("named", include_str!("parts/named.cu"));

impl Indexing {
    /// The shape of the picked elements, for a table and an index of these specs.
    pub(super) fn picked(&self, table: &Spec, index: &Spec, arg: usize) -> Result<Shape, Rule> {
        let (of, by) = (table.shape, index.shape);
        let rank = of.rank();
        let Some(&size) = of.dims().get(self.axis) else {
            return Err(Rule::Axis { axis: self.axis as isize, rank });
        };
        rules::dtype(&[*table, *index], 1, DType::I64).map_err(|_| Rule::Dtype {
            arg,
            dtype: index.dtype,
            expected: "i64",
        })?;
        let shape = if self.rows {
            let expected = "so small that the result has at most 8 axes";
            if rank - 1 + by.rank() > MAX_RANK {
                return Err(Rule::Rank { arg, rank: by.rank(), expected });
            }
            let mut shape = Shape::SCALAR;
            let sizes = of.dims()[..self.axis].iter().chain(by.dims()).chain(&of.dims()[self.axis + 1..]);
            sizes.for_each(|&size| shape.push(size));
            shape
        } else {
            if by.rank() != rank {
                return Err(Rule::Rank { arg, rank: by.rank(), expected: "that of the table" });
            }
            let expected = of.with(self.axis, by.dims()[self.axis]);
            if by != expected {
                return Err(Rule::ArgShape { arg, shape: by, expected });
            }
            by
        };
        if size == 0 && shape.elements() > 0 {
            return Err(Rule::Attribute {
                name: "size of the indexed axis",
                value: 0.0,
                expected: "at least 1",
            });
        }
        Ok(shape)
    }

    /// The layouts of operands that passed [`picked`](Self::picked).
    pub(super) fn parts(&self, table: &Layout, index: &Layout, picked: &Layout) -> Result<Parts, Rule> {
        let (rank, axis) = (table.shape().rank(), self.axis);
        let count = if self.rows { index.shape().rank() } else { 1 };
        // The axes of the index first, then the others in order.
        let order = |first: usize, of: usize| -> ArrayVec<usize, MAX_RANK> {
            (first..first + count).chain(0..first).chain(first + count..of).collect()
        };
        let picked = picked.permute(&order(axis, picked.shape().rank()))?;
        let index = if self.rows {
            let mut index = *index;
            for _ in 0..rank - 1 {
                index = index.unsqueeze(index.shape().rank())?;
            }
            index.broadcast_to(*picked.shape())?
        } else {
            index.permute(&order(axis, rank))?
        };
        let (size, step) = (table.shape().dims()[axis], table.strides()[axis]);
        let rest = table.slice(axis, 0, size.min(1), 1)?;
        let others: Shape = table.shape().without(axis);
        // An axis of no elements has no index 0 to start from; then nothing is picked either.
        let table = if size == 0 { *picked.shape() } else { others };
        let inner: usize = others.dims()[axis..].iter().product();
        let (count, inner) =
            if self.rows { (index.shape().elements(), 0) } else { (index.shape().dims()[0], inner) };
        let table = match size {
            0 => Layout::contiguous(table),
            _ => rest.squeeze(axis)?.broadcast_to(*picked.shape())?,
        };
        Ok(Parts { size, step, table, index, picked, rest: others.elements(), count, inner })
    }
}

/// Reports the first index outside of `0..size`.
pub(super) fn flag_first(call: &Call<'_>, index: &[i64], layout: &Layout, size: usize) {
    let of = |i: usize| index[layout.index_flat(i)];
    let outside = (0..layout.shape().elements()).find(|&i| !(0..size as i64).contains(&of(i)));
    if let Some(i) = outside {
        call.flag(i, of(i), size);
    }
}
