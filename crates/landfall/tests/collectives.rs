//! Collective ops: what several ranks compute together, their gradients, and what every rank is told when one fails.

use landfall::{
    DType, Engine, Error, Graph, HostTensor, Program, RankFault, Shape, Spec, State, StateSpec, World, grad,
    ops,
};
use ops::{AllGather, AllReduce, AllToAll, Broadcast, Op, ReduceScatter, Reduction};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);
const SIZES: [usize; 4] = [1, 2, 3, 8];
const REDUCTIONS: [Reduction; 5] =
    [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min, Reduction::Prod];

/// Runs `work` on a thread for each place of a world; what each returned.
fn each_rank<R: Send>(worlds: Vec<World>, work: impl Fn(World) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|s| {
        let ranks: Vec<_> = worlds.into_iter().map(|world| s.spawn(move || work(world))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank")).collect()
    })
}

/// An engine that joined.
fn engine(world: World) -> Result<Engine, Error> {
    let engine = Engine::cpu_with_threads(1)?;
    engine.join(world)?;
    Ok(engine)
}

/// What rank `rank` gives: whole numbers, fractions where the dtype has them.
fn given(spec: Spec, rank: usize) -> HostTensor {
    let scale = if spec.dtype.is_float() { 0.37 } else { 1.0 };
    let value = |i: usize| match spec.dtype {
        DType::Bool => ((i * 7 + rank * 3) % 2) as f64,
        DType::U8 => ((i * 7 + rank * 5) % 11) as f64,
        DType::F32 | DType::F64 | DType::BF16 | DType::F16 | DType::I32 | DType::I64 => {
            (((i * 31 + rank * 17) % 23) as f64 - 9.0) * scale
        }
    };
    HostTensor::from_fn(spec, value).rounded()
}

/// What rank `rank` of the ranks that gave these must get, in f64.
fn expected(op: &dyn Op, all: &[HostTensor], rank: usize) -> Vec<f64> {
    let combine = |reduction: Reduction, i: usize| {
        let column = all.iter().map(|x| x.data[i]);
        match reduction {
            Reduction::Sum => column.sum(),
            Reduction::Mean => column.sum::<f64>() / all.len() as f64,
            Reduction::Max => column.fold(f64::NEG_INFINITY, f64::max),
            Reduction::Min => column.fold(f64::INFINITY, f64::min),
            Reduction::Prod => column.product(),
        }
    };
    let any: &dyn std::any::Any = op;
    let elements = all[0].data.len();
    let block = elements / all.len();
    if let Some(op) = any.downcast_ref::<AllReduce>() {
        (0..elements).map(|i| combine(op.reduction, i)).collect()
    } else if let Some(op) = any.downcast_ref::<ReduceScatter>() {
        (rank * block..(rank + 1) * block).map(|i| combine(op.reduction, i)).collect()
    } else if any.is::<AllGather>() {
        all.iter().flat_map(|x| x.data.iter().copied()).collect()
    } else if let Some(op) = any.downcast_ref::<Broadcast>() {
        all[op.root].data.clone()
    } else {
        assert!(any.is::<AllToAll>(), "{}", op.name());
        all.iter().flat_map(|x| x.data[rank * block..(rank + 1) * block].iter().copied()).collect()
    }
}

/// Every collective for a world of this size.
fn collectives(ranks: usize) -> Vec<Box<dyn Op>> {
    let mut all: Vec<Box<dyn Op>> = Vec::new();
    for reduction in REDUCTIONS {
        all.push(Box::new(AllReduce { reduction }));
        all.push(Box::new(ReduceScatter { ranks, reduction }));
    }
    all.push(Box::new(AllGather { ranks }));
    all.push(Box::new(AllToAll { ranks }));
    all.push(Box::new(Broadcast { root: ranks - 1 }));
    all
}

/// Whether an op takes a dtype.
fn takes(op: &dyn Op, spec: Spec) -> bool {
    op.infer(&[spec]).is_ok()
}

