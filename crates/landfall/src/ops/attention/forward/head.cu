// Attention of few tokens with larger heads: a block has one head, whose queries, keys and values lie whole in shared memory,
// and so do its weights. Each pass spreads its results over all threads: none is shared, so none needs atomics, and every
// sum runs in order.

constexpr u32 THREADS = 128, QUADS = E / 4;
constexpr u32 PITCH = E + 4;  // keeps four features of neighbouring rows in different banks

DEVICE void load(A (*to)[PITCH], const T* x, const Dims& s, u32 e, A factor) {
    if (by_fours(x, s, e)) {
        for (u32 w = threadIdx.x; w < N * QUADS; w += THREADS) {
            u32 row = w / QUADS, c = w % QUADS * 4;
            Several<T, 4> part = Several<T, 4>::load(x + u64(row) * s.v[1] + c);
#pragma unroll
            for (u32 k = 0; k < 4; k++) to[row][c + k] = A(widen(part.v[k])) * factor;
        }
        return;
    }
    for (u32 w = threadIdx.x; w < N * E; w += THREADS) {
        u32 row = w / E, c = w % E;
        to[row][c] = c < e ? A(widen(x[u64(row) * s.v[1] + u64(c) * s.v[3]])) * factor : A(0);
    }
}
DEVICE A dot(const A* a, const A* b) {
    A sum = A(0);
#pragma unroll 8
    for (u32 c = 0; c < E; c += 4) {
        Several<A, 4> x = Several<A, 4>::load(a + c), y = Several<A, 4>::load(b + c);
#pragma unroll
        for (u32 k = 0; k < 4; k++) sum = fused(x.v[k], y.v[k], sum);
    }
    return sum;
}
// Row i of the result is the sum of all rows, row j times `weight(i, j)`, times `factor(i)`.
template <class W, class F>
DEVICE void weigh(T* to, const Dims& s, u32 e, A (*rows)[PITCH], const W& weight, const F& factor) {
    bool fours = by_fours(to, s, e);
    for (u32 w = threadIdx.x; w < N * QUADS; w += THREADS) {
        u32 i = w / QUADS, c = w % QUADS * 4;
        A sums[4] = {};
#pragma unroll 4
        for (u32 j = 0; j < N; j++) {
            Several<A, 4> x = Several<A, 4>::load(&rows[j][c]);
            A own = weight(i, j);
#pragma unroll
            for (u32 k = 0; k < 4; k++) sums[k] = fused(own, x.v[k], sums[k]);
        }
        T* at = to + u64(i) * s.v[1];
        Several<T, 4> rounded;
#pragma unroll
        for (u32 k = 0; k < 4; k++) rounded.v[k] = narrow<T>(sums[k] * factor(i));
        if (fours) {
            rounded.store(at + c);
            continue;
        }
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            if (c + k < e) at[u64(c + k) * s.v[3]] = rounded.v[k];
        }
    }
}
