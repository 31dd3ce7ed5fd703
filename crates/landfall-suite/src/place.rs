//! Operands in memory: whole tensors, and views into larger, poisoned ones.

use crate::case::Check;
use landfall::{
    Element, Engine, Error, HostTensor, Layout, Shape, Spec, Tensor, TensorMut, TensorRef, with_dtype,
};
use std::ops::Range;

/// How an operand lies in its tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// All of it, row-major.
    Whole,
    /// All of it, with the axes in reverse order.
    Permuted,
    /// The middle of every axis of a larger tensor.
    Sliced,
    /// Gapless, at an odd offset of a larger flat tensor.
    Guarded,
    /// Stored once along an axis on which it is constant. (Inputs only.)
    Broadcast(usize),
}

/// Elements before a guarded operand: odd, so that it is aligned to its element and no more.
const GUARD: usize = 33;

/// An operand and the tensor that it lies in.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) tensor: Tensor,
    spec: Spec,
    place: Place,
}

macro_rules! view_chain {
    ($view:expr, $spec:expr, $place:expr) => {{
        let (view, dims) = ($view, $spec.shape.dims());
        match $place {
            Place::Whole | Place::Broadcast(_) => Ok(view),
            Place::Permuted => view.permute(&(0..dims.len()).rev().collect::<Vec<_>>()),
            Place::Sliced if dims.is_empty() => view.slice(0, 1, 1).and_then(|v| v.squeeze(0)),
            Place::Sliced => {
                dims.iter().enumerate().try_fold(view, |v, (axis, &size)| v.slice(axis, 2, size))
            }
            Place::Guarded => {
                view.slice(0, GUARD, $spec.shape.elements()).and_then(|v| v.reshape($spec.shape))
            }
        }
    }};
}

impl Placed {
    /// Memory with `poison` in every byte.
    pub(crate) fn empty(engine: &Engine, spec: Spec, place: Place, poison: u8) -> Result<Self, Error> {
        let dims = spec.shape.dims();
        let stored = match place {
            Place::Whole => spec.shape,
            Place::Permuted => shape(dims.iter().rev().copied()),
            Place::Sliced if dims.is_empty() => [3].into(),
            Place::Sliced => shape(dims.iter().map(|d| d + 3)),
            Place::Guarded => [spec.shape.elements() + 2 * GUARD].into(),
            Place::Broadcast(axis) => spec.shape.with(axis, 1),
        };
        let mut tensor = engine.empty(spec.dtype, stored)?;
        tensor.poison(poison)?;
        Ok(Self { tensor, spec, place })
    }

    /// An operand with data in poisoned memory.
    pub(crate) fn new(engine: &Engine, data: &HostTensor, place: Place, poison: u8) -> Result<Self, Error> {
        let mut placed = Self::empty(engine, data.spec, place, poison)?;
        let (layout, size) = (placed.layout()?, data.spec.dtype.size());
        let mut bytes = vec![poison; placed.tensor.spec().bytes()];
        for (i, element) in data.to_bytes().chunks_exact(size).enumerate() {
            let at = layout.index_flat(i) * size;
            bytes[at..at + size].copy_from_slice(element);
        }
        placed.write(&bytes)?;
        Ok(placed)
    }

    pub(crate) fn view(&self) -> Result<TensorRef<'_>, Error> {
        let view = view_chain!(self.tensor.view(), self.spec, self.place)?;
        if matches!(self.place, Place::Broadcast(_)) { view.broadcast_to(self.spec.shape) } else { Ok(view) }
    }

    pub(crate) fn view_mut(&mut self) -> Result<TensorMut<'_>, Error> {
        view_chain!(self.tensor.view_mut(), self.spec, self.place)
    }

    fn layout(&self) -> Result<Layout, Error> {
        Ok(*self.view()?.layout())
    }

    /// Sets all bytes of the tensor.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        with_dtype!(any self.spec.dtype, T => self.tensor.write::<T>(&elements::<T>(bytes)))
    }

    /// All bytes of the tensor.
    pub(crate) fn memory(&self) -> Result<Vec<u8>, Error> {
        with_dtype!(any self.spec.dtype, T => Ok(bytemuck::cast_slice::<T, u8>(&self.tensor.read::<T>()?).to_vec()))
    }

    /// Bytes of the operand's elements, row-major.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Error> {
        let memory = self.memory()?;
        Ok(self.elements()?.into_iter().flat_map(|at| memory[at].to_vec()).collect())
    }

    pub(crate) fn host(&self) -> Result<HostTensor, Error> {
        Ok(HostTensor::from_bytes(self.spec, &self.bytes()?)?)
    }

    /// Where in the memory the bytes of each element lie.
    fn elements(&self) -> Result<Vec<Range<usize>>, Error> {
        let (layout, size) = (self.layout()?, self.spec.dtype.size());
        let at = |i| layout.index_flat(i) * size;
        Ok((0..self.spec.shape.elements()).map(|i| at(i)..at(i) + size).collect())
    }

    /// The first byte outside of the operand that is not `poison`.
    pub(crate) fn trespass(&self, poison: u8) -> Check<Option<usize>> {
        let mut memory = self.memory()?;
        for at in self.elements()? {
            memory[at].fill(poison);
        }
        Ok(memory.iter().position(|&b| b != poison))
    }
}

/// A shape of these sizes, of which there are no more than a tensor's.
fn shape(sizes: impl Iterator<Item = usize>) -> Shape {
    Shape::new(&sizes.collect::<Vec<_>>()).expect("as many axes as a tensor that exists")
}

/// Bytes as elements of a type.
pub(crate) fn elements<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}
