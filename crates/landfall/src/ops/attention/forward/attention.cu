// A thread has a query. The maximum so far, and sums relative to it, are carried from tile to tile.
KERNEL(attention) {
    __shared__ __align__(16) A keys[TILE][C], values[TILE][C];
    __shared__ A tile[ROWS][PITCH];
    Place at = place_of(heads, n);
    u32 own = at.first + threadIdx.x;
    const T* q_head = features_of(q, at);
    const T* k_head = features_of(k, at);
    const T* v_head = features_of(v, at);
    A query[C], sums[C];
    for (u32 col = 0; col < e; col += C) {
        A top = -infinity(), total = A(0);
        clear(sums);
        for (u32 from = 0; from < n; from += TILE) {
            u32 count = min(TILE, n - from);
            __syncthreads();
            if (has_prev) {
                load_scores(tile, scores_of(prev, at), prev.stride, at.first, from, n);
            } else {
                for (u32 j = 0; j < TILE; j++) tile[threadIdx.x][j] = A(0);
            }
            load_lines(values, v_head, v.stride, from, n, col, e, A(1));
            for (u32 part = 0; part < e; part += C) {
                if (e > C || from == 0) load_row(query, keys, q_head, q.stride, at.first, n, part, e, A(scale));
                __syncthreads();
                load_lines(keys, k_head, k.stride, from, n, part, e, A(1));
                __syncthreads();
                for (u32 j = 0; j < count; j++) tile[threadIdx.x][j] += dot(query, keys[j]);
            }
            // Once every pass that reads the previous scores has read them.
            if (has_scores && col + C >= e) {
                __syncthreads();
                store_scores(tile, scores_of(emitted, at), emitted.stride, at.first, from, n);
                __syncthreads();
            }
            A largest = top;
            for (u32 j = 0; j < count; j++) largest = Max::of(largest, tile[threadIdx.x][j]);
            // While all scores are minus infinity there is nothing to be relative to.
            A base = largest == -infinity() ? A(0) : largest;
            A less = exponential(top - base);
            total *= less;
#pragma unroll
            for (u32 c = 0; c < C; c++) sums[c] *= less;
            for (u32 j = 0; j < count; j++) {
                A weight = exponential(tile[threadIdx.x][j] - base);
                total += weight;
                add(sums, weight, values[j]);
            }
            top = largest;
        }
        if (own >= n) continue;
        // A row of minus infinity alone has no weights.
        if (total == A(0)) total = infinity() - infinity();
        T* to = features_of(out, at) + u64(own) * out.stride.v[1];
        A inverse = A(1) / total;
#pragma unroll
        for (u32 c = 0; c < C; c++) {
            if (col + c < e) to[u64(col + c) * out.stride.v[3]] = narrow<T>(sums[c] * inverse);
        }
        if (col == 0) {
            A* level = scores_of(lse, at) + u64(own) * lse.stride.v[2];
            *level = A(double(top) + log(double(total)));
        }
    }
}
