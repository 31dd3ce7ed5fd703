// Products of operands that lie in any way. A block computes a tile of 64 x 64 elements of one product of the batch; a
// thread 4 x 4 of them, 16 apart, so that neighbours read neighbours. Both factors come by way of shared memory, SLAB
// inner indices at a time; which axis neighbouring threads walk follows the strides. Sums run over the inner axis in
// order, in the accumulation type, in chains of CHAIN that are added up in turn: long chains of f32 lose digits.
typedef Accumulate<T>::type A;
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
    for (u64 inner = 0; inner < k; inner += SLAB) {
        load_tile(left, a, row, m, lhs_row, inner, k, lhs_column);
        load_tile(right, b, column, n, rhs_column, inner, k, rhs_row);
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
            if (BIASED) result += A(widen(bias[at_column * bias_step]));
            c[at_row * out_row + at_column * out_column] = narrow<T>(result);
        }
    }
}
