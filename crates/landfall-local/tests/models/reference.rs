//! Forecasts beside those of statsforecast 2.1.1 (and of R's forecast 8 for the likelihood of the passengers).

use landfall_local::{Fitted, Model};

use crate::series::{NILE, PASSENGERS, quarters};

/// Asserts that six forecasts differ from reference values by a share of at most `within`.
fn assert_near(model: Model, values: &[f64], season: usize, reference: [f64; 6], within: f64) {
    let fitted = Fitted::new(model, values, season).expect("a fit");
    let found = fitted.forecast(values, 6).expect("a forecast");
    for (f, r) in found.iter().zip(reference) {
        assert!((f - r).abs() <= within * r, "{}: {found:?} beside {reference:?}", fitted.name());
    }
}

#[test]
fn ets_is_near_the_reference() {
    assert_near(Model::Ets, &NILE, 1, [839.147; 6], 0.005);
    assert_near(Model::Ets, &quarters(), 4, [190.112, 177.573, 172.474, 191.974, 198.153, 185.615], 0.01);
}

#[test]
fn theta_is_near_the_reference() {
    assert_near(Model::Theta, &NILE, 1, [800.885, 799.528, 798.171, 796.814, 795.456, 794.099], 0.005);
    assert_near(Model::Theta, &PASSENGERS, 12, [440.969, 429.249, 490.693, 476.66, 480.631, 546.456], 0.005);
    assert_near(Model::Theta, &quarters(), 4, [191.392, 172.832, 162.942, 188.191, 195.759, 176.753], 0.005);
}

#[test]
fn dynamic_theta_is_near_the_reference() {
    assert_near(Model::DynamicTheta, &NILE, 1, [798.23; 6], 0.01);
    assert_near(
        Model::DynamicTheta,
        &PASSENGERS,
        12,
        [442.927, 432.298, 495.482, 482.575, 487.866, 556.122],
        0.01,
    );
    assert_near(
        Model::DynamicTheta,
        &quarters(),
        4,
        [194.217, 176.308, 167.081, 193.954, 202.764, 183.98],
        0.01,
    );
}

#[test]
fn the_chosen_kind_is_named() {
    let named = |values: &[f64], season| Fitted::new(Model::Ets, values, season).expect("a fit").name();
    assert_eq!(named(&NILE, 1), "ETS(M,N,N)");
    assert_eq!(named(&quarters(), 4), "ETS(A,A,A)");
    assert!(named(&PASSENGERS, 12).ends_with(",M)"), "{}", named(&PASSENGERS, 12));
}

#[test]
fn naive2_repeats_the_adjusted_last_value() {
    let one = Fitted::new(Model::Naive2, &NILE, 1).expect("a fit");
    assert_eq!(one.forecast(&NILE, 3).expect("a forecast"), vec![740.0; 3]);
    // Of bench/competitions/score.py.
    let reference = [
        437.48202995620534,
        424.6949045812341,
        484.16825477108904,
        469.0475714955849,
        471.67757417549126,
        534.8310109091078,
    ];
    assert_near(Model::Naive2, &PASSENGERS, 12, reference, 1e-9);
}

#[test]
fn croston_follows_its_formula() {
    // Demands of 4 every second row: the size is 4 and the interval 2 whatever smooths them, and 1 − α/2 of the smallest α is 0.975.
    let demand: Vec<f64> = (0..20).map(|i| f64::from(i % 2) * 4.0).collect();
    let rate =
        |model| Fitted::new(model, &demand, 1).expect("a fit").forecast(&demand, 1).expect("a forecast")[0];
    let shares = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3].map(|a| (1.0 - a / 2.0) * 2.0);
    assert!(shares.iter().any(|s| (s - rate(Model::Croston)).abs() < 1e-9), "{}", rate(Model::Croston));
    assert!((1.8..2.6).contains(&rate(Model::Tsb)), "{}", rate(Model::Tsb));
    // Without demand the rate of TSB falls, that of Croston stays.
    let silent = [demand.clone(), vec![0.0; 20]].concat();
    let later = |model| {
        let fitted = Fitted::new(model, &demand, 1).expect("a fit");
        (
            fitted.forecast(&demand, 1).expect("a forecast")[0],
            fitted.forecast(&silent, 1).expect("a forecast")[0],
        )
    };
    let (before, after) = later(Model::Tsb);
    assert!(after < 0.5 * before, "{before} {after}");
}

#[test]
fn the_spread_of_exponential_smoothing_grows_as_its_variance() {
    // ETS of a series without trend: σ √(1 + (h − 1) α²), with relative errors nearly so.
    let fitted = Fitted::new(Model::Ets, &NILE, 1).expect("a fit");
    let found = fitted.predict(&NILE, 0, 30).expect("a forecast");
    assert!((found.spread[0] - 145.0).abs() < 15.0, "{:?}", found.spread);
    let ratio = (found.spread[29] / found.spread[0]).powi(2);
    assert!((1.2..3.5).contains(&ratio), "1 + 29 α² with α between 0.1 and 0.25: {ratio}");
    for model in Model::ALL {
        let one = Fitted::new(model, &PASSENGERS, 12)
            .expect("a fit")
            .predict(&PASSENGERS, 0, 24)
            .expect("a forecast");
        assert!(one.spread.iter().all(|s| *s > 0.0 && s.is_finite()), "{model}: {:?}", one.spread);
    }
}
