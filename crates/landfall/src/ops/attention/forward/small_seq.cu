// Attention over few tokens with small heads. A block takes as many whole heads as it has threads for, one row a thread;
// keys, values, queries and slopes of its heads lie in shared memory, so that nothing is read twice. Scores go by PART at
// a time, in registers.

constexpr u32 E = u32(FEATURES);  // of a row, a multiple of 4; beyond the last are zeros
constexpr u32 THREADS = 128;
constexpr u32 PART = 8;

DEVICE float exponential(float x) { return expf(x); }
DEVICE double exponential(double x) { return exp(x); }
DEVICE A infinity() { return A(__int_as_float(0x7F800000)); }

// What a thread works on: a batch entry, a head, its row in it, and the first row of the head in shared memory.
struct Place { u64 b, head; u32 row, base; bool inside; };
DEVICE Place place_of(u64 all, u32 heads, u32 n) {
    u32 each = THREADS / n, slot = threadIdx.x / n;
    u64 index = u64(blockIdx.x) * each + slot;
    Place p = {index / heads, index % heads, threadIdx.x - slot * n, slot * n, slot < each && index < all};
    return p;
}
template <class X> DEVICE X* features_of(const View<X>& x, const Place& p) {
    return x.data + p.b * x.stride.v[0] + u64(p.row) * x.stride.v[1] + p.head * x.stride.v[2];
}
template <class X> DEVICE X* scores_of(const View<X>& x, const Place& p) {
    return x.data + p.b * x.stride.v[0] + p.head * x.stride.v[1];
}

struct alignas(16) Row { A v[E]; };
// Whether a row's features are contiguous, four to an access.
DEVICE bool by_fours(const T* x, u64 step, u32 e) {
    return step == 1 && e == E && reinterpret_cast<u64>(x) % (4 * sizeof(T)) == 0;
}
DEVICE void load_row(Row& row, const T* x, u64 step, u32 e, A factor) {
    if (by_fours(x, step, e)) {
#pragma unroll
        for (u32 c = 0; c < E; c += 4) {
            Several<T, 4> part = Several<T, 4>::load(x + c);
#pragma unroll
            for (u32 i = 0; i < 4; i++) row.v[c + i] = A(widen(part.v[i])) * factor;
        }
        return;
    }
#pragma unroll
    for (u32 c = 0; c < E; c++) row.v[c] = c < e ? A(widen(x[c * step])) * factor : A(0);
}
DEVICE void store_row(const Row& row, T* x, u64 step, u32 e, A factor) {
    if (by_fours(x, step, e)) {
#pragma unroll
        for (u32 c = 0; c < E; c += 4) {
            Several<T, 4> part;
#pragma unroll
            for (u32 i = 0; i < 4; i++) part.v[i] = narrow<T>(row.v[c + i] * factor);
            part.store(x + c);
        }
        return;
    }
#pragma unroll
    for (u32 c = 0; c < E; c++) {
        if (c < e) x[c * step] = narrow<T>(row.v[c] * factor);
    }
}
DEVICE A dot(const Row& a, const Row& b) {
    A sum = A(0);
#pragma unroll
    for (u32 c = 0; c < E; c++) sum = fused(a.v[c], b.v[c], sum);
    return sum;
}
DEVICE void add(Row& row, A weight, const Row& x) {
#pragma unroll
    for (u32 c = 0; c < E; c++) row.v[c] = fused(weight, x.v[c], row.v[c]);
}
DEVICE void clear(Row& row) {
#pragma unroll
    for (u32 c = 0; c < E; c++) row.v[c] = A(0);
}
