//! Adam and AdamW: one launch updates a whole slab of parameters and their moments.

mod cuda;

use super::cursor::sample_ok;
use crate::contract::cursor::{self, STEP};
use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::{Call, with_float};
use crate::values::{DType, DeviceKind, Element, HostTensor, Math, Rule, Spec};

op_list! { Adam }

/// Elements held at once: five rows of 1 KB, which stay in the first-level cache.
const TILE: usize = 256;
/// Elements that one task updates.
const GRAIN: usize = 16 * 1024;

op_attributes! {
    /// One step of Adam with bias correction, number `t = STEP + 1`. With `g = grad · scale`:
    ///
    /// ```text
    /// decoupled (AdamW):  param ← param · (1 − lr · weight_decay)     for elements below decay_elements
    /// not decoupled:      g ← g + weight_decay · param                for elements below decay_elements
    /// m ← β₁ · m + (1 − β₁) · g
    /// v ← β₂ · v + (1 − β₂) · g²
    /// param ← param − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
    /// ```
    ///
    /// Arguments: `param` `[n]`, a float; `grad` `[n]`, of the dtype of `param` or the accumulation dtype; `m`, `v` `[n]`, of
    /// the accumulation dtype (f32, for f64 f64); `cursor` `i64[8]`; `lr` `f64[]`; `scale`, a scalar of the accumulation
    /// dtype; `ok` `bool[]`. Results: `param`, `m` and `v`, updated where they are; with ok 0 all three are left as they are. Arithmetic in the
    /// accumulation dtype; scalars in f64, rounded to it once. No gradient. Deterministic, whatever the number of threads.
    /// Errors: β outside [0, 1), ε or the decay negative, other dtypes or shapes. Source: Kingma and Ba 2015; Loshchilov
    /// and Hutter 2019; the order of operations is PyTorch's.
    #[derive(Debug, Clone, Copy)]
    pub struct Adam(param, grad, m, v, cursor, lr, scale, ok) {
        /// Decay of the first moment, β₁.
        pub beta1: f64 = 0.9,
        /// Decay of the second moment, β₂.
        pub beta2: f64 = 0.999,
        /// What keeps the divisor from 0, ε.
        pub eps: f64 = 1e-8,
        /// Weight decay.
        pub weight_decay: f64 = 0.0,
        /// Whether the decay acts on the parameter (AdamW) and not on the gradient.
        pub decoupled: bool = false,
        /// The first so many elements decay; the others do not.
        pub decay_elements: usize = usize::MAX,
    }
}

impl Op for Adam {
    fn name(&self) -> &'static str {
        "adam"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 8] = rules::arity(self, args)?;
        let [param, grad, m, v, ..] = args;
        for (name, value) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&value) {
                return Err(Rule::Attribute { name, value, expected: "in [0, 1)" });
            }
        }
        rules::at_least_0("eps", self.eps)?;
        rules::at_least_0("weight_decay", self.weight_decay)?;
        rules::float(&args, &[0])?;
        if param.shape.rank() != 1 {
            return Err(Rule::Rank { arg: 0, rank: param.shape.rank(), expected: "1" });
        }
        let wide = param.dtype.accumulate();
        if grad.dtype != wide {
            rules::same_dtype(&args, 0, 1)?;
        }
        (1..4).try_for_each(|arg| rules::same_shape(&args, 0, arg))?;
        [2, 3, 6].into_iter().try_for_each(|arg| rules::dtype(&args, arg, wide))?;
        cursor::rule(&args, 4)?;
        rules::dtype(&args, 5, DType::F64)?;
        rules::dtype(&args, 7, DType::Bool)?;
        (5..8).try_for_each(|arg| rules::shape(&args, arg, []))?;
        Ok(Outputs::from([param, m, v]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::update(0), Output::update(2), Output::update(3)] }
    }
    fn body(&self) -> Body {
        Body::Opaque("update of a state")
    }
    fn vjp(&self) -> Grad {
        Grad::None("an update is outside of the loss")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const {
            &[
                Kernel::cpu("adam", |op, call| {
                    let op = attributes::<Adam>(op)?;
                    with_float!(call, 0, T, W as 1 => update::<T, W>(op, call))
                }),
                Kernel::cuda("adam", cuda::adam),
            ]
        }
    }
    fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
        args[0].shape.elements().saturating_mul(15)
    }
}

