//! Running sums on a GPU.

use crate::contract::Op;
use crate::kernel::cuda::{Arg, Call, Entry, Failure, Geometry, Module, Param, Source};
use crate::values::DType;

const BLOCK: u32 = 128;

static SOURCE: Source = Source {
    name: "accumulate",
    text: include_str!("accumulate.cu"),
    entries: &[Entry {
        name: "accumulate",
        block: BLOCK,
        params: &[
            Param::input_is("groups", DType::I64),
            Param::input_is("values", DType::F64),
            Param::output_is("sums", DType::F64),
            Param::faults("faults"),
            Param::u64("rows"),
            Param::u64("columns"),
            Param::u64("count"),
            Param::u64("stride_groups"),
            Param::dims("stride_values"),
            Param::dims("stride_sums"),
        ],
    }],
};

/// [`super::Accumulate`].
pub(super) fn accumulate(_: &dyn Op, call: &mut Call<'_>) -> Result<(), Failure> {
    let (groups, values, sums) = (*call.input(1)?, *call.input(2)?, *call.output(0)?);
    let (rows, shape) = (groups.spec().shape.elements(), sums.spec().shape);
    let &[count, columns] = shape.dims() else { return Ok(()) };
    if rows == 0 {
        return Ok(());
    }
    let args = [
        Arg::Input(&groups),
        Arg::Input(&values),
        Arg::Output(&sums),
        Arg::Faults,
        Arg::U64(rows as u64),
        Arg::U64(columns as u64),
        Arg::U64(count as u64),
        Arg::U64(groups.layout().strides()[0] as u64),
        Arg::dims(values.layout().strides()),
        Arg::dims(sums.layout().strides()),
    ];
    call.launch(&Module::new(&SOURCE), "accumulate", Geometry::linear(rows * columns.max(1), BLOCK)?, &args)
}
