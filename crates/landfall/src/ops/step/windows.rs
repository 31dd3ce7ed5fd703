//! Batches of windows of a series that lies on the device: which windows, and their elements.

mod cuda;

use crate::contract::cursor::{self, BASE, BATCH, EPOCH, MICRO, SEED, WINDOWS};
use crate::contract::{
    Body, Cost, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, arity, attribute_choices,
    attributes, op_attributes, rules,
};
use crate::kernel::cpu::Call;
use crate::rng::Shuffle;
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Spec, with_dtype};

op_list! { BatchWindows, WindowGather; Order }

/// The order in which an epoch visits the windows of its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// First to last.
    Sequential,
    /// The keyed bijection of (seed, epoch): every window once, another order each epoch.
    Shuffled,
    /// As an argument lists it.
    Listed,
}

attribute_choices!(Order: Sequential = "sequential", Shuffled = "shuffled", Listed = "listed");

op_attributes! {
    /// The windows of a micro-batch: element `j` is position `p = (BATCH · micro_batches + MICRO) · batch + j` of the epoch. If
    /// `p < WINDOWS`, it is valid and its window is number `w = BASE + σ(p)`: σ is the identity, the keyed bijection of (SEED,
    /// EPOCH) on `0..WINDOWS`, or what the list has for (EPOCH mod E, p), brought into `0..WINDOWS` (p itself where it has
    /// nothing). Else it is `w = BASE + WINDOWS − 1` (a window that is there to be read) and it is not valid.
    ///
    /// The table says where windows lie. Its rows are (first window, start, group), ascending by the first: from a row's
    /// first window on, up to that of the next row, `start(w) = start + (w − first)`, and all belong to `group`. So windows
    /// of many series, each run of them without a gap, cost a row for each run, whatever their number.
    ///
    /// Arguments: `cursor` `i64[8]`, `table` `i64[R, 3]` with `R ≥ 1`, and in the order `listed` also `list` `i64[E, P]`. Results: starts
    /// `i64[batch]`, groups `i64[batch]`, valid `bool[batch]`. Disjoint. No gradient. Deterministic. A window before the first row counts back from it. Errors:
    /// another dtype or shape. The bijection is a Feistel network with cycle walking: no order is stored.
    #[derive(Debug, Clone, Copy)]
    pub struct BatchWindows(cursor, table, list if order = "listed") {
        /// Windows of a micro-batch: of a whole batch, where that is not cut.
        pub batch: usize = 4 => required,
        /// Micro-batches of a batch, over all ranks.
        pub micro_batches: usize = 1,
        /// The order of an epoch.
        pub order: Order = Order::Shuffled => required,
    }
}

/// Elements of a row of the table: first window, start, group.
const ROW: usize = 3;

impl BatchWindows {
    /// Window and validity of each element, in order. `listed` is what the list has for an epoch and a position.
    fn each(
        &self,
        cursor: &[i64; cursor::LEN],
        listed: impl Fn(u64, u64) -> Option<i64>,
    ) -> impl Iterator<Item = (i64, bool)> {
        let windows = u64::try_from(cursor[WINDOWS]).unwrap_or(0);
        let shuffle = Shuffle::new(windows, cursor[SEED] as u64, cursor[EPOCH] as u64);
        let (base, batch, order) = (cursor[BASE], self.batch as u64, self.order);
        let at = |i: usize| u64::try_from(cursor[i]).unwrap_or(0);
        let micro = at(BATCH).saturating_mul(self.micro_batches as u64).saturating_add(at(MICRO));
        let (first, epoch) = (micro.saturating_mul(batch), at(EPOCH));
        (0..batch).map(move |j| {
            let p = first.saturating_add(j);
            let last = windows.saturating_sub(1) as i64;
            let window = match order {
                _ if p >= windows => last,
                Order::Sequential => p as i64,
                Order::Shuffled => shuffle.index(p).map_or(last, |w| w as i64),
                Order::Listed => listed(epoch, p).unwrap_or(p as i64).clamp(0, last),
            };
            (base.saturating_add(window), p < windows)
        })
    }
}

/// Row and column of a list of these sizes for an epoch and a position, if it has them.
fn listed(dims: &[usize], epoch: u64, position: u64) -> Option<[usize; 2]> {
    let &[epochs, positions] = dims else { return None };
    let row = (epoch as usize).checked_rem(epochs)?;
    Some([row, usize::try_from(position).ok().filter(|&p| p < positions)?])
}

