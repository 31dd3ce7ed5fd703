//! Short, constant, huge and random series.

use landfall_local::{Fitted, LocalError, Model};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};

use crate::series::{NILE, PASSENGERS};

fn ahead(model: Model, values: &[f64], season: usize, horizon: usize) -> Result<Vec<f64>, LocalError> {
    let fitted = Fitted::new(model, values, season)?;
    let found = fitted.predict(values, 0, horizon)?;
    assert!(found.values.iter().all(|y| y.is_finite()), "{model}: {values:?}: {:?}", found.values);
    assert!(
        found.spread.iter().all(|s| s.is_finite() && *s >= 0.0),
        "{model}: {values:?}: {:?}",
        found.spread
    );
    assert_eq!((found.values.len(), found.spread.len()), (horizon, horizon), "{model}");
    Ok(found.values)
}

#[test]
fn a_row_is_enough() {
    for model in Model::ALL {
        for rows in 1..=30 {
            let values: Vec<f64> = (0..rows).map(|i| 10.0 + f64::from(i % 7)).collect();
            for season in [1, 4, 12, 24, 30, 1000] {
                ahead(model, &values, season, 5).expect("a forecast");
            }
        }
    }
}

#[test]
fn few_rows_are_said() {
    let one = Fitted::new(Model::Ets, &[3.0, 4.0], 1).expect("a fit");
    assert_eq!(one.name(), "last value");
    assert_eq!(
        one.instead(),
        Some("ETS needs 5 rows and the series has 2, so the last value is the forecast")
    );
    assert_eq!(one.forecast(&[3.0, 4.0], 2), Ok(vec![4.0, 4.0]));
    assert_eq!(Fitted::new(Model::Ets, &NILE, 1).expect("a fit").instead(), None);
}

#[test]
fn a_constant_is_forecast_by_itself() {
    for model in
        [Model::Ets, Model::Theta, Model::DynamicTheta, Model::Naive2, Model::SeasonalDrift, Model::Tsb]
    {
        for value in [5.0, 0.0, 1e30, 1e-30] {
            for y in ahead(model, &[value; 40], 12, 6).expect("a forecast") {
                assert!((y - value).abs() <= 1e-3 * value, "{model} of {value}: {y}");
            }
        }
    }
}

#[test]
fn what_is_no_series_is_refused() {
    assert_eq!(Fitted::new(Model::Ets, &[], 1), Err(LocalError::NoRows));
    assert_eq!(Fitted::new(Model::Ets, &[1.0, 2.0], 0), Err(LocalError::NoSeason));
    assert_eq!(
        Fitted::new(Model::Theta, &[1.0, f64::INFINITY], 1),
        Err(LocalError::NotFinite { row: 1, value: f64::INFINITY })
    );
    let negative = Fitted::new(Model::Croston, &[1.0, -2.0], 1);
    assert_eq!(negative, Err(LocalError::Negative { model: Model::Croston, row: 1, value: -2.0 }));
    let words = negative.expect_err("refused").to_string();
    assert!(words.starts_with("row 1 is -2: Croston is a model of demand"), "{words}");
}

#[test]
fn rows_may_begin_anywhere() {
    let one = Fitted::new(Model::Naive2, &PASSENGERS, 12).expect("a fit");
    let ahead = |start| one.predict(&PASSENGERS, start, 3).expect("a forecast").values;
    assert_eq!(ahead(0), ahead(-24));
    assert_eq!(ahead(7), ahead(i64::MAX), "i64::MAX is 7 more than whole years");
    assert_eq!(ahead(4), ahead(i64::MIN), "i64::MIN is 8 less than whole years");
}

#[test]
fn what_was_never_negative_stays_so() {
    let falling: Vec<f64> = (0..20).map(|i| 100.0 - 5.0 * f64::from(i)).collect();
    for model in Model::ALL {
        assert!(ahead(model, &falling, 1, 30).expect("a forecast").iter().all(|y| *y >= 0.0), "{model}");
    }
    let below: Vec<f64> = falling.iter().map(|y| y - 50.0).collect();
    assert!(
        ahead(Model::Ets, &below, 1, 30).expect("a forecast")[29] < -100.0,
        "a series with values below 0 goes on"
    );
}

