typedef bf16 T0;
typedef bf16 T1;
typedef bf16 TO;
typedef float A;
constexpr u64 VECTOR = 8;
constexpr u64 TRUTHS = 0;
constexpr u64 COARSE = 1;
#define EACH_ARG(X) X(0) X(1)
#define EACH_STREAM(X) 
#define EVALUATE(X, W) evaluate(X(0), X(1))
DEVICE A evaluate(A x0, A x1) {
    const A r0 = x0;
    const A r1 = x1;
    const A r2 = sum_of(r0, r1);
    return r2;
}
#define KERNEL_contiguous __global__ void __launch_bounds__(256) contiguous(const T0* x0, const T1* x1, TO* out, u64 n, u32 uniform)
#define KERNEL_strided __global__ void __launch_bounds__(256) strided(const T0* x0, const T1* x1, TO* out, u64 n, u64 length, u32 narrow_offsets, u32 along, u32 along_out, u32 rank, const __grid_constant__ Dims shape, const __grid_constant__ Dims reciprocal, const __grid_constant__ Dims stride_out, const __grid_constant__ Dims stride0, const __grid_constant__ Dims stride1)
