// Attention in which a warp has a query or a key. Of the other side it takes 32 at once: a lane makes the score of one; then
// the lanes have the features, EACH each, and add the 32 in order. Heads with more than 32 * EACH features take several passes
// over them, which make the scores again.

constexpr u32 SPAN = 32 * u32(EACH);

DEVICE float exponential(float x) { return expf(x); }
DEVICE double exponential(double x) { return exp(x); }
DEVICE A infinity() { return A(__int_as_float(0x7F800000)); }

// A row of features of [B, ., heads, features].
template <class E> DEVICE E* row_of(const View<E>& x, u64 b, u64 token, u64 head) {
    return x.data + b * x.stride.v[0] + token * x.stride.v[1] + head * x.stride.v[2];
}
// An element of [B, heads, queries].
template <class E> DEVICE E* stat_of(const View<E>& x, u64 b, u64 head, u64 i) {
    return x.data + b * x.stride.v[0] + head * x.stride.v[1] + i * x.stride.v[2];
}

DEVICE A dot(const T* x, u64 step_x, const T* y, u64 step_y, u32 features) {
    A sum = A(0);
    for (u32 c = 0; c < features; c++) sum = fused(A(widen(x[c * step_x])), A(widen(y[c * step_y])), sum);
    return sum;
}

// The number of keys of a batch entry as given, clamped, and reported where it is out of range.
template <class N> DEVICE i64 length_of(const View<const N>& lengths, u64 b, u32 keys) {
    if constexpr (LENGTHS != 0) return lengths.data[b * lengths.stride.v[0]];
    else return keys;
}
DEVICE u32 keys_of(i64 length, u32 keys) { return length < 0 ? 0 : u32(min(u64(length), u64(keys))); }
DEVICE void check_length(i64 length, u64 b, u32 keys, const Faults& faults) {
    if (threadIdx.x % 32 == 0 && (length < 0 || length > i64(keys))) flag(faults, b, length, u64(keys) + 1);
}
// The keys that query i sees of n: the first ones.
DEVICE u32 visible_to(bool causal, u32 i, u32 queries, u32 n) {
    if (!causal) return n;
    u32 end = n + i + 1;
    return end <= queries ? 0 : min(end - queries, n);
}
// A query, its head and batch entry, and the number of keys that it sees.
struct Query { u32 i, head, b, n; };
template <class N>
DEVICE Query query_of(u32 row, u32 queries, u32 heads, u32 keys, bool causal, const View<const N>& lengths, const Faults& faults) {
    Query x = {row % queries, row / queries % heads, row / queries / heads, 0};
    i64 length = length_of(lengths, x.b, keys);
    if (x.i == 0 && x.head == 0) check_length(length, x.b, keys, faults);
    x.n = visible_to(causal, x.i, queries, keys_of(length, keys));
    return x;
}

// A score with its mask, which hides a key whatever its score is.
DEVICE A masked(A score, const View<const M>& mask, u64 b, u64 head, u64 i, u64 j) {
    if (MASK == 0) return score;
    auto m = mask.data[b * mask.stride.v[0] + head * mask.stride.v[1] + i * mask.stride.v[2] + j * mask.stride.v[3]];
    if (MASK == 1) return widen(m) == 0 ? -infinity() : score;
    A added = A(widen(m));
    return added == -infinity() ? added : score + added;
}

// Adds to the lanes' features, from `col` on, those of up to 32 rows, each times the weight of its lane. Of a row with a weight
// of 0 nothing is read: it may be NaN.
template <class E>
DEVICE void add_rows(A (&sums)[EACH], A weight, u32 count, const E* rows, u64 step, u64 step_c, u32 col, u32 features) {
    u32 lane = threadIdx.x % 32;
    for (u32 t = 0; t < count; t++) {
        A w = __shfl_sync(0xFFFFFFFFu, weight, t);
        if (w == A(0)) continue;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            u32 c = col + e * 32 + lane;
            if (c < features) sums[e] = fused(w, A(widen(rows[t * step + c * step_c])), sums[e]);
        }
    }
}
template <class E>
DEVICE void store_features(E* to, u64 step_c, const A (&sums)[EACH], A factor, u32 col, u32 features) {
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
        u32 c = col + e * 32 + lane;
        if (c < features) to[c * step_c] = narrow<E>(sums[e] * factor);
    }
}
