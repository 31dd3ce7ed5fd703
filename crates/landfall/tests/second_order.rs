//! Gradients of gradients through functions of several ops, at ties and through steps, and what is said where there are none.

use landfall::{
    All, DType, Engine, Error, Graph, Interpolation, Keep, Labels, Program, State, StateSpec, Value, Windows,
    grad, ops,
};
use std::sync::Arc;

type Build = fn(&Graph, Value) -> Result<Value, Error>;

fn named(x: Value) -> [(String, Value); 1] {
    [("x".to_owned(), x)]
}

/// A program over `x: [3, 6]`.
struct Compiled {
    program: Program,
    state: State,
    results: usize,
}

impl Compiled {
    fn new(build: impl Fn(&Graph, Value) -> Result<Vec<Value>, Error>) -> Result<Self, Error> {
        let engine = Engine::cpu_with_threads(1)?;
        let spec = Arc::new(StateSpec::new());
        let (state, g) = (State::new(&engine, &spec)?, Graph::new(&spec));
        let results = build(&g, g.input("x", DType::F64, [3, 6]))?;
        for (i, &value) in results.iter().enumerate() {
            g.output(&format!("out{i}"), value);
        }
        let program = Program::compile(&engine, &state, "second order", &g)?;
        Ok(Self { program, state, results: results.len() })
    }

    fn run(&mut self, x: &[f64]) -> Result<Vec<Vec<f64>>, Error> {
        self.program.write("x", x)?;
        self.program.run(&mut self.state)?;
        (0..self.results).map(|i| self.program.read::<f64>(&format!("out{i}"))).collect()
    }
}

/// Runs a graph that is built over `x`, and reads these outputs.
fn run(
    x: &[f64],
    build: impl Fn(&Graph, Value) -> Result<Vec<Value>, Error>,
) -> Result<Vec<Vec<f64>>, Error> {
    Compiled::new(build)?.run(x)
}

/// A number made of the first gradient, and its gradient.
fn both(build: Build) -> Result<Compiled, Error> {
    Compiled::new(|g, x| {
        let y = build(g, x)?;
        // A loss whose slope differs from element to element.
        let slope = grad(g, g.sum(g.mul(y, g.sin(y)?)?, All)?, &named(x))?[0];
        let number = g.sum(g.mul(slope, g.cos(g.affine(slope, 0.7, 0.2)?)?)?, All)?;
        Ok(vec![number, grad(g, number, &named(x))?[0]])
    })
}

