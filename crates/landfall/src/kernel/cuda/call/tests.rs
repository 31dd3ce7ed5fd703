//! Launches are checked against the declaration, with no GPU.

use super::*;
use crate::kernel::cuda::{Piece, Source, cuda_kernel};
use crate::values::{DType, Layout, Shape};

cuda_kernel! {
    /// One parameter of most kinds.
    struct Typed = "typed", 128;
    x: input T,
    out: output_of F32,
    part: scratch T,
    n: size,
    scale: f32,
    stride: dims,
    faults: faults,
    tiles: tensor_map T,
}

static SOURCE: Source =
    Source { name: "typed", pieces: &[Piece::new("typed", "KERNEL(typed) {}")], entries: &[Typed::KERNEL] };

/// What a launch was given: the words of each argument, and the operands' addresses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Taken {
    words: Vec<Vec<u64>>,
    addresses: Vec<u64>,
    /// What it is told to be launched on.
    architecture: Option<&'static str>,
}

impl Sink for Taken {
    fn kernel(&mut self, op: &'static str, launch: KernelLaunch<'_>) -> Result<(), Error> {
        assert_eq!((op, launch.entry), ("neg", 0));
        self.addresses = launch.addresses().collect();
        let ends = launch.values.starts[1..].iter().map(|&e| usize::from(e));
        let starts = launch.values.each();
        let total = launch.values.words.len();
        let mut from = 0;
        for (words, end) in starts.zip(ends.chain([total])) {
            self.words.push(words[..end - from].to_vec());
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
    fn collective(&mut self, _: &'static str, _: &CollectiveLaunch) -> Result<(), Error> {
        Ok(())
    }
    fn tensor_map(&self, tile: &Tile<'_>) -> Result<[u64; tensor_map::WORDS], Error> {
        Ok([u64::from(tile.axes[0].1); tensor_map::WORDS])
    }
    fn faults(&mut self, _: &'static str) -> Result<[Address; 2], Error> {
        Ok([Address(77), Address(5)])
    }
    fn architecture(&self) -> Option<&str> {
        self.architecture
    }
}

fn operand(base: u64, dtype: DType) -> Operand {
    let layout = Layout::contiguous(Shape::from([4, 6])).slice(1, 2, 3, 1).expect("inside");
    Operand { base: Address(base), dtype, layout }
}

/// Calls `work` on a call with bf16 in, f32 out and 64 bytes of scratch memory; the arguments that were taken.
fn with(work: impl FnOnce(&mut Call<'_>) -> Result<(), Failure>) -> Result<Taken, String> {
    let mut taken = Taken::default();
    launched(&mut taken, work).map(|()| taken)
}

/// The same, into what is given.
fn launched(
    taken: &mut Taken,
    work: impl FnOnce(&mut Call<'_>) -> Result<(), Failure>,
) -> Result<(), String> {
    let (inputs, outputs) = ([operand(1024, DType::BF16)], [operand(4096, DType::F32)]);
    let operands = Operands {
        op: "neg",
        inputs: &inputs,
        outputs: &outputs,
        workspace: Address(9000),
        workspace_bytes: 64,
    };
    work(&mut Call::new(operands, taken)).map_err(|failure| match failure {
        Failure::Rule(rule) => rule.to_string(),
        Failure::Device(error) => error.to_string(),
    })
}

fn good<'a>(x: &'a Operand, out: &'a Operand) -> Typed<'a> {
    let tiles = Tile { operand: x, axes: &[(1, 64), (0, 32)] };
    Typed { x, out, part: 16, n: 7, scale: 1.5, stride: &[6, 1], faults: (), tiles }
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
        call.launch(&module(), geometry(), &good(&x, &out))
    });
    // Offsets of the layouts are applied: 2 elements of 2 and of 4 bytes.
    let words = vec![
        vec![1024 + 4],
        vec![4096 + 8],
        vec![9016],
        vec![7],
        vec![u64::from(1.5f32.to_bits())],
        vec![6, 1, 0, 0, 0, 0, 0, 0],
        vec![77, 5],
        vec![64; tensor_map::WORDS],
    ];
    // Edges of a graph follow from the addresses; that of a tensor map's operand is one of them.
    assert_eq!(taken, Ok(Taken { words, addresses: vec![1024 + 4, 4096 + 8, 1024 + 4], ..Taken::default() }));
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
        (|a| a[7] = a[0], "parameter tiles: it takes TensorMap(Bound(\"T\")), got an operand that is read"),
        (|a| retile(a, &[]), "parameter tiles: a tensor map has 1 to 5 axes, not 0"),
        (|a| retile(a, &[(1, 64), (2, 32)]), "parameter tiles: axis is 2, the operand's rank is 2"),
        (|a| retile(a, &[(0, 64)]), "parameter tiles: its first axis must be contiguous, its stride is 6"),
    ];
    fn retile<'a>(args: &mut [Arg<'a>], axes: &'a [(usize, u32)]) {
        if let Arg::TensorMap(tile) = &mut args[7] {
            tile.axes = axes;
        }
    }
    for (change, want) in cases {
        let told = with(|call| {
            let (x, out) = (*call.input(0)?, *call.output(0)?);
            good(&x, &out).list(|args| {
                let mut args = args.to_vec();
                change(&mut args);
                call.launch_list(&module(), "typed", geometry(), &args)
            })
        });
        assert!(told.as_ref().is_err_and(|t| t.ends_with(want)), "{told:?}, not {want:?}");
    }
}

