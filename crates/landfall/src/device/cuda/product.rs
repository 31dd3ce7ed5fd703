//! Matmul by cuBLASLt: descriptors, layouts and the algorithm are created once per problem and cached.
//!
//! cuBLASLt is column-major. A matmul with a row-major result is `outᵀ = rhsᵀ · lhsᵀ` for it, so that its first matrix
//! is our right-hand side.

use super::capture::apart;
use super::stream::Stream;
use super::{driver, locked, probe};
use crate::error::Error;
use crate::kernel::cuda::product::{Addresses, Matrix, Problem};
use crate::values::{DType, Precision};
use cudarc::cublaslt::sys as lt;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::mem::size_of;
use std::ptr::{from_ref, null_mut};
use std::sync::{Arc, Mutex};

/// Turns a status into an error that names the call and the free memory: cuBLASLt, which loads kernels at first use,
/// reports a lack of memory as an internal failure.
fn check(call: &'static str, status: lt::cublasStatus_t) -> Result<(), Error> {
    if status == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: the library answered a call, so it is loaded; its texts are static and end with a zero.
    let why = unsafe { CStr::from_ptr(lt::cublasLtGetStatusString(status)) };
    let mut why = why.to_string_lossy().into_owned();
    if let Ok((free, total)) = driver::memory() {
        why += &format!("; {free} of the device's {total} bytes are free");
    }
    Err(Error::Cuda { call, code: format!("{status:?}"), why, last: None })
}

/// A cuBLASLt descriptor, with the call that destroys it.
#[derive(Debug)]
struct Described<T: Copy> {
    handle: T,
    end: unsafe fn(T) -> lt::cublasStatus_t,
}

impl<T: Copy> Drop for Described<T> {
    fn drop(&mut self) {
        // SAFETY: made once, ended once; it lies in the host's memory, no driver is called. Nobody to tell of a failure.
        _ = unsafe { (self.end)(self.handle) };
    }
}

type Set<T, A> = unsafe fn(T, A, *const c_void, usize) -> lt::cublasStatus_t;

impl<T: Copy> Described<T> {
    /// Sets an attribute. `V` must be the type that the library's documentation specifies.
    fn set<A, V>(&self, call: &'static str, set: Set<T, A>, attribute: A, value: V) -> Result<(), Error> {
        // SAFETY: the description lives; the library copies as many bytes as the value has, in the call.
        check(call, unsafe { set(self.handle, attribute, from_ref(&value).cast(), size_of::<V>()) })
    }
}

type Layouts = Described<lt::cublasLtMatrixLayout_t>;

const fn data_type(dtype: DType) -> lt::cudaDataType {
    match dtype {
        DType::F64 => lt::cudaDataType::CUDA_R_64F,
        DType::BF16 => lt::cudaDataType::CUDA_R_16BF,
        DType::F16 => lt::cudaDataType::CUDA_R_16F,
        // Matmul is of floats: the remaining dtype is f32.
        DType::F32 | DType::I32 | DType::I64 | DType::U8 | DType::Bool => lt::cudaDataType::CUDA_R_32F,
    }
}

impl Matrix {
    fn layout(&self, dtype: DType, batch: usize) -> Result<Layouts, Error> {
        use lt::cublasLtMatrixLayoutAttribute_t as A;
        let mut handle = null_mut();
        // SAFETY: the library is loaded; it writes a handle.
        let made = unsafe {
            lt::cublasLtMatrixLayoutCreate(
                &raw mut handle,
                data_type(dtype),
                self.rows as u64,
                self.cols as u64,
                self.lead as i64,
            )
        };
        check("cublasLtMatrixLayoutCreate", made)?;
        let layout = Described { handle, end: lt::cublasLtMatrixLayoutDestroy };
        if batch > 1 {
            let set = lt::cublasLtMatrixLayoutSetAttribute;
            let call = "cublasLtMatrixLayoutSetAttribute";
            layout.set(call, set, A::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch as i32)?;
            let offset = A::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
            layout.set(call, set, offset, self.step as i64)?;
        }
        Ok(layout)
    }
}

/// A problem with its algorithm: what remains is one library call.
#[derive(Debug)]
pub(super) struct Product {
    problem: Problem,
    operation: Mutex<Described<lt::cublasLtMatmulDesc_t>>,
    a: Layouts,
    b: Layouts,
    out: Layouts,
    /// Layout of the addend; of the result if there is none.
    addend: Layouts,
    algorithm: lt::cublasLtMatmulAlgo_t,
    library: Arc<Handle>,
}

