//! Kernel parameters, declared once.
//!
//! [`cuda_kernel!`](crate::cuda_kernel) turns one list into the struct that a launch takes, the parameter list in CUDA
//! C++ and the list that each launch is checked against. An added parameter is a field that every launch must set, a
//! removed one is undeclared in the `.cu` file, and the list defines the order on both sides.

use super::{Arg, Values};
use crate::values::{DType, Layout, MAX_RANK, Operand};

/// One kernel of a [`Source`](super::Source).
#[derive(Debug)]
pub struct Entry {
    /// Its name, which is also the symbol's.
    pub name: &'static str,
    /// Maximum threads of a block: determines the compiler's register budget.
    pub block: u32,
    /// Its parameters, in order.
    pub params: &'static [Param],
}

/// One parameter of an [`Entry`].
#[derive(Debug)]
pub struct Param {
    /// Its name in the source.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
}

/// The kind of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Pointer to an input.
    Input(Element),
    /// Pointer to an output.
    Output(Element),
    /// An input with its strides: `View` in `prelude.cu`.
    ViewIn(Element),
    /// An output with its strides.
    ViewOut(Element),
    /// Number and length of the rows: `RowFrame` in `prelude.cu`.
    RowFrame,
    /// The rows of an input: `RowView` in `prelude.cu`.
    RowsIn(Element),
    /// The rows of an output.
    RowsOut(Element),
    /// An input and an output of one shape: `Transfer` in `prelude.cu`.
    Transfer(Element),
    /// Pointer to workspace.
    Scratch(Element),
    /// A tensor map: the layout of an input, and the TMA tile that one instruction copies.
    TensorMap(Element),
    /// A 32-bit unsigned integer.
    U32,
    /// A 64-bit unsigned integer.
    U64,
    /// A binary32.
    F32,
    /// A binary64.
    F64,
    /// Sizes or strides of up to eight axes, by value.
    Dims,
    /// The record for an index out of range.
    Faults,
}

/// Element type of a pointer parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// The type that the module binds to this name.
    Bound(&'static str),
    /// A fixed dtype.
    Is(DType),
}

/// An argument of a device function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    Pointer,
    /// 32 and 64 bits.
    Word,
    Long,
    Float,
    Double,
    /// Sizes or strides.
    Axes,
}

impl Entry {
    /// The same kernel with a smaller maximum of threads per block, for a variant in the same source.
    #[must_use]
    pub const fn of_block(self, block: u32) -> Self {
        Self { block, ..self }
    }
}

impl Element {
    /// The type in CUDA C++.
    fn c_type(self) -> &'static str {
        match self {
            Self::Bound(name) => name,
            Self::Is(dtype) => c_type(dtype),
        }
    }
}

impl Param {
    /// The parameter in CUDA C++. A struct goes by its members, which [`prologue`](Self::prologue) puts together: passed whole,
    /// it cost registers or spills in 22 of the 300 rows of `tests/snapshots/kernels.csv`.
    pub(super) fn declaration(&self) -> String {
        let name = self.name;
        // Read-only by value: constant memory, no copy on the stack.
        let dims = |member: &str| format!("const __grid_constant__ Dims {name}{member}");
        let stride = || dims("_stride");
        match self.kind {
            Kind::Input(e) => format!("const {}* {name}", e.c_type()),
            Kind::Output(e) | Kind::Scratch(e) => format!("{}* {name}", e.c_type()),
            Kind::ViewIn(e) => format!("const {}* {name}_data, {}", e.c_type(), stride()),
            Kind::ViewOut(e) => format!("{}* {name}_data, {}", e.c_type(), stride()),
            Kind::RowsIn(e) | Kind::RowsOut(e) => {
                let read = if matches!(self.kind, Kind::RowsIn(_)) { "const " } else { "" };
                let data = format!("{read}{}* {name}_data, u32 {name}_contiguous", e.c_type());
                format!("{data}, {}, {}", stride(), dims("_stride_row"))
            }
            Kind::RowFrame => {
                let numbers =
                    format!("u64 {name}_count, u64 {name}_length, u32 {name}_lanes, u32 {name}_across");
                format!("{numbers}, u32 {name}_rank, {}, {}", dims("_shape"), dims("_shape_row"))
            }
            Kind::Transfer(e) => {
                let (e, axes) = (e.c_type(), [dims("_shape"), dims("_stride_x"), dims("_stride_out")]);
                format!(
                    "const {e}* {name}_x, {e}* {name}_out, u64 {name}_units, u32 {name}_rank, {}",
                    axes.join(", ")
                )
            }
            // By value too: the TMA unit reads it from the parameter memory.
            Kind::TensorMap(_) => format!("const __grid_constant__ TensorMap {name}"),
            Kind::U32 => format!("u32 {name}"),
            Kind::U64 => format!("u64 {name}"),
            Kind::F32 => format!("float {name}"),
            Kind::F64 => format!("double {name}"),
            Kind::Dims => dims(""),
            Kind::Faults => format!("Faults {name}"),
        }
    }

