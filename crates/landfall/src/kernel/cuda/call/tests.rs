//! Launches are checked against the declaration, with no GPU.

use super::*;
use crate::kernel::cuda::module::{Param, Source};
use crate::values::{DType, Layout, Shape};

static SOURCE: Source = Source {
    name: "typed",
    text: "KERNEL(typed) {}",
    entries: &[Entry {
        name: "typed",
        block: 128,
        params: &[
            Param::input("x", "T"),
            Param::output_is("out", DType::F32),
            Param::scratch("part", "T"),
            Param::u64("n"),
            Param::f32("scale"),
            Param::dims("stride"),
            Param::faults("faults"),
            Param::map("boxes", "T"),
        ],
    }],
};

/// Keeps the words of the arguments.
#[derive(Default)]
struct Taken(Vec<Vec<u64>>);

impl Sink for Taken {
    fn kernel(&mut self, op: &'static str, launch: KernelLaunch<'_>) -> Result<(), Error> {
        assert_eq!((op, launch.entry), ("neg", 0));
        // Edges of a graph follow from these; an operand that is read in boxes is one of them.
        assert_eq!(launch.addresses().collect::<Vec<u64>>(), [1024 + 4, 4096 + 8, 1024 + 4]);
        let ends = launch.values.starts[1..].iter().map(|&e| usize::from(e));
        let starts = launch.values.each();
        let total = launch.values.words.len();
        let mut from = 0;
        for (words, end) in starts.zip(ends.chain([total])) {
            self.0.push(words[..end - from].to_vec());
            from = end;
        }
        Ok(())
    }
    fn product(&mut self, _: &'static str, _: &ProductLaunch) -> Result<bool, Error> {
        Ok(false)
    }
    fn fill(&mut self, _: &'static str, _: Address, _: usize, _: u8) -> Result<(), Error> {
        Ok(())
    }
    fn map(&self, _: &Operand, axes: &[(usize, u32)]) -> Result<[u64; map::WORDS], Error> {
        Ok([u64::from(axes[0].1); map::WORDS])
    }
    fn faults(&mut self, _: &'static str) -> (Address, u32) {
        (Address(77), 5)
    }
    fn architecture(&self) -> Option<&str> {
        Some("sm_90a")
    }
}

fn operand(base: u64, dtype: DType) -> Operand {
    let layout = Layout::contiguous(Shape::from([4, 6])).slice(1, 2, 3, 1).expect("inside");
    Operand { base: Address(base), dtype, layout }
}

/// Calls `work` on a call with bf16 in, f32 out and 64 bytes of scratch memory; the arguments that were taken.
fn with(work: impl FnOnce(&mut Call<'_>) -> Result<(), Failure>) -> Result<Vec<Vec<u64>>, String> {
    let (inputs, outputs) = ([operand(1024, DType::BF16)], [operand(4096, DType::F32)]);
    let operands = Operands {
        op: "neg",
        inputs: &inputs,
        outputs: &outputs,
        workspace: Address(9000),
        workspace_bytes: 64,
    };
    let mut taken = Taken::default();
    match work(&mut Call::new(operands, &mut taken)) {
        Ok(()) => Ok(taken.0),
        Err(Failure::Rule(rule)) => Err(rule.to_string()),
        Err(Failure::Device(error)) => Err(error.to_string()),
    }
}

fn good<'a>(x: &'a Operand, out: &'a Operand) -> Vec<Arg<'a>> {
    vec![
        Arg::Input(x),
        Arg::Output(out),
        Arg::Scratch(16),
        Arg::U64(7),
        Arg::F32(1.5),
        Arg::dims(&[6, 1]),
        Arg::Faults,
        Arg::Map(x, &[(1, 64), (0, 32)]),
    ]
}

fn module() -> Module {
    Module::new(&SOURCE).of("T", DType::BF16)
}

fn geometry() -> Geometry {
    Geometry { grid: [2, 1, 1], block: [128, 1, 1], shared: 0 }
}

#[test]
fn arguments_arrive_as_declared() {
    let taken = with(|call| {
        let (x, out) = (*call.input(0)?, *call.output(0)?);
        call.launch(&module(), "typed", geometry(), &good(&x, &out))
    });
    // Offsets of the layouts are applied: 2 elements of 2 and of 4 bytes.
    let want = vec![
        vec![1024 + 4],
        vec![4096 + 8],
        vec![9016],
        vec![7],
        vec![u64::from(1.5f32.to_bits())],
        vec![6, 1, 0, 0, 0, 0, 0, 0],
        vec![77, 5],
        [vec![64; map::WORDS], vec![1024 + 4]].concat(),
    ];
    assert_eq!(taken, Ok(want));
}

/// Regression 32: a launch whose arguments are not the kernel's parameters does not happen.
#[test]
fn r32_launches_are_typed() {
    type Change = fn(&mut Vec<Arg<'_>>);
    let cases: [(Change, &str); 11] = [
        (|a| _ = a.pop(), "it has 8 parameters, got 7 arguments"),
        (|a| a.push(Arg::U32(1)), "it has 8 parameters, got 9 arguments"),
        (|a| a[3] = Arg::U32(7), "parameter n: it takes U64, got a u32"),
        (|a| a.swap(0, 1), "parameter x: it takes Input(Bound(\"T\")), got an operand that is written"),
        (|a| a[5] = Arg::Scratch(0), "parameter stride: it takes Dims, got scratch memory"),
        (|a| a[2] = Arg::Scratch(65), "parameter part: 65 is beyond the scratch memory of 64 bytes"),
        (|a| a.swap(3, 4), "parameter n: it takes U64, got an f32"),
        (|a| a[7] = a[0], "parameter boxes: it takes Map(Bound(\"T\")), got an operand that is read"),
        (|a| boxes(a, &[]), "parameter boxes: a map has 1 to 5 axes, not 0"),
        (|a| boxes(a, &[(1, 64), (2, 32)]), "parameter boxes: axis is 2, the operand's rank is 2"),
        (|a| boxes(a, &[(0, 64)]), "parameter boxes: its first axis must be gapless, its stride is 6"),
    ];
    fn boxes<'a>(args: &mut [Arg<'a>], axes: &'a [(usize, u32)]) {
        if let Arg::Map(_, of) = &mut args[7] {
            *of = axes;
        }
    }
    for (change, want) in cases {
        let told = with(|call| {
            let (x, out) = (*call.input(0)?, *call.output(0)?);
            let mut args = good(&x, &out);
            change(&mut args);
            call.launch(&module(), "typed", geometry(), &args)
        });
        assert!(told.as_ref().is_err_and(|t| t.ends_with(want)), "{told:?}, not {want:?}");
    }
}

