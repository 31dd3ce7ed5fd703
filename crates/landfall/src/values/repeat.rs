//! How often the instructions of a program run.

/// How often the first instructions of a program run before the others run once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// How many instructions are repeated.
    pub instructions: usize,
    /// How often they run.
    pub times: usize,
}

impl Default for Repeat {
    fn default() -> Self {
        Self { instructions: 0, times: 1 }
    }
}

impl Repeat {
    /// Numbers of a program's instructions in the order in which a run does them.
    pub fn sequence(self, instructions: usize) -> impl Iterator<Item = usize> {
        let repeated = (0..self.times).flat_map(move |_| 0..self.instructions);
        repeated.chain(self.instructions..instructions)
    }

    /// Instructions that a run does.
    #[must_use]
    pub fn count(self, instructions: usize) -> usize {
        self.instructions * self.times + instructions.saturating_sub(self.instructions)
    }
}
