//! L2 normalisation and its gradient on a GPU.

use super::{L2Norm, L2NormGrad};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{
    Call, Failure, GROUP, Geometry, KernelArgs, Module, Piece, ROWS, Source, UNITS, cuda_kernel,
};
use crate::ops::norm::layer_norm::cuda::{frame, rows};
use crate::ops::reduce::reduction::{BLOCK, row_view, unit};
use crate::values::Operand;

cuda_kernel! {
    /// A group of lanes takes a row.
    struct Forward = "l2_norm", BLOCK;
    frame: row_frame,
    eps: f64,
    scale: view_in S,
    x: rows_in T,
    y: rows_out T,
}

cuda_kernel! {
    /// As the forward pass; the scale's gradient too, where there is a scale.
    struct Gradient = "gradient", BLOCK;
    frame: row_frame,
    eps: f64,
    scale: view_in S,
    gscale: view_out S,
    gy: rows_in T,
    x: rows_in T,
    gx: rows_out T,
}

static SOURCE: Source = Source {
    name: "l2_norm",
    pieces: &[UNITS, GROUP, ROWS, Piece::new("l2_norm", include_str!("l2_norm.cu"))],
    entries: &[Forward::KERNEL, Gradient::KERNEL],
};

/// Without a scale, any operand stands in: the kernel has no use of it.
fn module(x: &Operand, scale: Option<&Operand>) -> Module {
    let module = Module::new(&SOURCE).of("T", x.dtype()).of("A", x.dtype().accumulate());
    let module = module.of("S", scale.map_or(x.dtype(), Operand::dtype));
    module.constant("SCALED", u64::from(scale.is_some())).constant("UNIT", unit(x.dtype()) as u64)
}

/// [`L2Norm`].
pub(super) fn forward(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let L2Norm { eps, scaled } = *attributes(op)?;
    let (x, y) = (*call.input(0)?, *call.output(0)?);
    if x.spec().shape.elements() == 0 {
        return Ok(());
    }
    let scale = if scaled { Some(*call.input(1)?) } else { None };
    let ([of_x, of_y, of_scale], [row_x, row_y]) = match &scale {
        Some(scale) => rows([&x, &y], [scale])?,
        None => {
            let ([of_x, of_y], row) = rows([&x, &y], [])?;
            ([of_x, of_y, of_x], row)
        }
    };
    let (frame, group) = frame(&x, &of_x, &row_x);
    let args = Forward {
        frame,
        eps,
        scale: &scale.unwrap_or(x).relaid(of_scale),
        x: row_view(&x, &of_x, &row_x),
        y: row_view(&y, &of_y, &row_y),
    };
    call.launch(&module(&x, scale.as_ref()), Geometry::blocks(group.blocks, BLOCK)?, &args)
}

/// [`L2NormGrad`].
pub(super) fn backward(op: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let L2NormGrad { eps, scaled } = *attributes(op)?;
    let (gy, x, gx) = (*call.input(0)?, *call.input(1)?, *call.output(0)?);
    if x.spec().shape.elements() == 0 {
        return Ok(());
    }
    let scales = if scaled { Some((*call.input(2)?, *call.output(1)?)) } else { None };
    let ([of_gy, of_x, of_gx, of_scale, of_gscale], [row_gy, row_x, row_gx]) = match &scales {
        Some((scale, gscale)) => rows([&gy, &x, &gx], [scale, gscale])?,
        None => {
            let ([of_gy, of_x, of_gx], row) = rows([&gy, &x, &gx], [])?;
            ([of_gy, of_x, of_gx, of_x, of_x], row)
        }
    };
    let (scale, gscale) = scales.unwrap_or((x, gx));
    let (frame, group) = frame(&x, &of_x, &row_x);
    let args = Gradient {
        frame,
        eps,
        scale: &scale.relaid(of_scale),
        gscale: &gscale.relaid(of_gscale),
        gy: row_view(&gy, &of_gy, &row_gy),
        x: row_view(&x, &of_x, &row_x),
        gx: row_view(&gx, &of_gx, &row_gx),
    };
    let module = module(&x, scales.as_ref().map(|(scale, _)| scale));
    call.launch(&module, Geometry::blocks(group.blocks, BLOCK)?, &args)
}
