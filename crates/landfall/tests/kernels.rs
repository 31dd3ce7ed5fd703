//! Every CUDA kernel of the op table is compiled, with no GPU; what the assembler says of registers, spills and shared memory
//! is compared with a snapshot. `LANDFALL_ARCHITECTURES=all` compiles for every architecture that the run-time compiler
//! accepts, `LANDFALL_ARCHITECTURES=sm_120a,sm_121a` for these, else for the first. For that one files of kernels whose text is that of the snapshot are not compiled again:
//! the same compiler makes the same of it. `LANDFALL_KERNELS=all` compiles them too.
//!
//! Without the run-time compiler the test skips, and says so; `LANDFALL_REQUIRE_NVRTC=1` makes that an error.
//! `cargo xtask kernels` installs it and sets this. With `LANDFALL_KERNELS=softmax` only modules whose label begins so are
//! compiled, and nothing is compared.
//!
//! The shared memory of every launch is compared with what each architecture has; that needs no compiler.

use landfall::cuda::{
    Absence, Compiler, KernelArgs, Module, Piece, Source, launches, launches_on, shared_memory, survey,
};
use landfall::cuda_kernel;
use landfall::ops::{
    Attention, AttentionGrad, Cell, GroupedMatMul, GroupedMatMulGrad, Index, Op, Permute, Recurrence,
    RecurrenceGrad, RouteMap, Sample, table,
};
use landfall::{DType, Error, Rule, Spec};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// From Ampere to Blackwell: of data centres (10.x), and of workstations and small machines (12.x). For the first everything is compiled, for the others what bf16 needs: its text
/// differs from the other dtypes' in type names only.
const ARCHITECTURES: &[&str] = &["sm_90a", "sm_80", "sm_100a", "sm_103a", "sm_120a", "sm_121a"];
const EVERYWHERE: DType = DType::BF16;

/// Kernels that may spill registers to memory: file, kernel, what the module's label must contain, and the reason.
const SPILLS: &[(&str, &str, &str, &str)] = &[
    ("pointwise", "contiguous", " A=f64 ", ROUTINE),
    ("attention_block", "attention", " A=f64 ", A_BLOCK_MORE),
    ("attention_block_grad", "gradient", " A=f32 ", A_BLOCK_MORE),
    ("attention_short", "attention", " A=", A_BLOCK_MORE),
    ("attention_short_grad", "gradient", " A=", A_BLOCK_MORE),
    ("attention_small_seq", "attention", " A=", A_BLOCK_MORE),
    ("cosine_attention_grad", "gradient", " A=f64 ", A_BLOCK_MORE),
    ("batch_norm", "statistics", " WHOLE=0", A_BLOCK_MORE),
    ("batch_norm", "normalise", " WHOLE=0", A_BLOCK_MORE),
    ("batch_norm_grad", "gradient", " A=", A_BLOCK_MORE),
    ("batch_norm_grad", "gradient_sums", " A=", A_BLOCK_MORE),
    ("l2_norm", "gradient", " SCALED=1 ", A_BLOCK_MORE),
    ("layer_norm", "layer_norm", " A=f32 ", A_BLOCK_MORE),
    ("layer_norm_grad", "column_sums", " A=", A_BLOCK_MORE),
    ("layer_norm_held_grad", "gradient_sums", " T=bf16 ", ALL_REGISTERS),
    ("layer_norm_held_grad", "gradient_sums", " T=f16 ", ALL_REGISTERS),
    ("layer_norm_grad", "gradient_sums", " A=", A_BLOCK_MORE),
    ("recurrence", "recurrence", " A=", A_BLOCK_MORE),
    ("softmax", "softmax", " A=f64 ", A_BLOCK_MORE),
    ("softmax", "cross_entropy", " A=", A_BLOCK_MORE),
    ("softmax", "cross_entropy_grad", " A=f64 ", A_BLOCK_MORE),
    ("masked_attention", "masked_attention", " A=", ROUTINE),
    ("masked_attention_grad", "masked_rows", " A=", A_BLOCK_MORE),
    ("masked_attention_grad", "masked_columns", " A=", A_BLOCK_MORE),
    ("pair_probs", "pair_probs", "", A_BLOCK_MORE),
    ("unpermute_grad", "unpermute_grad", " BLOCK=0", A_BLOCK_MORE),
];
const ROUTINE: &str = "f64 division, logarithms and exponentials call a routine for rare operands, round which the assembler saves registers";
const A_BLOCK_MORE: &str = "the assembler keeps a few words in memory, so that one more block runs at once";
const ALL_REGISTERS: &str =
    "a lane keeps four units of two rows, and of all registers one word is missing on sm_100a and sm_103a";

