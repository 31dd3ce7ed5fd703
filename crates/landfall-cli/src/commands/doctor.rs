//! `landfall doctor`: what this machine has to compute with, and what is missing.

use crate::args::Doctor;
use crate::error::CliError;
use crate::output::{self, mib};
use landfall::cpu::isa::Isa;
use landfall::cuda::{self, Absence, Gpu, Link, Survey, Version};
use landfall_forecast::run::processor;
use landfall_train::ranks::{Launch, LaunchError};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A library: what it is for, and the version and file that were found.
struct Library {
    name: &'static str,
    /// How its file's name begins.
    file: &'static str,
    purpose: &'static str,
    found: Result<Version, Absence>,
}

/// The folder of compiled kernels.
struct Cache {
    folder: PathBuf,
    files: usize,
    bytes: u64,
    /// Why nothing can be written there.
    unwritable: Option<String>,
}

/// Looks and prints. What is missing is no failure of this command.
pub(crate) fn run(args: &Doctor) -> Result<(), CliError> {
    let survey = cuda::survey();
    let libraries = libraries(&survey);
    let cache = survey.cache.as_deref().map(Cache::look);
    if args.json {
        return output::json(&object(&survey, &libraries, cache.as_ref()));
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    output::line(&format!(
        "landfall {}\ncpu: {}, instruction set {} (the widest here is {}), {threads} threads",
        env!("CARGO_PKG_VERSION"),
        processor(),
        Isa::detect().name(),
        Isa::widest().name()
    ))?;
    match &survey.gpus {
        Ok(gpus) if gpus.is_empty() => output::line("cuda: the driver sees no GPU")?,
        Ok(gpus) => gpus.iter().try_for_each(|gpu| output::line(&said(gpu)))?,
        Err(why) => output::line(&format!("cuda: no GPU can be used: {why}"))?,
    }
    links(&survey.links).iter().try_for_each(|line| output::line(line))?;
    for library in &libraries {
        output::line(&library.said())?;
    }
    output::line(&ranks(&Launch::from_environment()))?;
    output::line(&match cache {
        Some(cache) => cache.said(),
        None => {
            "compiled kernels: not kept, because none of LANDFALL_CACHE, HOME and LOCALAPPDATA names a folder"
                .to_owned()
        }
    })
}

/// What a launcher says of this process.
fn ranks(launch: &Result<Option<Launch>, LaunchError>) -> String {
    match launch {
        Ok(None) => "ranks: this process alone; neither torchrun nor srun launched it".to_owned(),
        Ok(Some(Launch { rank, size, address, port, .. })) => {
            format!("ranks: rank {rank} of {size}; rank 0 listens at {address}:{port}")
        }
        Err(why) => format!("ranks: {why}"),
    }
}

fn said(gpu: &Gpu) -> String {
    let Gpu { ordinal, name, capability: (major, minor), free, total, .. } = gpu;
    format!(
        "cuda:{ordinal}: {name}, compute capability {major}.{minor}, {} MiB of {} MiB free",
        mib(*free),
        mib(*total)
    )
}

/// A line for each kind of link between GPUs.
fn links(all: &[(u32, u32, Link)]) -> Vec<String> {
    let said = |kind: Link| {
        let pairs: Vec<String> =
            all.iter().filter(|(.., k)| *k == kind).map(|(a, b, _)| format!("{a}-{b}")).collect();
        let reach = match kind {
            Link::Atomic => "each other's memory directly, with atomics (as over NVLink)",
            Link::Direct => "each other's memory directly, without atomics (as over PCIe)",
            Link::Host => "each other through the host",
        };
        (!pairs.is_empty()).then(|| format!("links: GPUs {} reach {reach}", pairs.join(", ")))
    };
    [Link::Atomic, Link::Direct, Link::Host].into_iter().filter_map(said).collect()
}

fn libraries(survey: &Survey) -> [Library; 4] {
    [
        Library {
            name: "NVIDIA driver",
            file: "libcuda.so",
            purpose: "everything on a GPU",
            found: survey.driver.clone(),
        },
        Library {
            name: "NVRTC",
            file: "libnvrtc.so",
            purpose: "compiling kernels for the GPU at hand",
            found: survey.nvrtc.clone(),
        },
        Library {
            name: "cuBLASLt",
            file: "libcublasLt.so",
            purpose: "matrix products on a GPU",
            found: survey.cublaslt.clone(),
        },
        Library {
            name: "NCCL",
            file: "libnccl.so",
            purpose: "training on several GPUs",
            found: survey.nccl.clone(),
        },
    ]
}

impl Library {
    fn said(&self) -> String {
        let Self { name, purpose, .. } = self;
        match &self.found {
            Ok(version) => {
                let release = self.release().map_or(String::new(), |r| format!(" (release {r})"));
                let path = self.path().map_or(String::new(), |p| format!(", {}", p.display()));
                // NCCL counts its versions by itself.
                let of = if self.file == "libnccl.so" { "" } else { "CUDA " };
                format!("{name}: {of}{version}{release}{path}; for {purpose}")
            }
            Err(why) => format!("{name}: missing: {why}; it is for {purpose}"),
        }
    }

    /// The file that was loaded. Only Linux lists what is loaded in a file.
    fn path(&self) -> Option<PathBuf> {
        loaded(&fs::read_to_string("/proc/self/maps").ok()?, self.file)
    }

    /// The driver's own number, which its kernel module says.
    fn release(&self) -> Option<String> {
        let text =
            fs::read_to_string("/proc/driver/nvidia/version").ok().filter(|_| self.file == "libcuda.so")?;
        release(&text)
    }

    fn json(&self) -> Value {
        let missing = self.found.as_ref().err().map(ToString::to_string);
        json!({
            "name": self.name,
            "for": self.purpose,
            "version": self.found.as_ref().ok().map(ToString::to_string),
            "path": self.path().filter(|_| self.found.is_ok()),
            "missing": missing,
        })
    }
}

/// The file among the mapped ones whose name is this, whatever version follows.
fn loaded(maps: &str, file: &str) -> Option<PathBuf> {
    let paths = maps.lines().filter_map(|l| l.find('/').map(|at| Path::new(&l[at..])));
    let named = |p: &&Path| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(file));
    paths.into_iter().find(|p| named(p)).map(Path::to_owned)
}

