//! Kernels of several launches as device functions of one kernel: a *segment* or a *group*.
//!
//! Each block of a segment is a *part*: it does the launches of every member for its own part of the operands, one after the other,
//! with a barrier between them. Each block of a group is a block of one of its members, which wait for nothing of each other.
//!
//! A member of a segment is recorded part by part, as launches of that part alone. Where all parts have the same code, and each argument is the
//! first part's plus a multiple of the part's number, one text serves all: sizes are constants in it, and only addresses are
//! parameters.

use super::call::{Geometry, KernelLaunch, Values};
use super::module::{Module, Piece, Source};
use super::param::{Entry, Kind, Param, Passed};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// A launch of each part.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    module: Module,
    entry: usize,
    geometry: Geometry,
    /// The arguments of part 0, and what each word gains from one part to the next.
    values: Values,
    steps: Vec<u64>,
}

/// Threads of a segment's block at most: sixteen warps, as in the source.
const MOST_THREADS: u32 = 512;
const WARP: u32 = 32;
/// Addresses at most: each parameter has eight.
pub(crate) const MOST_ADDRESSES: usize = 8 * EIGHTS.len();

const fn eight(name: &'static str) -> Param {
    Param { name, kind: Kind::Dims }
}

static EIGHTS: [Param; 32] = [
    eight("a0"),
    eight("a1"),
    eight("a2"),
    eight("a3"),
    eight("a4"),
    eight("a5"),
    eight("a6"),
    eight("a7"),
    eight("a8"),
    eight("a9"),
    eight("a10"),
    eight("a11"),
    eight("a12"),
    eight("a13"),
    eight("a14"),
    eight("a15"),
    eight("a16"),
    eight("a17"),
    eight("a18"),
    eight("a19"),
    eight("a20"),
    eight("a21"),
    eight("a22"),
    eight("a23"),
    eight("a24"),
    eight("a25"),
    eight("a26"),
    eight("a27"),
    eight("a28"),
    eight("a29"),
    eight("a30"),
    eight("a31"),
];

impl Member {
    /// A launch of part 0, if a part of a block can do it.
    pub(crate) fn new(launch: &KernelLaunch<'_>) -> Option<Self> {
        let Geometry { block, grid, .. } = launch.geometry;
        let known = launch.module.architecture().is_none();
        let entry = &launch.module.source().entries[launch.entry];
        let passes = entry.params.iter().all(|p| p.passes().is_some());
        let threads = block[0] <= MOST_THREADS && block[0].is_multiple_of(WARP) && block[1..] == [1, 1];
        (known && passes && threads && !grid.contains(&0)).then(|| Self {
            module: launch.module.clone(),
            entry: launch.entry,
            geometry: launch.geometry,
            values: launch.values.clone(),
            steps: vec![0; launch.values.words().len()],
        })
    }

    /// Whether a later part's launch is this one's but for what each word gains by part. The first one says how much that is.
    pub(crate) fn continues(&mut self, part: usize, launch: &KernelLaunch<'_>) -> bool {
        let same =
            *launch.module == self.module && launch.entry == self.entry && launch.geometry == self.geometry;
        if !same || !launch.values.like(&self.values) {
            return false;
        }
        let (own, words, part) = (self.values.words(), launch.values.words(), part as u64);
        if part == 1 {
            self.steps = own.iter().zip(words).map(|(a, b)| b.wrapping_sub(*a)).collect();
        }
        let gained = |((a, b), step): ((&u64, &u64), &u64)| a.wrapping_add(step.wrapping_mul(part)) == *b;
        own.iter().zip(words).zip(&self.steps).all(gained)
    }

    /// Blocks of its launch.
    pub(crate) fn blocks(&self) -> u64 {
        self.geometry.grid.iter().map(|&g| u64::from(g)).product()
    }

