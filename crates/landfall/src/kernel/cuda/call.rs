//! One kernel call of an op on its CUDA side: operands in, typed launches out.

use super::architecture::{SHARED_MEMORY, shared_memory};
use super::collective::{Collective, CollectiveLaunch, Seat};
use super::module::Module;
use super::param::{Entry, KernelArgs, Kind, RowFrame, RowView, Tile, Transfer, dims, push_view};
use super::tensor_map;
use crate::error::Error;
use crate::kernel::Operands;
use crate::kernel::cuda::product::ProductLaunch;
use crate::values::{Address, Layout, MAX_RANK, Operand, Precision, Relation, Rule, Spec};
use arrayvec::ArrayVec;
use std::ffi::c_void;
use std::fmt;

/// Why a call did not run.
#[derive(Debug)]
pub enum Failure {
    /// A rule was violated; nothing ran.
    Rule(Rule),
    /// The device, or its compiler, failed.
    Device(Error),
}

impl From<Rule> for Failure {
    fn from(rule: Rule) -> Self {
        Self::Rule(rule)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Device(error)
    }
}

/// Threads of a block, where nothing speaks for another number.
pub(crate) const BLOCK: u32 = 256;

/// A size as a 32-bit number, for kernels that divide by it.
///
/// # Errors
/// It must be below 2³².
pub(crate) fn size(of: usize) -> Result<u32, Rule> {
    let value = of as f64;
    u32::try_from(of).map_err(|_| Rule::Attribute { name: "size", value, expected: "below 2^32" })
}

/// Blocks, threads and dynamic shared memory of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
}

/// Maximum number of blocks along x; along y and z it is 65,535.
const MAX_GRID: u64 = (1 << 31) - 1;

impl Geometry {
    /// `threads` threads in blocks of `block`, in one dimension, without shared memory.
    ///
    /// # Errors
    /// There must be fewer than 2³¹ blocks.
    pub fn linear(threads: usize, block: u32) -> Result<Self, Rule> {
        Self::blocks(threads.div_ceil(block as usize), block)
    }

    /// Number of blocks for `units` units of work: at most `most`, and all of them busy with equal shares.
    #[must_use]
    pub fn shares(units: usize, most: usize) -> usize {
        units.div_ceil(units.div_ceil(most).max(1))
    }

    /// `blocks` blocks of `block` threads, in one dimension, without shared memory.
    ///
    /// # Errors
    /// There must be fewer than 2³¹ blocks.
    pub fn blocks(blocks: usize, block: u32) -> Result<Self, Rule> {
        let too_many =
            Rule::Attribute { name: "number of blocks", value: blocks as f64, expected: "less than 2^31" };
        let x = u32::try_from(blocks).ok().filter(|&b| u64::from(b) <= MAX_GRID).ok_or(too_many)?;
        Ok(Self { grid: [x, 1, 1], block: [block, 1, 1], shared: 0 })
    }

    fn fits(&self, entry: &Entry) -> bool {
        let [x, y, z] = self.grid.map(u64::from);
        let threads: u64 = self.block.iter().map(|&b| u64::from(b)).product();
        (1..=MAX_GRID).contains(&x)
            && (1..=65_535).contains(&y)
            && (1..=65_535).contains(&z)
            && (1..=u64::from(entry.block)).contains(&threads)
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grid {:?}, block {:?}, {} bytes shared", self.grid, self.block, self.shared)
    }
}

