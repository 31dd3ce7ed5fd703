// One thread an element of the result: the windows that hold it are added, first to last.
KERNEL(fold) {
    u64 index = thread_index();
    if (index >= n) return;
    u64 row = index / length, i = index - row * length;
    u64 last = min(i / step, windows - 1);
    u64 first = i + 1 > size ? (i + 1 - size + step - 1) / step : 0;
    const T* from = x + offset_of<u64>(row, rank, shape, x.stride);
    Accumulate<T>::type sum = 0;
    for (u64 w = first; w <= last && w < windows; w++) sum += widen(from[w * stride_window + (i - w * step) * stride_in]);
    out[offset_of<u64>(row, rank, shape, out.stride) + i * stride_i] = narrow<T>(sum);
}