/// Modules of every sample in every dtype that it takes, and whether each is compiled for every architecture.
fn all() -> Result<Vec<(Module, bool)>, String> {
    let mut seen = HashMap::new();
    for op in table() {
        for (module, dtypes) in landfall_suite::cuda_modules(op.as_ref())? {
            *seen.entry(module).or_insert(false) |= dtypes.contains(&EVERYWHERE);
        }
    }
    Ok(seen.into_iter().collect())
}

fn specs(sample: &Sample, dtype: DType) -> Vec<Spec> {
    sample.args.iter().map(|a| Spec::new(a.dtype.unwrap_or(dtype), a.shape)).collect()
}

/// What the assembler says of a kernel.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Usage {
    registers: u32,
    stack: u32,
    spills: u32,
    shared: u32,
}

impl Usage {
    fn max(&mut self, other: &Self) {
        self.registers = self.registers.max(other.registers);
        self.stack = self.stack.max(other.stack);
        self.spills = self.spills.max(other.spills);
        self.shared = self.shared.max(other.shared);
    }
}

/// The number before a text in a line of the log.
fn before(line: &str, text: &str) -> u32 {
    let words = line.split(text).next().filter(|head| head.len() < line.len());
    words.and_then(|head| head.split_whitespace().last()?.parse().ok()).unwrap_or(0)
}

/// Usage of each kernel, from the assembler's log.
fn usage(log: &str) -> BTreeMap<String, Usage> {
    let mut found: BTreeMap<String, Usage> = BTreeMap::new();
    let mut kernel = String::new();
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            found.entry(kernel.clone()).or_default();
        }
        let Some(u) = found.get_mut(&kernel) else { continue };
        u.max(&Usage {
            registers: before(line, " registers"),
            stack: before(line, " bytes stack frame"),
            spills: before(line, " bytes spill stores"),
            shared: before(line, " bytes smem"),
        });
    }
    found
}

/// By file and kernel: the number of modules that it is in, and the most that one takes.
type Worst = BTreeMap<(String, String), (usize, Usage)>;

/// Compiles modules on every core; the worst usage of each kernel, with the number of modules it is in.
fn compile(arch: &str, list: &[&Module]) -> Result<Worst, String> {
    let compiler = Compiler::uncached(arch).map_err(|e| e.to_string())?;
    let (next, worst, failed) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    let work = || {
        while let Some(module) = list.get(next.fetch_add(1, Relaxed)) {
            let compiled = match compiler.compile(module) {
                Ok(c) => c,
                Err(e) => {
                    failed.lock().expect("no thread panics").push(e.to_string());
                    continue;
                }
            };
            let found = usage(&compiled.log);
            for entry in module.source().entries {
                let (file, name) = (module.source().name, entry.name);
                let Some(u) = found.get(name) else {
                    let text = format!("{}: the log does not name {name}: {}", module.label(), compiled.log);
                    failed.lock().expect("no thread panics").push(text);
                    continue;
                };
                let listed =
                    |s: &(&str, &str, &str, &str)| (s.0, s.1) == (file, name) && module.label().contains(s.2);
                if u.spills > 0 && !SPILLS.iter().any(listed) {
                    let text = format!("{} for {arch}: kernel {name} spills: {u:?}", module.label());
                    failed.lock().expect("no thread panics").push(text);
                }
                let mut worst = worst.lock().expect("no thread panics");
                let (count, most): &mut (usize, Usage) =
                    worst.entry((file.to_owned(), name.to_owned())).or_default();
                *count += 1;
                most.max(u);
            }
        }
    };
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            s.spawn(work);
        }
    });
    let failed = failed.into_inner().expect("no thread panics");
    if failed.is_empty() { Ok(worst.into_inner().expect("no thread panics")) } else { Err(failed.join("\n")) }
}

