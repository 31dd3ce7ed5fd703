//! An output that is also an input: a permutation would overwrite what it has not read.
use landfall::{DType, Engine, Error, ops};

fn main() -> Result<(), Error> {
    let engine = Engine::cpu()?;
    let mut a = engine.empty(DType::F32, [3])?;
    engine.call(&ops::Neg, &[a.view()], &mut [a.view_mut()])
}