/// An argument of a launch, checked against the kernel's declared parameter.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    /// Pointer to the first element of an input (its layout's offset is applied).
    Input(&'a Operand),
    /// Pointer to the first element of an output.
    Output(&'a Operand),
    /// An input with its strides.
    ViewIn(&'a Operand),
    /// An output with its strides.
    ViewOut(&'a Operand),
    /// Workspace at this byte offset.
    Scratch(usize),
    /// An input that is read by TMA tiles.
    TensorMap(Tile<'a>),
    /// Number and length of the rows.
    RowFrame(RowFrame<'a>),
    /// The rows of an input.
    RowsIn(RowView<'a>),
    /// The rows of an output.
    RowsOut(RowView<'a>),
    /// An input and an output of the same shape.
    Transfer(&'a Transfer<'a>),
    /// A 32-bit unsigned integer.
    U32(u32),
    /// A 64-bit unsigned integer.
    U64(u64),
    /// A binary32.
    F32(f32),
    /// A binary64.
    F64(f64),
    /// Sizes or strides.
    Dims([u64; MAX_RANK]),
    /// The record for an index out of range.
    Faults,
}

impl Arg<'_> {
    /// Sizes or strides of up to eight axes.
    #[must_use]
    pub fn dims(of: &[usize]) -> Self {
        Self::Dims(dims(of))
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Input(_) => "an operand that is read",
            Self::Output(_) => "an operand that is written",
            Self::ViewIn(_) => "an operand that is read, with its strides",
            Self::ViewOut(_) => "an operand that is written, with its strides",
            Self::Scratch(_) => "scratch memory",
            Self::TensorMap(_) => "a tensor map",
            Self::RowFrame(_) => "sizes of rows",
            Self::RowsIn(_) => "rows that are read",
            Self::RowsOut(_) => "rows that are written",
            Self::Transfer(_) => "a copy",
            Self::U32(_) => "a u32",
            Self::U64(_) => "a u64",
            Self::F32(_) => "an f32",
            Self::F64(_) => "an f64",
            Self::Dims(_) => "sizes or strides",
            Self::Faults => "the fault record",
        }
    }
}

/// Maximum number of parameters of a kernel, counting members of structs separately.
const MAX_PARAMS: usize = 40;
/// Words of all arguments of a launch.
const MAX_WORDS: usize = 256;

/// The bytes of a launch's arguments; each starts at a new word.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    words: ArrayVec<u64, MAX_WORDS>,
    starts: ArrayVec<u16, MAX_PARAMS>,
    /// Addresses of the operands among them, and of those inside tensor maps.
    addresses: ArrayVec<u64, MAX_PARAMS>,
}

impl Values {
    pub(super) fn new() -> Self {
        Self { words: ArrayVec::new(), starts: ArrayVec::new(), addresses: ArrayVec::new() }
    }

    /// Appends one argument; returns whether there was room.
    #[inline]
    pub(super) fn push(&mut self, words: &[u64]) -> bool {
        let start = self.words.len() as u16;
        self.words.try_extend_from_slice(words).is_ok() && self.starts.try_push(start).is_ok()
    }

    /// Appends the address of an operand; returns whether there was room.
    #[inline]
    pub(super) fn push_address(&mut self, address: u64) -> bool {
        self.addresses.try_push(address).is_ok() && self.push(&[address])
    }

    /// Each argument, from its first word.
    #[inline]
    pub(crate) fn each(&self) -> impl Iterator<Item = &[u64]> {
        self.starts.iter().map(|&s| &self.words[usize::from(s)..])
    }

    /// The words of each argument.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &[u64]> {
        let ends = self.starts.iter().skip(1).map(|&s| usize::from(s)).chain([self.words.len()]);
        self.starts.iter().zip(ends).map(|(&s, end)| &self.words[usize::from(s)..end])
    }

    /// Whether there are the same arguments of the same numbers of words.
    pub(super) fn like(&self, other: &Self) -> bool {
        self.starts == other.starts && self.words.len() == other.words.len()
    }

    /// Every word.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The address of each argument, for the driver.
    #[inline]
    pub(crate) fn pointers(&self) -> ArrayVec<*mut c_void, MAX_PARAMS> {
        // Pushed one by one in place: a collected list would be moved there afterwards, with its whole capacity.
        let mut pointers = ArrayVec::new();
        self.each().for_each(|words| pointers.push(words.as_ptr().cast_mut().cast()));
        pointers
    }
}

/// A checked launch.
#[derive(Debug)]
pub(crate) struct KernelLaunch<'a> {
    pub(crate) module: &'a Module,
    /// Index of the kernel in the module's source.
    pub(crate) entry: usize,
    pub(crate) geometry: Geometry,
    pub(crate) values: &'a Values,
}

impl KernelLaunch<'_> {
    /// Addresses of its operands.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        self.values.addresses.iter().copied()
    }
}

