//! L2 normalisation and its gradient on a GPU.

use super::{L2Norm, L2NormGrad, sizes};
use crate::contract::{Op, attributes};
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::ops::norm::layer_norm::cuda::{matrix, rows};
use crate::ops::reduce::reduction::{BLOCK, Group, across, unit};
use crate::values::{Layout, Operand};

static SOURCE: Source = Source {
    name: "l2_norm",
    text: concat!(
        include_str!("../../../kernel/cuda/units.cu"),
        include_str!("../../../kernel/cuda/group.cu"),
        include_str!("../../../kernel/cuda/rows.cu"),
        include_str!("l2_norm.cu")
    ),
    entries: &[
        Entry {
            name: "l2_norm",
            block: BLOCK,
            params: &[
                Param::u64("rows"),
                Param::u64("length"),
                Param::u32("lanes"),
                Param::u32("across"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("shape_row"),
                Param::f64("eps"),
                Param::input("scale", "S"),
                Param::dims("stride_scale"),
                Param::input("x", "T"),
                Param::u32("gapless_x"),
                Param::dims("stride_x"),
                Param::dims("stride_row_x"),
                Param::output("y", "T"),
                Param::u32("gapless_y"),
                Param::dims("stride_y"),
                Param::dims("stride_row_y"),
            ],
        },
        Entry {
            name: "gradient",
            block: BLOCK,
            params: &[
                Param::u64("rows"),
                Param::u64("length"),
                Param::u32("lanes"),
                Param::u32("across"),
                Param::u32("rank"),
                Param::dims("shape"),
                Param::dims("shape_row"),
                Param::f64("eps"),
                Param::input("scale", "S"),
                Param::dims("stride_scale"),
                Param::output("gscale", "S"),
                Param::dims("stride_gscale"),
                Param::input("gy", "T"),
                Param::u32("gapless_gy"),
                Param::dims("stride_gy"),
                Param::dims("stride_row_gy"),
                Param::input("x", "T"),
                Param::u32("gapless_x"),
                Param::dims("stride_x"),
                Param::dims("stride_row_x"),
                Param::output("gx", "T"),
                Param::u32("gapless_gx"),
                Param::dims("stride_gx"),
                Param::dims("stride_row_gx"),
            ],
        },
    ],
};

/// Arguments that both kernels begin with.
fn first(x: &Operand, starts: &Layout, row: &Layout, eps: f64) -> ([Arg<'static>; 8], Group) {
    let (count, length) = sizes(&x.spec().shape);
    let group = Group::whole(count, length.max(1), x.dtype());
    let args = [
        Arg::U64(count as u64),
        Arg::U64(length as u64),
        Arg::U32(group.lanes as u32),
        Arg::U32(across(starts, row)),
        Arg::U32(starts.shape().rank() as u32),
        Arg::dims(starts.shape().dims()),
        Arg::dims(row.shape().dims()),
        Arg::F64(eps),
    ];
    (args, group)
}

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
    let ([count, length, lanes, across, rank, shape, shape_row, eps], group) = first(&x, &of_x, &row_x, eps);
    let [gapless_x, stride_x, stride_row_x] = matrix(&x, &of_x, &row_x);
    let [gapless_y, stride_y, stride_row_y] = matrix(&y, &of_y, &row_y);
    let args = [
        count,
        length,
        lanes,
        across,
        rank,
        shape,
        shape_row,
        eps,
        Arg::Input(scale.as_ref().unwrap_or(&x)),
        Arg::dims(of_scale.strides()),
        Arg::Input(&x),
        gapless_x,
        stride_x,
        stride_row_x,
        Arg::Output(&y),
        gapless_y,
        stride_y,
        stride_row_y,
    ];
    call.launch(&module(&x, scale.as_ref()), "l2_norm", Geometry::blocks(group.blocks, BLOCK)?, &args)
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
    let ([count, length, lanes, across, rank, shape, shape_row, eps], group) = first(&x, &of_x, &row_x, eps);
    let [gapless_gy, stride_gy, stride_row_gy] = matrix(&gy, &of_gy, &row_gy);
    let [gapless_x, stride_x, stride_row_x] = matrix(&x, &of_x, &row_x);
    let [gapless_gx, stride_gx, stride_row_gx] = matrix(&gx, &of_gx, &row_gx);
    let args = [
        count,
        length,
        lanes,
        across,
        rank,
        shape,
        shape_row,
        eps,
        Arg::Input(&scale),
        Arg::dims(of_scale.strides()),
        Arg::Output(&gscale),
        Arg::dims(of_gscale.strides()),
        Arg::Input(&gy),
        gapless_gy,
        stride_gy,
        stride_row_gy,
        Arg::Input(&x),
        gapless_x,
        stride_x,
        stride_row_x,
        Arg::Output(&gx),
        gapless_gx,
        stride_gx,
        stride_row_gx,
    ];
    let module = module(&x, scales.as_ref().map(|(scale, _)| scale));
    call.launch(&module, "gradient", Geometry::blocks(group.blocks, BLOCK)?, &args)
}
