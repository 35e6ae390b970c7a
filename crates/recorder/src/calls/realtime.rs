//! The kernel's stamps are of the real-time clock; ours are monotonic.

use greenlane_process::clock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The distance of the clocks is measured again after this long: they drift by at most 0.5 us in it.
const KEEP_NS: u64 = 1_000_000_000;
/// The real-time clock was set, not slewed, if the distance changed by more.
const STEP_NS: u64 = 2_000_000;
/// A stamp later than now by more than this is of a clock that was set.
const SLACK_NS: u64 = 100_000;

/// Real time less monotonic time, ns.
static DISTANCE_NS: AtomicI64 = AtomicI64::new(0);
static MEASURED_NS: AtomicU64 = AtomicU64::new(0);
/// Stamps from before this cannot be told.
static SET_NS: AtomicU64 = AtomicU64::new(0);

/// The monotonic moment of a stamp, seen at `now_ns`; 0 if it cannot be told.
pub fn monotonic(stamp_ns: u64, now_ns: u64) -> u64 {
    if now_ns.saturating_sub(MEASURED_NS.load(Ordering::Relaxed)) > KEEP_NS {
        measure();
    }
    let distance_ns = DISTANCE_NS.load(Ordering::Relaxed);
    let at_ns = u64::try_from(stamp_ns as i64 - distance_ns).unwrap_or(0);
    if at_ns > now_ns + SLACK_NS || at_ns < SET_NS.load(Ordering::Relaxed) {
        return 0;
    }
    at_ns.min(now_ns)
}

/// A measurement that took longer was interrupted: it is made again, a few times.
const QUICK_NS: u64 = 2_000;
const MOST_TRIES: u32 = 5;

fn measure() {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..MOST_TRIES {
        let before_ns = clock::monotonic_ns();
        let real_ns = clock::read(libc::CLOCK_REALTIME).unwrap_or(0);
        let after_ns = clock::monotonic_ns();
        let middle_ns = before_ns + (after_ns - before_ns) / 2;
        let distance_ns = real_ns as i64 - middle_ns as i64;
        best = best.min((after_ns - before_ns, distance_ns, after_ns));
        if best.0 <= QUICK_NS {
            break;
        }
    }
    let (_, distance_ns, after_ns) = best;
    let first = MEASURED_NS.swap(after_ns, Ordering::Relaxed) == 0;
    let known_ns = DISTANCE_NS.swap(distance_ns, Ordering::Relaxed);
    if !first && distance_ns.abs_diff(known_ns) > STEP_NS {
        SET_NS.store(after_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_now_is_now_and_one_of_the_future_is_none() {
        let real_ns = clock::read(libc::CLOCK_REALTIME).unwrap();
        let now_ns = clock::monotonic_ns();
        let told_ns = monotonic(real_ns, now_ns);
        assert!(now_ns - told_ns < 50_000_000);
        assert_eq!(monotonic(real_ns + 1_000_000_000, now_ns), 0);
    }
}
