//! Host tensors in `f64`: used by references and comparisons.

use crate::values::dtype::{DType, Element};
use crate::values::number::Number;
use crate::values::rule::{OpError, Rule};
use crate::values::shape::{Shape, Spec};
use crate::values::with_dtype;
use std::fmt;
use std::panic::Location;

/// Elements on the host as `f64`, row-major, with the dtype to which a device rounds them. 64-bit integers are exact.
#[derive(Debug, Clone)]
pub struct HostTensor {
    /// Dtype and shape.
    pub spec: Spec,
    /// One `f64` per element, row-major; for `i64` the nearest one.
    pub data: Vec<f64>,
    /// For `i64` the exact elements, which [`int`](Self::int) returns; else empty.
    ints: Vec<i64>,
}

impl PartialEq for HostTensor {
    fn eq(&self, other: &Self) -> bool {
        let exact = |t: &Self| t.spec.dtype == DType::I64 && !t.ints.is_empty();
        self.spec == other.spec
            && self.data == other.data
            && (!(exact(self) || exact(other)) || (0..self.data.len()).all(|i| self.int(i) == other.int(i)))
    }
}

impl HostTensor {
    /// A tensor with this data.
    ///
    /// # Errors
    /// [`Rule::Elements`] if the number of elements differs, [`Rule::Number`] if the dtype does not hold a number: an integer type
    /// one that is not one of its values, a float type one beyond its largest.
    #[track_caller]
    pub fn new(dtype: DType, shape: impl Into<Shape>, data: Vec<f64>) -> Result<Self, OpError> {
        let spec = Spec::new(dtype, shape);
        counted(spec, data.len())?;
        let holds = |x: f64| Number::Float(x).held_by(dtype).is_ok();
        if let Some((index, &value)) = data.iter().enumerate().find(|(_, x)| !holds(**x)) {
            return Err(refused(spec, Rule::Number { index, value, dtype }));
        }
        Ok(Self { spec, data, ints: Vec::new() })
    }

    /// A tensor with these 64-bit integers, exactly.
    ///
    /// # Errors
    /// [`Rule::Elements`] if the number of elements differs.
    #[track_caller]
    pub fn from_ints(shape: impl Into<Shape>, ints: Vec<i64>) -> Result<Self, OpError> {
        let spec = Spec::new(DType::I64, shape);
        counted(spec, ints.len())?;
        Ok(Self { spec, data: ints.iter().map(|&v| v as f64).collect(), ints })
    }

    /// A tensor of this spec whose `i`-th element is `f(i)`.
    pub fn from_fn(spec: Spec, f: impl FnMut(usize) -> f64) -> Self {
        Self { spec, data: (0..spec.shape.elements()).map(f).collect(), ints: Vec::new() }
    }

    /// A tensor of this shape whose `i`-th element is element `of(i)` of this one.
    pub(crate) fn picked(&self, shape: Shape, of: impl Fn(usize) -> usize) -> Self {
        let indices = || (0..shape.elements()).map(&of);
        let ints = if self.ints.is_empty() { Vec::new() } else { indices().map(|i| self.ints[i]).collect() };
        Self { spec: Spec { shape, ..self.spec }, data: indices().map(|i| self.data[i]).collect(), ints }
    }

