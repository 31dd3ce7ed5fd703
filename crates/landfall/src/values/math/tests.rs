//! Accuracy, limits and determinism of the elementary functions.

use super::{Math, double, single};

/// erf at points in its whole range: mpmath with 60 digits, rounded to `f64`.
const ERF: &[(f64, f64)] = &[
    (1e-300, 1.1283791670955126e-300),
    (1e-20, 1.1283791670955125e-20),
    (1e-08, 1.1283791670955126e-08),
    (0.001, 0.0011283787909692365),
    (0.01, 0.011283415555849618),
    (0.05, 0.05637197779701663),
    (0.1, 0.1124629160182849),
    (0.15, 0.1679959714273635),
    (0.2, 0.22270258921047847),
    (0.25, 0.27632639016823696),
    (0.3, 0.3286267594591274),
    (0.35, 0.3793820535623103),
    (0.4, 0.42839235504666845),
    (0.45, 0.47548171978692366),
    (0.5, 0.5204998778130465),
    (0.55, 0.563323366325109),
    (0.6, 0.6038560908479259),
    (0.65, 0.6420293273556719),
    (0.7, 0.6778011938374184),
    (0.74, 0.7046780778547458),
    (0.76, 0.7175367528055908),
    (0.8, 0.7421009647076605),
    (0.85, 0.7706680576083526),
    (0.9, 0.7969082124228322),
    (0.95, 0.8208908072732779),
    (1.0, 0.8427007929497149),
    (1.1, 0.8802050695740817),
    (1.2, 0.9103139782296353),
    (1.3, 0.9340079449406524),
    (1.4, 0.9522851197626488),
    (1.5, 0.9661051464753108),
    (1.6, 0.976348383344644),
    (1.7, 0.9837904585907745),
    (1.8, 0.9890905016357308),
    (1.9, 0.9927904292352575),
    (2.0, 0.9953222650189527),
    (2.2, 0.9981371537020182),
    (2.4, 0.999311486103355),
    (2.6, 0.9997639655834707),
    (2.8, 0.9999249868053346),
    (3.0, 0.9999779095030014),
    (3.3, 0.9999969422902035),
    (3.6, 0.999999644137007),
    (4.0, 0.9999999845827421),
    (4.5, 0.9999999998033839),
    (5.0, 0.9999999999984626),
    (5.5, 0.9999999999999927),
    (5.9, 0.9999999999999999),
    (6.5, 1.0),
];

/// Φ likewise.
const CDF: &[(f64, f64)] = &[
    (0.0, 0.5),
    (-1e-10, 0.49999999996010575),
    (-0.001, 0.49960105778608893),
    (-0.1, 0.460172162722971),
    (-0.2, 0.42074029056089696),
    (-0.3, 0.3820885778110474),
    (-0.5, 0.3085375387259869),
    (-0.7, 0.24196365222307303),
    (-0.9, 0.18406012534675947),
    (-1.0, 0.15865525393145705),
    (-1.2, 0.11506967022170828),
    (-1.5, 0.06680720126885807),
    (-1.8, 0.0359303191129258),
    (-2.0, 0.02275013194817921),
    (-2.3, 0.01072411002167581),
    (-2.6, 0.004661188023718749),
    (-3.0, 0.0013498980316300946),
    (-3.4, 0.0003369292656768811),
    (-3.8, 7.234804392512003e-05),
    (-4.2, 1.3345749015906327e-05),
    (-4.7, 1.300807453917281e-06),
    (-5.0, 2.866515718791939e-07),
    (-5.5, 1.8989562465887718e-08),
    (-6.0, 9.86587645037698e-10),
    (-6.5, 4.016000583859118e-11),
    (-7.0, 1.279812543885835e-12),
    (-7.7, 6.803311540773961e-15),
    (-8.1, 2.7479593923982286e-16),
    (-9.0, 1.1285884059538405e-19),
    (-10.0, 7.619853024160525e-24),
    (-11.0, 1.9106595744986757e-28),
    (-12.0, 1.776482112077679e-33),
    (-13.0, 6.11716439954988e-39),
    (-14.0, 7.7935368191928e-45),
    (-15.5, 1.7344607917938702e-54),
    (-17.0, 4.1059962020989065e-65),
    (-20.0, 2.7536241186062337e-89),
    (-24.0, 1.390392118549703e-127),
    (-28.0, 8.123869469659427e-173),
    (-32.0, 5.452080603512396e-225),
    (-35.0, 1.1249107064724062e-268),
    (-37.0, 5.725571222524577e-300),
    (-37.4, 1.9536815616489922e-306),
    (0.1, 0.539827837277029),
    (0.5, 0.6914624612740131),
    (1.0, 0.8413447460685429),
    (1.7, 0.955434537241457),
    (2.5, 0.9937903346742238),
    (3.7, 0.9998922002665226),
    (5.0, 0.9999997133484281),
    (7.0, 0.9999999999987201),
];