/// The target of a call's launches: the device, a list, or the compiler only.
pub(crate) trait Sink {
    /// Accepts one launch of an op.
    fn kernel(&mut self, op: &'static str, launch: KernelLaunch<'_>) -> Result<(), Error>;
    /// Accepts one cuBLASLt matmul; returns whether it has an algorithm for it. If not, nothing ran.
    fn product(&mut self, op: &'static str, launch: &ProductLaunch) -> Result<bool, Error>;
    /// Accepts one memset.
    fn fill(&mut self, op: &'static str, to: Address, bytes: usize, value: u8) -> Result<(), Error>;
    /// The driver's encoding of a tensor map.
    fn tensor_map(&self, tile: &Tile<'_>) -> Result<[u64; tensor_map::WORDS], Error>;
    /// The record in which the launch of an op reports an index out of range, and the flag that it sets then.
    fn faults(&mut self, op: &'static str) -> Result<[Address; 2], Error>;
    /// Where the device stands among ranks.
    fn seat(&self) -> Seat {
        Seat::Alone
    }
    /// Accepts one collective; only a rank of several is given one.
    fn collective(&mut self, op: &'static str, launch: &CollectiveLaunch) -> Result<(), Error>;
    /// The architecture that modules are compiled for; none if for all.
    fn architecture(&self) -> Option<&str>;
}

/// The operands of one call, and methods that launch kernels on them. The launches of a call depend on its operands'
/// dtypes, layouts and addresses only, never on their contents.
pub struct Call<'a> {
    operands: Operands<'a>,
    sink: &'a mut dyn Sink,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("operands", &self.operands).finish_non_exhaustive()
    }
}

impl<'a> Call<'a> {
    pub(crate) fn new(operands: Operands<'a>, sink: &'a mut dyn Sink) -> Self {
        Self { operands, sink }
    }

    /// Operands read.
    #[must_use]
    pub fn inputs(&self) -> &'a [Operand] {
        self.operands.inputs
    }

    /// Operands written.
    #[must_use]
    pub fn outputs(&self) -> &'a [Operand] {
        self.operands.outputs
    }

    /// Input `i`.
    ///
    /// # Errors
    /// There must be an input `i`.
    pub fn input(&self, i: usize) -> Result<&'a Operand, Rule> {
        let inputs = self.operands.inputs;
        let takes = || format!("{} arguments", inputs.len());
        inputs.get(i).ok_or_else(|| Rule::Arity { takes: takes(), got: i + 1 })
    }

