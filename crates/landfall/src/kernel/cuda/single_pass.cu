// Where SINGLE_PASS is not 0, rows lie in one axis, are of whole units, at most PASSES a lane, contiguous and aligned
// everywhere, and a row has SINGLE_PASS lanes: it is read once and stays in registers. Most are so, and without the ways for
// others the code is short enough to wait little for. (With `group.cu` and `rows.cu`.)

constexpr u32 KEPT = SINGLE_PASS ? u32(PASSES) : 1;

// Calls f with the first element of each unit of a lane, and its number among the kept ones: 0 where none are kept.
template <class F> DEVICE void each_unit(const Group& g, u64 end, F f) {
    u64 step = u64(g.lanes) * N;
    if (SINGLE_PASS) {
#pragma unroll
        for (u32 k = 0; k < KEPT; k++) {
            u64 first = g.lane * N + k * step;
            if (first < end) f(first, k);
        }
        return;
    }
    for (u64 first = g.lane * N; first < end; first += step) f(first, 0u);
}

template <class E>
DEVICE void read(A (&v)[N], const E* row, u64 first, const RowFrame& frame, const RowView<const E>& view, A beyond = A(0)) {
    if (SINGLE_PASS) load_whole(v, row + first);
    else load_row(v, row, first, frame, view, beyond);
}
DEVICE void write(const A (&v)[N], T* row, u64 first, const RowFrame& frame, const RowView<T>& view) {
    if (SINGLE_PASS) store_whole(v, row + first);
    else store_row(v, row, first, frame, view);
}
// Where row r starts. Rows mostly lie in one axis: then nothing is divided.
DEVICE u64 start_at(u64 r, const RowFrame& frame, const Dims& stride) {
    return SINGLE_PASS || frame.rank == 1 ? r * stride.v[0] : start_of(r, frame, stride);
}
DEVICE Group lanes_of(const RowFrame& frame) {
    return SINGLE_PASS ? group_of(u32(SINGLE_PASS), 0) : group_of(frame.lanes, frame.across);
}