    fn entry(&self) -> &'static Entry {
        &self.module.source().entries[self.entry]
    }

    /// Each argument: its kind, its words in part 0, and what they gain.
    fn arguments(&self) -> impl Iterator<Item = (Passed, &[u64], &[u64])> {
        let kinds = self.entry().params.iter().filter_map(Param::passes).flatten();
        let mut at = 0;
        kinds.zip(self.values.arguments()).map(move |(&kind, words)| {
            let steps = &self.steps[at..at + words.len()];
            at += words.len();
            (kind, words, steps)
        })
    }

    /// Whether only addresses and whole numbers differ between parts.
    pub(crate) fn is_regular(&self) -> bool {
        self.arguments().all(|(kind, _, steps)| {
            matches!(kind, Passed::Pointer | Passed::Long) || steps.iter().all(|&s| s == 0)
        })
    }

    /// Its addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        self.arguments().filter(|(kind, ..)| *kind == Passed::Pointer).map(|(_, words, _)| words[0])
    }
}

/// One kernel that does the launches of its members.
#[derive(Debug)]
pub(crate) struct Joined {
    module: Module,
    geometry: Geometry,
    values: Values,
}

impl Joined {
    /// A segment of these members in order, each of so many parts; none if they have too many addresses.
    pub(crate) fn segment(members: &[Member], parts: u32) -> Option<Self> {
        Self::new(members, Mode::Segment, parts)
    }

    /// A group of these members; none if they have too many addresses.
    pub(crate) fn group(members: &[Member]) -> Option<Self> {
        let blocks = members.iter().map(|m| m.blocks()).sum::<u64>();
        Self::new(members, Mode::Group, u32::try_from(blocks).ok()?)
    }

    fn new(members: &[Member], mode: Mode, blocks: u32) -> Option<Self> {
        let threads = members.iter().map(|m| m.geometry.block[0]).max()?;
        let shared = members.iter().map(|m| m.geometry.shared).max()?;
        let mut addresses = Addresses(Vec::new());
        let mut text = Text::new(mode, threads);
        for member in members {
            let arguments = member.arguments().map(|(kind, own, steps)| {
                let step = steps.first().copied().unwrap_or(0);
                let start =
                    if kind == Passed::Pointer { addresses.place(own[0]) } else { constant(kind, own) };
                let value = if step == 0 { start } else { format!("{start} + part * {step}ull") };
                let given = mode == Mode::Group || kind == Passed::Pointer || step != 0;
                Argument { kind, value, given }
            });
            text.member(member, &arguments.collect::<Vec<_>>());
        }
        let Addresses(addresses) = addresses;
        if addresses.len() > MOST_ADDRESSES {
            return None;
        }
        let mut values = Values::new();
        for some in addresses.chunks(8) {
            let mut eight = [0; 8];
            eight[..some.len()].copy_from_slice(some);
            values.push(&eight).then_some(())?;
        }
        let module = Module::new(source(mode.name(), text.finish(), threads, addresses.len().div_ceil(8)));
        let geometry = Geometry { grid: [blocks, 1, 1], block: [threads, 1, 1], shared };
        Some(Self { module, geometry, values })
    }

    /// Its launch.
    pub(crate) fn launch(&self) -> KernelLaunch<'_> {
        KernelLaunch { module: &self.module, entry: 0, geometry: self.geometry, values: &self.values }
    }
}

/// What a block does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A part of every member.
    Segment,
    /// A block of one member.
    Group,
}

/// Names of kernels that do several launches.
pub(crate) const SEGMENT: &str = "segment";
pub(crate) const GROUP: &str = "group";

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Segment => SEGMENT,
            Self::Group => GROUP,
        }
    }
}

/// The addresses that a kernel's parameters are.
struct Addresses(Vec<u64>);

impl Addresses {
    /// Where an address is.
    fn place(&mut self, address: u64) -> String {
        let n = self.0.iter().position(|&a| a == address).unwrap_or_else(|| {
            self.0.push(address);
            self.0.len() - 1
        });
        format!("a{}.v[{}]", n / 8, n % 8)
    }
}

/// The source of a text. It is kept for as long as the process runs, as those of ops are: there are as many as there are different
/// segments and groups.
fn source(name: &'static str, text: String, threads: u32, eights: usize) -> &'static Source {
    static MADE: Mutex<Option<HashMap<String, &'static Source>>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    if let Some(known) = made.get(&text) {
        return known;
    }
    let kept: &'static str = String::leak(text.clone());
    let entries = Box::leak(Box::new([Entry { name, block: threads, params: &EIGHTS[..eights] }]));
    let pieces = Box::leak(Box::new([Piece::new(name, kept)]));
    let source: &'static Source = Box::leak(Box::new(Source { name, pieces, entries }));
    made.insert(text, source);
    source
}

