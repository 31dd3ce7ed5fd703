//! Tensors on the host in `f64`: what references compute with and tests compare.

use crate::values::dtype::{DType, Element};
use crate::values::shape::{Shape, Spec};
use crate::values::with_dtype;

/// Elements on the host as `f64`, row-major, with the dtype that they are rounded to on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTensor {
    /// Dtype and shape.
    pub spec: Spec,
    /// One `f64` per element, row-major. (`i64` values are exact up to 2⁵³.)
    pub data: Vec<f64>,
}

impl HostTensor {
    /// A tensor of this data; short data is filled up with zeros, long data cut.
    pub fn new(dtype: DType, shape: impl Into<Shape>, mut data: Vec<f64>) -> Self {
        let spec = Spec::new(dtype, shape);
        data.resize(spec.shape.elements(), 0.0);
        Self { spec, data }
    }

    /// A tensor of this spec whose `i`-th element is `f(i)`.
    pub fn from_fn(spec: Spec, f: impl FnMut(usize) -> f64) -> Self {
        Self { spec, data: (0..spec.shape.elements()).map(f).collect() }
    }

    /// Dimension sizes.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        self.spec.shape.dims()
    }

    /// The bytes of the elements, each rounded to the dtype.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        fn write<T: Element>(data: &[f64]) -> Vec<u8> {
            data.iter().flat_map(|&x| bytemuck::bytes_of(&T::from_f64(x)).to_vec()).collect()
        }
        with_dtype!(any self.spec.dtype, T => write::<T>(&self.data))
    }

    /// A tensor read from bytes of its dtype.
    #[must_use]
    pub fn from_bytes(spec: Spec, bytes: &[u8]) -> Self {
        fn read<T: Element>(bytes: &[u8]) -> Vec<f64> {
            bytes
                .chunks_exact(size_of::<T>())
                .map(|b| bytemuck::pod_read_unaligned::<T>(b).to_f64())
                .collect()
        }
        Self { spec, data: with_dtype!(any spec.dtype, T => read::<T>(bytes)) }
    }

    /// The same tensor with every element rounded to the dtype.
    #[must_use]
    pub fn rounded(&self) -> Self {
        Self::from_bytes(self.spec, &self.to_bytes())
    }

    /// The same data under another dtype, rounded to it.
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Self {
        Self { spec: Spec { dtype, ..self.spec }, data: self.data.clone() }.rounded()
    }
}
