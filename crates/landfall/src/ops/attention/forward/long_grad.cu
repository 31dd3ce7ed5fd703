// The gradient in three launches: what both others need of each query, then the sums over queries, then those over keys. Both
// make the scores again.

struct Room {
    Line first[2][TILE], second[2][TILE], own[2][OWN];
    float less[2][TILE], levels[2][TILE];
};

// rowsum(slope * out) of each query.
KERNEL(levels) {
    u64 index = thread_index();
    if (index >= count) return;
    u64 i = index % n, head = index / n % heads, b = index / n / heads;
    const T* from = out.data + b * out.stride.v[0] + i * out.stride.v[1] + head * out.stride.v[2];
    const T* g = slope.data + b * slope.stride.v[0] + i * slope.stride.v[1] + head * slope.stride.v[2];
    u32 width = min(width_of(out.data, out.stride), width_of(slope.data, slope.stride));
    float sum = 0.0f;
    for (u32 c = 0; c < E; c += 8) {
        Chunk a = chunk_of(from, out.stride.v[3], c, width), d = chunk_of(g, slope.stride.v[3], c, width);
#pragma unroll
        for (u32 k = 0; k < 8; k++) sum = fused(widen(a.v[k]), widen(d.v[k]), sum);
    }
    level[index] = sum;
}

// A warp has sixteen keys. Scores are made transposed: then weights and slopes of scores are the left factors of the sums.
KERNEL(columns) {
    extern __shared__ __align__(16) u8 dynamic[];
    static_assert(sizeof(Room) == SHARED, "what a launch gives");
    Room& room = *reinterpret_cast<Room*>(dynamic);
    Part at = part_of(heads, n);
    Warp w = warp();
    const T* from_q = at.features(q);
    const T* from_g = at.features(slope);
    const L* from_lse = at.scores(lse);
    const A* from_level = level + (at.batch * heads + at.head) * n;
    auto fetch_tile = [&](u32 side, u32 first) {
        fetch<TILE>(room.first[side], from_q, q.stride, first, n);
        fetch<TILE>(room.second[side], from_g, slope.stride, first, n);
        for (u32 i = threadIdx.x; i < TILE; i += THREADS) {
            u32 query = first + i;
            // Without a query all weights are 0.
            room.less[side][i] = query < n ? float(widen(from_lse[query * lse.stride.v[2]])) * LOG2_E : infinity();
            room.levels[side][i] = query < n ? from_level[query] : 0.0f;
        }
    };
    fetch<OWN>(room.own[0], at.features(k), k.stride, at.first, n);
    fetch<OWN>(room.own[1], at.features(v), v.stride, at.first, n);
    fetch_tile(0, 0);
    u32 own = w.strip * 16;
    float scale_2 = float(scale * double(LOG2_E));
    Rows of_keys, of_values;
    for (u32 first = 0, side = 0; first < n; first += TILE, side ^= 1) {
        await_copies();
        __syncthreads();
        if (first + TILE < n) fetch_tile(side ^ 1, first + TILE);
        const Line* queries = room.first[side];
        const Line* slopes = room.second[side];
#pragma unroll 1
        for (u32 s = 0; s < TILE; s += 16) {
            float weight[2][4], change[2][4];
            // Keys and values are read again each time, because registers are short.
            Strip lines;
            lines.load(room.own[0], own);
            lines.products(weight, queries, s);
            lines.load(room.own[1], own);
            lines.products(change, slopes, s);
#pragma unroll
            for (u32 v = 0; v < 8; v++) {
                u32 query = s + v / 4 * 8 + w.column + v % 2;
                float score = weight[v / 4][v % 4] * scale_2;
                if (PREV) score += previous(prev, at.scores(prev), first + query, at.first + own + w.row + v / 2 % 2 * 8, n);
                float x = exponential2(score - room.less[side][query]);
                weight[v / 4][v % 4] = x;
                change[v / 4][v % 4] = x * (change[v / 4][v % 4] - room.levels[side][query]);
            }
            u32 weights[4], changes[4];
            rounded(weights, weight);
            rounded(changes, change);
            of_values.add(weights, slopes, s);
            of_keys.add(changes, queries, s);
        }
    }
    // A warp's keys and values are read by it alone.
    of_keys.put(room.own[0], own, w, float(scale), float(scale));
    of_values.put(room.own[1], own, w, 1.0f, 1.0f);
    __syncthreads();
    write(at.features(gk), gk.stride, room.own[0], at.first, n);
    write(at.features(gv), gv.stride, room.own[1], at.first, n);
}

// A warp has sixteen queries.
KERNEL(rows) {
    extern __shared__ __align__(16) u8 dynamic[];
    Room& room = *reinterpret_cast<Room*>(dynamic);
    Part at = part_of(heads, n);
    Warp w = warp();
    const T* from_k = at.features(k);
    const T* from_v = at.features(v);
    fetch<OWN>(room.own[0], at.features(q), q.stride, at.first, n);
    fetch<OWN>(room.own[1], at.features(slope), slope.stride, at.first, n);
    fetch<TILE>(room.first[0], from_k, k.stride, 0, n);
    fetch<TILE>(room.second[0], from_v, v.stride, 0, n);
    u32 own = w.strip * 16;
    float scale_2 = float(scale * double(LOG2_E)), less[2], levels[2];
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        u32 query = at.first + own + w.row + half * 8;
        less[half] = query < n ? float(widen(at.scores(lse)[query * lse.stride.v[2]])) * LOG2_E : infinity();
        levels[half] = query < n ? level[(at.batch * heads + at.head) * n + query] : 0.0f;
    }
    Strip queries, slopes;
    Rows of_queries;
    for (u32 first = 0, side = 0; first < n; first += TILE, side ^= 1) {
        await_copies();
        __syncthreads();
        if (first == 0) {
            queries.load(room.own[0], own);
            slopes.load(room.own[1], own);
        }
        if (first + TILE < n) {
            fetch<TILE>(room.first[side ^ 1], from_k, k.stride, first + TILE, n);
            fetch<TILE>(room.second[side ^ 1], from_v, v.stride, first + TILE, n);
        }
#pragma unroll 1
        for (u32 s = 0; s < TILE; s += 16) {
            float change[2][4], weight[2][4];
            queries.products(weight, room.first[side], s);
            slopes.products(change, room.second[side], s);
#pragma unroll
            for (u32 v = 0; v < 8; v++) {
                u32 half = v / 2 % 2, query = at.first + own + w.row + half * 8, key = first + s + v / 4 * 8 + w.column + v % 2;
                float score = weight[v / 4][v % 4] * scale_2;
                if (PREV) score += previous(prev, at.scores(prev), query, key, n);
                float x = exponential2(score - less[half]);
                if (first + TILE > n && key >= n) x = 0.0f;
                float& slope_of = change[v / 4][v % 4];
                slope_of = x * (slope_of - levels[half]);
                if (PREV && query < n && key < n) {
                    at.scores(g_prev)[query * g_prev.stride.v[2] + key * g_prev.stride.v[3]] = narrow<T>(slope_of);
                }
            }
            u32 changes[4];
            rounded(changes, change);
            of_queries.add(changes, room.first[side], s);
        }
    }
    of_queries.put(room.own[0], own, w, float(scale), float(scale));
    __syncthreads();
    write(at.features(gq), gq.stride, room.own[0], at.first, n);
}
