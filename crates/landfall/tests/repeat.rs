//! A program whose first part runs several times before the rest runs once.

#[path = "device/gpu.rs"]
mod gpu;

use gpu::on_each_device;
use landfall::{DType, DeviceKind, Engine, Error, Graph, Program, State, StateSpec, ops};
use std::sync::Arc;

type Check = Result<(), Box<dyn std::error::Error>>;

const TIMES: usize = 5;

fn state_spec() -> Result<Arc<StateSpec>, Error> {
    let mut spec = StateSpec::new();
    spec.add("cursor", DType::I64, &[("cursor".to_owned(), [ops::cursor::LEN].into())])?;
    spec.add("mean", DType::F32, &[("mean".to_owned(), [3].into())])?;
    spec.add("out", DType::F32, &[("out".to_owned(), [3].into())])?;
    Ok(Arc::new(spec))
}

/// Five times the mean of x so far, and once the mean of 2·mean in `out`: replayed as issued, one recording a run.
fn the_first_part_runs_several_times_and_the_rest_once(engine: &Engine) -> Check {
    let spec = state_spec()?;
    let g = Graph::new(&spec);
    let (cursor, x) = (g.entry("cursor")?, g.input("x", DType::F32, [3]));
    let op = ops::MicroBatchMean { micro_batches: TIMES };
    // Made anew each time, in memory that the plan uses again.
    let doubled = g.affine(g.affine(x, 2.0, 0.0)?, 1.0, 1.0)?;
    let mean = g.op1(op, &[g.entry("mean")?, doubled, cursor])?;
    let next = g.op1(ops::AdvanceMicro { micro_batches: TIMES }, &[cursor])?;
    g.repeat_so_far(TIMES)?;
    let once = ops::MicroBatchMean { micro_batches: 1 };
    g.op(once, &[g.entry("out")?, g.affine(mean, 10.0, 0.0)?, next])?;

    let mut state = State::new(engine, &spec)?;
    let mut program = Program::compile(engine, &state, "repeated", &g)?;
    let report = program.report();
    // On a GPU several micro-batches are unrolled, so that fewer run one after the other.
    let (repeated, times) = report.repeated;
    assert_eq!(report.launches, repeated * times + report.instructions - repeated);
    assert!(repeated >= 3 * (TIMES / times) && TIMES.is_multiple_of(times), "{:?}", report.repeated);
    assert!(engine.device() != DeviceKind::Cpu || times == TIMES, "{:?}", report.repeated);
    program.write("x", &[1.0f32, -2.0, 0.25])?;
    for run in ["replayed", "issued", "replayed again"] {
        state.write("mean", &[f32::NAN; 3])?;
        state.write("cursor", &[7i64, 0, 0, 0, 0, 0, 0, 0])?;
        program.poison(&mut state, 0xFF)?;
        program.write("x", &[1.0f32, -2.0, 0.25])?;
        let before = engine.counters();
        if run == "issued" {
            program.issue(&mut state)?
        } else {
            program.run(&mut state)?
        }
        let after = engine.counters();
        assert_eq!(after.allocations, before.allocations, "{run}");
        if run != "issued" {
            assert_eq!(after.replays - before.replays, 1, "{run}");
        }
        let near = |name: &str, want: [f32; 3]| -> Check {
            let got = state.read::<f32>(name)?;
            assert!(
                got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 1e-5 * w.abs()),
                "{run} {name}: {got:?}"
            );
            Ok(())
        };
        near("mean", [3.0, -3.0, 1.5])?;
        near("out", [30.0, -30.0, 15.0])?;
        assert_eq!(state.read::<i64>("cursor")?, [7, 0, 0, 0, 0, 0, 0, 0], "{run}");
    }
    // Cost counts what runs.
    let once = Graph::new(&spec);
    let (x, cursor) = (once.input("x", DType::F32, [3]), once.entry("cursor")?);
    once.op(op, &[once.entry("mean")?, x, cursor])?;
    once.repeat_so_far(4)?;
    let four = Program::compile(engine, &state, "four", &once)?;
    assert_eq!(four.cost().bytes % 4, 0);
    assert_eq!(four.report().launches, 4);
    Ok(())
}

on_each_device!(the_first_part_runs_several_times_and_the_rest_once);

#[test]
fn what_runs_later_cannot_read_what_the_repeated_part_has_updated() -> Check {
    let spec = state_spec()?;
    let g = Graph::new(&spec);
    let cursor = g.entry("cursor")?;
    g.op(ops::AdvanceMicro { micro_batches: 2 }, &[cursor])?;
    g.repeat_so_far(2)?;
    // The cursor as it was before the repeated part, of which nothing is left.
    let x = g.fill(DType::F32, [3], 1.0)?;
    g.op(ops::MicroBatchMean { micro_batches: 1 }, &[g.entry("out")?, x, cursor])?;
    let engine = Engine::cpu_with_threads(1)?;
    let state = State::new(&engine, &spec)?;
    let told = Program::compile(&engine, &state, "stale", &g).map(drop).expect_err("stale").to_string();
    assert!(told.contains("advance_micro") && told.contains("after the repeated part"), "{told}");
    let told = g.repeat_so_far(0).expect_err("never").to_string();
    assert!(told.contains("times is 0; it must be at least 1"), "{told}");
    Ok(())
}
