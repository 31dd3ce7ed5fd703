// One thread for four neighbours. What was there before is not read in the first micro-batch: it may be anything.
KERNEL(micro_batch_mean) {
    typedef Accumulate<T>::type A;
    u64 first = thread_index() * 4;
    if (first >= n) return;
    bool begins = u32(cursor[6 * cursor.stride.v[0]]) % micro_batches == 0;
    A part = A(factor);
    if (contiguous && first + 4 <= n) {
        Several<T, 4> taken = Several<T, 4>::load(value + first), sum;
        if (!begins) sum = Several<T, 4>::load(mean + first);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            taken.v[i] = narrow<T>((begins ? A(0) : A(widen(sum.v[i]))) + A(widen(taken.v[i])) * part);
        }
        return taken.store(mean + first);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (first + i >= n) return;
        T* to = mean + offset_of<u64>(first + i, rank, shape, mean.stride);
        A taken = A(widen(value[offset_of<u64>(first + i, rank, shape, value.stride)]));
        *to = narrow<T>((begins ? A(0) : A(widen(*to))) + taken * part);
    }
}