impl Tested for Adam {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (mut p, mut m, mut v) = (args[0].clone(), args[2].clone(), args[3].clone());
        let (t, lr, scale) = (args[4].data[STEP] as i32 + 1, args[5].data[0], args[6].data[0]);
        if args[7].data[0] == 0.0 {
            return vec![p, m, v];
        }
        for i in 0..p.data.len() {
            let mut g = args[1].data[i] * scale;
            if i < self.decay_elements {
                if self.decoupled {
                    p.data[i] *= 1.0 - lr * self.weight_decay;
                } else {
                    g += self.weight_decay * p.data[i];
                }
            }
            m.data[i] = self.beta1 * m.data[i] + (1.0 - self.beta1) * g;
            v.data[i] = self.beta2 * v.data[i] + (1.0 - self.beta2) * g * g;
            let m_hat = m.data[i] / (1.0 - self.beta1.powi(t));
            let v_hat = v.data[i] / (1.0 - self.beta2.powi(t));
            p.data[i] -= lr * m_hat / (v_hat.sqrt() + self.eps);
        }
        vec![p, m, v]
    }
    fn samples(&self) -> Vec<Sample> {
        let decaying = Self { weight_decay: 0.1, decoupled: true, ..*self };
        let mut all = Vec::new();
        for &dtype in DType::ALL.iter().filter(|d| d.is_float()) {
            for (decoupled, weight_decay) in [(true, 0.1), (false, 0.1), (true, 0.0)] {
                for (n, decay_elements, step) in [(1, 1, 0), (7, 3, 1), (300, 270, 9), (20_000, 17_000, 999)]
                {
                    let op = Self { decoupled, weight_decay, decay_elements, ..*self };
                    all.push(Sample::new(op, sample(n, step, dtype)));
                }
            }
            let mut wide = sample(40, 2, dtype);
            wide[1].dtype = Some(dtype.accumulate());
            all.push(Sample::new(decaying, wide));
            all.push(Sample::new(*self, sample(0, 0, dtype)));
            let mut skipped = sample(40, 2, dtype);
            skipped[7] = sample_ok(false);
            all.push(Sample::new(decaying, skipped));
        }
        let four = || sample(4, 0, DType::F32);
        all.push(Sample::new(Self { beta1: 0.0, beta2: 0.0, ..*self }, four()));
        let bad = |op, text| Sample::bad(op, four(), text);
        all.push(bad(Self { beta1: 1.0, ..*self }, "beta1 is 1; it must be in [0, 1)"));
        all.push(bad(Self { eps: -1.0, ..*self }, "eps is -1; it must be finite and at least 0"));
        let mut short = four();
        short[2].shape = [3].into();
        all.push(Sample::bad(*self, short, "their shapes must be equal"));
        let mut narrow = four();
        narrow[5].dtype = Some(DType::F32);
        all.push(Sample::bad(*self, narrow, "arg 5 is f32; it must be f64"));
        all
    }
}

/// Arguments of a step of parameters of this dtype.
fn sample(n: usize, step: i64, dtype: DType) -> Vec<SampleArg> {
    let scalar = |dtype, x| SampleArg::with(Some(dtype), [], Data::Exact(vec![x]));
    let many = |dtype, lo| SampleArg::with(Some(dtype), [n], Data::Range(lo, 2.0));
    let wide = dtype.accumulate();
    vec![
        many(dtype, -2.0),
        many(dtype, -2.0),
        many(wide, -2.0),
        many(wide, 0.1),
        cursor::sample(&[(STEP, step)]),
        scalar(DType::F64, 0.01),
        scalar(wide, 0.5),
        sample_ok(true),
    ]
}

/// The scalars of a step, rounded to the dtype of arithmetic.
#[derive(Clone, Copy)]
struct Scalars<A> {
    scale: A,
    beta1: A,
    beta2: A,
    rest1: A,
    rest2: A,
    step_size: A,
    root2: A,
    eps: A,
}

