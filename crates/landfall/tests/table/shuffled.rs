//! The generated suite in one process, in an order drawn from a seed: `cargo xtask shuffle`.
//!
//! What one test leaves behind (memory given back, an engine's workspace, a flag of a device) must not reach another one.
//! The standard harness runs tests in the order of their names. A failure here says its seed, which gives the order again.
#![allow(dead_code, unused_imports, reason = "modules are those of the suite, which holds more tests")]

mod aliasing;
mod allocation;
mod case;
mod compare;
mod device;
#[path = "../device/gpu.rs"]
mod gpu;
mod gradient;
#[path = "../device/heap.rs"]
mod heap;
mod launch;
mod layouts;
mod parity;
mod place;
mod programs;
mod properties;
mod purity;
mod refused;
mod sanitized;
mod tuned;

use case::{Check, Failure};
use device::On;
use landfall::rng::Rng;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: shuffled [--seeds COUNT | --seed SEED] [--threads COUNT] [--limit SECONDS] [FILTER]
  --seeds COUNT    one run for each of the seeds 0, 1, … (10)
  --seed SEED      one run, with this seed
  --threads COUNT  properties that are checked at a time (as many as there are cores)
  --limit SECONDS  after so long a seed is given up, and what still runs is named (1800)
  FILTER           those whose names contain it";

/// Properties that are named as those that took longest.
const LONGEST: usize = 5;

/// A property of an op on a device.
struct Item {
    name: String,
    run: Box<dyn Fn() -> Check + Send + Sync>,
}

/// Every property of every op on each device that is there.
fn items() -> Check<Vec<Item>> {
    let mut items = Vec::new();
    let mut devices = vec![("cpu", On::Cpu)];
    if gpu::gpu()?.is_some() {
        devices.push(("cuda", On::Cuda));
    }
    macro_rules! add {
        ($Op:ident: $($module:ident::$property:ident)*; $($here:ident::$only:ident)*) => {
            for &(device, on) in &devices {
                $(items.push(Item {
                    name: format!("{}::{device}::{}", stringify!($Op), stringify!($property)),
                    run: Box::new(move || $module::$property(on, &landfall::ops::$Op::default())),
                });)*
            }
            $(items.push(Item {
                name: format!("{}::{}", stringify!($Op), stringify!($only)),
                run: Box::new(|| $here::$only(&landfall::ops::$Op::default())),
            });)*
        };
        ($Op:ident) => {
            properties::with_properties!(add, $Op);
        };
    }
    landfall::for_each_op!(add);
    Ok(items)
}

/// The order that a seed gives.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut rng = Rng::new(seed, 0);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, rng.range(0..last + 1));
    }
    order
}

/// Runs one order on several threads; what failed. Says which properties took longest: a seed's time is theirs. One that
/// does not end within the limit ends the process: nothing else could be said of it.
fn run(items: &[Item], seed: u64, threads: usize, limit: Duration) -> Vec<String> {
    let order = Mutex::new(shuffled(items.len(), seed).into_iter().enumerate());
    let failed = Mutex::new(Vec::new());
    let took = Mutex::new(Vec::new());
    let running = Mutex::new(BTreeMap::new());
    let start = Instant::now();
    let next = || order.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((position, i)) = next() {
            let Item { name, run } = &items[i];
            let from = Instant::now();
            running.lock().unwrap_or_else(PoisonError::into_inner).insert(position, (from, name));
            let result = catch_unwind(AssertUnwindSafe(run));
            running.lock().unwrap_or_else(PoisonError::into_inner).remove(&position);
            took.lock().unwrap_or_else(PoisonError::into_inner).push((from.elapsed(), name));
            let why = match result {
                Ok(Ok(())) => continue,
                Ok(Err(Failure(why))) => why,
                Err(_) => "it panicked".to_owned(),
            };
            let line = format!("seed {seed}, number {position}: {name}: {why}");
            println!("{line}");
            failed.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    };
    let give_up = || {
        for (position, (from, name)) in running.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            println!(
                "seed {seed}, number {position}: {name} runs since {:.1} s",
                from.elapsed().as_secs_f64()
            );
        }
        println!("test result: FAILED. seed {seed} did not end in {limit:?}, {threads} threads");
        std::process::exit(1);
    };
    std::thread::scope(|scope| {
        let (over, ended) = mpsc::channel::<()>();
        scope.spawn(move || match ended.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => give_up(),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {}
        });
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        // What a property panics with was caught.
        workers.into_iter().for_each(|worker| _ = worker.join());
        drop(over);
    });
    let mut took = took.into_inner().unwrap_or_else(PoisonError::into_inner);
    took.sort_unstable_by_key(|&(time, _)| Reverse(time));
    let longest: Vec<String> =
        took.iter().take(LONGEST).map(|(time, name)| format!("{name} {:.1} s", time.as_secs_f64())).collect();
    println!("seed {seed} took {:.1} s; longest: {}", start.elapsed().as_secs_f64(), longest.join(", "));
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

struct Asked {
    seeds: Vec<u64>,
    threads: usize,
    limit: Duration,
    filter: String,
}

fn asked() -> Result<Asked, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let limit = Duration::from_secs(1800);
    let mut asked = Asked { seeds: (0..10).collect(), threads, limit, filter: String::new() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            value.parse::<u64>().map_err(|e| format!("{arg} {value}: {e}"))
        };
        match arg.as_str() {
            "--seeds" => asked.seeds = (0..number()?).collect(),
            "--seed" => asked.seeds = vec![number()?],
            "--threads" => asked.threads = number()?.max(1) as usize,
            "--limit" => asked.limit = Duration::from_secs(number()?),
            other if other.starts_with('-') => return Err(format!("{other} is no option")),
            filter => asked.filter = filter.to_owned(),
        }
    }
    Ok(asked)
}

fn main() -> ExitCode {
    let Asked { seeds, threads, limit, filter } = match asked() {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let items = match items() {
        Ok(items) => items.into_iter().filter(|i| i.name.contains(&filter)).collect::<Vec<_>>(),
        Err(Failure(why)) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    // A filter that fits nothing, or no seed at all, must not look like a success.
    if items.is_empty() || seeds.is_empty() {
        eprintln!("nothing to run: {} properties, {} seeds", items.len(), seeds.len());
        return ExitCode::FAILURE;
    }
    let mut failed = Vec::new();
    for seed in seeds {
        let of_seed = run(&items, seed, threads, limit);
        println!(
            "test result: {}. {} passed; {} failed; seed {seed}, {threads} threads",
            if of_seed.is_empty() { "ok" } else { "FAILED" },
            items.len() - of_seed.len(),
            of_seed.len()
        );
        failed.extend(of_seed);
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
