//! The waiter at the head of the queue watches the holders, so that no watchdog thread is needed.
//!
//! It lends a holder's permit on when
//! - the holder's thread CPU clock stands still (it blocks where no probe sees it),
//! - it computes without the GIL (numpy, zlib: nothing to take turns for), as [`crate::gang::watch`] has seen,
//! - the holder has used the CPU of its share: from then on it competes with the next, as threads do.
//!
//! A holder that was lent because it stood still and computes again counts again, and so does one that needs the GIL
//! after all: it unpacked first, and reads now.

use super::holder::Lent;
use super::state::{Gate, GateState};
use crate::counters::{add, Counters};
use greenlane_process::clock;
use pyo3::Python;
use std::sync::atomic::Ordering;
use std::sync::MutexGuard;

/// A phase that was let in beside a holder counts as long after this many times the least that is heavy. Arbitrary.
const LONG: u64 = 2;
/// How often the head of the queue looks at the holder.
const WATCH_NS: u64 = 2_000_000;
/// How often those behind the head check on themselves; being granted or becoming the head wakes them anyway.
const BEHIND_NS: u64 = 100_000_000;

/// What a look at the holders has found; of several the greatest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Finding {
    Nothing,
    /// This one may wait for the GIL, behind a thread that waits for a core.
    WantsGil(u64),
    /// The permit of this one can be lent on.
    CanLend(u64, Lent),
    /// This one was let in beside another and is no short one.
    IsLong(u64),
}

impl Gate {
    /// Looks after the holders if `ticket` is the head of the queue. Returns for how long to sleep, ns.
    pub(super) fn watch(&self, ticket: u64, now_ns: u64, counters: &Counters) -> u64 {
        let mut state = self.locked_at(now_ns);
        if state.queue.head() != Some(ticket) {
            return BEHIND_NS;
        }
        state.queue.put_late_last(now_ns);
        if state.queue.head() != Some(ticket) {
            self.settle(state, Vec::new(), now_ns);
            return BEHIND_NS;
        }
        self.charge(&mut state, now_ns, counters);
        let due = state.queue.due();
        if !due.is_empty() {
            self.settle(state, due, now_ns);
            return 0;
        }
        match self.look_at_holders(&mut state, now_ns) {
            Finding::IsLong(held) => {
                let granted = state.queue.outlasts(held);
                self.settle(state, granted, now_ns);
                0
            }
            Finding::CanLend(held, lent) => {
                self.lend(state, held, lent, now_ns, counters);
                0
            }
            Finding::WantsGil(held) => {
                drop(state);
                self.offer_the_gil(held);
                WATCH_NS
            }
            Finding::Nothing => WATCH_NS,
        }
    }

    fn look_at_holders(&self, state: &mut GateState, now_ns: u64) -> Finding {
        let still_ns = self.still_ns.load(Ordering::Relaxed);
        let kept_ns = state.kept.each_ns();
        let GateState { queue, holders, .. } = state;
        let mut found = Finding::Nothing;
        for (&held, holder) in holders {
            if holder.lent != Lent::No {
                // If it needs the GIL after all, it has it in turn with several others.
                let released = holder.lent == Lent::Released;
                if released && holder.needs_the_gil(kept_ns) || holder.is_back(kept_ns) {
                    queue.call_back(held);
                    self.held.store(true, Ordering::Relaxed);
                }
                continue;
            }
            let finding = if holder.is_short && holder.has_used(LONG * self.bounds.least_ns) {
                holder.is_short = false;
                Finding::IsLong(held)
            } else if holder.has_used(queue.share_of(held, self.bounds.share_ns)) {
                Finding::CanLend(held, Lent::Shared)
            } else if !holder.stands_still(now_ns, still_ns) {
                match holder.view.computes_without_gil() {
                    true => Finding::CanLend(held, Lent::Released),
                    false => Finding::Nothing,
                }
            } else if self.has_gil() && !holder.was_offered_the_gil {
                Finding::WantsGil(held)
            } else {
                Finding::CanLend(held, holder.still())
            };
            found = found.max(finding);
        }
        found
    }

    /// Takes the GIL and gives it back: a holder that waits for it, while who has it waits for a core, then has it or is
    /// runnable at the next look.
    fn offer_the_gil(&self, held: u64) {
        Python::try_attach(|_| ());
        let now_ns = clock::monotonic_ns();
        if let Some(holder) = self.locked_at(now_ns).holders.get_mut(&held) {
            holder.offered_the_gil(now_ns);
        }
    }

    fn lend(
        &self,
        mut state: MutexGuard<'_, GateState>,
        held: u64,
        lent: Lent,
        now_ns: u64,
        counters: &Counters,
    ) {
        let kept_ns = state.kept.each_ns();
        if let Some(holder) = state.holders.get_mut(&held) {
            holder.lend(lent, kept_ns);
            let counter = match lent {
                Lent::Shared => &counters.lent_overrun,
                Lent::Released => &counters.lent_released,
                _ => &counters.lent_still,
            };
            add(counter, 1);
        }
        let granted = match lent {
            Lent::Shared => state.queue.share(held),
            _ => state.queue.lend(held),
        };
        self.settle(state, granted, now_ns);
    }
}
