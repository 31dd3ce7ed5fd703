//! Rows of more than 2³¹ elements, and more blocks than a GPU runs at once: moved and brought back.

use crate::{Check, call, chunks, expected, gpu, hash, routed, routing, tensor};
use landfall::ops::{ChunkMap, Copy, Index, Permute, RouteMap, SortChunks, Unpermute};
use landfall::{Engine, Error, Tensor, half::bf16};
use std::io::Write;

/// Rows from `first` on.
fn rows(engine: &Engine, of: &Tensor, first: usize, count: usize) -> Result<Vec<bf16>, Error> {
    let view = of.view().slice(0, first, count)?;
    call(engine, &Copy, &[view])?[0].read::<bf16>()
}

/// Every so many rows are compared with their token's, and sums of equal rows with their multiple.
fn check(engine: &Engine, t: usize, e: usize, h: usize, k: usize) -> Check {
    let x_at = |token: usize, column: usize| (hash(token * h + column, 5) % 256) as f64 / 128.0 - 1.0;
    let x = tensor::<bf16>(engine, [t, h], |i| x_at(i / h, i % h))?;
    let routing = routing(t, e, k);
    let op = RouteMap { most: k, rows: t * k, align: 1, index: Index::I32 };
    let maps = call(engine, &op, &[routed::<u8>(engine, &routing, e)?.view()])?;
    let source = expected(&routing, e, &op).source;
    let y = &call(engine, &Permute::default(), &[x.view(), maps[0].view(), maps[1].view()])?[0];
    let z = &call(engine, &Unpermute, &[y.view(), maps[0].view(), maps[1].view()])?[0];
    let equal = |what: &str, row: usize, got: &[bf16], factor: f64, token: Option<usize>| {
        let want = |column| token.map_or(0.0, |token| factor * x_at(token, column));
        let wrong = (0..h).find(|&c| got[c] != bf16::from_f64(want(c)));
        assert!(wrong.is_none(), "{what} {row} of {}: column {wrong:?}", source.len());
    };
    const TOGETHER: usize = 64;
    for first in (0..t * k).step_by((t * k / 61).max(1)).chain([(t * k).saturating_sub(TOGETHER)]) {
        let count = TOGETHER.min(t * k - first);
        for (i, got) in rows(engine, y, first, count)?.chunks(h).enumerate() {
            equal("row", first + i, got, 1.0, usize::try_from(source[first + i]).ok().map(|pair| pair / k));
        }
    }
    for first in (0..t).step_by((t / 61).max(1)) {
        let count = TOGETHER.min(t - first);
        for (i, got) in rows(engine, z, first, count)?.chunks(h).enumerate() {
            let token = first + i;
            equal("token", token, got, routing[token].len() as f64, Some(token));
        }
    }
    Ok(())
}

/// The comparison is right where the processor computes.
#[test]
fn the_comparison_holds() -> Check {
    check(&Engine::cpu_with_threads(1)?, 301, 12, 24, 5)
}

/// About 527,000 rows of 4,104 elements are taken, of 600,008.
#[test]
fn cuda_rows_beyond_2_to_the_31() -> Check {
    if gpu::gpu()?.is_none() {
        return Ok(());
    }
    // An engine of its own gives the memory back when it goes.
    match check(&Engine::cuda(0)?, 75_001, 64, 4_104, 8) {
        Err(why @ Error::Memory { .. }) => {
            _ = writeln!(std::io::stderr(), "rows of more than 2^31 elements on a GPU are skipped: {why}");
            Ok(())
        }
        done => done,
    }
}

/// At least 16 times as many blocks as the largest GPU runs at once: blocks of 64 threads, of which 144 multiprocessors
/// hold 32 each. A block that wrote where another one still reads would show in some row.
#[test]
fn cuda_far_more_blocks_than_run_at_once() -> Check {
    let Some(engine) = gpu::gpu()? else { return Ok(()) };
    let (t, e, h, k) = (16 * 144 * 32, 64, 520, 2);
    let x = tensor::<f32>(&engine, [t, h], |i| (i % (1 << 24)) as f64)?;
    let host = x.read::<f32>()?;
    let (sizes, order) = chunks(e, t);
    let (s, o) = (engine.tensor([e], &sizes)?, engine.tensor([e], &order)?);
    let d = &call(&engine, &ChunkMap { rows: t }, &[s.view(), o.view()])?[0];
    let there = &call(&engine, &SortChunks::default(), &[x.view(), d.view()])?[0];
    let inverse = SortChunks { probs: false, inverse: true };
    let back = &call(&engine, &inverse, &[there.view(), d.view()])?[0];
    assert!(back.read::<f32>()? == host, "chunks sorted and brought back");
    let routing = routing(t, e, k);
    let op = RouteMap { most: k, rows: t * k, align: 1, index: Index::I32 };
    let maps = call(&engine, &op, &[routed::<u8>(&engine, &routing, e)?.view()])?;
    let y = &call(&engine, &Permute::default(), &[x.view(), maps[0].view(), maps[1].view()])?[0];
    let moved = y.read::<f32>()?;
    for (row, &source) in expected(&routing, e, &op).source.iter().enumerate() {
        let got = &moved[row * h..][..h];
        let same = match usize::try_from(source) {
            Ok(source) => got == &host[source / k * h..][..h],
            Err(_) => got.iter().all(|&v| v == 0.0),
        };
        assert!(same, "row {row} of source {source}");
    }
    Ok(())
}
