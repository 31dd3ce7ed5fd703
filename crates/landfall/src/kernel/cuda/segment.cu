// What the kernels of a segment stand on: each is a function that a block calls for its part of the operands.
struct Index3 { u32 x, y, z; };
constexpr Index3 ORIGIN = {0, 0, 0};

// An address as a pointer of the type that a parameter has.
struct Address {
    u64 value;
    template <class P> DEVICE operator P*() const { return reinterpret_cast<P*>(value); }
};

// A barrier of the block's first threads.
DEVICE void await(u32 threads) { asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory"); }

// The block of a launch that each warp is at, and how many there are.
__shared__ Index3 block_of[16], grid_of[16];
DEVICE void here(u32 x, u32 y, u32 z) {
    __syncwarp();
    block_of[threadIdx.x / 32] = {x, y, z};
    __syncwarp();
}
DEVICE void here(u32 block, Index3 grid) {
    grid_of[threadIdx.x / 32] = grid;
    here(block % grid.x, block / grid.x % grid.y, block / (grid.x * grid.y));
}