    /// Output `j`.
    ///
    /// # Errors
    /// There must be an output `j`.
    pub fn output(&self, j: usize) -> Result<&'a Operand, Rule> {
        let outputs = self.operands.outputs;
        outputs.get(j).ok_or(Rule::Outputs { expected: outputs.len(), got: j + 1 })
    }

    /// The output that input `i` aliases, if it is used in place.
    #[must_use]
    pub fn in_place(&self, i: usize) -> Option<usize> {
        let input = self.operands.inputs.get(i)?;
        self.operands.outputs.iter().position(|o| o.relation(input) != Relation::Disjoint)
    }

    /// Specs of the inputs.
    #[must_use]
    pub fn specs(&self) -> Vec<Spec> {
        self.operands.inputs.iter().map(Operand::spec).collect()
    }

    /// Bytes of workspace, as requested by the kernel.
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        self.operands.workspace_bytes
    }

    /// Whether a module supports the device of the call. If launches are only listed, for every device, an
    /// architecture-specific one does not.
    #[must_use]
    pub fn has(&self, module: &Module) -> bool {
        module.architecture().is_none_or(|only| self.sink.architecture() == Some(only))
    }

    /// Launches a kernel of a module. The operands' dtypes must be those of its parameters.
    ///
    /// # Errors
    /// [`Rule::Launch`] if they differ, if the module's source does not list the kernel, or if the geometry exceeds the
    /// kernel's or what the architecture has; a device fault.
    pub fn launch<A: KernelArgs>(
        &mut self,
        module: &Module,
        geometry: Geometry,
        args: &A,
    ) -> Result<(), Failure> {
        args.list(|list| self.launch_list(module, A::KERNEL.name, geometry, list))
    }

    /// Launches the kernel of this name with a list of arguments, for sources that are generated for a number of
    /// operands.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); also if number or kinds of the arguments differ from the parameters.
    pub(crate) fn launch_list(
        &mut self,
        module: &Module,
        entry: &'static str,
        geometry: Geometry,
        args: &[Arg<'_>],
    ) -> Result<(), Failure> {
        let file = module.source().name;
        let wrong = |what: String| Rule::Launch { file, entry, what };
        let Some((index, declared)) = module.entry(entry) else {
            return Err(wrong("the source declares no such kernel".to_owned()).into());
        };
        if !geometry.fits(declared) {
            let most = declared.block;
            let what = format!("{geometry} is beyond what it can be (blocks of 1 to {most} threads)");
            return Err(wrong(what).into());
        }
        // Every architecture has this much: few launches ask for more.
        let arch = (geometry.shared as usize > SHARED_MEMORY)
            .then(|| module.architecture().or(self.sink.architecture()))
            .flatten();
        let room = arch.map_or(SHARED_MEMORY, shared_memory);
        if geometry.shared as usize > room {
            let on = arch.unwrap_or("some GPUs");
            let what =
                format!("{geometry} is beyond the {room} bytes of shared memory that a block has on {on}");
            return Err(wrong(what).into());
        }
        if args.len() != declared.params.len() {
            let what = format!("it has {} parameters, got {} arguments", declared.params.len(), args.len());
            return Err(wrong(what).into());
        }
        let mut values = Values::new();
        for (param, arg) in declared.params.iter().zip(args) {
            match self.value(module, param.kind, arg, &mut values) {
                Ok(true) => {}
                Ok(false) => return Err(wrong("its arguments take more than 2 KB".to_owned()).into()),
                Err(what) => return Err(wrong(format!("parameter {}: {what}", param.name)).into()),
            }
        }
        let launch = KernelLaunch { module, entry: index, geometry, values: &values };
        Ok(self.sink.kernel(self.operands.op, launch)?)
    }

    /// Appends an argument; returns whether there was room, or why the parameter refuses it.
    fn value(
        &mut self,
        module: &Module,
        kind: Kind,
        arg: &Arg<'_>,
        values: &mut Values,
    ) -> Result<bool, String> {
        let typed = |operand: &Operand, element| match module.dtype(element) {
            Some(dtype) if dtype == operand.dtype => Ok(operand.address()),
            Some(dtype) => Err(format!("it is of {dtype}, the operand is {}", operand.dtype)),
            None => Err(format!("the module binds no type to {element:?}")),
        };
        Ok(match (kind, arg) {
            (Kind::Input(e), Arg::Input(o)) | (Kind::Output(e), Arg::Output(o)) => {
                values.push_address(typed(o, e)?)
            }
            (Kind::Scratch(_), &Arg::Scratch(at)) if at <= self.operands.workspace_bytes => {
                values.push(&[self.operands.workspace.offset(at).0])
            }
            (Kind::Scratch(_), Arg::Scratch(at)) => {
                return Err(format!("{at} is beyond the scratch memory of {} bytes", self.scratch_bytes()));
            }
            (Kind::ViewIn(e), Arg::ViewIn(o)) | (Kind::ViewOut(e), Arg::ViewOut(o)) => {
                push_view(o, typed(o, e)?, values)
            }
            (Kind::RowFrame, Arg::RowFrame(frame)) => frame.push(values),
            (Kind::RowsIn(e), Arg::RowsIn(rows)) | (Kind::RowsOut(e), Arg::RowsOut(rows)) => {
                rows.push(typed(rows.operand, e)?, values)
            }
            (Kind::Transfer(e), Arg::Transfer(copy)) => {
                copy.push([typed(copy.x, e)?, typed(copy.out, e)?], values)
            }
            (Kind::TensorMap(e), Arg::TensorMap(tile)) => {
                let address = typed(tile.operand, e)?;
                tensor_map::refused(tile)?;
                let words = self.sink.tensor_map(tile).map_err(|error| error.to_string())?;
                values.addresses.try_push(address).is_ok() && values.push(&words)
            }
            (Kind::U32, &Arg::U32(v)) => values.push(&[u64::from(v)]),
            (Kind::U64, &Arg::U64(v)) => values.push(&[v]),
            (Kind::F32, &Arg::F32(v)) => values.push(&[u64::from(v.to_bits())]),
            (Kind::F64, &Arg::F64(v)) => values.push(&[v.to_bits()]),
            (Kind::Dims, Arg::Dims(v)) => values.push(v),
            (Kind::Faults, Arg::Faults) => {
                let [record, flag] = self.sink.faults(self.operands.op).map_err(|error| error.to_string())?;
                values.push(&[record.0, flag.0])
            }
            (kind, arg) => return Err(format!("it takes {kind:?}, got {}", arg.kind())),
        })
    }

    /// An operand in the workspace at this byte offset: passes data from one launch of the call to the next.
    ///
    /// # Errors
    /// [`Rule::Launch`] if it does not fit.
    pub fn scratch(&self, at: usize, spec: Spec) -> Result<Operand, Rule> {
        let room = self.scratch_bytes();
        if at.saturating_add(spec.bytes()) > room {
            let what = format!("{spec} from byte {at} on is beyond the scratch memory of {room} bytes");
            return Err(Rule::Launch { file: "driver", entry: "scratch", what });
        }
        let base = self.operands.workspace.offset(at);
        Ok(Operand { base, dtype: spec.dtype, layout: Layout::contiguous(spec.shape) })
    }

    /// `output = inputs[0] · inputs[1]` (+ an addend) (+ a bias), as in [`MatMul`](crate::ops::MatMul), by cuBLASLt,
    /// with the call's workspace from byte `scratch` on and the heuristic's algorithm of this index; 0 is its first
    /// choice. Returns whether it has that algorithm for these operand layouts. If not, nothing ran: launch a kernel.
    ///
    /// # Errors
    /// The library's absence; a device fault.
    pub fn product(
        &mut self,
        inputs: &[Operand],
        output: &Operand,
        precision: Precision,
        algorithm: usize,
        scratch: usize,
    ) -> Result<bool, Failure> {
        let room = self.scratch_bytes().saturating_sub(scratch);
        let scratch = (self.operands.workspace.offset(scratch), room);
        match ProductLaunch::new(inputs, output, precision, scratch, algorithm) {
            Some(launch) => Ok(self.sink.product(self.operands.op, &launch)?),
            None => Ok(false),
        }
    }

    /// Where the device stands among ranks.
    pub(crate) fn seat(&self) -> Seat {
        self.sink.seat()
    }

    /// Runs a collective with the other ranks, on contiguous operands; `count` as in [`CollectiveLaunch`].
    ///
    /// # Errors
    /// A fault of a rank, or of the device.
    pub(crate) fn collective(
        &mut self,
        what: Collective,
        count: usize,
        from: &Operand,
        to: &Operand,
    ) -> Result<(), Failure> {
        let (from, to, dtype) = (Address(from.address()), Address(to.address()), to.dtype);
        Ok(self.sink.collective(self.operands.op, &CollectiveLaunch { what, dtype, count, from, to })?)
    }

    /// Sets every byte of an output, which must be contiguous.
    ///
    /// # Errors
    /// [`Rule::Launch`] if it is not contiguous; a device fault.
    pub fn fill(&mut self, output: &Operand, value: u8) -> Result<(), Failure> {
        let spec = output.spec();
        if !output.layout.is_contiguous() {
            let what = format!("strides {:?} of {spec} leave gaps", output.layout.strides());
            return Err(Rule::Launch { file: "driver", entry: "fill", what }.into());
        }
        if spec.bytes() == 0 {
            return Ok(());
        }
        let to = Address(output.address());
        Ok(self.sink.fill(self.operands.op, to, spec.bytes(), value)?)
    }
}

#[cfg(test)]
mod tests;
