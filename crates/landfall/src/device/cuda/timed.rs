//! The times of a captured list's steps. A second graph has the same nodes in one chain, with a node between neighbours
//! that records an event; where the driver refuses that, the steps are issued one by one with events between them.

use super::capture::{Replay, graph_of};
use super::graph::Graph;
use super::stream::Mark;
use crate::device::Recording;
use crate::device::times::{Node, Timed, Times, median};
use crate::error::Error;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Events around the steps of a list: two with nothing between them, then one behind each step.
struct Marks(Vec<Mark>);

impl Marks {
    fn new(steps: usize) -> Result<Self, Error> {
        Ok(Self((0..steps + 2).map(|_| Mark::new()).collect::<Result<_, _>>()?))
    }

    /// Adds the times between neighbours to the samples of each interval. The device has completed all of them.
    fn read(&self, samples: &mut [Vec<Duration>]) -> Result<(), Error> {
        self.0.windows(2).zip(samples).try_for_each(|(pair, samples)| {
            samples.push(pair[1].after(&pair[0])?);
            Ok(())
        })
    }
}

impl Replay {
    /// The times of `runs` ordinary replays and of as many in which each step is timed, each after a warm-up.
    pub(super) fn times(&self, runs: usize) -> Result<Times, Error> {
        let device = &self.device;
        device.enter()?;
        device.stream.outside_of_capture("launches would be timed")?;
        let whole = self.whole(runs)?;
        let mut made = 1 + runs as u64;
        let (timed, samples) = match self.by_graph(runs, &mut made) {
            Ok(samples) => (Timed::Graph, samples),
            // A context that is lost takes no launches either.
            Err(why) if device.failure.get().is_some() => return Err(why),
            Err(why) => (Timed::Launches { why: why.to_string() }, self.by_launches(runs, &mut made)?),
        };
        let mut medians = samples.into_iter().map(median);
        let resolution = medians.next().unwrap_or_default();
        let captures = &self.captures;
        let mut steps = captures.sequence();
        let of_launch = |launch: usize| {
            let nodes = steps.by_ref().zip(medians.by_ref()).take(captures.counts[launch]);
            nodes.map(|(step, time)| Node { kernel: step.kernel(), time }).collect()
        };
        let launches = captures.launches.sequence(captures.counts.len()).map(of_launch).collect();
        Ok(Times { timed, whole, resolution, launches, runs: made })
    }

    /// One of `runs` ordinary replays in a row, which wait for nothing but each other.
    fn whole(&self, runs: usize) -> Result<Duration, Error> {
        let device = &self.device;
        let mark = || device.annotate_error(device.stream.mark());
        self.replay()?;
        let mut marks = Vec::with_capacity(runs + 1);
        marks.push(mark()?);
        for _ in 0..runs {
            self.replay()?;
            marks.push(mark()?);
        }
        let times = marks.windows(2).map(|pair| pair[1].since(&pair[0])).collect::<Result<_, _>>();
        device.annotate_error(times).map(median)
    }

    /// Of each interval, the times in replays of a graph of one chain; counts the runs that were made.
    fn by_graph(&self, runs: usize, made: &mut u64) -> Result<Vec<Vec<Duration>>, Error> {
        let device = &self.device;
        if device.graphs_disabled {
            let what = "CUDA graphs are disabled (LANDFALL_CUDA_GRAPH=0)".to_owned();
            return Err(Error::Capture { what });
        }
        let marks = Marks::new(self.captures.count())?;
        let executable = device.annotate_error(self.chain(&marks).and_then(|graph| graph.instantiate()))?;
        let mut samples = vec![Vec::new(); self.captures.count() + 1];
        for run in 0..=runs {
            let looks = device.faults.looks();
            device.counting.replays.fetch_add(1, Relaxed);
            device.counted(1, None);
            device.annotate_error(executable.launch(&device.stream))?;
            *made += 1;
            self.wrote(looks)?;
            device.annotate_error(device.stream.synchronize())?;
            if run > 0 {
                device.annotate_error(marks.read(&mut samples))?;
            }
        }
        Ok(samples)
    }

