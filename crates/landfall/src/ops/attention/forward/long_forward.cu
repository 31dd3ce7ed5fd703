struct Room { Line keys[2][TILE], values[2][TILE], own[OWN]; };

// The softmax runs along: sums are relative to the largest score so far, and are scaled when there is a larger one.
KERNEL(attention) {
    extern __shared__ __align__(16) u8 dynamic[];
    static_assert(sizeof(Room) == SHARED, "what a launch gives");
    Room& room = *reinterpret_cast<Room*>(dynamic);
    Part at = part_of(heads, n);
    Warp w = warp();
    const T* from_k = at.features(k);
    const T* from_v = at.features(v);
    fetch<OWN>(room.own, at.features(q), q.stride, at.first, n);
    fetch<TILE>(room.keys[0], from_k, k.stride, 0, n);
    fetch<TILE>(room.values[0], from_v, v.stride, 0, n);
    await_copies();
    __syncthreads();
    Strip queries;
    queries.load(room.own, w.strip * 16);
    float scale_2 = float(scale * double(LOG2_E)), top[2] = {-infinity(), -infinity()}, total[2] = {0.0f, 0.0f};
    Rows out_rows;
    for (u32 first = 0, side = 0; first < n; first += TILE, side ^= 1) {
        if (first > 0) {
            await_copies();
            __syncthreads();
        }
        if (first + TILE < n) {
            fetch<TILE>(room.keys[side ^ 1], from_k, k.stride, first + TILE, n);
            fetch<TILE>(room.values[side ^ 1], from_v, v.stride, first + TILE, n);
        }
        float score[TILE / 16][2][4], higher[2] = {top[0], top[1]};
#pragma unroll
        for (u32 s = 0; s < TILE / 16; s++) {
            queries.products(score[s], room.keys[side], s * 16);
#pragma unroll
            for (u32 v = 0; v < 8; v++) {
                float& x = score[s][v / 4][v % 4];
                u32 key = first + s * 16 + v / 4 * 8 + w.column + v % 2;
                x *= scale_2;
                if (PREV) x += previous(prev, at.scores(prev), at.first + w.strip * 16 + w.row + v / 2 % 2 * 8, key, n);
                if (first + TILE > n && key >= n) x = -infinity();
                // NaN is found below: its weight is NaN.
                higher[v / 2 % 2] = fmaxf(higher[v / 2 % 2], x);
            }
        }
        float less[2], factor[2];
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            higher[half] = fmaxf(higher[half], __shfl_xor_sync(0xFFFFFFFFu, higher[half], 1));
            higher[half] = fmaxf(higher[half], __shfl_xor_sync(0xFFFFFFFFu, higher[half], 2));
            // While all scores are minus infinity there is nothing to be relative to.
            less[half] = higher[half] == -infinity() ? 0.0f : higher[half];
            factor[half] = exponential2(top[half] - less[half]);
            top[half] = higher[half];
            total[half] *= factor[half];
        }
#pragma unroll
        for (u32 c = 0; c < CHUNKS * 4; c++) out_rows.sum[c / 4][c % 4] *= factor[c / 2 % 2];
#pragma unroll
        for (u32 s = 0; s < TILE / 16; s++) {
#pragma unroll
            for (u32 v = 0; v < 8; v++) {
                float& x = score[s][v / 4][v % 4];
                x = exponential2(x - less[v / 2 % 2]);
                total[v / 2 % 2] += x;
            }
            u32 weights[4];
            rounded(weights, score[s]);
            out_rows.add(weights, room.values[side], s * 16);
        }
    }
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        total[half] += __shfl_xor_sync(0xFFFFFFFFu, total[half], 1);
        total[half] += __shfl_xor_sync(0xFFFFFFFFu, total[half], 2);
        // A row of minus infinity alone has no weights.
        if (total[half] == 0.0f) total[half] = infinity() - infinity();
        u32 query = at.first + w.strip * 16 + w.row + half * 8;
        if (w.column == 0 && query < n) at.scores(lse)[query * lse.stride.v[2]] = top[half] * LN_2 + logf(total[half]);
    }
    // Each warp has read its queries long ago, and no other reads them.
    out_rows.put(room.own, w.strip * 16, w, 1.0f / total[0], 1.0f / total[1]);
    __syncthreads();
    write(at.features(out), out.stride, room.own, at.first, n);
}
