//! Categories as numbers, as the authors have them.

use std::collections::BTreeSet;

/// Past and future of a categorical covariate, `None` where one is missing.
pub type Categories<T> = (Vec<Option<T>>, Vec<Option<T>>);

/// A categorical covariate of a group with one target, as the means of the target: of each category `(m + Σ y)/(1 + n)`, m the mean of the
/// target and Σ y the sum of its n values in rows of that category. A missing category is one of its own; one that only the future has,
/// or that has no value, is m. (Target encoding, Micci-Barreca 2001, with a smoothing of 1.)
///
/// ```
/// use landfall_forecast::chronos::target_means;
/// let past = [Some("sun"), Some("rain"), Some("sun")];
/// let (past, future) = target_means(&[4.0, 1.0, 10.0], &past, &[Some("rain"), Some("snow")]);
/// assert_eq!(past, [19.0 / 3.0, 3.0, 19.0 / 3.0]); // the mean is 5
/// assert_eq!(future, [3.0, 5.0]);
/// ```
#[must_use]
pub fn target_means<T: AsRef<str> + PartialEq>(
    target: &[f64],
    past: &[Option<T>],
    future: &[Option<T>],
) -> (Vec<f64>, Vec<f64>) {
    let values = || target.iter().zip(past).filter(|(y, _)| y.is_finite());
    let (sum, count) = values().fold((0.0, 0.0), |(sum, count), (y, _)| (sum + y, count + 1.0));
    let mean = if count > 0.0 { sum / count } else { 0.0 };
    let mut known: std::collections::BTreeMap<Option<&str>, (f64, f64)> = std::collections::BTreeMap::new();
    for (y, category) in values() {
        let own = known.entry(category.as_ref().map(AsRef::as_ref)).or_default();
        *own = (own.0 + y, own.1 + 1.0);
    }
    let of = |category: &Option<T>| {
        let (sum, count) = known.get(&category.as_ref().map(AsRef::as_ref)).copied().unwrap_or_default();
        (mean + sum) / (1.0 + count)
    };
    (past.iter().map(of).collect(), future.iter().map(of).collect())
}

/// A categorical covariate as the places of its categories, sorted: of all groups together, so that one category is one number. A missing
/// one is the number after the last; one that only the future has is NaN.
///
/// ```
/// use landfall_forecast::chronos::ordinal;
/// let all = [(vec![Some("sun"), None], vec![Some("rain")]), (vec![Some("fog"), Some("sun")], vec![None])];
/// let coded = ordinal(&all);
/// assert_eq!(coded[0].0, [1.0, 2.0]);
/// assert!(coded[0].1[0].is_nan());
/// assert_eq!(coded[1], (vec![0.0, 1.0], vec![2.0]));
/// ```
#[must_use]
pub fn ordinal<T: AsRef<str>>(all: &[Categories<T>]) -> Vec<(Vec<f64>, Vec<f64>)> {
    let names = all.iter().flat_map(|(past, _)| past).flatten().map(AsRef::as_ref);
    let names: Vec<&str> = names.collect::<BTreeSet<&str>>().into_iter().collect();
    let of = |category: &Option<T>| match category {
        None => names.len() as f64,
        Some(name) => names.binary_search(&name.as_ref()).map_or(f64::NAN, |place| place as f64),
    };
    all.iter()
        .map(|(past, future)| (past.iter().map(of).collect(), future.iter().map(of).collect()))
        .collect()
}
