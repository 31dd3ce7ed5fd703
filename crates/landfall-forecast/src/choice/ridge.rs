//! Ridge regression with an intercept, by the normal equations in f64.

use landfall::{Engine, Error, Spec, Tensor, TensorRef, ops};

/// Strengths that are tried, as multiples of the mean variance of a feature.
pub const STRENGTHS: [f64; 10] = [1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

/// Sums over examples of features a and targets b: `Σ [a b]ᵀ[a b]`, `Σ a`, `Σ b`, from which ridge regressions of every
/// strength follow.
pub struct Gram {
    features: usize,
    targets: usize,
    examples: usize,
    engine: Engine,
    /// `Σ [a b]ᵀ[a b]`, and the buffer that its next value is written to.
    products: [Tensor; 2],
    sums: Vec<f64>,
}

impl Gram {
    /// No examples yet, of so many features and targets; sums are taken on `engine`, a CPU.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn new(engine: &Engine, features: usize, targets: usize) -> Result<Self, Error> {
        let all = features + targets;
        let zeros = || engine.tensor([all, all], &vec![0.0f64; all * all]);
        let products = [zeros()?, zeros()?];
        let (engine, sums) = (engine.clone(), vec![0.0; all]);
        Ok(Self { features, targets, examples: 0, engine, products, sums })
    }

    /// Adds examples: rows of features and targets, `[n, features + targets]`.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn add(&mut self, rows: &[f64]) -> Result<(), Error> {
        let all = self.features + self.targets;
        let n = rows.len() / all.max(1);
        for row in rows.chunks_exact(all.max(1)) {
            for (sum, value) in self.sums.iter_mut().zip(row) {
                *sum += value;
            }
        }
        let x = self.engine.tensor([n, all], rows)?;
        let [before, after] = &mut self.products;
        let transposed = x.view().permute(&[1, 0])?;
        product(&self.engine, &[transposed, x.view(), before.view()], after)?;
        self.products.swap(0, 1);
        self.examples += n;
        Ok(())
    }

    /// Centred sums of products: of the features `[p, p]`, and of features with targets `[p, t]`.
    fn centred(&self) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let (p, all) = (self.features, self.features + self.targets);
        let products = self.products[0].read::<f64>()?;
        let n = self.examples.max(1) as f64;
        let at = |i: usize, j: usize| products[i * all + j] - self.sums[i] * self.sums[j] / n;
        let features = (0..p * p).map(|ij| at(ij / p, ij % p)).collect();
        let targets = (0..p * self.targets).map(|ij| at(ij / self.targets, p + ij % self.targets)).collect();
        Ok((features, targets))
    }

    /// For each strength λ the weights `W [p, t]` and intercepts `[t]` that minimise
    /// `Σ |b − Wᵀa − c|² + λ·v·|W|²`, v the mean of the features' sums of squares around their means
    /// (Hoerl & Kennard 1970; the strength does not depend on the data's scale or number).
    ///
    /// # Errors
    /// A device fault.
    pub fn solve(&self, strengths: &[f64]) -> Result<Vec<Fit>, Error> {
        let (p, t) = (self.features, self.targets);
        let (features, targets) = self.centred()?;
        let scale = (0..p).map(|i| features[i * p + i]).sum::<f64>() / p.max(1) as f64;
        let n = self.examples.max(1) as f64;
        let fit = |&strength: &f64| {
            let mut factor = features.clone();
            // A panel of constants has no variance: any positive number makes its weights 0.
            let added = if scale > 0.0 { strength * scale } else { 1.0 };
            (0..p).for_each(|i| factor[i * p + i] += added);
            let mut weights = targets.clone();
            cholesky(&mut factor, p);
            substitute(&factor, p, &mut weights, t);
            let mean = |i: usize| self.sums[i] / n;
            let intercept = (0..t)
                .map(|j| mean(p + j) - (0..p).map(|i| mean(i) * weights[i * t + j]).sum::<f64>())
                .collect();
            Fit { strength, weights, intercept }
        };
        Ok(strengths.iter().map(fit).collect())
    }
}

/// `out = args[0] · args[1] + args[2]`.
pub(super) fn product(engine: &Engine, args: &[TensorRef<'_>], out: &mut Tensor) -> Result<(), Error> {
    let op = ops::MatMul::default();
    let specs: Vec<Spec> = args.iter().map(TensorRef::spec).collect();
    engine.reserve(engine.workspace(&op, &specs)?)?;
    engine.call(&op, args, &mut [out.view_mut()])
}

/// A ridge regression.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Its strength.
    pub strength: f64,
    /// Weights `[features, targets]`.
    pub weights: Vec<f64>,
    /// Intercepts `[targets]`.
    pub intercept: Vec<f64>,
}