/// Every 97th bit pattern of `f32`: all exponents and signs, NaNs and denormals (44 million). Unoptimised builds
/// take every 1940th, so that the suite stays fast.
fn patterns() -> impl Iterator<Item = f32> {
    let step = if cfg!(debug_assertions) { 1940 } else { 97 };
    (0..=u32::MAX).step_by(step).map(f32::from_bits)
}

/// Evenly spaced `f64` values.
fn grid(from: f64, to: f64, count: u32) -> impl Iterator<Item = f64> {
    (0..=count).map(move |i| from + (to - from) * f64::from(i) / f64::from(count))
}

fn relative(got: f64, want: f64) -> f64 {
    if got == want || (got.is_nan() && want.is_nan()) { 0.0 } else { ((got - want) / want).abs() }
}

/// Largest relative error over all patterns that `pick` admits, where the reference is a normal `f32`; asserts
/// that infinities and NaNs agree everywhere, and denormal results to one unit or 1e-6.
fn worst(
    name: &str,
    f: impl Fn(f32) -> f32,
    reference: impl Fn(f64) -> f64,
    pick: impl Fn(f32) -> bool,
) -> f64 {
    let mut worst = (0.0, 0.0);
    for x in patterns().filter(|&x| pick(x)) {
        let (got, want) = (f(x), reference(f64::from(x)));
        let rounded = want as f32;
        if rounded.is_nan() || rounded.is_infinite() {
            assert!(
                got == rounded || (got.is_nan() && rounded.is_nan()),
                "{name}({x:e}) = {got}, want {want}"
            );
        } else if rounded.abs() < f32::MIN_POSITIVE {
            let unit = f64::from(f32::from_bits(1));
            let error = (f64::from(got) - want).abs();
            assert!(error <= unit + 1e-6 * want.abs(), "{name}({x:e}) = {got:e}, want {want:e}");
        } else {
            let error = relative(f64::from(got), want);
            if error > worst.0 {
                worst = (error, x);
            }
        }
    }
    println!("{name} f32: {:.2e} at {:e}", worst.0, worst.1);
    worst.0
}