fn snapshot(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name)
}

/// Compares a text with its snapshot, or writes it with `LANDFALL_BLESS=1`.
fn compare(name: &str, text: &str) -> Result<(), String> {
    let path = snapshot(name);
    if std::env::var_os("LANDFALL_BLESS").is_some() {
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        return folder
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|e| format!("{}: {e}", path.display()));
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let mut lines = written.lines().zip(text.lines());
    let first = lines.find(|(a, b)| a != b).map(|(a, b)| format!("`{b}`, not `{a}`"));
    match first.or((written.lines().count() != text.lines().count()).then(|| "other lines".to_owned())) {
        None => Ok(()),
        Some(what) => Err(format!(
            "tests/snapshots/{name} differs: {what}; if that is meant, run with LANDFALL_BLESS=1"
        )),
    }
}

/// The compiler for the first architecture; `None`, said, where the run-time compiler is not there.
fn compiler() -> Result<Option<Compiler>, String> {
    match Compiler::uncached(ARCHITECTURES[0]) {
        Ok(compiler) => Ok(Some(compiler)),
        Err(absent @ (Absence::Feature | Absence::Nvrtc))
            if std::env::var_os("LANDFALL_REQUIRE_NVRTC").is_none() =>
        {
            eprintln!("skipped: {absent}");
            Ok(None)
        }
        Err(absent) => Err(absent.to_string()),
    }
}

/// The architectures that are named, in the order of [`ARCHITECTURES`]; the first if none is.
fn architectures(named: Option<&str>) -> Result<Vec<&'static str>, String> {
    let named: Vec<&str> = match named {
        None => return Ok(ARCHITECTURES[..1].to_vec()),
        Some("all") => return Ok(ARCHITECTURES.to_vec()),
        Some(list) => list.split(',').collect(),
    };
    match named.iter().find(|arch| !ARCHITECTURES.contains(arch)) {
        Some(arch) => {
            Err(format!("no kernel is compiled for `{arch}`, but for {}", ARCHITECTURES.join(", ")))
        }
        None => Ok(ARCHITECTURES.iter().copied().filter(|arch| named.contains(arch)).collect()),
    }
}

#[test]
fn architectures_are_named() {
    assert_eq!(architectures(None), Ok(vec!["sm_90a"]));
    assert_eq!(architectures(Some("all")).map(|all| all.len()), Ok(ARCHITECTURES.len()));
    assert_eq!(architectures(Some("sm_121a,sm_80")), Ok(vec!["sm_80", "sm_121a"]));
    let text = architectures(Some("sm_80,sm_90")).expect_err("without its own features");
    assert!(text.starts_with("no kernel is compiled for `sm_90`, but for sm_90a, "), "{text}");
}