    /// Dimension sizes.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        self.spec.shape.dims()
    }

    /// Element `i` as a 64-bit integer: exact for `i64`, also beyond 2⁵³.
    #[must_use]
    pub fn int(&self, i: usize) -> i64 {
        let near = self.data[i];
        // If the number was changed since, the exact one is stale.
        self.ints.get(i).copied().filter(|&exact| exact as f64 == near).unwrap_or(near as i64)
    }

    /// The bytes of the elements, each rounded to the dtype.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        fn write<T: Element>(data: &[f64]) -> Vec<u8> {
            let mut out = vec![0; data.len() * size_of::<T>()];
            for (bytes, &x) in out.chunks_exact_mut(size_of::<T>()).zip(data) {
                bytes.copy_from_slice(bytemuck::bytes_of(&T::from_f64(x)));
            }
            out
        }
        if self.spec.dtype == DType::I64 {
            return (0..self.data.len()).flat_map(|i| self.int(i).to_ne_bytes()).collect();
        }
        with_dtype!(any self.spec.dtype, T => write::<T>(&self.data))
    }

    /// The elements in the type of the dtype, each rounded to it.
    ///
    /// ```
    /// use landfall::{DType, HostTensor};
    /// let x = HostTensor::new(DType::F32, [2], vec![0.1, 2.0])?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.1f32, 2.0]);
    /// assert!(x.to_vec::<f64>().unwrap_err().to_string().contains("arg 0 is f32; it must be f64"));
    /// # Ok::<(), landfall::OpError>(())
    /// ```
    ///
    /// # Errors
    /// [`Rule::Dtype`] if `T` is not of its dtype.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, OpError> {
        let dtype = self.spec.dtype;
        if dtype != T::DTYPE {
            return Err(refused(self.spec, Rule::Dtype { arg: 0, dtype, expected: T::DTYPE.name() }));
        }
        Ok(self.to_bytes().chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
    }

    /// Parses a tensor from bytes of its dtype.
    ///
    /// # Errors
    /// [`Rule::Elements`] if the number of bytes does not match.
    #[track_caller]
    pub fn from_bytes(spec: Spec, bytes: &[u8]) -> Result<Self, OpError> {
        fn read<T: Element, V>(bytes: &[u8], of: impl Fn(T) -> V) -> Vec<V> {
            bytes.chunks_exact(size_of::<T>()).map(|b| of(bytemuck::pod_read_unaligned(b))).collect()
        }
        // An incomplete element counts as one element too many.
        counted(spec, bytes.len().div_ceil(spec.dtype.size()))?;
        if spec.dtype == DType::I64 {
            return Self::from_ints(spec.shape, read(bytes, |v: i64| v));
        }
        let data = match spec.dtype {
            DType::Bool => read(bytes, |byte: u8| f64::from(u8::from(byte != 0))),
            dtype @ (DType::F32
            | DType::F64
            | DType::BF16
            | DType::F16
            | DType::I32
            | DType::I64
            | DType::U8) => with_dtype!(any dtype, T => read(bytes, T::to_f64)),
        };
        Ok(Self { spec, data, ints: Vec::new() })
    }

    /// The same tensor with every element rounded to the dtype.
    #[must_use]
    pub fn rounded(&self) -> Self {
        let stored = |x: f64| with_dtype!(any self.spec.dtype, T => T::from_f64(x).to_f64());
        let round = |x: f64| match self.spec.dtype {
            // A truth value is 0 or 1.
            DType::Bool => f64::from(u8::from(stored(x) != 0.0)),
            DType::F32 | DType::F64 | DType::BF16 | DType::F16 | DType::I32 | DType::I64 | DType::U8 => {
                stored(x)
            }
        };
        Self { data: self.data.iter().map(|&x| round(x)).collect(), ..self.clone() }
    }

    /// The same data with another dtype, rounded to it.
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Self {
        let ints = if dtype == DType::I64 { self.ints.clone() } else { Vec::new() };
        Self { spec: Spec { dtype, ..self.spec }, data: self.data.clone(), ints }.rounded()
    }
}

/// Nested brackets, as numpy writes arrays: the last axis in a line, at most six elements of an axis, from its two ends.
impl fmt::Display for HostTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |i: usize| match self.spec.dtype {
            DType::I64 => self.int(i).to_string(),
            DType::Bool => (self.data[i] != 0.0).to_string(),
            DType::I32 | DType::U8 => self.data[i].to_string(),
            // As many digits as the dtype has.
            DType::BF16 => format!("{:.3}", Digits(self.data[i])),
            DType::F16 => format!("{:.4}", Digits(self.data[i])),
            DType::F32 | DType::F64 => format!("{:.6}", Digits(self.data[i])),
        };
        let dims = self.dims();
        let shown = |d: usize| (0..d).filter(move |&i| d <= 2 * ENDS || i < ENDS || i >= d - ENDS);
        // All shown elements have one width, so that columns stand below each other.
        let mut indices = vec![0usize];
        for &d in dims {
            indices = indices.iter().flat_map(|&at| shown(d).map(move |i| at * d + i)).collect();
        }
        let width = indices.iter().map(|&i| text(i).len()).max().unwrap_or(0);
        self.write_axis(f, 0, 0, &|i| format!("{:>width$}", text(i)), &|d| shown(d).collect())
    }
}

/// Elements that a text shows from each end of an axis.
const ENDS: usize = 3;

/// A number with so many digits behind the point as the precision says; large and small ones with an exponent.
struct Digits(f64);

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(6);
        let size = self.0.abs();
        let plain = size == 0.0 || !size.is_finite() || (1e-4..1e6).contains(&size);
        if plain { write!(f, "{:.digits$}", self.0) } else { write!(f, "{:.digits$e}", self.0) }
    }
}

