//! Folders of a Chronos-2 whose options and header say what cannot be: refused in words, with no more memory than twice the file.
#![cfg(target_os = "linux")]

use landfall_forecast::chronos::Weights;
use landfall_train::models::chronos::Chronos2Config;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

type Done = Result<(), Box<dyn std::error::Error>>;

/// Cases of each of the two files.
const CASES: usize = 500;

fn sizes() -> Chronos2Config {
    Chronos2Config {
        patch: 8,
        context: 512,
        patches: 4,
        levels: vec![0.1, 0.5, 0.9],
        width: 256,
        features: 32,
        heads: 8,
        hidden: 1024,
        layers: 4,
        arcsinh: true,
        time_scale: 512.0,
        eps: 1e-6,
        rope: 1e4,
    }
}

/// Numbers that follow from a seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Values that no option and no part of a header has.
fn strange(draws: &mut Draws) -> Value {
    let huge = [1u64 << 31, 1 << 40, 1 << 62, u64::MAX];
    match draws.below(9) {
        0 => json!(*draws.of(&huge)),
        1 => json!(-1),
        2 => json!(0),
        3 => json!(1e300),
        4 => json!("F8_E4M3"),
        5 => Value::Null,
        6 => json!([*draws.of(&huge), *draws.of(&huge)]),
        7 => json!(vec![0.5; 100_000]),
        _ => json!({"a": [[[[]]]]}),
    }
}

/// Options of which one is strange.
fn changed(mut options: Value, draws: &mut Draws) -> Value {
    let Some(all) = options.as_object_mut() else { return options };
    let inner = all.get_mut("chronos_config").and_then(Value::as_object_mut);
    let all = if draws.below(2) == 0 { inner.expect("its own options") } else { all };
    let keys: Vec<String> = all.keys().cloned().collect();
    let key = draws.of(&keys).clone();
    match draws.below(5) {
        0 => drop(all.remove(&key)),
        // Sizes that are allowed and are not those of the file.
        1 if all[&key].is_u64() => drop(all.insert(key, json!(1 + draws.below(1 << 12)))),
        _ => drop(all.insert(key, strange(draws))),
    }
    options
}

/// A file whose header is another one.
fn rewritten(whole: &[u8], draws: &mut Draws) -> Vec<u8> {
    let length = u64::from_le_bytes(whole[..8].try_into().expect("eight bytes")) as usize;
    let (header, data) = (&whole[8..8 + length], &whole[8 + length..]);
    let mut header: Map<String, Value> = serde_json::from_slice(header).expect("a header");
    let names: Vec<String> = header.keys().filter(|name| *name != "__metadata__").cloned().collect();
    let name = draws.of(&names).clone();
    let mut claimed = None;
    match draws.below(12) {
        0 => drop(header.remove(&name)),
        1 => drop(header.insert("another".to_owned(), header[&name].clone())),
        2 => {
            header[&name]["dtype"] =
                json!(draws.of(&["I64", "BOOL", "U8", "F64", "F16", "BF16", "F8_E5M2", "none"]))
        }
        3 => header[&name]["shape"] = json!([1u64 << 40, 1u64 << 40]),
        4 => header[&name]["shape"] = json!([]),
        5 => header[&name]["data_offsets"] = header[draws.of(&names)]["data_offsets"].clone(),
        6 => header[&name]["data_offsets"] = json!([data.len(), 0]),
        7 => header[&name]["data_offsets"] = json!([0, u64::MAX]),
        8 => {
            let field = *draws.of(&["dtype", "shape", "data_offsets"]);
            header[&name][field] = strange(draws);
        }
        9 => {
            claimed = Some(*draws.of(&[0, 7, u64::MAX, 1 << 40, (whole.len() - 8) as u64, length as u64 - 1]))
        }
        10 => drop(header.insert("__metadata__".to_owned(), strange(draws))),
        _ => drop(header.insert(name, strange(draws))),
    }
    let header = serde_json::to_vec(&header).expect("JSON");
    let length = claimed.unwrap_or(header.len() as u64).to_le_bytes();
    let mut made = [&length[..], &header, data].concat();
    match draws.below(6) {
        0 => made.truncate(draws.below(whole.len())),
        1 => made.extend([0; 16]),
        _ => {}
    }
    made
}

