//! Quantiles of a mixture: what several paths forecast together.

/// The share of probability that each level stands for: half the distance between its neighbours, in sum 1.
pub(super) fn masses(levels: &[f64]) -> Vec<f64> {
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
pub(super) fn quantiles(levels: &[f64], samples: &mut [(f64, f64)], to: &mut Vec<f64>) {
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
        quantiles(&[0.125, 0.25, 0.5, 0.75, 1.0], &mut [(3.0, 0.25), (1.0, 0.25), (2.0, 0.5)], &mut to);
        assert_eq!(to, [1.0, 1.0, 1.5, 2.0, 3.0]);
    }
}