/// The lower Cholesky factor of a positive definite matrix `[n, n]`, in its place.
fn cholesky(a: &mut [f64], n: usize) {
    for i in 0..n {
        let (above, row) = a.split_at_mut(i * n);
        for j in 0..i {
            let other = &above[j * n..j * n + j + 1];
            row[j] = (row[j] - dot(&row[..j], other)) / other[j];
        }
        let squares = dot(&row[..i], &row[..i]);
        // Positive but for rounding: the strength lifts every eigenvalue above it.
        row[i] = (row[i] - squares).max(f64::MIN_POSITIVE).sqrt();
    }
}

/// `Σ xy`, in eight sums, so that the compiler may use vectors.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let whole = x.len() / 8 * 8;
    for (x, y) in x[..whole].chunks_exact(8).zip(y.chunks_exact(8)) {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum += x * y;
        }
    }
    let rest: f64 = x[whole..].iter().zip(&y[whole..]).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

/// Solves `L·Lᵀ·x = b` for the columns of `b [n, t]`, in its place.
fn substitute(l: &[f64], n: usize, b: &mut [f64], t: usize) {
    for i in 0..n {
        let (done, row) = b.split_at_mut(i * t);
        for (j, other) in done.chunks_exact(t.max(1)).enumerate() {
            let factor = l[i * n + j];
            row[..t].iter_mut().zip(other).for_each(|(x, y)| *x -= factor * y);
        }
        row[..t].iter_mut().for_each(|x| *x /= l[i * n + i]);
    }
    for i in (0..n).rev() {
        let (head, done) = b.split_at_mut((i + 1) * t);
        let row = &mut head[i * t..];
        for (j, other) in done.chunks_exact(t.max(1)).enumerate() {
            let factor = l[(i + 1 + j) * n + i];
            row.iter_mut().zip(other).for_each(|(x, y)| *x -= factor * y);
        }
        row.iter_mut().for_each(|x| *x /= l[i * n + i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Features of 40 examples, the last of them the sum of two others, and targets that are linear in them.
    fn examples() -> Vec<f64> {
        let feature = |i: usize, j: usize| ((i * 7 + j * 13) as f64 * 0.37).sin() * (j + 1) as f64 + 3.0;
        (0..40)
            .flat_map(|i| {
                let a: Vec<f64> = (0..9).map(|j| feature(i, j)).collect();
                let last = a[0] + a[1];
                let b = [2.0 * a[0] - a[3] + 5.0, 0.5 * a[8] - 1.0];
                a.into_iter().chain([last]).chain(b).collect::<Vec<f64>>()
            })
            .collect()
    }

    #[test]
    fn solutions_make_the_gradient_zero() {
        let rows = examples();
        let engine = Engine::cpu().expect("a CPU");
        let mut gram = Gram::new(&engine, 10, 2).expect("memory");
        gram.add(&rows[..12 * 15]).expect("examples");
        gram.add(&rows[12 * 15..]).expect("examples");
        let n = 40.0;
        let mean = |j: usize| rows.chunks_exact(12).map(|r| r[j]).sum::<f64>() / n;
        let scale = (0..10)
            .map(|j| rows.chunks_exact(12).map(|r| (r[j] - mean(j)).powi(2)).sum::<f64>())
            .sum::<f64>()
            / 10.0;
        for fit in gram.solve(&[1e-4, 0.1, 10.0]).expect("solved") {
            let predict = |r: &[f64], t: usize| {
                fit.intercept[t] + (0..10).map(|j| r[j] * fit.weights[j * 2 + t]).sum::<f64>()
            };
            for t in 0..2 {
                let residual = |r: &[f64]| predict(r, t) - r[10 + t];
                let total: f64 = rows.chunks_exact(12).map(residual).sum();
                assert!(total.abs() < 1e-8, "strength {}: residuals sum to {total:e}", fit.strength);
                for j in 0..10 {
                    let slope = rows.chunks_exact(12).map(|r| residual(r) * r[j]).sum::<f64>()
                        + fit.strength * scale * fit.weights[j * 2 + t];
                    assert!(slope.abs() < 1e-7, "strength {}, weight {j}: {slope:e}", fit.strength);
                }
            }
        }
    }

    #[test]
    fn constants_get_weights_of_zero() {
        let engine = Engine::cpu().expect("a CPU");
        let mut gram = Gram::new(&engine, 2, 1).expect("memory");
        gram.add(&[1.0, 2.0, 7.0, 1.0, 2.0, 7.0]).expect("examples");
        let fits = gram.solve(&STRENGTHS).expect("solved");
        assert!(fits.iter().all(|f| f.weights == [0.0, 0.0] && f.intercept == [7.0]), "{fits:?}");
    }
}
