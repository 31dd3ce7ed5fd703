//! A call with its destinations given allocates nothing: no device memory, and nothing on the heap.

use crate::case::{Check, Which, each, ensure};
use crate::device::On;
use crate::device::heap::COUNTER;
use crate::launch::{Operands, POISON, reserve};
use crate::place::Place;
use landfall::cpu::Chunks;
use landfall::ops::{Body, Grad, Kernel, Op, Output, Outputs, Tested};
use landfall::{DType, DeviceKind, Engine, Error, Rule, Spec, Tensor};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A user's op whose kernel makes the threads of an engine, one or two, count into its counter, or stop counting.
#[derive(Debug)]
struct Count {
    counter: Option<&'static AtomicU64>,
    threads: usize,
    /// The thread that took each of the two parts in the last call, as where its `COUNTER` lies.
    took: [AtomicUsize; 2],
}

/// How long a thread waits with its part until the other thread has taken the other one. A pool may leave both to one of
/// its threads, which must not wait for itself for good.
const PATIENCE: Duration = Duration::from_millis(5);
/// Calls after which the other thread has taken part.
const TRIES: usize = 1000;

impl Count {
    fn new(counter: Option<&'static AtomicU64>, threads: usize) -> Self {
        Self { counter, threads, took: Default::default() }
    }

    /// What the thread that has this part does.
    fn part(&self, part: usize) {
        COUNTER.set(self.counter);
        COUNTER.with(|at| self.took[part].store(std::ptr::from_ref(at).addr(), SeqCst));
        let start = Instant::now();
        while self.threads > 1 && self.took[1 - part].load(SeqCst) == 0 && start.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
    }

    /// Whether every thread took part in the last call.
    fn all(&self) -> bool {
        let [first, second] = self.took.each_ref().map(|thread| thread.load(SeqCst));
        self.threads == 1 || first != second
    }

    /// Calls it until every thread took part, or very often.
    fn tell(&self, engine: &Engine, mark: &mut Tensor) -> Result<(), Error> {
        for _ in 0..TRIES {
            self.took.iter().for_each(|thread| thread.store(0, SeqCst));
            engine.call(self, &[], &mut [mark.view_mut()])?;
            if self.all() {
                break;
            }
        }
        Ok(())
    }
}

landfall::op_attributes! { impl Count(); }

impl Op for Count {
    fn name(&self) -> &'static str {
        "count"
    }
    fn infer(&self, _: &[Spec]) -> Result<Outputs, Rule> {
        Ok(Outputs::one(Spec::new(DType::U8, [2])))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("it is about threads")
    }
    fn vjp(&self) -> Grad {
        Grad::None("it is about threads")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[Kernel::cpu("count", |op, call| {
                let op = landfall::ops::attributes::<Count>(op)?;
                let parts = Chunks { data: call.workspace::<u8>()?, width: 1 };
                call.parallel(parts, 2, 1, |part, _| op.part(part));
                Ok(())
            })
            .with_workspace(|_, _| 2)]
        }
    }
}

/// The second identical call allocates nothing: on the processor on one thread, and on two inside `Engine::enter`.
pub(crate) fn allocates_nothing(on: On, op: &dyn Tested) -> Check {
    match on {
        On::Cpu => (1..=2).try_for_each(|n| counted(&Engine::cpu_with_threads(n)?, Some(n), op)),
        // An engine of its own, whose counts no other test changes.
        On::Cuda => counted(&Engine::cuda(0)?, None, op),
    }
}

/// Counts in second calls: on the threads of an engine of the processor, or on the calling thread.
fn counted(engine: &Engine, threads: Option<usize>, op: &dyn Tested) -> Check {
    let counter: &'static AtomicU64 = Box::leak(Box::default());
    each(op, Which::Light, |case| {
        let laid =
            [Place::Whole, Place::Permuted].map(|input| [(input, Place::Whole), (input, Place::Sliced)]);
        for (input, output) in laid.into_iter().flatten() {
            reserve(engine, case)?;
            engine.reserve(2)?;
            let operands = || Operands::new(engine, case, &vec![input; case.inputs.len()], output, POISON);
            operands()?.call(engine, case)?;
            let mut second = operands()?;
            let [start, stop] =
                [Some(counter), None].map(|counter| Count::new(counter, threads.unwrap_or(1)));
            let mut mark = engine.empty(DType::U8, [2])?;
            let mut tell = |count: &Count| match threads {
                Some(_) => count.tell(engine, &mut mark),
                None => {
                    COUNTER.set(count.counter);
                    Ok(())
                }
            };
            let held = engine.counters().allocations;
            let before = counter.load(SeqCst);
            engine.enter(|| {
                second.call_within(engine, case, |call| {
                    tell(&start)?;
                    let result = call();
                    tell(&stop)?;
                    result
                })
            })?;
            let heap = counter.load(SeqCst) - before;
            let device = engine.counters().allocations - held;
            let at = format!("in a call on {threads:?} threads, {input:?} to {output:?}");
            ensure!(threads.is_none() || (start.all() && stop.all()), "a thread took no part {at}");
            ensure!(heap == 0, "{heap} heap allocations {at}");
            ensure!(device == 0, "{device} device allocations {at}");
        }
        Ok(())
    })
}
