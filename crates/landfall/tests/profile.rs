//! Where the time of a run goes: every node with its cost, in the table and the timeline; and a profile is nothing but runs.
//! No test asserts a time.

#[path = "recipe/dice.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod dice;
#[path = "device/gpu.rs"]
mod gpu;
mod ops;
mod step;

use gpu::on_each_device;
use landfall::profile::{Profile, Timed, trace};
use landfall::{DType, DeviceKind, Engine, Error, Graph, Program, State, StateSpec};
use serde_json::Value;
use std::sync::Arc;

type Check = Result<(), Box<dyn std::error::Error>>;

const RUNS: usize = 3;

/// How a profile on this device is measured.
fn timed_as_on(device: DeviceKind, timed: &Timed) -> bool {
    let no_graph = std::env::var_os("LANDFALL_CUDA_GRAPH").is_some_and(|v| v == "0");
    match (device, timed) {
        (DeviceKind::Cuda(_), Timed::Launches { why }) => no_graph && why.contains("LANDFALL_CUDA_GRAPH"),
        (DeviceKind::Cuda(_), Timed::Graph) => !no_graph,
        (DeviceKind::Cuda(_), Timed::Host) => false,
        (DeviceKind::Cpu | DeviceKind::Null, timed) => *timed == Timed::Host,
    }
}

/// Sums and names that hold for every profile.
fn complete(profile: &Profile, program: &Program, device: DeviceKind) {
    let report = program.report();
    assert_eq!(profile.rows.len(), report.launches, "a row for each instruction of a run");
    assert_eq!(profile.cost(), program.cost());
    for row in &profile.rows {
        let named = |name: &str| !name.is_empty();
        assert!(named(row.op) && named(row.kernel) && row.nodes.iter().all(|n| named(n.kernel)), "{row:?}");
        assert!(!row.names.is_empty() && row.names.iter().all(|n| named(n)), "{row:?}");
        assert_eq!(row.names.len(), row.outputs.len(), "{row:?}");
        assert!(matches!(device, DeviceKind::Cuda(_)) || row.nodes.len() == 1, "{row:?}");
        assert_eq!(row.time(), row.nodes.iter().map(|n| n.time).sum(), "{row:?}");
    }
    assert!(profile.launches() > 0 && timed_as_on(device, &profile.timed), "{:?}", profile.timed);
    for groups in [profile.groups(), profile.by_op()] {
        let sum = |of: fn(&landfall::profile::Group) -> usize| groups.iter().map(of).sum::<usize>();
        assert_eq!(sum(|g| g.count), profile.rows.len());
        assert_eq!(sum(|g| g.launches), profile.launches());
        assert_eq!(
            (sum(|g| g.cost.bytes), sum(|g| g.cost.flops)),
            (profile.cost().bytes, profile.cost().flops)
        );
        assert!(groups.is_sorted_by(|a, b| a.time >= b.time), "{groups:?}");
    }
}

fn every_instruction_is_a_row(engine: &Engine) -> Check {
    let (mut program, mut state) = step::step(engine)?;
    let profile = program.profile(&mut state, RUNS)?;
    complete(&profile, &program, engine.device());
    assert!(profile.rows.iter().map(|row| row.op).eq(program.ops()));
    let product = profile.rows.iter().find(|row| row.op == "matmul").ok_or("a product")?;
    assert_eq!(product.inputs[0].to_string(), "f64[600, 16]");
    assert!(product.shapes().contains(" -> f64[600, 24]"), "{}", product.shapes());
    Ok(())
}

/// The floor is the larger of what bytes and operations need at the measured rates.
fn floors_follow_from_the_rates(engine: &Engine) -> Check {
    let (mut program, mut state) = step::step(engine)?;
    let profile = program.profile(&mut state, RUNS)?;
    let rates = &profile.rates;
    let [product] = &rates.products[..] else { return Err(format!("{:?}", rates.products).into()) };
    assert_eq!((product.dtype, product.name()), (DType::F64, "f64"));
    assert!(rates.copy > 0.0 && product.flops > 0.0 && product.size >= 256, "{rates:?}");
    for row in &profile.rows {
        let seconds = (row.cost.bytes as f64 / rates.copy).max(row.cost.flops as f64 / product.flops);
        assert!((row.floor.as_secs_f64() - seconds).abs() < 1e-9, "{seconds} {row:?}");
    }
    let all = profile.rows.iter().map(|row| row.floor).sum();
    assert_eq!(profile.floor(), all);
    Ok(())
}

