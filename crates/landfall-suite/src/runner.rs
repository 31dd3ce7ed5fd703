//! Runs the properties: by name as `cargo test` does, or in an order drawn from a seed.
//!
//! What one property leaves behind (memory given back, an engine's workspace, a flag of a device) must not reach another
//! one. A failure in a shuffled order says its seed, which gives the order again.

use crate::PROPERTIES;
use crate::case::{Check, Failure};
use crate::device::gpu;
use crate::device::{On, on_cuda};
use crate::drawn;
use crate::refused;
use crate::sizes;
use landfall::ops::Tested;
use landfall::rng::Rng;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: [OPTION]... [FILTER]...
  FILTER            properties whose names contain it, such as softmax, cuda::parity, gelu::gradient
  --exact           properties whose names are a FILTER
  --skip FILTER     not those whose names contain it
  --list            names the properties and runs none
  --seed SEED       runs them in the order that a seed draws
  --seeds COUNT     runs them in the orders of the seeds 0, 1, …
  --guarded COUNT   no properties: so many calls on views that a seed draws, in guarded memory (those of `drawn`)
  --case NUMBER     of these the one of this number
  --test-threads N  properties that are checked at a time (as many as there are cores)
  --limit SECONDS   after so long a run is given up, and what still runs is named (1800)
  --nocapture, --show-output, --quiet, --format F, --color C: taken for other test programs' sake";

/// Properties that are named as those that took longest.
const LONGEST: usize = 5;

/// A property of an op on a device.
struct Item<'a> {
    name: String,
    run: Box<dyn Fn() -> Check + Send + Sync + 'a>,
}

/// Every property of every op on each device.
fn items(ops: &[Arc<dyn Tested>]) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    for op in ops {
        let op = op.as_ref();
        let name = op.name();
        for &(property, check) in PROPERTIES {
            items.push(Item {
                name: format!("{name}::{property}"),
                run: Box::new(move || check(On::Cpu, op)),
            });
            items.push(Item {
                name: format!("{name}::cuda::{property}"),
                run: Box::new(move || on_cuda(op, check)),
            });
        }
        items.push(Item { name: format!("{name}::null"), run: Box::new(move || refused::null(op)) });
        items.push(Item { name: format!("{name}::sizes"), run: Box::new(move || sizes::sizes(op)) });
    }
    items
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

/// The value in a lock, also where a thread panicked with it.
fn locked<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One order of the properties, on several threads.
struct Run<'a> {
    items: &'a [Item<'a>],
    order: Vec<usize>,
    /// What a message says of the order: the seed.
    named: String,
    threads: usize,
    limit: Duration,
}

impl Run<'_> {
    /// Runs all; what failed. Says which properties took longest. One that does not end within the limit ends the process:
    /// nothing else could be said of it.
    fn run(&self) -> Vec<String> {
        let order = Mutex::new(self.order.iter().copied());
        let (failed, took, running) =
            (Mutex::new(Vec::new()), Mutex::new(Vec::new()), Mutex::new(BTreeMap::new()));
        let start = Instant::now();
        let work = || {
            while let Some(i) = { locked(&order).next() } {
                let Item { name, run } = &self.items[i];
                let from = Instant::now();
                locked(&running).insert(i, (from, name));
                let result = catch_unwind(AssertUnwindSafe(run));
                locked(&running).remove(&i);
                locked(&took).push((from.elapsed(), name));
                let why = match result {
                    Ok(Ok(())) => {
                        println!("test {name} ... ok");
                        continue;
                    }
                    Ok(Err(Failure(why))) => why,
                    Err(_) => "it panicked".to_owned(),
                };
                println!("test {name} ... FAILED{}: {why}", self.named);
                locked(&failed).push(format!("{name}: {why}"));
            }
        };
        let give_up = || {
            for (from, name) in locked(&running).values() {
                println!("test {name} runs since {:.1} s{}", from.elapsed().as_secs_f64(), self.named);
            }
            println!("test result: FAILED. It did not end in {:?}{}", self.limit, self.named);
            std::process::exit(1);
        };
        std::thread::scope(|scope| {
            let (over, ended) = mpsc::channel::<()>();
            scope.spawn(move || match ended.recv_timeout(self.limit) {
                Err(RecvTimeoutError::Timeout) => give_up(),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => {}
            });
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            // What a property panics with was caught.
            workers.into_iter().for_each(|worker| _ = worker.join());
            drop(over);
        });
        let mut took = took.into_inner().unwrap_or_else(PoisonError::into_inner);
        took.sort_unstable_by_key(|&(time, _)| Reverse(time));
        let longest: Vec<String> = took
            .iter()
            .take(LONGEST)
            .map(|(time, name)| format!("{name} {:.1} s", time.as_secs_f64()))
            .collect();
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.iter().for_each(|line| println!("failed{}: {line}", self.named));
        println!(
            "test result: {}. {} passed; {} failed; {:.1} s on {} threads{}; longest: {}",
            if failed.is_empty() { "ok" } else { "FAILED" },
            self.order.len() - failed.len(),
            failed.len(),
            start.elapsed().as_secs_f64(),
            self.threads,
            self.named,
            longest.join(", ")
        );
        failed
    }
}

