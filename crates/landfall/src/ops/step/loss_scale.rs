//! Update of the factor that keeps f16 gradients away from zero and from infinity.

mod cuda;

use super::cursor::sample_ok;
use crate::contract::{
    Body, Data, Grad, Kernel, Op, Output, Outputs, Sample, SampleArg, Tested, attributes, op_attributes,
    rules,
};
use crate::kernel::cpu::Call;
use crate::values::{DType, DeviceKind, HostTensor, Rule, Spec};

op_list! { LossScale }

op_attributes! {
    /// One step of dynamic loss scaling on `state = [scale, run]`, where `run` counts the sound steps since the scale changed.
    ///
    /// ```text
    /// ok:      run ← run + 1; at run = interval: scale ← scale · growth, unless that is infinite, and run ← 0
    /// not ok:  scale ← max(scale · backoff, least), run ← 0
    /// ```
    ///
    /// Arguments: `state` `f32[2]`; `ok` `bool[]`, false where the step's gradients overflowed. Result: the state itself. No
    /// gradient. Deterministic. Errors: `growth` below 1, `backoff` outside (0, 1], `least` not above 0, an interval of 0 or
    /// above 2²⁴ (f32 counts no further), other dtypes or shapes. Source: Micikevicius et al., "Mixed Precision Training"
    /// (2018); the defaults are PyTorch's.
    ///
    /// ```
    /// use landfall::{DType, Engine, HostTensor, ops};
    /// let engine = Engine::cpu()?;
    /// let mut state = engine.tensor([2], &[65536.0f32, 7.0])?;
    /// let ok = engine.from_host(&HostTensor::new(DType::Bool, [], vec![0.0])?)?;
    /// engine.call_in_place(&ops::LossScale::default(), 0, &mut state.view_mut(), &[ok.view()])?;
    /// assert_eq!(state.read::<f32>()?, [32768.0, 0.0]);
    /// # Ok::<(), landfall::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy)]
    pub struct LossScale(state, ok) {
        /// Sound steps in a row after which the scale grows.
        pub interval: usize = 2000,
        /// What it is multiplied by then.
        pub growth: f64 = 2.0,
        /// What it is multiplied by after an overflow.
        pub backoff: f64 = 0.5,
        /// The scale never falls below this. A step that overflows at scale 1 overflows without scaling: half of that says
        /// that it has been tried.
        pub least: f64 = 0.5,
    }
}

impl LossScale {
    /// The scale that a run starts with.
    pub const INITIAL: f32 = 65536.0;
}

impl Op for LossScale {
    fn name(&self) -> &'static str {
        "loss_scale"
    }
    fn infer(&self, args: &[Spec]) -> Result<Outputs, Rule> {
        let args: [Spec; 2] = rules::arity(self, args)?;
        rules::dtype(&args, 0, DType::F32)?;
        rules::shape(&args, 0, [2])?;
        rules::dtype(&args, 1, DType::Bool)?;
        rules::shape(&args, 1, [])?;
        let finite = |x: f64| x.is_finite();
        for (name, value, holds, expected) in [
            ("interval", self.interval as f64, (1..=1 << 24).contains(&self.interval), "1 to 16777216"),
            ("growth", self.growth, finite(self.growth) && self.growth >= 1.0, "finite and at least 1"),
            ("backoff", self.backoff, self.backoff > 0.0 && self.backoff <= 1.0, "in (0, 1]"),
            ("least", self.least, finite(self.least) && self.least > 0.0, "finite and above 0"),
        ] {
            if !holds {
                return Err(Rule::Attribute { name, value, expected });
            }
        }
        Ok(Outputs::one(args[0]))
    }
    fn outputs(&self) -> &[Output] {
        const { &[Output::update(0)] }
    }
    fn body(&self) -> Body {
        Body::Opaque("update of a state")
    }
    fn vjp(&self) -> Grad {
        Grad::None("a scale is chosen, not learned")
    }
    fn kernels(&self, _: DeviceKind) -> &'static [Kernel] {
        const { &[Kernel::cpu("loss_scale", run), Kernel::cuda("loss_scale", cuda::loss_scale)] }
    }
    fn flops(&self, _: &[Spec], _: &[Spec]) -> usize {
        2
    }
}

impl Tested for LossScale {
    fn reference(&self, args: &[HostTensor]) -> Vec<HostTensor> {
        let (scale, run) = (args[0].data[0], args[0].data[1]);
        let grown = scale * self.growth;
        let next = match (args[1].data[0] != 0.0, run + 1.0 >= self.interval as f64) {
            (false, _) => [(scale * self.backoff).max(self.least), 0.0],
            (true, false) => [scale, run + 1.0],
            (true, true) => [if grown > f64::from(f32::MAX) { scale } else { grown }, 0.0],
        };
        vec![HostTensor::from_fn(args[0].spec, |i| next[i])]
    }
    fn samples(&self) -> Vec<Sample> {
        let args = |scale: f64, run: f64, ok: bool| {
            let state = SampleArg::with(Some(DType::F32), [2], Data::Exact(vec![scale, run]));
            vec![state, sample_ok(ok)]
        };
        let short = Self { interval: 3, ..*self };
        let huge = f64::from(2f32.powi(127));
        let mut all: Vec<Sample> = [
            (65536.0, 0.0, true),
            (65536.0, 1.0, true),
            (65536.0, 2.0, true),
            (65536.0, 2.0, false),
            (1.0, 0.0, false),
            (0.5, 0.0, false),
            (huge, 2.0, true),
        ]
        .map(|(scale, run, ok)| Sample::new(short, args(scale, run, ok)))
        .into();
        let third = Self { growth: 1.5, backoff: 0.25, ..short };
        all.push(Sample::new(third, args(24.0, 2.0, true)));
        all.push(Sample::new(third, args(24.0, 2.0, false)));
        all.push(Sample::new(*self, args(65536.0, 1998.0, true)));
        all.push(Sample::new(*self, args(65536.0, 1999.0, true)));
        let bad = |op, text| Sample::bad(op, args(1.0, 0.0, true), text);
        all.push(bad(Self { interval: 0, ..*self }, "interval is 0; it must be 1 to 16777216"));
        all.push(bad(Self { growth: 0.5, ..*self }, "growth is 0.5; it must be finite and at least 1"));
        all.push(bad(Self { backoff: 0.0, ..*self }, "backoff is 0; it must be in (0, 1]"));
        all.push(bad(Self { least: 0.0, ..*self }, "least is 0; it must be finite and above 0"));
        let mut wide = args(1.0, 0.0, true);
        wide[0].dtype = Some(DType::F64);
        all.push(Sample::bad(*self, wide, "it must be f32"));
        all
    }
}

fn run(op: &dyn Op, call: &Call<'_>) -> Result<(), Rule> {
    let op = attributes::<LossScale>(op)?;
    let ok = call.input::<u8>(1)?.flat(0) != 0;
    let mut state = call.output::<f32>(0)?;
    let (scale, run) = (state.read().flat(0), state.read().flat(1) + 1.0);
    let grows = run >= op.interval as f32;
    let grown = scale * op.growth as f32;
    let (scale, run) = match (ok, grows) {
        (false, _) => ((scale * op.backoff as f32).max(op.least as f32), 0.0),
        (true, false) => (scale, run),
        (true, true) => (if grown.is_finite() { grown } else { scale }, 0.0),
    };
    state.set_flat(0, scale);
    state.set_flat(1, run);
    Ok(())
}
