//! The gradient of layer normalisation in two ops: that of the rows, each of which needs nothing but itself, and the sums over them.
//! A segment does the first of them by parts ([`Segment`](crate::lower::Segment)).

use super::{LayerNormGrad, cuda, sizes};
use crate::contract::{Body, Kernel, Op, Output, Outputs, Sample, Tested, op_attributes};
use crate::kernel::cpu::lanes::SavedStat;
use crate::kernel::cpu::pointwise::Arith;
use crate::kernel::cpu::{Call, View, with_float};
use crate::values::{DeviceKind, Element, HostTensor, Rule, Spec};

macro_rules! half {
    ($(#[doc = $doc:literal])* $Name:ident $name:literal $results:expr, $outputs:expr, $independent:expr, $cpu:ident, $cuda:ident, $workspace:expr, $flops:literal;) => {
        op_attributes! {
            $(#[doc = $doc])*
            #[derive(Debug, Clone, Copy)]
            pub struct $Name(gy, x, weight, mean, rstd);
        }

        impl Op for $Name {
            fn name(&self) -> &'static str { $name }
            fn internal(&self) -> bool { true }
            fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
                let all = LayerNormGrad.infer(args)?;
                Ok(Outputs::of(&all[$results]))
            }
            fn outputs(&self) -> &[Output] { $outputs }
            fn body(&self) -> Body {
                Body::Fused(|_, g, args| Ok(super::gradient_body(g, args)?.drain($results).collect()))
            }
            fn independent(&self, args: &[Spec], _: &[Spec]) -> Option<Vec<usize>> {
                let independent: fn(usize) -> Option<Vec<usize>> = $independent;
                independent(args[1].shape.rank() - 1)
            }
            fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
                const { &[
                    Kernel::cpu($name, |_, call| with_float!(call, 0, T, W as 2 => $cpu::<T, W>(call))),
                    Kernel::cuda($name, |_, call| cuda::$cuda(call)).with_workspace($workspace),
                ] }
            }
            fn flops(&self, args: &[Spec], _: &[Spec]) -> usize {
                args[1].shape.elements().saturating_mul($flops)
            }
        }

        impl Tested for $Name {
            fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
                LayerNormGrad.reference(args).drain($results).collect()
            }
            fn samples(&self) -> Vec<Sample> {
                super::grad_samples(*self)
            }
        }
    };
}

half! {
    /// Of [`LayerNormGrad`]'s results the gradient of the rows, `gx`. Arguments, accumulation and errors are its. `gx` is disjoint.
    LayerNormGradRows "layer_norm_grad_rows" 0..1, &[Output::FULL], |rows| Some(vec![rows, rows, 0, rows, rows, rows]),
    by_rows, backward_rows, |_, _| 0, 10;
}

half! {
    /// Of [`LayerNormGrad`]'s results the sums over all rows, `gweight` and `gbias`. Arguments, accumulation and errors are its.
    LayerNormGradSums "layer_norm_grad_sums" 1..3, &[Output::FULL; 2], |_| None,
    by_columns, backward_sums, |_, args| cuda::workspace_of_sums(&args[1]), 4;
}

/// An element in the accumulation type.
fn wide<T: Element>(of: &View<'_, T>, i: usize) -> T::Acc
where
    T::Acc: Arith,
{
    T::Acc::of_f64(of.flat(i).to_f64())
}

fn by_rows<T: Element, W: Element<Acc = T::Acc>>(call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let (gy, x, weight) = (call.input::<T>(0)?, call.input::<T>(1)?, call.input::<W>(2)?);
    let (mean, rstd) = (SavedStat::of(call, 3)?, SavedStat::of(call, 4)?);
    let (n, d) = sizes(x.layout().shape());
    let mut gx = call.output::<T>(0)?;
    for row in 0..n {
        let (centre, scale): (T::Acc, T::Acc) = (mean.get(row), rstd.get(row));
        let parts = |j: usize| {
            let g = wide(&gy, row * d + j) * wide(&weight, j);
            (g, (wide(&x, row * d + j) - centre) * scale)
        };
        let (mut of_g, mut of_gh) = (0.0, 0.0);
        for (g, h) in (0..d).map(parts) {
            of_g += g.as_f64();
            of_gh += (g * h).as_f64();
        }
        let (of_g, of_gh) = (T::Acc::of_f64(of_g / d as f64), T::Acc::of_f64(of_gh / d as f64));
        for (j, (g, h)) in (0..d).map(parts).enumerate() {
            gx.set_flat(row * d + j, T::from_f64((scale * (g - of_g - h * of_gh)).as_f64()));
        }
    }
    Ok(())
}

fn by_columns<T: Element, W: Element<Acc = T::Acc>>(call: &Call<'_>) -> Result<(), Rule>
where
    T::Acc: Arith,
{
    let (gy, x) = (call.input::<T>(0)?, call.input::<T>(1)?);
    let (mean, rstd) = (SavedStat::of(call, 3)?, SavedStat::of(call, 4)?);
    let (n, d) = sizes(x.layout().shape());
    let (mut gweight, mut gbias) = (call.output::<W>(0)?, call.output::<W>(1)?);
    for j in 0..d {
        let (mut of_weight, mut of_bias) = (0.0, 0.0);
        for row in 0..n {
            let (centre, scale): (T::Acc, T::Acc) = (mean.get(row), rstd.get(row));
            let g = wide(&gy, row * d + j);
            of_weight += (g * ((wide(&x, row * d + j) - centre) * scale)).as_f64();
            of_bias += g.as_f64();
        }
        gweight.set_flat(j, W::from_f64(of_weight));
        gbias.set_flat(j, W::from_f64(of_bias));
    }
    Ok(())
}
