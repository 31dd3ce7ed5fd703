// Products of many rows and few columns, whose left factor has a contiguous inner axis. A group of LANES lanes takes ROWS rows at
// once, a lane every LANES-th unit of UNIT inner elements of them; the right factor lies in shared memory, column by column. A lane
// adds in order, the lanes are added pairwise: the order depends on sizes alone.
constexpr u32 THREADS = 256, ROWS = 4, C = u32(COLUMNS), N = u32(UNIT), L = u32(LANES), GROUPS = THREADS / L;

KERNEL(product, __launch_bounds__(THREADS, 2)) {
    __shared__ __align__(16) A right[u32(MOST)];
    u32 inner = u32(k), lane = threadIdx.x % L, own = threadIdx.x / L * ROWS;
    for (u32 i = threadIdx.x; i < C * inner; i += THREADS) {
        right[i] = A(widen(rhs[i % inner * rhs_row + i / inner * rhs_column]));
    }
    __syncthreads();
    for (u64 start = u64(blockIdx.x) * GROUPS * ROWS; start < m; start += u64(gridDim.x) * GROUPS * ROWS) {
        u64 row = start + own;
        A sum[ROWS][C] = {};
        for (u32 first = lane * N; first < inner; first += L * N) {
            A left[ROWS][N];
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) {
                const T* at = lhs + (row + r) * lhs_row + first;
                Several<T, N> unit;
                if (WHOLE && row + r < m) unit = Several<T, N>::load(at);
#pragma unroll
                for (u32 i = 0; i < N; i++) {
                    bool inside = row + r < m && (WHOLE || first + i < inner);
                    left[r][i] = inside ? A(widen(WHOLE ? unit.v[i] : at[i])) : A(0);
                }
            }
#pragma unroll
            for (u32 c = 0; c < C; c++) {
                Several<A, N> weight;
                if (WHOLE) weight = Several<A, N>::load(right + c * inner + first);
#pragma unroll
                for (u32 i = 0; i < N; i++) {
                    if (!WHOLE) weight.v[i] = first + i < inner ? right[c * inner + first + i] : A(0);
#pragma unroll
                    for (u32 r = 0; r < ROWS; r++) sum[r][c] = fused(left[r][i], weight.v[i], sum[r][c]);
                }
            }
        }
#pragma unroll
        for (u32 r = 0; r < ROWS; r++) {
#pragma unroll
            for (u32 c = 0; c < C; c++) {
#pragma unroll
                for (u32 apart = L / 2; apart > 0; apart /= 2) sum[r][c] += __shfl_xor_sync(0xFFFFFFFFu, sum[r][c], apart);
                if ((r * C + c) % L != lane || row + r >= m) continue;
                A result = sum[r][c];
                if (ADDED) result += A(widen(addend[(row + r) * addend_row + c * addend_column]));
                if (BIASED) result += A(widen(bias[c * bias_step]));
                out[(row + r) * out_row + c * out_column] = narrow<R>(result);
            }
        }
    }
}