/// The last row whose first window is not above `window`, or row 0; by halving.
fn row_of(window: i64, rows: usize, first: impl Fn(usize) -> i64) -> usize {
    let (mut low, mut high) = (0, rows);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if first(middle) <= window {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

impl Op for BatchWindows {
    fn name(&self) -> &'static str {
        "batch_windows"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        cursor::rule(args, 0)?;
        if let Some(list) = args.get(2) {
            rules::dtype(args, 2, DType::I64)?;
            if list.shape.rank() != 2 {
                return Err(Rule::Rank {
                    arg: 2,
                    rank: list.shape.rank(),
                    expected: "2: [epochs, positions]",
                });
            }
        }
        rules::dtype(args, 1, DType::I64)?;
        let rows = args[1].shape.dims().first().copied().unwrap_or(0);
        rules::shape(args, 1, [rows, ROW])?;
        if rows == 0 {
            return Err(Rule::Attribute { name: "rows of the table", value: 0.0, expected: "at least 1" });
        }
        let indices = Spec::new(DType::I64, [self.batch]);
        Ok(Outputs::from([indices, indices, Spec::new(DType::Bool, [self.batch])]))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL; 3]
    }
    fn body(&self) -> Body {
        Body::Opaque("a bijection of counters")
    }
    fn vjp(&self) -> Grad {
        Grad::Zero
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("batch_windows", |op, call| {
                    let op = attributes::<BatchWindows>(op)?;
                    let (cursor, table) = (cursor::read(call, 0)?, call.input::<i64>(1)?);
                    let (mut starts, mut groups) = (call.output::<i64>(0)?, call.output::<i64>(1)?);
                    let mut valid = call.output::<u8>(2)?;
                    let list = if op.order == Order::Listed { Some(call.input::<i64>(2)?) } else { None };
                    let of_list = |epoch, position| {
                        let list = list.as_ref()?;
                        listed(list.dims(), epoch, position).map(|at| list.at(&at))
                    };
                    for (j, (window, is_valid)) in op.each(&cursor, of_list).enumerate() {
                        let row = row_of(window, table.dims()[0], |r| table.at(&[r, 0]));
                        let [first, start, group] = [0, 1, 2].map(|at| table.at(&[row, at]));
                        starts.set_flat(j, start.saturating_add(window.saturating_sub(first)));
                        groups.set_flat(j, group);
                        valid.set_flat(j, u8::from(is_valid));
                    }
                    Ok(())
                }),
                Kernel::cuda("batch_windows", cuda::batch_windows),
            ]
        }
    }
}