const FUNCTIONS: &[(&str, Build)] = &[
    ("abs", |g, x| g.mul(g.abs(x)?, x)),
    ("maximum", |g, x| g.maximum(g.square(x)?, g.affine(x, 0.5, 0.1)?)),
    ("minimum", |g, x| g.minimum(g.square(x)?, g.affine(x, 0.5, 0.1)?)),
    ("clamp", |g, x| g.clamp(g.mul(x, g.square(x)?)?, -0.8, 0.9)),
    ("sign", |g, x| g.mul(g.sign(x)?, g.exp(x)?)),
    ("floor", |g, x| g.mul(g.floor(g.affine(x, 3.0, 0.0)?)?, g.sin(x)?)),
    ("a cast to integers and back", |g, x| {
        let whole = g.cast(g.cast(g.affine(x, 3.0, 0.0)?, DType::I64)?, DType::F64)?;
        g.mul(whole, g.sin(x)?)
    }),
    ("huber", |g, x| {
        let size = g.abs(x)?;
        let inside = g.less(size, g.scalar(size, 0.7)?)?;
        g.select(inside, g.affine(g.square(x)?, 0.5, 0.0)?, g.affine(size, 0.7, -0.245)?)
    }),
    ("cosine similarity", |g, x| g.cosine_similarity(x, g.sin(g.affine(x, 2.0, 0.3)?)?, -1, 1e-8)),
    ("norm", |g, x| g.norm(x, -1)),
    ("logsumexp", |g, x| g.logsumexp(x, -1)),
    ("log softmax", |g, x| g.log_softmax(x, -1)),
    ("max", |g, x| g.max(g.square(x)?, -1)),
    ("min", |g, x| g.min(g.square(x)?, 0)),
    ("prod", |g, x| g.prod(x, -1)),
    ("variance", |g, x| g.variance(x, -1, 1)),
    ("standard deviation", |g, x| g.standard_deviation(x, -1, 1)),
    ("cumsum", |g, x| g.cumsum(g.square(x)?, 1)),
    ("sort", |g, x| Ok(g.sort(g.square(x)?, 1, true)?.0)),
    ("largest", |g, x| Ok(g.largest(g.square(x)?, 1, 2)?.0)),
    ("rms norm", |g, x| g.rms_norm(x, g.fill(DType::F64, [6], 1.2)?, 1e-6)),
    ("group norm", |g, x| {
        let (weight, bias) = (g.fill(DType::F64, [6], 1.2)?, g.fill(DType::F64, [6], 0.3)?);
        g.group_norm(x, 2, weight, bias, 1e-5)
    }),
    ("batch norm", |g, x| {
        let (weight, bias) = (g.fill(DType::F64, [6], 1.2)?, g.fill(DType::F64, [6], 0.3)?);
        Ok(g.op(ops::BatchNorm { eps: 1e-5 }, &[x, weight, bias])?[0])
    }),
    ("max pool", |g, x| g.max_pool(g.square(x)?, Windows::of(3).stride(2).padding(1))),
    ("mean pool", |g, x| g.mean_pool(g.square(x)?, Windows::of(3).stride(2).padding(1))),
    ("conv1d", |g, x| {
        let weight = g.reshape(g.sin(g.slice(x, 0, 0, 1)?)?, [2, 1, 3])?;
        g.conv1d(g.reshape(x, [3, 1, 6])?, weight, None, Windows::of(3).padding(1), 1)
    }),
    ("attention", |g, x| {
        let x = g.reshape(x, [1, 1, 3, 6])?;
        g.scaled_dot_product_attention(x, g.sin(x)?, g.square(x)?, landfall::HeadsFirst::default())
    }),
    ("cross entropy", |g, x| g.cross_entropy(x, g.arange(DType::I64, 1, 2, 3)?, Labels::default())),
    ("smoothed cross entropy", |g, x| {
        g.cross_entropy(x, g.arange(DType::I64, 1, 2, 3)?, Labels { smoothing: 0.1, ..Labels::default() })
    }),
    ("nearest elements", |g, x| g.interpolate(g.square(x)?, -1, 9, Interpolation::Nearest, false)),
    ("interpolation", |g, x| g.interpolate(g.square(x)?, 0, 5, Interpolation::Linear, false)),
    ("interpolation between corners", |g, x| g.interpolate(g.square(x)?, -1, 4, Interpolation::Linear, true)),
];

#[test]
fn gradients_of_gradients_are_those_of_differences() -> Result<(), Error> {
    let x: Vec<f64> = (0..18).map(|i| (1.7 * f64::from(i) + 0.3).sin() * 1.3).collect();
    for &(name, build) in FUNCTIONS {
        let mut both = both(build).unwrap_or_else(|e| panic!("{name}: {e}"));
        let got = both.run(&x)?.swap_remove(1);
        for (at, got) in got.into_iter().enumerate() {
            let mut moved = |by: f64| -> Result<f64, Error> {
                let mut x = x.clone();
                x[at] += by;
                Ok(both.run(&x)?[0][0])
            };
            // Of fourth order.
            let near = (moved(1e-4)? - moved(-1e-4)?) / 2e-4;
            let far = (moved(2e-4)? - moved(-2e-4)?) / 4e-4;
            let want = (4.0 * near - far) / 3.0;
            assert!(
                (got - want).abs() <= 1e-8 * (1.0 + want.abs()),
                "{name} at {at}: {got}, differences give {want}"
            );
        }
    }
    Ok(())
}