#[test]
fn every_kernel_compiles() -> Result<(), String> {
    if compiler()?.is_none() {
        return Ok(());
    }
    let blesses = std::env::var_os("LANDFALL_BLESS").is_some();
    let named = std::env::var("LANDFALL_ARCHITECTURES").ok();
    let asked = architectures(named.as_deref())?;
    let known: Vec<&str> = asked.iter().copied().filter(|a| Compiler::uncached(a).is_ok()).collect();
    let chosen = std::env::var("LANDFALL_KERNELS").ok();
    let again = named.is_some() || chosen.is_some();
    let chosen = chosen.filter(|c| c != "all");
    let begins = |m: &Module| chosen.as_ref().is_none_or(|c| m.label().starts_with(c.as_str()));
    let list: Vec<(Module, bool)> = all()?.into_iter().filter(|(m, _)| begins(m)).collect();
    assert!(!list.is_empty(), "no op has such a CUDA kernel");
    let mut text = String::from(
        "# The most that any module's kernel takes. Written by `LANDFALL_BLESS=1 cargo xtask kernels`.\n\
         arch,file,kernel,modules,registers,stack,spills,shared\n",
    );
    let now = digests(list.iter().map(|m| &m.0));
    let before = if again || known.len() > 1 { String::new() } else { written(DIGESTS) };
    let same: BTreeSet<&str> = now
        .iter()
        .filter(|(file, digest)| before.contains(&row(file, digest)))
        .map(|(file, _)| *file)
        .collect();
    for arch in &known {
        let of_arch: Vec<&Module> = list
            .iter()
            .filter(|(_, everywhere)| *everywhere || *arch == ARCHITECTURES[0])
            .map(|m| &m.0)
            .filter(|m| m.architecture().is_none_or(|only| only == *arch))
            .collect();
        let part: Vec<&Module> =
            of_arch.iter().copied().filter(|m| !same.contains(m.source().name)).collect();
        let start = std::time::Instant::now();
        let worst = compile(arch, &part)?;
        let (all, new, seconds) = (of_arch.len(), part.len(), start.elapsed().as_secs_f64());
        println!(
            "{arch}: {new} of {all} modules in {seconds:.1} s; the text of the others is that of the snapshot"
        );
        for ((file, kernel), (count, u)) in worst {
            let Usage { registers, stack, spills, shared } = u;
            _ = writeln!(text, "{arch},{file},{kernel},{count},{registers},{stack},{spills},{shared}");
        }
    }
    let unknown: Vec<&&str> = asked.iter().filter(|a| !known.contains(a)).collect();
    if !unknown.is_empty() {
        println!("not known to this compiler, and not compiled: {unknown:?}");
    }
    if chosen.is_some() {
        print!("{text}");
        return Ok(());
    }
    if blesses && known.contains(&ARCHITECTURES[0]) {
        compare(DIGESTS, &now.iter().map(|(file, digest)| row(file, digest)).collect::<String>())?;
    }
    if known.len() < ARCHITECTURES.len() {
        return compare_part("kernels.csv", &text, (&known, &same));
    }
    compare("kernels.csv", &text)
}

/// Digests of the texts that the snapshot's rows of the first architecture were made of.
const DIGESTS: &str = "kernels.sha256";

fn row(file: &str, digest: &str) -> String {
    format!("{digest}  {file}\n")
}

/// For each file of kernels a digest of the compiler's version and the texts of all its modules for the first architecture.
fn digests<'m>(list: impl Iterator<Item = &'m Module>) -> BTreeMap<&'static str, String> {
    let mut texts: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
    for module in list.filter(|m| m.architecture().is_none_or(|only| only == ARCHITECTURES[0])) {
        _ = texts.entry(module.source().name).or_default().insert(module.text());
    }
    let compiler = format!("{:?}", survey().nvrtc);
    let digest = |texts: BTreeSet<String>| {
        let mut sha = Sha256::new();
        sha.update(&compiler);
        texts.iter().for_each(|text| sha.update(text));
        sha.finalize().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    };
    texts.into_iter().map(|(file, texts)| (file, digest(texts))).collect()
}

fn written(name: &str) -> String {
    std::fs::read_to_string(snapshot(name)).unwrap_or_default()
}

