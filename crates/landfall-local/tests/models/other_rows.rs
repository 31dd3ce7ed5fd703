//! Parameters are kept and the state is filtered over the rows that are given.

use landfall_local::{Fitted, LocalError, Model, Task, forecast_all};

use crate::series::{NILE, PASSENGERS, quarters};

fn fitted(model: Model, values: &[f64], season: usize) -> Fitted {
    Fitted::new(model, values, season).expect("a fit")
}

/// The mean error of forecasts as a share of the actual values.
fn error(found: &[f64], actual: &[f64]) -> f64 {
    found.iter().zip(actual).map(|(f, y)| (f - y).abs() / y).sum::<f64>() / actual.len() as f64
}

#[test]
fn stored_parameters_forecast_the_same() {
    for model in Model::ALL {
        let one = fitted(model, &PASSENGERS, 12);
        let text = serde_json::to_string(&one).expect("JSON");
        let read: Fitted = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read, one, "{model}");
        let ahead = |f: &Fitted| f.predict(&PASSENGERS, 0, 18).expect("a forecast");
        assert_eq!(ahead(&read), ahead(&one), "{model}");
    }
}

#[test]
fn rows_after_the_fit_move_the_state() {
    // The passengers of the last years, and half as many again: forecasts follow the rows, not those of the fit.
    let raised: Vec<f64> =
        PASSENGERS.iter().enumerate().map(|(i, y)| if i < 108 { *y } else { 1.5 * y }).collect();
    for model in [Model::Ets, Model::Theta, Model::DynamicTheta, Model::Naive2, Model::SeasonalDrift] {
        let one = fitted(model, &PASSENGERS[..108], 12);
        let stale = error(&one.forecast(&raised[..108], 24).expect("a forecast")[12..], &raised[120..132]);
        let fresh = error(&one.forecast(&raised[..120], 12).expect("a forecast"), &raised[120..132]);
        assert!(fresh < 0.15 && stale > 0.3, "{model}: {fresh} with a year more, {stale} without");
    }
}

#[test]
fn an_earlier_end_forecasts_from_there() {
    for model in [Model::Ets, Model::Theta, Model::DynamicTheta, Model::Naive2, Model::SeasonalDrift] {
        let one = fitted(model, &PASSENGERS, 12);
        let found = error(&one.forecast(&PASSENGERS[..60], 12).expect("a forecast"), &PASSENGERS[60..72]);
        assert!(found < 0.15, "{model}: {found}");
    }
}

#[test]
fn a_later_window_keeps_the_phase_of_the_season() {
    // From row 50, which is no whole number of years after the first, forecasts are as good as from all rows.
    for model in [Model::Ets, Model::Theta, Model::DynamicTheta, Model::Naive2] {
        let one = fitted(model, &PASSENGERS[..132], 12);
        let all =
            error(&one.predict(&PASSENGERS[..132], 0, 12).expect("a forecast").values, &PASSENGERS[132..]);
        let window =
            error(&one.predict(&PASSENGERS[50..132], 50, 12).expect("a forecast").values, &PASSENGERS[132..]);
        let shifted =
            error(&one.predict(&PASSENGERS[50..132], 49, 12).expect("a forecast").values, &PASSENGERS[132..]);
        assert!(window < all + 0.02, "{model}: {window} from a window, {all} from all rows");
        assert!(shifted > window, "{model}: a season that is a row off is worse: {shifted} {window}");
    }
}

#[test]
fn a_window_of_a_line_finds_its_level() {
    let values = quarters();
    for model in [Model::Ets, Model::Theta, Model::DynamicTheta] {
        let one = fitted(model, &values, 4);
        let end = one.predict(&values, 0, 4).expect("a forecast").values;
        for start in [21, 33] {
            let window = one.predict(&values[start..], start as i64, 4).expect("a forecast").values;
            assert!(error(&window, &end) < 0.06, "{model} from {start}: {window:?} {end:?}");
        }
        let single = one.predict(&values[39..], 39, 4).expect("a forecast").values;
        assert!(error(&single, &end) < 0.15, "{model}: {single:?} {end:?}");
    }
}

#[test]
fn rows_that_begin_with_the_fit_begin_with_its_state() {
    // A steady trend and season hardly follow a single row; a window that begins elsewhere has its level from it.
    let values = quarters();
    let one = fitted(Model::Ets, &values, 4);
    let next = |first: f64, start| one.predict(&[first], start, 1).expect("a forecast").values[0];
    let (usual, unusual) = (next(values[0], 0), next(1.5 * values[0], 0));
    assert!((usual - unusual).abs() < 1.0 && (usual - values[1]).abs() < 8.0, "{usual} {unusual}");
    assert!(next(1.5 * values[0], 40) - next(values[0], 40) > 40.0);
}

#[test]
fn any_number_of_threads_gives_the_same() {
    let series = [&PASSENGERS[..], &NILE[..], &PASSENGERS[..30], &[5.0, 6.0][..], &[][..], &[f64::NAN][..]];
    let tasks: Vec<Task> = series
        .iter()
        .flat_map(|values| Model::ALL.map(|model| Task { model, values, season: 12, horizon: 6 }))
        .collect();
    let one = forecast_all(&tasks, 1);
    assert_eq!(one.len(), tasks.len());
    assert!(matches!(one[28], Err(LocalError::NoRows)), "{:?}", one[28]);
    assert!(matches!(one[35], Err(LocalError::NotFinite { row: 0, .. })), "{:?}", one[35]);
    // Rows of NaN compare unequal, so their words are compared.
    let words = format!("{one:?}");
    for threads in [0, 2, 3, 64] {
        assert_eq!(format!("{:?}", forecast_all(&tasks, threads)), words, "{threads} threads");
    }
}