/// The bytes of the state and of the output are those of as many ordinary runs.
fn a_profile_is_runs(engine: &Engine) -> Check {
    let (mut profiled, mut state) = step::step(engine)?;
    let (mut ran, mut other) = step::step(engine)?;
    profiled.profile(&mut state, RUNS)?;
    assert_eq!(profiled.runs(), 2 * (RUNS as u64 + 1));
    for _ in 0..profiled.runs() {
        ran.run(&mut other)?;
    }
    for name in ["w1", "w2"] {
        let bits = |state: &State| -> Result<Vec<u64>, Error> {
            Ok(state.read::<f64>(name)?.into_iter().map(f64::to_bits).collect())
        };
        assert!(bits(&state)? == bits(&other)?, "{name} differs");
    }
    assert_eq!(profiled.read::<f64>("loss")?[0].to_bits(), ran.read::<f64>("loss")?[0].to_bits());
    // No run is one, and what ran before is ready for more.
    profiled.profile(&mut state, 0)?;
    assert_eq!(profiled.runs(), 2 * (RUNS as u64 + 1) + 4);
    profiled.run(&mut state)?;
    Ok(())
}

/// A loop body has a row for each iteration.
fn every_iteration_is_a_row(engine: &Engine) -> Check {
    const TIMES: usize = 3;
    let mut spec = StateSpec::new();
    spec.add("cursor", DType::I64, &[("cursor".to_owned(), [landfall::ops::cursor::LEN].into())])?;
    spec.add("mean", DType::F32, &[("mean".to_owned(), [64].into())])?;
    let spec = Arc::new(spec);
    let g = Graph::new(&spec);
    let (cursor, x) = (g.entry("cursor")?, g.input("x", DType::F32, [64, 64]));
    let sums = g.name(g.sum(g.matmul(x, x)?, 0)?, "sums");
    let mean = landfall::ops::MicroBatchMean { micro_batches: TIMES };
    let mean = g.op1(mean, &[g.entry("mean")?, sums, cursor])?;
    g.op1(landfall::ops::AdvanceMicro { micro_batches: TIMES }, &[cursor])?;
    g.repeat_so_far(TIMES)?;
    g.output("doubled", g.affine(mean, 2.0, 0.0)?);
    let mut state = State::new(engine, &spec)?;
    let mut program = Program::compile(engine, &state, "repeated", &g)?;
    program.write("x", &[0.5f32; 64 * 64])?;
    let profile = program.profile(&mut state, RUNS)?;
    complete(&profile, &program, engine.device());
    let products = profile.rows.iter().filter(|row| row.op == "matmul");
    assert_eq!(products.count(), TIMES);
    assert_eq!(profile.groups().iter().filter(|g| g.name.starts_with("matmul")).count(), 1);
    let doubled = program.read::<f32>("doubled")?;
    assert!(doubled.iter().all(|x| (x - 2048.0).abs() < 0.01), "{doubled:?}");
    Ok(())
}