/// Compares a text with the rows of its snapshot that are of some architectures and not of files that were not compiled again, or
/// writes those rows with `LANDFALL_BLESS=1`.
fn compare_part(name: &str, text: &str, (known, same): (&[&str], &BTreeSet<&str>)) -> Result<(), String> {
    let written = written(name);
    let of_arch = |line: &str| known.iter().any(|arch| line.starts_with(&format!("{arch},")));
    let file = |line: &str| line.split(',').nth(1).is_some_and(|file| same.contains(file));
    if std::env::var_os("LANDFALL_BLESS").is_some() {
        let (head, rest): (Vec<&str>, Vec<&str>) = written
            .lines()
            .filter(|l| !of_arch(l) || file(l))
            .partition(|l| l.starts_with('#') || l.starts_with("arch,"));
        let new = text.lines().filter(|l| of_arch(l));
        let mut rows: Vec<&str> = new.chain(rest).collect();
        rows.sort_by_key(|line| {
            (ARCHITECTURES.iter().position(|arch| line.starts_with(&format!("{arch},"))), *line)
        });
        let lines: Vec<&str> = head.into_iter().chain(rows).collect();
        return compare(name, &(lines.join("\n") + "\n"));
    }
    let rows = |text: &str| -> BTreeSet<String> {
        text.lines().filter(|l| of_arch(l) && !file(l)).map(str::to_owned).collect()
    };
    let differing: Vec<String> = rows(text).symmetric_difference(&rows(&written)).cloned().collect();
    match differing[..] {
        [] => Ok(()),
        _ => Err(format!(
            "tests/snapshots/{name} differs in {differing:?}; if that is meant, run with LANDFALL_BLESS=1"
        )),
    }
}

/// By file and kernel: the most static shared memory that it has in any dtype, on any architecture, from the snapshot.
fn fixed() -> HashMap<(String, String), usize> {
    let mut most: HashMap<(String, String), usize> = HashMap::new();
    for line in written("kernels.csv").lines() {
        let cells: Vec<&str> = line.split(',').collect();
        if let [_, file, kernel, .., shared] = cells[..]
            && let Ok(bytes) = shared.parse::<usize>()
        {
            let known = most.entry((file.to_owned(), kernel.to_owned())).or_default();
            *known = bytes.max(*known);
        }
    }
    most
}

/// An op with the specs of its arguments.
type Call = (Arc<dyn Op>, Vec<Spec>);

/// Calls of sizes that take the most shared memory, or that are for a kernel of one architecture: samples are small.
fn large_calls() -> Result<Vec<Call>, Rule> {
    let mut all: Vec<Call> = Vec::new();
    for (dtype, n, e) in [DType::BF16, DType::F32, DType::F64]
        .into_iter()
        .flat_map(|dtype| (8..=256).step_by(8).map(move |n| (dtype, n)))
        .flat_map(|(dtype, n)| (8..=256).step_by(8).map(move |e| (dtype, n, e)))
    {
        let (q, op) = (Spec::new(dtype, [2, n, 3, e]), Attention::default());
        let saved = op.infer(&[q; 3])?;
        all.push((Arc::new(op), vec![q; 3]));
        all.push((Arc::new(AttentionGrad::default()), vec![q, q, q, saved[0], saved[1], q]));
    }
    for (dtype, batch, hidden) in [DType::BF16, DType::F64]
        .into_iter()
        .flat_map(|dtype| [1, 512, 1024].map(move |batch| (dtype, batch)))
        .flat_map(|(dtype, batch)| (32..=4096).step_by(32).map(move |hidden| (dtype, batch, hidden)))
    {
        let (op, width) = (Recurrence { cell: Cell::Gru }, 3 * hidden);
        let (x, state) = (Spec::new(dtype, [batch, 2, width]), Spec::new(dtype, [batch, hidden]));
        let weight = Spec::new(dtype, [hidden, width]);
        let args = vec![x, state, weight, Spec::new(dtype, [width])];
        let saved = op.infer(&args)?;
        all.push((Arc::new(op), args));
        let turned = Spec::new(dtype, [width, hidden]);
        let gradient = RecurrenceGrad { cell: Cell::Gru };
        all.push((Arc::new(gradient), vec![turned, state, saved[0], saved[1], saved[0]]));
    }
    for (experts, most, tokens) in [64, 512, 1024, 4096]
        .into_iter()
        .flat_map(|experts| [1, 2, 8].map(move |most| (experts, most)))
        .flat_map(|(experts, most)| [1, 64, 2048, 8192, 65_536].map(move |tokens| (experts, most, tokens)))
    {
        for index in [Index::I32, Index::I64] {
            let op = RouteMap { most, rows: tokens * most, align: 1, index };
            all.push((Arc::new(op), vec![Spec::new(DType::Bool, [tokens, experts])]));
        }
    }
    all.extend([large_product(), large_gradient(), large_permutation()]);
    Ok(all)
}

