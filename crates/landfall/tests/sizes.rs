//! Sizes, places and counts at the ends of what numbers hold: views, methods of graphs, tensors and states are right with them
//! or refuse them in words. (The suite does the same with the attributes and arguments of each op.)

use landfall::ops::{AttributeValue, Given, Method, Parameter, method, methods};
use landfall::{
    DType, Engine, Error, Graph, HostTensor, Layout, MAX_ELEMENTS, Program, Rule, Shape, State, StateSpec,
    Value,
};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const SIZES: &[usize] = &[
    0,
    1,
    2,
    3,
    5,
    (1 << 31) - 1,
    1 << 32,
    1 << 40,
    MAX_ELEMENTS - 1,
    MAX_ELEMENTS,
    1 << 62,
    usize::MAX - 1,
    usize::MAX,
];

const INTEGERS: &[i64] = &[
    i64::MIN,
    -(1 << 31),
    -1,
    0,
    1,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    1 << 40,
    1 << 48,
    1 << 62,
    i64::MAX - 1,
    i64::MAX,
];

/// Where the elements of a layout may lie, in numbers that hold everything: the first, and one past the last.
fn reach(layout: &Layout) -> (u128, u128) {
    let steps = layout.shape().dims().iter().zip(layout.strides());
    let last: u128 = steps.map(|(&d, &s)| (d as u128).saturating_sub(1) * s as u128).sum();
    let first = layout.offset() as u128;
    (first, if layout.shape().elements() == 0 { first } else { first + last + 1 })
}

/// That a view lies within the layout that it is of, and that its numbers say so.
fn within(view: &Layout, of: &Layout, what: &str) {
    let (own, whole) = (reach(view), reach(of));
    if view.shape().elements() > 0 {
        assert!(whole.0 <= own.0 && own.1 <= whole.1, "{what}: {view:?} of {of:?}");
    }
    let span = view.span();
    assert_eq!((span.start as u128, span.end as u128), own, "{what}");
}

#[test]
fn views_lie_within_what_they_are_of() {
    let strided = Layout::strided([3, 4].into(), &[7, 2], 5).expect("positive strides");
    let bases = [
        Layout::contiguous([6].into()),
        Layout::contiguous([3, 4].into()),
        Layout::contiguous([1, 5].into()),
        Layout::contiguous([0, 4].into()),
        Layout::contiguous([MAX_ELEMENTS].into()),
        Layout::contiguous([1 << 24, 0, 1 << 24].into()),
        strided,
    ];
    for base in &bases {
        for axis in 0..base.shape().rank() {
            let size = base.shape().dims()[axis];
            for &start in SIZES {
                for &len in SIZES {
                    for &step in SIZES {
                        // The last element that the slice has.
                        let last = start as u128 + (len as u128).saturating_sub(1) * step as u128;
                        let fits = step > 0 && if len == 0 { start <= size } else { last < size as u128 };
                        let what = format!("slice({axis}, {start}, {len}, {step})");
                        match base.slice(axis, start, len, step) {
                            Ok(view) => {
                                assert!(fits, "{what} of {base:?} gives {view:?}");
                                assert_eq!(view.shape().dims()[axis], len);
                                within(&view, base, &what);
                            }
                            Err(rule) => assert!(!fits, "{what} of {base:?}: {rule}"),
                        }
                    }
                }
            }
        }
        for &size in SIZES {
            for &step in SIZES {
                let what = format!("unfold({size}, {step})");
                match base.unfold(size, step) {
                    Ok(view) => {
                        let windows = (base.shape().last() - size) / step + 1;
                        let dims = view.shape().dims();
                        assert_eq!(dims[dims.len() - 2..], [windows, size], "{what} of {base:?}");
                        within(&view, base, &what);
                    }
                    Err(Rule::TooLarge { shape }) => assert!(shape.bounded().is_err()),
                    Err(_) => {
                        let fits = size > 0 && step > 0 && size <= base.shape().last();
                        assert!(!fits, "{what} of {base:?} is refused");
                    }
                }
            }
            let wide = Shape::new(&[&[size], base.shape().dims()].concat()).expect("few axes");
            match base.broadcast_to(wide) {
                Ok(view) => within(&view, base, "broadcast"),
                Err(_) => assert!(wide.bounded().is_err()),
            }
        }
    }
}

