//! Gradient of GRU and LSTM over whole sequences.

use super::recurrence::{Cell, SHAPES, Sizes, before, cuda, gradient};
use crate::contract::{
    Body, Graph, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, Value, arity, attributes,
    op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::with_float;
use crate::values::{DeviceKind, HostTensor, Rule, Spec};

op_list! { RecurrenceGrad }

op_attributes! {
    /// Gradient of [`Recurrence`](super::recurrence::Recurrence) with respect to the gates' inputs and the first state, from the
    /// last step to the first: `g_x`, `g_s`, `g_h0` and `g_c0`. That of the weight is a product of `g_s` and the states, over all steps.
    ///
    /// Arguments: `weight`: `[G·H, H]`; `h0`: `[B, H]`; `h`: `[B, T, H]`; `saved`: `[B, T, 4·H]`; `g_h`: `[B, T, H]`; of an LSTM also
    /// `c0`, `c` and `g_c`, shaped as `h0`, `h` and `g_h`; of one float dtype and any strides. Results: `g_x` `[B, T, G·H]`; `g_h0`
    /// `[B, H]`; of a GRU `g_s` `[B, T, 3·H]`, which of an LSTM is `g_x`; of an LSTM `g_c0` `[B, H]`. Between steps the gradient of
    /// the state is in the accumulation dtype. Disjoint. Gradient: through the body. Errors: shapes
    /// and dtypes as above. Deterministic, whatever the number of threads.
    #[derive(Debug, Clone, Copy)]
    pub struct RecurrenceGrad(weight, h0, h, saved, g_h, c0 if cell = "lstm", c if cell = "lstm", g_c if cell = "lstm") {
        /// As in the forward pass.
        pub cell: Cell = Cell::Gru,
    }
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let cell = attributes::<RecurrenceGrad>(op).map_err(|r| r.of(op.name(), &[], None, None))?.cell;
    let spec = g.spec(args[2]);
    let Sizes { batch, steps, hidden } = Sizes::of(&spec.shape);
    let width = cell.gates() * hidden;
    let wide: Vec<Value> =
        args.iter().map(|&v| g.cast(v, spec.dtype.accumulate())).collect::<Result<_, _>>()?;
    let at = |v: Value, t| g.reshape(g.slice(v, 1, t, 1)?, [batch, g.shape(v).last()]);
    // σ′ and tanh′ of a result.
    let of_sigmoid = |y: Value| g.mul(y, g.affine(y, -1.0, 1.0)?);
    let of_tanh = |y: Value| g.affine(g.square(y)?, -1.0, 1.0);
    let zero = || g.fill(spec.dtype.accumulate(), [batch, hidden], 0.0);
    let (mut gh, mut gc) = (zero()?, zero()?);
    let h = before(g, wide[1], wide[2])?;
    let c = if cell == Cell::Lstm { Some(before(g, wide[5], wide[6])?) } else { None };
    let (mut of_inputs, mut of_sums) = (Vec::new(), Vec::new());
    for t in (0..steps).rev() {
        let saved = at(wide[3], t)?;
        let gate = |i| g.slice(saved, 1, i * hidden, hidden);
        let [p, q, v, w] = [gate(0)?, gate(1)?, gate(2)?, gate(3)?];
        let slope = g.add(gh, at(wide[4], t)?)?;
        let sums = match c {
            None => {
                let (r, z, n, m) = (p, q, v, w);
                let dn = g.mul(g.mul(slope, g.affine(z, -1.0, 1.0)?)?, of_tanh(n)?)?;
                let dz = g.mul(g.mul(slope, g.sub(at(h, t)?, n)?)?, of_sigmoid(z)?)?;
                let dr = g.mul(g.mul(dn, m)?, of_sigmoid(r)?)?;
                of_inputs.push(g.reshape(g.concat(&[dr, dz, dn], 1)?, [batch, 1, width])?);
                gh = g.mul(slope, z)?;
                g.concat(&[dr, dz, g.mul(dn, r)?], 1)?
            }
            Some(c) => {
                let ([i, f, n, o], y) = ([p, q, v, w], g.tanh(at(wide[6], t)?)?);
                let through = g.mul(g.mul(slope, o)?, of_tanh(y)?)?;
                let dc = g.add(g.add(gc, at(wide[7], t)?)?, through)?;
                gc = g.mul(dc, f)?;
                gh = zero()?;
                let of_gates = [
                    g.mul(g.mul(dc, n)?, of_sigmoid(i)?)?,
                    g.mul(g.mul(dc, at(c, t)?)?, of_sigmoid(f)?)?,
                    g.mul(g.mul(dc, i)?, of_tanh(n)?)?,
                    g.mul(g.mul(slope, y)?, of_sigmoid(o)?)?,
                ];
                g.concat(&of_gates, 1)?
            }
        };
        gh = g.add(gh, g.matmul(sums, wide[0])?)?;
        of_sums.push(g.reshape(sums, [batch, 1, width])?);
    }
    let join = |mut parts: Vec<Value>| {
        parts.reverse();
        let joined = match parts.is_empty() {
            true => g.fill(spec.dtype, [batch, 0, width], 0.0)?,
            false => g.concat(&parts, 1)?,
        };
        g.cast(joined, spec.dtype)
    };
    let first = g.cast(gh, spec.dtype)?;
    Ok(match cell {
        Cell::Gru => vec![join(of_inputs)?, first, join(of_sums)?],
        Cell::Lstm => vec![join(of_sums)?, first, g.cast(gc, spec.dtype)?],
    })
}

impl Op for RecurrenceGrad {
    fn name(&self) -> &'static str {
        match self.cell {
            Cell::Gru => "gru_grad",
            Cell::Lstm => "lstm_grad",
        }
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        arity(self, args)?;
        rules::float(args, &[0])?;
        (1..args.len()).try_for_each(|i| rules::same_dtype(args, 0, i))?;
        let rank = args[2].shape.rank();
        if rank != 3 {
            return Err(Rule::Rank { arg: 2, rank, expected: "3: [batch, steps, hidden]" });
        }
        let (s, gates) = (Sizes::of(&args[2].shape), self.cell.gates());
        rules::shape(args, 0, [gates.saturating_mul(s.hidden), s.hidden])?;
        rules::shape(args, 1, s.state())?;
        rules::shape(args, 3, s.steps_of(4))?;
        rules::same_shape(args, 2, 4)?;
        if self.cell == Cell::Lstm {
            rules::same_shape(args, 1, 5)?;
            rules::same_shape(args, 2, 6)?;
            rules::same_shape(args, 2, 7)?;
        }
        let of_gates = Spec { shape: s.steps_of(gates), ..args[0] };
        Ok([of_gates, args[1], if self.cell == Cell::Gru { of_gates } else { args[1] }].into())
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL; 3]
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn mixing(&self) -> Mixing {
        Mixing::Full
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("recurrence_grad", |op, call| {
                    let cell = attributes::<RecurrenceGrad>(op)?.cell;
                    with_float!(call, 0, T => gradient::run::<T>(cell, call))
                })
                .with_workspace(|op, args| {
                    let Ok(op) = attributes::<RecurrenceGrad>(op) else { return 0 };
                    gradient::workspace(op.cell, &Sizes::of(&args[2].shape), args[0].dtype)
                }),
                Kernel::cuda("recurrence_grad", cuda::gradient),
            ]
        }
    }
    fn flops(&self, args: &[Spec], outputs: &[Spec]) -> usize {
        outputs[0].shape.elements().saturating_mul(2 * args[1].shape.last() + 8)
    }
}

