// Definitions shared by all sources. No #include: NVRTC then needs no toolkit.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

// A kernel by its name, followed by attributes if it has any.
#define KERNEL(name, ...) extern "C" __VA_ARGS__ KERNEL_##name
#define DEVICE __device__ __forceinline__

// The prologue of every kernel: programmatic dependent launch. In a graph it may be launched while its predecessors
// still run, and its successors may be launched once all its blocks are here. After the wait, predecessors' writes are
// visible and their inputs may be overwritten.
DEVICE void after_others() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// a * b + c, rounded once. Nothing else is fused (`--fmad=false`): the compiler would choose by the code around, and a kernel that
// is a part of another would give other bytes.
DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE double fused(double a, double b, double c) { return __fma_rn(a, b, c); }

// Sizes or strides of up to eight axes, outermost first.
struct Dims { u64 v[8]; };

// A tensor map in the driver's encoding: the layout of an operand and its TMA tile.
struct alignas(64) TensorMap { u64 words[16]; };

// Struct parameters. A kernel receives their members, and its prologue assembles them.

// An operand with its strides. Converts to the address of its first element.
template <class E> struct View {
    E* data;
    const Dims& stride;
    DEVICE operator E*() const { return data; }
};

// Shared by all tensors of a row kernel: `count` rows of `length` elements, and the lanes that share a row.
struct RowFrame {
    u64 count, length;
    u32 lanes, across;   // as in `group_of`
    u32 rank;            // axes of the row index
    const Dims &shape, &shape_row;
};
// The rows of one tensor: layout of their starts and of their elements.
template <class E> struct RowView {
    E* data;
    u32 contiguous;   // whether units of a row are contiguous and aligned for 16-byte accesses
    const Dims &stride, &stride_row;
};

// A copy of `units` from x to out.
template <class T> struct Transfer {
    const T* x;
    T* out;
    u64 units;
    u32 rank;
    const Dims &shape, &stride_x, &stride_out;
};

// 16-bit floats are storage; arithmetic on them runs in float.
struct bf16 { u16 bits; };
struct f16 { u16 bits; };

// The type of arithmetic and sums over elements of T.
template <class T> struct Accumulate { typedef T type; };
template <> struct Accumulate<bf16> { typedef float type; };
template <> struct Accumulate<f16> { typedef float type; };