    /// The parameter of a device function.
    pub(super) fn passed(&self) -> String {
        self.declaration().replace("const __grid_constant__ ", "const ").replace("Dims ", "Dims& ")
    }

    /// The arguments that it takes, in order; none if a device function can not take it.
    pub(super) fn passes(&self) -> Option<&'static [Passed]> {
        use Passed::{Axes, Double, Float, Long, Pointer, Word};
        Some(match self.kind {
            Kind::Input(_) | Kind::Output(_) | Kind::Scratch(_) => &[Pointer],
            Kind::ViewIn(_) | Kind::ViewOut(_) => &[Pointer, Axes],
            Kind::RowFrame => &[Long, Long, Word, Word, Word, Axes, Axes],
            Kind::RowsIn(_) | Kind::RowsOut(_) => &[Pointer, Word, Axes, Axes],
            Kind::Transfer(_) => &[Pointer, Pointer, Long, Word, Axes, Axes, Axes],
            Kind::U32 => &[Word],
            Kind::U64 => &[Long],
            Kind::F32 => &[Float],
            Kind::F64 => &[Double],
            Kind::Dims => &[Axes],
            // Tensor maps are encoded by the driver, and a fault is of one launch.
            Kind::TensorMap(_) | Kind::Faults => return None,
        })
    }

    /// The kernel prologue that assembles the parameter; empty if none is needed.
    pub(super) fn prologue(&self) -> String {
        let (kind, members): (String, &[&str]) = match self.kind {
            Kind::ViewIn(e) => (format!("View<const {}>", e.c_type()), &["data", "stride"]),
            Kind::ViewOut(e) => (format!("View<{}>", e.c_type()), &["data", "stride"]),
            Kind::RowsIn(e) => (format!("RowView<const {}>", e.c_type()), ROW_VIEW),
            Kind::RowsOut(e) => (format!("RowView<{}>", e.c_type()), ROW_VIEW),
            Kind::RowFrame => ("RowFrame".to_owned(), ROW_FRAME),
            Kind::Transfer(e) => (format!("Transfer<{}>", e.c_type()), TRANSFER),
            Kind::Input(_)
            | Kind::Output(_)
            | Kind::Scratch(_)
            | Kind::TensorMap(_)
            | Kind::U32
            | Kind::U64
            | Kind::F32
            | Kind::F64
            | Kind::Dims
            | Kind::Faults => return String::new(),
        };
        let name = self.name;
        let members: Vec<String> = members.iter().map(|member| format!("{name}_{member}")).collect();
        format!(" const {kind} {name} = {{{}}};", members.join(", "))
    }
}

/// Members of the structs in `prelude.cu`, in order.
const ROW_VIEW: &[&str] = &["data", "contiguous", "stride", "stride_row"];
const ROW_FRAME: &[&str] = &["count", "length", "lanes", "across", "rank", "shape", "shape_row"];
const TRANSFER: &[&str] = &["x", "out", "units", "rank", "shape", "stride_x", "stride_out"];

/// Name of a dtype in the sources.
#[must_use]
pub(crate) const fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::BF16 => "bf16",
        DType::F16 => "f16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U8 | DType::Bool => "u8",
    }
}