fn int(len: usize) -> Spec {
    Spec::new(DType::I32, [len])
}

/// As many rows of each expert as tensor cores of Hopper are taken for.
fn large_product() -> Call {
    let (x, w) = (Spec::new(DType::BF16, [8192, 1024]), Spec::new(DType::BF16, [8, 1024, 1024]));
    (Arc::new(GroupedMatMul), vec![x, w, int(8), int(9)])
}

fn large_gradient() -> Call {
    let x = Spec::new(DType::BF16, [8192, 1024]);
    (Arc::new(GroupedMatMulGrad), vec![x, x, int(8), int(9)])
}

/// More bytes than an L2 cache holds.
fn large_permutation() -> Call {
    let map = Spec::new(DType::I32, [32_768, 5]);
    (Arc::new(Permute::default()), vec![Spec::new(DType::BF16, [32_768, 1024]), map, int(65_536)])
}

/// A launch that asks for more than a block has fails on that GPU alone, where nobody tests: so every launch is compared with what
/// each architecture has.
#[test]
fn the_shared_memory_of_every_launch_is_there() -> Result<(), String> {
    let fixed = fixed();
    let mut calls = large_calls().map_err(|e| e.to_string())?;
    for op in table() {
        for sample in op.samples().iter().filter(|sample| sample.refused.is_none()) {
            let taken = DType::ALL.iter().map(|&dtype| specs(sample, dtype));
            let taken = taken.filter(|args| sample.op.infer(args).is_ok());
            calls.extend(taken.map(|args| (Arc::clone(&sample.op) as Arc<dyn Op>, args)));
        }
    }
    let mut text = String::from(
        "# The most shared memory of a block that any call's launch takes, of the kernels that take dynamic one.\n\
         arch,file,kernel,static,dynamic,limit\n",
    );
    for &arch in ARCHITECTURES {
        let mut most: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (op, args) in &calls {
            match launches_on(op.as_ref(), args, arch) {
                Ok(found) => found.iter().for_each(|launch| {
                    let known = most.entry((launch.module.source().name, launch.kernel)).or_default();
                    *known = (*known).max(launch.geometry.shared as usize);
                }),
                // No kernel for the dtype, or a state that no block holds.
                Err(Error::Op(e))
                    if matches!(
                        e.rule,
                        Rule::Unsupported { .. } | Rule::Attribute { name: "hidden size", .. }
                    ) => {}
                Err(e) => return Err(format!("{arch}: {e}")),
            }
        }
        let limit = shared_memory(arch);
        for ((file, kernel), dynamic) in most {
            let own = fixed.get(&(file.to_owned(), kernel.to_owned()));
            let own = *own.ok_or_else(|| format!("tests/snapshots/kernels.csv has no {kernel} of {file}"))?;
            if own + dynamic > limit {
                let sum = own + dynamic;
                return Err(format!(
                    "{kernel} of {file} takes {sum} bytes of shared memory, {arch} has {limit}"
                ));
            }
            if dynamic > 0 {
                _ = writeln!(text, "{arch},{file},{kernel},{own},{dynamic},{limit}");
            }
        }
    }
    compare("shared.csv", &text)
}