impl Tested for BatchWindows {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let cursor = cursor::of(&args[0]);
        let windows = cursor[WINDOWS].max(0);
        let order = Shuffle::new(windows as u64, cursor[SEED] as u64, cursor[EPOCH] as u64);
        let (mut starts, mut groups, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for j in 0..self.batch as i64 {
            let micro = cursor[BATCH] * self.micro_batches as i64 + cursor[MICRO];
            let p = micro * self.batch as i64 + j;
            valid.push(f64::from(u8::from(p < windows)));
            let position = match self.order {
                _ if p >= windows => (windows - 1).max(0),
                Order::Sequential => p,
                Order::Shuffled => order.index(p as u64).map_or(0, |w| w as i64),
                Order::Listed => {
                    let (epochs, positions) = (args[2].dims()[0], args[2].dims()[1]);
                    match cursor[EPOCH].max(0).checked_rem(epochs as i64) {
                        Some(row) if p < positions as i64 => {
                            (args[2].data[row as usize * positions + p as usize] as i64).clamp(0, windows - 1)
                        }
                        _ => p,
                    }
                }
            };
            let window = (cursor[BASE] + position) as f64;
            let mut rows = args[1].data.chunks_exact(ROW);
            let head = rows.clone().next().unwrap_or(&[0.0; ROW]);
            let row = rows.rfind(|row| row[0] <= window).unwrap_or(head);
            starts.push(row[1] + window - row[0]);
            groups.push(row[2]);
        }
        let of = |dtype, data: Vec<f64>| HostTensor::from_fn(Spec::new(dtype, [self.batch]), |i| data[i]);
        vec![of(DType::I64, starts), of(DType::I64, groups), of(DType::Bool, valid)]
    }
    fn samples(&self) -> Vec<Sample> {
        let table = |rows: &[[i64; ROW]]| {
            let all = rows.iter().flatten().map(|&x| x as f64).collect();
            SampleArg::with(Some(DType::I64), [rows.len(), ROW], Data::Exact(all))
        };
        let at = |batch, order, epoch, at, windows, rows: &[[i64; ROW]]| {
            let cursor = [(EPOCH, epoch), (BATCH, at), (SEED, 77), (BASE, 1000), (WINDOWS, windows)];
            Sample::new(Self { batch, micro_batches: 1, order }, vec![cursor::sample(&cursor), table(rows)])
        };
        let micro = |micro_batches, at: i64| {
            let cursor = [(EPOCH, 1), (BATCH, 2), (SEED, 77), (BASE, 1000), (WINDOWS, 40), (MICRO, at)];
            let op = Self { batch: 3, micro_batches, order: Order::Shuffled };
            Sample::new(op, vec![cursor::sample(&cursor), table(&[[1000, 40, 0]])])
        };
        let one = &[[1000, 40, 0]][..];
        let three = &[[1000, 0, 4], [1003, 50, 1], [1004, 90, 2]][..];
        let mut all = vec![micro(4, 0), micro(4, 3), micro(6, 5)];
        for order in [Order::Sequential, Order::Shuffled] {
            all.extend([
                at(4, order, 0, 0, 11, one),
                at(4, order, 3, 2, 11, three),
                at(4, order, 0, 3, 11, three),
                at(1, order, 1, 0, 1, &[[0, 0, 0], [2000, 7, 1]]),
                at(3, order, 0, 0, 0, one),
                at(3, order, 0, 0, 5, &[[1002, 7, 3], [1004, 70, 1]]),
                at(0, order, 0, 0, 5, one),
                at(300, order, 2, 5, 1601, three),
            ]);
        }
        // Every window of two epochs, a list that is too short, one with what is no window, and none.
        let list = |shape: [usize; 2], values: &[i64]| {
            SampleArg::with(Some(DType::I64), shape, Data::Exact(values.iter().map(|&x| x as f64).collect()))
        };
        let by_list = |epoch, at: i64, list| {
            let cursor = [(EPOCH, epoch), (BATCH, at), (SEED, 77), (BASE, 1000), (WINDOWS, 5)];
            let op = Self { batch: 3, micro_batches: 1, order: Order::Listed };
            Sample::new(op, vec![cursor::sample(&cursor), table(three), list])
        };
        for (epoch, at) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
            all.push(by_list(epoch, at, list([2, 5], &[3, 0, 4, 1, 2, 4, 2, 0, 3, 1])));
        }
        all.extend([by_list(0, 0, list([1, 2], &[4, 3])), by_list(1, 0, list([1, 3], &[-1, 5, 1]))]);
        all.extend([by_list(0, 0, list([0, 5], &[])), by_list(0, 0, list([2, 0], &[]))]);
        let by_none = Self { order: Order::Listed, ..*self };
        all.push(Sample::bad(
            by_none,
            vec![cursor::sample(&[]), table(one)],
            "takes 3 arguments (cursor, table, list), got 2",
        ));
        let flat = SampleArg::with(Some(DType::I64), [5], Data::Int(0, 5));
        let flat = vec![cursor::sample(&[]), table(one), flat];
        all.push(Sample::bad(by_none, flat, "arg 2 has rank 1; it must be 2: [epochs, positions]"));
        let cursor = || cursor::sample(&[(WINDOWS, 3)]);
        let bad = |args, text| Sample::bad(*self, args, text);
        all.extend([
            bad(vec![SampleArg::with(Some(DType::I32), [8], Data::Int(0, 2)), table(one)], "it must be i64"),
            bad(vec![cursor(), table(&[])], "rows of the table is 0; it must be at least 1"),
            bad(
                vec![cursor(), SampleArg::with(Some(DType::I64), [2, 2], Data::Int(0, 9))],
                "arg 1 is [2, 2]; it must be [2, 3]",
            ),
        ]);
        all
    }
}

op_attributes! {
    /// `out[b, c, t] = series[c, starts[b] · stride + offset + t]` for `t < length`, else 0.
    ///
    /// Arguments: `series` `[C, T]` of any dtype, `starts` `i64[B]`. Result: `[B, C, width]`. Disjoint. No gradient: the
    /// series is data. Deterministic. An index out of range is clamped, and the next read on the host returns
    /// `Error::Index` with the position of its start. Errors: `length` above T or `width`, other ranks or dtypes.
    #[derive(Debug, Clone, Copy)]
    pub struct WindowGather(series, starts) {
        /// Distance between the starts of windows, in elements of the series.
        pub stride: usize = 1,
        /// Elements between the start of a window and the first that is taken.
        pub offset: usize = 2 => (0),
        /// Elements taken.
        pub length: usize = 3 => required,
        /// Elements of a row of the result: a view of what was taken then has rows that start where accesses are aligned.
        pub width: usize = 3 => required,
    }
}