DEVICE float widen(float x) { return x; }
DEVICE double widen(double x) { return x; }
DEVICE float widen(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }
DEVICE float widen(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
DEVICE i32 widen(i32 x) { return x; }
DEVICE i64 widen(i64 x) { return x; }
DEVICE u8 widen(u8 x) { return x; }

// A double as the float that rounds to 16 bits as the double itself would: sticky bit in the last place.
DEVICE float to_odd(double x) {
    float y = __double2float_rz(x);
    return double(y) == x || x != x ? y : __uint_as_float(__float_as_uint(y) | 1u);
}

// Rounds to T: to nearest, ties to even; to integers truncating and saturating, NaN to 0.
template <class T> struct Narrow;
template <> struct Narrow<float> {
    DEVICE static float of(float x) { return x; }
    DEVICE static float of(double x) { return float(x); }
};
template <> struct Narrow<double> {
    DEVICE static double of(float x) { return x; }
    DEVICE static double of(double x) { return x; }
};
template <> struct Narrow<bf16> {
    DEVICE static bf16 of(float x) {
        bf16 y;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
        return y;
    }
    DEVICE static bf16 of(double x) { return of(to_odd(x)); }
};
template <> struct Narrow<f16> {
    DEVICE static f16 of(float x) {
        f16 y;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
        return y;
    }
    DEVICE static f16 of(double x) { return of(to_odd(x)); }
};
template <> struct Narrow<i32> {
    DEVICE static i32 of(double x) {
        if (x != x) return 0;
        i32 y;
        asm("cvt.rzi.sat.s32.f64 %0, %1;" : "=r"(y) : "d"(x));
        return y;
    }
    DEVICE static i32 of(float x) { return of(double(x)); }
    DEVICE static i32 of(i32 x) { return x; }
    // Modulo 2^32, as integers wrap.
    DEVICE static i32 of(i64 x) { return i32(x); }
};
template <> struct Narrow<i64> {
    DEVICE static i64 of(double x) {
        if (x != x) return 0;
        i64 y;
        asm("cvt.rzi.sat.s64.f64 %0, %1;" : "=l"(y) : "d"(x));
        return y;
    }
    DEVICE static i64 of(float x) { return of(double(x)); }
    DEVICE static i64 of(i64 x) { return x; }
};
template <> struct Narrow<u8> {
    // Comparisons with NaN are false: it becomes 0.
    DEVICE static u8 of(double x) { return x >= 255.0 ? u8(255) : x > 0.0 ? u8(i32(x)) : u8(0); }
    DEVICE static u8 of(float x) { return x >= 255.0f ? u8(255) : x > 0.0f ? u8(i32(x)) : u8(0); }
    DEVICE static u8 of(u8 x) { return x; }
    DEVICE static u8 of(i32 x) { return u8(x); }
    DEVICE static u8 of(i64 x) { return u8(x); }
};
template <class T, class A> DEVICE T narrow(A x) { return Narrow<T>::of(x); }

// The arithmetic of pointwise expressions; integers wrap, which signed overflow in C++ does not.
template <class A> DEVICE A sum_of(A a, A b) { return a + b; }
template <class A> DEVICE A difference_of(A a, A b) { return a - b; }
template <class A> DEVICE A product_of(A a, A b) { return a * b; }
template <class A> DEVICE A negative_of(A a) { return -a; }
template <class A> DEVICE A magnitude_of(A a) { return fabs(a); }
// The remainder with the sign of the divisor, 0 too.
template <class A> DEVICE A remainder_of(A a, A b) {
    A r = fmod(a, b);
    if (r == A(0)) return copysign(A(0), b);
    return (r < A(0)) != (b < A(0)) ? r + b : r;
}
template <class A> DEVICE A floor_of(A a) { return floor(a); }
template <class A> DEVICE A ceil_of(A a) { return ceil(a); }
template <class A> DEVICE A round_of(A a) { return rint(a); }
#define INTEGER(I, U)                                                                            \
    DEVICE I sum_of(I a, I b) { return I(U(a) + U(b)); }                                         \
    DEVICE I difference_of(I a, I b) { return I(U(a) - U(b)); }                                  \
    DEVICE I product_of(I a, I b) { return I(U(a) * U(b)); }                                     \
    DEVICE I negative_of(I a) { return I(0 - U(a)); }                                            \
    DEVICE I magnitude_of(I a) { return a < 0 ? negative_of(a) : a; }                            \
    DEVICE I floor_of(I a) { return a; }                                                         \
    DEVICE I ceil_of(I a) { return a; }                                                          \
    DEVICE I round_of(I a) { return a; }                                                         \
    DEVICE I remainder_of(I a, I b) {                                                            \
        /* By -1 the quotient of the least integer would overflow. */                            \
        I r = b == 0 || b == -1 ? I(0) : a % b;                                                  \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                         \
    }
INTEGER(i32, u32)
INTEGER(i64, u64)

// N elements that one access moves: N * sizeof(T) is 1, 2, 4, 8 or 16, and so is the alignment of the address.
template <int BYTES> struct Word;
template <> struct Word<1> { typedef u8 type; };
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<4> { typedef u32 type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<16> { typedef uint4 type; };
template <class T, int N> struct Vector {
    typedef typename Word<N * sizeof(T)>::type W;
    union { W word; T v[N]; };
    DEVICE Vector() {}
    DEVICE static Vector load(const T* at) {
        Vector x;
        x.word = *reinterpret_cast<const W*>(at);
        return x;
    }
    DEVICE static Vector splat(T value) {
        Vector x;
#pragma unroll
        for (int i = 0; i < N; i++) x.v[i] = value;
        return x;
    }
    DEVICE void store(T* at) const { *reinterpret_cast<W*>(at) = word; }
};

// N contiguous elements, moved by accesses of up to 16 bytes, to which the address is aligned; or one by one, at any
// distance from each other.
template <class T, int N> struct Several {
    static constexpr int V = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
    T v[N];
    DEVICE static Several load(const T* at) {
        Several x;
#pragma unroll
        for (int i = 0; i < N; i += V) {
            Vector<T, V> part = Vector<T, V>::load(at + i);
#pragma unroll
            for (int j = 0; j < V; j++) x.v[i + j] = part.v[j];
        }
        return x;
    }
    template <bool WHOLE> DEVICE void put(T* at) const {
#pragma unroll
        for (int i = 0; i < N; i += V) {
            Vector<T, V> part;
#pragma unroll
            for (int j = 0; j < V; j++) part.v[j] = v[i + j];
            if (WHOLE) __stwb(reinterpret_cast<typename Word<V * sizeof(T)>::type*>(at + i), part.word);
            else part.store(at + i);
        }
    }
    DEVICE void store(T* at) const { put<false>(at); }
    // Next to a branch that stores the elements one by one, the compiler would split a plain store.
    DEVICE void store_whole(T* at) const { put<true>(at); }
};

// Offset of the row-major element `index` of a view: `I` is u32 if the view has fewer than 2^32 elements, because
// 64-bit division is many times slower.
template <class I> DEVICE u64 offset_of(I index, u32 rank, const Dims& shape, const Dims& stride) {
    u64 at = 0;
    for (u32 axis = rank; axis-- > 1;) {
        I size = I(shape.v[axis]);
        I outer = index / size;
        at += u64(index - outer * size) * stride.v[axis];
        index = outer;
    }
    return rank == 0 ? 0 : at + u64(index) * stride.v[0];
}

// Sums and maxima over a warp. Every thread gets the result; the order of additions is fixed, so that results repeat.
struct Sum {
    template <class A> DEVICE static A of(A a, A b) { return a + b; }
};
struct Max {
    // NaN if either is.
    template <class A> DEVICE static A of(A a, A b) { return a != a ? a : b != b ? b : a > b ? a : b; }
};
struct Min {
    template <class A> DEVICE static A of(A a, A b) { return a != a ? a : b != b ? b : a < b ? a : b; }
};
template <class F, class A> DEVICE A warp_all(A x) {
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) x = F::of(x, __shfl_xor_sync(0xFFFFFFFFu, x, lane));
    return x;
}

// An index out of range: the first one that a launch reports is kept until the host reads. `raised` tells the host to look.
struct FaultRecord {
    u32 taken, unused;
    u64 position;
    i64 value;
    u64 limit;
};
struct Faults {
    FaultRecord* record;
    u32* raised;
};
DEVICE void flag(const Faults& faults, u64 position, i64 value, u64 limit) {
    if (atomicCAS(&faults.record->taken, 0u, 1u) != 0u) return;
    faults.record->position = position;
    faults.record->value = value;
    faults.record->limit = limit;
    atomicExch(faults.raised, 1u);
}

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011), word for word the CPU's.
struct Words { u32 v[4]; };
DEVICE Words random_block(u64 seed, u32 step, u32 stream, u64 block) {
    u32 c0 = u32(block), c1 = u32(block >> 32), c2 = step, c3 = stream;
    u32 k0 = u32(seed), k1 = u32(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u32 high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        u32 high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    Words words = {{c0, c1, c2, c3}};
    return words;
}
// In [0, 1): the upper 24 bits.
DEVICE float uniform(u32 word) { return float(word >> 8) * (1.0f / 16777216.0f); }
// Whether the element of this word is kept under a threshold of p * 2^32.
DEVICE bool keep(u32 word, u64 threshold) { return u64(word) < threshold; }
