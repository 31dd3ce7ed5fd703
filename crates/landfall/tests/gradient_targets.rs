//! Gradients with respect to any values of a graph are total derivatives: what the loss changes by when a value does, and with it all
//! that is made of it. Compared with central differences of graphs in which a number is added to each of these values.

use landfall::ops::Precision;
use landfall::rng::Rng;
use landfall::{
    All, DType, Engine, Error, Graph, HostTensor, Keep, Program, Shape, State, StateSpec, Value, grad,
    mixed_precision,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Random numbers of a seed.
struct Dice(Rng);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Rng::new(seed, 0))
    }
    fn below(&mut self, n: usize) -> usize {
        self.0.range(0..n.max(1))
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn unit(&mut self) -> f64 {
        2.0 * self.0.uniform() - 1.0
    }
}

/// What a value of a random graph is made by, of values before it.
#[derive(Debug, Clone)]
enum Made {
    Input(usize),
    Entry,
    Add(usize, usize),
    Mul(usize, usize),
    Tanh(usize),
    Sin(usize),
    Slice(usize, usize, usize, usize),
    Transposed(usize),
    Flat(usize),
    Concat(usize, usize),
    MatMul(usize, usize),
    Softmax(usize),
    LayerNorm(usize, usize, usize),
    Scan(usize, usize),
    Spread(usize),
}

impl Made {
    fn value(&self, g: &Graph, at: &[Value]) -> Result<Value, Error> {
        Ok(match *self {
            Self::Input(n) => g.input(&format!("x{n}"), DType::F64, [3, 3]),
            Self::Entry => g.entry("w")?,
            Self::Add(a, b) => g.add(at[a], at[b])?,
            Self::Mul(a, b) => g.mul(at[a], at[b])?,
            Self::Tanh(a) => g.tanh(at[a])?,
            Self::Sin(a) => g.sin(at[a])?,
            Self::Slice(a, axis, start, len) => g.slice(at[a], axis, start, len)?,
            Self::Transposed(a) => g.transpose(at[a])?,
            Self::Flat(a) => g.reshape(at[a], [g.shape(at[a]).elements()])?,
            Self::Concat(a, b) => g.concat(&[at[a], at[b]], 0)?,
            Self::MatMul(a, b) => g.matmul(at[a], at[b])?,
            Self::Softmax(a) => g.softmax(at[a], -1)?,
            Self::LayerNorm(x, w, b) => g.layer_norm(at[x], at[w], at[b], 1e-3)?,
            Self::Scan(start, over) => {
                let carried = g.sum(at[start], 1)?;
                let (_, all) = g.scan(&[carried], &[at[over]], |_, level, x| {
                    let next = g.sin(g.add(g.affine(level[0], 0.7, 0.0)?, x[0])?)?;
                    Ok((vec![next], vec![g.mul(next, level[0])?]))
                })?;
                all[0]
            }
            Self::Spread(a) => g.mul(at[a], g.prod(at[a], Keep(0))?)?,
        })
    }

    /// A random one of values of these shapes, if the dice name operands that fit.
    fn random(dice: &mut Dice, shapes: &[Shape]) -> Option<Self> {
        let any = |dice: &mut Dice| dice.below(shapes.len());
        let (a, b, c) = (any(dice), any(dice), any(dice));
        let (of, other) = (shapes[a].dims(), shapes[b].dims());
        let rank = of.len();
        let same = of == other;
        match dice.below(13) {
            0 if same => Some(Self::Add(a, b)),
            1 if same => Some(Self::Mul(a, b)),
            2 => Some(Self::Tanh(a)),
            3 => Some(Self::Sin(a)),
            4 => {
                let axis = dice.below(rank);
                let len = 2 + dice.below(of[axis].saturating_sub(2));
                (len < of[axis]).then(|| Self::Slice(a, axis, dice.below(of[axis] - len + 1), len))
            }
            5 if rank == 2 => Some(Self::Transposed(a)),
            6 if rank == 2 => Some(Self::Flat(a)),
            7 if same && of[0] < 9 => Some(Self::Concat(a, b)),
            8 if rank == 2 && other.len() == 2 && of[1] == other[0] => Some(Self::MatMul(a, b)),
            9 => Some(Self::Softmax(a)),
            10 if other.len() == 1 && of.last() == other.last() && shapes[c].dims() == other => {
                Some(Self::LayerNorm(a, b, c))
            }
            11 if rank == 2 && same => Some(Self::Scan(a, b)),
            12 if rank == 2 => Some(Self::Spread(a)),
            _ => None,
        }
    }
}

