//! Tensor maps in the driver's encoding.

use super::driver::check;
use crate::error::Error;
use crate::kernel::cuda::Tile;
use crate::kernel::cuda::tensor_map::{MAX_AXES, WORDS};
use crate::values::DType;
use cudarc::driver::sys;

/// The tensor map of a TMA tile, with the 128-byte swizzle in shared memory: the 16-byte chunks of each line are
/// permuted by the line's number modulo 8, as tensor cores read them. Elements outside of the operand are zero.
///
/// # Errors
/// The driver's error for invalid sizes.
pub(super) fn encode(tile: &Tile<'_>) -> Result<[u64; WORDS], Error> {
    use sys::CUtensorMapDataType as Type;
    let (of, axes) = (tile.operand, tile.axes);
    let dtype = match of.dtype {
        DType::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        DType::BF16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        DType::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        DType::U8 | DType::Bool => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
    };
    let (dims, strides) = (of.layout.shape().dims(), of.layout.strides());
    let (mut sizes, mut steps, mut lengths) = ([1; MAX_AXES], [0; MAX_AXES], [1; MAX_AXES]);
    for (i, &(axis, length)) in axes.iter().enumerate() {
        sizes[i] = dims[axis] as u64;
        // The contiguous axis has no stride in the map.
        if let Some(before) = i.checked_sub(1) {
            steps[before] = (strides[axis] * of.dtype.size()) as u64;
        }
        lengths[i] = length;
    }
    // The driver writes to a multiple of 64 bytes; a launch copies the words from any address.
    let mut map = sys::CUtensorMap { opaque: [0; WORDS] };
    // SAFETY: the map is aligned as its type says; each list has as many elements as there may be axes, and the driver reads
    // as many as there are. It reads nothing of the operand's memory.
    check("cuTensorMapEncodeTiled", unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut map,
            dtype,
            axes.len() as u32,
            of.address() as *mut _,
            sizes.as_ptr(),
            steps.as_ptr(),
            lengths.as_ptr(),
            [1; MAX_AXES].as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    })?;
    Ok(map.opaque)
}