// SAFETY: descriptions are the host's memory, which the library only reads once they are made; the one that changes,
// with the address of a bias, is behind a lock.
unsafe impl Send for Product {}
// SAFETY: as above.
unsafe impl Sync for Product {}

/// The library handle of a context.
#[derive(Debug)]
struct Handle(lt::cublasLtHandle_t);

// SAFETY: the library's documentation lets any thread use a handle.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made once, ended once, after the last product. Nobody to tell of a failure.
        _ = apart(|| unsafe { lt::cublasLtDestroy(self.0) });
    }
}

/// The cached problems of a device.
#[derive(Debug, Default)]
pub(super) struct Products {
    library: Mutex<Option<Arc<Handle>>>,
    known: Mutex<HashMap<Problem, Option<Arc<Product>>>>,
}

impl Products {
    /// The matmul of a problem, created at its first use; `None` if the library has no algorithm for it. The context
    /// must be current.
    pub(super) fn find(&self, problem: &Problem) -> Result<Option<Arc<Product>>, Error> {
        if let Some(known) = locked(&self.known).get(problem) {
            return Ok(known.clone());
        }
        let product = Product::new(*problem, self.library()?)?.map(Arc::new);
        Ok(locked(&self.known).entry(*problem).or_insert(product).clone())
    }

    fn library(&self) -> Result<Arc<Handle>, Error> {
        let mut library = locked(&self.library);
        if let Some(handle) = &*library {
            return Ok(Arc::clone(handle));
        }
        probe::cublaslt()?;
        let mut handle = null_mut();
        // SAFETY: the library is there and a context is current; it writes a handle.
        check("cublasLtCreate", apart(|| unsafe { lt::cublasLtCreate(&raw mut handle) }))?;
        Ok(Arc::clone(library.insert(Arc::new(Handle(handle)))))
    }
}

impl Product {
    fn new(problem: Problem, library: Arc<Handle>) -> Result<Option<Self>, Error> {
        use lt::cublasComputeType_t as Compute;
        use lt::cublasLtMatmulDescAttributes_t as A;
        let Problem { dtype, precision, batch, .. } = problem;
        let compute = match (dtype, precision) {
            (DType::F64, _) => Compute::CUBLAS_COMPUTE_64F,
            (DType::F32, Precision::Tf32) => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => Compute::CUBLAS_COMPUTE_32F,
        };
        let mut handle = null_mut();
        // SAFETY: the library is loaded; it writes a handle.
        check("cublasLtMatmulDescCreate", unsafe {
            lt::cublasLtMatmulDescCreate(&raw mut handle, compute, data_type(dtype.accumulate()))
        })?;
        let operation = Described { handle, end: lt::cublasLtMatmulDescDestroy };
        let (set, call) = (lt::cublasLtMatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
        for (matrix, attribute) in
            [(&problem.a, A::CUBLASLT_MATMUL_DESC_TRANSA), (&problem.b, A::CUBLASLT_MATMUL_DESC_TRANSB)]
        {
            // 0 and 1 are the library's CUBLAS_OP_N and CUBLAS_OP_T.
            operation.set(call, set, attribute, i32::from(matrix.transposed))?;
        }
        if problem.bias {
            let epilogue = lt::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            operation.set(call, set, A::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue as u32)?;
        }
        let (a, b) = (problem.a.layout(dtype, batch)?, problem.b.layout(dtype, batch)?);
        let layout = |m: &Matrix| m.layout(problem.result, batch);
        let (out, addend) = (layout(&problem.out)?, layout(&problem.added())?);
        let found = problem.algorithm(&library, &operation, [&a, &b, &addend, &out])?;
        let operation = Mutex::new(operation);
        Ok(found.map(|algorithm| Self { problem, operation, a, b, out, addend, algorithm, library }))
    }

    /// Issues the matmul to a stream.
    pub(super) fn issue(&self, at: &Addresses, stream: &Stream) -> Result<(), Error> {
        let operation = locked(&self.operation);
        if self.problem.bias {
            let bias = lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
            let set = lt::cublasLtMatmulDescSetAttribute;
            operation.set("cublasLtMatmulDescSetAttribute", set, bias, at.bias)?;
        }
        let factor = if self.problem.addend.is_some() { 1f32 } else { 0f32 };
        let (one, one_f64, factor_f64) = (1f32, 1f64, f64::from(factor));
        let (alpha, beta): (*const c_void, *const c_void) = if self.problem.dtype == DType::F64 {
            (from_ref(&one_f64).cast(), from_ref(&factor_f64).cast())
        } else {
            (from_ref(&one).cast(), from_ref(&factor).cast())
        };
        let pointer = |address: u64| address as *mut c_void;
        // SAFETY: handle, descriptions and stream live; the addresses are of operands that have, from there on, the
        // elements that the layouts name, and of as much scratch memory as is said; both factors are of the scale type
        // and read in the call. With a factor of 0 what is in `out` is not read, which is then the addend's address; an
        // addend of its own shares no memory with it.
        check("cublasLtMatmul", unsafe {
            lt::cublasLtMatmul(
                self.library.0,
                operation.handle,
                alpha,
                pointer(at.a),
                self.a.handle,
                pointer(at.b),
                self.b.handle,
                beta,
                pointer(at.addend),
                self.addend.handle,
                pointer(at.out),
                self.out.handle,
                from_ref(&self.algorithm),
                pointer(at.workspace),
                self.problem.workspace,
                stream.handle().cast(),
            )
        })
    }
}

impl Problem {
    /// The addend, or with a factor of 0 the result.
    fn added(&self) -> Matrix {
        self.addend.unwrap_or(self.out)
    }

