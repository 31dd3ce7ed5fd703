// Rows that a warp, or a part of one, holds in registers: as in `single_pass.cu`, of up to HELD units a lane. A lane has the
// units that HELD lanes have elsewhere, and adds them in the order in which those lanes are added: the results are the
// same. A thread goes on with further rows, which come while it works on one. (With `units.cu` and `group.cu`.)

constexpr u32 HELD = SINGLE_PASS > 32 ? u32(SINGLE_PASS) / 32 : 1, ROW_LANES = u32(SINGLE_PASS) / HELD;

// Reduces a value of each unit over the lanes of a row; every lane gets the result.
template <class F, class V> DEVICE V row_all(const V (&of)[HELD]) {
    V x[HELD];
#pragma unroll
    for (u32 k = 0; k < HELD; k++) x[k] = of[k];
#pragma unroll
    for (u32 half = HELD / 2; half > 0; half /= 2) {
#pragma unroll
        for (u32 k = 0; k < half; k++) x[k] = F::of(x[k], x[k + half]);
    }
#pragma unroll
    for (u32 apart = ROW_LANES / 2; apart > 0; apart /= 2) x[0] = F::of(x[0], __shfl_xor_sync(0xFFFFFFFFu, x[0], apart));
    return x[0];
}

// The units of a row that a lane has.
struct Units {
    u32 lane, length;
    DEVICE u32 first(u32 k) const { return (lane + k * ROW_LANES) * N; }
    DEVICE bool inside(u32 k) const { return first(k) < length; }
};
template <class E> struct Row {
    Several<E, N> unit[HELD];
    DEVICE void load(const E* row, const Units& u) {
#pragma unroll
        for (u32 k = 0; k < HELD; k++) {
            if (u.inside(k)) unit[k] = Several<E, N>::load(row + u.first(k));
        }
    }
    // The elements of unit k in the accumulation type; without them zeros.
    DEVICE void widened(A (&v)[N], u32 k, const Units& u) const {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = u.inside(k) ? A(widen(unit[k].v[i])) : A(0);
    }
};