/// What weight decay does to some elements.
#[derive(Clone, Copy)]
enum Decay<A> {
    None,
    Param(A),
    Gradient(A),
}

fn update<T: Element<Acc: Math>, G: Element<Acc = T::Acc>>(op: &Adam, call: &Call<'_>) -> Result<(), Rule> {
    if call.input::<u8>(7)?.flat(0) == 0 {
        return Ok(());
    }
    let t = (cursor::read(call, 4)?[STEP] as f64) + 1.0;
    let lr = call.input::<f64>(5)?.flat(0);
    let a = T::Acc::from_f64;
    let scalars = Scalars {
        scale: call.input::<T::Acc>(6)?.flat(0),
        beta1: a(op.beta1),
        beta2: a(op.beta2),
        rest1: a(1.0 - op.beta1),
        rest2: a(1.0 - op.beta2),
        step_size: a(lr / (1.0 - op.beta1.powf(t))),
        root2: a((1.0 - op.beta2.powf(t)).sqrt()),
        eps: a(op.eps),
    };
    let decay = match (op.weight_decay, op.decoupled) {
        (0.0, _) => Decay::None,
        (wd, true) => Decay::Param(a(1.0 - lr * wd)),
        (wd, false) => Decay::Gradient(a(wd)),
    };
    let grad = call.input::<G>(1)?;
    let whole = (call.output::<T>(0)?, call.output::<T::Acc>(1)?, call.output::<T::Acc>(2)?);
    let n = whole.0.elements();
    call.parallel(
        whole,
        n,
        GRAIN,
        #[inline(always)]
        |start, (mut p, mut m, mut v)| {
            let (len, zero) = (p.elements(), T::Acc::default());
            let grad = grad.row(0);
            let (mut p, mut m, mut v) = (p.row_mut(0), m.row_mut(0), v.row_mut(0));
            let mut tile = [[zero; TILE]; 4];
            for at in (0..len).step_by(TILE) {
                let k = TILE.min(len - at);
                let [ps, ms, vs, gs] = &mut tile;
                p.read().widen(at, &mut ps[..k]);
                m.read().widen(at, &mut ms[..k]);
                v.read().widen(at, &mut vs[..k]);
                grad.widen(start + at, &mut gs[..k]);
                // The elements of this tile that decay come first.
                let decayed = op.decay_elements.saturating_sub(start + at).min(k);
                let [ps, ms, vs, gs] = &mut tile;
                let (p0, p1) = ps[..k].split_at_mut(decayed);
                let (m0, m1) = ms[..k].split_at_mut(decayed);
                let (v0, v1) = vs[..k].split_at_mut(decayed);
                let (g0, g1) = gs[..k].split_at(decayed);
                step(&scalars, decay, p0, m0, v0, g0);
                step(&scalars, Decay::None, p1, m1, v1, g1);
                p.narrow(at, &tile[0][..k]);
                m.narrow(at, &tile[1][..k]);
                v.narrow(at, &tile[2][..k]);
            }
        },
    );
    Ok(())
}

/// The update of some elements.
#[inline(always)]
fn step<A: Math>(s: &Scalars<A>, decay: Decay<A>, p: &mut [A], m: &mut [A], v: &mut [A], g: &[A]) {
    macro_rules! each {
        ($p:ident, $g:ident, $new_p:expr, $new_g:expr) => {
            for (((p, m), v), &g) in p.iter_mut().zip(m).zip(v).zip(g) {
                let ($p, $g) = (*p, g * s.scale);
                let (old, g) = ($new_p, $new_g);
                *m = s.beta1 * *m + s.rest1 * g;
                *v = s.beta2 * *v + s.rest2 * (g * g);
                *p = old - s.step_size * (*m / (Math::sqrt(*v) / s.root2 + s.eps));
            }
        };
    }
    match decay {
        Decay::None => each!(p, g, p, g),
        Decay::Param(keep) => each!(p, g, p * keep, g),
        Decay::Gradient(wd) => each!(p, g, p, g + wd * p),
    }
}

#[cfg(test)]
mod tests;
