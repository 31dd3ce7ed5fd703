//! Typed views of operands for CPU kernels. All accesses are bounds-checked slices.

use crate::values::{Element, Layout};

/// Elements that a kernel reads.
#[derive(Debug, Clone, Copy)]
pub struct View<'a, T> {
    data: &'a [T],
    layout: Layout,
}

/// Elements that a kernel writes; in-place operands are also read through it.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    data: &'a mut [T],
    layout: Layout,
}

/// One row of a view: the elements along its last axis.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a, T> {
    data: &'a [T],
    len: usize,
    stride: usize,
}

/// One row of a mutable view.
#[derive(Debug)]
pub struct RowMut<'a, T> {
    data: &'a mut [T],
    len: usize,
    stride: usize,
}

/// Layout of axes `1..` of a layout, starting at index `i` of axis 0.
fn inner(layout: &Layout, i: usize) -> Layout {
    match layout.slice(0, i, 1, 1).and_then(|l| l.squeeze(0)) {
        Ok(l) => l,
        Err(_) => *layout,
    }
}

macro_rules! shared {
    ($View:ident) => {
        impl<'a, T: Element> $View<'a, T> {
            /// Dimension sizes.
            #[inline(always)]
            pub fn dims(&self) -> &[usize] {
                self.layout.shape().dims()
            }

            /// The layout, relative to the view's data.
            #[inline(always)]
            pub fn layout(&self) -> &Layout {
                &self.layout
            }

            /// Number of elements.
            #[inline(always)]
            pub fn elements(&self) -> usize {
                self.layout.shape().elements()
            }

            /// Size of axis 0; 1 for a scalar.
            #[inline(always)]
            pub fn outer(&self) -> usize {
                self.dims().first().copied().unwrap_or(1)
            }

            /// Number of rows: elements divided by the size of the last axis.
            #[inline(always)]
            pub fn rows(&self) -> usize {
                let d = self.dims();
                d[..d.len().saturating_sub(1)].iter().product()
            }

            /// Size of the last axis; 1 for a scalar.
            #[inline(always)]
            pub fn cols(&self) -> usize {
                self.layout.shape().last()
            }

            /// The element at a multi-index.
            #[inline(always)]
            pub fn at(&self, index: &[usize]) -> T {
                self.data[self.layout.index(index)]
            }

            /// The `i`-th element in row-major order.
            #[inline(always)]
            pub fn flat(&self, i: usize) -> T {
                self.data[self.layout.index_flat(i)]
            }

            /// Offset of row `i` (rows in row-major order of the outer axes) from the first, and the stride within it.
            #[inline(always)]
            fn row_place(&self, i: usize) -> (usize, usize) {
                let strides = self.layout.strides();
                match strides {
                    [] => (0, 1),
                    [s] => (0, *s),
                    [r, s] => (i * r, *s),
                    [.., s] => (self.layout.index_flat(i * self.cols()) - self.layout.offset(), *s),
                }
            }
        }
    };
}
shared!(View);
shared!(ViewMut);

impl<'a, T: Element> View<'a, T> {
    /// A view of `data`, whose first element is the first of the layout.
    pub(crate) fn new(data: &'a [T], layout: Layout) -> Self {
        Self { data, layout: layout.at_origin() }
    }

    /// All elements in row-major order, if they are contiguous.
    #[inline(always)]
    pub fn contiguous(&self) -> Option<&'a [T]> {
        let (n, from) = (self.elements(), self.layout.offset());
        if n == 0 {
            // An empty slice may start past the end of the data.
            Some(&[])
        } else if self.layout.is_contiguous() {
            self.data.get(from..from + n)
        } else {
            None
        }
    }

    /// The data that the layout's offset and strides index into.
    #[inline(always)]
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// Row `i`, the rows counted in row-major order of the outer axes.
    #[inline(always)]
    pub fn row(&self, i: usize) -> Row<'a, T> {
        let (at, stride) = self.row_place(i);
        Row { data: self.data.get(at + self.layout.offset()..).unwrap_or(&[]), len: self.cols(), stride }
    }

    /// The same data with another layout of no larger extent.
    #[must_use]
    pub(crate) fn with_layout(&self, layout: Layout) -> Self {
        Self { data: self.data, layout }
    }

    /// Indices `start..start + len` of axis 0.
    #[must_use]
    pub fn narrow(&self, start: usize, len: usize) -> Self {
        self.layout.slice(0, start, len, 1).map_or(*self, |l| self.with_layout(l))
    }

    /// Index `i` of axis 0, without that axis.
    #[must_use]
    pub fn select(&self, i: usize) -> Self {
        self.with_layout(inner(&self.layout, i))
    }

    /// The view as a matrix of rows, if the outer axes can be merged without moving elements; else unchanged.
    #[must_use]
    pub fn merge_outer(&self) -> Self {
        let l = self.layout.fits([self.rows(), self.cols()].into());
        l.map_or(*self, |l| self.with_layout(l))
    }
}

impl<'a, T: Element> ViewMut<'a, T> {
    /// A view of `data`, whose first element is the first of the layout.
    pub(crate) fn new(data: &'a mut [T], layout: Layout) -> Self {
        Self { data, layout: layout.at_origin() }
    }