impl WindowGather {
    /// The first index of the window that starts at `start`.
    #[inline(always)]
    fn first(&self, start: i64) -> i64 {
        let stride = i64::try_from(self.stride).unwrap_or(i64::MAX);
        start.saturating_mul(stride).saturating_add_unsigned(self.offset as u64)
    }
}

impl Op for WindowGather {
    fn name(&self) -> &'static str {
        "window_gather"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        rules::dtype(&args, 1, DType::I64)?;
        let &[c, t] = args[0].shape.dims() else {
            return Err(Rule::Rank { arg: 0, rank: args[0].shape.rank(), expected: "2" });
        };
        let &[b] = args[1].shape.dims() else {
            return Err(Rule::Rank { arg: 1, rank: args[1].shape.rank(), expected: "1" });
        };
        if self.length > t {
            let value = self.length as f64;
            return Err(Rule::Attribute { name: "length", value, expected: "at most that of the series" });
        }
        if self.length > self.width {
            let value = self.length as f64;
            return Err(Rule::Attribute { name: "length", value, expected: "at most the width" });
        }
        Ok(Outputs::one(Spec::new(args[0].dtype, [b, c, self.width])))
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL]
    }
    fn body(&self) -> Body {
        Body::Opaque("its indices lie on the device")
    }
    fn vjp(&self) -> Grad {
        Grad::None("the series is data")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("window_gather", |op, call| {
                    let op = attributes::<WindowGather>(op)?;
                    with_dtype!(any call.dtype(0)?, T => gather::<T>(op, call))
                }),
                Kernel::cuda("window_gather", cuda::window_gather),
            ]
        }
    }
    fn bytes(&self, args: &[Spec], outputs: &[Spec]) -> usize {
        // Only what is taken of the series is read.
        Cost::bytes_of(&args[1..], &[outputs[0]; 2])
    }
}

impl Tested for WindowGather {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (c, t) = (args[0].dims()[0], args[0].dims()[1]);
        let spec = Spec::new(args[0].spec.dtype, [args[1].data.len(), c, self.width]);
        vec![HostTensor::from_fn(spec, |i| {
            let (b, channel, at) = (i / (c * self.width), i / self.width % c, i % self.width);
            if at >= self.length {
                return 0.0;
            }
            let index = args[1].data[b] * self.stride as f64 + (self.offset + at) as f64;
            args[0].data[channel * t + index.clamp(0.0, (t - 1) as f64) as usize]
        })]
    }
    fn samples(&self) -> Vec<Sample> {
        let series = |c: usize, t: usize| SampleArg::any([c, t]);
        let starts = |b: usize, hi| SampleArg::with(Some(DType::I64), [b], Data::Int(0, hi));
        let wide = |(stride, offset, length, width), (c, t), (b, hi)| {
            Sample::new(Self { stride, offset, length, width }, vec![series(c, t), starts(b, hi)])
        };
        let case =
            |(stride, offset, length), series, starts| wide((stride, offset, length, length), series, starts);
        vec![
            case((1, 0, 1), (1, 1), (1, 1)),
            case((1, 2, 3), (2, 10), (4, 6)),
            case((3, 1, 5), (3, 33), (5, 9)),
            case((1, 0, 4), (4, 4), (4, 1)),
            case((1, 5, 336), (7, 500), (33, 159)),
            case((2, 0, 0), (2, 5), (3, 2)),
            case((1, 0, 2), (0, 5), (3, 2)),
            case((1, 0, 2), (2, 5), (0, 2)),
            wide((1, 0, 5, 8), (3, 40), (7, 35)),
            wide((193, 0, 193, 200), (5, 600), (9, 3)),
            wide((1, 0, 0, 3), (2, 5), (3, 2)),
            Sample::bad(
                Self { width: 2, ..*self },
                vec![series(2, 9), starts(1, 1)],
                "length is 3; it must be at most the width",
            ),
            Sample::bad(
                *self,
                vec![series(2, 2), starts(1, 1)],
                "length is 3; it must be at most that of the series",
            ),
            Sample::bad(
                *self,
                vec![series(2, 9), SampleArg::with(Some(DType::I32), [1], Data::Int(0, 1))],
                "it must be i64",
            ),
            Sample::bad(*self, vec![SampleArg::any([9]), starts(1, 1)], "arg 0 has rank 1; it must be 2"),
        ]
    }
}

