//! Tensors without a graph: results in new tensors or in memory of one's own, views, reading.
//!
//! Run it with `cargo run --release -p eager`; it uses a GPU where there is one.

use landfall::{DType, Engine, Error, ops};

/// Standardises the columns of a table and gives its covariances with itself, `[3, 3]`: the correlations.
fn correlations(engine: &Engine) -> Result<Vec<f32>, Error> {
    let table = engine.tensor([4, 3], &[1.0f32, 2.0, 9.0, 2.0, 4.0, 7.0, 3.0, 6.0, 8.0, 4.0, 8.0, 4.0])?;
    println!("table: {table}");

    // `eval` allocates its result; pointwise ops broadcast.
    let mean = engine.eval(&ops::Reduce::new(ops::Reduction::Mean, &[0]), &[table.view()])?;
    let centered = engine.eval(&ops::Sub, &[table.view(), mean.view()])?;
    let squares = engine.eval(&ops::Mul, &[centered.view(), centered.view()])?;
    let variance = engine.eval(&ops::Reduce::new(ops::Reduction::Mean, &[0]), &[squares.view()])?;
    let scale = engine.eval(&ops::Rsqrt, &[variance.view()])?;
    let standard = engine.eval(&ops::Mul, &[centered.view(), scale.view()])?;

    // Views move no data: a transposed one is a factor of a product.
    let transposed = standard.view().permute(&[1, 0])?;
    let product = engine.eval(&ops::MatMul::default(), &[transposed, standard.view()])?;

    // `call` writes to memory that is there already, here in a loop without any allocation.
    let mut result = engine.empty(DType::F32, [3, 3])?;
    let mean_of_rows = ops::Affine { mul: 0.25, add: 0.0 };
    for _ in 0..3 {
        engine.call(&mean_of_rows, &[product.view()], &mut [result.view_mut()])?;
    }
    println!("correlations: {result}");

    // One element, a part, and all of it in a buffer that is used again.
    let corner: f32 = result.view().slice(0, 0, 1)?.slice(1, 1, 1)?.item()?;
    println!(
        "of the first two columns: {corner}; of the last one: {:?}",
        result.view().slice(0, 2, 1)?.read::<f32>()?
    );
    let mut all = vec![0.0f32; 9];
    result.read_into(&mut all)?;
    Ok(all)
}

fn main() -> Result<(), Error> {
    let engine = Engine::cuda(0).or_else(|_| Engine::cpu())?;
    correlations(&engine).map(|_| ())
}

#[cfg(test)]
mod tests {
    #[test]
    fn correlations_are_those_of_the_table() -> Result<(), landfall::Error> {
        let got = super::correlations(&landfall::Engine::cpu_with_threads(2)?)?;
        // The second column is twice the first; the third falls, by hand −7/√70.
        let falls = -7.0 / 70.0f32.sqrt();
        let expected = [1.0, 1.0, falls, 1.0, 1.0, falls, falls, falls, 1.0];
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-6, "{got} instead of {expected}");
        }
        Ok(())
    }
}
