// Rows of one tensor: how many, of how many elements, and where each starts and goes on. (With `units.cu`.)

struct Rows {
    u64 count, length;
    u32 rank, gapless;
    const Dims& shape;
    const Dims& stride;
    const Dims& shape_row;
    const Dims& stride_row;
};
DEVICE u64 start_of(u64 r, const Rows& rows) { return place_of(r, rows.count, rows.rank, rows.shape, rows.stride); }
// A unit of a row; what lies past its end is `beyond`.
DEVICE void load_row(A (&v)[N], const T* row, u64 first, const Rows& rows, A beyond = A(0)) {
    load_unit(v, row, first, rows.length, beyond, rows.gapless, 1, rows.shape_row, rows.stride_row);
}
