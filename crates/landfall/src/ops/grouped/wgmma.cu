// A tile of a product of 16-bit floats by the tensor cores of Hopper: 128 x 256 elements, summed in f32. One warpgroup copies
// slabs of both factors into a ring of STAGES; two others multiply them, 64 x 256 each, straight from shared memory.
// A_ALONG and B_ALONG say whether a factor's inner axis is the gapless one. In either case a slab lies in lines of 128 bytes
// of the gapless axis, 16-byte chunks exchanged by the line's number modulo 8, which is how the hardware reads them; where the
// outer axis is the gapless one, 64 outer indices make a panel, and panels follow each other.
constexpr u32 TILE_ROWS = 128, TILE_COLUMNS = 256, SLAB = 64, STAGES = 4, CHUNK = 8, GROUP = 128, LINE = 128;
constexpr u32 LEFT = TILE_ROWS * LINE, STAGE = LEFT + TILE_COLUMNS * LINE;
typedef float A;

// One factor: the tile's indices of its outer axis, of which `outers` are inside, and the axis that is summed over.
struct Factor {
    const T* from;
    u64 outer, inner, outers;
};

DEVICE u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }

DEVICE void barrier_init(u32 at, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
DEVICE void barrier_arrive(u32 at) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(at) : "memory");
}
// Waits until the phase of this parity is over.
DEVICE void barrier_wait(u32 at, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(at), "r"(parity)
        : "memory");
}

// This thread's chunks of a slab: 16 bytes each to shared memory while other work goes on, zeros where they are not inside.
template <bool ALONG, u32 OUTERS> DEVICE void fetch(u32 to, const Factor& f, u64 inner, u64 end) {
    u32 thread = threadIdx.x % GROUP;
#pragma unroll
    for (u32 i = 0; i < OUTERS * SLAB / CHUNK / GROUP; i++) {
        u32 t = thread + i * GROUP, chunk = t % 8, line = t / 8;
        // Lines of one panel are inner indices.
        u64 o = ALONG ? line : line / SLAB * 64 + chunk * CHUNK, p = inner + (ALONG ? chunk * CHUNK : line % SLAB);
        bool inside = o < f.outers && p < end;
        const T* from = inside ? f.from + o * f.outer + p * f.inner : f.from;
        u32 at = to + line * LINE + (chunk ^ line % 8) * 16;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(inside ? 16 : 0) : "memory");
    }
}

// Where the hardware finds 16 inner indices of a slab from this address on: lines of 128 bytes, eight of them 1,024 bytes
// behind the eight before, panels behind each other.
DEVICE u64 descriptor(u32 at) {
    constexpr u64 panel = SLAB * LINE / 16, eight = 8 * LINE / 16, exchanged = u64(1) << 62;
    return u64((at & 0x3FFFF) >> 4) | panel << 16 | eight << 32 | exchanged;
}

#define SUMS                                                                                                        \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "    \
    "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "     \
    "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, "     \
    "%65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, "     \
    "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, "    \
    "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, "  \
    "%124, %125, %126, %127}"
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i) FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)
#define ALL_SUMS(d)                                                                                              \
    SIXTEEN(d, 0), SIXTEEN(d, 16), SIXTEEN(d, 32), SIXTEEN(d, 48), SIXTEEN(d, 64), SIXTEEN(d, 80), SIXTEEN(d, 96), \
        SIXTEEN(d, 112)
#define MULTIPLY_ADD(type)                                                                                           \
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " " SUMS ", %128, %129, 1, 1, 1, %130, %131;" \
                 : ALL_SUMS(d)                                                                                       \
                 : "l"(a), "l"(b), "n"(A_ALONG ? 0 : 1), "n"(B_ALONG ? 0 : 1))

DEVICE void multiply_add(float (&d)[128], u64 a, u64 b, bf16) { MULTIPLY_ADD("bf16"); }
DEVICE void multiply_add(float (&d)[128], u64 a, u64 b, f16) { MULTIPLY_ADD("f16"); }

struct Tile {
    float sum[128];  // of fragments of 8 columns: two rows, eight apart, of two columns each

    DEVICE static u32 group() { return threadIdx.x / GROUP; }

    DEVICE void multiply(const Factor& a, const Factor& b, u64 begin, u64 end) {
        extern __shared__ u8 dynamic[];
        __shared__ u64 filled[STAGES], emptied[STAGES];
        u32 slabs = (shared_address(dynamic) + 1023) / 1024 * 1024;
        if (threadIdx.x == 0) {
            for (u32 s = 0; s < STAGES; s++) {
                barrier_init(shared_address(filled + s), GROUP);
                barrier_init(shared_address(emptied + s), 2 * GROUP);
            }
        }
        __syncthreads();
        u64 count = (end - begin + SLAB - 1) / SLAB;
        if (group() == 0) {
            for (u64 slab = 0; slab < count; slab++) {
                u32 s = slab % STAGES, at = slabs + s * STAGE;
                if (slab >= STAGES) barrier_wait(shared_address(emptied + s), (slab / STAGES - 1) % 2);
                fetch<A_ALONG, TILE_ROWS>(at, a, begin + slab * SLAB, end);
                fetch<B_ALONG, TILE_COLUMNS>(at + LEFT, b, begin + slab * SLAB, end);
                // Arrives when this thread's copies have.
                asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(filled + s))
                             : "memory");
            }
            return;
        }
#pragma unroll
        for (u32 v = 0; v < 128; v++) sum[v] = 0.0f;
        // 64 rows are half of the lines of the left factor, or one of its two panels: 8,192 bytes either way.
        u32 left = (group() - 1) * 64 * LINE;
        constexpr u32 step_a = A_ALONG ? 32 : 16 * LINE, step_b = B_ALONG ? 32 : 16 * LINE;
        for (u64 slab = 0; slab < count; slab++) {
            u32 s = slab % STAGES, at = slabs + s * STAGE;
            barrier_wait(shared_address(filled + s), slab / STAGES % 2);
            // What copies wrote is read by the tensor cores.
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (u32 p = 0; p < SLAB / 16; p++)
                multiply_add(sum, descriptor(at + left + p * step_a), descriptor(at + LEFT + p * step_b), T());
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            // All but the last have been done: their slab may be overwritten.
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (slab > 0) barrier_arrive(shared_address(emptied + (slab - 1) % STAGES));
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }

    // Gives each pair of sums with its row and first column.
    template <class F> DEVICE void each(F take) const {
        if (group() == 0) return;
        u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        u32 row = (group() - 1) * 64 + warp * 16 + lane / 4, column = lane % 4 * 2;
#pragma unroll
        for (u32 j = 0; j < 32; j++) {
            take(row, column + 8 * j, sum[4 * j], sum[4 * j + 1]);
            take(row + 8, column + 8 * j, sum[4 * j + 2], sum[4 * j + 3]);
        }
    }
};
