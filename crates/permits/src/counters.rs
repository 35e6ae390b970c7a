//! Counters of one process, and of each of its routes. Relaxed: each is right by itself; a reader may see one event's
//! counters half updated.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($all:ident: $($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// See the module; the docs of the fields are the meanings of the metrics.
        #[derive(Default)]
        pub struct $all {
            $($(#[doc = $doc])+ pub $name: AtomicU64,)+
        }

        impl $all {
            /// (name, value) of each.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed)),)+]
            }

            /// Starts over, in a forked child.
            pub fn reset(&self) {
                $(self.$name.store(0, Ordering::Relaxed);)+
            }
        }
    };
}

counters! { Counters:
    /// Jobs opened.
    jobs,
    /// Jobs that ended after their deadline.
    jobs_late,
    /// CPU spent by jobs after their deadline, ns.
    late_cpu_ns,
    /// Phases ended.
    phases,
    /// Permits taken without waiting.
    granted,
    /// Phases that waited for a permit, whatever came of it.
    waited,
    /// Waits that ended with a permit.
    waited_granted,
    /// Holders whose thread stood still: blocked where no probe sees it.
    lent_still,
    /// Holders found computing without the GIL.
    lent_released,
    /// Holders that used the CPU of their share: they compute beside the next one.
    lent_overrun,
    /// Phases that were believed light and have used the CPU of a heavy one: they count as holders.
    charged,
    /// Waits given up because they had lasted long enough.
    skipped_timeout,
    /// Heavy phases that ran free because their thread held a lock.
    skipped_lock,
    /// Phases that ran free because too little was known of them.
    skipped_unknown,
    /// Waits ended by switching Greenlane off.
    skipped_switched,
    /// In observe mode: heavy phases that would have waited.
    would_wait,
    /// Permits given back. Equal to `granted` + `waited_granted` when nobody holds one.
    released,
    /// Time spent waiting for permits, ns.
    wait_ns,
    /// Time permits were held, ns.
    hold_ns,
    /// Changes of the interpreter's switch interval.
    interval_changes,
    /// Routes beyond the cap, filed under "(other)".
    routes_refused,
}

counters! { Turns:
    /// Permits that phases of the route took.
    turns,
    /// Its phases that waited for one, whatever came of it.
    waited,
    /// Turns beside another holder, which takes at least twice as long.
    express,
    /// Turns that used the CPU of their share: from then on they computed beside others.
    shared,
    /// Phases that were believed light and have used the CPU of a heavy one.
    charged,
    /// Heavy phases that ran without a permit: a lock, the longest wait, the mode.
    skipped,
    /// What the route pays: time that its phases waited for permits, ns.
    waited_ns,
    /// What it gains: time that others waited while it had the permit, ns. Where several hold one, each has its part, so
    /// that the sum over all routes is what all have waited.
    others_waited_ns,
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
