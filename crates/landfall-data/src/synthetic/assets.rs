//! Samples of tokens whose classes can be told only by looking at two tokens together.

use crate::error::DataError;
use crate::error::series::SeriesError;
use crate::synthetic::generator::{Generator, MAX_VALUES};
use crate::tokens::{TokenData, TokenNames};

/// Classes of the generated samples.
const CLASSES: usize = 3;
/// How far a class moves its feature, in standard deviations of the noise.
const SIGNAL: f64 = 1.5;

/// Samples of `tokens` tokens with `features` features, each feature N(0, 1) but for two shifts of 1.5: that of token
/// t's own class k in feature k, and that of the class j of the token before it (of the first token, the last) in
/// feature 3 + j. The three classes are equally likely.
///
/// So the evidence for a token's class lies half in its own features and half in those of the next token. The best
/// classifier adds both and takes the largest; how often it is right is [`bayes_accuracy`] of 1.5·√2. One that sees each
/// token alone reaches that of 1.5.
///
/// # Errors
/// [`SeriesError::BadSize`] for no samples, fewer than 2 tokens or 6 features, or too many of all.
pub fn assets(samples: usize, tokens: usize, features: usize, seed: u64) -> Result<TokenData, DataError> {
    let total = tokens.checked_mul(features).and_then(|width| width.checked_mul(samples));
    let total = total.filter(|n| (1..=MAX_VALUES).contains(n) && tokens >= 2 && features >= 2 * CLASSES);
    let Some(total) = total else {
        let shape = format!(
            "{samples} samples of {tokens} tokens and {features} features (at least 2 tokens and {} features)",
            2 * CLASSES
        );
        return Err(DataError::Series(SeriesError::BadSize { shape }));
    };
    let mut generator = Generator::new(seed);
    let mut inputs = Vec::with_capacity(total);
    let mut labels = Vec::with_capacity(samples * tokens);
    for _ in 0..samples {
        let own: Vec<usize> = (0..tokens).map(|_| generator.below(CLASSES)).collect();
        for t in 0..tokens {
            let before = own[(t + tokens - 1) % tokens];
            let shifted = [own[t], CLASSES + before];
            for f in 0..features {
                let shift = if shifted.contains(&f) { SIGNAL } else { 0.0 };
                inputs.push((generator.normal() + shift) as f32);
            }
        }
        labels.extend(own.iter().map(|&k| k as i64));
    }
    let numbered = |what: &str, n: usize| (1..=n).map(|i| format!("{what}_{i}")).collect();
    let classes = ["down", "flat", "up"].map(str::to_owned).to_vec();
    let names =
        TokenNames { tokens: numbered("asset", tokens), classes, features: numbered("feature", features) };
    Ok(TokenData {
        source: format!("{samples} generated samples of {tokens} tokens, seed {seed}"),
        names,
        samples: (1..=samples).map(|i| i.to_string()).collect(),
        inputs,
        labels,
        bayes: Some(bayes_accuracy(SIGNAL * std::f64::consts::SQRT_2)),
    })
}

/// How often the best classifier of three equally likely classes is right, each of which moves one of three otherwise
/// standard normal values by `shift`: `∫ φ(z − shift)·Φ(z)² dz`, by Simpson's rule.
#[must_use]
pub fn bayes_accuracy(shift: f64) -> f64 {
    // 40 standard deviations hold all that f64 can see; steps of 1/100 leave an error below 1e-12.
    let (from, to, steps) = (shift.min(0.0) - 20.0, shift.max(0.0) + 20.0, 8000);
    let h = (to - from) / f64::from(steps);
    let density = |z: f64| (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    // Φ along the same steps, two of them apart, by Simpson's rule too.
    let (mut phi, mut total) = (0.0, 0.0);
    let term = |phi: f64, z: f64| density(z - shift) * phi * phi;
    for i in (0..steps).step_by(2) {
        let z = from + h * f64::from(i);
        let quarter = |part: f64| density(z + part * h);
        let half = phi + h / 6.0 * (quarter(0.0) + 4.0 * quarter(0.5) + quarter(1.0));
        let whole = half + h / 6.0 * (quarter(1.0) + 4.0 * quarter(1.5) + quarter(2.0));
        total += h / 3.0 * (term(phi, z) + 4.0 * term(half, z + h) + term(whole, z + 2.0 * h));
        phi = whole;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accuracy_is_known() {
        // With no shift one of three is right; a shift of 40 leaves no doubt; between, SciPy's quadrature.
        for (shift, expected) in [(0.0, 1.0 / 3.0), (40.0, 1.0)] {
            let got = bayes_accuracy(shift);
            assert!((got - expected).abs() < 1e-12, "{shift}: {got}");
        }
    }

    /// The rule that adds both tokens' evidence, on a sample large enough to tell it from one that does not.
    #[test]
    fn the_best_rule_reaches_it_and_a_token_alone_does_not() -> Result<(), DataError> {
        let (samples, tokens, features) = (20_000, 4, 6);
        let data = assets(samples, tokens, features, 3)?;
        let (mut both, mut alone) = (0usize, 0usize);
        for (s, labels) in data.labels.chunks_exact(tokens).enumerate() {
            for (t, &label) in labels.iter().enumerate() {
                let x = |t: usize, f: usize| f64::from(data.inputs[(s * tokens + t % tokens) * features + f]);
                let best = |score: &dyn Fn(usize) -> f64| {
                    (0..CLASSES).max_by(|&a, &b| score(a).total_cmp(&score(b))) == usize::try_from(label).ok()
                };
                both += usize::from(best(&|k| x(t, k) + x(t + 1, CLASSES + k)));
                alone += usize::from(best(&|k| x(t, k)));
            }
        }
        let n = (samples * tokens) as f64;
        let error = |right: usize, expected: f64| {
            (right as f64 / n - expected).abs() / (expected * (1.0 - expected) / n).sqrt()
        };
        // Standard errors; tokens that share a neighbour are not quite independent.
        assert!(error(both, bayes_accuracy(SIGNAL * 2.0f64.sqrt())) < 5.0, "{}", both as f64 / n);
        assert!(error(alone, bayes_accuracy(SIGNAL)) < 5.0, "{}", alone as f64 / n);
        assert!(data.bayes.is_some_and(|b| (b - both as f64 / n).abs() < 0.01));
        Ok(())
    }

    #[test]
    fn sizes_that_hold_no_signal_are_refused() {
        for (n, tokens, features) in [(0, 2, 6), (1, 1, 6), (1, 2, 5), (usize::MAX, 2, 6)] {
            assert!(assets(n, tokens, features, 1).is_err(), "{n} {tokens} {features}");
        }
    }
}