#[test]
fn dtypes_are_those_of_the_module() {
    let told = |module: Module, out: DType| {
        with(|call| {
            let (x, out) = (*call.input(0)?, Operand { dtype: out, ..*call.output(0)? });
            call.launch(&module, "typed", geometry(), &good(&x, &out))
        })
    };
    let wrong = told(Module::new(&SOURCE).of("T", DType::F16), DType::F32);
    assert!(wrong.is_err_and(|t| t.ends_with("parameter x: it is of f16, the operand is bf16")));
    let wrong = told(module(), DType::F64);
    assert!(wrong.is_err_and(|t| t.ends_with("parameter out: it is of f32, the operand is f64")));
    assert!(told(Module::new(&SOURCE), DType::F32).is_err_and(|t| t.contains("binds no type")));
}

#[test]
fn geometry_and_name_are_checked() {
    let told = |entry, geometry| {
        with(|call| {
            let (x, out) = (*call.input(0)?, *call.output(0)?);
            call.launch(&module(), entry, geometry, &good(&x, &out))
        })
    };
    assert!(told("other", geometry()).is_err_and(|t| t.contains("declares no such kernel")));
    for bad in [
        Geometry { block: [129, 1, 1], ..geometry() },
        Geometry { block: [0, 1, 1], ..geometry() },
        Geometry { grid: [0, 1, 1], ..geometry() },
        Geometry { grid: [1, 65_536, 1], ..geometry() },
    ] {
        assert!(told("typed", bad).is_err_and(|t| t.contains("blocks of 1 to 128 threads")), "{bad}");
    }
    assert!(Geometry::linear(usize::MAX, 256).is_err());
}

/// The parameter list in CUDA C++ is the declaration.
#[test]
fn the_declaration_is_the_signature() {
    let text = module().own_text();
    let want = "__launch_bounds__(128) typed(const T* x, float* out, T* part, u64 n, float scale, \
                const __grid_constant__ Dims stride, Faults faults, const __grid_constant__ TensorMap boxes)";
    assert!(text.contains(want) && text.contains("typedef bf16 T;"), "{text}");
}

/// However its author breaks lines: a kernel that did not wait would run beside those that make what it reads.
#[test]
fn every_kernel_begins_by_waiting() {
    const fn entry(name: &'static str) -> Entry {
        Entry { name, block: 32, params: &[] }
    }
    static TWO: Source = Source {
        name: "two",
        text: "KERNEL(one) { a(); }\nKERNEL(other)  // why\n{\n    b();\n}\nKERNEL(on, __cluster_dims__(2)) {}\n",
        entries: &[entry("one"), entry("other"), entry("on")],
    };
    let text = Module::new(&TWO).own_text();
    assert!(text.contains("KERNEL(one) { after_others(); a(); }"), "{text}");
    assert!(text.contains("KERNEL(other)  // why\n{ after_others();\n    b();\n}"), "{text}");
    assert!(text.contains("KERNEL(on, __cluster_dims__(2)) { after_others();}"), "{text}");
}

#[test]
fn modules_differ_by_what_they_bind() {
    use crate::values::Expression;
    let of = |c: f64| Module::evaluating(&SOURCE, &Expression::new(|e| e.constant(c)));
    assert_eq!(of(f64::NAN), of(f64::NAN));
    assert_ne!(of(0.0), of(-0.0));
    assert_ne!(module(), Module::new(&SOURCE).of("T", DType::F16));
    assert_ne!(module(), module().constant("K", 1));
}
