//! Prints how many series of 1,152 rows a thread simulates in a second: `cargo run --release -p landfall-data --example simulator_speed`.

use landfall_data::generated::Simulator;
use std::time::Instant;

fn main() {
    let mut rows = vec![0.0; 1000 * 1152];
    let start = Instant::now();
    Simulator::new(2).fill(0, 1152, 1, &mut rows);
    println!("{:.0} series of 1152 rows a second", 1000.0 / start.elapsed().as_secs_f64());
}