#[test]
fn layouts_of_any_numbers_are_within_a_memory_or_refused() {
    for &size in SIZES {
        for &stride in SIZES {
            for &offset in SIZES {
                let last = offset as u128 + (size as u128).saturating_sub(1) * stride as u128;
                match Layout::strided([size].into(), &[stride], offset) {
                    Ok(layout) => {
                        assert!(last <= MAX_ELEMENTS as u128 || size < 2, "{size} {stride} {offset}");
                        within(&layout, &layout, "itself");
                        assert!(layout.slice(0, size, 0, 1).is_ok());
                        assert!(layout.index_flat(0) == offset);
                    }
                    Err(_) => {
                        assert!(last > MAX_ELEMENTS as u128 || size > MAX_ELEMENTS || offset > MAX_ELEMENTS)
                    }
                }
            }
        }
        for shape in [[size, 1, 0], [size, size, 0], [size, size, 1]].map(Shape::from) {
            let counted =
                shape.dims().iter().filter(|&&d| d > 0).fold(1u128, |n, &d| n.saturating_mul(d as u128));
            assert_eq!(shape.bounded().is_ok(), counted <= MAX_ELEMENTS as u128, "{shape}");
            // What no tensor can have is described without a panic.
            let layout = Layout::contiguous(shape);
            let _ = (
                layout.is_contiguous(),
                layout.is_injective(),
                layout.span(),
                layout.shifted(usize::MAX).span(),
            );
            let _ = (
                layout.slice(0, size.saturating_sub(1), 1, 1),
                layout.reshape(shape),
                layout.unfold(1, size),
            );
        }
    }
}

#[test]
fn memory_that_cannot_be_had_is_an_error() -> Result<(), Error> {
    for engine in [Engine::cpu_with_threads(1)?, Engine::null(), Engine::planning_for_cuda()] {
        for shape in
            [[1 << 62, 1], [usize::MAX, 1], [1 << 32, 1 << 32], [1 << 40, usize::MAX]].map(Shape::from)
        {
            let refused = engine.empty(DType::F32, shape).expect_err("too large").to_string();
            assert!(refused.contains("more than 2^48 elements"), "{refused}");
            let empty = [shape.dims()[0], shape.dims()[1], 0];
            assert!(engine.empty(DType::F32, empty).is_err(), "{empty:?}");
            let graph = Graph::new(&Arc::new(StateSpec::new()));
            let x = graph.input("x", DType::F32, shape);
            assert!(graph.neg(x).is_err());
            let mut spec = StateSpec::new();
            assert!(spec.add("slab", DType::F64, &[("x".to_owned(), shape)]).is_err());
        }
        for bytes in [1 << 60, usize::MAX] {
            let refused = engine.reserve(bytes);
            let memory = matches!(refused, Err(Error::Memory { bytes: got, .. }) if got == bytes);
            assert!(memory || refused.is_ok() && bytes == 1 << 60, "{refused:?}");
        }
    }
    let engine = Engine::cpu_with_threads(1)?;
    let large = engine.empty(DType::F64, [1 << 47]).expect_err("a petabyte").to_string();
    assert!(large.contains("1125899906842624 bytes on cpu"), "{large}");
    // A view of one element has as many as it likes, and reading them takes memory of the host.
    let one = engine.tensor([1], &[1.0f32])?;
    let wide = one.view().broadcast_to([1 << 46])?;
    assert_eq!(wide.read::<f32>(), Err(Error::HostMemory { bytes: 1 << 48 }));
    assert!(matches!(wide.read_host(), Err(Error::HostMemory { .. })));
    assert!(wide.to_string().contains("no memory for"), "{wide}");
    // So does a slab of many entries, each of which can be had.
    let entries: Vec<(String, Shape)> =
        (0..300).map(|i| (format!("e{i}"), Shape::from([MAX_ELEMENTS / 4]))).collect();
    assert!(StateSpec::new().add("slab", DType::F64, &entries).is_err());
    Ok(())
}

fn graph() -> Graph {
    Graph::new(&Arc::new(StateSpec::new()))
}

#[test]
fn repeated_and_padded_shapes_are_those_of_exact_arithmetic() -> Result<(), Error> {
    for &n in SIZES {
        let exact = |elements: u128| if elements <= MAX_ELEMENTS as u128 { Some(elements) } else { None };
        let told = |what: &str, got: Result<Value, Error>, g: &Graph, want: Option<u128>| match got {
            Ok(value) => assert_eq!(Some(g.shape(value).elements() as u128), want, "{what} {n}"),
            Err(error) => assert_eq!(want, None, "{what} {n}: {error}"),
        };
        let g = graph();
        let x = g.input("x", DType::F32, [2, 3]);
        told("tile", g.tile(x, 0, n), &g, exact(6 * n as u128).filter(|_| n > 0));
        told("repeat_interleave", g.repeat_interleave(x, 1, n), &g, exact(6 * n as u128));
        told("pad", g.pad(x, 1, n, n), &g, exact(2 * (3 + 2 * n as u128)));
        told("fill", g.fill(DType::U8, [n, 7], 0.0), &g, exact(7 * n as u128));
        told("one_hot", g.eye(DType::F32, n), &g, exact(n as u128 * n as u128).filter(|&n| n < 1 << 100));
        let y = g.broadcast_to(x, [1 << 20, 2, 3])?;
        told("tile", g.tile(y, 1, n), &g, exact((6 << 20) * n as u128).filter(|_| n > 0));
    }
    // More parts than an offset counts.
    let g = graph();
    let part = g.broadcast_to(g.input("x", DType::U8, [1]), [MAX_ELEMENTS])?;
    assert!(g.concat(&[part; 3], 0).is_err());
    assert!(g.op1(landfall::ops::Pack, &[part; 300]).is_err());
    Ok(())
}