#[test]
fn dtypes_are_those_of_the_module() {
    let told = |module: Module, out: DType| {
        with(|call| {
            let (x, out) = (*call.input(0)?, Operand { dtype: out, ..*call.output(0)? });
            call.launch(&module, geometry(), &good(&x, &out))
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
            good(&x, &out).list(|args| call.launch_list(&module(), entry, geometry, args))
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

/// What an architecture has of shared memory decides, and what all have where launches are for all of them.
#[test]
fn shared_memory_is_that_of_the_architecture() {
    let told = |arch, kib: u32| {
        let mut taken = Taken { architecture: arch, ..Taken::default() };
        launched(&mut taken, |call| {
            let (x, out) = (*call.input(0)?, *call.output(0)?);
            call.launch(&module(), Geometry { shared: kib << 10, ..geometry() }, &good(&x, &out))
        })
    };
    for (arch, most) in [
        (Some("sm_90a"), 227),
        (Some("sm_103a"), 227),
        (Some("sm_80"), 163),
        (Some("sm_121a"), 99),
        (None, 99),
    ] {
        assert_eq!(told(arch, most), Ok(()), "{arch:?}");
        let text = told(arch, most + 1).expect_err("more than there is");
        let (bytes, on) = (most << 10, arch.unwrap_or("some GPUs"));
        let end = format!("is beyond the {bytes} bytes of shared memory that a block has on {on}");
        assert!(text.ends_with(&end), "{text}");
    }
}

/// The parameter list in CUDA C++ is the declaration.
#[test]
fn the_declaration_is_the_signature() {
    let text = module().own_text();
    let want = "__launch_bounds__(128) typed(const T* x, float* out, T* part, u64 n, float scale, \
                const __grid_constant__ Dims stride, Faults faults, const __grid_constant__ TensorMap tiles)";
    assert!(text.contains(want) && text.contains("typedef bf16 T;"), "{text}");
}

/// A parameter that is moved in the list moves in the signature and in the arguments; launches, by name, stay as they are.
#[test]
fn signature_and_arguments_have_the_order_of_the_list() {
    cuda_kernel! {
        struct Before = "moved", 128;
        n: size,
        x: input T,
    }
    cuda_kernel! {
        struct After = "moved", 128;
        x: input T,
        n: size,
    }
    const TEXT: &[Piece] = &[Piece::new("moved", "KERNEL(moved) {}")];
    static BEFORE: Source = Source { name: "moved", pieces: TEXT, entries: &[Before::KERNEL] };
    static AFTER: Source = Source { name: "moved", pieces: TEXT, entries: &[After::KERNEL] };
    let [before, after] = [&BEFORE, &AFTER].map(|source| Module::new(source).of("T", DType::BF16));
    assert!(before.own_text().contains("moved(u64 n, const T* x)"), "{}", before.own_text());
    assert!(after.own_text().contains("moved(const T* x, u64 n)"), "{}", after.own_text());
    let taken = with(|call| {
        let x = *call.input(0)?;
        call.launch(&before, geometry(), &Before { x: &x, n: 7 })
    });
    assert_eq!(taken.map(|t| t.words), Ok(vec![vec![7], vec![1028]]));
    let taken = with(|call| {
        let x = *call.input(0)?;
        call.launch(&after, geometry(), &After { x: &x, n: 7 })
    });
    assert_eq!(taken.map(|t| t.words), Ok(vec![vec![1028], vec![7]]));
    // The struct of one list with the source of the other is refused.
    let told = with(|call| {
        let x = *call.input(0)?;
        call.launch(&after, geometry(), &Before { x: &x, n: 7 })
    });
    assert!(told.is_err_and(|t| t.ends_with("parameter x: it takes Input(Bound(\"T\")), got a u64")));
}

/// Parameters that are structs arrive by their members, and kernels begin by putting them together.
#[test]
fn structs_arrive_by_their_members() {
    cuda_kernel! {
        struct Structs = "structs", 128;
        frame: row_frame,
        x: view_in T,
        rows: rows_out F,
        copy: transfer T,
        whole: flag,
    }
    static STRUCTS: Source = Source {
        name: "structs",
        pieces: &[Piece::new("structs", "KERNEL(structs) {}")],
        entries: &[Structs::KERNEL],
    };
    let module = Module::new(&STRUCTS).of("T", DType::BF16).of("F", DType::F32);
    let text = module.own_text();
    let signature = "(u64 frame_count, u64 frame_length, u32 frame_lanes, u32 frame_across, u32 frame_rank, D frame_shape, \
                     D frame_shape_row, const T* x_data, D x_stride, F* rows_data, u32 rows_contiguous, D rows_stride, \
                     D rows_stride_row, const T* copy_x, T* copy_out, u64 copy_units, u32 copy_rank, D copy_shape, \
                     D copy_stride_x, D copy_stride_out, u32 whole)";
    assert!(text.contains(&signature.replace(" D ", " const __grid_constant__ Dims ")), "{text}");
    let begins = "{ after_others(); const RowFrame frame = {frame_count, frame_length, frame_lanes, frame_across, frame_rank, \
                  frame_shape, frame_shape_row}; const View<const T> x = {x_data, x_stride}; const RowView<F> rows = \
                  {rows_data, rows_contiguous, rows_stride, rows_stride_row}; const Transfer<T> copy = {copy_x, copy_out, \
                  copy_units, copy_rank, copy_shape, copy_stride_x, copy_stride_out};}";
    assert!(text.contains(begins), "{text}");
    let (starts, row) = (Layout::contiguous([4].into()), Layout::contiguous([3].into()));
    let eight = |of: &[usize]| {
        let mut words = [0; 8];
        words.iter_mut().zip(of).for_each(|(word, &size)| *word = size);
        words
    };
    let taken = with(|call| {
        let (x, out) = (*call.input(0)?, *call.output(0)?);
        let frame = RowFrame { count: 4, length: 3, lanes: 2, across: 1, starts: &starts, row: &row };
        let rows = RowView { operand: &out, contiguous: true, starts: &starts, row: &row };
        let copy = Transfer {
            x: &x,
            out: &x,
            units: 12,
            rank: 2,
            shape: eight(&[4, 3]),
            stride_x: eight(&[6, 1]),
            stride_out: eight(&[1, 4]),
        };
        call.launch(&module, geometry(), &Structs { frame, x: &x, rows, copy, whole: true })
    });
    let one = |n: u64| vec![n];
    let axes = |of: &[usize]| eight(of).map(|size| size as u64).to_vec();
    let frame = [[4, 3, 2, 1, 1].map(one).to_vec(), vec![axes(&[4]), axes(&[3])]].concat();
    let view = vec![one(1028), axes(&[6, 1])];
    let rows = vec![one(4104), one(1), axes(&[1]), axes(&[1])];
    let copy =
        [[1028, 1028, 12, 2].map(one).to_vec(), vec![axes(&[4, 3]), axes(&[6, 1]), axes(&[1, 4])]].concat();
    let want = [frame, view, rows, copy, vec![one(1)]].concat();
    assert_eq!(taken, Ok(Taken { words: want, addresses: vec![1028, 4104, 1028, 1028], ..Taken::default() }));
}

/// However its author breaks lines: a kernel that did not wait would run beside those that make what it reads.
#[test]
fn every_kernel_begins_by_waiting() {
    const fn entry(name: &'static str) -> Entry {
        Entry { name, block: 32, params: &[] }
    }
    static TWO: Source = Source {
        name: "two",
        pieces: &[Piece::new(
            "two",
            "KERNEL(one) { a(); }\nKERNEL(other)  // why\n{\n    b();\n}\nKERNEL(on, __cluster_dims__(2)) {}\n",
        )],
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
