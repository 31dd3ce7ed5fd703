KERNEL(recurrence) {
    extern __shared__ __align__(16) u8 dynamic[];
    A* now = reinterpret_cast<A*>(dynamic);
    A* next = now + ROWS * hidden;
    // The cells, not rounded between steps either.
    A* cells = next + ROWS * hidden;
    A* partial = LSTM ? cells + ROWS * hidden : cells;
    u32 first = blockIdx.x * u32(ROWS), lane = threadIdx.x % width, part = threadIdx.x / width;
    for (u32 i = threadIdx.x; i < ROWS * hidden; i += blockDim.x) {
        u32 b = first + i / hidden;
        now[i] = b < batch ? read(h0, b, i % hidden) : A(0);
        if (LSTM) cells[i] = b < batch ? read(c0, b, i % hidden) : A(0);
    }
    __syncthreads();
    u32 length = (hidden + PARTS - 1) / PARTS, from = part * length, end = min(hidden, from + length);
    u64 step = weight.stride.v[0], across = u64(hidden) * weight.stride.v[1];
    for (u32 t = 0; t < steps; t++) {
        for (u32 u = lane; u < width || u < hidden; u += width) {
            A sums[ROWS][GATES] = {};
            if (u < hidden) {
                const T* w = weight.data + u64(u) * weight.stride.v[1];
                for (u32 tile = from; tile < end; tile += TILE) {
                    A of_tile[ROWS][GATES] = {};
#pragma unroll 8
                    for (u32 k = tile; k < min(end, tile + TILE); k++) {
#pragma unroll
                        for (u32 g = 0; g < GATES; g++) {
                            A own = A(widen(w[k * step + g * across]));
#pragma unroll
                            for (u32 r = 0; r < ROWS; r++) of_tile[r][g] = fused(now[r * hidden + k], own, of_tile[r][g]);
                        }
                    }
#pragma unroll
                    for (u32 r = 0; r < ROWS; r++) {
#pragma unroll
                        for (u32 g = 0; g < GATES; g++) sums[r][g] += of_tile[r][g];
                    }
                }
            }
            if (PARTS > 1) {
#pragma unroll
                for (u32 r = 0; r < ROWS; r++) {
#pragma unroll
                    for (u32 g = 0; g < GATES; g++) {
                        if (u < hidden) partial[((part * ROWS + r) * GATES + g) * hidden + u] = sums[r][g];
                    }
                }
                __syncthreads();
                if (part == 0 && u < hidden) {
#pragma unroll
                    for (u32 p = 1; p < PARTS; p++) {
#pragma unroll
                        for (u32 r = 0; r < ROWS; r++) {
#pragma unroll
                            for (u32 g = 0; g < GATES; g++) {
                                sums[r][g] += partial[((p * ROWS + r) * GATES + g) * hidden + u];
                            }
                        }
                    }
                }
            }
            if (part != 0 || u >= hidden) continue;
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) {
                u32 b = first + r;
                if (b >= batch) continue;
                A in[GATES], state;
#pragma unroll
                for (u32 g = 0; g < GATES; g++) {
                    in[g] = read(x, b, t, g * hidden + u);
                    sums[r][g] += A(widen(bias.data[u64(g * hidden + u) * bias.stride.v[0]]));
                }
                A kept[4];
                kept[0] = sigmoid(in[0] + sums[r][0]);
                kept[1] = sigmoid(in[1] + sums[r][1]);
                if (LSTM) {
                    kept[2] = hyperbolic_tangent(in[2] + sums[r][2]);
                    kept[3] = sigmoid(in[GATES - 1] + sums[r][GATES - 1]);
                    A after = kept[1] * cells[r * hidden + u] + kept[0] * kept[2];
                    cells[r * hidden + u] = after;
                    at(c, b, t, u) = narrow<T>(after);
                    state = kept[3] * hyperbolic_tangent(after);
                } else {
                    kept[3] = sums[r][2];
                    kept[2] = hyperbolic_tangent(in[2] + kept[0] * kept[3]);
                    state = kept[2] + kept[1] * (now[r * hidden + u] - kept[2]);
                }
                next[r * hidden + u] = state;
                at(h, b, t, u) = narrow<T>(state);
#pragma unroll
                for (u32 g = 0; g < 4; g++) at(saved, b, t, g * hidden + u) = narrow<T>(kept[g]);
            }
        }
        __syncthreads();
        A* other = now;
        now = next;
        next = other;
    }
}