/// A random graph: its values, those that the loss reads with their weights, those whose gradients are asked for.
struct Random {
    made: Vec<Made>,
    read: Vec<usize>,
    targets: Vec<usize>,
}

/// A graph with what was asked for.
struct Built {
    graph: Graph,
    values: Vec<Value>,
    loss: Value,
}

impl Random {
    fn new(seed: u64, steps: usize, some: impl Fn(&Made) -> bool) -> Result<Self, Error> {
        let mut dice = Dice::new(seed);
        let mut random =
            Self { made: vec![Made::Input(0), Made::Input(1), Made::Entry], read: vec![], targets: vec![] };
        while random.made.len() < 3 + steps {
            let Built { graph, values, .. } = random.build(&[])?;
            let shapes: Vec<Shape> = values.iter().map(|&v| graph.shape(v)).collect();
            let Some(made) = Made::random(&mut dice, &shapes).filter(&some) else { continue };
            // An equal op on the same values is no value of its own.
            if !values.contains(&made.value(&graph, &values)?) {
                random.made.push(made);
            }
        }
        let n = random.made.len();
        random.read = (0..n).filter(|_| dice.one_in(3)).chain([n - 1]).collect();
        let Built { graph, values, loss } = random.build(&[])?;
        random.targets = (0..n).filter(|_| dice.one_in(2)).collect();
        let reaches = |&t: &usize| grad(&graph, loss, &[(String::new(), values[t])]).is_ok();
        random.targets.retain(reaches);
        Ok(random)
    }

    /// The graph, with an input added to each of these values.
    fn build(&self, moved: &[usize]) -> Result<Built, Error> {
        let mut spec = StateSpec::new();
        spec.add(
            "parameters",
            DType::F64,
            &[("w".to_owned(), [3, 3].into()), ("other".to_owned(), [3, 3].into())],
        )?;
        let g = Graph::new(&Arc::new(spec));
        let mut values = Vec::new();
        for (n, made) in self.made.iter().enumerate() {
            let mut value = made.value(&g, &values)?;
            if moved.contains(&n) {
                value = g.add(value, g.input(&format!("by {n}"), DType::F64, g.shape(value)))?;
            }
            values.push(value);
        }
        let mut loss = g.fill(DType::F64, [], 0.0)?;
        for (k, &n) in self.read.iter().enumerate() {
            let part = g.sum(g.sin(g.affine(values[n], 0.8, 0.1 * k as f64)?)?, All)?;
            loss = g.add(loss, g.affine(part, 1.0 + k as f64, 0.0)?)?;
        }
        Ok(Built { graph: g, values, loss })
    }

    fn named(&self, built: &Built) -> Vec<(String, Value)> {
        self.targets.iter().map(|&t| (format!("value {t}, {:?}", self.made[t]), built.values[t])).collect()
    }

    /// The direction in which a value is moved.
    fn direction(&self, target: usize, elements: usize) -> Vec<f64> {
        let mut dice = Dice::new(1000 + target as u64);
        (0..elements).map(|_| dice.unit()).collect()
    }
}

/// Runs a graph on the values of the random graphs' inputs, with what is given of others.
fn run(graph: &Graph, given: &HashMap<String, Vec<f64>>) -> Result<Program, Error> {
    let engine = Engine::cpu_with_threads(1)?;
    let mut state = State::new(&engine, graph.state_spec())?;
    let wave = |shift: f64| (0..9).map(|i| (1.3 * i as f64 + shift).sin()).collect::<Vec<f64>>();
    state.write("w", &wave(0.4))?;
    let mut program = Program::compile(&engine, &state, "gradients", graph)?;
    for (name, shift) in [("x0", 0.0), ("x1", 1.1)] {
        program.write(name, &wave(shift))?;
    }
    given.iter().try_for_each(|(name, values)| program.write(name, values))?;
    program.run(&mut state)?;
    Ok(program)
}

