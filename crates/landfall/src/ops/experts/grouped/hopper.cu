// What Hopper offers to kernels that multiply: copies of TMA tiles that one thread asks for, and products of up to 256 columns
// straight from shared memory, each by a warpgroup of 128 threads. (With `barriers.cu`.)
constexpr u32 SLAB = 64, STAGES = 4, CHUNK = 8, GROUP = 128, LINE = 128, PANEL = SLAB * LINE;
typedef float A;

// Of the dynamic shared memory, from a multiple of 1,024 bytes on.
DEVICE u32 shared_base() {
    extern __shared__ u8 dynamic[];
    return (shared_address(dynamic) + 1023) / 1024 * 1024;
}

// At the barrier that lies there in another block of the cluster (or this one). A release at the cluster's scope would cost a
// fence of all memory; nothing was written that those who wait read, and what tensor cores read has been waited for.
DEVICE void barrier_arrive_at(u32 at, u32 rank) {
    asm volatile(
        "{\n.reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(at), "r"(rank)
        : "memory");
}
// Arrives when this thread's copies of 16 bytes have.
DEVICE void barrier_arrive_copied(u32 at) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory");
}
DEVICE u32 cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// All threads of the cluster meet; what they wrote before is there for all afterwards.
DEVICE void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
// The threads of a warpgroup meet.
DEVICE void sync_group(u32 id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }

// Registers that a warpgroup gives back, or takes of those.
template <u32 LEFT> DEVICE void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LEFT)); }
template <u32 MORE> DEVICE void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MORE)); }

// 16 bytes to shared memory while other work goes on; zeros where they are not inside.
DEVICE void copy_16(u32 to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
DEVICE void prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<u64>(&map)) : "memory");
}
// A TMA tile of a matrix to the same place in these blocks of the cluster, in each counted by the barrier there.
DEVICE void copy_box(u32 to, const TensorMap& map, u32 barrier, i32 c0, i32 c1, u16 blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
        "l"(reinterpret_cast<u64>(&map)), "r"(barrier), "r"(c0), "r"(c1), "h"(blocks)
        : "memory");
}
// A TMA tile of a batch of matrices, to this block.
DEVICE void copy_box(u32 to, const TensorMap& map, u32 barrier, i32 c0, i32 c1, i32 c2) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
        "l"(reinterpret_cast<u64>(&map)), "r"(barrier), "r"(c0), "r"(c1), "r"(c2)
        : "memory");
}
// 16 bytes to shared memory of a block of the cluster, counted by a barrier there.
DEVICE void post_16(u32 to, u32 barrier, u32 rank, int4 x) {
    asm volatile(
        "{\n.reg .b32 there, told;\n"
        "mapa.shared::cluster.u32 there, %0, %2;\n"
        "mapa.shared::cluster.u32 told, %1, %2;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [there], {%3, %4, %5, %6}, [told];\n}" ::"r"(to),
        "r"(barrier), "r"(rank), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
        : "memory");
}

// The number that a counter of all blocks had, which is one more then. (The compiler would add up a warp's calls of `atomicAdd`
// first, and wait for the answer at once.)
DEVICE u32 draw(i32* counter) {
    u32 before;
    asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

// Two sums as 16-bit floats, the first in the lower half.
DEVICE u32 pack(float low, float high, bf16) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
DEVICE u32 pack(float low, float high, f16) {
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
// Four fragments of 8 x 8, turned; lane i gives the address of line i % 8 of fragment i / 8.
DEVICE void store_turned(u32 at, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}
DEVICE int4 load_shared_16(u32 at) {
    int4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(at) : "memory");
    return x;
}

// What threads or their copies wrote is read by tensor cores next.
DEVICE void fence_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void multiply_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most so many groups of products are not done.
template <u32 LEFT> DEVICE void multiply_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }

// Where the hardware finds 16 inner indices of a slab from this address on. A slab lies in lines of 128 bytes of a factor's
// contiguous axis, eight of them 1,024 bytes behind the eight before, the 16-byte chunks exchanged by the line's number modulo 8.
// Where the outer axis is the contiguous one, 64 outer indices make a panel, and panels follow each other.
DEVICE u64 descriptor(u32 at) {
    constexpr u64 panel = PANEL / 16, eight = 8 * LINE / 16, exchanged = u64(1) << 62;
    return u64((at & 0x3FFFF) >> 4) | panel << 16 | eight << 32 | exchanged;
}
// From 16 inner indices to the next 16.
template <bool ALONG> constexpr u32 INNER_16 = ALONG ? 32 : 16 * LINE;

