typedef bf16 T0;
typedef float TO;
typedef float A;
constexpr u64 VECTOR = 4;
constexpr u64 TRUTHS = 0;
constexpr u64 COARSE = 0;
#define EACH_ARG(X) X(0)
#define EACH_STREAM(X) 
#define EVALUATE(X, W) evaluate(X(0))
DEVICE A evaluate(A x0) {
    const A r0 = x0;
    return r0;
}
#define KERNEL_contiguous __global__ void __launch_bounds__(256) contiguous(const T0* x0, TO* out, u64 n, u32 uniform)
#define KERNEL_strided __global__ void __launch_bounds__(256) strided(const T0* x0, TO* out, u64 n, u64 length, u32 narrow_offsets, u32 along, u32 along_out, u32 rank, const __grid_constant__ Dims shape, const __grid_constant__ Dims reciprocal, const __grid_constant__ Dims stride_out, const __grid_constant__ Dims stride0)
