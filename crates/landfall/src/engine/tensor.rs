//! Tensors and borrowed views. The compiler refuses invalid aliasing: an output that is also an input, two outputs in
//! one buffer, a buffer dropped under a view.

use crate::device::Device;
use crate::engine::buffer::Buffer;
use crate::engine::read::expect;
use crate::error::Error;
use crate::values::{DType, Element, Layout, Operand, Relation, Rule, Shape, Spec};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

/// A tensor that owns its memory. Not `Clone`: copies are explicit.
#[derive(Debug)]
pub struct Tensor {
    buffer: Buffer,
    /// The whole tensor as an operand, computed once, because every eager call needs it.
    operand: Operand,
}

/// A borrowed view for reading: dtype, layout, address.
#[derive(Debug, Clone, Copy)]
pub struct TensorRef<'a> {
    operand: Operand,
    device: &'a Arc<dyn Device>,
}

/// A borrowed view for writing. Not `Copy`: only one exists at a time for any element.
#[derive(Debug)]
pub struct TensorMut<'a> {
    operand: Operand,
    device: &'a Arc<dyn Device>,
    exclusive: PhantomData<&'a mut Buffer>,
}

/// What an owner of memory says of its operand, for [`Tensor`] and [`View`](super::View).
macro_rules! described {
    () => {
        /// Dtype and shape.
        #[must_use]
        pub fn spec(&self) -> Spec {
            self.operand.spec()
        }

        /// Element type.
        #[must_use]
        pub fn dtype(&self) -> DType {
            self.operand.dtype
        }

        /// Dimension sizes.
        #[must_use]
        pub fn shape(&self) -> Shape {
            *self.operand.layout.shape()
        }
    };
}
pub(super) use described;

impl Tensor {
    pub(crate) fn new(device: &Arc<dyn Device>, spec: Spec) -> Result<Self, Error> {
        let refused = |rule: Rule| rule.of("empty", &[], Some(device.kind()), None);
        spec.shape.bounded().map_err(refused)?;
        let buffer = Buffer::new(device, spec.bytes())?;
        let layout = Layout::contiguous(spec.shape);
        let operand = Operand { base: buffer.address(), dtype: spec.dtype, layout };
        Ok(Self { buffer, operand })
    }

    /// The memory, and the whole tensor there.
    pub(super) fn into_parts(self) -> (Buffer, Operand) {
        (self.buffer, self.operand)
    }

    described!();

    /// A view of the whole tensor, for reading.
    #[must_use]
    #[inline]
    pub fn view(&self) -> TensorRef<'_> {
        TensorRef { operand: self.operand, device: self.buffer.device() }
    }

    /// A view of the whole tensor, for writing.
    #[must_use]
    #[inline]
    pub fn view_mut(&mut self) -> TensorMut<'_> {
        TensorMut { operand: self.operand, device: self.buffer.device(), exclusive: PhantomData }
    }

    /// Copies elements from the host.
    ///
    /// # Errors
    /// [`Error::HostData`] if dtype or number of elements differ; a device fault.
    pub fn write<T: Element>(&mut self, data: &[T]) -> Result<(), Error> {
        expect::<T>("tensor", self.spec(), data.len())?;
        self.buffer.device().upload(self.buffer.address(), bytemuck::cast_slice(data))
    }

    /// Sets every byte of the memory: 0xFF is NaN in every float dtype.
    ///
    /// # Errors
    /// A device fault.
    pub fn poison(&mut self, byte: u8) -> Result<(), Error> {
        self.buffer.device().fill(self.buffer.address(), self.buffer.bytes(), byte)
    }
}

