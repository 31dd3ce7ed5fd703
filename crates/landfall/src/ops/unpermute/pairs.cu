// A thread a cell of the result: neighbours are experts of one token. (With `rows.cu`.)
KERNEL(pair_probs) {
    u64 index = thread_index();
    if (index >= tokens * experts) return;
    u64 token = index / experts, expert = index - token * experts, step = stride_map.v[1];
    const I* cells = map + token * stride_map.v[0];
    u64 position = token * (2 * u64(most) + 1);
    u32 n = pair_count(cells, step, most, faults, position, expert == 0);
    u32 j = pair_of(cells, step, most, n, u32(expert));
    // What no expert's thread finds is reported, too.
    for (u32 i = u32(expert); i < n; i += u32(experts)) {
        i64 row = checked(cells[i * step], rows, faults, position + i, true);
        if (row >= 0) checked(cells[(most + i) * step], experts, faults, position + most + i, true);
    }
    T value = narrow<T>(A(0));
    if (j < n) {
        i64 row = checked(cells[j * step], rows, faults, 0, false);
        if (row >= 0) value = v[row * stride_v];
    }
    out[token * stride_out.v[0] + expert * stride_out.v[1]] = value;
}
