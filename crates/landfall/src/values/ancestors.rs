//! Sets of earlier instructions with shared blocks.

use std::sync::Arc;

/// Words of a block, and the number of bits in it.
const WORDS: usize = 16;
const NUMBERS: usize = WORDS * 64;

type Bits = [u64; WORDS];

/// A set of instruction numbers in blocks of 1,024. A union shares blocks where it can: consecutive instructions have
/// nearly the same predecessors, so a set costs its few own blocks and one pointer for each shared block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ancestors(Vec<Option<Arc<Bits>>>);

impl Ancestors {
    pub(crate) fn contains(&self, number: usize) -> bool {
        let block = self.0.get(number / NUMBERS).and_then(Option::as_ref);
        block.is_some_and(|bits| bits[number % NUMBERS / 64] >> (number % 64) & 1 == 1)
    }

    pub(crate) fn insert(&mut self, number: usize) {
        let block = number / NUMBERS;
        if self.0.len() <= block {
            self.0.resize(block + 1, None);
        }
        let bits = self.0[block].get_or_insert_with(|| Arc::new([0; WORDS]));
        Arc::make_mut(bits)[number % NUMBERS / 64] |= 1 << (number % 64);
    }

    /// Adds all elements of another set.
    pub(crate) fn extend(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), None);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            match (own.as_mut(), other) {
                (_, None) => {}
                (None, Some(_)) => own.clone_from(other),
                (Some(mine), Some(more)) => {
                    if Arc::ptr_eq(mine, more) || within(more, mine) {
                        continue;
                    }
                    if within(mine, more) {
                        own.clone_from(other);
                    } else {
                        Arc::make_mut(mine).iter_mut().zip(more.iter()).for_each(|(all, word)| *all |= word);
                    }
                }
            }
        }
    }
}

fn within(part: &Bits, whole: &Bits) -> bool {
    part.iter().zip(whole).all(|(part, whole)| part & !whole == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Insertions and unions over several blocks, against plain sets.
        #[test]
        fn sets_are_those_of_the_standard_library(
            steps in prop::collection::vec((0..8usize, 0..8usize, 0..3000usize, any::<bool>()), 0..200)
        ) {
            let mut sets = vec![Ancestors::default(); 8];
            let mut plain = vec![BTreeSet::new(); 8];
            for (a, b, number, union) in steps {
                if union {
                    let (more, plainly) = (sets[b].clone(), plain[b].clone());
                    sets[a].extend(&more);
                    plain[a].extend(plainly);
                } else {
                    sets[a].insert(number);
                    plain[a].insert(number);
                }
            }
            for (set, plain) in sets.iter().zip(&plain) {
                for number in 0..3000 {
                    prop_assert_eq!(set.contains(number), plain.contains(&number));
                }
            }
        }
    }
}
