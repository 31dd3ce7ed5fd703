//! Gradient of attention with queries and keys of length 1.

use crate::contract::{
    Body, Data, Graph, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, Value, attributes,
    op_attributes, rules,
};
use crate::error::Error;
use crate::kernel::cpu::isa::{Real, dispatch};
use crate::kernel::cpu::lanes::{LANES, SavedStat, Slots, saved_stat_dtype};
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, with_float};
use crate::ops::attention::cosine::{
    SHAPES, arguments, by_head, check, cuda, heads, levels_of, mixed, parts, rows_of,
};
use crate::ops::attention::cpu_tiles::Sizes;
use crate::ops::attention::masked::MaskedAttention;
use crate::ops::norm::l2_norm::{L2Norm, L2NormGrad};
use crate::values::{DType, DeviceKind, Element, HostTensor, Rule, Shape, Spec, product};

op_list! { CosineAttentionGrad }

op_attributes! {
    /// Gradient of [`CosineAttention`](crate::ops::attention::cosine::CosineAttention). The scores `S = t·q̂·k̂ᵀ` are computed again; then
    /// `P = exp(S − lse)`, `dS = P∘(g_out·vᵀ − rowsum(g_out∘out))`, `u = dS·k̂`, `w = t·dSᵀ·q̂`, and, row by row,
    /// `gq = t·(u − q̂·Σ u·q̂) / √(Σ q² + eps)`, `gk = (w − k̂·Σ w·k̂) / √(Σ k² + eps)`, `gv = Pᵀ·g_out`; of each head
    /// `g_t = Σ u·q̂`.
    ///
    /// Arguments: `qkv`: `[B, N, 3, h, e]`; `temperature`: `[h]`; `out`: `[B, N, h, e]`; `lse`: `[B, h, N]` in f32 or f64;
    /// `g_out`: `[B, N, h, e]`. All but `lse` and `temperature` of one float dtype; any strides. Results: the slopes of `qkv` and
    /// `temperature`, as these. Accumulation: f32 (f64 for f64) of a head, f64 over the batch. Disjoint. Gradient: through the body.
    /// Errors: as the forward op. Deterministic, whatever the number of threads.
    #[derive(Debug, Clone, Copy)]
    pub struct CosineAttentionGrad(qkv, temperature, out, lse, g_out) {
        /// As in the forward pass.
        pub eps: f64 = 1e-6,
    }
}

fn body(op: &dyn Op, g: &Graph, args: &[Value]) -> Result<Vec<Value>, Error> {
    let eps = attributes::<CosineAttentionGrad>(op).map_err(|r| r.of(op.name(), &[], None, None))?.eps;
    let (qkv, temperature) = (g.spec(args[0]), g.spec(args[1]));
    let ([q, k, v], t) = parts(g, args)?;
    let turned =
        [g.op1(L2Norm { eps, scaled: true }, &[q, t])?, g.op1(L2Norm { eps, scaled: false }, &[k])?, v];
    let forward = MaskedAttention { scale: 1.0, causal: false, mask: false, lengths: false };
    let wide = |v| g.cast(v, qkv.dtype.accumulate());
    let saved = [wide(args[2])?, args[3], wide(args[4])?];
    let [gq, gk, gv, _] = forward.pulled(g, &turned, saved, None)?;
    let of_queries = g.op(L2NormGrad { eps, scaled: true }, &[gq, q, t])?;
    let gk = g.op1(L2NormGrad { eps, scaled: false }, &[gk, k])?;
    let one = qkv.shape.with(2, 1);
    let parts = [g.reshape(of_queries[0], one)?, g.reshape(gk, one)?, g.reshape(gv, one)?];
    let of_heads = g.sum(of_queries[1], [0, 1])?;
    Ok(vec![g.cast(g.concat(&parts, 2)?, qkv.dtype)?, g.cast(of_heads, temperature.dtype)?])
}

impl Op for CosineAttentionGrad {
    fn name(&self) -> &'static str {
        "cosine_attention_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 5] = rules::arity(self, args)?;
        rules::at_least_0("eps", self.eps)?;
        check(&args)?;
        for arg in [2, 4] {
            rules::same_dtype(&args, 0, arg)?;
            rules::shape(&args, arg, rows_of(&args[0].shape))?;
        }
        saved_stat_dtype(&args, 3)?;
        rules::shape(&args, 3, levels_of(&args[0].shape))?;
        Ok([args[0], args[1]].into())
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL; 2]
    }
    fn body(&self) -> Body {
        Body::Fused(body)
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("cosine_attention_grad", |op, call| {
                    let op = attributes::<Self>(op)?;
                    with_float!(call, 0, T, W as 1 => run::<T, W>(op, call))
                })
                .with_workspace(|_, args| {
                    let s = Sizes::of(&rows_of(&args[0].shape));
                    let tasks = product([s.tasks().1, heads::gradient_lines(&s), LANES]);
                    tasks.saturating_add(s.batch * s.heads).saturating_mul(args[0].dtype.accumulate().size())
                }),
                Kernel::cuda("cosine_attention_grad", cuda::gradient).with_workspace(cuda::grad_workspace),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Five products; temperature, difference, exponential, difference and product of each score; square, sum and
        // product of each element of queries and keys, and of its slope product, sum, product, difference and product.
        let s = Sizes::of(&rows_of(&args[0].shape));
        let pairs = args[3].shape.elements().saturating_mul(s.n).saturating_mul(5);
        let norms = args[2].shape.elements().saturating_mul(16);
        s.flops().saturating_mul(5).saturating_add(pairs).saturating_add(norms)
    }
}

