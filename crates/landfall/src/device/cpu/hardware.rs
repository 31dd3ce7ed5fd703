//! What is known of the processor.

/// Bytes that no cache of a processor of today is larger than: where the system does not say how large it is.
const LARGE: usize = 32 << 20;

/// The processor's name, or its architecture where the system does not tell.
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
    // What a virtual machine says may be the cache of a whole socket, of which it has a part.
    (0..5).filter_map(of).max().map_or(LARGE, |c| c.min(LARGE))
}
