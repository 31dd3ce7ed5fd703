// Products of operands that lie in any way. A block computes a tile of 64 x 64 elements of one product of the batch; a
// thread 4 x 4 of them, 16 apart, so that neighbours read neighbours. Both factors come by way of shared memory, SLAB
// inner indices at a time; which axis neighbouring threads walk follows the strides. Sums run over the inner axis in
// order, in the accumulation type, in chains of CHAIN that are added up in turn: long chains of f32 lose digits.
constexpr u32 TILE = 64, SLAB = 16, EACH = 4, THREADS = 256, CHAIN = 256;

// One operand's way through shared memory: TILE indices of its `outer` axis, SLAB of the one that is summed over. Each
// thread moves EACH elements. A slab is fetched while the one before is multiplied.
struct Walk {
    const T* from;
    u64 outer, outers, outer_step, inner_step;
    bool along;  // whether neighbouring threads walk the inner axis
};
DEVICE void fetch(A (&held)[EACH], const Walk& w, u64 inner, u64 end) {
    u32 t = threadIdx.x;
    u64 o = w.outer + (w.along ? t / SLAB : t % TILE), i = inner + (w.along ? t % SLAB : t / TILE);
    const T* at = w.from + o * w.outer_step + i * w.inner_step;
    u32 over = w.along ? THREADS / SLAB : 0, on = w.along ? 0 : THREADS / TILE;
    u64 hop = over * w.outer_step + on * w.inner_step;
#pragma unroll
    for (u32 u = 0; u < EACH; u++) {
        bool inside = o + u * over < w.outers && i + u * on < end;
        held[u] = inside ? A(widen(at[u * hop])) : A(0);
    }
}
DEVICE void put(A (*to)[TILE + 1], const A (&held)[EACH], const Walk& w) {
    u32 t = threadIdx.x;
#pragma unroll
    for (u32 u = 0; u < EACH; u++) {
        if (w.along) to[t % SLAB][t / SLAB + u * (THREADS / SLAB)] = held[u];
        else to[t / TILE + u * (THREADS / TILE)][t % TILE] = held[u];
    }
}

KERNEL(product) {
    __shared__ A left[SLAB][TILE + 1], right[SLAB][TILE + 1];
    u64 tiles_n = (n + TILE - 1) / TILE, tiles_m = (m + TILE - 1) / TILE;
    u64 tile = blockIdx.x;
    u64 column = tile % tiles_n * TILE, row = tile / tiles_n % tiles_m * TILE, item = tile / tiles_n / tiles_m;
    const T* a = lhs + offset_of<u64>(item, rank, batch, lhs_batch);
    const T* b = rhs + offset_of<u64>(item, rank, batch, rhs_batch);
    R* c = out + offset_of<u64>(item, rank, batch, out_batch);
    const R* d = addend + offset_of<u64>(item, rank, batch, addend_batch);
    A sum[EACH][EACH] = {}, total[EACH][EACH] = {};
    u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
    Walk of_a = {a, row, m, lhs_row, lhs_column, lhs_column == 1}, of_b = {b, column, n, rhs_column, rhs_row, rhs_row == 1};
    A held_a[EACH], held_b[EACH];
    fetch(held_a, of_a, 0, k);
    fetch(held_b, of_b, 0, k);
    for (u64 inner = 0; inner < k; inner += SLAB) {
        put(left, held_a, of_a);
        put(right, held_b, of_b);
        __syncthreads();
        fetch(held_a, of_a, inner + SLAB, k);
        fetch(held_b, of_b, inner + SLAB, k);
#pragma unroll
        for (u32 p = 0; p < SLAB; p++) {
            A l[EACH], r[EACH];
#pragma unroll
            for (u32 i = 0; i < EACH; i++) l[i] = left[p][y + 16 * i];
#pragma unroll
            for (u32 j = 0; j < EACH; j++) r[j] = right[p][x + 16 * j];
#pragma unroll
            for (u32 i = 0; i < EACH; i++)
#pragma unroll
                for (u32 j = 0; j < EACH; j++) sum[i][j] = fused(l[i], r[j], sum[i][j]);
        }
        __syncthreads();
        if (inner + SLAB < k && (inner + SLAB) % CHAIN != 0) continue;
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
#pragma unroll
            for (u32 j = 0; j < EACH; j++) {
                total[i][j] += sum[i][j];
                sum[i][j] = 0;
            }
    }
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
#pragma unroll
        for (u32 j = 0; j < EACH; j++) {
            u64 at_row = row + y + 16 * i, at_column = column + x + 16 * j;
            if (at_row >= m || at_column >= n) continue;
            A result = total[i][j];
            if (ADDED) result += A(widen(d[at_row * addend_row + at_column * addend_column]));
            if (BIASED) result += A(widen(bias[at_column * bias_step]));
            c[at_row * out_row + at_column * out_column] = narrow<R>(result);
        }
    }
}
