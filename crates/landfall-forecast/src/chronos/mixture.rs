//! Quantiles of a mixture: what several paths forecast together.

/// How what the paths forecast of a row, each its quantiles, becomes the quantiles of all of them.
#[derive(Debug, Clone)]
pub(super) enum Mixture {
    /// Each stands for its share of probability: of the path times of the quantile.
    Shares([Vec<f64>; 2]),
    /// All count alike.
    Alike,
}

impl Mixture {
    /// By shares, of paths and of quantiles at these levels.
    pub(super) fn shares(paths: &[f64], levels: &[f64]) -> Self {
        Self::Shares([masses(paths), masses(levels)])
    }

    /// Appends the quantiles at `levels` of what each path has. `samples` is memory.
    pub(super) fn joined<'a>(
        &self,
        paths: impl Iterator<Item = &'a [f64]>,
        levels: &[f64],
        samples: &mut Vec<(f64, f64)>,
        to: &mut Vec<f64>,
    ) {
        samples.clear();
        match self {
            Self::Shares([of_paths, of_levels]) => {
                for (quantiles, path) in paths.zip(of_paths) {
                    samples
                        .extend(quantiles.iter().zip(of_levels).map(|(value, level)| (*value, path * level)));
                }
                by_share(levels, samples, to);
            }
            Self::Alike => {
                samples.extend(paths.flatten().map(|value| (*value, 1.0)));
                alike(levels, samples, to);
            }
        }
    }
}

/// The share of probability that each level stands for: half the distance between its neighbours, in sum 1.
fn masses(levels: &[f64]) -> Vec<f64> {
    let at = |i: usize| match i {
        0 => 0.0,
        i if i > levels.len() => 1.0,
        i => levels[i - 1],
    };
    let each: Vec<f64> = (0..levels.len()).map(|i| (at(i + 2) - at(i)) / 2.0).collect();
    let sum: f64 = each.iter().sum();
    each.into_iter().map(|mass| mass / sum).collect()
}

/// The quantiles at `levels` of values with these weights, whose sum is 1, on lines between the steps of their distribution. `samples`,
/// values and weights, are sorted.
fn by_share(levels: &[f64], samples: &mut [(f64, f64)], to: &mut Vec<f64>) {
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    for (_, weight) in samples.iter_mut() {
        sum += *weight;
        *weight = sum.min(1.0);
    }
    let Some((&(first, _), &(last, _))) = samples.first().zip(samples.last()) else { return };
    for &level in levels {
        let above = samples.partition_point(|(_, sum)| *sum <= level);
        let (low, from) = above.checked_sub(1).map_or((first, 0.0), |i| samples[i]);
        let (high, upto) = samples.get(above).copied().unwrap_or((last, 1.0));
        let weight = if upto > from { (level - from) / (upto - from) } else { 0.0 };
        to.push(low + weight * (high - low));
    }
}

/// The quantiles at `levels` of n values, on lines between the sorted ones: of level τ at τ·(n − 1), counted from 0. `samples` are sorted.
fn alike(levels: &[f64], samples: &mut [(f64, f64)], to: &mut Vec<f64>) {
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some(last) = samples.len().checked_sub(1) else { return };
    for &level in levels {
        let place = level * last as f64;
        let below = (place as usize).min(last);
        let (low, high) = (samples[below].0, samples[(below + 1).min(last)].0);
        to.push(low + (place - below as f64) * (high - low));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masses_are_the_distances_of_levels() {
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close(&masses(&[0.1, 0.5, 0.9]), &[0.25 / 0.9, 0.4 / 0.9, 0.25 / 0.9]));
        assert!(close(&masses(&[0.5]), &[1.0]));
    }

    #[test]
    fn quantiles_of_weighted_values() {
        let mut to = Vec::new();
        by_share(&[0.125, 0.25, 0.5, 0.75, 1.0], &mut [(3.0, 0.25), (1.0, 0.25), (2.0, 0.5)], &mut to);
        assert_eq!(to, [1.0, 1.0, 1.5, 2.0, 3.0]);
    }

    #[test]
    fn quantiles_of_values_that_count_alike() {
        let mut to = Vec::new();
        let paths = [[5.0, 1.0], [3.0, 2.0]];
        Mixture::Alike.joined(paths.iter().map(|p| &p[..]), &[0.0, 0.25, 0.5, 1.0], &mut Vec::new(), &mut to);
        assert_eq!(to, [1.0, 1.75, 2.5, 5.0]);
    }
}
