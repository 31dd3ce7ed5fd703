//! Forecasts every series of a file in long form (`unique_id,ds,y`), as `bench/competitions/sets.py` writes it, with each model.
//!
//! ```text
//! cargo run --release -p landfall-local --example competition -- DATA.csv SEASON HORIZON OUT [THREADS]
//! ```
//!
//! `OUT-MODEL.csv` has the forecasts as `series,ds,y,spread`, `ds` being the step from 1; what is printed are the seconds of each model.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

use landfall_local::{Model, Task, forecast_all};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [data, season, horizon, out, more @ ..] = &words[..] else {
        return Err(
            "give a file, the rows of a season, the horizon and the beginning of the names of the results"
                .into(),
        );
    };
    let (season, horizon) = (season.parse()?, horizon.parse()?);
    let threads = more.first().map_or(Ok(1), |t| t.parse())?;
    let mut series: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for record in csv::Reader::from_path(data)?.records() {
        let record = record?;
        series.entry(record[0].to_owned()).or_default().push(record[2].parse()?);
    }
    for model in Model::ALL {
        let start = Instant::now();
        let tasks: Vec<Task> =
            series.values().map(|values| Task { model, values, season, horizon }).collect();
        let found = forecast_all(&tasks, threads);
        let seconds = start.elapsed().as_secs_f64();
        let name = model.to_string().to_lowercase().replace(' ', "-");
        let mut file = csv::Writer::from_path(format!("{out}-{name}.csv"))?;
        file.write_record(["series", "ds", "y", "spread"])?;
        for (name, one) in series.keys().zip(found) {
            let ahead = one?.1;
            for (step, (y, spread)) in ahead.values.iter().zip(&ahead.spread).enumerate() {
                file.write_record([name, &(step + 1).to_string(), &y.to_string(), &spread.to_string()])?;
            }
        }
        file.flush()?;
        println!("{model}: {seconds:.2} s on {threads} threads");
    }
    Ok(())
}
