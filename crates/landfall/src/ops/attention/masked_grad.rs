//! Gradient of attention over the keys that each query may see.

use super::masked::{MaskedAttention, Sizes, cases, cuda, gradient};
use crate::contract::{
    AttributeValue, Body, Data, Kernel, Mixing, Op, Output, Outputs, Sample, SampleArg, Tested, arity,
    attributes, op_attributes, rules,
};
use crate::kernel::cpu::lanes::saved_stat_dtype;
use crate::kernel::cpu::with_float;
use crate::ops::attention::left_out;
use crate::values::{DType, DeviceKind, HostTensor, Rule, Spec};

op_list! { MaskedAttentionGrad }

op_attributes! {
    /// Gradient of [`MaskedAttention`]. The scores `S` are computed again; then `P = exp(S − lse)`,
    /// `dS = P∘(g_out·vᵀ − rowsum(g_out∘out))`, `gq = scale·dS·k`, `gk = scale·dSᵀ·q`, `gv = Pᵀ·g_out`, these two summed over the
    /// query heads of a key head.
    ///
    /// Arguments: those of [`MaskedAttention`], `q`, `k`, `v` and where it has them `mask` and `lengths`; then `out` and `g_out`, `[B, M, h, e]`, around `lse`, `[B, h, M]` in f32 or f64.
    /// Results: `gq` as `q`, `gk` and `gv` as `k`. Accumulation: f32 (f64 for f64). Disjoint. Gradient: through the body. Errors: as
    /// of the forward op. Deterministic, whatever the number of threads. Source: Dao et al., "FlashAttention" (2022), algorithm 4.
    #[derive(Debug, Clone, Copy)]
    pub struct MaskedAttentionGrad(q, k, v, mask if mask, lengths if lengths, out, lse, g_out) {
        /// As in the forward pass.
        pub scale: f64 = 1.0 => (AttributeValue::None),
        /// As in the forward pass.
        pub causal: bool = false,
        /// As in the forward pass.
        pub mask: bool = false,
        /// As in the forward pass.
        pub lengths: bool = false,
    }
}

impl MaskedAttentionGrad {
    /// The op whose gradient this is.
    pub(super) fn forward(&self) -> MaskedAttention {
        let Self { scale, causal, mask, lengths } = *self;
        MaskedAttention { scale, causal, mask, lengths }
    }
}

impl Op for MaskedAttentionGrad {
    fn name(&self) -> &'static str {
        "masked_attention_grad"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let at = self.forward().operands();
        arity(self, args)?;
        let s = self.forward().check(args)?;
        for i in [at, at + 2] {
            rules::same_dtype(args, 0, i)?;
            rules::same_shape(args, 0, i)?;
        }
        saved_stat_dtype(args, at + 1)?;
        rules::shape(args, at + 1, s.rows())?;
        Ok([args[0], args[1], args[2]].into())
    }
    fn left_out(&self, attribute: &str, args: &[Spec]) -> Option<AttributeValue> {
        left_out(attribute, args)
    }
    fn outputs(&self) -> &[Output] {
        &[Output::FULL; 3]
    }
    fn body(&self) -> Body {
        Body::Fused(|op, g, args| {
            let op = attributes::<Self>(op).map_err(|r| r.of("masked_attention_grad", &[], None, None))?;
            let (dtype, at) = (g.spec(args[0]).dtype, op.forward().operands());
            let saved = [args[at], args[at + 1], args[at + 2]];
            let slopes = op.forward().pulled(g, &args[..at], saved, None)?;
            slopes[..3].iter().map(|&slope| g.cast(slope, dtype)).collect()
        })
    }
    fn mixing(&self) -> Mixing {
        Mixing::Product { operands: usize::MAX }
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("masked_attention_grad", |op, call| {
                    let op = attributes::<MaskedAttentionGrad>(op)?;
                    with_float!(call, 0, T => gradient::run::<T>(&op.forward(), call))
                })
                .with_workspace(|_, args| gradient::workspace(args)),
                Kernel::cuda("masked_attention_grad", cuda::gradient).with_workspace(|_, args| {
                    let rows = Sizes::of(&args[0].shape, &args[1].shape).rows();
                    rows.elements() * args[0].dtype.accumulate().size()
                }),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        // Five products; scale, difference, exponential, difference and product of each score.
        let s = Sizes::of(&args[0].shape, &args[1].shape);
        s.scores().elements().saturating_mul(10 * s.features + 5)
    }
}

impl Tested for MaskedAttentionGrad {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let specs: Vec<Spec> = args.iter().map(|a| a.spec).collect();
        let Ok(outputs) = self.infer(&specs) else { return Vec::new() };
        let (op, s) = (self.forward(), Sizes::of(&specs[0].shape, &specs[1].shape));
        let [out, lse, g] = [0, 1, 2].map(|i| &args[op.operands() + i].data);
        let (q, k, v) = (&args[0].data, &args[1].data, &args[2].data);
        let mut grads: Vec<HostTensor> = outputs.iter().map(|&o| HostTensor::from_fn(o, |_| 0.0)).collect();
        for at in 0..s.rows().elements() {
            let (b, h, i) = (at / s.queries / s.heads, at / s.queries % s.heads, at % s.queries);
            let row = op.row(args, b, h, i);
            let own = ((b * s.queries + i) * s.heads + h) * s.features;
            let level: f64 = (0..s.features).map(|c| g[own + c] * out[own + c]).sum();
            for j in 0..s.keys {
                let key = ((b * s.keys + j) * s.key_heads + h / s.group()) * s.features;
                // The weight by the given `lse`, which may be another than that of the scores.
                let p = if row.weights[j] > 0.0 { row.weights[j] * (row.lse - lse[at]).exp() } else { 0.0 };
                let slope: f64 = (0..s.features).map(|c| g[own + c] * v[key + c]).sum();
                let ds = p * (slope - level);
                for c in 0..s.features {
                    grads[0].data[own + c] += self.scale * ds * k[key + c];
                    grads[1].data[key + c] += self.scale * ds * q[own + c];
                    grads[2].data[key + c] += p * g[own + c];
                }
            }
        }
        grads
    }
    fn samples(&self) -> Vec<Sample> {
        let grad = |op: MaskedAttention| {
            let MaskedAttention { causal, mask, lengths, .. } = op;
            move |features: usize| Self {
                scale: if features > 32 { 0.125 } else { 0.25 },
                causal,
                mask,
                lengths,
            }
        };
        let mut all = Vec::new();
        for (op, mut args) in cases() {
            let q = args[0].shape;
            let s = Sizes::of(&q, &args[1].shape);
            for arg in args.iter_mut().filter(|a| a.dtype.is_none()) {
                arg.data = Data::Range(-1.0, 1.0);
            }
            args.push(SampleArg::range(q, -1.0, 1.0));
            args.push(SampleArg::with(Some(DType::F32), s.rows(), Data::Range(1.0, 3.0)));
            args.push(SampleArg::range(q, -1.0, 1.0));
            all.push(Sample::new(grad(op)(s.features), args));
        }
        let any = SampleArg::any([2, 5, 2, 4]);
        all.push(Sample::bad(
            *self,
            vec![any.clone(); 5],
            "takes 6 arguments (q, k, v, out, lse, g_out), got 5",
        ));
        let mut bad = vec![any; 6];
        bad[4] = SampleArg::with(Some(DType::F32), [2, 2, 4], Data::Range(1.0, 3.0));
        all.push(Sample::bad(*self, bad, "arg 4 is [2, 2, 4]; it must be [2, 2, 5]"));
        all
    }
}