/// The arguments of one kernel, for [`Call::launch`](super::Call::launch). Generated by
/// [`cuda_kernel!`](crate::cuda_kernel).
pub trait KernelArgs {
    /// Their kernel.
    const KERNEL: Entry;
    /// Calls `take` with one argument for each parameter, in order.
    fn list<R>(&self, take: impl FnOnce(&[Arg<'_>]) -> R) -> R;
}

/// What all operands of a row kernel share, for a parameter of kind `row_frame`.
#[derive(Debug, Clone, Copy)]
pub struct RowFrame<'a> {
    /// Number of rows.
    pub count: usize,
    /// Elements of a row.
    pub length: usize,
    /// Threads that share a row, a power of two.
    pub lanes: u32,
    /// 1 if these threads are not adjacent.
    pub across: u32,
    /// The axes that the rows are counted along.
    pub starts: &'a Layout,
    /// The axes of a row.
    pub row: &'a Layout,
}

/// The rows of an operand, for a parameter of kind `rows_in` or `rows_out`.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    /// The operand.
    pub operand: &'a Operand,
    /// Whether units of a row are contiguous and aligned for 16-byte accesses.
    pub contiguous: bool,
    /// Layout of the row starts.
    pub starts: &'a Layout,
    /// Layout of a row's elements.
    pub row: &'a Layout,
}

/// Sizes or strides of up to eight axes.
pub(super) fn dims(of: &[usize]) -> [u64; MAX_RANK] {
    let mut v = [0; MAX_RANK];
    v.iter_mut().zip(of).for_each(|(v, &d)| *v = d as u64);
    v
}

/// Appends an operand at this address, with its strides; returns whether there was room.
pub(super) fn push_view(operand: &Operand, address: u64, to: &mut Values) -> bool {
    to.push_address(address) && to.push(&dims(operand.layout.strides()))
}

impl RowFrame<'_> {
    /// Appends its members; returns whether there was room.
    pub(super) fn push(&self, to: &mut Values) -> bool {
        let (lanes, across) = (u64::from(self.lanes), u64::from(self.across));
        let rank = self.starts.shape().rank() as u64;
        let numbers = [self.count as u64, self.length as u64, lanes, across, rank];
        let axes = [self.starts, self.row].map(|of| dims(of.shape().dims()));
        numbers.iter().all(|&n| to.push(&[n])) && axes.iter().all(|of| to.push(of))
    }
}

impl RowView<'_> {
    /// Appends its members; returns whether there was room.
    pub(super) fn push(&self, address: u64, to: &mut Values) -> bool {
        let axes = [self.starts, self.row].map(|of| dims(of.strides()));
        to.push_address(address)
            && to.push(&[u64::from(self.contiguous)])
            && axes.iter().all(|of| to.push(of))
    }
}

/// A copy between operands of one shape, for a parameter of kind `transfer`. It moves one unit at a time: `shape` and
/// strides count units.
#[derive(Debug, Clone, Copy)]
pub struct Transfer<'a> {
    /// The input.
    pub x: &'a Operand,
    /// The output.
    pub out: &'a Operand,
    /// Number of units.
    pub units: usize,
    /// Number of axes.
    pub rank: usize,
    /// Their sizes.
    pub shape: [usize; MAX_RANK],
    /// Strides of the input.
    pub stride_x: [usize; MAX_RANK],
    /// Strides of the output.
    pub stride_out: [usize; MAX_RANK],
}

impl Transfer<'_> {
    /// Appends its members; returns whether there was room.
    pub(super) fn push(&self, [x, out]: [u64; 2], to: &mut Values) -> bool {
        let axes = [self.shape, self.stride_x, self.stride_out].map(|of| dims(&of));
        to.push_address(x)
            && to.push_address(out)
            && to.push(&[self.units as u64])
            && to.push(&[self.rank as u64])
            && axes.iter().all(|of| to.push(of))
    }
}

/// An operand for a parameter of kind `tensor_map`.
#[derive(Debug, Clone, Copy)]
pub struct Tile<'a> {
    /// The operand.
    pub operand: &'a Operand,
    /// Its axes, the contiguous one first, each with the TMA tile's length along it.
    pub axes: &'a [(usize, u32)],
}