fn gather<T: Element>(op: &WindowGather, call: &Call<'_>) -> Result<(), Rule> {
    let (series, starts, out) = (call.input::<T>(0)?, call.input::<i64>(1)?, call.output::<T>(0)?);
    if out.elements() == 0 {
        return Ok(());
    }
    let &[batch, channels, width] = out.dims() else { return Ok(()) };
    let (t, length) = (series.cols(), op.length);
    for b in (0..batch).filter(|_| length > 0) {
        let first = op.first(starts.flat(b));
        let last = first.saturating_add_unsigned((length - 1) as u64);
        if first < 0 || last >= t as i64 {
            call.flag(b, if first < 0 { first } else { last }, t);
        }
    }
    call.parallel(out, batch, (16 * 1024 / (channels * width)).max(1), |start, mut part| {
        for b in 0..part.outer() {
            let first = op.first(starts.flat(start + b));
            let inside = usize::try_from(first).ok().filter(|&f| f <= t - length);
            for c in 0..channels {
                let from = series.row(c);
                let mut to = part.row_mut(b * channels + c);
                match (inside, from.as_slice(), to.as_slice()) {
                    (Some(f), Some(from), Some(to)) => {
                        to[..length].copy_from_slice(&from[f..f + length]);
                        to[length..].fill(T::from_f64(0.0));
                    }
                    _ => {
                        for j in 0..length {
                            let at = first.saturating_add_unsigned(j as u64).clamp(0, t as i64 - 1);
                            to.set(j, from.get(at as usize));
                        }
                        (length..width).for_each(|j| to.set(j, T::from_f64(0.0)));
                    }
                }
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Error};

    #[test]
    fn an_epoch_visits_every_window_once_and_the_next_in_another_order() -> Result<(), Error> {
        let engine = Engine::cpu_with_threads(1)?;
        for windows in [1usize, 2, 5, 33, 1000] {
            // Two runs: all windows but the last, and the last far behind them.
            let last = windows as i64 - 1;
            let table = engine.tensor([2, 3], &[100i64, 500, 0, 100 + last, 9000, 1])?;
            let mut orders = Vec::new();
            for epoch in 0..2i64 {
                let op = BatchWindows { batch: 7, micro_batches: 1, order: Order::Shuffled };
                let mut seen = Vec::new();
                for batch in 0..windows.div_ceil(7) {
                    let cursor =
                        engine.tensor([8], &[0, epoch, batch as i64, 5, 100, windows as i64, 0, 0])?;
                    let mut starts = engine.empty(DType::I64, [7])?;
                    let mut groups = engine.empty(DType::I64, [7])?;
                    let mut valid = engine.empty(DType::Bool, [7])?;
                    let outputs = &mut [starts.view_mut(), groups.view_mut(), valid.view_mut()];
                    engine.call(&op, &[cursor.view(), table.view()], outputs)?;
                    let valid = valid.read_host()?.data;
                    let all = starts.read::<i64>()?.into_iter().zip(groups.read::<i64>()?).zip(valid);
                    seen.extend(all.filter(|&(_, v)| v == 1.0).map(|(at, _)| at));
                }
                let mut sorted = seen.clone();
                sorted.sort_unstable();
                let expected = (0..last).map(|w| (500 + w, 0)).chain([(9000, 1)]);
                assert!(sorted.iter().copied().eq(expected), "{windows} windows: {sorted:?}");
                orders.push(seen);
            }
            assert!(windows < 10 || orders[0] != orders[1], "{windows} windows");
        }
        Ok(())
    }

    #[test]
    fn an_index_out_of_range_is_reported() -> Result<(), Error> {
        let engine = Engine::cpu_with_threads(1)?;
        let series = engine.tensor([1, 5], &[0.0f32, 1.0, 2.0, 3.0, 4.0])?;
        let starts = engine.tensor([3], &[1i64, 3, -1])?;
        let mut out = engine.empty(DType::F32, [3, 1, 3])?;
        let op = WindowGather { stride: 1, offset: 0, length: 3, width: 3 };
        engine.call(&op, &[series.view(), starts.view()], &mut [out.view_mut()])?;
        let fault = Error::Index { op: "window_gather", position: 1, value: 5, limit: 5 };
        let copy = engine.eval(&crate::ops::Copy, &[out.view()])?;
        assert_eq!(copy.read::<f32>(), out.read::<f32>());
        assert_eq!(out.read::<f32>(), Err(fault));
        Ok(())
    }
}