/// The text of a segment or a group.
struct Text {
    mode: Mode,
    threads: u32,
    /// The functions of each module, and a function for each launch with its sizes.
    functions: String,
    namespaces: HashMap<String, usize>,
    launches: HashMap<String, usize>,
    /// The calls in order, and the blocks of those before.
    body: String,
    blocks: u64,
}

impl Text {
    fn new(mode: Mode, threads: u32) -> Self {
        let functions = include_str!("segment.cu").to_owned()
            + "#undef KERNEL\n#define KERNEL(name, ...) KERNEL_##name\n";
        let (namespaces, launches) = (HashMap::new(), HashMap::new());
        Self { mode, threads, functions, namespaces, launches, body: String::new(), blocks: 0 }
    }

    /// Adds a member that is called with these arguments.
    fn member(&mut self, member: &Member, arguments: &[Argument]) {
        let space = self.namespace(member);
        let body = self.launch(member, space, arguments);
        let given = || arguments.iter().filter(|a| a.given).enumerate();
        let mut params: Vec<String> = given().map(|(n, a)| format!("{} x{n}", type_of(a.kind))).collect();
        let mut values: Vec<&str> = given().map(|(_, a)| a.value.as_str()).collect();
        let from = self.blocks;
        self.blocks += member.blocks();
        let Geometry { grid: [x, y, z], .. } = member.geometry;
        let place = [format!("blockIdx.x - {from}u"), format!("Index3{{{x}, {y}, {z}}}")];
        if self.mode == Mode::Group {
            params.splice(0..0, ["u32 block".to_owned(), "Index3 grid".to_owned()]);
            values.splice(0..0, place.iter().map(String::as_str));
        }
        let params = params.join(", ");
        // The types tell functions apart whose texts are alike.
        let (n, new) = number(&mut self.launches, format!("({params}) {{\n{body}}}"));
        if let Some(function) = new {
            _ = writeln!(self.functions, "__device__ __noinline__ void launch{n}{function}");
        }
        let call = format!("launch{n}({});", values.join(", "));
        _ = match self.mode {
            Mode::Segment if self.body.is_empty() => writeln!(self.body, "    {call}"),
            Mode::Segment => writeln!(self.body, "    __syncthreads();\n    {call}"),
            Mode::Group => writeln!(
                self.body,
                "    if (blockIdx.x < {}u) {{\n        {call}\n        return;\n    }}",
                self.blocks
            ),
        };
    }

    /// The namespace of a member's functions.
    fn namespace(&mut self, member: &Member) -> usize {
        let Geometry { grid, block, .. } = member.geometry;
        let own = member.module.functions();
        let index = |v: [u32; 3]| format!("{{{}, {}, {}}}", v[0], v[1], v[2]);
        let mut text = String::new();
        // Launches of one module that differ in their blocks alone share its functions, and their memory.
        match self.mode {
            Mode::Segment if own.contains("gridDim") => {
                let grid = index(grid);
                _ = writeln!(text, "constexpr Index3 LAUNCH_GRID = {grid};\n#define gridDim LAUNCH_GRID");
            }
            Mode::Segment => {}
            Mode::Group => text.push_str("#define gridDim grid_of[threadIdx.x / 32]\n"),
        }
        _ = writeln!(
            text,
            "constexpr Index3 LAUNCH_BLOCK = {};\n#define blockDim LAUNCH_BLOCK",
            index(block)
        );
        let alone = self.mode == Mode::Segment && grid == [1, 1, 1];
        text.push_str(if alone {
            "#define blockIdx ORIGIN\n"
        } else {
            "#define blockIdx block_of[threadIdx.x / 32]\n"
        });
        if block[0] < self.threads {
            _ = writeln!(text, "#define __syncthreads() await({})", block[0]);
        }
        text.push_str(&own);
        let defined: Vec<&str> =
            text.lines().filter_map(|l| l.strip_prefix("#define ")).filter_map(name_of).collect();
        let undefined: String = defined.iter().map(|name| format!("#undef {name}\n")).collect();
        text.push_str(&undefined);
        let (n, new) = number(&mut self.namespaces, text);
        if let Some(text) = new {
            _ = writeln!(self.functions, "namespace n{n} {{\n{text}}}");
        }
        n
    }

