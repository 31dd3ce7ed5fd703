//! Two outputs in one buffer: the second would overwrite the first.
use landfall::{DType, Engine, Error, ops};

fn main() -> Result<(), Error> {
    let engine = Engine::cpu()?;
    let a = engine.empty(DType::F32, [3])?;
    let mut out = engine.empty(DType::F32, [3])?;
    engine.call(&ops::Neg, &[a.view()], &mut [out.view_mut(), out.view_mut()])
}
