//! Errors by origin, in bounded memory.

use super::errors::ErrorSums;

/// Groups of origins that are kept at most; where there are more, neighbours are joined.
const GROUPS: usize = 1024;

/// Consecutive origins: the first and the last one, and the sums of each forecast.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) first: String,
    pub(super) last: String,
    pub(super) origins: usize,
    pub(super) windows: usize,
    pub(super) sums: Vec<ErrorSums>,
}

impl Group {
    fn join(&mut self, next: Self) {
        self.last = next.last;
        self.origins += next.origins;
        self.windows += next.windows;
        self.sums.iter_mut().zip(&next.sums).for_each(|(sum, more)| sum.join(more));
    }
}

/// All origins, at most [`GROUPS`] groups of equally many.
#[derive(Debug, Clone)]
pub(super) struct ByOrigin {
    every: usize,
    pub(super) groups: Vec<Group>,
}

impl Default for ByOrigin {
    fn default() -> Self {
        Self { every: 1, groups: Vec::new() }
    }
}

impl ByOrigin {
    pub(super) fn add(&mut self, origin: Group) {
        let full = self.groups.len() == GROUPS;
        match self.groups.last_mut().filter(|last| last.origins < self.every) {
            Some(last) => last.join(origin),
            None if !full => self.groups.push(origin),
            None => {
                let mut joined: Vec<Group> = Vec::with_capacity(GROUPS);
                for (i, group) in std::mem::take(&mut self.groups).into_iter().enumerate() {
                    match joined.last_mut().filter(|_| i % 2 == 1) {
                        Some(last) => last.join(group),
                        None => joined.push(group),
                    }
                }
                self.groups = joined;
                self.every *= 2;
                self.groups.push(origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backtest::Unit;

    #[test]
    fn many_origins_are_joined_and_none_is_lost() {
        let mut all = ByOrigin::default();
        for i in 0..5000 {
            let mut sums = ErrorSums::default();
            sums.add(f64::from(i), 0.0, Unit { std: 1.0, scale: None });
            let label = i.to_string();
            all.add(Group { first: label.clone(), last: label, origins: 1, windows: 1, sums: vec![sums] });
        }
        assert!((GROUPS / 2..=GROUPS).contains(&all.groups.len()), "{}", all.groups.len());
        assert_eq!(all.groups.iter().map(|g| g.origins).sum::<usize>(), 5000);
        assert_eq!((all.groups[0].first.as_str(), all.groups[0].last.as_str()), ("0", "7"));
        assert_eq!(all.groups[0].sums[0].errors(None).mae, 3.5);
        assert_eq!(all.groups.last().map(|g| g.last.as_str()), Some("4999"));
    }
}
