// Where WHOLE is set, rows lie in one axis, are of whole units, at most one a lane of a warp, side by side and aligned
// everywhere: most are so, and without the ways for others the code is short enough to wait little for.

template <class E>
DEVICE void read(A (&v)[N], const E* row, u64 first, u64 end, A beyond, u32 gapless, const Dims& shape, const Dims& stride) {
    if (WHOLE) load_whole(v, row + first);
    else load_unit(v, row, first, end, beyond, gapless, 1, shape, stride);
}
DEVICE void write(const A (&v)[N], T* row, u64 first, u64 end, u32 gapless, const Dims& shape, const Dims& stride) {
    if (WHOLE) store_whole(v, row + first);
    else store_unit(v, row, first, end, gapless, 1, shape, stride);
}
// Where row r starts. Rows mostly lie in one axis: then nothing is divided.
DEVICE u64 start_at(u64 r, u64 rows, u32 rank, const Dims& shape, const Dims& stride) {
    return WHOLE || rank == 1 ? r * stride.v[0] : place_of(r, rows, rank, shape, stride);
}
DEVICE Group lanes_of(u32 lanes, u32 across) {
    if (WHOLE) __builtin_assume(lanes <= 32);
    return group_of(lanes, WHOLE ? 0 : across);
}