/// The first word of the version's first line that looks like 580.95.05.
fn release(text: &str) -> Option<String> {
    let number = |w: &&str| w.contains('.') && w.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.lines().next()?.split_whitespace().find(number).map(str::to_owned)
}

impl Cache {
    fn look(folder: &Path) -> Self {
        let folder = folder.join("kernels");
        let entries = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
        let sizes: Vec<u64> = entries.filter_map(|e| e.metadata().ok()).map(|m| m.len()).collect();
        let unwritable = writable(&folder).err().map(|e| e.to_string());
        Self { files: sizes.len(), bytes: sizes.iter().sum(), unwritable, folder }
    }

    fn said(&self) -> String {
        let state = match &self.unwritable {
            None => "writable".to_owned(),
            Some(why) => format!("not writable ({why}): each process compiles its kernels anew"),
        };
        let (folder, size) = (self.folder.display(), mib(usize::try_from(self.bytes).unwrap_or(usize::MAX)));
        format!("compiled kernels: {folder}, {} files, {size} MiB, {state}", self.files)
    }
}

/// Whether a file can be made in a folder or, where it is not there yet, in the nearest one above.
fn writable(folder: &Path) -> std::io::Result<()> {
    let there = folder.ancestors().find(|f| f.exists()).unwrap_or(folder);
    let probe = there.join(format!(".landfall-doctor-{}", std::process::id()));
    fs::File::create_new(&probe)?;
    fs::remove_file(&probe)
}

fn object(survey: &Survey, libraries: &[Library], cache: Option<&Cache>) -> Value {
    let gpu = |g: &Gpu| {
        let (major, minor) = g.capability;
        json!({
            "device": format!("cuda:{}", g.ordinal),
            "name": g.name,
            "capability": format!("{major}.{minor}"),
            "free_bytes": g.free,
            "total_bytes": g.total,
        })
    };
    let gpus: Vec<Value> = survey.gpus.iter().flatten().map(gpu).collect();
    let cpu = json!({
        "name": processor(),
        "instruction_set": Isa::detect().name(),
        "threads": std::thread::available_parallelism().map_or(1, usize::from),
    });
    let cache = cache.map(
        |c| json!({"folder": c.folder, "files": c.files, "bytes": c.bytes, "writable": c.unwritable.is_none()}),
    );
    let no_gpu = survey.gpus.as_ref().err().map(ToString::to_string);
    let libraries: Vec<Value> = libraries.iter().map(Library::json).collect();
    let launch = Launch::from_environment().ok().flatten();
    let launch =
        launch.map(|l| json!({"rank": l.rank, "size": l.size, "address": l.address, "port": l.port}));
    let link = |&(first, second, link): &(u32, u32, Link)| {
        let reach = match link {
            Link::Atomic => "direct, with atomics",
            Link::Direct => "direct",
            Link::Host => "host",
        };
        json!({"gpus": [first, second], "reach": reach})
    };
    let links: Vec<Value> = survey.links.iter().map(link).collect();
    json!({
        "cpu": cpu,
        "gpus": gpus,
        "links": links,
        "no_gpu": no_gpu,
        "libraries": libraries,
        "kernels": cache,
        "launch": launch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_releases() {
        let maps =
            "7f0 r--p 0 08:01 1 /usr/lib/libcudart.so.13\n7f1 r--p 0 08:01 2 /opt/a b/libcuda.so.580.95\n";
        assert_eq!(loaded(maps, "libcuda.so"), Some(PathBuf::from("/opt/a b/libcuda.so.580.95")));
        assert_eq!(loaded(maps, "libnvrtc.so"), None);
        let text =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC 13.2.0\n";
        assert_eq!(release(text).as_deref(), Some("580.95.05"));
        assert_eq!(release(""), None);
    }

    #[test]
    fn links_are_grouped_by_their_kind() {
        let all = [(0, 1, Link::Atomic), (0, 2, Link::Host), (1, 2, Link::Atomic)];
        let expected = [
            "links: GPUs 0-1, 1-2 reach each other's memory directly, with atomics (as over NVLink)",
            "links: GPUs 0-2 reach each other through the host",
        ];
        assert_eq!(links(&all), expected);
        assert!(links(&[]).is_empty());
    }

    #[test]
    fn a_folder_is_tried() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(writable(&folder.path().join("not/there/yet")).is_ok());
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0);
        let file = folder.path().join("file");
        fs::write(&file, "x").expect("written");
        assert!(writable(&file.join("kernels")).is_err());
    }
}
