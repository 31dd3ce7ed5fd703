// Attention of sequences of any length on tensor cores, without scores in memory. A block has OWN lines of one head, sixteen
// for each of its warps, and walks over the others by tiles of TILE; the next tile comes while it works on one. Nothing
// is shared between blocks, and there are no atomics. Weights, and the slopes of scores, are rounded to T before they are
// multiplied. (With `lines.cu`.)

constexpr u32 WARPS = 4, THREADS = 32 * WARPS, OWN = 16 * WARPS;
constexpr u32 TILE = CHUNKS > 8 ? 32 : 64;  // two tiles of two tensors, and the block's own lines of two, fit beside each other

// Which lines of which head.
struct Part {
    u64 batch, head;
    u32 first;  // the first of the block's lines

    template <class X> DEVICE X* features(const View<X>& x) const {
        return x.data + batch * x.stride.v[0] + head * x.stride.v[2];
    }
    template <class X> DEVICE X* scores(const View<X>& x) const {
        return x.data + batch * x.stride.v[0] + head * x.stride.v[1];
    }
};
DEVICE Part part_of(u32 heads, u32 n) {
    u32 parts = (n + OWN - 1) / OWN;
    u64 index = blockIdx.x / parts;
    return {index / heads, index % heads, blockIdx.x % parts * OWN};
}
// The previous score of a query and a key, in the unit of scores that are powers of 2.
DEVICE float previous(const View<const T>& prev, const T* from, u32 query, u32 key, u32 n) {
    return float(widen(from[min(query, n - 1) * prev.stride.v[2] + min(key, n - 1) * prev.stride.v[3]])) * LOG2_E;
}
DEVICE Warp warp() {
    u32 lane = threadIdx.x % 32;
    return {0, threadIdx.x / 32, lane / 4, lane % 4 * 2};
}

// COUNT tokens from `first` on into shared memory, zeros after the last of them.
template <u32 COUNT> DEVICE void fetch(Line* to, const T* x, const Dims& s, u32 first, u32 n) {
    u32 width = width_of(x, s);
#pragma unroll 4
    for (u32 at = threadIdx.x; at < COUNT * CHUNKS; at += THREADS) {
        u32 line = at / CHUNKS, token = first + line;
        fetch_chunk(to[line], x + (token < n ? u64(token) * s.v[1] : 0), s, at % CHUNKS * 8, width, token < n);
    }
}
// The block's lines.
DEVICE void write(T* to, const Dims& s, const Line* lines, u32 first, u32 n) {
    u32 width = width_of(to, s);
    for (u32 at = threadIdx.x; at < OWN * CHUNKS; at += THREADS) {
        u32 line = at / CHUNKS, c = at % CHUNKS * 8, token = first + line;
        if (token < n && c < E) write_chunk(to + u64(token) * s.v[1], lines[line], s, c, width);
    }
}