    fn finish(self) -> String {
        let Self { mode, functions, body, .. } = self;
        let part = if mode == Mode::Segment { "    const u64 part = blockIdx.x;\n" } else { "" };
        format!(
            "{functions}#undef KERNEL\n#define KERNEL(name, ...) extern \"C\" __VA_ARGS__ KERNEL_##name\n\
             KERNEL({}) {{\n{part}{body}}}\n",
            mode.name()
        )
    }

    /// The body of the function that does a member's launch: its blocks one after the other, or one of them.
    fn launch(&self, member: &Member, space: usize, arguments: &[Argument]) -> String {
        let Geometry { grid: [x, y, z], block, .. } = member.geometry;
        let mut text = String::new();
        let mut given = 0..;
        let passed: Vec<String> = (arguments.iter())
            .map(|a| match (a.kind, given.by_ref().take(usize::from(a.given)).next()) {
                (_, None) => a.value.clone(),
                (Passed::Pointer, Some(n)) => format!("Address{{x{n}}}"),
                (_, Some(n)) => format!("x{n}"),
            })
            .collect();
        let call = format!("n{space}::{}({});", member.entry().name, passed.join(", "));
        let some = block[0] < self.threads;
        if some {
            _ = writeln!(text, "    if (threadIdx.x >= {}u) return;", block[0]);
        }
        if self.mode == Mode::Group {
            _ = writeln!(text, "    here(block, grid);\n    {call}");
            return text;
        }
        if [x, y, z] == [1, 1, 1] {
            _ = writeln!(text, "    {call}");
            return text;
        }
        // A barrier between blocks that share memory: the next one writes what this one reads.
        let shares = member.module.source().pieces.iter().any(|p| p.text.contains("__shared__"));
        let wait = match (shares, some) {
            (false, _) => String::new(),
            (true, false) => " __syncthreads();".to_owned(),
            (true, true) => format!(" await({});", block[0]),
        };
        _ = writeln!(
            text,
            "    for (u32 z = 0; z < {z}u; z++) for (u32 y = 0; y < {y}u; y++) for (u32 x = 0; x < {x}u; x++) {{\n        \
             here(x, y, z); {call}{wait}\n    }}"
        );
        text
    }
}

/// The number of a text among those that are known, and the text if it is new.
fn number(known: &mut HashMap<String, usize>, text: String) -> (usize, Option<String>) {
    if let Some(&n) = known.get(&text) {
        return (n, None);
    }
    known.insert(text.clone(), known.len());
    (known.len() - 1, Some(text))
}

/// The name that a macro's definition begins with.
fn name_of(definition: &str) -> Option<&str> {
    definition.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

/// An argument of a member's function.
struct Argument {
    kind: Passed,
    value: String,
    /// Whether it is a parameter of the function that does the launch, or a constant in it. In a group all are, so that launches
    /// of one module are one function, which is compiled once. (Not parameters of the kernel: a step of `seed` took 212 us, not 185.)
    given: bool,
}

/// The type of a parameter.
const fn type_of(kind: Passed) -> &'static str {
    match kind {
        Passed::Pointer | Passed::Long => "u64",
        Passed::Word => "u32",
        Passed::Float => "float",
        Passed::Double => "double",
        Passed::Axes => "Dims",
    }
}

/// A constant of these words.
fn constant(kind: Passed, words: &[u64]) -> String {
    match kind {
        Passed::Word => format!("{}u", words[0]),
        Passed::Pointer | Passed::Long => format!("{}ull", words[0]),
        Passed::Float => format!("__uint_as_float({:#x}u)", words[0]),
        Passed::Double => format!("__longlong_as_double({:#x}ll)", words[0]),
        Passed::Axes => {
            let sizes: Vec<String> = words.iter().map(|w| format!("{w}ull")).collect();
            format!("Dims{{{{{}}}}}", sizes.join(", "))
        }
    }
}
