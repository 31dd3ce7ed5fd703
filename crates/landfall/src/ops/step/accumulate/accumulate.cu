// One thread a value: the first row of a group adds up all rows of the group, in order, and alone writes the sum. No two
// threads write to one place, and only rows that are there are visited, whatever the number of groups.
DEVICE u64 clamped(i64 group, u64 count) { return group < 0 ? 0 : u64(group) < count ? u64(group) : count - 1; }

// Without columns there is still one thread a row, which checks the group.
KERNEL(accumulate) {
    u64 index = thread_index(), width = columns == 0 ? 1 : columns;
    u64 b = index / width, c = index - b * width;
    if (b >= rows) return;
    i64 given = groups[b * groups.stride.v[0]];
    if (c == 0 && (given < 0 || u64(given) >= count)) flag(faults, b, given, count);
    if (columns == 0) return;
    u64 group = clamped(given, count);
    for (u64 before = 0; before < b; before++) {
        if (clamped(groups[before * groups.stride.v[0]], count) == group) return;
    }
    double* to = sums + group * sums.stride.v[0] + c * sums.stride.v[1];
    double sum = *to;
    for (u64 row = b; row < rows; row++) {
        if (clamped(groups[row * groups.stride.v[0]], count) != group) continue;
        sum += values[row * values.stride.v[0] + c * values.stride.v[1]];
    }
    *to = sum;
}