/// The gradient of a second gradient, of ops with gradient kernels: each is made of arguments that are made of each other.
#[test]
fn gradients_to_third_order_are_those_of_differences() -> Result<(), Error> {
    let x: Vec<f64> = (0..18).map(|i| (1.7 * f64::from(i) + 0.3).sin() * 1.3).collect();
    let functions: [(&str, Build); 5] = [
        ("unit rows", |g, x| g.op1(ops::L2Norm { eps: 0.5, scaled: false }, &[x])),
        ("layer norm", |g, x| {
            let weight = g.sin(g.reshape(g.slice(x, 0, 0, 1)?, [6])?)?;
            g.layer_norm(x, weight, weight, 0.1)
        }),
        ("attention", |g, x| {
            let x = g.reshape(x, [1, 1, 3, 6])?;
            g.scaled_dot_product_attention(x, g.sin(x)?, x, landfall::HeadsFirst::default())
        }),
        ("cross entropy", |g, x| g.cross_entropy(x, g.arange(DType::I64, 1, 2, 3)?, Labels::default())),
        ("squared error", |g, x| g.op1(ops::Mse, &[g.sin(x)?, x])),
    ];
    for (name, build) in functions {
        let mut third = Compiled::new(|g, x| {
            let y = build(g, x)?;
            let mut number = g.sum(g.mul(y, g.sin(y)?)?, All)?;
            for _ in 0..2 {
                let slope = grad(g, number, &named(x))?[0];
                number = g.sum(g.mul(slope, g.cos(g.affine(slope, 0.7, 0.2)?)?)?, All)?;
            }
            Ok(vec![number, grad(g, number, &named(x))?[0]])
        })?;
        let got = third.run(&x)?.swap_remove(1);
        let size = got.iter().fold(1.0f64, |most, g| most.max(g.abs()));
        for (at, got) in got.into_iter().enumerate() {
            let mut moved = |by: f64| -> Result<f64, Error> {
                let mut x = x.clone();
                x[at] += by;
                Ok(third.run(&x)?[0][0])
            };
            let near = (moved(1e-4)? - moved(-1e-4)?) / 2e-4;
            let far = (moved(2e-4)? - moved(-2e-4)?) / 4e-4;
            let want = (4.0 * near - far) / 3.0;
            assert!((got - want).abs() <= 1e-7 * size, "{name} at {at}: {got}, differences give {want}");
        }
    }
    Ok(())
}

/// A product is a polynomial: where elements are zero its derivatives are those of a polynomial too, to third order.
#[test]
fn a_product_with_zeros_has_the_derivatives_of_a_polynomial() -> Result<(), Error> {
    // No zero, one, two and three of them in a column of three rows, and the whole of it.
    let x = [2.0, 0.0, 0.0, 0.0, 3.0, -1.5, 0.5, 4.0, 0.0, 0.0, -2.0, 0.0, 3.0, 1.5, 2.0, 0.0, 0.0, 1.0];
    // The sum over tuples of `order` different elements of the product of all others, each of which starts with a given element.
    fn terms(x: &[f64], gone: &mut Vec<usize>, order: usize) -> f64 {
        if gone.len() == order {
            return (0..x.len()).filter(|i| !gone.contains(i)).map(|i| x[i]).product();
        }
        let mut sum = 0.0;
        for i in (0..x.len()).filter(|i| !gone.contains(i)).collect::<Vec<_>>() {
            gone.push(i);
            sum += terms(x, gone, order);
            gone.pop();
        }
        sum
    }
    for over in [vec![0], vec![1], vec![0, 1]] {
        let slopes = run(&x, |g, x| {
            let mut number = g.sum(g.prod(x, &over[..])?, All)?;
            let mut slopes = Vec::new();
            for _ in 0..3 {
                slopes.push(grad(g, number, &named(x))?[0]);
                number = g.sum(slopes[slopes.len() - 1], All)?;
            }
            Ok(slopes)
        })?;
        for (order, slope) in slopes.iter().enumerate() {
            for at in 0..18 {
                let group: Vec<usize> = match over[..] {
                    [0] => (0..3).map(|r| r * 6 + at % 6).collect(),
                    [1] => (0..6).map(|c| at / 6 * 6 + c).collect(),
                    _ => (0..18).collect(),
                };
                let place = group.iter().position(|&i| i == at).expect("its own group");
                let values: Vec<f64> = group.iter().map(|&i| x[i]).collect();
                let want = terms(&values, &mut vec![place], order + 1);
                assert!(
                    (slope[at] - want).abs() <= 1e-12 * want.abs(),
                    "{over:?} at {at}: {slope:?}, {want}"
                );
            }
        }
    }
    Ok(())
}

