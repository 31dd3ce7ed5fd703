// The rows of tensors of one shape. (With `units.cu`.)

DEVICE u64 start_of(u64 r, const RowFrame& frame, const Dims& stride) {
    return place_of(r, frame.count, frame.rank, frame.shape, stride);
}
// A unit of the row that starts at `row`; elements past its end are `beyond`.
template <class E>
DEVICE void load_row(A (&v)[N], const E* row, u64 first, const RowFrame& frame, const RowView<const E>& view, A beyond = A(0)) {
    load_unit(v, row, first, frame.length, beyond, view.contiguous, 1, frame.shape_row, view.stride_row);
}
DEVICE void store_row(const A (&v)[N], T* row, u64 first, const RowFrame& frame, const RowView<T>& view) {
    store_unit(v, row, first, frame.length, view.contiguous, 1, frame.shape_row, view.stride_row);
}