#[test]
fn a_program_of_more_than_all_memory_is_refused() -> Result<(), Error> {
    for engine in [Engine::null(), Engine::planning_for_cuda(), Engine::cpu_with_threads(1)?] {
        let g = graph();
        let x = g.input("x", DType::F64, [1]);
        let mut wide = g.copy(g.broadcast_to(x, [MAX_ELEMENTS])?)?;
        let mut all = vec![wide];
        for _ in 0..5000 {
            wide = g.neg(wide)?;
            all.push(wide);
        }
        all.iter().enumerate().for_each(|(i, &value)| g.output(&format!("y{i}"), value));
        let refused = Program::compile(&engine, &State::new(&engine, g.state_spec())?, "wide", &g);
        assert!(matches!(refused, Err(Error::Memory { .. })), "{refused:?}");
    }
    Ok(())
}

/// What arguments of methods may be: enough kinds that each method takes some.
const ARGUMENTS: &[(DType, &[usize])] = &[
    (DType::F32, &[2, 4, 4]),
    (DType::F32, &[4, 4]),
    (DType::F32, &[4]),
    (DType::F32, &[2, 4, 4, 4]),
    (DType::I64, &[2, 4]),
    (DType::I64, &[4]),
    (DType::I64, &[2, 4, 4]),
    (DType::Bool, &[2, 4, 4]),
    (DType::F32, &[16, 4]),
    (DType::F32, &[2, 4]),
    (DType::F32, &[]),
    (DType::Bool, &[]),
    (DType::I64, &[]),
    (DType::F32, &[12, 8]),
    (DType::F32, &[12]),
    (DType::F32, &[16, 8]),
    (DType::F32, &[16]),
    (DType::I64, &[8]),
];

/// A value that a parameter takes.
fn usual(parameter: &Parameter) -> AttributeValue {
    parameter.default().unwrap_or_else(|| match (parameter.name, parameter.choices) {
        ("groups" | "times" | "k" | "size" | "count" | "n" | "classes" | "len" | "rows" | "columns", _) => {
            AttributeValue::Int(2)
        }
        ("step", _) => AttributeValue::Int(1),
        ("shape", _) => AttributeValue::Ints(vec![2, 4, 4]),
        ("axes", _) => AttributeValue::Ints(vec![0, 1, 2]),
        ("spec", _) => "f32[3]".into(),
        (_, [first, ..]) => (*first).into(),
        _ => match parameter.takes {
            "a number" => AttributeValue::Float(0.5),
            _ => AttributeValue::Int(0),
        },
    })
}

/// What a parameter of this value may be instead.
fn others(value: &AttributeValue) -> Vec<AttributeValue> {
    match value {
        AttributeValue::Int(_) | AttributeValue::None => {
            INTEGERS.iter().map(|&n| AttributeValue::Int(n)).collect()
        }
        AttributeValue::Ints(list) => {
            let at = |(i, n): (usize, i64)| {
                let mut list = list.clone();
                list[i] = n;
                AttributeValue::Ints(list)
            };
            let places = (0..list.len()).flat_map(|i| INTEGERS.iter().map(move |&n| (i, n)));
            let mut all: Vec<_> = places.map(at).collect();
            all.extend(INTEGERS.iter().map(|&n| AttributeValue::Ints(vec![n, n, 0])));
            all.extend([AttributeValue::Ints(Vec::new()), AttributeValue::Ints(vec![1; 9])]);
            all
        }
        AttributeValue::Text(text) if text.contains('[') => {
            SIZES.iter().map(|n| AttributeValue::Text(format!("f32[{n}, {n}]"))).collect()
        }
        AttributeValue::Float(_) | AttributeValue::Bool(_) | AttributeValue::Text(_) => Vec::new(),
    }
}

