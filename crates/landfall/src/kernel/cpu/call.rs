//! One kernel call, as the kernel receives it.

use super::parallel::Split;
use super::view::{View, ViewMut};
use super::{memory, parallel};
use crate::error::IndexFault;
use crate::kernel::Operands;
use crate::ranks::World;
use crate::values::{DType, Element, Layout, Operand, Relation, Rule, Spec};
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// The operands of one kernel call, its workspace and its threads.
///
/// An input that aliases an output (in place, as the op's alias rule allows) is not available as an input: the kernel
/// reads it through the output. So no kernel ever holds `&` and `&mut` over the same bytes.
#[derive(Debug)]
pub struct Call<'a> {
    operands: Operands<'a>,
    pool: Option<&'a rayon::ThreadPool>,
    fault: &'a Mutex<Option<IndexFault>>,
    world: &'a World,
    taken: Cell<u32>,
}

/// Runs a body with `$T` as the element type of input `$arg` of a [`Call`](crate::cpu::Call), which must be a float. `$W as $other` is
/// that of input `$other`: `$T`, or the type that `$T` is accumulated in. For a kernel, which returns a [`Rule`](crate::Rule).
///
/// ```
/// use landfall::{Element, Rule, cpu, with_float};
/// /// The lesser of each element and 0.
/// fn kernel(call: &cpu::Call<'_>) -> Result<(), Rule> {
///     with_float!(call, 0, T => {
///         let (x, mut y) = (call.input::<T>(0)?, call.output::<T>(0)?);
///         for i in 0..x.elements() {
///             y.set_flat(i, T::from_f64(x.flat(i).to_f64().min(0.0)));
///         }
///         Ok(())
///     })
/// }
/// ```
#[macro_export]
macro_rules! with_float {
    ($call:ident, $arg:expr, $T:ident, $W:ident as $other:literal => $body:expr) => {
        $crate::with_float!($call, $arg, $T => if $call.dtype($other)? == <$T as $crate::Element>::DTYPE {
            type $W = $T;
            $body
        } else {
            type $W = <$T as $crate::Element>::Acc;
            $body
        })
    };
    ($call:ident, $arg:expr, $T:ident => $body:expr) => {{
        let dtype = $call.dtype($arg)?;
        $crate::with_dtype!(float dtype, $T => $body,
            else return Err($crate::Rule::Dtype { arg: $arg, dtype, expected: "a float" }))
    }};
}
pub(crate) use with_float;

/// Bit of [`Call::taken`] for the scratch memory.
const WORKSPACE: u32 = 1 << 31;

impl<'a> Call<'a> {
    pub(crate) fn new(
        operands: Operands<'a>,
        pool: Option<&'a rayon::ThreadPool>,
        fault: &'a Mutex<Option<IndexFault>>,
        world: &'a World,
    ) -> Self {
        Self { operands, pool, fault, world, taken: Cell::new(0) }
    }

    /// Specs of the inputs.
    pub(crate) fn specs(&self) -> Vec<Spec> {
        self.operands.inputs.iter().map(Operand::spec).collect()
    }

