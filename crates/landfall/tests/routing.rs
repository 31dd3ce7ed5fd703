//! The permutation family beyond what the generated suite checks: whole grids of sizes, properties of maps, bad maps on the
//! device, and far more blocks than run at once.

#[path = "device/gpu.rs"]
mod gpu;
#[path = "routing/large.rs"]
mod large;

use gpu::{on_each_device, own};
use landfall::ops::{
    ChunkMap, GroupedMatMul, GroupedMatMulGrad, Index, Op, PairProbs, Permute, RouteMap, SortChunks, TopK,
    Unpermute, UnpermuteGrad,
};
use landfall::{
    DType, Element, Engine, Error, Graph, Program, Shape, State, StateSpec, Tensor, TensorRef, grad,
};
use std::sync::Arc;

type Check = Result<(), Error>;

/// A number in 0..2³², the same in every run.
fn hash(i: usize, salt: u64) -> usize {
    let mut z =
        (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(salt.wrapping_mul(0xD1B5_4A32_D192_ED03));
    z = (z ^ (z >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (z >> 32) as usize
}

/// A number in [-1, 1) that bf16 holds.
fn value(i: usize, salt: u64) -> f64 {
    (hash(i, salt) % 256) as f64 / 128.0 - 1.0
}

/// Results of an op, in fresh memory.
fn call(engine: &Engine, op: &dyn Op, inputs: &[TensorRef<'_>]) -> Result<Vec<Tensor>, Error> {
    let specs: Vec<_> = inputs.iter().map(TensorRef::spec).collect();
    let outputs = op.infer(&specs).map_err(|r| r.of(op.name(), &specs, None, None))?;
    let mut outputs: Vec<Tensor> =
        outputs.iter().map(|o| engine.empty(o.dtype, o.shape)).collect::<Result<_, _>>()?;
    outputs.iter_mut().try_for_each(|o| o.poison(0xFF))?;
    engine.reserve(engine.workspace(op, &specs)?)?;
    let mut views: Vec<_> = outputs.iter_mut().map(Tensor::view_mut).collect();
    engine.call(op, inputs, &mut views)?;
    drop(views);
    Ok(outputs)
}

fn tensor<T: Element>(
    engine: &Engine,
    shape: impl Into<Shape>,
    of: impl Fn(usize) -> f64,
) -> Result<Tensor, Error> {
    let shape = shape.into();
    let data: Vec<T> = (0..shape.elements()).map(|i| T::from_f64(of(i))).collect();
    engine.tensor(shape, &data)
}

/// Which experts each token goes to, from the highest down: up to `most`, none for one in 16, more often low experts.
fn routing(tokens: usize, experts: usize, most: usize) -> Vec<Vec<usize>> {
    (0..tokens)
        .map(|t| {
            let wanted = if t % 16 == 7 { 0 } else { most - hash(t, 1) % 2 % most };
            let mut chosen: Vec<usize> = Vec::new();
            for i in 0.. {
                if chosen.len() >= wanted {
                    break;
                }
                let e = hash(t * 977 + i, 2) % (1 + hash(t * 977 + i, 3) % experts);
                // Lone tries may meet chosen experts for long where most are chosen.
                let e = (0..experts).map(|step| (e + step) % experts).find(|e| !chosen.contains(e));
                chosen.extend(e);
            }
            chosen.sort_unstable_by(|a, b| b.cmp(a));
            chosen
        })
        .collect()
}

/// The results of `route_map` on the host.
struct Maps {
    map: Vec<i32>,
    source: Vec<i32>,
    counts: Vec<i32>,
    offsets: Vec<i32>,
}

fn expected(routing: &[Vec<usize>], experts: usize, op: &RouteMap) -> Maps {
    let width = 2 * op.most + 1;
    let mut takers = vec![Vec::new(); experts];
    for (t, chosen) in routing.iter().enumerate() {
        chosen.iter().for_each(|&e| takers[e].push(t));
    }
    let mut maps = Maps {
        map: vec![-1; routing.len() * width],
        source: vec![-1; op.rows],
        counts: vec![0; experts],
        offsets: vec![0; experts + 1],
    };
    let mut base = vec![0; experts + 1];
    for e in 0..experts {
        base[e + 1] = base[e] + takers[e].len().div_ceil(op.align) * op.align;
        maps.offsets[e + 1] = base[e + 1].min(op.rows) as i32;
    }
    for (t, cells) in maps.map.chunks_mut(width).enumerate() {
        let mut n = 0;
        for &e in &routing[t] {
            let row = base[e] + takers[e].binary_search(&t).expect("a taker");
            if row < op.rows {
                (cells[n], cells[op.most + n]) = (row as i32, e as i32);
                maps.source[row] = (t * op.most + n) as i32;
                maps.counts[e] += 1;
                n += 1;
            }
        }
        cells[2 * op.most] = n as i32;
    }
    maps
}

/// The routing as `[T, E]`.
fn routed<M: Element>(engine: &Engine, routing: &[Vec<usize>], experts: usize) -> Result<Tensor, Error> {
    tensor::<M>(engine, [routing.len(), experts], |i| {
        f64::from(u8::from(routing[i / experts].contains(&(i % experts))))
    })
}

/// Tokens, experts, columns and the most experts of a token; on the processor only those that take no gigabytes.
fn grids(engine: &Engine) -> Vec<(usize, usize, usize, usize)> {
    let mut all = vec![(128, 5, 128, 3), (1024, 8, 128, 8)];
    if engine.device().to_string() != "cpu" {
        all.extend([(4096, 32, 1280, 2), (4096, 64, 4096, 6), (4096, 256, 7168, 8)]);
    }
    all
}

fn maps_number_rows_by_expert_and_token(engine: &Engine) -> Check {
    for (t, e, _, k) in grids(engine).into_iter().chain([(4096, 256, 0, 8), (1000, 130, 0, 130)]) {
        let routing = routing(t, e, k);
        let pairs: usize = routing.iter().map(Vec::len).sum();
        for (align, rows) in
            [(1, pairs), (8, pairs + 8 * e), (16, pairs + 16 * e), (128, t * k / 2 + 128 * e), (1, pairs / 3)]
        {
            let op = RouteMap { most: k, rows, align, index: Index::I32 };
            let want = expected(&routing, e, &op);
            for bytes in [true, false] {
                let m = if bytes {
                    routed::<u8>(engine, &routing, e)?
                } else {
                    routed::<i32>(engine, &routing, e)?
                };
                let got = call(engine, &op, &[m.view()])?;
                let what = format!("{t} tokens, {e} experts, {op:?}");
                assert!(got[0].read::<i32>()? == want.map, "{what}: map");
                assert!(got[1].read::<i32>()? == want.source, "{what}: source");
                assert_eq!(got[2].read::<i32>()?, want.counts, "{what}");
                assert_eq!(got[3].read::<i32>()?, want.offsets, "{what}");
            }
            // What the host makes is a bijection of pairs and rows, so the device's is.
            let mut rows: Vec<i32> =
                (0..want.source.len() as i32).filter(|&r| want.source[r as usize] >= 0).collect();
            let mut mapped: Vec<i32> =
                want.map.chunks(2 * k + 1).flat_map(|c| c[..c[2 * k] as usize].to_vec()).collect();
            mapped.sort_unstable();
            rows.sort_unstable();
            assert_eq!(mapped, rows);
        }
    }
    Ok(())
}

fn there_and_back<T: Element>(
    engine: &Engine,
    dtype: DType,
    grid: (usize, usize, usize, usize),
    align: usize,
) -> Check {
    let (t, e, h, k) = grid;
    let routing = routing(t, e, k);
    let rows = t * k + align * e;
    let op = RouteMap { most: k, rows, align, index: Index::I32 };
    let maps = call(engine, &op, &[routed::<u8>(engine, &routing, e)?.view()])?;
    let x = tensor::<T>(engine, [t, h], |i| value(i, 4))?;
    let y = &call(engine, &Permute::default(), &[x.view(), maps[0].view(), maps[1].view()])?[0];
    let (host, moved) = (x.read::<T>()?, y.read::<T>()?);
    for (row, &source) in expected(&routing, e, &op).source.iter().enumerate() {
        let got = &moved[row * h..][..h];
        let same = match usize::try_from(source) {
            Ok(source) => got == &host[source / k * h..][..h],
            Err(_) => got.iter().all(|v| v.to_f64() == 0.0),
        };
        assert!(same, "{dtype} {grid:?} align {align}: row {row} of source {source}");
    }
    // With M / n as weights a token's rows add up to what they came from.
    let w = tensor::<f32>(engine, [t, e], |i| {
        let chosen = &routing[i / e];
        if chosen.contains(&(i % e)) { 1.0 / chosen.len() as f64 } else { 7.0 }
    })?;
    let z = &call(engine, &Unpermute, &[y.view(), maps[0].view(), maps[1].view(), w.view()])?[0];
    let bound = dtype.epsilon().powf(2.0 / 3.0);
    for (i, back) in z.read::<T>()?.iter().enumerate() {
        let want = if routing[i / h].is_empty() { 0.0 } else { host[i].to_f64() };
        let off = (back.to_f64() - want).abs();
        assert!(off <= bound, "{dtype} {grid:?} align {align}: token {} is {off} off", i / h);
    }
    Ok(())
}

fn unpermute_of_permute_is_the_identity(engine: &Engine) -> Check {
    for (grid, align) in grids(engine).into_iter().zip([8, 16, 128, 16, 128]) {
        there_and_back::<f32>(engine, DType::F32, grid, align)?;
        there_and_back::<half::bf16>(engine, DType::BF16, grid, align)?;
        there_and_back::<half::f16>(engine, DType::F16, grid, align)?;
    }
    Ok(())
}

fn dot(a: &Tensor, b: &Tensor) -> Result<f64, Error> {
    Ok(a.read::<f64>()?.iter().zip(&b.read::<f64>()?).map(|(a, b)| a * b).sum())
}

/// ⟨A x, u⟩ = ⟨x, Aᵀ u⟩ of permutation, of its probabilities, and of merging by rows and by weights.
fn the_gradients_are_adjoint(engine: &Engine) -> Check {
    let (t, e, h, k) = (300, 17, 33, 5);
    let routing = routing(t, e, k);
    let op = RouteMap { most: k, rows: 1500, align: 8, index: Index::I64 };
    let maps = call(engine, &op, &[routed::<i64>(engine, &routing, e)?.view()])?;
    let (map, source) = (maps[0].view(), maps[1].view());
    let x = tensor::<f64>(engine, [t, h], |i| value(i, 5))?;
    // A third of the probabilities is 0.
    let p = tensor::<f64>(engine, [t, e], |i| if hash(i, 6).is_multiple_of(3) { 0.0 } else { value(i, 6) })?;
    let u = tensor::<f64>(engine, [op.rows, h], |i| value(i, 7))?;
    let v = tensor::<f64>(engine, [op.rows], |i| value(i, 8))?;
    let equal = |what: &str, a: f64, b: f64| {
        assert!((a - b).abs() <= 1e-10 * a.abs().max(1.0), "{what}: {a} and {b}");
    };
    let with = Permute { probs: true, drop_zero: false };
    let y = call(engine, &with, &[x.view(), map, source, p.view()])?;
    let back = &call(engine, &Unpermute, &[u.view(), map, source])?[0];
    equal("permute", dot(&y[0], &u)?, dot(&x, back)?);
    let pairs = &call(engine, &PairProbs { experts: e }, &[v.view(), map])?[0];
    equal("probabilities", dot(&y[1], &v)?, dot(&p, pairs)?);
    let z = &call(engine, &Unpermute, &[u.view(), map, source, p.view()])?[0];
    let grads = call(engine, &UnpermuteGrad, &[u.view(), map, source, p.view(), x.view()])?;
    equal("merged rows", dot(z, &x)?, dot(&grads[0], &u)?);
    equal("weights", dot(z, &x)?, dot(&grads[1], &p)?);
    Ok(())
}

/// Sizes of chunks and their order.
fn chunks(count: usize, rows: usize) -> (Vec<i32>, Vec<i32>) {
    let mut cuts: Vec<usize> = (1..count).map(|i| hash(i, 9) % (rows + 1)).collect();
    cuts.extend([0, rows]);
    cuts.sort_unstable();
    let mut order: Vec<i32> = (0..count as i32).collect();
    order.sort_by_key(|&i| hash(i as usize, 10));
    (cuts.windows(2).map(|w| (w[1] - w[0]) as i32).collect(), order)
}

fn sorted_chunks_come_back(engine: &Engine) -> Check {
    let mut sizes = vec![(8, 4096, 128), (64, 999, 7)];
    if engine.device().to_string() != "cpu" {
        sizes.extend([(8, 4096, 1280), (64, 4096, 4096), (256, 4096, 9216)]);
    }
    for (count, rows, h) in sizes {
        let (sizes, order) = chunks(count, rows);
        let op = ChunkMap { rows };
        let (s, o) = (engine.tensor([count], &sizes)?, engine.tensor([count], &order)?);
        let d = &call(engine, &op, &[s.view(), o.view()])?[0];
        let mut want = vec![0; rows];
        let mut place = 0;
        for &chunk in &order {
            let from: i32 = sizes[..chunk as usize].iter().sum();
            for r in from..from + sizes[chunk as usize] {
                want[r as usize] = place;
                place += 1;
            }
        }
        assert!(d.read::<i32>()? == want, "{count} chunks of {rows} rows");
        let x = tensor::<half::bf16>(engine, [rows, h], |i| value(i, 11))?;
        let p = tensor::<f32>(engine, [rows], |i| value(i, 12))?;
        let there = SortChunks { probs: true, inverse: false };
        let back = SortChunks { inverse: true, ..there };
        let y = call(engine, &there, &[x.view(), d.view(), p.view()])?;
        let (host, moved) = (x.read::<half::bf16>()?, y[0].read::<half::bf16>()?);
        for (r, &to) in want.iter().enumerate() {
            assert!(moved[to as usize * h..][..h] == host[r * h..][..h], "{count} chunks: row {r}");
        }
        let z = call(engine, &back, &[y[0].view(), d.view(), y[1].view()])?;
        assert!(z[0].read::<half::bf16>()? == host, "{count} chunks of {rows} rows of {h}");
        assert!(z[1].read::<f32>()? == p.read::<f32>()?, "{count} chunks of {rows} rows");
    }
    Ok(())
}

/// The error of the next read, which must be one of an index.
fn fault(of: &Tensor) -> (&'static str, usize, i64, usize) {
    match of.read_host() {
        Err(Error::Index { op, position, value, limit }) => (op, position, value, limit),
        other => panic!("no index was reported: {other:?}"),
    }
}

/// A copy of a faulty result has its fault.
fn copied(engine: &Engine, of: &Tensor) -> Check {
    let copy = engine.eval(&landfall::ops::Copy, &[of.view()])?;
    assert_eq!(fault(&copy), fault(of));
    Ok(())
}

/// A bad map is reported by the op that follows it, nothing is written out of bounds, and the engine goes on.
fn r34_a_bad_map_is_named_and_the_engine_goes_on(engine: &Engine) -> Check {
    let engine = &own(engine)?;
    let x = tensor::<f32>(engine, [2, 3], |i| i as f64 + 1.0)?;
    let p = tensor::<f32>(engine, [2, 2], |i| i as f64 + 1.0)?;
    let source = engine.tensor([2], &[1i32, 0])?;
    let good = engine.tensor([2, 3], &[1i32, 1, 1, 0, 0, 1])?;
    let with = Permute { probs: true, drop_zero: false };

    let y = call(
        engine,
        &Permute::default(),
        &[x.view(), engine.tensor([2, 3], &[9i32, 1, 1, 0, 0, 1])?.view(), source.view()],
    )?;
    assert_eq!(fault(&y[0]), ("permute", 0, 9, 2));
    copied(engine, &y[0])?;
    let bad = engine.tensor([2, 3], &[1i32, 1, 1, 0, -5, 1])?;
    let y = call(engine, &with, &[x.view(), bad.view(), source.view(), p.view()])?;
    assert_eq!(fault(&y[0]), ("permute", 4, -5, 2));
    let rows = tensor::<f32>(engine, [2, 3], |i| i as f64)?;
    let z = call(engine, &Unpermute, &[rows.view(), bad.view(), source.view(), p.view()])?;
    assert_eq!(fault(&z[0]), ("unpermute", 4, -5, 2));
    copied(engine, &z[0])?;
    let g = call(engine, &UnpermuteGrad, &[rows.view(), bad.view(), source.view(), p.view(), x.view()])?;
    assert_eq!(fault(&g[1]), ("unpermute_grad", 4, -5, 2));
    copied(engine, &g[1])?;
    let pairs = call(
        engine,
        &PairProbs { experts: 1 },
        &[tensor::<f32>(engine, [2], |i| i as f64)?.view(), good.view()],
    )?;
    assert_eq!(fault(&pairs[0]), ("pair_probs", 1, 1, 1));

    // Seven pairs of token 0 where one is the most, and fewer than none of token 1: the one that can be counts.
    for (count, position, map) in [(7, 2, [1i32, 1, 7, 0, 0, 1]), (-1, 5, [1, 1, 1, 0, 0, -1])] {
        let map = engine.tensor([2, 3], &map)?;
        let y = call(engine, &Permute::default(), &[x.view(), map.view(), source.view()])?;
        assert_eq!(fault(&y[0]), ("permute", position, count, 2));
        copied(engine, &y[0])?;
        let z = call(engine, &Unpermute, &[rows.view(), map.view(), source.view(), p.view()])?;
        assert_eq!(fault(&z[0]), ("unpermute", position, count, 2));
        let g = [rows.view(), map.view(), source.view(), p.view(), x.view()];
        assert_eq!(fault(&call(engine, &UnpermuteGrad, &g)?[0]), ("unpermute_grad", position, count, 2));
        let v = tensor::<f32>(engine, [2], |i| i as f64)?;
        let pairs = call(engine, &PairProbs { experts: 2 }, &[v.view(), map.view()])?;
        assert_eq!(fault(&pairs[0]), ("pair_probs", position, count, 2));
    }

    // Token 1 has three experts where two are the most: the lowest is left out.
    let m = engine.tensor([2, 4], &[0u8, 1, 0, 0, 1, 1, 0, 1])?;
    let maps = call(engine, &RouteMap { most: 2, rows: 4, ..RouteMap::default() }, &[m.view()])?;
    assert_eq!(fault(&maps[0]), ("route_map", 1, 3, 3));
    copied(engine, &maps[0])?;
    copied(engine, &maps[1])?;
    copied(engine, &maps[2])?;

    let chunk_map = |sizes: &[i32], order: &[i32]| -> Result<Tensor, Error> {
        let (s, o) = (engine.tensor([sizes.len()], sizes)?, engine.tensor([order.len()], order)?);
        Ok(call(engine, &ChunkMap { rows: 4 }, &[s.view(), o.view()])?.remove(0))
    };
    for (sizes, order, want) in [
        ([1, 2], [0, 2], (1, 2, 2)),
        ([1, 2], [1, 1], (0, -1, 2)),
        ([1, -2], [1, 0], (1, -2, 5)),
        ([3, 2], [1, 0], (2, 5, 5)),
    ] {
        let d = chunk_map(&sizes, &order)?;
        let (op, position, value, limit) = fault(&d);
        assert_eq!((op, (position, value, limit)), ("chunk_map", want), "{sizes:?} {order:?}");
        copied(engine, &d)?;
    }
    let d = engine.tensor([2], &[1i32, 7])?;
    for inverse in [false, true] {
        let y = call(engine, &SortChunks { probs: false, inverse }, &[x.view(), d.view()])?;
        assert_eq!(fault(&y[0]), ("sort_chunks", 1, 7, 2));
    }

    // After all that a good call gives what it should.
    let y = call(engine, &with, &[x.view(), good.view(), source.view(), p.view()])?;
    assert_eq!(y[0].read::<f32>()?, [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
    assert_eq!(y[1].read::<f32>()?, [3.0, 2.0]);
    Ok(())
}

/// A chain of sorted chunks with probabilities and its gradients, in a program whose values die as soon as they can: no
/// result may lie in what a permutation still reads.
fn r29_r30_gradients_of_sorted_chunks_under_memory_pressure(engine: &Engine) -> Check {
    let (n, h, steps) = (64, 12, 9);
    let spec = Arc::new(StateSpec::new());
    let g = Graph::new(&spec);
    let (x, p) = (g.input("x", DType::F32, [n, h]), g.input("p", DType::F32, [n]));
    let d = g.input("d", DType::I32, [n]);
    let (cx, cp) = (g.input("cx", DType::F32, [n, h]), g.input("cp", DType::F32, [n]));
    let op = SortChunks { probs: true, inverse: false };
    let (mut rows, mut probs) = (g.neg(x)?, g.neg(p)?);
    for _ in 0..steps {
        let moved = g.op(op, &[rows, d, probs])?;
        (rows, probs) = (moved[0], moved[1]);
    }
    let loss = g.add(g.sum(g.mul(rows, cx)?, [0, 1])?, g.sum(g.mul(probs, cp)?, [0])?)?;
    let found = grad(&g, loss, &[("x".to_owned(), x), ("p".to_owned(), p)])?;
    g.output("rows", rows);
    g.output("probs", probs);
    g.output("gx", found[0]);
    g.output("gp", found[1]);
    let mut state = State::new(engine, &spec)?;
    let mut program = Program::compile(engine, &state, "chain", &g)?;
    let (sizes, order) = chunks(7, n);
    let (s, o) = (engine.tensor([7], &sizes)?, engine.tensor([7], &order)?);
    let map = call(engine, &ChunkMap { rows: n }, &[s.view(), o.view()])?[0].read::<i32>()?;
    let data = |salt, count: usize| (0..count).map(|i| value(i, salt) as f32).collect::<Vec<_>>();
    let (hx, hp, hcx, hcp) = (data(20, n * h), data(21, n), data(22, n * h), data(23, n));
    program.write("x", &hx)?;
    program.write("p", &hp)?;
    program.write("cx", &hcx)?;
    program.write("cp", &hcp)?;
    program.write("d", &map)?;
    // Where a row of the input ends up.
    let last = |r: usize| (0..steps).fold(r, |r, _| map[r] as usize);
    let (mut rows, mut probs) = (vec![0.0; n * h], vec![0.0; n]);
    let (mut gx, mut gp) = (vec![0.0; n * h], vec![0.0; n]);
    for r in 0..n {
        let to = last(r);
        for i in 0..h {
            rows[to * h + i] = -hx[r * h + i];
            gx[r * h + i] = -hcx[to * h + i];
        }
        (probs[to], gp[r]) = (-hp[r], -hcp[to]);
    }
    for byte in [0xFF, 0] {
        program.poison(&mut state, byte)?;
        program.run(&mut state)?;
        for (name, want) in [("rows", &rows), ("probs", &probs), ("gx", &gx), ("gp", &gp)] {
            assert_eq!(&program.read::<f32>(name)?, want, "{name}");
        }
    }
    Ok(())
}

/// The products of each expert's rows, and their gradients by rows and by matrices, against sums in f64: sizes of several
/// tiles of tensor cores, with tails, the matrices as they lie and transposed views; empty experts, padding, dropped pairs.
fn grouped_products<T: Element>(engine: &Engine, dtype: DType, sizes: (usize, usize, usize, usize)) -> Check {
    let (t, e, k, n) = sizes;
    let chosen = routing(t, e, 2);
    let op = RouteMap { most: 2, rows: 2 * t, align: 8, index: Index::I32 };
    let maps = call(engine, &op, &[routed::<u8>(engine, &chosen, e)?.view()])?;
    let want = expected(&chosen, e, &op);
    let rows_of = |e: usize| want.offsets[e] as usize..(want.offsets[e] + want.counts[e]) as usize;
    // Rows without a pair hold what must not be multiplied.
    let x =
        tensor::<T>(engine, [op.rows, k], |i| if want.source[i / k] < 0 { f64::NAN } else { value(i, 30) })?;
    let gy =
        tensor::<T>(engine, [op.rows, n], |i| if want.source[i / n] < 0 { f64::NAN } else { value(i, 31) })?;
    let w = tensor::<T>(engine, [e, k, n], |i| value(i, 32))?;
    let (counts, offsets) = (maps[2].view(), maps[3].view());
    let y = call(engine, &GroupedMatMul, &[x.view(), w.view(), counts, offsets])?.remove(0);
    let turned = w.view().permute(&[0, 2, 1])?;
    let gx = call(engine, &GroupedMatMul, &[gy.view(), turned, counts, offsets])?.remove(0);
    let gw = call(engine, &GroupedMatMulGrad, &[x.view(), gy.view(), counts, offsets])?.remove(0);
    let (hx, hgy, hw) = (x.read::<T>()?, gy.read::<T>()?, w.read::<T>()?);
    let (hx, hgy, hw) = (|i: usize| hx[i].to_f64(), |i: usize| hgy[i].to_f64(), |i: usize| hw[i].to_f64());
    let close = |what: &str, got: f64, terms: &mut dyn Iterator<Item = f64>| {
        let (mut sum, mut scale) = (0.0, 0.0);
        for term in terms {
            sum += term;
            scale += term.abs();
        }
        // The result's rounding, and that of a sum in the accumulation dtype. Measured on the processor: half of it, for
        // the result's rounding alone.
        let bound = dtype.epsilon() * sum.abs() + 2.0 * dtype.accumulate().epsilon() * scale;
        assert!((got - sum).abs() <= bound, "{dtype} {sizes:?} {what}: {got}, not {sum}");
    };
    let (y, gx, gw) = (y.read::<T>()?, gx.read::<T>()?, gw.read::<T>()?);
    // Every 7th element: a sum in f64 for each is slow.
    for expert in 0..e {
        for r in rows_of(expert) {
            for j in (r % 7..n).step_by(7) {
                let mut terms = (0..k).map(|p| hx(r * k + p) * hw((expert * k + p) * n + j));
                close(&format!("y[{r}, {j}]"), y[r * n + j].to_f64(), &mut terms);
            }
            for p in (r % 7..k).step_by(7) {
                let mut terms = (0..n).map(|j| hgy(r * n + j) * hw((expert * k + p) * n + j));
                close(&format!("gx[{r}, {p}]"), gx[r * k + p].to_f64(), &mut terms);
            }
        }
        for i in (expert..k * n).step_by(7) {
            let (p, j) = (i / n, i % n);
            let mut terms = rows_of(expert).map(|r| hx(r * k + p) * hgy(r * n + j));
            close(&format!("gw[{expert}, {p}, {j}]"), gw[expert * k * n + i].to_f64(), &mut terms);
        }
    }
    for r in (0..op.rows).filter(|&r| want.source[r] < 0) {
        let zero = |row: &[T]| row.iter().all(|v| v.to_f64() == 0.0);
        assert!(zero(&y[r * n..][..n]) && zero(&gx[r * k..][..k]), "{dtype} {sizes:?}: row {r} has no pair");
    }
    Ok(())
}

fn products_of_experts_are_sums(engine: &Engine) -> Check {
    for sizes in [(150, 4, 136, 264), (150, 4, 712, 136), (90, 9, 40, 8), (33, 3, 19, 21)] {
        grouped_products::<f32>(engine, DType::F32, sizes)?;
        grouped_products::<half::bf16>(engine, DType::BF16, sizes)?;
        grouped_products::<half::f16>(engine, DType::F16, sizes)?;
    }
    // More tiles than a GPU takes at once.
    grouped_products::<half::bf16>(engine, DType::BF16, (1200, 16, 136, 1032))?;
    grouped_products::<half::f16>(engine, DType::F16, (1200, 16, 136, 1032))
}

/// Segments that are none are reported, and no row has an expert.
fn bad_segments_are_named(engine: &Engine) -> Check {
    let engine = &own(engine)?;
    let x = tensor::<f32>(engine, [4, 2], |i| i as f64 + 1.0)?;
    let w = tensor::<f32>(engine, [2, 2, 3], |_| 1.0)?;
    for (counts, offsets, want) in [
        ([1i32, 1], [1i32, 2, 3], (2, 1, 1)),
        ([1, 1], [0, 3, 2], (4, 2, 5)),
        ([1, 1], [0, 2, 9], (4, 9, 5)),
        ([3, 1], [0, 2, 4], (0, 3, 3)),
        ([2, -1], [0, 2, 4], (1, -1, 3)),
    ] {
        let (c, o) = (engine.tensor([2], &counts)?, engine.tensor([3], &offsets)?);
        let y = call(engine, &GroupedMatMul, &[x.view(), w.view(), c.view(), o.view()])?;
        let (op, position, value, limit) = fault(&y[0]);
        assert_eq!((op, (position, value, limit)), ("grouped_matmul", want), "{counts:?} {offsets:?}");
        copied(engine, &y[0])?;
        let g = call(engine, &GroupedMatMulGrad, &[x.view(), x.view(), c.view(), o.view()])?;
        let (op, position, value, limit) = fault(&g[0]);
        assert_eq!((op, (position, value, limit)), ("grouped_matmul_grad", want), "{counts:?} {offsets:?}");
        copied(engine, &g[0])?;
    }
    Ok(())
}

/// A NaN is chosen after every number, and equal ones by index; what is chosen is a routing.
fn ties_and_nan_are_ordered(engine: &Engine) -> Check {
    let nan = f32::NAN;
    let p = engine.tensor([3, 4], &[0.25f32, 0.5, 0.25, 0.5, nan, 0.125, nan, 0.0, nan, nan, nan, nan])?;
    let chosen = call(engine, &TopK { k: 3, renormalise: false }, &[p.view()])?;
    let routed = chosen[0].read_host()?.data;
    assert_eq!(routed, [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(chosen[1].read::<f32>()?[..4], [0.25, 0.5, 0.0, 0.5]);
    let maps = call(engine, &RouteMap { most: 3, rows: 9, ..RouteMap::default() }, &[chosen[0].view()])?;
    assert_eq!(maps[2].read::<i32>()?, [3, 3, 1, 2]);
    Ok(())
}

/// A map of one's own may have a token's pairs in any order: the gradient of each weight is that of its expert.
fn pairs_stand_in_any_order(engine: &Engine) -> Check {
    let (tokens, experts) = (3, 6);
    // Experts that ascend, that descend, and neither; a row for each pair.
    let chosen = [[1, 3, 4], [5, 2, 0], [2, 5, 3]];
    let map = |i: usize| match (i / 7, i % 7) {
        (token, j @ 0..3) => (3 * token + j) as f64,
        (token, j @ 3..6) => f64::from(chosen[token][j - 3]),
        _ => 3.0,
    };
    let map = tensor::<i32>(engine, [tokens, 7], map)?;
    let source = tensor::<i32>(engine, [9], |i| i as f64)?;
    // Teams of a few threads, of a warp, of a block.
    for columns in [5, 64, 2048] {
        let y = tensor::<f32>(engine, [9, columns], |i| value(i, 1))?;
        let w = tensor::<f32>(engine, [tokens, experts], |i| value(i, 2))?;
        let gz = tensor::<f32>(engine, [tokens, columns], |i| value(i, 3))?;
        let got = call(engine, &UnpermuteGrad, &[y.view(), map.view(), source.view(), w.view(), gz.view()])?;
        let gw = got[1].read::<f32>()?;
        for (token, chosen) in chosen.iter().enumerate() {
            for expert in 0..experts {
                let pair = chosen.iter().position(|&own| own as usize == expert);
                let product = |row: usize| -> f64 {
                    (0..columns).map(|c| value(row * columns + c, 1) * value(token * columns + c, 3)).sum()
                };
                let want = pair.map_or(0.0, |j| product(3 * token + j));
                let got = f64::from(gw[token * experts + expert]);
                assert!(
                    (got - want).abs() <= 1e-4,
                    "{columns} columns, token {token}, expert {expert}: {got}, {want}"
                );
            }
        }
    }
    Ok(())
}

on_each_device! {
    maps_number_rows_by_expert_and_token,
    unpermute_of_permute_is_the_identity,
    the_gradients_are_adjoint,
    sorted_chunks_come_back,
    products_of_experts_are_sums,
    bad_segments_are_named,
    ties_and_nan_are_ordered,
    pairs_stand_in_any_order,
    r34_a_bad_map_is_named_and_the_engine_goes_on,
    r29_r30_gradients_of_sorted_chunks_under_memory_pressure,
}