type Keywords = Vec<(&'static str, AttributeValue)>;

fn keywords(method: &Method) -> Keywords {
    method.parameters.iter().map(|p| (p.name, usual(p))).collect()
}

/// A call of a method on inputs of these kinds, planned for the processor and for a GPU.
fn planned(of: &Method, args: &[(DType, &[usize])], given: &[(&str, AttributeValue)]) -> Result<(), Error> {
    let mut spec = StateSpec::new();
    let (dtype, dims) = args.first().copied().unwrap_or((DType::F32, &[1]));
    spec.add("first", dtype, &[("x0".to_owned(), Shape::new(dims).expect("few axes"))])?;
    let g = Graph::new(&Arc::new(spec));
    let mut values = Vec::new();
    for (i, &(dtype, dims)) in args.iter().enumerate() {
        // What a method updates is an entry of the state.
        let input = || g.input(&format!("x{i}"), dtype, Shape::new(dims).expect("few axes"));
        values.push(Some(if i == 0 && of.name.starts_with("assign") { g.entry("x0")? } else { input() }));
    }
    let results = method(&g, of.name, &values, given)?;
    results.iter().enumerate().for_each(|(i, &value)| g.output(&format!("y{i}"), value));
    for engine in [Engine::null(), Engine::planning_for_cuda()] {
        Program::compile(&engine, &State::new(&engine, g.state_spec())?, "method", &g)?;
    }
    Ok(())
}

/// Arguments that a method takes with its usual parameters: the first of all.
fn taken(of: &Method) -> Option<Vec<(DType, &'static [usize])>> {
    let count = of.arguments.iter().filter(|a| matches!(a.given, Given::Always | Given::Many { .. })).count();
    let given = keywords(of);
    let all = ARGUMENTS.len().pow(count as u32);
    (0..all).find_map(|mut number| {
        let mut args = Vec::new();
        for _ in 0..count {
            args.push(ARGUMENTS[number % ARGUMENTS.len()]);
            number /= ARGUMENTS.len();
        }
        planned(of, &args, &given).is_ok().then_some(args)
    })
}

#[test]
fn methods_take_or_refuse_any_integer() {
    let (mut wrong, mut tried) = (Vec::new(), BTreeSet::new());
    for of in methods().iter().filter(|m| m.parameters.iter().any(|p| !others(&usual(p)).is_empty())) {
        let Some(args) = taken(of) else { continue };
        for (at, parameter) in of.parameters.iter().enumerate() {
            for other in others(&usual(parameter)) {
                tried.insert(of.name);
                let mut given = keywords(of);
                given[at].1 = other;
                if catch_unwind(AssertUnwindSafe(|| planned(of, &args, &given))).is_err() {
                    wrong.push(format!("{}{args:?} with {given:?}", of.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} calls panicked: {}", wrong.len(), wrong.join("\n"));
    let with_sizes =
        ["tile", "pad", "slice_step", "unfold", "conv1d", "max_pool", "arange", "eye", "roll", "largest"];
    let rest: Vec<_> = with_sizes.iter().filter(|name| !tried.contains(*name)).collect();
    assert!(rest.is_empty(), "not tried: {rest:?}; tried: {tried:?}");
}

#[test]
fn tensors_of_other_libraries_end_within_their_memory() -> Result<(), Error> {
    let engine = Engine::cpu_with_threads(1)?;
    let memory: Arc<[u8]> = vec![7u8; 64].into();
    let mut made = 0;
    for &size in SIZES {
        for &stride in SIZES {
            for &offset in SIZES {
                let Ok(layout) = Layout::strided([size].into(), &[stride], offset) else { continue };
                // SAFETY: the owner keeps these 64 bytes.
                let foreign = unsafe {
                    landfall::Foreign::new(engine.device(), memory.as_ptr() as u64, 64, Arc::clone(&memory))
                };
                if let Ok(view) = engine.wrap(foreign.read_only(), DType::U8, layout) {
                    let (_, end) = reach(view.layout());
                    assert!(end <= 64, "{layout:?}");
                    // (One byte that is stretched has as many elements as one likes.)
                    if view.shape().elements() <= 64 {
                        let host: HostTensor = view.read_host()?;
                        assert!(host.data.iter().all(|&x| x == 7.0));
                    }
                    made += 1;
                }
            }
        }
    }
    assert!(made > 20, "{made} views were made");
    let told = |address: u64, bytes: usize| {
        // SAFETY: nothing is read: the memory would end beyond every address.
        let foreign = unsafe { landfall::Foreign::new(engine.device(), address, bytes, ()) };
        engine.wrap(foreign, DType::U8, Layout::contiguous([1].into())).expect_err("no memory").to_string()
    };
    assert!(told(u64::MAX - 3, 64).contains("beyond every address"));
    Ok(())
}