impl HostTensor {
    /// Writes the elements below index `at` of the axes before `axis`.
    fn write_axis(
        &self,
        f: &mut fmt::Formatter<'_>,
        axis: usize,
        at: usize,
        text: &dyn Fn(usize) -> String,
        shown: &dyn Fn(usize) -> Vec<usize>,
    ) -> fmt::Result {
        let Some(&d) = self.dims().get(axis) else { return f.write_str(&text(at)) };
        let last = axis + 1 == self.dims().len();
        f.write_str("[")?;
        for (n, i) in shown(d).into_iter().enumerate() {
            let between = || {
                let blank = " ".repeat(axis + 1);
                let lines = "\n".repeat((self.dims().len() - axis - 1).min(2));
                if last { " ".to_owned() } else { format!("{lines}{blank}") }
            };
            if n > 0 {
                f.write_str(&between())?;
            }
            if n == ENDS && d > 2 * ENDS {
                f.write_str("...")?;
                f.write_str(&between())?;
            }
            self.write_axis(f, axis + 1, at * d + i, text, shown)?;
        }
        f.write_str("]")
    }
}

#[track_caller]
fn refused(spec: Spec, rule: Rule) -> OpError {
    rule.of("host tensor", &[spec], None, Some(Location::caller()))
}

#[track_caller]
fn counted(spec: Spec, got: usize) -> Result<(), OpError> {
    if spec.shape.elements() == got { Ok(()) } else { Err(refused(spec, Rule::Elements { spec, got })) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_aligned_columns_and_the_ends_of_long_axes() -> Result<(), OpError> {
        let text = |shape: &[usize]| {
            let shape = Shape::new(shape).unwrap_or(Shape::SCALAR);
            let spec = Spec { dtype: DType::F32, shape };
            HostTensor::from_fn(spec, |i| i as f64 - 1.5).to_string()
        };
        assert_eq!(text(&[]), "-1.500000");
        assert_eq!(text(&[0]), "[]");
        assert_eq!(text(&[2, 2]), "[[-1.500000 -0.500000]\n [ 0.500000  1.500000]]");
        assert_eq!(text(&[2, 1, 1]), "[[[-1.500000]]\n\n [[-0.500000]]]");
        assert_eq!(HostTensor::from_ints([8], (0..8).collect())?.to_string(), "[0 1 2 ... 5 6 7]");
        let big = HostTensor::new(DType::F64, [3], vec![1e300, f64::NAN, -1e-9])?.to_string();
        assert_eq!(big, "[1.000000e300          NaN -1.000000e-9]");
        Ok(())
    }

    fn rule(result: Result<HostTensor, OpError>) -> Option<Rule> {
        result.err().map(|e| e.rule)
    }

    #[test]
    fn short_and_long_data_are_refused() {
        let spec = Spec::new(DType::F32, [2, 2]);
        for got in [3, 5] {
            let want = Some(Rule::Elements { spec, got });
            assert_eq!(rule(HostTensor::new(DType::F32, [2, 2], vec![0.0; got])), want);
            assert_eq!(rule(HostTensor::from_bytes(spec, &vec![0; got * 4])), want);
        }
        // Bytes of one element and a part of another.
        let spec = Spec::new(DType::F32, [1]);
        assert_eq!(rule(HostTensor::from_bytes(spec, &[0; 7])), Some(Rule::Elements { spec, got: 2 }));
        let text = HostTensor::new(DType::F32, [2], vec![0.0]).expect_err("one of two").to_string();
        assert!(text.starts_with("host tensor(f32[2]): f32[2] has 2 elements, got 1"), "{text}");
    }

    #[test]
    fn what_a_dtype_does_not_hold_is_refused() {
        for (dtype, value) in
            [(DType::U8, 256.0), (DType::I32, 0.5), (DType::I64, f64::NAN), (DType::Bool, 2.0)]
        {
            let refused = rule(HostTensor::new(dtype, [2], vec![1.0, value]));
            assert!(matches!(refused, Some(Rule::Number { index: 1, .. })), "{dtype} {value}: {refused:?}");
        }
    }

    #[test]
    fn integers_of_64_bits_are_exact() {
        let ints = vec![i64::MAX, i64::MIN, (1 << 53) + 1, -3];
        let tensor = HostTensor::from_ints([4], ints.clone()).expect("four");
        let back = HostTensor::from_bytes(tensor.spec, &tensor.to_bytes()).expect("four");
        assert_eq!((0..4).map(|i| back.int(i)).collect::<Vec<_>>(), ints);
        assert_eq!(back, tensor.rounded());
        // Adjacent integers with the same f64 are different tensors.
        assert_ne!(
            back,
            HostTensor::from_ints([4], vec![i64::MAX - 1, i64::MIN, (1 << 53) + 1, -3]).expect("four")
        );
        // Changed elements have their changed value.
        let mut changed = back;
        changed.data[2] = 7.0;
        assert_eq!(changed.int(2), 7);
    }
}
