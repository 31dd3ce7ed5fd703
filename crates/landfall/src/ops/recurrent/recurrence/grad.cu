KERNEL(recurrence_grad) {
    extern __shared__ __align__(16) u8 dynamic[];
    // Gradients of the states, of the cells and of the sums.
    A* carried = reinterpret_cast<A*>(dynamic);
    A* cells = carried + ROWS * hidden;
    A* of_sums = cells + ROWS * hidden;
    A* partial = of_sums + ROWS * GATES * hidden;
    u32 first = blockIdx.x * u32(ROWS), lane = threadIdx.x % width, part = threadIdx.x / width;
    for (u32 i = threadIdx.x; i < (2 + GATES) * ROWS * hidden; i += blockDim.x) carried[i] = A(0);
    __syncthreads();
    u32 all = GATES * hidden, length = (all + PARTS - 1) / PARTS, from = part * length, end = min(all, from + length);
    for (u32 t = steps; t-- > 0;) {
        for (u32 i = threadIdx.x; i < ROWS * hidden; i += blockDim.x) {
            u32 r = i / hidden, u = i % hidden, b = first + r;
            if (b >= batch) continue;
            A kept[4], change[GATES], own[GATES];
#pragma unroll
            for (u32 g = 0; g < 4; g++) kept[g] = read(saved, b, t, g * hidden + u);
            A slope = carried[i] + read(g_h, b, t, u), direct = A(0);
            if (LSTM) {
                A y = hyperbolic_tangent(read(c, b, t, u)), before = t == 0 ? read(c0, b, u) : read(c, b, t - 1, u);
                A of_cell = cells[i] + read(g_c, b, t, u) + slope * kept[3] * (A(1) - y * y);
                cells[i] = of_cell * kept[1];
                change[0] = of_cell * kept[2] * kept[0] * (A(1) - kept[0]);
                change[1] = of_cell * before * kept[1] * (A(1) - kept[1]);
                change[2] = of_cell * kept[0] * (A(1) - kept[2] * kept[2]);
                change[GATES - 1] = slope * y * kept[3] * (A(1) - kept[3]);
            } else {
                A before = t == 0 ? read(h0, b, u) : read(h, b, t - 1, u);
                change[2] = slope * (A(1) - kept[1]) * (A(1) - kept[2] * kept[2]);
                change[1] = slope * (before - kept[2]) * kept[1] * (A(1) - kept[1]);
                change[0] = change[2] * kept[3] * kept[0] * (A(1) - kept[0]);
                direct = slope * kept[1];
            }
#pragma unroll
            for (u32 g = 0; g < GATES; g++) {
                own[g] = !LSTM && g == 2 ? change[g] * kept[0] : change[g];
                of_sums[(r * GATES + g) * hidden + u] = own[g];
                at(g_x, b, t, g * hidden + u) = narrow<T>(change[g]);
                if (!LSTM) at(g_s, b, t, g * hidden + u) = narrow<T>(own[g]);
            }
            carried[i] = direct;
        }
        __syncthreads();
        for (u32 u = lane; u < width || u < hidden; u += width) {
            A sums[ROWS] = {};
            if (u < hidden) {
                const T* w = weight.data + u64(u) * weight.stride.v[1];
                for (u32 tile = from; tile < end; tile += TILE) {
                    A of_tile[ROWS] = {};
#pragma unroll 8
                    for (u32 j = tile; j < min(end, tile + TILE); j++) {
                        A own = A(widen(w[j * weight.stride.v[0]]));
#pragma unroll
                        for (u32 r = 0; r < ROWS; r++) of_tile[r] = fused(of_sums[r * all + j], own, of_tile[r]);
                    }
#pragma unroll
                    for (u32 r = 0; r < ROWS; r++) sums[r] += of_tile[r];
                }
            }
            if (PARTS > 1) {
#pragma unroll
                for (u32 r = 0; r < ROWS; r++) {
                    if (u < hidden) partial[(part * ROWS + r) * hidden + u] = sums[r];
                }
                __syncthreads();
                if (part == 0 && u < hidden) {
#pragma unroll
                    for (u32 p = 1; p < PARTS; p++) {
#pragma unroll
                        for (u32 r = 0; r < ROWS; r++) sums[r] += partial[(p * ROWS + r) * hidden + u];
                    }
                }
            }
            if (part != 0 || u >= hidden) continue;
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) carried[r * hidden + u] += sums[r];
        }
        __syncthreads();
    }
    for (u32 i = threadIdx.x; i < ROWS * hidden; i += blockDim.x) {
        u32 u = i % hidden, b = first + i / hidden;
        if (b >= batch) continue;
        at(g_h0, b, u) = narrow<T>(carried[i]);
        if (LSTM) at(g_c0, b, u) = narrow<T>(cells[i]);
    }
}
