//! The example of a Wasserstein GAN: two optimizers on one state, and second derivatives through the critic.

#[path = "../examples/wgan.rs"]
#[allow(dead_code, unreachable_pub, reason = "its main runs as an example; here its parts are used")]
mod example;

#[test]
fn the_example_is_short() {
    let lines = include_str!("../examples/wgan.rs").lines().count();
    assert!(lines < 80, "{lines} lines");
}

#[test]
fn the_generated_points_come_near_the_true_ones() -> Result<(), landfall::Error> {
    let distances = example::train(400)?;
    let last = distances[350..].iter().sum::<f32>() / 50.0;
    assert!(last < 0.4 * distances[0], "from {} to {last}", distances[0]);
    Ok(())
}