/// Compares the gradients of `loss` with differences, for each target in a direction of its own.
fn compared(
    random: &Random,
    context: &str,
    loss: impl Fn(&Built) -> Result<Value, Error>,
) -> Result<usize, Error> {
    let plain = random.build(&[])?;
    let named = random.named(&plain);
    let found = grad(&plain.graph, loss(&plain)?, &named)?;
    for ((name, _), v) in named.iter().zip(&found) {
        plain.graph.output(name, *v);
    }
    let program = run(&plain.graph, &HashMap::new())?;
    let moved = random.build(&random.targets)?;
    moved.graph.output("loss", loss(&moved)?);
    let by = |target: usize, factor: f64| -> Result<f64, Error> {
        let mut given = HashMap::new();
        for &t in &random.targets {
            let size = if t == target { factor } else { 0.0 };
            let direction = random.direction(t, moved.graph.shape(moved.values[t]).elements());
            given.insert(format!("by {t}"), direction.iter().map(|d| size * d).collect());
        }
        Ok(run(&moved.graph, &given)?.read::<f64>("loss")?[0])
    };
    for (&t, (name, _)) in random.targets.iter().zip(&named) {
        let gradient = program.read::<f64>(name)?;
        let direction = random.direction(t, gradient.len());
        let got: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        let step = 1e-4;
        // Of fourth order.
        let near = (by(t, step)? - by(t, -step)?) / (2.0 * step);
        let far = (by(t, 2.0 * step)? - by(t, -2.0 * step)?) / (4.0 * step);
        let want = (4.0 * near - far) / 3.0;
        let size = want.abs().max(1.0);
        assert!((got - want).abs() < 2e-7 * size, "{context}: {name}: {got}, differences give {want}");
    }
    Ok(random.targets.len())
}

#[test]
fn gradients_of_random_values_are_total_derivatives() -> Result<(), Error> {
    let mut count = 0;
    for seed in 0..60 {
        let random = Random::new(seed, 3 + seed as usize % 12, |_| true)?;
        count += compared(&random, &format!("seed {seed}"), |built| Ok(built.loss))?;
    }
    assert!(count > 150, "only {count} gradients were compared");
    Ok(())
}

/// The gradient of gradients, with respect to any values again.
#[test]
fn second_gradients_of_random_values_are_total_derivatives() -> Result<(), Error> {
    let mut count = 0;
    for seed in 0..40 {
        // Not of what has its result in its gradient, which moves with it; nor of what a backward pass makes too: equal values
        // are one.
        let some = |made: &Made| match made {
            Made::Tanh(_) | Made::Spread(_) | Made::LayerNorm(..) | Made::Softmax(_) => false,
            Made::Mul(..) | Made::Transposed(_) | Made::Slice(..) | Made::Flat(_) => false,
            Made::Input(_) | Made::Entry | Made::Add(..) | Made::Sin(_) => true,
            Made::Concat(..) | Made::MatMul(..) | Made::Scan(..) => true,
        };
        let mut random = Random::new(100 + seed, 3 + seed as usize % 7, some)?;
        let first = random.targets.clone();
        let slope = |built: &Built| {
            let named: Vec<_> = first.iter().map(|&t| (format!("value {t}"), built.values[t])).collect();
            let mut sum = built.graph.fill(DType::F64, [], 0.0)?;
            for (k, v) in grad(&built.graph, built.loss, &named)?.into_iter().enumerate() {
                let part = built.graph.sum(built.graph.cos(built.graph.affine(v, 0.3, k as f64)?)?, All)?;
                sum = built.graph.add(sum, part)?;
            }
            Ok(sum)
        };
        let built = random.build(&[])?;
        let sum = slope(&built)?;
        random.targets.retain(|&t| grad(&built.graph, sum, &[(String::new(), built.values[t])]).is_ok());
        count += compared(&random, &format!("seed {seed}"), slope)?;
    }
    assert!(count > 60, "only {count} gradients were compared");
    Ok(())
}

/// Builds a graph over `x` and gives the values of the gradients that it asks for.
fn found(
    x: &[f64],
    build: impl Fn(&Graph, Value) -> Result<(Value, Vec<Value>), Error>,
) -> Result<Vec<Vec<f64>>, Error> {
    let engine = Engine::cpu_with_threads(1)?;
    let spec = Arc::new(StateSpec::new());
    let mut state = State::new(&engine, &spec)?;
    let g = Graph::new(&spec);
    let (loss, targets) = build(&g, g.input("x", DType::F64, [x.len()]))?;
    let named: Vec<(String, Value)> = targets.iter().enumerate().map(|(i, &v)| (i.to_string(), v)).collect();
    for (i, v) in grad(&g, loss, &named)?.into_iter().enumerate() {
        g.output(&format!("gradient {i}"), v);
    }
    let mut program = Program::compile(&engine, &state, "gradients", &g)?;
    program.write("x", x)?;
    program.run(&mut state)?;
    (0..targets.len()).map(|i| program.read::<f64>(&format!("gradient {i}"))).collect()
}

