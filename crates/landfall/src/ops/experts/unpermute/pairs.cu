// A warp a token: zeros for all experts, then what its pairs have. (With `rows.cu`.)
KERNEL(pair_probs) {
    u64 token = thread_index() / 32, step = map.stride.v[1], position = token * (2 * u64(most) + 1);
    u32 lane = threadIdx.x % 32;
    if (token >= tokens) return;
    const I* cells = map + token * map.stride.v[0];
    T* own = out + token * out.stride.v[0];
    u32 n = pair_count(cells, step, most, faults, position, lane == 0);
    for (u64 e = lane; e < experts; e += 32) own[e * out.stride.v[1]] = narrow<T>(A(0));
    __syncwarp();
    for (u32 j = lane; j < n; j += 32) {
        i64 row = checked(cells[j * step], rows, faults, position + j, true);
        i64 expert = row < 0 ? -1 : checked(cells[(most + j) * step], experts, faults, position + most + j, true);
        if (expert >= 0) own[expert * out.stride.v[1]] = v[row * v.stride.v[0]];
    }
}