/// The subgradients that PyTorch takes.
#[test]
fn ties_share_the_gradient_to_both_orders() -> Result<(), Error> {
    let x = [0.0, 1.0, 1.0, 2.0, 2.0, 2.0, -1.0, -1.0, 3.0, 3.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    let first_and_second = |build: Build| {
        run(&x, |g, x| {
            let first = grad(g, g.sum(g.square(build(g, x)?)?, All)?, &named(x))?[0];
            Ok(vec![first, grad(g, g.sum(first, All)?, &named(x))?[0]])
        })
    };
    let abs = first_and_second(|g, x| g.abs(x))?;
    assert_eq!(abs[0], x.map(|x| 2.0 * x));
    assert_eq!(abs[1], x.map(|x: f64| if x == 0.0 { 0.0 } else { 2.0 }));
    // Half of 2x to each of two equal values; the half moves by a half of each.
    let both = first_and_second(|g, x| g.maximum(x, g.affine(x, 1.0, 0.0)?))?;
    assert_eq!(both, [x.map(|x| 2.0 * x), x.map(|_| 2.0)]);
    let of_one = run(&x, |g, x| {
        let other = g.detach(x);
        let first = grad(g, g.sum(g.square(g.maximum(x, other)?)?, All)?, &named(x))?[0];
        Ok(vec![first, grad(g, g.sum(first, All)?, &named(x))?[0]])
    })?;
    assert_eq!(of_one, [x.map(|x| x), x.map(|_| 0.5)]);
    let most = first_and_second(|g, x| g.max(x, Keep(-1)))?;
    assert_eq!(most[0][..6], [0.0, 0.0, 0.0, 4.0 / 3.0, 4.0 / 3.0, 4.0 / 3.0]);
    for (got, want) in most[1].iter().zip([0.0, 0.0, 0.0, 2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0]) {
        assert!((got - want).abs() < 1e-15, "{got}, it must be {want}");
    }
    Ok(())
}

/// Zeros where the loss depends on a value through steps alone; an error where it does not depend on it.
#[test]
fn steps_give_zeros_and_no_dependence_an_error() -> Result<(), Error> {
    let steps: [Build; 8] = [
        |g, x| g.sign(x),
        |g, x| g.floor(x),
        |g, x| g.ceil(x),
        |g, x| g.round(x),
        |g, x| g.cast(g.greater(x, g.scalar(x, 0.0)?)?, DType::F64),
        |g, x| g.cast(g.cast(x, DType::I32)?, DType::F64),
        |g, x| g.cast(g.argsort(x, -1, false)?, DType::F64),
        |g, x| g.select(g.is_finite(x)?, g.fill(DType::F64, [3, 6], 2.0)?, g.fill(DType::F64, [3, 6], 1.0)?),
    ];
    for build in steps {
        let slope = run(&[0.7; 18], |g, x| grad(g, g.sum(g.square(build(g, x)?)?, All)?, &named(x)))?;
        assert_eq!(slope, [vec![0.0; 18]]);
    }
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let (x, other) = (g.input("x", DType::F64, [3]), g.input("other", DType::F64, [3]));
    let loss = g.sum(g.mul(x, g.detach(other))?, All)?;
    let (refused, line) = (grad(&g, loss, &[("other".to_owned(), other)]), line!());
    let text = refused.expect_err("no path").to_string();
    let want = "the loss does not depend on other: no gradient path leads to it";
    assert!(text.starts_with(want) && text.ends_with(&format!("({}:{line})", file!())), "{text}");
    Ok(())
}

/// An op without a gradient is named with the value, the reason and the line of whoever called it, also inside of a function of several
/// ops; and `Debug` of an error, which `main` prints, is its text.
#[test]
fn errors_name_the_value_and_the_callers_line() -> Result<(), Error> {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let x = g.input("x", DType::F64, [3]);
    let smooth = |g: &Graph, x| g.op1(ops::GlobalNorm, &[x]);
    let (scale, line) =
        (g.composed("scaled", [x], |[x]| g.op1(ops::Broadcast::default(), &[smooth(&g, x)?]))?, line!());
    let scale = g.name(scale, "scale");
    let refused =
        grad(&g, g.sum(g.mul(x, scale)?, All)?, &[("weights".to_owned(), x)]).expect_err("no gradient");
    let text = refused.to_string();
    let start =
        "the gradient with respect to weights runs through scale: broadcast(f64[]): not differentiable: ";
    assert!(text.starts_with(start) && text.ends_with(&format!("({}:{line})", file!())), "{text}");
    assert_eq!(format!("{refused:?}"), text);
    let Error::Gradient { parameter, through, cause } = refused else { panic!("another error: {text}") };
    assert_eq!((parameter.as_str(), through.as_str(), cause.op), ("weights", "scale", "broadcast"));
    assert_eq!(format!("{cause:?}"), cause.to_string());
    // An op of a function of several ops is of the line that called the function.
    let (wrong, line) = (g.rms_norm(x, g.input("w", DType::F32, [3]), 1e-6), line!());
    let text = format!("{:?}", wrong.expect_err("two dtypes"));
    assert!(text.starts_with("rms_norm(") && text.ends_with(&format!("({}:{line})", file!())), "{text}");
    Ok(())
}