#[test]
fn values_and_what_they_are_made_of() -> Result<(), Error> {
    // Σ h·x with h = x².
    let cube = |g: &Graph, x: Value| {
        let h = g.square(x)?;
        Ok((h, g.sum(g.mul(h, x)?, All)?))
    };
    let x = [1.0, 2.0, 3.0];
    let both = found(&x, |g, x| cube(g, x).map(|(h, loss)| (loss, vec![h, x])))?;
    assert_eq!(both, [vec![1.0, 2.0, 3.0], vec![3.0, 12.0, 27.0]]);
    // The loss itself, and a value twice.
    let itself = found(&x, |g, x| cube(g, x).map(|(_, loss)| (loss, vec![loss, x, x, loss])))?;
    assert_eq!(itself, [vec![1.0], vec![3.0, 12.0, 27.0], vec![3.0, 12.0, 27.0], vec![1.0]]);
    // A slice of a value, and the value.
    let part = found(&[1.0, 2.0, 3.0], |g, x| {
        let s = g.slice(x, 0, 1, 2)?;
        Ok((g.add(g.sum(g.square(s)?, All)?, g.sum(x, All)?)?, vec![x, s]))
    })?;
    assert_eq!(part, [vec![1.0, 5.0, 7.0], vec![4.0, 6.0]]);
    // A fused op of a value and of what is made of it, of a kind that its body makes too.
    let weights = [0.5, -1.0, 2.0];
    let row = |g: &Graph, x: Value| {
        let weight = g.sub(x, g.mean(x, Keep(0))?)?;
        let normed = g.layer_norm(x, weight, weight, 1e-3)?;
        Ok::<_, Error>((weight, g.sum(g.mul(normed, g.sin(x)?)?, All)?))
    };
    let by_itself = found(&weights, |g, x| row(g, x).map(|(weight, loss)| (loss, vec![weight])))?;
    let mean = weights.iter().sum::<f64>() / 3.0;
    let spread = (weights.iter().map(|w| (w - mean) * (w - mean)).sum::<f64>() / 3.0 + 1e-3).sqrt();
    for (i, w) in weights.iter().enumerate() {
        let want = ((w - mean) / spread + 1.0) * w.sin();
        assert!((by_itself[0][i] - want).abs() < 1e-12, "{by_itself:?}: {want}");
    }
    Ok(())
}

/// Where the loss does not depend on a value there is no gradient, and none of an integer.
#[test]
fn values_without_a_gradient_are_refused() -> Result<(), Error> {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let x = g.input("x", DType::F32, [3]);
    let whole = g.input("n", DType::I64, [3]);
    let unused = g.square(x)?;
    let held = g.detach(x);
    let loss = g.sum(g.mul(g.mul(x, held)?, g.cast(whole, DType::F32)?)?, All)?;
    let told = |name: &str, value| {
        let error =
            grad(&g, loss, &[("x".to_owned(), x), (name.to_owned(), value)]).expect_err("no gradient");
        error.to_string()
    };
    assert!(
        matches!(grad(&g, loss, &[("h".to_owned(), unused)]), Err(Error::NoPath { name, .. }) if name == "h")
    );
    assert!(told("h", unused).contains('h'));
    assert!(
        told("n", whole).starts_with("grad(") && told("n", whole).contains("arg 2 is i64"),
        "{}",
        told("n", whole)
    );
    // What is held constant has a gradient of its own, which does not go on.
    let named = [("held".to_owned(), held), ("x".to_owned(), x)];
    assert_eq!(grad(&g, loss, &named)?.len(), 2);
    assert!(matches!(grad(&g, g.sum(held, All)?, &named), Err(Error::NoPath { name, .. }) if name == "x"));
    Ok(())
}