/// Checks a result against f64. Ranks add in the accumulation dtype: an error of an epsilon for each.
fn close(op: &dyn Op, got: &HostTensor, want: &[f64], ranks: usize) {
    let eps = got.spec.dtype.epsilon();
    assert_eq!(got.data.len(), want.len(), "{op:?}");
    for (i, (&g, &w)) in got.data.iter().zip(want).enumerate() {
        let allowed = eps * ranks as f64 * w.abs().max(9.0);
        // Integers wrap.
        let wraps = got.spec.dtype == DType::U8 || got.spec.dtype == DType::I32;
        let equal = (g - w).abs() <= allowed
            || wraps && (g - w).rem_euclid(256.0) == 0.0
            || !got.spec.dtype.is_float() && g == w;
        assert!(equal, "{op:?} of {} on {ranks} ranks, element {i}: {g}, expected {w}", got.spec);
    }
}

#[test]
fn every_collective_of_every_dtype_and_shape() {
    // 24 is divided by every world's size.
    let shapes: [&[usize]; 5] = [&[24], &[0, 3], &[24, 5], &[48, 3, 2], &[24, 1001]];
    for ranks in SIZES {
        let results = each_rank(World::threads(ranks, LIMIT), |world| -> Result<usize, Error> {
            let (rank, engine) = (world.rank(), engine(world)?);
            let mut checked = 0;
            for &dtype in DType::ALL {
                for shape in shapes.iter().filter_map(|s| Shape::new(s)) {
                    let all: Vec<_> = (0..ranks).map(|r| given(Spec { dtype, shape }, r)).collect();
                    for op in collectives(ranks).iter().filter(|op| takes(op.as_ref(), all[0].spec)) {
                        let x = engine.from_host(&all[rank])?;
                        let got = engine.eval(op.as_ref(), &[x.view()])?.read_host()?;
                        close(op.as_ref(), &got, &expected(op.as_ref(), &all, rank), ranks);
                        checked += 1;
                    }
                }
            }
            Ok(checked)
        });
        for checked in results {
            assert!(checked.expect("every rank completes") > 400, "a world of {ranks} checked too little");
        }
    }
}

#[test]
fn scalars_strides_and_results_in_place() {
    each_rank(World::threads(3, LIMIT), |world| -> Result<(), Error> {
        let (rank, engine) = (world.rank(), engine(world)?);
        let sum = AllReduce { reduction: Reduction::Sum };
        let scalar = engine.tensor([], &[rank as f32])?;
        assert_eq!(engine.eval(&sum, &[scalar.view()])?.item::<f32>()?, 3.0);
        // Columns of rows: read with a stride, and written into a tensor that is filled with NaN.
        let x = engine.tensor([2, 3], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0].map(|x| x + 10.0 * rank as f32))?;
        let across = engine.eval(&sum, &[x.view().permute(&[1, 0])?])?;
        assert_eq!(across.read::<f32>()?, [30.0, 39.0, 33.0, 42.0, 36.0, 45.0]);
        let mut wide = engine.tensor([3, 4], &[f32::NAN; 12])?;
        let out = wide.view_mut().slice(1, 1, 2)?;
        engine.call(&sum, &[x.view().permute(&[1, 0])?], &mut [out])?;
        let wide = wide.read::<f32>()?;
        assert_eq!(
            [wide[1], wide[2], wide[5], wide[6], wide[9], wide[10]],
            [30.0, 39.0, 33.0, 42.0, 36.0, 45.0]
        );
        assert!(
            [0, 3, 4, 7, 8, 11].iter().all(|&i: &usize| wide[i].is_nan()),
            "what is beside the result changed"
        );
        let mut own = engine.tensor([2], &[rank as f32, 1.0])?;
        engine.call_in_place(&AllReduce { reduction: Reduction::Mean }, 0, &mut own.view_mut(), &[])?;
        assert_eq!(own.read::<f32>()?, [1.0, 1.0]);
        let mut own = engine.tensor([2], &[rank as i64, 7])?;
        engine.call_in_place(&Broadcast { root: 2 }, 0, &mut own.view_mut(), &[])?;
        assert_eq!(own.read::<i64>()?, [2, 7]);
        Ok(())
    })
    .into_iter()
    .for_each(|r| r.expect("every rank completes"));
}