fn worst_f64(
    name: &str,
    points: impl Iterator<Item = f64>,
    f: impl Fn(f64) -> f64,
    reference: impl Fn(f64) -> f64,
) -> f64 {
    let mut worst = (0.0, 0.0);
    for x in points {
        let error = relative(f(x), reference(x));
        assert!(!error.is_nan(), "{name}({x:e}) = {}", f(x));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    println!("{name} f64: {:.2e} at {:e}", worst.0, worst.1);
    worst.0
}

fn same(got: impl Into<f64>, want: impl Into<f64>) {
    let (got, want) = (got.into(), want.into());
    let equal = got == want && got.is_sign_negative() == want.is_sign_negative();
    assert!(equal || (got.is_nan() && want.is_nan()), "got {got:e}, want {want:e}");
}

#[test]
fn single_exp() {
    assert!(worst("exp", single::exp, f64::exp, |_| true) <= 1e-7);
}

#[test]
fn weights_rounded_once_or_twice() {
    let (twice, once) = (|a: f32, b, c| a * b + c, f32::mul_add);
    let normal = |x: f32| x > -87.33 && x < 88.37;
    assert!(worst("weight", |x| single::weight(x, twice), f64::exp, normal) <= 1e-7);
    // Without an instruction for it a fused product is slow: fewer points.
    let few = |x: f32| normal(x) && x.to_bits().is_multiple_of(64);
    assert!(worst("weight, fused", |x| single::weight(x, once), f64::exp, few) <= 1e-7);
    let grid = || grid(-708.3, 709.4, 20_000);
    let (twice, once) = (|a: f64, b, c| a * b + c, f64::mul_add);
    assert!(worst_f64("weight", grid(), |x| double::weight(x, twice), f64::exp) <= 3e-16);
    assert!(worst_f64("weight, fused", grid(), |x| double::weight(x, once), f64::exp) <= 3e-16);
    // Beyond the normal numbers.
    for x in [-87.7, -88.0, -104.0, -1e30, f32::MIN, f32::NEG_INFINITY] {
        same(Math::weight(x, f32::mul_add), 0.0f32);
        same(Math::weight(f64::from(x) * 9.0, f64::mul_add), 0.0f64);
    }
    for x in [88.8, 1e30, f32::INFINITY] {
        same(Math::weight(x, f32::mul_add), f32::INFINITY);
        same(Math::weight(f64::from(x) * 9.0, f64::mul_add), f64::INFINITY);
    }
    assert!(Math::weight(f32::NAN, f32::mul_add).is_nan() && Math::weight(f64::NAN, f64::mul_add).is_nan());
    same(Math::weight(0.0f32, f32::mul_add), 1.0f32);
}

#[test]
fn single_ln() {
    assert!(worst("ln", single::ln, f64::ln, |_| true) <= 1e-7);
}

#[test]
fn expm1_and_log1p() {
    assert!(worst("expm1", single::expm1, f64::exp_m1, |_| true) <= 1.8e-7);
    assert!(worst("log1p", single::log1p, f64::ln_1p, |_| true) <= 2.4e-7);
    let tiny = || (1..300).map(|k| 10f64.powi(-k));
    let points = || grid(-40.0, 45.0, 50_000).chain(grid(-0.9, 0.9, 50_000)).chain(tiny()).chain([709.0]);
    assert!(worst_f64("expm1", points(), double::expm1, f64::exp_m1) <= 3.4e-16);
    let points = || grid(-0.999, 4.0, 50_000).chain(grid(1.0, 1e9, 20_000)).chain(tiny()).chain([1e300]);
    assert!(worst_f64("log1p", points(), double::log1p, f64::ln_1p) <= 4.5e-16);
    for f in [single::expm1, single::log1p] {
        same(f(-0.0), -0.0f32);
        same(f(f32::INFINITY), f32::INFINITY);
    }
    same(double::log1p(-1.0), f64::NEG_INFINITY);
    same(double::expm1(f64::NEG_INFINITY), -1.0);
}

#[test]
fn single_tanh() {
    assert!(worst("tanh", single::tanh, f64::tanh, |_| true) <= 2.2e-7);
}

#[test]
fn single_erf() {
    assert!(worst("erf", single::erf, double::erf, |_| true) <= 1.2e-7);
}

#[test]
fn single_normal_cdf() {
    assert!(worst("normal_cdf", single::normal_cdf, double::normal_cdf, |_| true) <= 4.5e-7);
}

#[test]
fn single_sin_cos() {
    assert!(worst("sin", single::sin, f64::sin, |x| x.abs() <= 1e6 || x.is_nan()) <= 1.5e-7);
    assert!(worst("cos", single::cos, f64::cos, |x| x.abs() <= 1e6 || x.is_nan()) <= 1.5e-7);
    // The f32 nearest to each multiple of π/2, where the reduction cancels most.
    let mut worst = 0.0f64;
    for k in 1..=600_000 {
        let x = (f64::from(k) * std::f64::consts::FRAC_PI_2) as f32;
        worst = worst.max(relative(single::sin(x).into(), f64::from(x).sin()));
        worst = worst.max(relative(single::cos(x).into(), f64::from(x).cos()));
    }
    println!("sin, cos f32 near multiples of pi/2: {worst:.2e}");
    assert!(worst <= 1.5e-7);
    // Beyond the range the result is still a sine of something; the error grows slowly.
    for x in patterns().filter(|x| x.is_finite()) {
        let (s, c) = (single::sin(x), single::cos(x));
        assert!((-1.0..=1.0).contains(&s) && (-1.0..=1.0).contains(&c), "{x:e}: {s} {c}");
        if x.abs() <= 1e9 {
            assert!((f64::from(s) - f64::from(x).sin()).abs() < 5e-7, "sin {x:e}");
        }
    }
}

#[test]
fn single_pow() {
    let specials = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        2.5,
        -2.5,
        1e-45,
        1e38,
        -1e38,
        16_777_215.0,
        16_777_216.0,
        -16_777_217.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    for x in specials {
        for y in specials {
            // The f64 value rounded once: libm's own powf is not correctly rounded everywhere.
            let (got, want) = (single::pow(x, y), f64::from(x).powf(f64::from(y)) as f32);
            let equal = got == want && got.is_sign_negative() == want.is_sign_negative();
            assert!(equal || (got.is_nan() && want.is_nan()), "pow({x:e}, {y:e}) = {got:e}, want {want:e}");
        }
    }
    let mut most = 0.0f64;
    for y in [0.1f32, -0.75, 1.5, 3.0, -7.0, 11.3] {
        let f = |x: f32| single::pow(x, y);
        most = most.max(worst("pow", f, |x| x.powf(f64::from(y)), |x| x.to_bits() % 10 == 0));
    }
    assert!(most <= 6.5e-8);
}

#[test]
fn special_values() {
    const INF: f32 = f32::INFINITY;
    for (x, exp, ln, tanh, erf, cdf) in [
        (0.0, 1.0, -INF, 0.0, 0.0, 0.5),
        (-0.0, 1.0, -INF, -0.0, -0.0, 0.5),
        (INF, INF, INF, 1.0, 1.0, 1.0),
        (-INF, 0.0, f32::NAN, -1.0, -1.0, 0.0),
        (f32::MAX, INF, f32::MAX.ln(), 1.0, 1.0, 1.0),
        (f32::MIN, 0.0, f32::NAN, -1.0, -1.0, 0.0),
        (f32::NAN, f32::NAN, f32::NAN, f32::NAN, f32::NAN, f32::NAN),
    ] {
        same(Math::exp(x), exp);
        same(Math::ln(x), ln);
        same(Math::tanh(x), tanh);
        same(Math::erf(x), erf);
        same(Math::normal_cdf(x), cdf);
        let wide = f64::from(x);
        same(Math::exp(wide), exp);
        same(Math::ln(wide) as f32, ln);
        same(Math::tanh(wide), tanh);
        same(Math::erf(wide), erf);
        same(Math::normal_cdf(wide), cdf);
    }
    for x in [INF, -INF, f32::NAN] {
        same(Math::sin(x), f32::NAN);
        same(Math::cos(x), f32::NAN);
        same(Math::sin(f64::from(x)), f32::NAN);
        same(Math::cos(f64::from(x)), f32::NAN);
    }
    same(Math::sin(-0.0f32), -0.0f32);
    same(Math::sin(-0.0f64), -0.0f64);
    same(Math::cos(0.0f32), 1.0f32);
    same(Math::ln(1.0f32), 0.0f32);
    same(Math::ln(1.0f64), 0.0f64);
    // Saturation is reached, and tanh and erf never exceed 1 (`same` above; here just before it).
    same(Math::tanh(9.5f32), 1.0f32);
    same(Math::erf(4.0f32), 1.0f32);
    // Tiny arguments, denormals included.
    for x in [1e-10f32, -1e-30, 1e-40, f32::from_bits(1)] {
        same(Math::tanh(x), x);
        let erf = f64::from(x) * std::f64::consts::FRAC_2_SQRT_PI;
        let one_unit = erf.abs() * f64::from(f32::EPSILON) + f64::from(f32::from_bits(1));
        assert!((f64::from(Math::erf(x)) - erf).abs() <= one_unit);
        same(Math::sin(x), x);
    }
    // Gradual underflow, and the last finite exponential.
    assert!(Math::exp(-100.0f32) > 0.0 && Math::exp(-700.0f64 - 40.0) > 0.0);
    assert!(Math::exp(88.72f32).is_finite() && Math::exp(709.78f64).is_finite());
}

#[test]
fn selections() {
    fn check<T: Math>() {
        let (one, nan) = (T::ONE, T::of(f64::NAN));
        let two = one + one;
        assert!(one.max(two) == two && two.max(one) == two && one.min(two) == one && two.min(one) == one);
        for (a, b) in [(nan, one), (one, nan), (nan, nan)] {
            assert!(a.max(b) != a.max(b) && a.min(b) != a.min(b));
        }
        assert!((-two).abs() == two && T::of(4.0).sqrt() == two && T::of(4.0).rsqrt() == two.recip());
        assert!(one.is_finite() && !nan.is_finite() && !one.div(T::ZERO).is_finite());
        assert!(two.pow(T::of(3.0)) == T::of(8.0) && T::ZERO.exp() == one);
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn double_erf_and_normal_cdf_against_mpmath() {
    let at = |table: &[(f64, f64)], x: f64| table.iter().find(|p| p.0 == x).map_or(f64::NAN, |p| p.1);
    let erf = worst_f64("erf", ERF.iter().map(|p| p.0), double::erf, |x| at(ERF, x));
    let odd = worst_f64("erf(-x)", ERF.iter().map(|p| p.0), |x| -double::erf(-x), |x| at(ERF, x));
    let cdf = worst_f64("normal_cdf", CDF.iter().map(|p| p.0), double::normal_cdf, |x| at(CDF, x));
    assert!(erf <= 3.1e-16 && odd <= 3.1e-16);
    assert!(cdf <= 6e-16);
}

#[test]
fn double_exp_ln_tanh_sin_cos_against_std() {
    let count = 1_000_000;
    let exp = worst_f64("exp", grid(-708.3, 709.7, count), double::exp, f64::exp).max(worst_f64(
        "exp",
        grid(-1.0, 1.0, count),
        double::exp,
        f64::exp,
    ));
    assert!(exp <= 3e-16);
    let ln = worst_f64("ln", grid(1e-3, 3.0, count), double::ln, f64::ln).max(worst_f64(
        "ln",
        grid(-744.0, 709.0, count).map(f64::exp),
        double::ln,
        f64::ln,
    ));
    assert!(ln <= 3e-16);
    let tanh = worst_f64("tanh", grid(-22.0, 22.0, count), double::tanh, f64::tanh).max(worst_f64(
        "tanh",
        grid(-40.0, 0.0, count).map(f64::exp),
        double::tanh,
        f64::tanh,
    ));
    assert!(tanh <= 7e-16);
    let points = || grid(-20.0, 20.0, count).chain(grid(-1e6, 1e6, count));
    let turns = (1..=600_000).map(|k| f64::from(k) * std::f64::consts::FRAC_PI_2);
    let sin = worst_f64("sin", points().chain(turns.clone()), double::sin, f64::sin);
    let cos = worst_f64("cos", points().chain(turns), double::cos, f64::cos);
    assert!(sin <= 4e-16 && cos <= 4e-16);
    // Denormal results.
    for x in grid(-745.5, -708.0, 10_000) {
        assert!((double::exp(x) - x.exp()).abs() <= f64::from_bits(1), "exp {x}");
    }
}

/// A hash of the results over a fixed set of arguments: another instruction set, a contraction into FMA or another
/// order of operations would change it. The value is the same in debug, release and target-cpu=native builds.
#[test]
fn the_bytes_are_fixed() {
    fn mix(hash: u64, bits: u64) -> u64 {
        (hash ^ bits).wrapping_mul(0x0000_0100_0000_01b3)
    }
    // Slices, so that the loops vectorise as they do in kernels.
    let xs: Vec<f32> = (0..u32::MAX).step_by(60_013).map(f32::from_bits).filter(|x| !x.is_nan()).collect();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    macro_rules! over {
        ($($f:expr),*) => { $(
            let mut ys = vec![0.0f32; xs.len()];
            for (y, &x) in ys.iter_mut().zip(&xs) {
                *y = $f(x);
            }
            let mut zs = vec![0.0f64; xs.len()];
            for (z, &x) in zs.iter_mut().zip(&xs) {
                *z = $f(f64::from(x));
            }
            hash = ys.iter().filter(|y| !y.is_nan()).fold(hash, |h, y| mix(h, y.to_bits().into()));
            hash = zs.iter().filter(|z| !z.is_nan()).fold(hash, |h, z| mix(h, z.to_bits()));
        )* };
    }
    over!(Math::exp, Math::ln, Math::tanh, Math::erf, Math::normal_cdf, Math::sin, Math::cos, Math::rsqrt);
    println!("hash {hash:#018x}");
    assert_eq!(hash, 0x5ff3_a18a_21e5_cde0);
}