    /// The ranks that make this call together; for most engines it is the only one.
    #[must_use]
    pub fn world(&self) -> &'a World {
        self.world
    }

    /// Dtype of input `i`.
    ///
    /// # Errors
    /// There must be an input `i`.
    pub fn dtype(&self, i: usize) -> Result<DType, Rule> {
        self.operand(i).map(|o| o.dtype)
    }

    /// Dtype of output `j`.
    ///
    /// # Errors
    /// There must be an output `j`.
    pub fn output_dtype(&self, j: usize) -> Result<DType, Rule> {
        let outputs = self.operands.outputs;
        outputs.get(j).map(|o| o.dtype).ok_or(Rule::Outputs { expected: outputs.len(), got: j + 1 })
    }

    /// Number of elements of input `i`.
    ///
    /// # Errors
    /// There must be an input `i`.
    pub fn elements(&self, i: usize) -> Result<usize, Rule> {
        self.operand(i).map(|o| o.layout.shape().elements())
    }

    /// Number of axes of input `i`.
    ///
    /// # Errors
    /// There must be an input `i`.
    pub fn rank(&self, i: usize) -> Result<usize, Rule> {
        self.operand(i).map(|o| o.layout.shape().rank())
    }

    /// Number of inputs.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.operands.inputs.len()
    }

    fn operand(&self, i: usize) -> Result<&'a Operand, Rule> {
        let inputs = self.operands.inputs;
        let takes = || format!("{} arguments", inputs.len());
        inputs.get(i).ok_or_else(|| Rule::Arity { takes: takes(), got: i + 1 })
    }

    /// The output that input `i` aliases, if it is used in place.
    #[must_use]
    pub fn in_place(&self, i: usize) -> Option<usize> {
        let input = self.operands.inputs.get(i)?;
        self.operands.outputs.iter().position(|o| o.relation(input) != Relation::Disjoint)
    }

    /// Input `i`; `None` if it is used in place and must be read through its output.
    ///
    /// # Errors
    /// Its dtype must be `T`'s.
    pub fn input_or_in_place<T: Element>(&self, i: usize) -> Result<Option<View<'a, T>>, Rule> {
        let operand = self.operand(i)?;
        typed::<T>(i, operand.dtype)?;
        if self.in_place(i).is_some() {
            return Ok(None);
        }
        Ok(Some(View::new(memory::elements(operand), operand.layout)))
    }

    /// Input `i` of an op that is never run in place.
    ///
    /// # Errors
    /// Its dtype must be `T`'s, and it must not share memory with an output.
    pub fn input<T: Element>(&self, i: usize) -> Result<View<'a, T>, Rule> {
        self.input_or_in_place(i)?.ok_or_else(|| {
            let output = self.in_place(i).unwrap_or(0);
            let bytes = self.operands.outputs[output].overlap(&self.operands.inputs[i]);
            let (relation, allowed) = (Relation::Overlapping, "no shared memory");
            Rule::Alias { output, input: i, relation, bytes, allowed }
        })
    }

    /// Output `j`. Each output can be taken once.
    ///
    /// # Errors
    /// Its dtype must be `T`'s, and it must not have been taken before.
    pub fn output<T: Element>(&self, j: usize) -> Result<ViewMut<'a, T>, Rule> {
        let outputs = self.operands.outputs;
        let operand = outputs.get(j).ok_or(Rule::Outputs { expected: outputs.len(), got: j + 1 })?;
        typed::<T>(j, operand.dtype)?;
        self.take(1 << j.min(30), j)?;
        Ok(ViewMut::new(memory::elements_mut(operand), operand.layout))
    }

    /// The requested workspace, as elements. Can be taken once.
    ///
    /// # Errors
    /// It must not have been taken before.
    pub fn workspace<T: Element>(&self) -> Result<&'a mut [T], Rule> {
        self.take(WORKSPACE, 31)?;
        let len = self.operands.workspace_bytes / size_of::<T>();
        let whole = Layout::contiguous([len].into());
        let region = Operand { base: self.operands.workspace, dtype: T::DTYPE, layout: whole };
        Ok(memory::elements_mut(&region))
    }

    fn take(&self, bit: u32, output: usize) -> Result<(), Rule> {
        if self.taken.replace(self.taken.get() | bit) & bit != 0 {
            let bytes = self.operands.outputs.get(output).map(|o| o.overlap(o)).unwrap_or_default();
            return Err(Rule::OutputsOverlap { first: output, second: output, bytes });
        }
        Ok(())
    }

    /// Runs `work(start, part)` over parts of at most `grain` indices of axis 0 of `whole` (`len` of them), on the
    /// engine's threads. The partition depends on `len` and `grain` only.
    pub fn parallel<S: Split>(&self, whole: S, len: usize, grain: usize, work: impl Fn(usize, S) + Sync) {
        parallel::run(self.pool, whole, len, grain, work);
    }

    /// Reports an index value out of range. The kernel clamps it; the next read on the host returns the error.
    pub fn flag(&self, position: usize, value: i64, limit: usize) {
        let mut slot = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(IndexFault { op: self.operands.op, position, value, limit });
    }
}

fn typed<T: Element>(arg: usize, dtype: DType) -> Result<(), Rule> {
    // Bool operands are passed as bytes.
    if dtype == T::DTYPE || (dtype == DType::Bool && T::DTYPE == DType::U8) {
        Ok(())
    } else {
        Err(Rule::Dtype { arg, dtype, expected: T::DTYPE.name() })
    }
}
