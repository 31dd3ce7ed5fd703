//! The suite that is generated from the op table: each op has one module, named as it, with one test a property.
//!
//! `case` makes the calls from an op's samples, `place` lays operands out in memory, `launch` calls; each other module
//! holds properties. An op that joins the table is tested with no line written here.

mod aliasing;
mod allocation;
mod case;
mod compare;
mod gradient;
#[path = "../device/heap.rs"]
mod heap;
mod launch;
mod layouts;
mod parity;
mod place;
mod programs;
mod refused;
mod support;

macro_rules! properties {
    ($Op:ident: $($module:ident::$property:ident)*) => {
        #[allow(non_snake_case, reason = "named as the op that it tests")]
        mod $Op {
            $(
                #[test]
                fn $property() -> crate::case::Check {
                    crate::$module::$property(&landfall::ops::$Op::default())
                }
            )*
        }
    };
    ($Op:ident) => {
        properties! { $Op:
            parity::parity
            parity::body
            gradient::gradient
            layouts::layouts
            layouts::poison
            layouts::guards
            layouts::deterministic
            aliasing::aliasing
            allocation::allocates_nothing
            programs::recorded
            refused::refused
            refused::null
        }
    };
}

landfall::for_each_op!(properties);
