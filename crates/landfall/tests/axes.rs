//! Methods that name an axis: from the front and from the end, axes that come and go, parts, and an index that is broadcast.

use landfall::{All, DType, Engine, Error, Graph, HostTensor, Program, State, StateSpec, Value, grad};
use std::sync::Arc;

fn graph() -> Graph {
    Graph::new(&Arc::new(StateSpec::new()))
}

/// The value that is built of `x`, `f32[2, 4]` with the numbers from 0 on, and the gradient of the sum of its squares.
fn computed(
    build: impl Fn(&Graph, Value) -> Result<Value, Error>,
) -> Result<(HostTensor, HostTensor), Error> {
    let (engine, g) = (Engine::cpu_with_threads(1)?, graph());
    let x = g.input("x", DType::F32, [2, 4]);
    let y = build(&g, x)?;
    g.output("y", y);
    g.output("slope", grad(&g, g.sum(g.square(y)?, All)?, &[("x".to_owned(), x)])?[0]);
    let mut state = State::new(&engine, g.state_spec())?;
    let mut program = Program::compile(&engine, &state, "axes", &g)?;
    program.write("x", &(0..8u8).map(f32::from).collect::<Vec<_>>())?;
    program.run(&mut state)?;
    Ok((program.read_host("y")?, program.read_host("slope")?))
}

fn twice(times: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..8).map(|i| 2.0 * times(i) * i as f64).collect()
}

#[test]
fn axes_count_from_both_ends() -> Result<(), Error> {
    let g = graph();
    let x = g.input("x", DType::F32, [2, 3, 4]);
    assert_eq!(g.slice(x, -1, 1, 2)?, g.slice(x, 2, 1, 2)?);
    assert_eq!(g.concat(&[x, x], -2)?, g.concat(&[x, x], 1)?);
    assert_eq!(g.var(x).slice(-3, 1, 1)?.value(), g.slice(x, 0, 1, 1)?);
    assert_eq!(g.unsqueeze(x, -1)?, g.reshape(x, [2, 3, 4, 1])?);
    assert_eq!(g.unsqueeze(x, -4)?, g.reshape(x, [1, 2, 3, 4])?);
    assert_eq!(g.stack(&[x, x], -1)?, g.stack(&[x, x], 3)?);
    let row = g.slice(x, 1, 2, 1)?;
    assert_eq!(g.squeeze(row, -2)?, g.squeeze(row, 1)?);
    assert_eq!(g.shape(g.squeeze(row, 1)?).dims(), [2, 4]);
    assert_eq!(g.var(x).unsqueeze(0)?.squeeze(0)?.shape(), g.shape(x));
    Ok(())
}

#[test]
fn values_are_stacked_along_a_new_axis() -> Result<(), Error> {
    let (y, slope) = computed(|g, x| g.stack(&[x, g.neg(x)?], 1))?;
    assert_eq!(y.dims(), [2, 2, 4]);
    assert_eq!(y.data, [0., 1., 2., 3., -0., -1., -2., -3., 4., 5., 6., 7., -4., -5., -6., -7.]);
    assert_eq!(slope.data, twice(|_| 2.0));
    Ok(())
}

#[test]
fn a_value_is_cut_into_equal_parts() -> Result<(), Error> {
    let (y, slope) = computed(|g, x| {
        let [first, second] = g.chunk(x, -1)?;
        g.add(first, g.affine(second, 10.0, 0.0)?)
    })?;
    assert_eq!((y.dims(), &y.data[..]), (&[2, 2][..], &[20., 31., 64., 75.][..]));
    // Of y² by the first part 2·y, by the second 20·y.
    assert_eq!(slope.data, [40., 62., 400., 620., 128., 150., 1280., 1500.]);
    Ok(())
}

/// One index of a row picks whole rows of its sample, with gradients of what is picked twice.
#[test]
fn sizes_of_1_of_an_index_are_broadcast() -> Result<(), Error> {
    let picked = |g: &Graph, x| {
        // [2, 2, 2]: of each sample two rows of two numbers.
        let (x, index) = (g.reshape(x, [2, 2, 2])?, g.arange(DType::I64, 0, 1, 4)?);
        // 0, 0 of the first sample, 1, 1 of the second.
        let index = g.cast(g.greater(index, g.scalar(index, 1)?)?, DType::I64)?;
        g.gather(x, 1, g.reshape(index, [2, 2, 1])?)
    };
    let (y, slope) = computed(picked)?;
    assert_eq!((y.dims(), &y.data[..]), (&[2, 2, 2][..], &[0., 1., 0., 1., 6., 7., 6., 7.][..]));
    assert_eq!(slope.data, twice(|i| if [0, 1, 6, 7].contains(&i) { 2.0 } else { 0.0 }));
    Ok(())
}

/// A refusal names the method that was called, with its numbers.
#[test]
fn refusals_name_the_method() {
    let g = graph();
    let x = g.input("x", DType::F32, [2, 6]);
    let starts = |result: Result<Value, Error>, text: &str| {
        let told = result.expect_err("a wrong call").to_string();
        assert!(told.starts_with(text) && told.contains("axes.rs"), "{told}");
    };
    starts(g.slice(x, 2, 0, 1), "slice(f32[2, 6]): axis is 2, the rank is 2");
    starts(g.slice(x, -1, 4, 3), "slice(f32[2, 6]): slice of 3 from 4 in steps of 1 on axis 1 of size 6");
    starts(g.concat(&[x, x], -3), "concat(f32[2, 6]): axis is -3, the rank is 2");
    starts(g.concat(&[], 0), "concat(): takes at least 1 argument");
    starts(g.unsqueeze(x, 3), "unsqueeze(f32[2, 6]): axis is 3, the rank is 3");
    starts(g.squeeze(x, 0), "squeeze(f32[2, 6]): axis 0 has size 2; only an axis of size 1 can be squeezed");
    starts(g.stack(&[x, x], 4), "stack(f32[2, 6], f32[2, 6]): axis is 4, the rank is 3");
    let parts = g.chunk::<4>(x, 1).map(|[first, ..]| first);
    starts(parts, "chunk(f32[2, 6]): number of parts is 4; it must be a divisor of the size of the axis");
    starts(g.chunk::<0>(x, 1).map(|_| x), "chunk(f32[2, 6]): number of parts is 0");
    let most = g.largest(x, -1, 7).map(|(values, _)| values);
    starts(most, "largest(f32[2, 6]): k is 7; it must be at most the size of the axis");
    starts(g.one_hot(x, 3, DType::F32), "one_hot(f32[2, 6]): arg 0 is f32; it must be i64");
    let index = g.input("index", DType::I64, [3, 1]);
    starts(g.gather(x, 1, index), "gather(f32[2, 6], i64[3, 1]): arg 1 is [3, 1]; it must be [2, 1]");
    let other = graph();
    starts(g.slice(other.input("y", DType::F32, [9]), 0, 0, 1), "slice(): arg 0 is value 0 of graph");
}

/// The numbers of elements agree, so it is the sizes that a person is told of.
#[test]
fn host_data_of_other_sizes_is_told_so() {
    let (expected, given) =
        (landfall::Spec::new(DType::F32, [3, 4]), landfall::Spec::new(DType::F32, [3, 2, 2]));
    let told = Error::HostData { what: "x".to_owned(), expected, given }.to_string();
    assert_eq!(told, "x is f32[3, 4], the memory of the host is f32[3, 2, 2]; their sizes must be equal");
}
