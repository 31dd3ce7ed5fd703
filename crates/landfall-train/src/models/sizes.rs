//! What the sizes of a model must be.

use super::option::Declared;

/// The most layers of a network. A training step of PatchTST has 39 instructions for each, so that this is 390,000 of
/// them, each with memory of the host for its names, operands and place.
pub const MOST_LAYERS: usize = 10_000;

/// Refuses more layers than [`MOST_LAYERS`], before anything is made for each of them.
pub(super) fn layers_fit(layers: usize) -> Result<(), String> {
    if layers > MOST_LAYERS {
        return Err(format!("layers is {layers}; it must be at most {MOST_LAYERS}"));
    }
    Ok(())
}

/// Refuses a dropout rate outside of [0, 1).
pub(super) fn rate(dropout: f64) -> Result<(), String> {
    if (0.0..1.0).contains(&dropout) {
        Ok(())
    } else {
        Err(format!("dropout is {dropout}; it must be in [0, 1)"))
    }
}

/// Refuses a size or a number of things that is 0.
pub(super) fn positive(config: &impl Declared) -> Result<(), String> {
    match config.counts().iter().find(|(_, size)| *size == 0) {
        Some((name, _)) => Err(format!("{name} is 0; it must be at least 1")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_layers_than_a_step_holds_are_refused() {
        assert_eq!(layers_fit(MOST_LAYERS), Ok(()));
        let refused = Err("layers is 1000000000; it must be at most 10000".to_owned());
        assert_eq!(layers_fit(1_000_000_000), refused);
    }
}
