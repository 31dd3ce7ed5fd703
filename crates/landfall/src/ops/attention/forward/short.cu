// Attention of sequences of up to 128 tokens on tensor cores. A block has HEADS whole heads in shared memory, and WARPS warps
// for each; a warp takes sixteen rows of scores at a time. Weights, and the slopes of scores, are rounded
// to T before they are multiplied. (With `lines.cu`.)

constexpr u32 N = u32(TOKENS);
constexpr u32 LINES = (N + 15) / 16 * 16, STRIPS = LINES / 16;  // beyond the last token are zeros
constexpr u32 OWN = u32((STRIPS + WARPS - 1) / WARPS);          // strips of a warp at most
constexpr u32 THREADS = u32(HEADS * WARPS * 32);
// An odd number of chunks, as of lines.
constexpr u32 SQUARE = (LINES / 8 | 1) * 8;
typedef T Scores[SQUARE];  // of a key, by query

// Scores that meet others in memory are first what these are.
constexpr bool MEETING = PREV || SCORES;

// One of the block's heads: its number in the block and among all, and where it lies.
struct Head {
    u32 slot;
    u64 batch, head;
    bool inside;

    template <class X> DEVICE X* features(const View<X>& x) const {
        return x.data + batch * x.stride.v[0] + head * x.stride.v[2];
    }
    template <class X> DEVICE X* scores(const View<X>& x) const {
        return x.data + batch * x.stride.v[0] + head * x.stride.v[1];
    }
};
DEVICE Head head_at(u32 slot, u64 all, u32 heads) {
    u64 index = u64(blockIdx.x) * HEADS + slot;
    Head h = {slot, index / heads, index % heads, index < all};
    return h;
}

// How a block moves rows: lanes have neighbouring chunks of a token, then neighbouring heads, so that accesses are whole
// where heads lie next to each other.
constexpr u32 CHUNK_LANES = CHUNKS <= 1 ? 1 : CHUNKS <= 2 ? 2 : CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 8 : 16;
constexpr u32 TOKENS_AT_ONCE = THREADS / (u32(HEADS) * CHUNK_LANES);
constexpr u32 ROUNDS = (LINES + TOKENS_AT_ONCE - 1) / TOKENS_AT_ONCE;
struct Mover {
    Head head;
    u32 chunk, first;
    bool has_chunk;
    DEVICE u32 token(u32 round) const { return first + round * TOKENS_AT_ONCE; }
};
DEVICE Mover mover(u64 all, u32 heads) {
    u32 at = threadIdx.x;
    Mover m = {head_at(at / CHUNK_LANES % u32(HEADS), all, heads), at % CHUNK_LANES, at / (CHUNK_LANES * u32(HEADS)), false};
    m.has_chunk = m.chunk < CHUNKS;
    return m;
}

// Rows of the mover's head into shared memory; what is not inside becomes zeros.
DEVICE void fetch(Line* to, const T* x, const Dims& s, const Mover& m) {
    u32 width = width_of(x, s), c = m.chunk * 8;
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
        u32 token = m.token(round);
        if (token >= LINES || !m.has_chunk) continue;
        bool inside = m.head.inside && token < N;
        const T* from = x + (inside ? u64(token) * s.v[1] : 0);
        fetch_chunk(to[token], from, s, c, width, inside);
    }
}
DEVICE void write(T* to, const Dims& s, const Line* lines, const Mover& m) {
    u32 width = width_of(to, s), c = m.chunk * 8;
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
        u32 token = m.token(round);
        if (token >= N || c >= E || !m.head.inside) continue;
        write_chunk(to + u64(token) * s.v[1], lines[token], s, c, width);
    }
}

DEVICE Warp warp() {
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Warp w = {warp / u32(WARPS), warp % u32(WARPS), lane / 4, lane % 4 * 2};
    return w;
}
