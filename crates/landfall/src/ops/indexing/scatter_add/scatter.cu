// A position for each index, its key the element of the table that it leads to; `rest` keys lie in a row of the table.
KERNEL(keys_of) {
    u64 at = thread_index();
    if (at >= n) return;
    i64 named = index[offset_of<u64>(at, rank, shape, index_stride)];
    keys[at] = i64(named_row(named, at, size, count, rest, inner, faults) * rest + at % rest);
    positions[at] = i32(at);
}

// A thread adds one element of all sources of a key, in order: that of the key's first position, and of column `c` of its row.
KERNEL(add_sorted) {
    u64 unit = thread_index();
    if (unit >= n * width) return;
    u64 at = unit / width, c = unit - at * width;
    i64 key = keys[at];
    if (at > 0 && keys[at - 1] == key) return;
    u64 to = width == 1 ? u64(key) : u64(key) * width + c;
    u64 row = to / rest, place = offset_of<u64>(to - row * rest, rest_rank, rest_shape, out_stride) + row * step;
    typedef Accumulate<T>::type A;
    A sum = widen(out[place]);
    for (u64 k = at; k < n && keys[k] == key; k++) {
        u64 from = u64(positions[k]) * width + c;
        sum = sum + widen(source[offset_of<u64>(from, rank, shape, source_stride)]);
    }
    out[place] = narrow<T>(sum);
}
