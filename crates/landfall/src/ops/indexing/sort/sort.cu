// Keys whose order as integers is that of the elements: NaN the greatest, -0 as 0.
DEVICE u64 ordered(double x) {
    if (x != x) return ~0ull;
    u64 bits = u64(__double_as_longlong(x == 0.0 ? 0.0 : x));
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}
DEVICE u64 ordered(float x) {
    if (x != x) return 0xFFFFFFFFull;
    u32 bits = __float_as_uint(x == 0.0f ? 0.0f : x);
    return bits >> 31 ? u32(~bits) : bits | 1u << 31;
}
DEVICE u64 ordered(i64 x) { return u64(x) ^ 1ull << 63; }
DEVICE u64 ordered(i32 x) { return u32(x) ^ 1u << 31; }
DEVICE u64 ordered(u8 x) { return x; }

// A key and a position for each element, the rows one after the other. `flip` is a mask of the bits to
// invert: all, for a descending order.
KERNEL(element_keys) {
    u64 at = thread_index();
    if (at >= n) return;
    keys[at] = i64(ordered(widen(x[offset_of<u64>(at, rank, shape, x_stride)])) ^ flip);
    positions[at] = i32(at);
}

// The number of its row in place of each element's key.
KERNEL(row_keys) {
    u64 at = thread_index();
    if (at < n) keys[at] = i64(u64(positions[at]) / length);
}

// The elements at the sorted positions.
KERNEL(in_order) {
    u64 at = thread_index();
    if (at >= n) return;
    u64 from = u64(positions[at]);
    values[offset_of<u64>(at, rank, shape, values_stride)] = x[offset_of<u64>(from, rank, shape, x_stride)];
    indices[offset_of<u64>(at, rank, shape, indices_stride)] = i64(from % length);
}
