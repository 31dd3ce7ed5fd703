// One thread an element of the result.
KERNEL(gather) {
    u64 at = thread_index();
    if (at >= n) return;
    auto place = [&](const Dims& stride) {
        return narrow_offsets ? offset_of<u32>(u32(at), rank, shape, stride) : offset_of<u64>(at, rank, shape, stride);
    };
    i64 named = index[place(index_stride)];
    if (named < 0 || u64(named) >= size) {
        flag(faults, at, named, size);
        named = named < 0 ? 0 : i64(size) - 1;
    }
    out[place(out_stride)] = x[place(x_stride) + u64(named) * step];
}