macro_rules! views {
    ($View:ident, $($extra:ident: $value:expr)?) => {
        impl<'a> $View<'a> {
            /// Dtype and shape.
            #[must_use]
            pub fn spec(&self) -> Spec {
                self.operand.spec()
            }

            /// Offset and strides in the buffer.
            #[must_use]
            pub fn layout(&self) -> &Layout {
                &self.operand.layout
            }

            pub(crate) fn operand(&self) -> &Operand {
                &self.operand
            }

            pub(crate) fn device(&self) -> &'a Arc<dyn Device> {
                self.device
            }

            #[track_caller]
            pub(super) fn under(
                self,
                op: &'static str,
                layout: impl FnOnce(&Layout) -> Result<Layout, Rule>,
            ) -> Result<Self, Error> {
                match layout(&self.operand.layout) {
                    Ok(layout) => Ok(Self { operand: Operand { layout, ..self.operand }, ..self }),
                    Err(rule) => Err(rule
                        .of(op, &[self.spec()], Some(self.device.kind()), Some(Location::caller()))
                        .into()),
                }
            }

            /// The same elements in the same order with another shape; moves no data.
            ///
            /// # Errors
            /// The element counts must be equal and the strides must allow it; otherwise use the op `copy`.
            #[track_caller]
            pub fn reshape(self, shape: impl Into<Shape>) -> Result<Self, Error> {
                self.under("reshape", |l| l.reshape(shape.into()))
            }

            /// Permutes the axes.
            ///
            /// # Errors
            /// `axes` must name each axis once.
            #[track_caller]
            pub fn permute(self, axes: &[usize]) -> Result<Self, Error> {
                self.under("permute", |l| l.permute(axes))
            }

            /// Slices elements `start..start + len` along an axis.
            ///
            /// # Errors
            /// The range must be within the axis.
            #[track_caller]
            pub fn slice(self, axis: usize, start: usize, len: usize) -> Result<Self, Error> {
                self.under("slice", |l| l.slice(axis, start, len, 1))
            }

            /// Removes an axis of size 1.
            ///
            /// # Errors
            /// The axis must have size 1.
            #[track_caller]
            pub fn squeeze(self, axis: usize) -> Result<Self, Error> {
                self.under("squeeze", |l| l.squeeze(axis))
            }
        }
    };
}
views!(TensorRef,);
views!(TensorMut,);

impl<'a> TensorRef<'a> {
    pub(super) fn new(operand: Operand, device: &'a Arc<dyn Device>) -> Self {
        Self { operand, device }
    }

    /// Broadcasts: stretches axes of size 1 and prepends axes; moves no data. (Only for reading: an output never
    /// overlaps itself.)
    ///
    /// # Errors
    /// Each size, aligned at the last axis, must be 1 or equal.
    #[track_caller]
    pub fn broadcast_to(self, shape: impl Into<Shape>) -> Result<Self, Error> {
        self.under("broadcast_to", |l| l.broadcast_to(shape.into()))
    }

    /// Windows of `size` elements every `step` along the last axis; moves no data.
    ///
    /// # Errors
    /// The window must fit.
    #[track_caller]
    pub fn unfold(self, size: usize, step: usize) -> Result<Self, Error> {
        self.under("unfold", |l| l.unfold(size, step))
    }
}

impl<'a> TensorMut<'a> {
    /// A view of memory whose holder sees to it that nobody else uses it meanwhile.
    pub(super) fn new(operand: Operand, device: &'a Arc<dyn Device>) -> Self {
        Self { operand, device, exclusive: PhantomData }
    }

    /// The same view for reading.
    #[must_use]
    pub fn as_ref(&self) -> TensorRef<'_> {
        TensorRef { operand: self.operand, device: self.device }
    }

    /// Reborrows the view for a shorter lifetime.
    #[must_use]
    pub fn reborrow(&mut self) -> TensorMut<'_> {
        TensorMut { operand: self.operand, device: self.device, exclusive: PhantomData }
    }

    /// Splits into two disjoint views: indices below `at` of axis 0, and the rest.
    ///
    /// # Errors
    /// `at` must be at most the size of axis 0, and the halves must not interleave in memory.
    #[track_caller]
    pub fn split_at_mut(self, at: usize) -> Result<(Self, Self), Error> {
        let (spec, kind, at_line) = (self.spec(), self.device.kind(), Some(Location::caller()));
        let halves = || {
            let l = &self.operand.layout;
            let size = l.shape().dims().first().copied().ok_or(Rule::Axis { axis: 0, rank: 0 })?;
            let rest =
                size.checked_sub(at).ok_or(Rule::Slice { axis: 0, start: at, len: 0, step: 1, size })?;
            Ok((l.slice(0, 0, at, 1)?, l.slice(0, at, rest, 1)?))
        };
        let (low, high) = halves().map_err(|r: Rule| r.of("split_at_mut", &[spec], Some(kind), at_line))?;
        let of = |layout| Self {
            operand: Operand { layout, ..self.operand },
            device: self.device,
            exclusive: PhantomData,
        };
        let (low, high) = (of(low), of(high));
        if low.operand.relation(&high.operand) != Relation::Disjoint {
            let bytes = low.operand.overlap(&high.operand);
            return Err(Rule::OutputsOverlap { first: 0, second: 1, bytes }
                .of("split_at_mut", &[spec], Some(kind), at_line)
                .into());
        }
        Ok((low, high))
    }
}
