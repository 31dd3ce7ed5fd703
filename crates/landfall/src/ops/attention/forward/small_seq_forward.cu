// The maximum so far, and sums relative to it, are carried from part to part.
KERNEL(attention) {
    __shared__ Row keys[THREADS], values[THREADS];
    Place at = place_of(all, heads, n);
    Row query, sums;
    if (at.inside) {
        load_row(query, features_of(q, at), q.stride.v[3], e, A(scale));
        load_row(keys[threadIdx.x], features_of(k, at), k.stride.v[3], e, A(1));
        load_row(values[threadIdx.x], features_of(v, at), v.stride.v[3], e, A(1));
    }
    __syncthreads();
    if (!at.inside) return;
    const T* before = scores_of(prev, at) + at.row * prev.stride.v[2];
    T* after = scores_of(emitted, at) + at.row * emitted.stride.v[2];
    A top = -infinity(), total = A(0);
    clear(sums);
    for (u32 from = 0; from < n; from += PART) {
        A score[PART], largest = top;
#pragma unroll
        for (u32 j = 0; j < PART; j++) {
            u32 key = from + j;
            if (key >= n) {
                score[j] = -infinity();
                continue;
            }
            score[j] = dot(query, keys[at.base + key]);
            if (has_prev) score[j] += A(widen(before[key * prev.stride.v[3]]));
            if (has_scores) after[key * emitted.stride.v[3]] = narrow<T>(score[j]);
            largest = Max::of(largest, score[j]);
        }
        // While all scores are minus infinity there is nothing to be relative to.
        A base = largest == -infinity() ? A(0) : largest;
        A less = exponential(top - base);
        total *= less;
#pragma unroll
        for (u32 c = 0; c < E; c++) sums.v[c] *= less;
#pragma unroll
        for (u32 j = 0; j < PART; j++) {
            if (from + j >= n) continue;
            A weight = exponential(score[j] - base);
            total += weight;
            add(sums, weight, values[at.base + from + j]);
        }
        top = largest;
    }
    // A row of minus infinity alone has no weights.
    if (total == A(0)) total = infinity() - infinity();
    store_row(sums, features_of(out, at), out.stride.v[3], e, A(1) / total);
    scores_of(lse, at)[at.row * lse.stride.v[2]] = A(double(top) + log(double(total)));
}