/// The most memory that this process has had so far, in bytes.
fn peak() -> Result<usize, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no such line")?;
    Ok(1024 * line.split_whitespace().nth(1).ok_or("no number")?.parse::<usize>()?)
}

/// The folder that a process of its own reads.
const FOLDER: &str = "LANDFALL_TEST_FOLDER";

/// Of a process that [`read`] starts: reads the folder, and writes the memory that this took and what was said. A process that has read
/// before would have room for the values already.
#[test]
fn reads_a_folder_in_its_own_process() -> Done {
    let Some(folder) = std::env::var_os(FOLDER) else { return Ok(()) };
    let folder = Path::new(&folder);
    let before = peak()?;
    let said = Weights::read(folder).err().map(|why| why.to_string());
    let memory = peak()? - before;
    Ok(std::fs::write(folder.join("said.json"), json!([memory, said]).to_string())?)
}

/// The memory that reading takes, and what it says.
fn read(folder: &Path) -> Result<(usize, Option<String>), Box<dyn std::error::Error>> {
    let mut own = Command::new(std::env::current_exe()?);
    let ended = own.args(["--exact", "reads_a_folder_in_its_own_process"]).env(FOLDER, folder).output()?;
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    Ok(serde_json::from_slice(&std::fs::read(folder.join("said.json"))?)?)
}

/// A strange folder in place of this one, by its number: the memory that reading it takes, and what it says.
fn strange_folder(
    folder: &Path,
    (config, whole): (&str, &[u8]),
    case: usize,
) -> Result<(usize, Option<String>), Box<dyn std::error::Error>> {
    let (options, file) = (folder.join("config.json"), folder.join("model.safetensors"));
    let mut draws = Draws(7 + case as u64);
    if case.is_multiple_of(2) {
        std::fs::write(&options, changed(serde_json::from_str(config)?, &mut draws).to_string())?;
        std::fs::write(&file, whole)?;
    } else {
        std::fs::write(&options, config)?;
        std::fs::write(&file, rewritten(whole, &mut draws))?;
    }
    read(folder)
}

#[test]
fn a_thousand_strange_folders_are_refused_in_little_memory() -> Done {
    let temporary = tempfile::tempdir()?;
    // 18 MiB.
    Weights::initial(sizes(), 1)?.write(temporary.path())?;
    let config = std::fs::read_to_string(temporary.path().join("config.json"))?;
    let whole = std::fs::read(temporary.path().join("model.safetensors"))?;
    let (first, said) = read(temporary.path())?;
    assert_eq!(said, None, "the sound folder is read");
    assert!(first > whole.len() / 2, "{first} bytes were measured for a file of {}", whole.len());
    let (most, accepted) = (AtomicUsize::new(first), AtomicUsize::new(0));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let work = |worker: usize| -> Result<(), String> {
        let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
        for case in (worker..2 * CASES).step_by(workers) {
            let (memory, said) = strange_folder(folder.path(), (&config, &whole), case)
                .map_err(|why| format!("folder {case}: {why}"))?;
            most.fetch_max(memory, Relaxed);
            match said {
                Some(said) if said.lines().count() == 1 && said.len() < 4096 => {}
                Some(said) => {
                    return Err(format!("folder {case}: {}", said.chars().take(200).collect::<String>()));
                }
                None => drop(accepted.fetch_add(1, Relaxed)),
            }
        }
        Ok(())
    };
    let work = &work;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| "a worker ended".to_owned())?)
    })?;
    let (most, accepted) = (most.into_inner(), accepted.into_inner());
    println!("{accepted} accepted; at most {most} bytes of memory for a file of {}", whole.len());
    // Options that no shape depends on, and some metadata.
    assert!(accepted < CASES / 2, "{accepted} accepted");
    assert!(most < 2 * whole.len(), "{most} bytes for a file of {}", whole.len());
    Ok(())
}