#[test]
fn the_slope_of_the_last_rows_takes_no_series_to_zero() {
    let level = (0..20).map(|i| 5.0 + 0.25 * (f64::from(i * 7 % 5) - 2.0));
    let values: Vec<f64> = level.chain([5.0, 4.2, 2.7, 2.6, 1.7, 0.9]).collect();
    let found = ahead(Model::Ets, &values, 1, 12).expect("a forecast");
    assert!(found.iter().all(|y| *y > 0.5), "{found:?}");
}

#[test]
fn a_long_season_is_taken_out_first() {
    let wave = |i: u32| {
        50.0 + 20.0 * (f64::from(i) * std::f64::consts::TAU / 168.0).sin() + f64::from(i * 7919 % 13) / 13.0
    };
    let values: Vec<f64> = (0..168 * 4).map(wave).collect();
    let found = ahead(Model::Ets, &values, 168, 168).expect("a forecast");
    for (i, y) in found.iter().enumerate() {
        assert!((y - wave(168 * 4 + i as u32)).abs() < 3.0, "step {i}: {y}");
    }
}

/// Series of odd values and lengths.
fn series() -> impl Strategy<Value = Vec<f64>> {
    let value = prop_oneof![
        8 => -100.0..100.0_f64,
        4 => 0.0..10.0_f64,
        4 => Just(0.0),
        1 => Just(1e30),
        1 => Just(-1e300),
        1 => Just(1e-300),
        1 => any::<f64>().prop_filter("finite", |y| y.is_finite()),
    ];
    prop_oneof![prop::collection::vec(value, 1..60), prop::collection::vec(0.0..3.0_f64, 1..60)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_series_panics(values in series(), season in 1..30_usize, start in -40..40_i64) {
        for model in Model::ALL {
            let Ok(fitted) = Fitted::new(model, &values, season) else {
                prop_assert!(matches!(model, Model::Croston | Model::Tsb) && values.iter().any(|y| *y < 0.0));
                continue;
            };
            for from in [0, start] {
                let found = fitted.predict(&values, from, 7).expect("a forecast");
                prop_assert!(found.values.iter().all(|y| y.is_finite()), "{}: {:?}", fitted.name(), found.values);
                prop_assert!(found.spread.iter().all(|s| s.is_finite() && *s >= 0.0), "{}: {:?}", fitted.name(), found.spread);
            }
            prop_assert_eq!(serde_json::from_str::<Fitted>(&serde_json::to_string(&fitted).expect("JSON")).expect("JSON"), fitted);
        }
    }

    #[test]
    fn a_unit_changes_nothing(power in -20..20_i32, end in 30..144_usize) {
        let unit = 2.0_f64.powi(power);
        let values = &PASSENGERS[..end];
        let other: Vec<f64> = values.iter().map(|y| y * unit).collect();
        for model in Model::ALL {
            let one = ahead(model, values, 12, 6).expect("a forecast");
            let two = ahead(model, &other, 12, 6).expect("a forecast");
            for (a, b) in one.iter().zip(&two) {
                prop_assert!((a * unit - b).abs() <= 1e-9 * b.abs(), "{}: {:?} {:?}", model, one, two);
            }
        }
    }
}

#[test]
fn a_shift_moves_theta_with_it() {
    // Without a season Theta is linear in level and line.
    let moved: Vec<f64> = NILE.iter().map(|y| y + 5000.0).collect();
    for model in [Model::Theta, Model::DynamicTheta, Model::Naive2, Model::SeasonalDrift] {
        let one = ahead(model, &NILE, 1, 6).expect("a forecast");
        let two = ahead(model, &moved, 1, 6).expect("a forecast");
        for (a, b) in one.iter().zip(&two) {
            assert!((a + 5000.0 - b).abs() < 10.0, "{model}: {one:?} {two:?}");
        }
    }
}
