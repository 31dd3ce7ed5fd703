// One thread for four neighbours. What was there before is not read in the first micro-batch: it may be anything.
KERNEL(micro_mean) {
    typedef Accumulate<T>::type A;
    u64 first = thread_index() * 4;
    if (first >= n) return;
    bool begins = cursor[6 * stride_cursor] == 0;
    A part = A(factor);
    if (gapless && first + 4 <= n) {
        Several<T, 4> taken = Several<T, 4>::load(value + first), sum;
        if (!begins) sum = Several<T, 4>::load(mean + first);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            A scaled = A(widen(taken.v[i])) * part;
            taken.v[i] = narrow<T>(begins ? scaled : A(widen(sum.v[i])) + scaled);
        }
        return taken.store(mean + first);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (first + i >= n) return;
        T* to = mean + offset_of<u64>(first + i, rank, shape, stride_mean);
        A scaled = A(widen(value[offset_of<u64>(first + i, rank, shape, stride_value)])) * part;
        *to = narrow<T>(begins ? scaled : A(widen(*to)) + scaled);
    }
}
