//! GRU and LSTM over whole sequences.

mod cpu;
pub(super) mod cuda;

use super::recurrence_grad::RecurrenceGrad;
use crate::contract::{
    Body, Grad, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value, Vjp, arity,
    attribute_choices, attributes, op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::with_float;
use crate::values::{DeviceKind, HostTensor, Rule, Shape, Spec};
use std::panic::Location;

pub(super) use cpu::gradient;

op_list! { Recurrence; Cell }

/// What is computed in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// Gated recurrent unit: gates reset, update and new.
    Gru,
    /// Long short-term memory: gates input, forget, cell and output, with a cell state.
    Lstm,
}

attribute_choices!(Cell: Gru = "gru", Lstm = "lstm");

impl Cell {
    /// Number of gates.
    #[must_use]
    pub fn gates(self) -> usize {
        match self {
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }
}

op_attributes! {
    /// A recurrent layer over time, from the gates' inputs on. With `s = h_{t−1}·weight + bias` and `x_t` the inputs of the gates:
    ///
    /// GRU: `r = σ(x_r + s_r)`, `z = σ(x_z + s_z)`, `n = tanh(x_n + r·s_n)`, `h_t = (1 − z)·n + z·h_{t−1}`.
    /// LSTM: `i, f, o = σ(x + s)`, `g = tanh(x_g + s_g)`, `c_t = f·c_{t−1} + i·g`, `h_t = o·tanh c_t`; gates in the order i, f, g, o.
    ///
    /// `x`: `[B, T, G·H]` with `G` gates, three or four; `h0`: `[B, H]`; `weight`: `[H, G·H]`; `bias`: `[G·H]`; of an LSTM also `c0`:
    /// `[B, H]`; all of one float dtype and any strides. Results: `h` `[B, T, H]`; `saved` `[B, T, 4·H]`, the gates (and `s_n` of a
    /// GRU), kept for the gradient; of an LSTM also `c` `[B, T, H]`. Between steps the state is in the accumulation dtype: f32 (f64
    /// for f64). On a GPU one launch for all steps; a block has a few sequences. Disjoint. Gradient: [`RecurrenceGrad`]; that of
    /// `saved` through the body. Errors: shapes and dtypes as above. Deterministic, whatever the number of threads. Sources: Cho et al. (2014), in
    /// the form of PyTorch's `GRU`; Hochreiter and Schmidhuber (1997), with forget gates.
    #[derive(Debug, Clone, Copy)]
    pub struct Recurrence(x, h0, weight, bias, c0 if cell = "lstm") {
        /// What is computed in a step.
        pub cell: Cell = Cell::Gru,
    }
}

/// Sizes of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) steps: usize,
    pub(super) hidden: usize,
}

impl Sizes {
    /// Of `[B, T, H]`.
    pub(super) fn of(h: &Shape) -> Self {
        let d = h.dims();
        Self { batch: d[0], steps: d[1], hidden: d[2] }
    }

    /// `[B, T, n·H]`.
    pub(super) fn steps_of(&self, n: usize) -> Shape {
        [self.batch, self.steps, n.saturating_mul(self.hidden)].into()
    }

    /// `[B, H]`.
    pub(super) fn state(&self) -> Shape {
        [self.batch, self.hidden].into()
    }
}

impl Recurrence {
    fn check(&self, args: &[Spec]) -> Result<Sizes, Rule> {
        let gates = self.cell.gates();
        arity(self, args)?;
        rules::float(args, &[0])?;
        let rank = args[0].shape.rank();
        if rank != 3 {
            return Err(Rule::Rank { arg: 0, rank, expected: "3: [batch, steps, gates · hidden]" });
        }
        (1..args.len()).try_for_each(|i| rules::same_dtype(args, 0, i))?;
        let [batch, steps, width] = [0, 1, 2].map(|a| args[0].shape.dims()[a]);
        if width % gates != 0 {
            let expected = "a multiple of the number of gates";
            return Err(Rule::Attribute { name: "last size of x", value: width as f64, expected });
        }
        let s = Sizes { batch, steps, hidden: width / gates };
        rules::shape(args, 1, s.state())?;
        rules::shape(args, 2, [s.hidden, width])?;
        rules::shape(args, 3, [width])?;
        if self.cell == Cell::Lstm {
            rules::shape(args, 4, s.state())?;
        }
        Ok(s)
    }
}

