// Attention of few tokens with normalised queries and keys. A block has one head. L lanes share a row, four features each, and
// have R neighbouring rows, which use what is read of shared memory together. What a row is multiplied by lies there as it came.

constexpr u32 N = u32(TOKENS), L = u32(LANES), R = u32(ROWS);
constexpr u32 WIDTH = 4 * L;  // of a row in shared memory; beyond the last feature are zeros
// Keys that the lanes of a row have at a time, one each; where there are fewer than lanes, several lanes have the same.
constexpr u32 SOME = N > 16 ? 32 : N > 8 ? 16 : N > 4 ? 8 : N > 2 ? 4 : N, C = SOME < L ? SOME : L;
constexpr u32 TIMES = (N + C - 1) / C;
constexpr u32 ALL = 0xFFFFFFFFu;

typedef Several<T, 4> Quad;

DEVICE float exponential(float x) { return expf(x); }
DEVICE double exponential(double x) { return exp(x); }
DEVICE float logarithm(float x) { return logf(x); }
DEVICE double logarithm(double x) { return log(x); }
// To two units in the last place, without the branches that an exact root and a division have for rare operands.
DEVICE float inverse_root(float x) { return rsqrtf(x); }
DEVICE double inverse_root(double x) { return rsqrt(x); }
DEVICE A infinity() { return A(__int_as_float(0x7F800000)); }

// Where a thread stands: its lane, its first feature and row, the block's batch entry and head.
struct Place {
    u32 lane, c, row;
    u64 b, head;
};
DEVICE Place place(u32 heads) {
    u32 lane = threadIdx.x % L;
    Place p = {lane, 4 * lane, threadIdx.x / L * R, blockIdx.x / heads, blockIdx.x % heads};
    return p;
}

// Whether all features lie four to an access: what begins at a multiple of four goes on in such steps.
DEVICE bool by_fours(const T* x, const Dims& s, u32 last, u32 e) {
    u64 steps = e;
    for (u32 axis = 0; axis < last; axis++) steps |= s.v[axis];
    return s.v[last] == 1 && steps % 4 == 0 && reinterpret_cast<u64>(x) % (4 * sizeof(T)) == 0;
}
// The thread's features of its rows, zeros where there are none. `x` is the first element of the head.
template <bool FOURS> DEVICE void load(Quad (&to)[R], const Place& p, const T* x, u64 row, u64 step, u32 e) {
#pragma unroll
    for (u32 r = 0; r < R; r++) {
        const T* at = x + (p.row + r) * row + p.c * step;
        u32 here = p.row + r < N ? e : 0;
#pragma unroll
        for (u32 k = 0; k < 4; k++) to[r].v[k] = narrow<T>(A(0));
        if (FOURS) {
            if (p.c < here) to[r] = Quad::load(at);
        } else {
#pragma unroll
            for (u32 k = 0; k < 4; k++) {
                if (p.c + k < here) to[r].v[k] = at[k * step];
            }
        }
    }
}
template <bool FOURS>
DEVICE void load_all(
    Quad (&q)[R], Quad (&k)[R], Quad (&v)[R], const Place& p, const T* x, const Dims& s, u32 e
) {
    load<FOURS>(q, p, x, s.v[1], s.v[4], e);
    load<FOURS>(k, p, x + s.v[2], s.v[1], s.v[4], e);
    load<FOURS>(v, p, x + 2 * s.v[2], s.v[1], s.v[4], e);
}
// Keeps the thread's rows as they are.
DEVICE void keep_rows(T (*to)[WIDTH], const Place& p, const Quad (&x)[R]) {
#pragma unroll
    for (u32 r = 0; r < R; r++) {
        if (p.row + r < N) x[r].store(&to[p.row + r][p.c]);
    }
}
// Rounds what the thread has of its rows, each times its factor.
template <bool FOURS>
DEVICE void store(
    T* x, const Place& p, u64 row, u64 step, u32 e, const A (&v)[R][4], const A (&factor)[R]
) {
#pragma unroll
    for (u32 r = 0; r < R; r++) {
        T* at = x + (p.row + r) * row + p.c * step;
        u32 here = p.row + r < N ? e : 0;
        Quad rounded;
#pragma unroll
        for (u32 k = 0; k < 4; k++) rounded.v[k] = narrow<T>(v[r][k] * factor[r]);
        if (FOURS) {
            if (p.c < here) rounded.store_whole(at);
        } else {
#pragma unroll
            for (u32 k = 0; k < 4; k++) {
                if (p.c + k < here) at[k * step] = rounded.v[k];
            }
        }
    }
}

DEVICE A dot(const Quad& x, const Quad& y) {
    A sum = A(widen(x.v[0])) * A(widen(y.v[0]));
#pragma unroll
    for (u32 k = 1; k < 4; k++) sum = fused(A(widen(x.v[k])), A(widen(y.v[k])), sum);
    return sum;
}
DEVICE void add(A (&sums)[4], A weight, const Quad& x) {
#pragma unroll
    for (u32 k = 0; k < 4; k++) sums[k] = fused(weight, A(widen(x.v[k])), sums[k]);
}
// Joins what `lanes` neighbouring lanes have; each gets the result.
template <class F> DEVICE A lanes_all(A x, u32 lanes) {
#pragma unroll
    for (u32 step = 1; step < lanes; step *= 2) x = F::of(x, __shfl_xor_sync(ALL, x, step));
    return x;
}
DEVICE A inverse_length(const Quad& x, double eps) {
    return inverse_root(lanes_all<Sum>(dot(x, x), L) + A(eps));
}
// Adds up C values over the lanes of a row; a lane gets the sum of the value of its own number. Each step halves how many
// values a lane has, and doubles how many lanes are in them.
template <u32 HAVE> DEVICE A spread(A (&x)[HAVE], u32 lane) {
    if constexpr (HAVE == 1) {
#pragma unroll
        for (u32 step = C; step < L; step *= 2) x[0] += __shfl_xor_sync(ALL, x[0], step);
        return x[0];
    } else {
        constexpr u32 HALF = HAVE / 2;
        bool upper = lane & HALF;
        A sums[HALF];
#pragma unroll
        for (u32 i = 0; i < HALF; i++) {
            A kept = upper ? x[i + HALF] : x[i], sent = upper ? x[i] : x[i + HALF];
            sums[i] = kept + __shfl_xor_sync(ALL, sent, HALF);
        }
        return spread(sums, lane);
    }
}
// The key of a lane, of those that are had the `time`-th time: there may be none.
DEVICE u32 key_of(const Place& p, u32 time) { return time * C + p.lane % C; }
// Products of the thread's rows with its keys.
DEVICE void products(A (&to)[R][TIMES], const Place& p, const Quad (&x)[R], const T (*y)[WIDTH]) {
#pragma unroll
    for (u32 time = 0; time < TIMES; time++) {
        A parts[R][C];
#pragma unroll
        for (u32 j = 0; j < C; j++) {
            if (time * C + j < N) {
                Quad other = Quad::load(&y[time * C + j][p.c]);
#pragma unroll
                for (u32 r = 0; r < R; r++) parts[r][j] = dot(x[r], other);
            } else {
#pragma unroll
                for (u32 r = 0; r < R; r++) parts[r][j] = A(0);
            }
        }
#pragma unroll
        for (u32 r = 0; r < R; r++) to[r][time] = spread(parts[r], p.lane);
    }
}
