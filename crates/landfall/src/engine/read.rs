//! Reading views: a whole one, into memory of the caller's, or one element; and a tensor as text.

use super::{Tensor, TensorRef};
use crate::error::Error;
use crate::values::{DType, Element, HostTensor, Rule, Spec};
use std::fmt;
use std::panic::Location;

impl TensorRef<'_> {
    /// Copies the elements of the view to the host, row-major, after every kernel that writes them.
    ///
    /// ```
    /// # let engine = landfall::Engine::cpu()?;
    /// let x = engine.tensor([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// assert_eq!(x.view().permute(&[1, 0])?.read::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// assert_eq!(x.view().slice(1, 2, 1)?.read::<f32>()?, [3.0, 6.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn read<T: Element>(&self) -> Result<Vec<T>, Error> {
        let mut out = Vec::new();
        enlarge(&mut out, self.spec().shape.elements())?;
        self.read_into(&mut out)?;
        Ok(out)
    }

    /// Copies the elements of the view to `out`, row-major. Allocates nothing if the view is contiguous.
    ///
    /// # Errors
    /// As [`Tensor::read`]; [`Error::HostData`] if `out` has another number of elements.
    pub fn read_into<T: Element>(&self, out: &mut [T]) -> Result<(), Error> {
        let spec = self.spec();
        expect::<T>("tensor", spec, out.len())?;
        if self.layout().is_contiguous() {
            return self.device().download(self.operand(), bytemuck::cast_slice_mut(out));
        }
        let span = self.layout().span();
        let mut memory: Vec<T> = Vec::new();
        enlarge(&mut memory, span.len())?;
        self.device().download(self.operand(), bytemuck::cast_slice_mut(&mut memory))?;
        out.iter_mut().enumerate().for_each(|(i, o)| *o = memory[self.layout().index_flat(i) - span.start]);
        Ok(())
    }

    /// Copies the elements of the view to the host as `f64`.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn read_host(&self) -> Result<HostTensor, Error> {
        let (spec, layout, span) = (self.spec(), self.layout(), self.layout().span());
        let mut bytes: Vec<u8> = Vec::new();
        enlarge(&mut bytes, span.len().saturating_mul(spec.dtype.size()))?;
        room::<f64>(spec.shape.elements().max(span.len()))?;
        self.device().download(self.operand(), &mut bytes)?;
        let memory = HostTensor::from_bytes(Spec::new(spec.dtype, [span.len()]), &bytes)?;
        Ok(memory.picked(spec.shape, |i| layout.index_flat(i) - span.start))
    }

    /// The one element of the view, whatever its rank.
    ///
    /// # Errors
    /// [`Error::Op`] if it has another number of elements; otherwise as [`Tensor::read`].
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        let (spec, at) = (self.spec(), Location::caller());
        if spec.shape.elements() != 1 {
            let rule =
                Rule::Elements { spec: Spec { shape: [1].into(), ..spec }, got: spec.shape.elements() };
            return Err(rule.of("item", &[spec], Some(self.device().kind()), Some(at)).into());
        }
        let mut one = [T::from_f64(0.0)];
        self.read_into(&mut one)?;
        Ok(one[0])
    }
}

impl Tensor {
    /// Copies the elements to the host, after every kernel that writes them.
    ///
    /// # Errors
    /// [`Error::HostData`] if `T` is not the tensor's dtype; an index that a kernel flagged; a device fault. Never
    /// zeros in place of a result.
    pub fn read<T: Element>(&self) -> Result<Vec<T>, Error> {
        self.view().read()
    }

    /// Copies the elements to `out`, row-major, and allocates nothing.
    ///
    /// # Errors
    /// As [`Tensor::read`]; [`Error::HostData`] if `out` has another number of elements.
    pub fn read_into<T: Element>(&self, out: &mut [T]) -> Result<(), Error> {
        self.view().read_into(out)
    }

    /// Copies the elements to the host as `f64`.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn read_host(&self) -> Result<HostTensor, Error> {
        self.view().read_host()
    }

    /// The one element, whatever the rank.
    ///
    /// # Errors
    /// [`Error::Op`] if it has another number of elements; otherwise as [`Tensor::read`].
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        self.view().item()
    }
}

/// A vector of the host with room for so many elements.
///
/// # Errors
/// [`Error::HostMemory`].
pub(super) fn room<T>(elements: usize) -> Result<Vec<T>, Error> {
    let mut out = Vec::new();
    let bytes = elements.saturating_mul(size_of::<T>());
    out.try_reserve_exact(elements).map_err(|_| Error::HostMemory { bytes })?;
    Ok(out)
}

/// Gives a vector of the host so many elements; those that it lacks are zeros.
///
/// # Errors
/// As [`room`].
pub(super) fn enlarge<T: Element>(out: &mut Vec<T>, elements: usize) -> Result<(), Error> {
    if out.capacity() < elements {
        *out = room(elements)?;
    }
    out.resize(elements, T::from_f64(0.0));
    Ok(())
}

/// Whether host elements of type `T` are those of a tensor of this spec.
pub(super) fn expect<T: Element>(what: &str, spec: Spec, elements: usize) -> Result<(), Error> {
    let fits = T::DTYPE == spec.dtype || (T::DTYPE == DType::U8 && spec.dtype == DType::Bool);
    if fits && elements == spec.shape.elements() {
        return Ok(());
    }
    let given = Spec::new(T::DTYPE, [elements]);
    Err(Error::HostData { what: what.to_owned(), expected: spec, given })
}

/// Spec, device and elements, as [`HostTensor`] writes them. Reads the tensor; a fault is written in place of the elements.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

/// As of [`Tensor`].
impl fmt::Display for TensorRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", self.spec(), self.device().kind())?;
        match self.read_host() {
            Ok(host) => host.fmt(f),
            Err(error) => write!(f, "cannot be read: {error}"),
        }
    }
}
