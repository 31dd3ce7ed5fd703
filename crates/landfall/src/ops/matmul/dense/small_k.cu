// Products of at most four inner elements, of operands that lie in any way: little more than reading both and writing the
// result. A thread has VECTOR neighbouring columns of ROWS rows; what it reads of the right factor it reads once.
constexpr u32 K = u32(INNER), V = u32(VECTOR), ROWS = 4, THREADS = 256;

KERNEL(product) {
    u64 wide = (n + V - 1) / V, size = wide * ((m + ROWS - 1) / ROWS), blocks = (size + THREADS - 1) / THREADS;
    u64 item = blockIdx.x / blocks, i = blockIdx.x % blocks * THREADS + threadIdx.x;
    if (i >= size) return;
    u64 column = i % wide * V, row = i / wide * ROWS;
    const T* a = lhs + offset_of<u64>(item, rank, batch, lhs_batch) + row * lhs_row;
    const T* b = rhs + offset_of<u64>(item, rank, batch, rhs_batch) + column * rhs_column;
    R* c = out + offset_of<u64>(item, rank, batch, out_batch) + row * out_row + column * out_column;
    const R* d = addend + offset_of<u64>(item, rank, batch, addend_batch) + row * addend_row + column * addend_column;
    A right[K][V], left[ROWS][K];
#pragma unroll
    for (u32 p = 0; p < K; p++) {
#pragma unroll
        for (u32 v = 0; v < V; v++) right[p][v] = A(widen(b[p * rhs_row + v * rhs_column]));
#pragma unroll
        for (u32 r = 0; r < ROWS; r++) left[r][p] = row + r < m ? A(widen(a[r * lhs_row + p * lhs_column])) : A(0);
    }
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
        if (row + r >= m) return;
        Several<R, V> result;
#pragma unroll
        for (u32 v = 0; v < V; v++) {
            A sum = left[r][0] * right[0][v];
#pragma unroll
            for (u32 p = 1; p < K; p++) sum = fused(left[r][p], right[p][v], sum);
            if (ADDED) sum += A(widen(d[r * addend_row + v * addend_column]));
            if (BIASED) sum += A(widen(bias[(column + v) * bias_step]));
            result.v[v] = narrow<R>(sum);
        }
        if (V > 1) result.store(c + r * out_row);
        else c[r * out_row] = result.v[0];
    }
}
