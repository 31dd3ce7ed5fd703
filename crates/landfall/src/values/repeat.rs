//! The loop body of a program.

/// The first instructions of a program are a loop body; the others run once afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// Number of instructions in the loop body.
    pub instructions: usize,
    /// Number of iterations.
    pub times: usize,
}

impl Default for Repeat {
    fn default() -> Self {
        Self { instructions: 0, times: 1 }
    }
}

impl Repeat {
    /// Instruction numbers in the order of a run.
    pub fn sequence(self, instructions: usize) -> impl Iterator<Item = usize> {
        let repeated = (0..self.times).flat_map(move |_| 0..self.instructions);
        repeated.chain(self.instructions..instructions)
    }

    /// Number of instructions that a run executes.
    #[must_use]
    pub fn count(self, instructions: usize) -> usize {
        let repeated = self.instructions.saturating_mul(self.times);
        repeated.saturating_add(instructions.saturating_sub(self.instructions))
    }
}
