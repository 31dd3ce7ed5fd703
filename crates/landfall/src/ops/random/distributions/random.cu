// Random numbers: one thread for each block of the generator, whose four words are four elements (two of an
// f64, which takes two words). Element i gets the words that the processor gives it, whatever the layout.

// Stores up to N elements from `first` on: with one access where `contiguous` says so and all are there.
template <class T, int N>
DEVICE void place(const Several<T, N>& values, T* out, u64 first, u64 n, u32 contiguous, u32 rank, const Dims& shape,
                  const Dims& stride) {
    if (contiguous && first + N <= n) return values.store(out + first);
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (first + i < n) out[offset_of<u64>(first + i, rank, shape, stride)] = values.v[i];
    }
}

// low + (high - low) * u in f64, rounded twice as on the processor.
KERNEL(fill_uniform) {
    constexpr bool wide = sizeof(T) == 8;
    constexpr int N = wide ? 2 : 4;
    u64 block = thread_index(), first = block * N;
    if (first >= n) return;
    Words words = words_of(cursor, cursor.stride.v[0], stream, block);
    Several<T, N> values;
#pragma unroll
    for (int i = 0; i < N; i++) {
        double unit;
        if (wide) {
            u64 bits = (u64(words.v[(2 * i) % 4]) << 32 | words.v[(2 * i + 1) % 4]) >> 11;
            unit = double(bits) * (1.0 / 9007199254740992.0);
        } else {
            unit = uniform(words.v[i % 4]);
        }
        values.v[i] = narrow<T>(low + range * unit);
    }
    place(values, out.data, first, n, contiguous, rank, shape, out.stride);
}

KERNEL(fill_bernoulli) {
    u64 block = thread_index(), first = block * 4;
    if (first >= n) return;
    Words words = words_of(cursor, cursor.stride.v[0], stream, block);
    Several<u8, 4> values;
#pragma unroll
    for (int i = 0; i < 4; i++) values.v[i] = keep(words.v[i], threshold);
    place(values, out.data, first, n, contiguous, rank, shape, out.stride);
}
