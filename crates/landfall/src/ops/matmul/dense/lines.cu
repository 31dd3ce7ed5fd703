// Lines of a factor on their way to shared memory, by all threads of a block. (With `fragments.cu`.)
// There a line is longer by REST elements, so that the eight rows of a matrix, an odd number of chunks apart, lie in different banks.
constexpr u32 THREADS = 256, REST = 8;

// Lines of `length` elements of which there are `count`, as COUNT lines of SIZE: by accesses of eight, or one by one.
template <bool EIGHT, u32 COUNT, u32 SIZE>
DEVICE void fetch(T* to, const T* from, u64 count, u32 length, u64 line_step, u64 step) {
    constexpr u32 CHUNKS = SIZE / 8, ALL = COUNT * CHUNKS;
#pragma unroll 4
    for (u32 first = 0; first < ALL; first += THREADS) {
        u32 i = first + threadIdx.x, l = i / CHUNKS, c = i % CHUNKS * 8;
        if (first + THREADS > ALL && i >= ALL) break;
        T* at = to + l * (SIZE + REST) + c;
        if constexpr (EIGHT) {
            bool inside = l < count && c < length;
            copy_kept_ahead(at, from + (inside ? l * line_step + c : 0), inside);
        } else {
            Several<T, 8> chunk;
#pragma unroll
            for (u32 k = 0; k < 8; k++) {
                chunk.v[k] = l < count && c + k < length ? from[l * line_step + (c + k) * step] : narrow<T>(0.0f);
            }
            chunk.store(at);
        }
    }
}
