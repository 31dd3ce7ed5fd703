//! CUDA sources as data: the source text of `.cu` files, their kernels with parameters, and their bindings.

use super::param::{Element, Entry, Param, c_type};
use crate::kernel::cuda::pointwise as generated;
use crate::values::{DType, Expression, Reg};
use arrayvec::ArrayVec;
use std::fmt::Write;
use std::hash::{Hash, Hasher};

/// Shared by all sources: element types and their conversions, wide loads, reductions, random numbers.
const PRELUDE: &str = include_str!("prelude.cu");
/// Shared by all sources, too: what depends on a launch's blocks and threads.
const THREADS: &str = include_str!("threads.cu");

/// A compilation unit of CUDA C++ with the kernels in it.
#[derive(Debug)]
pub struct Source {
    /// Its name in errors, caches and snapshots.
    pub name: &'static str,
    /// Its texts, in order: shared ones first, its own last. Each kernel starts with `KERNEL(name) {`, or `KERNEL(name,
    /// attributes) {`.
    pub pieces: &'static [Piece],
    /// The kernels. All are resolved when the source is loaded.
    pub entries: &'static [Entry],
}

/// One `.cu` file of a [`Source`].
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// The file's name without `.cu`, used in compiler messages.
    pub name: &'static str,
    /// Its text, usually by `include_str!`.
    pub text: &'static str,
}

impl Piece {
    /// A file of this name with this text.
    #[must_use]
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text }
    }
}

/// A source with a prologue in a kernel: `first`, then what assembles struct parameters.
fn beginning(mut text: String, kernel: &Entry, first: &str) -> String {
    let begin = [")", ","].iter().find_map(|end| text.find(&format!("KERNEL({}{end}", kernel.name)));
    let brace = begin.and_then(|at| text[at..].find('{').map(|b| at + b + 1));
    if let Some(at) = brace {
        let structs: String = kernel.params.iter().map(Param::prologue).collect();
        text.insert_str(at, &format!("{first}{structs}"));
    }
    text
}

/// Maximum threads of a block for which a kernel gets all the registers that it needs.
const SMALL_BLOCK: u32 = 64;

/// Maximum number of names that a module binds.
const MAX_BOUND: usize = 12;

/// Compiled code of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// A `.cubin` file.
    pub code: Vec<u8>,
    /// The assembler's report on each kernel; empty if the code came from the cache.
    pub log: String,
}

/// A [`Source`] with all its bindings: the unit of compilation, caching and loading.
///
/// Stored inline: a module is described without allocation, so an eager call can look it up. Only bound names are
/// written, compared and hashed.
#[derive(Debug, Clone)]
pub struct Module {
    source: &'static Source,
    types: Bound<DType>,
    constants: Bound<u64>,
    /// Without steps if the source uses none.
    expression: Expression,
    /// The only architecture that it supports, if it is architecture-specific.
    only: Option<&'static str>,
}

/// Names with their bindings.
#[derive(Debug, Clone)]
struct Bound<T>(ArrayVec<(&'static str, T), MAX_BOUND>);

impl<T: Copy> Bound<T> {
    #[inline]
    fn push(&mut self, name: &'static str, value: T) {
        let pushed = self.0.try_push((name, value));
        debug_assert!(pushed.is_ok(), "a module binds at most {MAX_BOUND} names");
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = (&'static str, T)> + '_ {
        self.0.iter().copied()
    }
}

/// Whether two names are equal. They are short, and an eager call compares a dozen of them: a libc call for each would
/// take a sixth of its time.
#[inline]
fn same(a: &str, b: &str) -> bool {
    std::ptr::eq(a, b) || a.len() == b.len() && a.bytes().zip(b.bytes()).all(|(x, y)| x == y)
}

impl<T: Copy + PartialEq> PartialEq for Bound<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.iter().zip(other.iter());
        self.0.len() == other.0.len() && pairs.all(|((a, x), (b, y))| x == y && same(a, b))
    }
}

impl PartialEq for Module {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.source, other.source)
            && self.types == other.types
            && self.constants == other.constants
            && self.expression == other.expression
    }
}

impl Eq for Module {}

impl Hash for Module {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.source).hash(state);
        // One word for all of a kind: each costs the hasher a multiplication that depends on the previous one.
        state.write_u64(self.types.iter().fold(0, |word, (_, dtype)| word << 4 | dtype as u64));
        state.write_u64(self.constants.iter().fold(0, |word: u64, (_, value)| word.rotate_left(8) ^ value));
        self.expression.hash(state);
    }
}

impl Module {
    /// The module of a source without bindings.
    #[must_use]
    #[inline]
    pub fn new(source: &'static Source) -> Self {
        let (types, constants) = (Bound(ArrayVec::new()), Bound(ArrayVec::new()));
        Self { source, types, constants, expression: Expression::default(), only: None }
    }

    /// Binds a type name.
    #[must_use]
    #[inline]
    pub fn of(mut self, name: &'static str, dtype: DType) -> Self {
        self.bind(name, dtype);
        self
    }

    /// Binds a type name in place.
    #[inline]
    pub(crate) fn bind(&mut self, name: &'static str, dtype: DType) {
        self.types.push(name, dtype);
    }