// Adds 64 rows of one factor times n of the other to their sums. A_ALONG and B_ALONG: whether a factor's inner axis is the
// contiguous one.
#define EIGHT(d, i)                                                                                                     \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define REGS_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define REGS_2 REGS_1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define REGS_3 REGS_2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define REGS_4 REGS_3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define REGS_5 REGS_4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define REGS_6 REGS_5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define REGS_7 REGS_6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define REGS_8 REGS_7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define REGS_9 REGS_8 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define REGS_10 REGS_9 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define REGS_11 REGS_10 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define REGS_12 REGS_11 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define REGS_13 REGS_12 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define REGS_14 REGS_13 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define REGS_15 REGS_14 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define REGS_16 REGS_15 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS_1(d) EIGHT(d, 0)
#define SUMS_2(d) SUMS_1(d), EIGHT(d, 8)
#define SUMS_3(d) SUMS_2(d), EIGHT(d, 16)
#define SUMS_4(d) SUMS_3(d), EIGHT(d, 24)
#define SUMS_5(d) SUMS_4(d), EIGHT(d, 32)
#define SUMS_6(d) SUMS_5(d), EIGHT(d, 40)
#define SUMS_7(d) SUMS_6(d), EIGHT(d, 48)
#define SUMS_8(d) SUMS_7(d), EIGHT(d, 56)
#define SUMS_9(d) SUMS_8(d), EIGHT(d, 64)
#define SUMS_10(d) SUMS_9(d), EIGHT(d, 72)
#define SUMS_11(d) SUMS_10(d), EIGHT(d, 80)
#define SUMS_12(d) SUMS_11(d), EIGHT(d, 88)
#define SUMS_13(d) SUMS_12(d), EIGHT(d, 96)
#define SUMS_14(d) SUMS_13(d), EIGHT(d, 104)
#define SUMS_15(d) SUMS_14(d), EIGHT(d, 112)
#define SUMS_16(d) SUMS_15(d), EIGHT(d, 120)
#define MULTIPLY_OF(type, n, regs, sums, first, second, third, fourth)                                                  \
    template <bool A_ALONG, bool B_ALONG> DEVICE void multiply_add(float (&d)[n / 2], u64 a, u64 b, type) {              \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type " {" regs "}, " first ", " second \
                     ", 1, 1, 1, " third ", " fourth ";"                                                                \
                     : sums(d)                                                                                          \
                     : "l"(a), "l"(b), "n"(A_ALONG ? 0 : 1), "n"(B_ALONG ? 0 : 1));                                     \
    }
#define MULTIPLY(...) MULTIPLY_OF(bf16, __VA_ARGS__) MULTIPLY_OF(f16, __VA_ARGS__)
MULTIPLY(16, REGS_1, SUMS_1, "%8", "%9", "%10", "%11")
MULTIPLY(32, REGS_2, SUMS_2, "%16", "%17", "%18", "%19")
MULTIPLY(48, REGS_3, SUMS_3, "%24", "%25", "%26", "%27")
MULTIPLY(64, REGS_4, SUMS_4, "%32", "%33", "%34", "%35")
MULTIPLY(80, REGS_5, SUMS_5, "%40", "%41", "%42", "%43")
MULTIPLY(96, REGS_6, SUMS_6, "%48", "%49", "%50", "%51")
MULTIPLY(112, REGS_7, SUMS_7, "%56", "%57", "%58", "%59")
MULTIPLY(128, REGS_8, SUMS_8, "%64", "%65", "%66", "%67")
MULTIPLY(144, REGS_9, SUMS_9, "%72", "%73", "%74", "%75")
MULTIPLY(160, REGS_10, SUMS_10, "%80", "%81", "%82", "%83")
MULTIPLY(176, REGS_11, SUMS_11, "%88", "%89", "%90", "%91")
MULTIPLY(192, REGS_12, SUMS_12, "%96", "%97", "%98", "%99")
MULTIPLY(208, REGS_13, SUMS_13, "%104", "%105", "%106", "%107")
MULTIPLY(224, REGS_14, SUMS_14, "%112", "%113", "%114", "%115")
MULTIPLY(240, REGS_15, SUMS_15, "%120", "%121", "%122", "%123")
MULTIPLY(256, REGS_16, SUMS_16, "%128", "%129", "%130", "%131")
