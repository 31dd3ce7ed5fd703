KERNEL(assign_rows) {
    u64 at = thread_index();
    if (at >= n) return;
    i64 given = *start;
    u64 first = given < 0 ? 0 : min(u64(given), last);
    if (at == 0 && i64(first) != given) flag(faults, 0, given, last + 1);
    target.data[first * step + offset_of<u64>(at, rank, shape, target.stride)] =
        rows.data[offset_of<u64>(at, rank, shape, rows.stride)];
}
