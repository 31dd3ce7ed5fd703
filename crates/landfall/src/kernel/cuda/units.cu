// Units of UNIT elements of T, in the accumulation type A.

constexpr int N = int(UNIT);

// Reduces the elements of a unit.
template <class F, class V> DEVICE V unit_all(const V (&x)[N]) {
    V v[N];
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = x[i];
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < half; i++) v[i] = F::of(v[i], v[i + half]);
    }
    return v[0];
}

DEVICE u64 place_of(u64 index, u64 n, u32 rank, const Dims& shape, const Dims& stride) {
    return n <= 0xFFFFFFFFull ? offset_of<u32>(u32(index), rank, shape, stride) : offset_of<u64>(index, rank, shape, stride);
}

// A contiguous unit, aligned for 16-byte accesses.
template <class E> DEVICE void load_whole(A (&v)[N], const E* at) {
    Several<E, N> unit = Several<E, N>::load(at);
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = A(widen(unit.v[i]));
}
DEVICE void store_whole(const A (&v)[N], T* at) {
    Several<T, N> unit;
#pragma unroll
    for (int i = 0; i < N; i++) unit.v[i] = narrow<T>(v[i]);
    unit.store(at);
}

// The unit from element `first` of a row on; `beyond` from element `end` on. `contiguous`: units are contiguous and
// aligned for 16-byte accesses.
template <class E>
DEVICE void load_unit(A (&v)[N], const E* row, u64 first, u64 end, A beyond, u32 contiguous, u32 rank, const Dims& shape,
                      const Dims& stride) {
    if (contiguous && first + N <= end) {
        load_whole(v, row + place_of(first, end, rank, shape, stride));
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        v[i] = first + i < end ? A(widen(row[place_of(first + i, end, rank, shape, stride)])) : beyond;
    }
}

// Rounds a unit and stores it, up to element `end`.
DEVICE void store_unit(const A (&v)[N], T* row, u64 first, u64 end, u32 contiguous, u32 rank, const Dims& shape,
                       const Dims& stride) {
    if (contiguous && first + N <= end) {
        store_whole(v, row + place_of(first, end, rank, shape, stride));
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (first + i < end) row[place_of(first + i, end, rank, shape, stride)] = narrow<T>(v[i]);
    }
}
