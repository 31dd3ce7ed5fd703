//! Captured collectives on one GPU: through NCCL in a world of one, and by the kernel that stands in for it, which shows an edge that
//! is missing.

use super::super::Cuda;
use super::super::capture::{graph_of, issue_all, record};
use crate::contract::{Op, check};
use crate::device::{Device, LaunchList, RecordedLaunch, Recording};
use crate::error::Error;
use crate::ops::{AllGather, AllReduce, AllToAll, Broadcast, Neg, ReduceScatter, Reduction};
use crate::ranks::World;
use crate::values::{Address, DType, DeviceKind, Layout, Operand, Repeat};
use std::sync::Arc;

const ELEMENTS: usize = 100_000;

/// A GPU whose collectives are the stand-in's, for five milliseconds each.
fn standing_in() -> Result<Arc<Cuda>, Error> {
    let mut device = Arc::into_inner(Cuda::new(0)?).expect("nobody else has it");
    device.stand_in = Some(5_000_000);
    Ok(Arc::new(device))
}

fn memory(device: &Cuda) -> Result<Operand, Error> {
    let layout = Layout::contiguous([ELEMENTS].into());
    Ok(Operand { base: device.allocate(ELEMENTS * 4)?, dtype: DType::F32, layout })
}

fn launch(op: Arc<dyn Op>, from: Operand, to: Operand, after: &[usize]) -> RecordedLaunch {
    RecordedLaunch {
        kernel: check::kernel(op.as_ref(), DeviceKind::Cuda(0), &[from.spec()]).expect("a kernel"),
        op,
        inputs: vec![from],
        outputs: vec![to],
        workspace: Address(0),
        workspace_bytes: 0,
        after: after.to_vec(),
    }
}

/// Whether the memory holds these numbers.
fn holds(device: &Cuda, at: Operand, expected: impl Fn(f32) -> f32) -> Result<bool, Error> {
    let mut read = vec![0.0f32; ELEMENTS];
    device.download(&at, bytemuck::cast_slice_mut(&mut read))?;
    Ok(read.iter().enumerate().all(|(i, x)| *x == expected(i as f32)))
}

fn numbers() -> Vec<f32> {
    (0..ELEMENTS).map(|i| i as f32).collect()
}

#[test]
fn cuda_shows_a_dropped_edge_of_a_collective() -> Result<(), Error> {
    if crate::gpu::gpu()?.is_none() {
        return Ok(());
    }
    let device = standing_in()?;
    device.join(World::single())?;
    let [x, w, y, z] = [memory(&device)?, memory(&device)?, memory(&device)?, memory(&device)?];
    let sum = || Arc::new(AllReduce { reduction: Reduction::Sum });
    let start = |device: &Cuda| -> Result<(), Error> {
        device.upload(x.base, bytemuck::cast_slice(&numbers()))?;
        [w, y, z].iter().try_for_each(|o| device.fill(o.base, ELEMENTS * 4, 0))
    };
    for in_place in [false, true] {
        let to = if in_place { w } else { y };
        // What the collective combines is made before it, and read after it.
        let list = LaunchList {
            launches: vec![
                launch(Arc::new(Neg), x, w, &[]),
                launch(sum(), w, to, &[0]),
                launch(Arc::new(Neg), to, z, &[1]),
            ],
            repeat: Repeat::default(),
            segments: Vec::new(),
            grouped: false,
        };
        let mut replay = record(&device, list)?;
        start(&device)?;
        replay.replay()?;
        assert!(holds(&device, z, |i| i)? && holds(&device, to, |i| -i)?, "in place: {in_place}");
        // Without its edge, the reader runs while the collective does.
        let captures = &mut replay.captures;
        let reader = captures.steps.len() - 1;
        captures.steps[reader].after.clear();
        let graph = graph_of(&device, &captures.steps, |stream| {
            issue_all(&captures.steps, captures.repeat, device.context.waits(), stream)
        })?;
        start(&device)?;
        graph.instantiate()?.launch(&device.stream)?;
        assert!(!holds(&device, z, |i| i)?, "in place: {in_place}");
    }
    Ok(())
}

#[test]
fn cuda_captures_collectives_of_one_rank_through_nccl() -> Result<(), Error> {
    if crate::gpu::gpu()?.is_none() {
        return Ok(());
    }
    if let Err(why) = super::found() {
        eprintln!("skipped: {why}");
        return Ok(());
    }
    let device = Cuda::new(0)?;
    device.join(World::single())?;
    let [x, y, z] = [memory(&device)?, memory(&device)?, memory(&device)?];
    let collectives: [Arc<dyn Op>; 7] = [
        Arc::new(AllReduce { reduction: Reduction::Sum }),
        Arc::new(AllReduce { reduction: Reduction::Mean }),
        Arc::new(AllReduce { reduction: Reduction::Max }),
        Arc::new(ReduceScatter { ranks: 1, reduction: Reduction::Mean }),
        Arc::new(AllGather { ranks: 1 }),
        Arc::new(AllToAll { ranks: 1 }),
        Arc::new(Broadcast { root: 0 }),
    ];
    device.upload(x.base, bytemuck::cast_slice(&numbers()))?;
    for op in collectives {
        let list = LaunchList {
            launches: vec![launch(Arc::clone(&op), x, y, &[]), launch(Arc::new(Neg), y, z, &[0])],
            repeat: Repeat::default(),
            segments: Vec::new(),
            grouped: false,
        };
        let replay = record(&device, list)?;
        assert_eq!(replay.captures.steps[0].kernel(), "NCCL");
        for _ in 0..3 {
            device.fill(y.base, ELEMENTS * 4, 0)?;
            device.fill(z.base, ELEMENTS * 4, 0)?;
            replay.replay()?;
            assert!(holds(&device, z, |i| -i)?, "{}", op.name());
        }
    }
    Ok(())
}
