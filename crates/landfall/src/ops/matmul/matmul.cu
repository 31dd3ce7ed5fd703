// Products of operands that lie in any way. A block computes a tile of 64 x 64 elements of one product of the batch; a
// thread 4 x 4 of them, 16 apart, so that neighbours read neighbours. Both factors come by way of shared memory, SLAB
// inner indices at a time; which axis neighbouring threads walk follows the strides. Sums run over the inner axis in
// order, in the accumulation type, in chains of CHAIN that are added up in turn: long chains of f32 lose digits. A long
// inner axis of a small result is cut: each block of a part leaves its sums in `partial`, which `join` adds in order.
constexpr u32 TILE = 64, SLAB = 16, EACH = 4, THREADS = 256, CHAIN = 256;

// Loads rows `from`.. of TILE x SLAB elements: `outer` is the axis of 64, `inner` the one that is summed over.
DEVICE void load_tile(A (*to)[TILE + 1], const T* from, u64 outer, u64 outers, u64 outer_step, u64 inner, u64 inners,
                      u64 inner_step) {
#pragma unroll 1  // addresses of several would not fit into the registers
    for (u32 e = threadIdx.x; e < TILE * SLAB; e += THREADS) {
        u32 o = inner_step == 1 ? e / SLAB : e % TILE;
        u32 i = inner_step == 1 ? e % SLAB : e / TILE;
        bool inside = outer + o < outers && inner + i < inners;
        to[i][o] = inside ? A(widen(from[(outer + o) * outer_step + (inner + i) * inner_step])) : A(0);
    }
}

KERNEL(product) {
    __shared__ A left[SLAB][TILE + 1], right[SLAB][TILE + 1];
    u64 tiles_n = (n + TILE - 1) / TILE, tiles_m = (m + TILE - 1) / TILE;
    u64 tile = blockIdx.x;
    u64 column = tile % tiles_n * TILE, row = tile / tiles_n % tiles_m * TILE, item = tile / tiles_n / tiles_m;
    const T* a = lhs + offset_of<u64>(item, rank, batch, lhs_batch);
    const T* b = rhs + offset_of<u64>(item, rank, batch, rhs_batch);
    T* c = out + offset_of<u64>(item, rank, batch, out_batch);
    A sum[EACH][EACH] = {}, total[EACH][EACH] = {};
    u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
    u64 begin = blockIdx.y * each, end = min(begin + each, k);
    for (u64 inner = begin; inner < end; inner += SLAB) {
        load_tile(left, a, row, m, lhs_row, inner, end, lhs_column);
        load_tile(right, b, column, n, rhs_column, inner, end, rhs_row);
        __syncthreads();
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
                for (u32 j = 0; j < EACH; j++) sum[i][j] += l[i] * r[j];
        }
        __syncthreads();
        if (inner + SLAB < end && (inner + SLAB - begin) % CHAIN != 0) continue;
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
            if (CUT) {
                partial[(blockIdx.y * m + at_row) * n + at_column] = result;
                continue;
            }
            if (BIASED) result += A(widen(bias[at_column * bias_step]));
            c[at_row * out_row + at_column * out_column] = narrow<T>(result);
        }
    }
}

// A warp has 32 neighbouring elements of the result, each of its lanes one; the block's warps share the parts.
KERNEL(join) {
    __shared__ double sums[THREADS];
    u64 i = u64(blockIdx.x) * 32 + threadIdx.x % 32;
    double sum = 0.0;
    if (i < m * n) {
#pragma unroll 4
        for (u64 part = threadIdx.x / 32; part < parts; part += THREADS / 32) sum += double(partial[part * m * n + i]);
    }
    sums[threadIdx.x] = sum;
    for (u32 half = THREADS / 2; half >= 32; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x >= 32 || i >= m * n) return;
    u64 row = i / n, column = i % n;
    double total = sums[threadIdx.x];
    if (BIASED) total += double(widen(bias[column * bias_step]));
    out[row * out_row + column * out_column] = narrow<T>(total);
}
