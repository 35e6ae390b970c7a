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
use super::state::{Gate, State};
use crate::counters::{add, Counters};
use greenlane_process::clock;
use pyo3::Python;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::MutexGuard;

/// A phase that was let in beside a holder counts as long after this many times the least that is heavy. Arbitrary.
const LONG: u64 = 2;
/// How often the head of the queue looks at the holder.
const WATCH_NS: u64 = 2_000_000;
/// How often those behind the head check on themselves; being granted or becoming the head wakes them anyway.
const BEHIND_NS: u64 = 100_000_000;

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
        let still_ns = self.still_ns.load(Ordering::Relaxed);
        let mut to_offer = None;
        let mut to_lend = None;
        let mut outlasts = None;
        let due = state.queue.due();
        if !due.is_empty() {
            self.settle(state, due, now_ns);
            return 0;
        }
        let kept_ns = state.kept.each_ns();
        let State { queue, holders, .. } = &mut *state;
        for (&held, holder) in holders {
            if holder.lent != Lent::No {
                // If it needs the GIL after all, it has it in turn with several others.
                let released = holder.lent == Lent::Released;
                if released && holder.needs_the_gil(kept_ns) || holder.is_back(kept_ns) {
                    queue.call_back(held);
                    self.held.store(true, Ordering::Relaxed);
                }
            } else if holder.is_short && holder.has_used(LONG * self.bounds.least_ns) {
                holder.is_short = false;
                outlasts = Some(held);
            } else if holder.has_used(queue.share_of(held, self.bounds.share_ns)) {
                to_lend = Some((held, Lent::Shared, &counters.lent_overrun));
            } else if holder.stands_still(now_ns, still_ns) {
                if self.has_gil() && !holder.was_offered_the_gil {
                    to_offer = Some(held);
                    continue;
                }
                to_lend = Some((held, holder.still(), &counters.lent_still));
            } else if holder.face.computes_without_gil() {
                to_lend = Some((held, Lent::Released, &counters.lent_released));
            }
        }
        if let Some(held) = outlasts {
            let granted = queue.outlasts(held);
            self.settle(state, granted, now_ns);
            return 0;
        }
        if let Some((held, lent, counter)) = to_lend {
            self.lend(state, held, lent, now_ns, counter);
            return 0;
        }
        drop(state);
        if let Some(held) = to_offer {
            self.offer_the_gil(held);
        }
        WATCH_NS
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
        mut state: MutexGuard<'_, State>,
        held: u64,
        lent: Lent,
        now_ns: u64,
        counter: &AtomicU64,
    ) {
        let kept_ns = state.kept.each_ns();
        if let Some(holder) = state.holders.get_mut(&held) {
            holder.lend(lent, kept_ns);
            add(counter, 1);
        }
        let granted = match lent {
            Lent::Shared => state.queue.share(held),
            _ => state.queue.lend(held),
        };
        self.settle(state, granted, now_ns);
    }
}
