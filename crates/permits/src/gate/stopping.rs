//! Preemption: a holder that has used its allowance stands still at a bytecode boundary while somebody is before it.
//!
//! It then waits as any other, with a place of its own in the order, and goes on when it is granted again. A stop ends
//! before its turn when a job begins to wait for a lock, when a job blocks where no probe sees it (both may want what it
//! has), when it has lasted [`LONGEST_STOP_NS`], and with the mode "on".

use super::holder::{Asker, Held, Lent};
use super::state::{Gate, State, Waiter, WAITING};
use super::Ended;
use crate::face::ThreadFace;
use crate::lock_waits;
use greenlane_policy::queue::stopping::LONGEST_STOP_NS;
use greenlane_process::clock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use crate::counters::Counters;

/// A holder that has used this CPU since it should stand still is deaf: it is in C, or holds a lock. Short phases are then
/// let in beside it.
const DEAF_NS: u64 = 4_000_000;
/// CPU below which a clock stands still, ns: one wake-up costs more.
const STILL_CPU_NS: u64 = 1_000;

/// What a holder over its allowance asks for.
pub(super) enum Due {
    /// To stand still: this thread, the holder of this ticket.
    Stop(Arc<ThreadFace>, u64),
    /// That short phases are let in beside it: it cannot stand still.
    Deaf,
}

/// A phase that stands still.
pub struct Stopped {
    ticket: u64,
    waiter: Arc<Waiter>,
    /// The result of its hold until then.
    pub held: Held,
}

impl Gate {
    /// Holders stand still from now on once they have used this CPU and somebody is before them; 0 = never.
    pub fn preempt(&self, allowance_ns: u64) {
        self.allowance_ns.store(allowance_ns, Ordering::Relaxed);
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked_at(now_ns);
        let granted = state.queue.let_in_beside(allowance_ns == 0);
        self.settle(state, granted, now_ns);
        if allowance_ns == 0 {
            self.let_stopped_go();
        }
    }

    /// Whether `ticket` holds a permit.
    pub(super) fn is_holder(&self, ticket: u64) -> bool {
        self.locked().holders.contains_key(&ticket)
    }

    /// A holder has gone: the next one may be stopped.
    pub(super) fn hears_again(&self, state: &mut State) {
        if self.allowance_ns.load(Ordering::Relaxed) != 0 {
            state.queue.express_off();
        }
    }

    pub(super) fn to_stop(&self, state: &mut State, now_ns: u64) -> Option<Due> {
        let allowance_ns = self.allowance_ns.load(Ordering::Relaxed);
        if allowance_ns == 0 {
            return None;
        }
        let State { queue, holders, .. } = state;
        for (&ticket, holder) in holders {
            if holder.lent != Lent::No {
                continue;
            }
            let Some(claim) = holder.claim else {
                // It was charged, and has no place to which it could go back.
                if !queue.express_on() {
                    return Some(Due::Deaf);
                }
                continue;
            };
            let used_ns = holder.used_ns();
            if used_ns < allowance_ns || !queue.is_behind(claim.key_over(now_ns, ticket)) {
                continue;
            }
            if holder.asked_at_ns == 0 {
                holder.asked_at_ns = used_ns;
            } else if used_ns - holder.asked_at_ns >= DEAF_NS && !queue.express_on() {
                return Some(Due::Deaf);
            }
            let may = holder.face.state() != 0
                && holder.face.locks_held() <= 0
                && !lock_waits::any_lock_waited_for();
            if may && holder.face.asked_to_stop() != ticket {
                return Some(Due::Stop(Arc::clone(&holder.face), ticket));
            }
        }
        None
    }

    /// The calling thread's phase, which holds `ticket`, gives its permit on and is to stand still: [`Gate::stand`].
    /// None: nobody is before it, or it does not count. With `forced`, every waiter is before it.
    pub fn stop(&self, ticket: u64, mut asker: Asker, forced: bool) -> Option<Stopped> {
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked_at(now_ns);
        let holder = state.holders.get(&ticket)?;
        asker.claim = holder.claim.filter(|_| holder.lent == Lent::No)?;
        let mut key = asker.claim.key_over(now_ns, ticket);
        if forced {
            key = (true, i64::MAX, now_ns, ticket);
        }
        if !state.queue.is_behind(key) {
            return None;
        }
        let waiter = Arc::new(Waiter {
            asker,
            thread: std::thread::current(),
            state: AtomicU8::new(WAITING),
            stopped: true,
        });
        let held = state.end(ticket, now_ns)?;
        self.hears_again(&mut state);
        state.waiters.insert(ticket, Arc::clone(&waiter));
        self.stopped.fetch_add(1, Ordering::Relaxed);
        let granted = state.queue.stop(ticket, key);
        self.settle(state, granted, now_ns);
        Some(Stopped {
            ticket,
            waiter,
            held,
        })
    }

    /// Stands still until its turn, or until it is let go. Call it without the GIL.
    pub fn stand(&self, stopped: &Stopped, counters: &Counters) -> Ended {
        let ended = self.wait_at_most(stopped.ticket, LONGEST_STOP_NS, counters);
        self.stopped.fetch_sub(1, Ordering::Relaxed);
        ended
    }

    /// A phase that was let go holds a permit again, beyond them if need be.
    pub fn go_on(&self, stopped: &Stopped) {
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked_at(now_ns);
        let asker = &stopped.waiter.asker;
        state.queue.charge(stopped.ticket, asker.claim);
        state.hold(stopped.ticket, asker, now_ns);
        self.held.store(true, Ordering::Relaxed);
    }

    /// Lets everybody who stands still go on.
    pub fn let_stopped_go(&self) {
        if self.stopped.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.let_go(|waiter| waiter.stopped);
    }

    /// Whether a phase without a permit has stood still for so long without having said that it blocks: it may wait for
    /// a lock of a C library, which one who stands still may have.
    pub(super) fn finds_an_unseen_wait(
        &self,
        state: &mut State,
        now_ns: u64,
        still_ns: u64,
    ) -> bool {
        if self.stopped.load(Ordering::Relaxed) == 0 {
            return false;
        }
        for seen in &mut state.threads {
            let Some(face) = seen.face.upgrade() else {
                continue;
            };
            let began_ns = face.runs_free_since();
            if began_ns == 0 || now_ns.saturating_sub(began_ns) < still_ns {
                continue;
            }
            let Some(cpu_ns) = clock::read(face.cpu_clock()) else {
                continue;
            };
            let (when_ns, value_ns) = seen.moved;
            if when_ns < began_ns || cpu_ns.saturating_sub(value_ns) >= STILL_CPU_NS {
                seen.moved = (now_ns, cpu_ns);
            } else if now_ns - when_ns >= still_ns && !face.is_runnable() {
                return true;
            }
        }
        false
    }
}
