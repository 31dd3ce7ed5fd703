// One thread an element of the result.
KERNEL(gather) {
    u64 at = thread_index();
    if (at >= n) return;
    auto place = [&](const Dims& stride) {
        return narrow_offsets ? offset_of<u32>(u32(at), rank, shape, stride) : offset_of<u64>(at, rank, shape, stride);
    };
    u64 named = named_row(index[place(index_stride)], at, size, count, rest, inner, faults);
    out[place(out_stride)] = x[place(x_stride) + named * step];
}
