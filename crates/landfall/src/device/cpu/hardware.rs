//! CPU properties.

/// Upper bound of today's cache sizes, used if the system does not report one.
const LARGE: usize = 32 << 20;

/// The CPU's name, or its architecture if the system does not report it.
pub(super) fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value =
        |l: &str| l.strip_prefix("model name").and_then(|l| l.split_once(':')).map(|l| l.1.trim().to_owned());
    text.lines().find_map(value).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Bytes of the last-level cache.
pub(super) fn cache() -> usize {
    let of = |index: usize| {
        let text =
            std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok().map(|k| k << 10)
    };
    // A virtual machine may report the cache of a whole socket, of which it has a part.
    (0..5).filter_map(of).max().map_or(LARGE, |c| c.min(LARGE))
}