/// Declares a kernel: its name, the maximum threads of a block, and its parameters in order. Generates a struct with
/// one field for each of them, which a launch takes, and `KERNEL`, which the [`Source`](crate::cuda::Source) lists.
///
/// | parameter | in CUDA C++ | field |
/// |---|---|---|
/// | `x: input T` | `const T* x` | `&Operand` that is read; `T` is bound by the module |
/// | `x: input_of F64` | `const double* x` | `&Operand` of this dtype |
/// | `y: output T`, `output_of F64` | `T* y` | `&Operand` that is written |
/// | `x: view_in T`, `view_in_of F64`, `y: view_out T`, `view_out_of F64` | `View<const T> x` | `&Operand`, passed with its strides |
/// | `x: rows_in T`, `y: rows_out T` | `RowView<const T> x` | [`RowView`](crate::cuda::RowView) |
/// | `f: row_frame` | `RowFrame f` | [`RowFrame`](crate::cuda::RowFrame) |
/// | `c: transfer T` | `Transfer<T> c` | [`Transfer`](crate::cuda::Transfer) |
/// | `p: scratch T`, `scratch_of F64` | `T* p` | `usize`: bytes into the scratch memory |
/// | `m: tensor_map T` | `TensorMap m` | [`Tile`](crate::cuda::Tile) |
/// | `n: size` | `u64 n` | `usize` |
/// | `n: u64`, `u32`, `f32`, `f64` | `u64`, `u32`, `float`, `double` | the same |
/// | `c: flag` | `u32 c` | `bool` |
/// | `s: dims` | `Dims s` | `&[usize]`: sizes or strides of up to eight axes |
/// | `f: faults` | `Faults f` | `()`: where an index out of range is reported |
///
/// ```
/// use landfall::cuda::{KernelArgs, Piece, Source};
/// landfall::cuda_kernel! {
///     /// `y[i] = factor · x[i]`.
///     struct Scale = "scale", 256;
///     x: input T,
///     y: output T,
///     n: size,
///     factor: f64,
/// }
/// static SOURCE: Source = Source {
///     name: "scale",
///     pieces: &[Piece::new(
///         "scale",
///         "KERNEL(scale) { u64 i = thread_index(); if (i < n) y[i] = narrow<T>(widen(x[i]) * factor); }",
///     )],
///     entries: &[Scale::KERNEL],
/// };
/// assert_eq!(SOURCE.entries[0].params.len(), 4);
/// ```
#[macro_export]
macro_rules! cuda_kernel {
    (
        $(#[$doc:meta])*
        $vis:vis struct $Name:ident = $kernel:expr, $block:expr;
        $($(#[$about:meta])* $param:ident: $kind:ident $($of:ident)?),* $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        $vis struct $Name<'a> {
            $($(#[$about])* $vis $param: $crate::cuda_kernel!(@field 'a $kind)),*
        }

        impl $crate::cuda::KernelArgs for $Name<'_> {
            const KERNEL: $crate::cuda::Entry = $crate::cuda::Entry {
                name: $kernel,
                block: $block,
                params: &[$($crate::cuda::Param {
                    name: stringify!($param),
                    kind: $crate::cuda_kernel!(@kind $kind $($of)?),
                }),*],
            };
            fn list<R>(&self, take: impl FnOnce(&[$crate::cuda::Arg<'_>]) -> R) -> R {
                take(&[$($crate::cuda_kernel!(@arg $kind self.$param)),*])
            }
        }
    };

    (@kind input $T:ident) => { $crate::cuda::Kind::Input($crate::cuda::Element::Bound(stringify!($T))) };
    (@kind output $T:ident) => { $crate::cuda::Kind::Output($crate::cuda::Element::Bound(stringify!($T))) };
    (@kind rows_in $T:ident) => { $crate::cuda::Kind::RowsIn($crate::cuda::Element::Bound(stringify!($T))) };
    (@kind rows_out $T:ident) => { $crate::cuda::Kind::RowsOut($crate::cuda::Element::Bound(stringify!($T))) };
    (@kind view_in $T:ident) => { $crate::cuda::Kind::ViewIn($crate::cuda::Element::Bound(stringify!($T))) };
    (@kind view_out $T:ident) => { $crate::cuda::Kind::ViewOut($crate::cuda::Element::Bound(stringify!($T))) };
    (@kind transfer $T:ident) => { $crate::cuda::Kind::Transfer($crate::cuda::Element::Bound(stringify!($T))) };
    (@kind scratch $T:ident) => { $crate::cuda::Kind::Scratch($crate::cuda::Element::Bound(stringify!($T))) };
    (@kind tensor_map $T:ident) => { $crate::cuda::Kind::TensorMap($crate::cuda::Element::Bound(stringify!($T))) };
    (@kind input_of $D:ident) => { $crate::cuda::Kind::Input($crate::cuda::Element::Is($crate::DType::$D)) };
    (@kind output_of $D:ident) => { $crate::cuda::Kind::Output($crate::cuda::Element::Is($crate::DType::$D)) };
    (@kind view_in_of $D:ident) => { $crate::cuda::Kind::ViewIn($crate::cuda::Element::Is($crate::DType::$D)) };
    (@kind view_out_of $D:ident) => { $crate::cuda::Kind::ViewOut($crate::cuda::Element::Is($crate::DType::$D)) };
    (@kind scratch_of $D:ident) => { $crate::cuda::Kind::Scratch($crate::cuda::Element::Is($crate::DType::$D)) };
    (@kind row_frame) => { $crate::cuda::Kind::RowFrame };
    (@kind size) => { $crate::cuda::Kind::U64 };
    (@kind u64) => { $crate::cuda::Kind::U64 };
    (@kind flag) => { $crate::cuda::Kind::U32 };
    (@kind u32) => { $crate::cuda::Kind::U32 };
    (@kind f32) => { $crate::cuda::Kind::F32 };
    (@kind f64) => { $crate::cuda::Kind::F64 };
    (@kind dims) => { $crate::cuda::Kind::Dims };
    (@kind faults) => { $crate::cuda::Kind::Faults };

    (@field $a:lifetime input) => { &$a $crate::cuda::Operand };
    (@field $a:lifetime input_of) => { &$a $crate::cuda::Operand };
    (@field $a:lifetime output) => { &$a $crate::cuda::Operand };
    (@field $a:lifetime output_of) => { &$a $crate::cuda::Operand };
    (@field $a:lifetime view_in) => { &$a $crate::cuda::Operand };
    (@field $a:lifetime view_in_of) => { &$a $crate::cuda::Operand };
    (@field $a:lifetime view_out) => { &$a $crate::cuda::Operand };
    (@field $a:lifetime view_out_of) => { &$a $crate::cuda::Operand };
    (@field $a:lifetime row_frame) => { $crate::cuda::RowFrame<$a> };
    (@field $a:lifetime rows_in) => { $crate::cuda::RowView<$a> };
    (@field $a:lifetime rows_out) => { $crate::cuda::RowView<$a> };
    (@field $a:lifetime transfer) => { $crate::cuda::Transfer<$a> };
    (@field $a:lifetime scratch) => { usize };
    (@field $a:lifetime scratch_of) => { usize };
    (@field $a:lifetime tensor_map) => { $crate::cuda::Tile<$a> };
    (@field $a:lifetime size) => { usize };
    (@field $a:lifetime u64) => { u64 };
    (@field $a:lifetime flag) => { bool };
    (@field $a:lifetime u32) => { u32 };
    (@field $a:lifetime f32) => { f32 };
    (@field $a:lifetime f64) => { f64 };
    (@field $a:lifetime dims) => { &$a [usize] };
    (@field $a:lifetime faults) => { () };

    (@arg input $v:expr) => { $crate::cuda::Arg::Input($v) };
    (@arg input_of $v:expr) => { $crate::cuda::Arg::Input($v) };
    (@arg output $v:expr) => { $crate::cuda::Arg::Output($v) };
    (@arg output_of $v:expr) => { $crate::cuda::Arg::Output($v) };
    (@arg view_in $v:expr) => { $crate::cuda::Arg::ViewIn($v) };
    (@arg view_in_of $v:expr) => { $crate::cuda::Arg::ViewIn($v) };
    (@arg view_out $v:expr) => { $crate::cuda::Arg::ViewOut($v) };
    (@arg view_out_of $v:expr) => { $crate::cuda::Arg::ViewOut($v) };
    (@arg row_frame $v:expr) => { $crate::cuda::Arg::RowFrame($v) };
    (@arg rows_in $v:expr) => { $crate::cuda::Arg::RowsIn($v) };
    (@arg rows_out $v:expr) => { $crate::cuda::Arg::RowsOut($v) };
    (@arg transfer $v:expr) => { $crate::cuda::Arg::Transfer(&$v) };
    (@arg scratch $v:expr) => { $crate::cuda::Arg::Scratch($v) };
    (@arg scratch_of $v:expr) => { $crate::cuda::Arg::Scratch($v) };
    (@arg tensor_map $v:expr) => { $crate::cuda::Arg::TensorMap($v) };
    (@arg size $v:expr) => { $crate::cuda::Arg::U64($v as u64) };
    (@arg u64 $v:expr) => { $crate::cuda::Arg::U64($v) };
    (@arg flag $v:expr) => { $crate::cuda::Arg::U32(u32::from($v)) };
    (@arg u32 $v:expr) => { $crate::cuda::Arg::U32($v) };
    (@arg f32 $v:expr) => { $crate::cuda::Arg::F32($v) };
    (@arg f64 $v:expr) => { $crate::cuda::Arg::F64($v) };
    (@arg dims $v:expr) => { $crate::cuda::Arg::dims($v) };
    (@arg faults $v:expr) => { { let () = $v; $crate::cuda::Arg::Faults } };
}
pub(crate) use cuda_kernel;