impl Tested for CosineAttentionGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let mut all: Vec<HostTensor> = outputs.iter().map(|&o| HostTensor::from_fn(o, |_| 0.0)).collect();
        let Sizes { n, heads, e, .. } = Sizes::of(&specs[2].shape);
        for head in 0..specs[0].shape.elements() / (3 * n * e).max(1) {
            let (b, h) = (head / heads, head % heads);
            let at = |i: usize, part: usize| (((b * n + i) * 3 + part) * heads + h) * e;
            let [q, k, v] = [0, 1, 2].map(|part| move |i: usize| &args[0].data[at(i, part)..][..e]);
            let row = |arg: usize, i: usize| &args[arg].data[((b * n + i) * heads + h) * e..][..e];
            let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
            let unit = |x: &[f64]| {
                let length = (dot(x, x) + self.eps).sqrt();
                (x.iter().map(|x| x / length).collect::<Vec<f64>>(), length)
            };
            let t = args[1].data[h];
            let (mut of_q, mut of_k) = (vec![vec![0.0; e]; n], vec![vec![0.0; e]; n]);
            for i in 0..n {
                let level = dot(row(4, i), row(2, i));
                for j in 0..n {
                    let ((q, _), (k, _)) = (unit(q(i)), unit(k(j)));
                    let p = (t * dot(&q, &k) - args[3].data[head * n + i]).exp();
                    let change = p * (dot(row(4, i), v(j)) - level);
                    for c in 0..e {
                        of_q[i][c] += change * k[c];
                        of_k[j][c] += t * change * q[c];
                        all[0].data[at(j, 2) + c] += p * row(4, i)[c];
                    }
                }
            }
            for i in 0..n {
                let ((q, length_q), (k, length_k)) = (unit(q(i)), unit(k(i)));
                let along = [dot(&of_q[i], &q), dot(&of_k[i], &k)];
                all[1].data[h] += along[0];
                for c in 0..e {
                    all[0].data[at(i, 0) + c] = t * (of_q[i][c] - q[c] * along[0]) / length_q;
                    all[0].data[at(i, 1) + c] = (of_k[i][c] - k[c] * along[1]) / length_k;
                }
            }
        }
        all
    }
    fn samples(&self) -> Vec<Sample> {
        let more = |args: [SampleArg; 2]| {
            let rows = SampleArg { shape: rows_of(&args[0].shape), data: Data::Range(-1.0, 1.0), ..args[0] };
            let levels = levels_of(&args[0].shape);
            let lse = SampleArg::with(Some(DType::F32), levels, Data::Range(7.0, 9.0));
            let [qkv, temperature] = args;
            vec![qkv, temperature, rows.clone(), lse, rows]
        };
        let of = |&[b, n, h, e]: &[usize; 4]| {
            let own = if e == 1 { Self { eps: 0.5 } } else { *self };
            Sample::new(own, more(arguments(b, n, h, e)))
        };
        let mut all: Vec<Sample> = SHAPES.iter().map(of).collect();
        all.extend(mixed().map(|args| Sample::new(*self, more(args))));
        let good = more(arguments(2, 5, 2, 4));
        let with = |arg: usize, shape: Shape| {
            let mut args = good.clone();
            args[arg].shape = shape;
            args
        };
        let bad = |args, text| Sample::bad(*self, args, text);
        all.extend([
            bad(with(3, [2, 2, 4].into()), "arg 3 is [2, 2, 4]; it must be [2, 2, 5]"),
            bad(with(4, [2, 5, 2, 3].into()), "arg 4 is [2, 5, 2, 3]; it must be [2, 5, 2, 4]"),
            bad(with(1, [3].into()), "arg 1 is [3]; it must be [2]"),
            bad(good[..4].to_vec(), "takes 5 arguments (qkv, temperature, out, lse, g_out), got 4"),
        ]);
        all
    }
}

fn run<T: Element, W: Element<Acc = T::Acc>>(op: &CosineAttentionGrad, call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith + Real,
{
    let (qkv, temperature) = (call.input::<T>(0)?, call.input::<W>(1)?);
    let (out, lse, g) = (call.input::<T>(2)?, SavedStat::of(call, 3)?, call.input::<T>(4)?);
    let (gqkv, mut g_temperature) = (call.output::<T>(0)?, call.output::<W>(1)?);
    let s = Sizes::of(out.layout().shape());
    if gqkv.elements() == 0 {
        g_temperature.fill(W::narrow(W::Acc::default()));
        return Ok(());
    }
    let temperature = by_head(&temperature, s.batch)?;
    let (each, tasks) = s.tasks();
    let width = heads::gradient_lines(&s) * LANES;
    let (scratch, rest) = call.workspace::<T::Acc>()?.split_at_mut(tasks * width);
    let turned = &mut rest[..s.batch * s.heads];
    let slots = Slots { data: scratch, each, width };
    let own = Slots { data: &mut *turned, each: 1, width: s.heads };
    call.parallel(
        (gqkv, slots, own),
        s.batch,
        each,
        #[inline(always)]
        |start, (gqkv, slots, own)| {
            let (scratch, turned, eps) = (&mut slots.data[..width], own.data, op.eps);
            dispatch(heads::Gradient { s, start, eps, qkv, temperature, out, lse, g, gqkv, turned, scratch });
        },
    );
    for head in 0..s.heads {
        let sum: f64 = turned.iter().skip(head).step_by(s.heads).map(|t| t.as_f64()).sum();
        g_temperature.set_flat(head, W::narrow(W::Acc::of_f64(sum)));
    }
    Ok(())
}
