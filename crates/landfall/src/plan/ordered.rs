//! The checker's own transitive closure of the edges: it shares no code with the edge finder.

/// Pairs checked per walk over the instructions, one bit each.
const BATCH: usize = 64;

/// The first of these pairs (instruction, required predecessor) that the edges do not order: of the earliest
/// instruction, its smallest predecessor. `after` gives each instruction's edges to earlier ones.
///
/// Each walk follows [`BATCH`] predecessors through all later instructions up to the last that needs them, so memory is
/// linear in the instructions, whereas a predecessor set per instruction would be quadratic.
pub(super) fn first_unordered<'a>(
    after: impl Fn(usize) -> &'a [usize],
    mut pairs: Vec<(usize, usize)>,
) -> Option<(usize, usize)> {
    pairs.retain(|&(k, needed)| k != needed && !after(k).contains(&needed));
    pairs.sort_unstable_by_key(|&(k, needed)| (needed, k));
    pairs.dedup();
    let mut first: Option<(usize, usize)> = None;
    let mut rest = &pairs[..];
    while let Some(&(_, start)) = rest.first() {
        let mut sources: Vec<usize> = Vec::with_capacity(BATCH);
        let taken = rest.iter().take_while(|&&(_, needed)| {
            if sources.last() != Some(&needed) {
                sources.push(needed);
            }
            sources.len() <= BATCH
        });
        let (batch, behind) = rest.split_at(taken.count());
        sources.truncate(BATCH);
        let end = batch.iter().map(|&(k, _)| k).max().unwrap_or(start);
        // Bit s of word k - start: whether instruction k is source s or comes after it.
        let mut reached = vec![0u64; (end + 1).saturating_sub(start)];
        for k in start..=end {
            let own = sources.binary_search(&k).map_or(0, |s| 1 << s);
            // Below `start` the subtraction wraps to an index out of range; words from `k` on do not exist yet.
            let before = |&a: &usize| reached.get(a.wrapping_sub(start)).copied().unwrap_or(0);
            reached[k - start] = after(k).iter().fold(own, |all, a| all | before(a));
        }
        for &(k, needed) in batch {
            let bit = sources.binary_search(&needed).map_or(0, |s| 1 << s);
            if k < needed || reached[k - start] & bit == 0 {
                first = Some(first.map_or((k, needed), |f| f.min((k, needed))));
            }
        }
        rest = behind;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the plain transitive closure, over more sources than one walk takes.
        #[test]
        fn the_first_pair_is_that_of_the_closure(
            edges in prop::collection::vec(prop::collection::vec(0..200usize, 0..3), 200),
            pairs in prop::collection::vec((0..200usize, 0..200usize), 0..400),
        ) {
            let edges: Vec<Vec<usize>> =
                edges.into_iter().enumerate().map(|(k, e)| e.into_iter().filter(|&a| a < k).collect()).collect();
            let mut closure = vec![[false; 200]; 200];
            for k in 0..200 {
                for &a in &edges[k] {
                    closure[k][a] = true;
                    for d in 0..a {
                        closure[k][d] |= closure[a][d];
                    }
                }
            }
            let expected = pairs.iter().copied().filter(|&(k, n)| k != n && !closure[k][n]).min();
            prop_assert_eq!(first_unordered(|k| &edges[k], pairs), expected);
        }
    }
}
