//! The waiter at the head of the queue watches the holders, so that no watchdog thread is needed.
//!
//! It lends a holder's permit on when
//! - the holder's thread CPU clock stands still (it blocks where no probe sees it),
//! - it computes while another thread has the GIL (numpy, zlib: nothing to take turns for),
//! - the holder has used the CPU of its share: from then on it competes with the next, as threads do.
//!
//! A holder that was lent because it stood still and computes again counts again, and so does one that needs the GIL
//! after all: it unpacked first, and reads now.

use super::holder::Lent;
use super::state::{Gate, State};
use crate::counters::{add, Counters};
use crate::face::ThreadFace;
use crate::routes::Route;
use greenlane_process::clock;
use pyo3::Python;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

/// A phase that was let in beside a holder counts as long after this many times the least that is heavy. Arbitrary.
const LONG: u64 = 2;
/// How often the head of the queue looks at the holder.
const WATCH_NS: u64 = 2_000_000;
/// Looks in a row that must find the holder computing without the GIL. On a machine with twice as many spinning
/// processes as cores a look is wrong about one time in thirty: a preemption at a bad moment.
const AGREEING: u32 = 4;
/// Time between two looks that agree that the GIL is free, and after one that found it held.
const SECOND_LOOK_NS: u64 = 300_000;
const NEXT_LOOK_NS: u64 = 8_000_000;
/// Between two looks at one that computes without the GIL: a look takes the GIL from the others for 0.14 ms.
const RELEASED_LOOK_NS: u64 = 16_000_000;
/// For how long the GIL is kept from the holder, who computes on if it needs none: one who does not is known after the
/// first or the second part.
const LOOKS_NS: [u64; 3] = [20_000, 40_000, 80_000];
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
        let mut look_at = None;
        let mut to_offer = None;
        let mut to_lend = None;
        let mut outlasts = None;
        let mut pause_ns = WATCH_NS;
        let due = state.queue.due();
        if !due.is_empty() {
            self.settle(state, due, now_ns);
            return 0;
        }
        let kept_ns = state.kept.each_ns();
        let State { queue, holders, .. } = &mut *state;
        for (&held, holder) in holders {
            if holder.lent == Lent::Released && self.has_gil() && now_ns >= holder.look_at_ns {
                // If it needs the GIL after all, it has it in turn with several others.
                let (face, learns) = (Arc::clone(&holder.face), holder.learns.clone());
                look_at = Some((held, face, learns, holder.is_busy(now_ns, 8)));
            } else if holder.lent != Lent::No {
                if holder.is_back(kept_ns) {
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
            } else if self.has_gil() && now_ns >= holder.look_at_ns {
                let (face, learns) = (Arc::clone(&holder.face), holder.learns.clone());
                look_at = Some((held, face, learns, holder.is_busy(now_ns, 2)));
            } else {
                pause_ns = pause_ns.min(holder.look_at_ns.saturating_sub(now_ns).max(100_000));
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
            return WATCH_NS;
        }
        match look_at {
            Some((held, face, learns, busy)) => self.look(held, &face, busy, learns, counters),
            None => pause_ns,
        }
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

    /// Takes the GIL for a moment to learn whether the holder computes without it; lends after [`AGREEING`] such looks in a row
    /// between which the holder was `busy`. A holder that is not teaches nothing: it sleeps, or waits for the GIL itself.
    fn look(
        &self,
        held: u64,
        face: &ThreadFace,
        busy: bool,
        learns: Option<(Arc<Route>, usize)>,
        counters: &Counters,
    ) -> u64 {
        add(&counters.looks, 1);
        let Some((free, again)) = Python::try_attach(|_| {
            let free = computes_meanwhile(face);
            let again = learns.is_some_and(|(route, phase)| {
                route.with(phase, |profile| {
                    if busy {
                        profile.looked(free);
                    }
                    profile.should_probe_gil()
                })
            });
            (free, again)
        }) else {
            return BEHIND_NS; // The interpreter is ending.
        };
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked_at(now_ns);
        let kept_ns = state.kept.each_ns();
        let State { queue, holders, .. } = &mut *state;
        let Some(holder) = holders.get_mut(&held) else {
            return 0;
        };
        if holder.lent == Lent::Released {
            holder.look_at_ns = now_ns + RELEASED_LOOK_NS;
            if busy && holder.needs_the_gil(free, kept_ns) {
                queue.call_back(held);
                let granted = queue.due();
                self.settle(state, granted, now_ns);
            }
            return WATCH_NS;
        }
        if holder.lent != Lent::No {
            return 0;
        }
        holder.found_free = if free { holder.found_free + 1 } else { 0 };
        if busy && holder.found_free >= AGREEING {
            holder.look_at_ns = now_ns + RELEASED_LOOK_NS;
            let counter = &counters.lent_released;
            self.lend(state, held, Lent::Released, now_ns, counter);
            return 0;
        }
        let pause_ns = match (free, busy) {
            (true, true) => SECOND_LOOK_NS,
            (_, false) => WATCH_NS,
            (false, true) => NEXT_LOOK_NS,
        };
        let last = busy && !free && !again;
        holder.look_at_ns = if last { u64::MAX } else { now_ns + pause_ns };
        pause_ns.min(WATCH_NS)
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

/// Whether that thread computes while this one has the GIL, however long it took to get it: other threads have it too.
/// Who has just given it on computes for a moment more, on its way to wait for it.
fn computes_meanwhile(face: &ThreadFace) -> bool {
    LOOKS_NS
        .iter()
        .all(|&least_ns| computes_for(face, least_ns).unwrap_or(false))
}

fn computes_for(face: &ThreadFace, least_ns: u64) -> Option<bool> {
    let before_ns = clock::read(face.cpu_clock())?;
    let from_ns = clock::monotonic_ns();
    let mut passed_ns = 0;
    while passed_ns < least_ns {
        std::hint::spin_loop();
        passed_ns = clock::monotonic_ns() - from_ns;
    }
    // By the time that has passed: this thread may have been put aside, and who waits for the GIL wakes now and then.
    let used_ns = clock::read(face.cpu_clock())?.saturating_sub(before_ns);
    Some(used_ns >= passed_ns / 2)
}
