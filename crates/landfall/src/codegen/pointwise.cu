// One element of the result from the same element of each argument: `evaluate`, in the arithmetic type A.

// Arguments and result lie gapless; those marked in `uniform` are one element for all. A thread loads all of its
// elements before it stores any, so the result may lie in an argument.
KERNEL(contiguous) {
    u64 first = thread_index() * VECTOR;
    if (first >= n) return;
    if (first + VECTOR <= n) {
#define LOAD(i) \
    Vector<T##i, VECTOR> v##i = (uniform >> i & 1) ? Vector<T##i, VECTOR>::splat(x##i[0]) \
                                                  : Vector<T##i, VECTOR>::load(x##i + first);
        EACH_ARG(LOAD)
        Vector<TO, VECTOR> result;
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
#define ELEMENT(i) A(widen(v##i.v[k]))
            result.v[k] = narrow<TO>(EVALUATE(ELEMENT));
        }
        result.store(out + first);
        return;
    }
    for (u64 at = first; at < n; at++) {
#define TAIL(i) A(widen(x##i[(uniform >> i & 1) ? 0 : at]))
        out[at] = narrow<TO>(EVALUATE(TAIL));
    }
}

// Any layouts, with as few axes as they have in common.
KERNEL(strided) {
    u64 index = thread_index();
    if (index >= n) return;
    bool small = n <= 0xFFFFFFFFull;
#define OFFSET(stride) (small ? offset_of<u32>(u32(index), rank, shape, stride) : offset_of<u64>(index, rank, shape, stride))
#define GATHER(i) A(widen(x##i[OFFSET(stride##i)]))
    out[OFFSET(stride_out)] = narrow<TO>(EVALUATE(GATHER));
}