    /// The heuristic's algorithm of this index, queried once: never timed, so that it does not change from run to run.
    fn algorithm(
        &self,
        library: &Handle,
        operation: &Described<lt::cublasLtMatmulDesc_t>,
        [a, b, addend, out]: [&Layouts; 4],
    ) -> Result<Option<lt::cublasLtMatmulAlgo_t>, Error> {
        use lt::cublasLtMatmulPreferenceAttributes_t as A;
        let mut handle = null_mut();
        // SAFETY: the library is loaded; it writes a handle.
        check("cublasLtMatmulPreferenceCreate", unsafe {
            lt::cublasLtMatmulPreferenceCreate(&raw mut handle)
        })?;
        let preference = Described { handle, end: lt::cublasLtMatmulPreferenceDestroy };
        let (set, call) = (lt::cublasLtMatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
        preference.set(call, set, A::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, self.workspace as u64)?;
        // Split-K partial sums are added in the accumulation type, in the workspace, in a fixed order. But a bias is
        // then added to a sum that was rounded to 16 bits.
        let rounded = self.bias && self.result != self.result.accumulate();
        let reduction = if rounded {
            lt::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_NONE as u32
        } else {
            lt::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32
        };
        preference.set(call, set, A::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction)?;
        for (attribute, alignment) in [
            (A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, self.a.alignment),
            (A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, self.b.alignment),
            (A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, self.added().alignment),
            (A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, self.out.alignment),
        ] {
            preference.set(call, set, attribute, alignment)?;
        }
        let mut count = 0;
        let none = lt::cublasLtMatmulHeuristicResult_t {
            algo: lt::cublasLtMatmulAlgo_t { data: [0; 8] },
            workspaceSize: 0,
            state: lt::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
            wavesCount: 0.0,
            reserved: [0; 4],
        };
        // The first algorithm is queried alone, as it is without a tuner.
        let mut found = vec![none; self.algorithm + 1];
        // SAFETY: all descriptions live; the library writes at most as many results as there is room for.
        let asked = unsafe {
            lt::cublasLtMatmulAlgoGetHeuristic(
                library.0,
                operation.handle,
                a.handle,
                b.handle,
                addend.handle,
                out.handle,
                preference.handle,
                found.len() as i32,
                found.as_mut_ptr(),
                &raw mut count,
            )
        };
        // "No algorithm" is a valid answer; the library reports it in three forms.
        let none = [
            lt::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
            lt::cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE,
        ];
        if none.contains(&asked) {
            return Ok(None);
        }
        check("cublasLtMatmulAlgoGetHeuristic", asked)?;
        found.truncate(usize::try_from(count).unwrap_or(0));
        let fits = |r: &lt::cublasLtMatmulHeuristicResult_t| {
            r.state == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS && r.workspaceSize <= self.workspace
        };
        Ok(found.get(self.algorithm).filter(|r| fits(r)).map(|r| r.algo))
    }
}