/// The timeline is JSON of slices, one a node, end to end in the track of their op; the serialization has every node too.
fn the_timeline_has_every_node(engine: &Engine) -> Check {
    let (mut program, mut state) = step::step(engine)?;
    let profile = program.profile(&mut state, RUNS)?;
    let whole: Value = serde_json::from_str(&trace([("one", &profile), ("other", &profile)]))?;
    let events = whole["traceEvents"].as_array().ok_or("events")?;
    for (pid, name) in [(1, "one"), (2, "other")] {
        let of =
            |kind: &str| events.iter().filter(|e| e["pid"] == pid && e["ph"] == kind).collect::<Vec<_>>();
        let (slices, labels) = (of("X"), of("M"));
        assert_eq!(slices.len(), profile.launches());
        assert!(labels.iter().any(|l| l["name"] == "process_name" && l["args"]["name"] == name));
        let mut end = 0.0;
        let nodes = profile.rows.iter().flat_map(|row| row.nodes.iter().map(move |node| (row, node)));
        for (slice, (row, node)) in slices.iter().zip(nodes) {
            let number = |key: &str| slice[key].as_f64().ok_or_else(|| format!("{key} of {slice}"));
            assert!((number("ts")? - end).abs() < 1e-3, "{slice} begins at {end}");
            end = number("ts")? + number("dur")?;
            assert_eq!((&slice["name"], &slice["cat"]), (&node.kernel.into(), &row.op.into()));
            assert_eq!(slice["args"]["bytes"], row.cost.bytes);
            assert_eq!(slice["args"]["flops"], row.cost.flops);
            assert_eq!(slice["args"]["inputs"].as_array().map(Vec::len), Some(row.inputs.len()));
            let track = |l: &&&Value| l["name"] == "thread_name" && l["tid"] == slice["tid"];
            assert_eq!(labels.iter().find(track).ok_or("a track")?["args"]["name"], row.op);
        }
    }
    let object = serde_json::to_value(&profile)?;
    let rows = object["rows"].as_array().ok_or("rows")?;
    assert_eq!(rows.len(), profile.rows.len());
    let sum = |key: &str| rows.iter().filter_map(|r| r[key].as_u64()).sum::<u64>();
    assert_eq!((sum("bytes"), sum("flops")), (program.cost().bytes as u64, program.cost().flops as u64));
    let nodes = rows.iter().filter_map(|r| r["nodes"].as_array()).map(Vec::len).sum::<usize>();
    assert_eq!(nodes, profile.launches());
    Ok(())
}

/// The table names the device, the way of timing and every group.
fn the_table_has_every_group(engine: &Engine) -> Check {
    let (mut program, mut state) = step::step(engine)?;
    let profile = program.profile(&mut state, RUNS)?;
    let text = profile.to_string();
    assert!(text.starts_with(&format!("step on {}\ntimed {}", profile.device, profile.timed)), "{text}");
    for group in profile.groups() {
        let end = format!("  {}  {}", group.name, group.shapes);
        let lines = text.lines().filter(|line| line.ends_with(end.trim_end()));
        assert_eq!(lines.count(), 1, "{group:?}\n{text}");
    }
    // The table of ops comes last.
    let ops = profile.by_op();
    let last: Vec<&str> = text.lines().rev().take(ops.len()).collect();
    assert!(ops.iter().rev().zip(last).all(|(op, line)| line.ends_with(&format!("  {}", op.name))), "{text}");
    Ok(())
}

on_each_device!(
    every_instruction_is_a_row,
    floors_follow_from_the_rates,
    a_profile_is_runs,
    every_iteration_is_a_row,
    the_timeline_has_every_node,
    the_table_has_every_group,
);

/// A device that computes nothing has a profile of what the host does for each launch.
#[test]
fn a_device_that_computes_nothing_has_a_profile() -> Check {
    for engine in [Engine::null(), Engine::planning_for_cuda()] {
        let spec = Arc::new(StateSpec::new());
        let mut state = State::new(&engine, &spec)?;
        let g = Graph::new(&spec);
        let x = g.input("x", DType::F32, [8, 8]);
        g.output("y", g.softmax(g.matmul(x, x)?, -1)?);
        let mut program = Program::compile(&engine, &state, "null", &g)?;
        program.write("x", &[0.0f32; 64])?;
        let profile = program.profile(&mut state, RUNS)?;
        assert_eq!(profile.rows.len(), program.report().launches);
        assert_eq!((profile.cost(), &profile.timed), (program.cost(), &Timed::Host));
        let object: Value = serde_json::from_str(&serde_json::to_string(&profile)?)?;
        assert_eq!(object["rows"].as_array().map(Vec::len), Some(profile.rows.len()));
    }
    Ok(())
}

/// What one kernel does for several instructions is not told as the first one's.
#[test]
fn segments_and_groups_have_rows_of_their_own() {
    use landfall::profile::{Node, Row};
    use std::time::Duration;
    let row = |nodes: &[&'static str]| Row {
        instruction: 0,
        op: "add",
        kernel: "pointwise",
        names: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        nodes: nodes.iter().map(|&kernel| Node { kernel, time: Duration::from_micros(1) }).collect(),
        cost: landfall::ops::Cost::default(),
        floor: Duration::ZERO,
    };
    assert_eq!(row(&["contiguous"]).name(), "add/pointwise");
    assert_eq!(row(&[]).name(), "add/pointwise");
    assert_eq!(row(&["segment"]).name(), "segment from add on");
    assert_eq!(row(&["contiguous", "group"]).name(), "group from add on");
}
