//! [`Recurrence`] and its gradient on the CPU: a few sequences at once go through all steps, so that each row of the weight that
//! is read serves all of them.

use super::{Cell, Recurrence, Sizes};
use crate::kernel::cpu::lanes::{Slots, cut};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, View};
use crate::values::{DType, Element, Math, Rule};

/// Sequences of a task.
const EACH: usize = 8;

/// Products that are added before their sum is added to the total: an error grows with the tile and the number of tiles.
const TILE: usize = 64;

/// Elements of a task: states, sums and a tile of them.
pub(super) fn forward_slot(cell: Cell, s: &Sizes) -> usize {
    (EACH * (2 + cell.gates()) + cell.gates()) * s.hidden
}

/// Bytes for the weight and all tasks.
pub(super) fn workspace(s: &Sizes, slot: usize, cell: Cell, dtype: DType) -> usize {
    (cell.gates() * s.hidden * s.hidden + s.batch.div_ceil(EACH) * slot) * dtype.accumulate().size()
}

/// Loads a matrix, row by row.
fn load<T: Element>(x: &View<'_, T>, to: &mut [T::Acc]) {
    for (i, to) in to.iter_mut().enumerate() {
        *to = x.flat(i).widen();
    }
}

/// Where element `[b, t, 0]` or `[b, 0]` lies, and the distance of elements of the last axis.
#[inline(always)]
fn row<T: Element>(x: &View<'_, T>, b: usize, t: usize) -> (usize, usize) {
    let l = x.layout();
    match *l.strides() {
        [batch, step, last] => (l.offset() + b * batch + t * step, last),
        [batch, last] => (l.offset() + b * batch, last),
        _ => (l.offset(), 1),
    }
}

/// `sums[r] += states[r] · weight`, of `[k, n]`, for each of `rows` sequences.
#[inline(always)]
fn product<A: Arith>(
    states: &[A],
    weight: &[A],
    (rows, k, n): (usize, usize, usize),
    sums: &mut [A],
    tile: &mut [A],
) {
    let tile = &mut tile[..n];
    for first in (0..k).step_by(TILE) {
        let end = k.min(first + TILE);
        for r in 0..rows {
            tile.fill(A::ZERO);
            for i in first..end {
                let x = states[r * k + i];
                for (s, &w) in tile.iter_mut().zip(&weight[i * n..(i + 1) * n]) {
                    *s = *s + x * w;
                }
            }
            for (s, &t) in sums[r * n..(r + 1) * n].iter_mut().zip(&*tile) {
                *s = *s + t;
            }
        }
    }
}

#[inline(always)]
fn sigmoid<A: Arith>(x: A) -> A {
    A::ONE / (A::ONE + Math::exp(-x))
}

