// The norm of a tensor and whether all of it is finite. A thread takes units of eight neighbours; which units it takes,
// and the order in which it adds, depend on the number of elements and blocks only, not on the layout.
constexpr int N = 8;

DEVICE Several<T, N> unit_of(const T* x, u64 first, u64 n, u32 contiguous, u32 rank, const Dims& shape, const Dims& stride) {
    if (contiguous && first + N <= n) return Several<T, N>::load(x + first);
    Several<T, N> unit;
#pragma unroll
    for (int i = 0; i < N; i++) {
        unit.v[i] = first + i < n ? x[offset_of<u64>(first + i, rank, shape, stride)] : T();
    }
    return unit;
}

// Threads that find a value that is not finite all store the same 0.
KERNEL(search) {
    typedef Accumulate<T>::type A;
    bool found = false;
    u64 threads = u64(gridDim.x) * blockDim.x;
    for (u64 first = thread_index() * N; first < n; first += threads * N) {
        Several<T, N> unit = unit_of(x, first, n, contiguous, rank, shape, x.stride);
#pragma unroll
        for (int i = 0; i < N; i++) {
            A v = widen(unit.v[i]);
            found |= v - v != A(0);
        }
    }
    if (found) *out = 0;
}

DEVICE double squared(const Several<T, N>& unit) {
    double sum = 0.0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        double v = widen(unit.v[i]);
        sum += v * v;
    }
    return sum;
}

// The sum of squares of each block. A thread waits for two units at once.
KERNEL(squares) {
    __shared__ double shared[32];
    double sum = 0.0;
    u64 step = u64(gridDim.x) * blockDim.x * N;
    for (u64 first = thread_index() * N; first < n; first += 2 * step) {
        Several<T, N> unit = unit_of(x, first, n, contiguous, rank, shape, x.stride);
        Several<T, N> next = unit_of(x, first + step, n, contiguous, rank, shape, x.stride);
        sum += squared(unit);
        sum += squared(next);
    }
    sum = block_all<Sum>(sum, 0.0, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// The root of the sum over the blocks: one block.
KERNEL(root) {
    __shared__ double shared[32];
    double sum = 0.0;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
    sum = block_all<Sum>(sum, 0.0, shared);
    if (threadIdx.x == 0) *out = narrow<A>(sqrt(sum));
}