/// Of a value that mixed precision gives in two dtypes, and of a view that is taken of both, the gradient is that of both.
#[test]
fn gradients_in_mixed_precision_are_total_derivatives() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(1)?;
    let spec = Arc::new(StateSpec::new());
    let mut results: Vec<Vec<HostTensor>> = Vec::new();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let g = Graph::new(&spec);
        let (x, w) = (g.input("x", DType::F32, [8, 8]), g.input("w", DType::F32, [8, 8]));
        let h = g.matmul(x, w)?;
        let part = g.slice(h, 0, 2, 4)?;
        let rows = g.slice(x, 0, 0, 4)?;
        let deep = g.matmul(g.tanh(part)?, w)?;
        let side = g.add(g.sum(g.square(part)?, All)?, g.sum(g.square(rows)?, All)?)?;
        let both = g.add(g.sum(deep, All)?, g.sum(g.matmul(rows, w)?, All)?)?;
        let loss = g.add(g.add(side, both)?, g.sum(g.sin(h)?, All)?)?;
        let mixed = mixed_precision(&g, dtype, Precision::Strict)?;
        let new = mixed.graph();
        let named =
            [("x", x), ("w", w), ("h", h), ("part", part), ("rows", rows), ("deep", deep), ("loss", loss)];
        let named = named.map(|(name, v)| Ok::<_, Error>((name.to_owned(), mixed.value(v)?)));
        let named = named.into_iter().collect::<Result<Vec<_>, _>>()?;
        for ((name, v), found) in named.iter().zip(grad(new, mixed.value(loss)?, &named)?) {
            assert_eq!(new.spec(found), new.spec(*v), "{name}");
            new.output(&format!("of {name}"), found);
        }
        let mut state = State::new(&engine, &spec)?;
        let mut program = Program::compile(&engine, &state, "gradients", new)?;
        for (name, shift) in [("x", 0.3), ("w", 1.7)] {
            program
                .write(name, &(0..64).map(|i| (0.9 * i as f32 + shift).sin() * 0.5).collect::<Vec<f32>>())?;
        }
        program.run(&mut state)?;
        results.push(
            named.iter().map(|(n, _)| program.read_host(&format!("of {n}"))).collect::<Result<_, _>>()?,
        );
    }
    let wide = results.remove(0);
    for (dtype, low) in [DType::BF16, DType::F16].into_iter().zip(results) {
        for (i, (low, wide)) in low.iter().zip(&wide).enumerate() {
            assert_eq!(low.spec, wide.spec);
            let size = wide.data.iter().fold(1.0f64, |most, w| most.max(w.abs()));
            for (l, w) in low.data.iter().zip(&wide.data) {
                assert!((l - w).abs() < 8.0 * dtype.epsilon() * size, "{dtype}, target {i}: {l}, in f32 {w}");
            }
        }
    }
    Ok(())
}

/// Values inside of recurrent layers' results and their inputs, which have several results each.
#[test]
fn gradients_of_recurrent_layers_are_total_derivatives() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(1)?;
    let spec = Arc::new(StateSpec::new());
    // Adds `by` to the first layer's result.
    let build = |g: &Graph, moved: bool| {
        let x = g.input("x", DType::F64, [2, 4, 9]);
        let (h0, bias) = (g.fill(DType::F64, [2, 3], 0.1)?, g.fill(DType::F64, [9], 0.05)?);
        let weight = g.affine(g.reshape(g.input("weight", DType::F64, [27]), [9, 3])?, 0.8, 0.0)?;
        let mut first = g.gru(x, h0, weight, bias)?;
        if moved {
            first = g.add(first, g.input("by", DType::F64, [2, 4, 3]))?;
        }
        let wide = g.concat(&[first, g.sin(first)?, g.mul(first, first)?], 2)?;
        let last = g.gru(wide, g.reshape(g.slice(first, 1, 3, 1)?, [2, 3])?, weight, bias)?;
        Ok::<_, Error>((g.sum(g.square(last)?, All)?, first, x))
    };
    let run = |g: &Graph, by: Option<f64>| {
        let mut state = State::new(&engine, &spec)?;
        let mut program = Program::compile(&engine, &state, "gradients", g)?;
        program.write("x", &(0..72).map(|i| (0.7 * f64::from(i)).sin()).collect::<Vec<_>>())?;
        program.write("weight", &(0..27).map(|i| (1.9 * f64::from(i)).cos()).collect::<Vec<_>>())?;
        if let Some(by) = by {
            program.write("by", &(0..24).map(|i| by * (0.3 * f64::from(i)).cos()).collect::<Vec<_>>())?;
        }
        program.run(&mut state)?;
        Ok::<_, Error>(program)
    };
    let g = Graph::new(&spec);
    let (loss, first, x) = build(&g, false)?;
    let found = grad(&g, loss, &[("first".to_owned(), first), ("x".to_owned(), x)])?;
    g.output("gradient", found[0]);
    g.output("of x", found[1]);
    let gradient = run(&g, None)?.read::<f64>("gradient")?;
    let got: f64 = gradient.iter().enumerate().map(|(i, g)| g * (0.3 * i as f64).cos()).sum();
    let moved = Graph::new(&spec);
    moved.output("loss", build(&moved, true)?.0);
    let by = |by| Ok::<_, Error>(run(&moved, Some(by))?.read::<f64>("loss")?[0]);
    let want = (by(1e-5)? - by(-1e-5)?) / 2e-5;
    assert!((got - want).abs() < 1e-7 * want.abs().max(1.0), "{got} {want}");
    Ok(())
}
