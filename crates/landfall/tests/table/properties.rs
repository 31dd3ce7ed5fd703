//! The one list of properties: each is checked for every op on each device.

/// Expands `$body!` with an op, the properties that are checked on each device, and those of the null device.
macro_rules! with_properties {
    ($body:ident, $Op:ident) => {
        $body! { $Op:
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
            purity::host_is_idle
            sanitized::sanitized
            tuned::tuned
            refused::refused;
            refused::null
        }
    };
}
pub(crate) use with_properties;