    /// The steps in issue order, each after the one before it, with the events between them. No step starts early: an event is
    /// recorded when the node before it is complete.
    fn chain(&self, marks: &Marks) -> Result<Graph, Error> {
        graph_of(&self.device, &self.captures.steps, |stream| {
            let (first, rest) = marks.0.split_at(2);
            first.iter().try_for_each(|mark| stream.capture_mark(mark))?;
            self.captures.sequence().zip(rest).try_for_each(|(step, mark)| {
                step.issue(stream)?;
                stream.capture_mark(mark)
            })
        })
    }

    /// Of each interval, the times in runs whose steps the host issues one by one; counts the runs that were made.
    fn by_launches(&self, runs: usize, made: &mut u64) -> Result<Vec<Vec<Duration>>, Error> {
        let device = &self.device;
        let marks = device.annotate_error(Marks::new(self.captures.count()))?;
        let mut samples = vec![Vec::new(); self.captures.count() + 1];
        let (first, rest) = marks.0.split_at(2);
        for run in 0..=runs {
            let looks = device.faults.looks();
            let begun = first.iter().try_for_each(|mark| device.stream.mark_again(mark));
            device.annotate_error(begun)?;
            self.issue_each(|n| device.stream.mark_again(&rest[n]))?;
            *made += 1;
            self.wrote(looks)?;
            device.annotate_error(device.stream.synchronize())?;
            if run > 0 {
                device.annotate_error(marks.read(&mut samples))?;
            }
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cuda, capture::record};
    use crate::contract::{Op, check};
    use crate::device::{Device, LaunchList, RecordedLaunch};
    use crate::error::Error;
    use crate::ops::{Copy, Neg};
    use crate::values::{Address, DType, DeviceKind, Layout, Operand, Repeat};
    use std::sync::Arc;

    /// A graph of one chain and the launches one by one give the same bytes and times of the same steps, as often.
    #[test]
    fn cuda_times_launch_by_launch_too() -> Result<(), Error> {
        if crate::gpu::gpu()?.is_none() {
            return Ok(());
        }
        let device = Cuda::new(0)?;
        let numbers: Vec<f32> = (0..1000u16).map(f32::from).collect();
        let bytes = size_of_val(&numbers[..]);
        let layout = Layout::contiguous([numbers.len()].into());
        let mut memory = Vec::new();
        for _ in 0..3 {
            memory.push(Operand { base: device.allocate(bytes)?, dtype: DType::F32, layout });
        }
        let [x, y, z] = memory[..] else { unreachable!("three were allocated") };
        device.upload(x.base, bytemuck::cast_slice(&numbers))?;
        let kernel = |op: &dyn Op| check::kernel(op, DeviceKind::Cuda(0), &[x.spec()]).expect("a kernel");
        let launch = |op: Arc<dyn Op>, from: Operand, to: Operand, after: &[usize]| RecordedLaunch {
            kernel: kernel(op.as_ref()),
            op,
            inputs: vec![from],
            outputs: vec![to],
            workspace: Address(0),
            workspace_bytes: 0,
            after: after.to_vec(),
        };
        let launches = vec![launch(Arc::new(Neg), x, y, &[]), launch(Arc::new(Copy), y, z, &[0])];
        let replay = record(
            &device,
            LaunchList { launches, repeat: Repeat::default(), segments: Vec::new(), grouped: false },
        )?;
        let (steps, mut made) = (replay.captures.count(), 0);
        assert!(steps >= 2);
        for by_graph in [true, false] {
            device.fill(z.base, bytes, 0)?;
            let samples = match by_graph {
                true => replay.by_graph(3, &mut made)?,
                false => replay.by_launches(3, &mut made)?,
            };
            assert_eq!(samples.iter().map(Vec::len).collect::<Vec<_>>(), vec![3; 1 + steps], "{by_graph}");
            let mut read = vec![0.0f32; numbers.len()];
            device.download(&z, bytemuck::cast_slice_mut(&mut read))?;
            assert!(read.iter().zip(&numbers).all(|(got, x)| *got == -x), "{by_graph}");
        }
        assert_eq!(made, 2 * (3 + 1));
        drop(replay);
        memory.iter().for_each(|o| device.free(o.base, bytes));
        Ok(())
    }
}