#[derive(Default)]
struct Asked {
    seeds: Vec<u64>,
    threads: Option<usize>,
    limit: Option<Duration>,
    filters: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
    help: bool,
    guarded: Option<u32>,
    case: Option<u32>,
}

impl Asked {
    fn read(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self::default();
        // `--name value` and `--name=value`.
        let mut args = args.flat_map(|arg| match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => vec![name.to_owned(), value.to_owned()],
            Some(_) | None => vec![arg],
        });
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            let number = |text: String| text.parse::<u64>().map_err(|e| format!("{arg} {text}: {e}"));
            match arg.as_str() {
                "--seeds" => asked.seeds = (0..number(value()?)?).collect(),
                "--seed" => asked.seeds = vec![number(value()?)?],
                "--test-threads" | "--threads" => asked.threads = Some(number(value()?)?.max(1) as usize),
                "--limit" => asked.limit = Some(Duration::from_secs(number(value()?)?)),
                "--guarded" => asked.guarded = Some(number(value()?)?.try_into().unwrap_or(u32::MAX)),
                "--case" => asked.case = Some(number(value()?)?.try_into().unwrap_or(u32::MAX)),
                "--skip" => asked.skipped.push(value()?),
                "--exact" => asked.exact = true,
                "--list" => asked.list = true,
                "--help" | "-h" => asked.help = true,
                "--nocapture" | "--no-capture" | "--show-output" | "--quiet" | "-q" | "--include-ignored" => {
                }
                "--format" | "--color" | "-Z" => _ = value()?,
                other if other.starts_with('-') => return Err(format!("{other} is no option")),
                filter => asked.filters.push(filter.to_owned()),
            }
        }
        Ok(asked)
    }

    fn wants(&self, name: &str) -> bool {
        let fits = |filter: &String| if self.exact { name == filter } else { name.contains(filter.as_str()) };
        (self.filters.is_empty() || self.filters.iter().any(fits)) && !self.skipped.iter().any(fits)
    }
}

/// Calls on drawn views, on each device.
fn guarded(ops: &[Arc<dyn Tested>], asked: &Asked, count: u32) -> ExitCode {
    let start = Instant::now();
    let seed = asked.seeds.first().copied().unwrap_or(0);
    let numbers = asked.case.map_or(0..count, |case| case..case.saturating_add(1));
    let ops: Vec<&dyn Tested> = ops.iter().map(AsRef::as_ref).filter(|op| asked.wants(op.name())).collect();
    let on = |on: On| drawn::campaign(&ops, on, seed, numbers.clone());
    let done = gpu::gpu().map(|gpu| gpu.is_some()).map_err(Failure::from).and_then(|gpu| {
        let mut found = on(On::Cpu)?;
        if gpu {
            found.extend(on(On::Cuda)?);
        }
        Ok((found, 1 + u32::from(gpu)))
    });
    let (found, devices) = match done {
        Ok(done) => done,
        Err(Failure(why)) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    found.iter().for_each(|line| println!("FOUND {line}"));
    println!(
        "guarded: {} calls on {devices} devices, {} findings, {:.1} s, seed {seed}",
        numbers.len(),
        found.len(),
        start.elapsed().as_secs_f64()
    );
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The suite as a program.
pub(crate) fn main(ops: &[Arc<dyn Tested>]) -> ExitCode {
    let asked = match Asked::read(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if asked.help {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if let Some(count) = asked.guarded {
        return guarded(ops, &asked, count);
    }
    let all = items(ops);
    let count = all.len();
    let items: Vec<Item<'_>> = all.into_iter().filter(|item| asked.wants(&item.name)).collect();
    if asked.list {
        items.iter().for_each(|item| println!("{}: test", item.name));
        return ExitCode::SUCCESS;
    }
    // Where a GPU is required and there is none, one message says so and not one for each property.
    if let Err(why) = gpu::gpu() {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    let threads =
        asked.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let limit = asked.limit.unwrap_or(Duration::from_secs(1800));
    let run = |order: Vec<usize>, named: String| Run { items: &items, order, named, threads, limit }.run();
    println!("running {} of {count} properties", items.len());
    let failed: usize = if asked.seeds.is_empty() {
        run((0..items.len()).collect(), String::new()).len()
    } else {
        let of_seed = |&seed: &u64| run(shuffled(items.len(), seed), format!(", seed {seed}")).len();
        asked.seeds.iter().map(of_seed).sum()
    };
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