impl Tested for RecurrenceGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let (s, gates) = (Sizes::of(&specs[2].shape), self.cell.gates());
        let (hidden, width) = (s.hidden, gates * s.hidden);
        let mut out: Vec<HostTensor> = outputs.iter().map(|&o| HostTensor::from_fn(o, |_| 0.0)).collect();
        for b in 0..s.batch {
            let (mut gh, mut gc) = (vec![0.0; hidden], vec![0.0; hidden]);
            for t in (0..s.steps).rev() {
                let at = b * s.steps + t;
                // The state before the step, of `h` or of `c`.
                let before = |first: usize, states: usize, u: usize| match t {
                    0 => args[first].data[b * hidden + u],
                    _ => args[states].data[(at - 1) * hidden + u],
                };
                let (mut of_sums, mut direct) = (vec![0.0; width], vec![0.0; hidden]);
                for u in 0..hidden {
                    let [p, q, v, w] = [0, 1, 2, 3].map(|gate| args[3].data[(at * 4 + gate) * hidden + u]);
                    let g = gh[u] + args[4].data[at * hidden + u];
                    let of_inputs: Vec<f64> = match self.cell {
                        Cell::Gru => {
                            let (r, z, n, m) = (p, q, v, w);
                            let dn = g * (1.0 - z) * (1.0 - n * n);
                            let dz = g * (before(1, 2, u) - n) * z * (1.0 - z);
                            let dr = dn * m * r * (1.0 - r);
                            direct[u] = g * z;
                            (of_sums[u], of_sums[hidden + u], of_sums[2 * hidden + u]) = (dr, dz, dn * r);
                            vec![dr, dz, dn]
                        }
                        Cell::Lstm => {
                            let ([i, f, c, o], y) = ([p, q, v, w], args[6].data[at * hidden + u].tanh());
                            let dc = gc[u] + args[7].data[at * hidden + u] + g * o * (1.0 - y * y);
                            gc[u] = dc * f;
                            let all = vec![
                                dc * c * i * (1.0 - i),
                                dc * before(5, 6, u) * f * (1.0 - f),
                                dc * i * (1.0 - c * c),
                                g * y * o * (1.0 - o),
                            ];
                            all.iter().enumerate().for_each(|(gate, v)| of_sums[gate * hidden + u] = *v);
                            all
                        }
                    };
                    for (gate, v) in of_inputs.into_iter().enumerate() {
                        out[0].data[at * width + gate * hidden + u] = v;
                    }
                }
                if self.cell == Cell::Gru {
                    out[2].data[at * width..(at + 1) * width].copy_from_slice(&of_sums);
                }
                for u in 0..hidden {
                    let back: f64 = (0..width).map(|j| of_sums[j] * args[0].data[j * hidden + u]).sum();
                    gh[u] = direct[u] + back;
                }
            }
            out[1].data[b * hidden..(b + 1) * hidden].copy_from_slice(&gh);
            if self.cell == Cell::Lstm {
                out[2].data[b * hidden..(b + 1) * hidden].copy_from_slice(&gc);
            }
        }
        out
    }
    fn samples(&self) -> Vec<Sample> {
        let mut all = Vec::new();
        for cell in [Cell::Gru, Cell::Lstm] {
            for &[batch, steps, hidden] in SHAPES {
                let most = if hidden > 16 { 0.1 } else { 0.5 };
                let (state, states) = ([batch, hidden], [batch, steps, hidden]);
                let mut args = vec![
                    SampleArg::range([cell.gates() * hidden, hidden], -most, most),
                    SampleArg::range(state, -1.0, 1.0),
                    SampleArg::range(states, -1.0, 1.0),
                    SampleArg::range([batch, steps, 4 * hidden], 0.1, 0.9),
                    SampleArg::range(states, -1.0, 1.0),
                ];
                if cell == Cell::Lstm {
                    args.push(SampleArg::range(state, -1.0, 1.0));
                    args.push(SampleArg::range(states, -1.0, 1.0));
                    args.push(SampleArg::range(states, -1.0, 1.0));
                }
                all.push(Sample::new(Self { cell }, args));
            }
        }
        let any = SampleArg::any([2, 3, 4]);
        all.push(Sample::bad(
            Self { cell: Cell::Gru },
            vec![any.clone(); 4],
            "takes 5 arguments (weight, h0, h, saved, g_h), got 4",
        ));
        all.push(Sample::bad(
            Self { cell: Cell::Gru },
            vec![any; 5],
            "arg 0 is [2, 3, 4]; it must be [12, 4]",
        ));
        all
    }
}