    /// All elements in row-major order, if they are contiguous.
    #[inline(always)]
    pub fn contiguous(&mut self) -> Option<&mut [T]> {
        let (n, from) = (self.elements(), self.layout.offset());
        if n == 0 {
            Some(&mut [])
        } else if self.layout.is_contiguous() {
            self.data.get_mut(from..from + n)
        } else {
            None
        }
    }

    /// The data that the layout's offset and strides index into.
    #[inline(always)]
    pub fn data(&mut self) -> &mut [T] {
        self.data
    }

    /// The same view, borrowed for reading.
    #[inline(always)]
    pub fn read(&self) -> View<'_, T> {
        View { data: self.data, layout: self.layout }
    }

    /// Reborrows the view for a shorter lifetime.
    #[inline(always)]
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { data: self.data, layout: self.layout }
    }

    /// Sets the element at a multi-index.
    #[inline(always)]
    pub fn set(&mut self, index: &[usize], value: T) {
        let at = self.layout.index(index);
        self.data[at] = value;
    }

    /// Sets the `i`-th element in row-major order.
    #[inline(always)]
    pub fn set_flat(&mut self, i: usize, value: T) {
        let at = self.layout.index_flat(i);
        self.data[at] = value;
    }

    /// Sets every element.
    pub fn fill(&mut self, value: T) {
        if let Some(all) = self.contiguous() {
            all.fill(value);
            return;
        }
        for r in 0..self.rows() {
            self.row_mut(r).fill(value);
        }
    }

    /// Row `i`, the rows counted in row-major order of the outer axes.
    #[inline(always)]
    pub fn row_mut(&mut self, i: usize) -> RowMut<'_, T> {
        let (at, stride) = self.row_place(i);
        let (len, from) = (self.cols(), at + self.layout.offset());
        RowMut { data: self.data.get_mut(from..).unwrap_or(&mut []), len, stride }
    }

    /// Index `i` of axis 0, without that axis.
    #[must_use]
    pub fn select(self, i: usize) -> Self {
        let layout = inner(&self.layout, i);
        Self { data: self.data, layout }
    }

    /// The same elements with another layout (its axes merged, for example).
    pub(crate) fn relaid(self, layout: Layout) -> Self {
        Self { data: self.data, layout }
    }

    /// A view of `data` with a layout of the same offset.
    pub(crate) fn over(data: &'a mut [T], layout: Layout) -> Self {
        Self { data, layout }
    }

    /// The data, for the view's original lifetime.
    pub(crate) fn into_data(self) -> &'a mut [T] {
        self.data
    }

    /// The view as a matrix of rows, if the outer axes can be merged without moving elements; else unchanged.
    #[must_use]
    pub fn merge_outer(self) -> Self {
        let l = self.layout.fits([self.rows(), self.cols()].into()).unwrap_or(self.layout);
        Self { data: self.data, layout: l }
    }
}

impl<'a, T: Element> Row<'a, T> {
    /// Number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Element `j`.
    #[inline(always)]
    pub fn get(&self, j: usize) -> T {
        self.data[j * self.stride]
    }

    /// The elements as a slice, if they are contiguous.
    #[inline(always)]
    pub fn as_slice(&self) -> Option<&'a [T]> {
        if self.stride == 1 || self.len <= 1 { self.data.get(..self.len) } else { None }
    }

    /// Widens elements `from..from + out.len()` into `out`.
    #[inline(always)]
    pub fn widen(&self, from: usize, out: &mut [T::Acc]) {
        if let Some(s) = self.as_slice() {
            for (o, x) in out.iter_mut().zip(&s[from..]) {
                *o = x.widen();
            }
        } else if self.stride == 0 {
            out.fill(self.data[0].widen());
        } else {
            for (j, o) in out.iter_mut().enumerate() {
                *o = self.data[(from + j) * self.stride].widen();
            }
        }
    }
}

impl<T: Element> RowMut<'_, T> {
    /// The same row, borrowed for reading.
    #[inline(always)]
    pub fn read(&self) -> Row<'_, T> {
        Row { data: self.data, len: self.len, stride: self.stride }
    }

    /// The elements as a slice, if they are contiguous.
    #[inline(always)]
    pub fn as_slice(&mut self) -> Option<&mut [T]> {
        if self.stride == 1 || self.len <= 1 { self.data.get_mut(..self.len) } else { None }
    }

    /// Sets element `j`.
    #[inline(always)]
    pub fn set(&mut self, j: usize, value: T) {
        self.data[j * self.stride] = value;
    }

    /// Sets every element.
    #[inline(always)]
    pub fn fill(&mut self, value: T) {
        for j in 0..self.len {
            self.set(j, value);
        }
    }

    /// Rounds `values` into elements `from..`.
    #[inline(always)]
    pub fn narrow(&mut self, from: usize, values: &[T::Acc]) {
        if let Some(s) = self.as_slice() {
            for (o, &x) in s[from..].iter_mut().zip(values) {
                *o = T::narrow(x);
            }
        } else {
            for (j, &x) in values.iter().enumerate() {
                self.data[(from + j) * self.stride] = T::narrow(x);
            }
        }
    }
}