pub(super) fn forward<T: Element>(op: &Recurrence, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let cell = op.cell;
    let (x, h0, weight, bias) =
        (call.input::<T>(0)?, call.input::<T>(1)?, call.input::<T>(2)?, call.input::<T>(3)?);
    let c0 = if cell == Cell::Lstm { Some(call.input::<T>(4)?) } else { None };
    let (h, saved) = (call.output::<T>(0)?, call.output::<T>(1)?);
    let c = if cell == Cell::Lstm { Some(call.output::<T>(2)?) } else { None };
    let s = Sizes { hidden: h0.layout().shape().last(), ..Sizes::of(x.layout().shape()) };
    let (hidden, width) = (s.hidden, cell.gates() * s.hidden);
    if h.elements() == 0 {
        return Ok(());
    }
    let slot = forward_slot(cell, &s);
    let (matrix, slots) = call.workspace::<T::Acc>()?.split_at_mut(hidden * width);
    load(&weight, matrix);
    let matrix = &*matrix;
    let slots = Slots { data: &mut slots[..s.batch.div_ceil(EACH) * slot], each: EACH, width: slot };
    call.parallel(
        (h, saved, c, slots),
        s.batch,
        EACH,
        #[inline(always)]
        |start, (mut h, mut saved, mut c, slots)| {
            let all = h.outer();
            let mut rest = &mut slots.data[..slot];
            let (states, cells) = (cut(&mut rest, EACH * hidden), cut(&mut rest, EACH * hidden));
            let (sums, tile) = rest.split_at_mut(EACH * width);
            // Where outputs can't be split, one part has all sequences.
            for first in (0..all).step_by(EACH) {
                let (rows, start) = (EACH.min(all - first), start + first);
                for r in 0..rows {
                    let (at, step) = row(&h0, start + r, 0);
                    for u in 0..hidden {
                        states[r * hidden + u] = h0.data()[at + u * step].widen();
                        if let Some(c0) = &c0 {
                            let (at, step) = row(c0, start + r, 0);
                            cells[r * hidden + u] = c0.data()[at + u * step].widen();
                        }
                    }
                }
                for t in 0..s.steps {
                    for r in 0..rows {
                        load(&bias, &mut sums[r * width..(r + 1) * width]);
                    }
                    product(states, matrix, (rows, hidden, width), sums, tile);
                    for r in 0..rows {
                        let ((at, step), sums) = (row(&x, start + r, t), &sums[r * width..(r + 1) * width]);
                        let [to_h, to_saved] = [h.layout(), saved.layout()]
                            .map(|l| (l.index(&[first + r, t, 0]), l.strides()[2]));
                        for u in 0..hidden {
                            let input = |gate: usize| x.data()[at + (gate * hidden + u) * step].widen();
                            let sum = |gate: usize| input(gate) + sums[gate * hidden + u];
                            let state = &mut states[r * hidden + u];
                            let kept = if let Some(c) = &mut c {
                                let gates =
                                    [sigmoid(sum(0)), sigmoid(sum(1)), Math::tanh(sum(2)), sigmoid(sum(3))];
                                let own = &mut cells[r * hidden + u];
                                *own = gates[1] * *own + gates[0] * gates[2];
                                *state = gates[3] * Math::tanh(*own);
                                let at = c.layout().index(&[first + r, t, u]);
                                c.data()[at] = T::narrow(*own);
                                gates
                            } else {
                                let (reset, update, m) =
                                    (sigmoid(sum(0)), sigmoid(sum(1)), sums[2 * hidden + u]);
                                let new = Math::tanh(input(2) + reset * m);
                                *state = new + update * (*state - new);
                                [reset, update, new, m]
                            };
                            h.data()[to_h.0 + u * to_h.1] = T::narrow(*state);
                            for (gate, v) in kept.into_iter().enumerate() {
                                saved.data()[to_saved.0 + (gate * hidden + u) * to_saved.1] = T::narrow(v);
                            }
                        }
                    }
                }
            }
        },
    );
    Ok(())
}

/// The gradient.
pub(in crate::ops::recurrent) mod gradient {
    use super::*;

    /// Elements of a task: gradients of states and cells, and of the sums.
    fn slot(cell: Cell, s: &Sizes) -> usize {
        forward_slot(cell, s)
    }

    pub(in crate::ops::recurrent) fn workspace(cell: Cell, s: &Sizes, dtype: DType) -> usize {
        super::workspace(s, slot(cell, s), cell, dtype)
    }

