//! The measured times of a recorded list of launches.

use std::time::Duration;

/// How the launches of a profile were timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Timed {
    /// By events between the nodes of a replayed graph: the nodes of the program's own graph, one after the other.
    Graph,
    /// By events between launches that the host issued one by one: where a launch is short, its time includes the
    /// device's wait for the host.
    Launches {
        /// Why not from a replayed graph.
        why: String,
    },
    /// By the host's clock around each launch, which returns when it is complete.
    Host,
}

/// A node of a step: one launch on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The kernel that it runs: on a GPU the function's name, `cublasLtMatmul` for a call of cuBLASLt, or `fill`.
    pub kernel: &'static str,
    /// Its time, the median of the timed runs.
    pub time: Duration,
}

/// The times of a list: medians of its timed runs.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    pub(crate) timed: Timed,
    /// One ordinary replay of the whole list.
    pub(crate) whole: Duration,
    /// An interval with nothing in it, measured as those of the nodes are.
    pub(crate) resolution: Duration,
    /// The nodes of each launch of the list, in replay order; on a GPU a launch may be none or several.
    pub(crate) launches: Vec<Vec<Node>>,
    /// How often the list ran for this.
    pub(crate) runs: u64,
}

/// The middle one of some times, or the mean of the two in the middle; zero of none.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let at = |i: usize| times.get(i).copied().unwrap_or_default();
    (at(times.len().saturating_sub(1) / 2) + at(times.len() / 2)) / 2
}

#[cfg(test)]
mod tests {
    use super::median;
    use std::time::Duration;

    #[test]
    fn medians() {
        let of = |ns: &[u64]| median(ns.iter().map(|&n| Duration::from_nanos(n)).collect()).as_nanos();
        assert_eq!((of(&[9, 1, 4]), of(&[9, 1, 4, 2]), of(&[7]), of(&[])), (4, 3, 7, 0));
    }
}
