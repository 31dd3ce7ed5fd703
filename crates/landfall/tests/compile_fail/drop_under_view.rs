//! A buffer dropped under a view: the call would read memory that was given back.
use landfall::{DType, Engine, Error, ops};

fn main() -> Result<(), Error> {
    let engine = Engine::cpu()?;
    let a = engine.empty(DType::F32, [3])?;
    let mut out = engine.empty(DType::F32, [3])?;
    let view = a.view();
    drop(a);
    engine.call(&ops::Neg, &[view], &mut [out.view_mut()])
}