/// A GPU whose capability is another than Hopper's does the same work by a kernel that it has.
#[test]
fn what_hopper_alone_has_is_replaced_elsewhere() -> Result<(), Error> {
    for ((op, args), on_hopper, elsewhere) in [
        (large_product(), ["grouped_parts", "grouped_swap_ab"], ["grouped_mma", "grouped_mma"]),
        (large_gradient(), ["grouped_mma", "grouped_mma"], ["grouped_mma", "grouped_mma"]),
        (large_permutation(), ["permute_together", "permute"], ["permute", "permute"]),
    ] {
        for &arch in ARCHITECTURES {
            let found = launches_on(op.as_ref(), &args, arch)?;
            let names: Vec<&str> = found.iter().map(|l| l.module.source().name).take(2).collect();
            assert_eq!(
                names,
                if arch == "sm_90a" { on_hopper } else { elsewhere },
                "{} on {arch}",
                op.name()
            );
            let only: Vec<&str> = found.iter().filter_map(|l| l.module.architecture()).collect();
            assert!(only.iter().all(|only| *only == arch), "{} on {arch}: {only:?}", op.name());
        }
    }
    Ok(())
}

cuda_kernel! {
    /// The list that `n` was dropped from.
    struct Dropped = "dropped", 32;
    out: output_of F32,
}

/// A name that the list no longer has is unknown to the kernel's text; one that it has is known.
#[test]
fn a_parameter_that_is_dropped_is_undeclared_in_the_kernel() -> Result<(), String> {
    static KNOWN: Source = Source {
        name: "known",
        pieces: &[Piece::new("known", "KERNEL(dropped) { out[0] = 1.0f; }")],
        entries: &[Dropped::KERNEL],
    };
    static UNKNOWN: Source = Source {
        name: "unknown",
        pieces: &[Piece::new("unknown", "KERNEL(dropped) { if (n > 0) out[0] = 1.0f; }")],
        entries: &[Dropped::KERNEL],
    };
    let Some(compiler) = compiler()? else { return Ok(()) };
    compiler.compile(&Module::new(&KNOWN)).map_err(|e| e.to_string())?;
    let told = compiler.compile(&Module::new(&UNKNOWN)).map(|_| ()).map_err(|e| e.to_string());
    let text = told.expect_err("the text uses a name that the list has not");
    assert!(text.contains("unknown.cu(1): error: identifier \"n\" is undefined"), "{text}");
    Ok(())
}

#[test]
fn the_log_is_read() {
    let log = "ptxas info    : 0 bytes gmem\n\
        ptxas info    : Compiling entry function 'strided' for 'sm_90a'\n\
        ptxas info    : Function properties for strided\n    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n\
        ptxas info    : Used 26 registers, used 1 barriers, 8 bytes cumulative stack size, 1024 bytes smem\n";
    let want = Usage { registers: 26, stack: 8, spills: 16, shared: 1024 };
    assert_eq!(usage(log), BTreeMap::from([("strided".to_owned(), want)]));
}

/// The generated part of some modules, so that a refactoring of the generator shows.
#[test]
fn generated_text() -> Result<(), String> {
    let names: BTreeSet<&str> = ["add", "gelu", "where", "cast"].into();
    for op in table().iter().filter(|op| names.contains(op.name())) {
        let sample = op.samples().into_iter().find(|s| s.refused.is_none()).ok_or("no sample")?;
        let found = launches(sample.op.as_ref(), &specs(&sample, DType::BF16)).map_err(|e| e.to_string())?;
        let text = found.first().ok_or("no kernel")?.0.own_text();
        let head = text.split("#line").next().unwrap_or_default();
        compare(&format!("{}.cu", op.name()), head)?;
    }
    Ok(())
}
