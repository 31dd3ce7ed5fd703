//! The sanitizer finds what is wrong with an op's kernel, and names the op and the place; without it nothing of this
//! shows.
mod ops;

use landfall::cpu::Call;
use landfall::ops::{Body, Kernel, Op, Output, Outputs};
use landfall::sanitize::{Allocator, Finding, Role, agree};
use landfall::{DType, DeviceKind, Engine, Error, Graph, HostTensor, Program, Rule, Spec, State, StateSpec};
use ops::{Fault, Faulty};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ways in which a kernel of safe code can break the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sin {
    None,
    /// Its last element is not written.
    Unwritten,
    /// It adds what its scratch memory held.
    Scratch,
    /// It adds what its output held.
    Old,
    /// Each of its calls gives another result.
    Moody,
}

/// `x`, with a kernel that sins.
#[derive(Debug, Clone, Copy)]
struct Sinner(Sin);

static CALLS: AtomicU64 = AtomicU64::new(0);

fn kernel(op: &dyn Op, call: &Call<'_>) -> Result<(), Rule> {
    let Sinner(sin) = *landfall::ops::attributes::<Sinner>(op)?;
    let (x, mut out) = (call.input::<f32>(0)?, call.output::<f32>(0)?);
    let n = out.elements() - usize::from(sin == Sin::Unwritten);
    let scratch = call.workspace::<f32>()?;
    for i in 0..n {
        let extra = match sin {
            Sin::None | Sin::Unwritten => 0.0,
            Sin::Scratch => scratch[i],
            Sin::Old => out.flat(i) * 0.0,
            Sin::Moody => CALLS.fetch_add(1, Relaxed) as f32,
        };
        out.set_flat(i, x.flat(i) + extra);
    }
    Ok(())
}

landfall::op_attributes! { impl Sinner(x); }

impl Op for Sinner {
    fn name(&self) -> &'static str {
        "sinner"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("it exists for tests")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const { &[Kernel::cpu("sinner", kernel).with_workspace(|_, args| args[0].bytes())] }
    }
}

const ALLOCATORS: [Allocator; 3] = [Allocator::NeverReuse, Allocator::ReuseAtOnce, Allocator::Shuffled(7)];

/// One eager call on eight elements.
fn eager(engine: &Engine, sin: Sin) -> Result<Vec<f32>, Error> {
    engine.reserve(32)?;
    let x = engine.tensor([8], &[1.0f32; 8])?;
    let mut y = engine.empty(DType::F32, [8])?;
    engine.call(&Sinner(sin), &[x.view()], &mut [y.view_mut()])?;
    y.read::<f32>()
}

/// A program in which the op is the second of three.
fn program(engine: &Engine, op: impl Op, dtype: DType) -> Result<HostTensor, Error> {
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(engine, &spec)?;
    let g = Graph::new(&spec);
    let x = g.input("x", dtype, [8]);
    let y = g.op1(op, &[g.tanh(x)?])?;
    g.output("y", g.neg(y)?);
    let mut program = Program::compile(engine, &state, "step", &g)?;
    let data = HostTensor::from_fn(Spec::new(dtype, [8]), |_| 0.5);
    if dtype == DType::F64 {
        program.write("x", &data.data)?;
    } else {
        program.write("x", &data.data.iter().map(|&x| x as f32).collect::<Vec<_>>())?;
    }
    program.run(&mut state)?;
    program.read_host("y")
}

fn finding(error: Error) -> (Finding, Option<usize>) {
    let Error::Sanitizer(violation) = error else { panic!("not the sanitizer's: {error}") };
    let culprit = violation.launch.expect("a launch did it");
    assert_eq!((culprit.op, culprit.kernel), ("sinner", "sinner"));
    (violation.finding, culprit.instruction)
}

#[test]
fn sins_are_found_in_eager_calls_and_in_programs() -> Result<(), Error> {
    let plain = Engine::cpu_with_threads(2)?;
    for allocator in ALLOCATORS {
        let engine = plain.sanitized(allocator);
        assert_eq!(eager(&engine, Sin::None)?, [1.0; 8]);
        program(&engine, Sinner(Sin::None), DType::F32)?;
        for (sin, element) in [(Sin::Unwritten, 7), (Sin::Scratch, 0), (Sin::Old, 0), (Sin::Moody, 0)] {
            // Without the sanitizer nobody is told.
            eager(&plain, sin)?;
            program(&plain, Sinner(sin), DType::F32)?;
            let operand = Role::Output(0);
            let want = match sin {
                Sin::Moody => Finding::Unstable { operand, element },
                Sin::None | Sin::Unwritten | Sin::Scratch | Sin::Old => Finding::Depends { operand, element },
            };
            let found = eager(&engine, sin).expect_err("an eager call must be stopped");
            assert_eq!(finding(found), (want.clone(), None), "{sin:?} under {allocator:?}");
            let found = program(&engine, Sinner(sin), DType::F32).expect_err("a program must be stopped");
            assert_eq!(finding(found), (want, Some(1)), "{sin:?} under {allocator:?}");
        }
    }
    Ok(())
}

#[test]
fn errors_are_one_line_with_op_and_place() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(1)?.sanitized(Allocator::NeverReuse);
    let text = program(&engine, Sinner(Sin::Unwritten), DType::F32).expect_err("it is stopped").to_string();
    assert_eq!(
        text,
        "sanitizer: instruction 1, sinner(f32[8] on cpu), kernel sinner: element 7 of output 0 depends on bytes that \
         are none of its operands: it was not written, or made from scratch memory that was not, or from memory \
         outside of an operand"
    );
    Ok(())
}