    pub(in crate::ops::recurrent) fn run<T: Element>(cell: Cell, call: &Call<'_>) -> Result<(), Rule>
    where
        T::Acc: Arith,
    {
        let input = |i| call.input::<T>(i);
        let (weight, h0, h, saved, g_h) = (input(0)?, input(1)?, input(2)?, input(3)?, input(4)?);
        let cells = if cell == Cell::Lstm { Some((input(5)?, input(6)?, input(7)?)) } else { None };
        let (gx, gh0, third) = (call.output::<T>(0)?, call.output::<T>(1)?, call.output::<T>(2)?);
        let s = Sizes::of(h.layout().shape());
        let (hidden, width) = (s.hidden, cell.gates() * s.hidden);
        if gh0.elements() == 0 {
            return Ok(());
        }
        let slot = slot(cell, &s);
        let (matrix, slots) = call.workspace::<T::Acc>()?.split_at_mut(hidden * width);
        load(&weight, matrix);
        let matrix = &*matrix;
        let slots = Slots { data: &mut slots[..s.batch.div_ceil(EACH) * slot], each: EACH, width: slot };
        let (zero, one) = (T::Acc::ZERO, T::Acc::ONE);
        call.parallel(
            (gx, gh0, third, slots),
            s.batch,
            EACH,
            #[inline(always)]
            |start, (mut gx, mut gh0, mut third, slots)| {
                let all = gh0.outer();
                let mut rest = &mut slots.data[..slot];
                let (carried, carried_cells) = (cut(&mut rest, EACH * hidden), cut(&mut rest, EACH * hidden));
                let (sums, tile) = rest.split_at_mut(EACH * width);
                for first in (0..all).step_by(EACH) {
                    let (rows, start) = (EACH.min(all - first), start + first);
                    carried.fill(zero);
                    carried_cells.fill(zero);
                    for t in (0..s.steps).rev() {
                        for r in 0..rows {
                            let b = start + r;
                            let at = |x: &View<'_, T>, t: usize, u: usize| {
                                let (at, step) = row(x, b, t);
                                x.data()[at + u * step].widen()
                            };
                            let before = |first: &View<'_, T>, states: &View<'_, T>, u: usize| {
                                if t == 0 { at(first, 0, u) } else { at(states, t - 1, u) }
                            };
                            for u in 0..hidden {
                                let [p, q, v, w] = [0, 1, 2, 3].map(|gate| at(&saved, t, gate * hidden + u));
                                let g = carried[r * hidden + u] + at(&g_h, t, u);
                                let mut of_sums =
                                    |gate: usize, v: T::Acc| sums[r * width + gate * hidden + u] = v;
                                let mut of_inputs = |gate: usize, v: T::Acc| {
                                    let to = gx.layout().index(&[first + r, t, gate * hidden + u]);
                                    gx.data()[to] = T::narrow(v);
                                };
                                if let Some((c0, c, g_c)) = &cells {
                                    let y = Math::tanh(at(c, t, u));
                                    let own = &mut carried_cells[r * hidden + u];
                                    let slope = *own + at(g_c, t, u) + g * w * (one - y * y);
                                    *own = slope * q;
                                    let all = [
                                        slope * v * p * (one - p),
                                        slope * before(c0, c, u) * q * (one - q),
                                        slope * p * (one - v * v),
                                        g * y * w * (one - w),
                                    ];
                                    for (gate, v) in all.into_iter().enumerate() {
                                        of_sums(gate, v);
                                        of_inputs(gate, v);
                                    }
                                    carried[r * hidden + u] = zero;
                                } else {
                                    let new = g * (one - q) * (one - v * v);
                                    let update = g * (before(&h0, &h, u) - v) * q * (one - q);
                                    let reset = new * w * p * (one - p);
                                    for (gate, v) in [reset, update, new].into_iter().enumerate() {
                                        let own = if gate == 2 { v * p } else { v };
                                        of_inputs(gate, v);
                                        of_sums(gate, own);
                                        let to = third.layout().index(&[first + r, t, gate * hidden + u]);
                                        third.data()[to] = T::narrow(own);
                                    }
                                    carried[r * hidden + u] = g * q;
                                }
                            }
                        }
                        product(sums, matrix, (rows, width, hidden), carried, tile);
                    }
                    for (i, (&of_h, &of_c)) in
                        carried.iter().zip(&*carried_cells).enumerate().take(rows * hidden)
                    {
                        let at = [first + i / hidden, i % hidden];
                        let to = gh0.layout().index(&at);
                        gh0.data()[to] = T::narrow(of_h);
                        if cells.is_some() {
                            let to = third.layout().index(&at);
                            third.data()[to] = T::narrow(of_c);
                        }
                    }
                }
            },
        );
        Ok(())
    }
}
