//! The devices of a test: the processor always, and the first GPU, where there is one. Where there is none the tests
//! there skip, and say so; with `LANDFALL_REQUIRE_CUDA=1` they fail.

#[path = "../../../landfall/tests/device/gpu.rs"]
mod gpu;

pub(crate) use gpu::gpu;

/// Makes two tests of a check that takes an engine: `name::cpu`, and `name::cuda`.
macro_rules! on_each_device {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[test]
            fn cpu() -> Result<(), Box<dyn std::error::Error>> {
                super::$name(&landfall::Engine::cpu()?)
            }

            #[test]
            fn cuda() -> Result<(), Box<dyn std::error::Error>> {
                match crate::devices::gpu()? {
                    Some(engine) => super::$name(&engine),
                    None => Ok(()),
                }
            }
        })+
    };
}
pub(crate) use on_each_device;