    /// Binds a constant.
    #[must_use]
    #[inline]
    pub fn constant(mut self, name: &'static str, value: u64) -> Self {
        self.set(name, value);
        self
    }

    /// Binds a constant in place.
    #[inline]
    pub(crate) fn set(&mut self, name: &'static str, value: u64) {
        self.constants.push(name, value);
    }

    /// Adds the function `evaluate` of a scalar expression, on arguments of the type bound to `A`.
    #[must_use]
    #[inline]
    pub fn evaluating(source: &'static Source, expression: &Expression) -> Self {
        let mut module = Self::new(source);
        module.expression.clone_from(expression);
        module
    }

    /// Adds the function `evaluate` of the expression that `build` writes, in place, and gives the expression.
    #[inline]
    pub(crate) fn evaluate(&mut self, build: impl FnOnce(&mut Expression) -> Reg) -> &Expression {
        self.expression.write(build);
        &self.expression
    }

    /// Restricts it to this architecture, such as `sm_90a`, for architecture-specific instructions.
    #[must_use]
    pub fn only(mut self, arch: &'static str) -> Self {
        self.only = Some(arch);
        self
    }

    /// The only architecture that it supports, if it is architecture-specific.
    #[must_use]
    pub fn architecture(&self) -> Option<&'static str> {
        self.only
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &'static Source {
        self.source
    }

    /// The expression of its source, if it uses one.
    fn evaluates(&self) -> Option<&Expression> {
        Some(&self.expression).filter(|e| !e.steps().is_empty())
    }

    /// The dtype of a pointer parameter, if its name is bound.
    #[inline]
    pub(crate) fn dtype(&self, element: Element) -> Option<DType> {
        match element {
            Element::Is(dtype) => Some(dtype),
            Element::Bound(name) => self.types.iter().find(|b| same(b.0, name)).map(|b| b.1),
        }
    }

    /// The kernel of this name, with its index.
    #[inline]
    pub(crate) fn entry(&self, name: &str) -> Option<(usize, &'static Entry)> {
        self.source.entries.iter().enumerate().find(|(_, e)| same(e.name, name))
    }

    /// A one-line label: the source and its bindings.
    #[must_use]
    pub fn label(&self) -> String {
        let mut text = self.source.name.to_owned();
        for (name, dtype) in self.types.iter() {
            _ = write!(text, " {name}={dtype}");
        }
        for (name, value) in self.constants.iter() {
            _ = write!(text, " {name}={value}");
        }
        if let Some(e) = self.evaluates() {
            _ = write!(text, " {}", generated::formula(e));
        }
        text
    }

    /// The complete source text for the compiler.
    #[must_use]
    pub fn text(&self) -> String {
        let own: usize = self.source.pieces.iter().map(|piece| piece.text.len()).sum();
        let mut text = String::with_capacity(PRELUDE.len() + THREADS.len() + own + 4096);
        text.push_str(PRELUDE);
        text.push_str(THREADS);
        text.push_str(&self.own_text());
        text
    }

    /// The text without the prelude.
    #[must_use]
    pub fn own_text(&self) -> String {
        let mut text = self.bindings();
        for entry in self.source.entries {
            let params: Vec<String> = entry.params.iter().map(Param::declaration).collect();
            _ = writeln!(
                text,
                "#define KERNEL_{} __global__ void __launch_bounds__({}{}) {}({})",
                entry.name,
                entry.block,
                // Small blocks keep much in registers; by default the assembler spills for occupancy.
                if entry.block <= SMALL_BLOCK { ", 1" } else { "" },
                entry.name,
                params.join(", ")
            );
        }
        // Each kernel waits for its predecessors first.
        text.push_str(&self.pieces(" after_others();"));
        text
    }

    /// The text of its kernels as device functions, for a namespace of its own.
    pub(super) fn functions(&self) -> String {
        let mut text = self.bindings();
        text.push_str(THREADS);
        for entry in self.source.entries {
            let params: Vec<String> = entry.params.iter().map(Param::passed).collect();
            _ = writeln!(
                text,
                "#define KERNEL_{} DEVICE void {}({})",
                entry.name,
                entry.name,
                params.join(", ")
            );
        }
        text.push_str(&self.pieces(""));
        text
    }

    /// What its names stand for, and the function of its expression.
    fn bindings(&self) -> String {
        let mut text = String::new();
        for (name, dtype) in self.types.iter() {
            _ = writeln!(text, "typedef {} {name};", c_type(dtype));
        }
        for (name, value) in self.constants.iter() {
            _ = writeln!(text, "constexpr u64 {name} = {value};");
        }
        if let Some(e) = self.evaluates() {
            text.push_str(&generated::function(e));
        }
        text
    }

    /// Its files in order, each kernel with a prologue that begins with `first`.
    fn pieces(&self, first: &str) -> String {
        let mut own = String::new();
        for piece in self.source.pieces {
            _ = writeln!(own, "#line 1 \"{}.cu\"", piece.name);
            own.push_str(piece.text);
        }
        self.source.entries.iter().fold(own, |text, entry| beginning(text, entry, first))
    }
}