/// An index out of range stops the launch that read it, not the next read.
#[test]
fn indices_out_of_range_are_told_by_their_launch() -> Result<(), Error> {
    let plain = Engine::cpu_with_threads(1)?;
    let index = |e: Error| matches!(e, Error::Index { op: "faulty", position: 3, value: -7, limit: 5 });
    for allocator in ALLOCATORS {
        let engine = plain.sanitized(allocator);
        let x = engine.tensor([8], &[1.0f64; 8])?;
        let mut y = engine.empty(DType::F64, [8])?;
        y.poison(0x11)?;
        let called = engine.call(&Faulty(Fault::Index), &[x.view()], &mut [y.view_mut()]);
        assert!(called.is_err_and(index));
        // What was stopped changed nothing, and the engine goes on.
        assert_eq!(y.read::<f64>()?[0].to_bits(), 0x1111_1111_1111_1111);
        assert_eq!(x.read::<f64>()?, [1.0; 8]);
        assert!(program(&engine, Faulty(Fault::Index), DType::F64).is_err_and(index));
        assert_eq!(eager(&engine, Sin::None)?, [1.0; 8]);
    }
    Ok(())
}

/// A kernel that panics leaves no paint behind.
#[test]
fn a_panic_changes_nothing() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(1)?.sanitized(Allocator::NeverReuse);
    let x = engine.tensor([8], &[1.0f64; 8])?;
    let mut y = engine.tensor([8], &[2.0f64; 8])?;
    let mut target = y.view_mut();
    let outputs = std::slice::from_mut(&mut target);
    let call = std::panic::AssertUnwindSafe(|| engine.call(&Faulty(Fault::Panic), &[x.view()], outputs));
    assert!(std::panic::catch_unwind(call).is_err());
    assert_eq!((x.read::<f64>()?, y.read::<f64>()?), (vec![1.0; 8], vec![2.0; 8]));
    Ok(())
}

/// Tensors of a sanitized engine hold poison until something is written, also where memory is used again.
#[test]
fn memory_is_poisoned_before_it_is_given_out() -> Result<(), Error> {
    for allocator in ALLOCATORS {
        let engine = Engine::cpu_with_threads(1)?.sanitized(allocator);
        for _ in 0..20 {
            let mut t = engine.empty(DType::I32, [10])?;
            assert_eq!(t.read::<i32>()?, [-1; 10], "{allocator:?}");
            t.write(&[7i32; 10])?;
        }
    }
    Ok(())
}

#[test]
fn allocators_that_disagree_are_told() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(1)?;
    let ones = |e: &Engine| Ok::<_, Error>(vec![eager(e, Sin::None)?.iter().map(|x| *x as u8).collect()]);
    assert_eq!(agree(&engine, ones)?, [[1; 8]]);
    let mut calls = 0u8;
    let error = agree(&engine, |_| {
        calls += 1;
        Ok::<_, Error>(vec![vec![5], vec![0, u8::from(calls == 3)]])
    });
    let Err(Error::Sanitizer(violation)) = error else { panic!("they disagree: {error:?}") };
    let disagree = Finding::Disagree { allocator: Allocator::Shuffled(1), result: 1, byte: 1 };
    assert_eq!((violation.finding, violation.launch), (disagree, None));
    Ok(())
}

/// What the environment asks for: this test runs itself again with the variable set.
#[test]
fn the_environment_asks() -> Result<(), Box<dyn std::error::Error>> {
    const INSIDE: &str = "LANDFALL_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        match Engine::cpu_with_threads(1) {
            Err(e) => println!("refused: {e}"),
            Ok(engine) => {
                let sanitized = matches!(eager(&engine, Sin::Unwritten), Err(Error::Sanitizer(_)));
                println!("{:?}, {}", engine.reuse(), if sanitized { "sanitized" } else { "plain" });
            }
        }
        return Ok(());
    }
    let said = |variable: &str, value: &str| -> Result<String, std::io::Error> {
        let output = std::process::Command::new(std::env::current_exe()?)
            .args(["--exact", "the_environment_asks", "--nocapture"])
            .env_remove("LANDFALL_SANITIZE")
            .env_remove("LANDFALL_REUSE")
            .env(INSIDE, "1")
            .env(variable, value)
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for (variable, value, want) in [
        ("LANDFALL_SANITIZE", "1", "Nothing, sanitized"),
        ("LANDFALL_SANITIZE", "reuse", "Most, sanitized"),
        ("LANDFALL_SANITIZE", "shuffle", "Nothing, sanitized"),
        ("LANDFALL_SANITIZE", "0", "Tight, plain"),
        (
            "LANDFALL_SANITIZE",
            "yes",
            "refused: the environment variable LANDFALL_SANITIZE is \"yes\"; it must be 1, reuse, shuffle, or 0 or not set",
        ),
        ("LANDFALL_REUSE", "most", "Most, plain"),
        ("LANDFALL_REUSE", "nothing", "Nothing, plain"),
        (
            "LANDFALL_REUSE",
            "all",
            "refused: the environment variable LANDFALL_REUSE is \"all\"; it must be most, nothing or not set",
        ),
    ] {
        let said = said(variable, value)?;
        assert!(said.contains(want), "{variable}={value}: {said}");
    }
    Ok(())
}
