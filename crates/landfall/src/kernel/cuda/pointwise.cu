// One element of the result from the same element of each argument: `evaluate`, in the arithmetic type A.

// An element of type T for a result of type R. Of truth values every byte but 0 is 1.
template <class T, class R, bool TRUTH> struct Argument {
    DEVICE static A of(T x) { return TRUTH ? A(widen(x) != 0) : A(widen(x)); }
};
// A 64-bit integer for a result of fewer bits than double has: beyond 2^53 its low bits leave a trace in bit 10, if any is set, so
// that the two roundings are one.
DEVICE double traced(i64 x) {
    const i64 low = (1 << 10) - 1;
    i64 size = x < 0 ? ~x : x;
    return double(size >> 53 == 0 ? x : (x & ~low) | i64((x & low) != 0) << 10);
}
#define TRACED(R)                                            \
    template <bool TRUTH> struct Argument<i64, R, TRUTH> {   \
        DEVICE static A of(i64 x) { return A(traced(x)); }   \
    };
TRACED(float)
TRACED(bf16)
TRACED(f16)
#define ARGUMENT(i, x) Argument<T##i, TO, bool(TRUTHS >> i & 1)>::of(x)
#define ELEMENT(i) ARGUMENT(i, v##i.v[k])
#define WORD(stream) w##stream.v[k]

// Once in the code, and not for each element.
__device__ __noinline__ u32 word_at(const i64* cursor, u64 stride_cursor, u32 stream, u64 element) {
    return word_of(cursor, stride_cursor, stream, element);
}

// The random words of VECTOR elements, whose numbers are `step` apart.
struct Drawn { u32 v[VECTOR]; };
DEVICE Drawn drawn(const View<const i64>& cursor, u32 stream, u64 first, u64 step) {
    Drawn all;
    if (VECTOR % 4 == 0 && step == 1 && first % 4 == 0) {
#pragma unroll
        for (u32 k = 0; k < VECTOR; k += 4) {
            Words words = words_of(cursor, cursor.stride.v[0], stream, (first + k) / 4);
#pragma unroll
            for (u32 i = 0; i < 4; i++) all.v[(k + i) % VECTOR] = words.v[i];
        }
        return all;
    }
#pragma unroll
    for (u32 k = 0; k < VECTOR; k++) all.v[k] = word_at(cursor, cursor.stride.v[0], stream, first + k * step);
    return all;
}

// Arguments and result are contiguous; those marked in `uniform` are a single broadcast element. A thread loads all of
// its elements before it stores any, so the result may alias an argument.
KERNEL(contiguous) {
    u64 first = thread_index() * VECTOR;
    if (first >= n) return;
    if (first + VECTOR <= n) {
#define LOAD(i) \
    Vector<T##i, VECTOR> v##i = (uniform >> i & 1) ? Vector<T##i, VECTOR>::splat(x##i[0]) \
                                                  : Vector<T##i, VECTOR>::load(x##i + first);
        EACH_ARG(LOAD)
#define DRAW(stream) Drawn w##stream = drawn(cursor, stream##u, first, 1);
        EACH_STREAM(DRAW)
        Vector<TO, VECTOR> result;
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            result.v[k] = narrow<TO>(EVALUATE(ELEMENT, WORD));
        }
        result.store(out + first);
        return;
    }
    for (u64 at = first; at < n; at++) {
#define TAIL(i) ARGUMENT(i, x##i[(uniform >> i & 1) ? 0 : at])
#define TAIL_WORD(stream) word_of(cursor, cursor.stride.v[0], stream##u, at)
        out[at] = narrow<TO>(EVALUATE(TAIL, TAIL_WORD));
    }
}

// A unit of up to VECTOR elements with stride `step`: one access if they are adjacent and aligned (`along`). Elements
// past `count` are the first again.
template <class T> DEVICE Vector<T, VECTOR> fetch(const T* from, u64 step, u32 count, bool along) {
    if (along && count == VECTOR) return Vector<T, VECTOR>::load(from);
    if (step == 0) return Vector<T, VECTOR>::splat(*from);
    Vector<T, VECTOR> unit;
#pragma unroll
    for (int k = 0; k < VECTOR; k++) unit.v[k] = from[k < count ? k * step : 0];
    return unit;
}

// index / size: by a product where `reciprocal` holds m and s with size = 2^s / m, rounded so that the quotient is exact
// for every index below 2^31.
DEVICE u32 divide(u32 index, u64, u64 reciprocal) { return u32(u64(index) * u32(reciprocal >> 32) >> u32(reciprocal)); }
DEVICE u64 divide(u64 index, u64 size, u64) { return index / size; }

// Where an operand has the first element of a unit, its last index counting units. I is wide enough for every offset.
template <class I>
DEVICE u64 start_of(I unit, u32 rank, const Dims& shape, const Dims& reciprocal, const Dims& stride) {
    I at = 0;
#pragma unroll(sizeof(I) == 4 ? 8 : 1)  // divisions take many registers
    for (u32 axis = 0; axis < 8; axis++) {
        if (axis == rank) break;
        I size = I(shape.v[axis]), outer = divide(unit, size, reciprocal.v[axis]);
        at += (unit - outer * size) * (axis == 0 ? I(VECTOR) : I(1)) * I(stride.v[axis]);
        unit = outer;
    }
    return at;
}

// Any layouts, with as few common axes as possible, innermost first. A thread takes one of the `n` units, each a part
// of a row along the innermost axis, which has `length` elements. `narrow_offsets`: there are fewer than 2^31 units,
// and every offset fits in 32 bits.
KERNEL(strided) {
    u64 index = thread_index();
    if (index >= n) return;
#define START(stride)                                                                \
    (narrow_offsets ? start_of<u32>(u32(index), rank, shape, reciprocal, stride) \
                    : start_of<u64>(index, rank, shape, reciprocal, stride))
    u64 units = shape.v[0], outer = narrow_offsets ? divide(u32(index), units, reciprocal.v[0]) : index / units;
    u32 count = u32(min(length - (index - outer * units) * VECTOR, u64(VECTOR)));
#define FETCH(i) \
    Vector<T##i, VECTOR> v##i = fetch(x##i + START(stride##i), stride##i.v[0], count, along >> i & 1);
    EACH_ARG(FETCH)
#define DRAW_STRIDED(stream) Drawn w##stream = drawn(cursor, stream##u, START(stride_index), stride_index.v[0]);
    EACH_STREAM(DRAW_STRIDED)
    Vector<TO, VECTOR> result;
#pragma unroll
    for (int k = 0; k < VECTOR; k++) result.v[k] = narrow<TO>(EVALUATE(ELEMENT, WORD));
    TO* to = out + START(stride_out);
    if (along_out && count == VECTOR) {
        result.store(to);
        return;
    }
#pragma unroll
    for (int k = 0; k < VECTOR; k++) {
        if (k < count) to[k * stride_out.v[0]] = result.v[k];
    }
}
