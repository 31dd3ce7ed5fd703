// One thread an element; nothing is written where the step overflowed.
KERNEL(running_update) {
    typedef Accumulate<T>::type A;
    u64 index = thread_index();
    if (index >= n || *ok == 0) return;
    T* to = running + offset_of<u64>(index, rank, shape, running.stride);
    T taken = batch[offset_of<u64>(index, rank, shape, batch.stride)];
    *to = narrow<T>(A(keep) * A(widen(*to)) + A(take) * A(widen(taken)));
}
