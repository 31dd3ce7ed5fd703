// Losses of two tensors of one shape. A thread takes units of neighbours; which units it takes, and the order in which
// it adds, depend on the number of elements and of blocks only, not on the layout. Where WHOLE is set, each tensor lies in one
// piece: the ways for others take the compiler seconds.

// The term of a difference, and its derivative.
DEVICE A value_of(A d) { return IS_SQUARE ? d * d : fabs(d); }
DEVICE A slope_of(A d) { return IS_SQUARE ? d + d : A(d > A(0)) - A(d < A(0)); }

// The sum of the terms of each block; of a block alone it is the result.
KERNEL(sum_terms) {
    __shared__ double shared[32];
    double total = 0.0;
    u64 threads = u64(gridDim.x) * blockDim.x;
    for (u64 first = thread_index() * N; first < n; first += threads * N) {
        A p[N], t[N];
        load_unit(p, prediction.data, first, n, A(0), WHOLE, WHOLE ? 1 : rank, shape, prediction.stride);
        load_unit(t, target.data, first, n, A(0), WHOLE, WHOLE ? 1 : rank, shape, target.stride);
        A part = A(0);
#pragma unroll
        for (int i = 0; i < N; i++) part += value_of(p[i] - t[i]);
        total += double(part);
    }
    total = block_all<Sum>(total, 0.0, shared);
    if (threadIdx.x != 0) return;
    if (gridDim.x == 1) *out = narrow<T>(total * scale);
    else partial[blockIdx.x] = total;
}

// All of a unit is loaded before any is stored: the result may lie in an argument.
KERNEL(slopes) {
    u64 first = thread_index() * N;
    if (first >= n) return;
    A factor = A(double(widen(*cotangent)) * scale);
    A p[N], t[N];
    load_unit(p, prediction.data, first, n, A(0), WHOLE, WHOLE ? 1 : rank, shape, prediction.stride);
    load_unit(t, target.data, first, n, A(0), WHOLE, WHOLE ? 1 : rank, shape, target.stride);
#pragma unroll
    for (int i = 0; i < N; i++) p[i] = slope_of(p[i] - t[i]) * factor;
    store_unit(p, out, first, n, WHOLE, WHOLE ? 1 : rank, shape, out.stride);
}
