// Each row of x times its factor.
KERNEL(scale_rows) {
    u64 index = thread_index();
    if (index >= n) return;
    A scale = A(offset) + A(widen(factor[offset_of<u64>(index, rank, shape, stride_factor)]));
    A value = A(widen(x[offset_of<u64>(index, rank, shape, stride_x)]));
    y[offset_of<u64>(index, rank, shape, stride_y)] = narrow<T>(value * scale);
}