/// The states before each step, `[B, T, H]`, of those after it and the first.
pub(super) fn before(g: &Graph, first: Value, states: Value) -> Result<Value, Error> {
    let [batch, steps, hidden] = [0, 1, 2].map(|a| g.shape(states).dims()[a]);
    let first = g.reshape(first, [batch, 1, hidden])?;
    if steps == 0 { Ok(states) } else { g.concat(&[first, g.slice(states, 1, 0, steps - 1)?], 1) }
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let op = attributes::<Recurrence>(op).map_err(|r| r.of("recurrence", &[], None, None))?;
    let dtype = g.spec(args[0]).dtype;
    let wide = |v| g.cast(v, dtype.accumulate());
    let [batch, steps, width] = [0, 1, 2].map(|a| g.shape(args[0]).dims()[a]);
    let hidden = width / op.cell.gates();
    let (x, weight, bias) = (wide(args[0])?, wide(args[2])?, wide(args[3])?);
    let mut h = wide(args[1])?;
    let mut c = if op.cell == Cell::Lstm { Some(wide(args[4])?) } else { None };
    let (mut states, mut saved, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for t in 0..steps {
        let x = g.reshape(g.slice(x, 1, t, 1)?, [batch, width])?;
        let s = g.matmul_add(h, weight, bias)?;
        let of = |v, gate| g.slice(v, 1, gate * hidden, hidden);
        let sum = |gate| g.add(of(x, gate)?, of(s, gate)?);
        let kept = match c {
            None => {
                let (r, z, m) = (g.sigmoid(sum(0)?)?, g.sigmoid(sum(1)?)?, of(s, 2)?);
                let n = g.tanh(g.add(of(x, 2)?, g.mul(r, m)?)?)?;
                h = g.add(n, g.mul(z, g.sub(h, n)?)?)?;
                [r, z, n, m]
            }
            Some(before) => {
                let gates = [g.sigmoid(sum(0)?)?, g.sigmoid(sum(1)?)?, g.tanh(sum(2)?)?, g.sigmoid(sum(3)?)?];
                let after = g.add(g.mul(gates[1], before)?, g.mul(gates[0], gates[2])?)?;
                h = g.mul(gates[3], g.tanh(after)?)?;
                cells.push(g.reshape(after, [batch, 1, hidden])?);
                c = Some(after);
                gates
            }
        };
        states.push(g.reshape(h, [batch, 1, hidden])?);
        saved.push(g.reshape(g.concat(&kept, 1)?, [batch, 1, 4 * hidden])?);
    }
    let join = |parts: &[Value], width: usize| {
        if parts.is_empty() {
            return g.fill(dtype, [batch, 0, width], 0.0);
        }
        g.cast(g.concat(parts, 1)?, dtype)
    };
    let mut all = vec![join(&states, hidden)?, join(&saved, 4 * hidden)?];
    if c.is_some() {
        all.push(join(&cells, hidden)?);
    }
    Ok(all)
}

fn vjp(op: &dyn Op, cx: &Vjp<'_>) -> Result<Vec<Option<Value>>, Error> {
    let fail = |rule: Rule| Error::from(rule.of("recurrence", &[], None, None));
    let cell = attributes::<Recurrence>(op).map_err(fail)?.cell;
    let (g, inputs, outputs) = (cx.graph, cx.inputs, cx.outputs);
    // A result that nothing uses has a cotangent of zeros.
    let cotangent = |i: usize| {
        let spec = g.spec(outputs[i]);
        cx.cotangents[i].map_or_else(|| g.fill(spec.dtype, spec.shape, 0.0), Ok)
    };
    let mut args = vec![g.transpose(inputs[2])?, inputs[1], outputs[0], outputs[1], cotangent(0)?];
    if cell == Cell::Lstm {
        args.extend([inputs[4], outputs[2], cotangent(2)?]);
    }
    let grads = g.op(RecurrenceGrad { cell }, &args)?;
    // The gradients of `s`, of which that of the weight is one product over all steps.
    let of_sums = if cell == Cell::Gru { grads[2] } else { grads[0] };
    let rows = |v: Value| {
        let shape = g.shape(v);
        g.reshape(v, [shape.dims()[0] * shape.dims()[1], shape.last()])
    };
    let (states, of_sums) = (rows(before(g, inputs[1], outputs[0])?)?, rows(of_sums)?);
    let weight = g.matmul(g.transpose(states)?, of_sums)?;
    let mut all = vec![Some(grads[0]), Some(grads[1]), Some(weight), Some(g.sum(of_sums, [0])?)];
    if cell == Cell::Lstm {
        all.push(Some(grads[2]));
    }
    Ok(all)
}

impl Op for Recurrence {
    fn name(&self) -> &'static str {
        match self.cell {
            Cell::Gru => "gru",
            Cell::Lstm => "lstm",
        }
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let s = self.check(args)?;
        let of = |n| Spec { shape: s.steps_of(n), ..args[0] };
        Ok(match self.cell {
            Cell::Gru => [of(1), of(4)].into(),
            Cell::Lstm => [of(1), of(4), of(1)].into(),
        })
    }
    fn outputs(&self) -> &[Output] {
        const ALL: &[Output] = &[Output::FULL; 3];
        match self.cell {
            Cell::Gru => &ALL[..2],
            Cell::Lstm => ALL,
        }
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn vjp(&self) -> Grad {
        Grad::Keeping { rule: vjp, kept: &[1] }
    }
    fn mixing(&self) -> Mixing {
        Mixing::Full
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("recurrence", |op, call| {
                    let op = attributes::<Recurrence>(op)?;
                    with_float!(call, 0, T => cpu::forward::<T>(op, call))
                })
                .with_workspace(|op, args| {
                    let Ok(op) = attributes::<Recurrence>(op) else { return 0 };
                    let s = Sizes { hidden: args[1].shape.last(), ..Sizes::of(&args[0].shape) };
                    cpu::workspace(&s, cpu::forward_slot(op.cell, &s), op.cell, args[0].dtype)
                }),
                Kernel::cuda("recurrence", cuda::forward),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements().saturating_mul(2 * args[1].shape.last() + 4)
    }
}

impl Tested for Recurrence {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let (Ok(s), Ok(outputs)) = (self.check(&specs), self.infer(&specs)) else { return Vec::new() };
        let (hidden, width) = (s.hidden, self.cell.gates() * s.hidden);
        let mut out: Vec<HostTensor> = outputs.iter().map(|&o| HostTensor::from_fn(o, |_| 0.0)).collect();
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        for b in 0..s.batch {
            let of = |t: &HostTensor| t.data[b * hidden..(b + 1) * hidden].to_vec();
            let mut h = of(&args[1]);
            let mut c = if self.cell == Cell::Lstm { of(&args[4]) } else { Vec::new() };
            for t in 0..s.steps {
                let at = b * s.steps + t;
                let x = &args[0].data[at * width..(at + 1) * width];
                let s: Vec<f64> = (0..width)
                    .map(|j| {
                        args[3].data[j] + (0..hidden).map(|k| h[k] * args[2].data[k * width + j]).sum::<f64>()
                    })
                    .collect();
                for u in 0..hidden {
                    let sum = |gate: usize| x[gate * hidden + u] + s[gate * hidden + u];
                    let kept = match self.cell {
                        Cell::Gru => {
                            let (r, z, m) = (sigmoid(sum(0)), sigmoid(sum(1)), s[2 * hidden + u]);
                            let n = (x[2 * hidden + u] + r * m).tanh();
                            h[u] = (1.0 - z) * n + z * h[u];
                            [r, z, n, m]
                        }
                        Cell::Lstm => {
                            let [i, f, g, o] =
                                [sigmoid(sum(0)), sigmoid(sum(1)), sum(2).tanh(), sigmoid(sum(3))];
                            c[u] = f * c[u] + i * g;
                            h[u] = o * c[u].tanh();
                            out[2].data[at * hidden + u] = c[u];
                            [i, f, g, o]
                        }
                    };
                    out[0].data[at * hidden + u] = h[u];
                    for (gate, v) in kept.into_iter().enumerate() {
                        out[1].data[(at * 4 + gate) * hidden + u] = v;
                    }
                }
            }
        }
        out
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = Vec::new();
        for cell in [Cell::Gru, Cell::Lstm] {
            for &[batch, steps, hidden] in SHAPES {
                let width = cell.gates() * hidden;
                let most = if hidden > 16 { 0.3 } else { 1.0 };
                let mut args = vec![
                    SampleArg::any([batch, steps, width]),
                    SampleArg::range([batch, hidden], -1.0, 1.0),
                    SampleArg::range([hidden, width], -most, most),
                    SampleArg::range([width], -1.0, 1.0),
                ];
                if cell == Cell::Lstm {
                    args.push(SampleArg::range([batch, hidden], -1.0, 1.0));
                }
                all.push(Sample::new(Self { cell }, args));
            }
        }
        let any = |shape: &[usize]| SampleArg::any(Shape::new(shape).unwrap_or(Shape::SCALAR));
        let gru = Self { cell: Cell::Gru };
        let bad = |args: [&[usize]; 4], text| Sample::bad(gru, args.map(any).into(), text);
        all.extend([
            bad(
                [&[2, 3, 7], &[2, 2], &[2, 6], &[6]],
                "last size of x is 7; it must be a multiple of the number of gates",
            ),
            bad([&[2, 3, 6], &[3, 2], &[2, 6], &[6]], "arg 1 is [3, 2]; it must be [2, 2]"),
            bad([&[2, 3, 6], &[2, 2], &[6, 2], &[6]], "arg 2 is [6, 2]; it must be [2, 6]"),
            bad([&[2, 6], &[2, 2], &[2, 6], &[6]], "arg 0 has rank 2; it must be 3"),
            Sample::bad(
                Self { cell: Cell::Lstm },
                vec![any(&[2, 3, 8]); 4],
                "takes 5 arguments (x, h0, weight, bias, c0), got 4",
            ),
        ]);
        all
    }
}

