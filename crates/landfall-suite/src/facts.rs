//! What the documentation says of each op, found by calling it.

use crate::case::{Case, Check, cases};
use crate::device::On;
use landfall::cuda::launches;
use landfall::ops::{Alias, Body, Coverage, Grad, Tested};
use landfall::{DType, Engine, Error, Rule};

/// The names that an op has with the attributes of its samples.
pub(crate) fn names(op: &dyn Tested) -> Vec<&'static str> {
    let mut names = vec![op.name()];
    for name in op.samples().iter().map(|s| s.op.name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn listed<T>(of: &[T], text: impl Fn(&T) -> String) -> String {
    let mut texts: Vec<String> = of.iter().map(text).collect();
    if texts.windows(2).all(|w| w[0] == w[1]) {
        texts.truncate(1);
    }
    texts.join("; ")
}

fn alias(op: &dyn Tested, alias: Alias) -> String {
    let name = |i: &usize| op.arguments().get(*i).map_or("?", |argument| argument.name);
    let names = |which: &[usize]| which.iter().map(name).collect::<Vec<_>>().join(" or ");
    match alias {
        Alias::Disjoint => "nothing".to_owned(),
        Alias::InPlace(which) => names(which),
        Alias::Must(i) => format!("is {}", name(&i)),
        Alias::Parts(align) => format!("parts, from multiples of {align}"),
    }
}

/// Whether a call was taken, or there is no kernel for it.
fn taken<T>(call: Result<T, Error>) -> Check<bool> {
    match call {
        Ok(_) => Ok(true),
        Err(Error::Op(e)) if matches!(e.rule, Rule::Unsupported { .. }) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// The devices that have kernels for a case. What they have can be asked where there is no GPU.
pub(crate) fn devices(cpu: &Engine, case: &Case) -> Check<Vec<On>> {
    let (op, specs) = (case.op.as_ref(), case.specs());
    let cpu = taken(cpu.workspace(op, &specs))?;
    let cuda = taken(launches(op, &specs))?;
    Ok([(cpu, On::Cpu), (cuda, On::Cuda)].into_iter().filter_map(|(has, on)| has.then_some(on)).collect())
}

/// What the table says of the cases in one dtype.
fn mark(cpu: &Engine, cases: &[&Case]) -> Check<&'static str> {
    let mut common = vec![On::Cpu, On::Cuda];
    for case in cases {
        let has = devices(cpu, case)?;
        common.retain(|on| has.contains(on));
    }
    Ok(match (cases, &common[..]) {
        ([], _) | (_, []) => " ",
        (_, [On::Cpu]) => "cpu",
        (_, [On::Cuda]) => "cuda",
        (_, _) => "✓",
    })
}

/// What the documentation says of an op.
pub(crate) struct Facts {
    /// Its names, with the attributes of its samples.
    pub(crate) names: Vec<&'static str>,
    /// A mark for each dtype.
    pub(crate) marks: Vec<&'static str>,
    /// The devices that have kernels for all of its cases.
    pub(crate) devices: &'static str,
    /// What its results may share memory with.
    pub(crate) alias: String,
    pub(crate) arguments: String,
    pub(crate) coverage: String,
    pub(crate) body: &'static str,
    /// Its gradient, or why there is none.
    pub(crate) gradient: String,
}

/// What the documentation says of this op.
pub(crate) fn facts(cpu: &Engine, op: &dyn Tested) -> Check<Facts> {
    let all = cases(op)?;
    let of = |dtype: &DType| mark(cpu, &all.iter().filter(|c| c.dtype == *dtype).collect::<Vec<_>>());
    let marks: Vec<&str> = DType::ALL.iter().map(of).collect::<Check<_>>()?;
    let coverage = listed(op.outputs(), |o| match o.coverage {
        Coverage::Full => "all".to_owned(),
        Coverage::Zeroed => "all, rest zero".to_owned(),
        Coverage::Accumulates => "some".to_owned(),
    });
    let body = match op.body() {
        Body::Pointwise(_) => "pointwise",
        Body::Primitive(class) => class,
        Body::Fused(_) => "fused",
        Body::Opaque(_) => "opaque",
    };
    let gradient = match op.vjp() {
        Grad::Rule(_) => "rule".to_owned(),
        Grad::Keeping { .. } => "rule, or from its body".to_owned(),
        Grad::Zero => "0".to_owned(),
        Grad::FromBody => "from its body".to_owned(),
        Grad::None(why) => format!("none: {why}"),
    };
    let devices = match mark(cpu, &all.iter().collect::<Vec<_>>())? {
        "✓" => "all",
        one => one,
    };
    let alias = listed(op.outputs(), |o| alias(op, o.alias));
    let arguments = op.arguments().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Ok(Facts { names: names(op), marks, devices, alias, arguments, coverage, body, gradient })
}