/// The mean over ranks has the bytes of the mean over micro-batches on one rank.
#[test]
fn a_mean_over_ranks_is_that_of_micro_batches() {
    let (ranks, spec) = (3, Spec::new(DType::F32, [1000]));
    let one = Engine::cpu_with_threads(1).expect("an engine");
    let mut mean = one.empty(DType::F32, [1000]).expect("memory");
    let mut cursor = one.tensor([ops::cursor::LEN], &[0i64; 8]).expect("memory");
    for rank in 0..ranks {
        let value = one.from_host(&given(spec, rank)).expect("memory");
        let op = ops::MicroBatchMean { micro_batches: ranks };
        one.call_in_place(&op, 0, &mut mean.view_mut(), &[value.view(), cursor.view()]).expect("a mean");
        let next = ops::AdvanceMicro { micro_batches: ranks };
        one.call_in_place(&next, 0, &mut cursor.view_mut(), &[]).expect("a cursor");
    }
    let mean = mean.read::<f32>().expect("a mean");
    let results = each_rank(World::threads(ranks, LIMIT), |world| -> Result<Vec<f32>, Error> {
        let (rank, engine) = (world.rank(), engine(world)?);
        let x = engine.from_host(&given(spec, rank))?;
        engine.eval(&AllReduce { reduction: Reduction::Mean }, &[x.view()])?.read()
    });
    for (rank, result) in results.into_iter().enumerate() {
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&result.expect("a rank")), bits(&mean), "rank {rank}");
    }
}

/// For a linear op `A` over all ranks, `Σᵣ ⟨A x, y⟩ᵣ = Σᵣ ⟨x, Aᵀ y⟩ᵣ`, where the gradient is `Aᵀ y`.
#[test]
fn gradients_are_adjoint_over_all_ranks() {
    let linear = |ranks: usize| -> Vec<Box<dyn Op>> {
        let (sum, mean) = (Reduction::Sum, Reduction::Mean);
        vec![
            Box::new(AllReduce { reduction: sum }),
            Box::new(AllReduce { reduction: mean }),
            Box::new(ReduceScatter { ranks, reduction: sum }),
            Box::new(ReduceScatter { ranks, reduction: mean }),
            Box::new(AllGather { ranks }),
            Box::new(AllToAll { ranks }),
        ]
    };
    for ranks in [2, 3, 8] {
        for which in 0..linear(ranks).len() {
            let products = each_rank(World::threads(ranks, LIMIT), |world| -> Result<[f64; 2], Error> {
                let (rank, engine) = (world.rank(), engine(world)?);
                let op: Arc<dyn Op> = Arc::from(linear(ranks).swap_remove(which));
                let spec = Spec::new(DType::F64, [24, 5]);
                let out = op.infer(&[spec]).map_err(|r| r.of(op.name(), &[spec], None, None))?[0];
                let (x, y) = (given(spec, rank), given(out, rank + 100));
                let state_spec = Arc::new(StateSpec::new());
                let g = Graph::new(&state_spec);
                let (vx, vy) = (g.input("x", DType::F64, spec.shape), g.input("y", DType::F64, out.shape));
                let result = g.op_dyn(op, &[vx])?[0];
                let axes: Vec<usize> = (0..out.shape.rank()).collect();
                let product = g.sum(g.mul(result, vy)?, &axes[..])?;
                let back = grad(&g, product, &[("x".to_owned(), vx)])?[0];
                g.output("product", product);
                g.output("back", back);
                let mut state = State::new(&engine, &state_spec)?;
                let mut program = Program::compile(&engine, &state, "adjoint", &g)?;
                program.write("x", &x.data)?;
                program.write("y", &y.data)?;
                program.run(&mut state)?;
                let back = program.read::<f64>("back")?;
                Ok([program.read::<f64>("product")?[0], x.data.iter().zip(back).map(|(x, b)| x * b).sum()])
            });
            let sums = products
                .into_iter()
                .map(|p| p.expect("a rank"))
                .fold([0.0; 2], |s, p| [s[0] + p[0], s[1] + p[1]]);
            let op = &linear(ranks)[which];
            assert!(
                (sums[0] - sums[1]).abs() < 1e-9 * sums[0].abs().max(1.0),
                "{op:?} on {ranks} ranks: {sums:?}"
            );
        }
    }
}

/// What rank `rank` does at its call number `at`.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Ends,
    GivesUp,
    Panics,
    IsLate,
    CallsAnother,
}