/// `[B, T, H]` of samples: one of each, tails, several parts of a block, more units than threads, no sequence, no step.
pub(super) const SHAPES: &[[usize; 3]] =
    &[[1, 1, 1], [2, 3, 4], [9, 5, 33], [3, 12, 16], [2, 2, 530], [0, 2, 4], [2, 0, 3]];

impl Graph {
    /// A GRU over the inputs of its gates ([`Recurrence`]): the states `[B, T, H]`.
    ///
    /// `x`: `[B, T, 3·H]`, the layer's inputs times their weight, with their bias; `h0`: `[B, H]`; `weight`: `[3·H, H]` and `bias`:
    /// `[3·H]`, as PyTorch's `weight_hh` and `bias_hh`.
    ///
    /// # Errors
    /// Shapes as above, one float dtype.
    #[track_caller]
    pub fn gru(&self, x: Value, h0: Value, weight: Value, bias: Value) -> Result<Value, Error> {
        let args = [x, h0, self.columns("gru", weight)?, bias];
        Ok(self.op(Recurrence { cell: Cell::Gru }, &args)?[0])
    }

    /// An LSTM over the inputs of its gates ([`Recurrence`]): the states and the cell states, `[B, T, H]` each.
    ///
    /// `x`: `[B, T, 4·H]`; `h0`, `c0`: `[B, H]`; `weight`: `[4·H, H]` and `bias`: `[4·H]`, as PyTorch's `weight_hh` and `bias_hh`.
    ///
    /// # Errors
    /// Shapes as above, one float dtype.
    #[track_caller]
    pub fn lstm(
        &self,
        x: Value,
        (h0, c0): (Value, Value),
        weight: Value,
        bias: Value,
    ) -> Result<(Value, Value), Error> {
        let args = [x, h0, self.columns("lstm", weight)?, bias, c0];
        let all = self.op(Recurrence { cell: Cell::Lstm }, &args)?;
        Ok((all[0], all[2]))
    }

    /// `[H, G·H]` of `[G·H, H]`, contiguous: each step reads neighbouring gates of one unit.
    #[track_caller]
    fn columns(&self, op: &'static str, weight: Value) -> Result<Value, Error> {
        let (spec, at) = (self.spec(weight), Location::caller());
        if spec.shape.rank() != 2 {
            let rule =
                Rule::Rank { arg: 2, rank: spec.shape.rank(), expected: "2: [gates · hidden, hidden]" };
            return Err(rule.of(op, &[spec], None, Some(at)).into());
        }
        self.copy(self.transpose(weight)?)
    }
}
