// Attention for which a block has one head, whose queries, keys and values lie whole in shared memory.

constexpr u32 N = u32(TOKENS), E = u32(FEATURES);  // a multiple of 4; beyond the last feature are zeros

DEVICE float exponential(float x) { return expf(x); }
DEVICE double exponential(double x) { return exp(x); }
DEVICE A infinity() { return A(__int_as_float(0x7F800000)); }

// The first element of the block's head: [b, ., head, .] of features, [b, head, ., .] of scores.
template <class X> DEVICE X* features_of(const View<X>& x, u32 heads) {
    return x.data + u64(blockIdx.x / heads) * x.stride.v[0] + u64(blockIdx.x % heads) * x.stride.v[2];
}
template <class X> DEVICE X* scores_of(const View<X>& x, u32 heads) {
    return x.data + u64(blockIdx.x / heads) * x.stride.v[0] + u64(blockIdx.x % heads) * x.stride.v[1];
}
// Whether features are contiguous, four to an access.
DEVICE bool by_fours(const T* x, const Dims& s, u32 e) {
    return s.v[3] == 1 && e == E && s.v[1] % 4 == 0 && reinterpret_cast<u64>(x) % (4 * sizeof(T)) == 0;
}
