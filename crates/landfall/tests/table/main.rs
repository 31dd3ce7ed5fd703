//! The suite that is generated from the op table: each op has one module, named as it, with one test a property, and in
//! it the module `cuda` with the same tests on a GPU.
//!
//! `properties` lists the properties, for this binary and for the one that runs them in a shuffled order; `case` makes
//! the calls from an op's samples, `place` lays operands out in memory, `launch` calls; each other module holds
//! properties. An op that joins the table is tested with no line written here.

mod aliasing;
mod allocation;
mod case;
mod compare;
mod device;
#[path = "../device/gpu.rs"]
mod gpu;
mod gradient;
#[path = "../device/heap.rs"]
mod heap;
mod launch;
mod layouts;
mod parity;
mod place;
mod programs;
mod properties;
mod purity;
mod refused;
mod sanitized;
mod support;
mod tuned;

macro_rules! properties {
    ($Op:ident: $($module:ident::$property:ident)*; $($here:ident::$only:ident)*) => {
        #[allow(non_snake_case, reason = "named as the op that it tests")]
        mod $Op {
            use crate::device::On;

            $(
                #[test]
                fn $property() -> crate::case::Check {
                    crate::$module::$property(On::Cpu, &landfall::ops::$Op::default())
                }
            )*
            $(
                #[test]
                fn $only() -> crate::case::Check {
                    crate::$here::$only(&landfall::ops::$Op::default())
                }
            )*

            mod cuda {
                $(
                    #[test]
                    fn $property() -> crate::case::Check {
                        crate::device::on_cuda(&landfall::ops::$Op::default(), crate::$module::$property)
                    }
                )*
            }
        }
    };
    ($Op:ident) => {
        crate::properties::with_properties!(properties, $Op);
    };
}

landfall::for_each_op!(properties);