/// Five calls, of which one rank makes one differently: every rank is told, and nobody waits longer than the limit.
#[test]
fn every_failure_at_every_call_is_named_on_every_rank() {
    const CALLS: usize = 5;
    let limit = Duration::from_millis(300);
    for failure in [Failure::Ends, Failure::GivesUp, Failure::Panics, Failure::IsLate, Failure::CallsAnother]
    {
        for (ranks, failing) in [(2, 1), (3, 0), (8, 5)] {
            for at in 0..CALLS {
                let began = Instant::now();
                let results = each_rank(World::threads(ranks, limit), |world| -> Result<usize, Error> {
                    let (rank, engine) = (world.rank(), engine(world.clone())?);
                    let x = engine.tensor([4], &[rank as f32; 4])?;
                    for call in 0..CALLS {
                        let mut op = AllReduce { reduction: Reduction::Sum };
                        if rank == failing && call == at {
                            match failure {
                                Failure::Ends => return Ok(call),
                                Failure::GivesUp => world.abort("the disk is full"),
                                Failure::Panics => {
                                    drop(world);
                                    let _ =
                                        std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                                            let _engine = engine;
                                            std::panic::resume_unwind(Box::new("a fault of a test"));
                                        }));
                                    return Ok(call);
                                }
                                Failure::IsLate => std::thread::sleep(limit * 2),
                                Failure::CallsAnother => op.reduction = Reduction::Max,
                            }
                        }
                        engine.eval(&op, &[x.view()])?;
                    }
                    Ok(CALLS)
                });
                let took = began.elapsed();
                assert!(took < limit * 5, "{failure:?} of rank {failing} at {at}: {took:?}");
                for (rank, result) in results.into_iter().enumerate() {
                    let leaves = matches!(failure, Failure::Ends | Failure::Panics);
                    if rank == failing && leaves {
                        assert_eq!(result.expect("it left"), at);
                        continue;
                    }
                    let error = result.expect_err("a rank went on without the others").to_string();
                    let named = match failure {
                        Failure::Ends | Failure::Panics => format!("rank {failing} ended before all_reduce"),
                        Failure::GivesUp => "the disk is full".to_owned(),
                        Failure::IsLate => format!("rank {failing} did not come to all_reduce"),
                        Failure::CallsAnother => "reduction=max".to_owned(),
                    };
                    assert!(error.contains(&named), "rank {rank}, {failure:?} at {at}: {error}");
                }
            }
        }
    }
}

#[test]
fn what_a_world_refuses() {
    let engine = Engine::cpu_with_threads(1).expect("an engine");
    let mut worlds = World::threads(2, LIMIT);
    engine.join(worlds.remove(0)).expect("the first world");
    let error = engine.join(worlds.remove(0)).expect_err("a second world").to_string();
    assert_eq!(error, "the engine is rank 0 of 2 already; an engine joins one world once");
    let x = engine.tensor([3], &[1.0f32; 3]).expect("memory");
    let error = engine.eval(&AllGather { ranks: 3 }, &[x.view()]).expect_err("another size").to_string();
    assert!(error.contains("the op is for 3 ranks, the engine is in a world of 2"), "{error}");
    let error = engine.eval(&Broadcast { root: 2 }, &[x.view()]).expect_err("no such root").to_string();
    assert!(error.contains("the op is for 3 ranks, the engine is in a world of 2"), "{error}");
}

#[test]
fn ranks_that_disagree_are_told_the_line() {
    let results = each_rank(World::threads(3, LIMIT), |world| {
        let text = format!("lr = 0.1\nbatch = {}\nseed = 1", if world.rank() == 2 { 64 } else { 32 });
        world.agree("configurations", &text)
    });
    for result in results {
        let fault = result.expect_err("rank 2 differs");
        let want =
            "the configurations of the ranks differ: rank 0 has \"batch = 32\", rank 2 has \"batch = 64\"";
        assert!(fault.to_string().starts_with(want), "{fault}");
        assert!(matches!(fault, RankFault::Disagree { rank: 2, .. }));
    }
}

/// On a device that computes nothing collectives are checked and counted, and wait for nobody.
#[test]
fn the_null_device_counts_collectives() {
    let engine = Engine::null();
    engine.join(World::threads(8, LIMIT).swap_remove(3)).expect("a world");
    let x = engine.empty(DType::F32, [16]).expect("memory");
    let mut out = engine.empty(DType::F32, [128]).expect("memory");
    engine.call(&AllGather { ranks: 8 }, &[x.view()], &mut [out.view_mut()]).expect("a call");
    assert_eq!(engine.counters().launches, 1);
    assert_eq!((engine.world().rank(), engine.world().size()), (3, 8));
}
