//! The example of LoRA: factors of low rank beside frozen weights.

#[path = "../examples/lora.rs"]
#[allow(dead_code, unreachable_pub, reason = "its main runs as an example; here its parts are used")]
mod example;

#[test]
fn the_example_is_short() {
    let lines = include_str!("../examples/lora.rs").lines().count();
    assert!(lines < 125, "{lines} lines");
}

/// Ten classes: a tenth is right by chance. (That the base's weights keep their bytes the example asserts itself.)
#[test]
fn factors_of_low_rank_teach_a_frozen_network() -> Result<(), landfall::Error> {
    let ([own, mirrored, before, after], [all, trained]) = example::run()?;
    assert!(own > 0.9 && mirrored < 0.3, "{own}, {mirrored}");
    // Factors that begin with zeros change nothing.
    assert_eq!(before, mirrored);
    assert!(after > 0.8, "{after}");
    assert!(trained * 6 < all, "{trained} of {all}");
    Ok(())
}
