//! The gate where permits are asked for, waited for and given back: the shell around core's permit queue.
//!
//! Waiting is native and without the GIL.
//!
//! | module | is |
//! |---|---|
//! | [`state`] | what a gate knows, and who is woken when that changes |
//! | [`watch`] | the waiter at the head looks after the holders |
//! | [`holder`] | a phase that holds a permit, as they see it |
//! | [`free`] | phases without a permit, which are charged when they turn out heavy |
//! | [`forked`] | a gate that survives forks |
//!
//! Lock order: the gate's mutex is a leaf. Nobody takes the GIL, another lock, or a system call that blocks under it.

pub mod forked;
mod free;
mod holder;
mod state;
mod watch;

use crate::counters::Counters;
use crate::routes::Route;
use greenlane_process::clock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;
use std::time::Duration;

use state::{Waiter, GRANTED, LET_GO, STILL_NS, WAITING};

pub use holder::{Asker, PermitUsage};
pub use state::{Bounds, Gate};

/// Longest wait of the main thread: Python's signal handlers run there, and not before the wait ends.
const MAIN_THREAD_NS: u64 = 250_000_000;

/// The answer to a request for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The ticket holds a permit.
    Granted(u64),
    /// All are taken; the ticket waits. Call [`Gate::wait`].
    Queued(u64),
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    Granted,
    TimedOut,
    LetGo,
}

impl Gate {
    /// Whether anybody holds a permit that counts.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether there is a GIL to look at.
    pub fn has_gil(&self) -> bool {
        self.gil.load(Ordering::Relaxed)
    }

    /// An import has switched the GIL on.
    pub fn gil_is_back(&self, permits: usize) {
        self.permits.store(permits, Ordering::Relaxed);
        self.gil.store(true, Ordering::Relaxed);
        self.lock().queue.set_permits(permits);
    }

    /// Who waits for the GIL wakes that often: a holder whose clock stands for one interval may be one of them.
    pub fn turns_take(&self, interval_s: f64) {
        let two_ns = (interval_s * 2e9) as u64;
        self.still_ns.store(two_ns.max(STILL_NS), Ordering::Relaxed);
    }

    /// (phases that hold a permit and count, phases that wait).
    pub fn pressure(&self) -> (usize, usize) {
        let state = self.lock();
        (state.queue.holders(), state.queue.waiting())
    }

    /// Asks for a permit; never blocks. With `wait` false a refusal leaves nothing behind (observe mode).
    pub fn ask(&self, asker: Asker, wait: bool, counters: &Counters) -> Option<Answer> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked_at(now_ns);
        self.charge(&mut state, now_ns, counters);
        if state.queue.request(now_ns, ticket, asker.claim) {
            state.hold(ticket, &asker, now_ns);
            self.held.store(true, Ordering::Relaxed);
            return Some(Answer::Granted(ticket));
        }
        if !wait {
            // Another one may be: somebody was charged meanwhile.
            let granted = state.queue.cancel([ticket]);
            self.settle(state, granted, now_ns);
            return None;
        }
        let waiter = Waiter {
            asker,
            thread: std::thread::current(),
            state: AtomicU8::new(WAITING),
        };
        state.waiters.insert(ticket, Arc::new(waiter));
        Some(Answer::Queued(ticket))
    }

    /// Waits until `ticket` is granted, the bound is over, or everybody is let go. Call it without the GIL.
    pub fn wait(&self, ticket: u64, counters: &Counters) -> TurnEnd {
        let mut bound_ns = self.bounds.wait_ns;
        let (waiter, until_ns) = {
            let state = self.lock();
            match state.waiters.get(&ticket) {
                Some(waiter) => {
                    if is_main_thread() {
                        bound_ns = bound_ns.min(MAIN_THREAD_NS);
                    }
                    (Arc::clone(waiter), clock::monotonic_ns() + bound_ns)
                }
                // Granted or let go between asking and waiting.
                None if state.holders.contains_key(&ticket) => return TurnEnd::Granted,
                None => return TurnEnd::LetGo,
            }
        };
        loop {
            match waiter.state.load(Ordering::Acquire) {
                GRANTED => return TurnEnd::Granted,
                LET_GO => return TurnEnd::LetGo,
                _ => {}
            }
            let now_ns = clock::monotonic_ns();
            if now_ns >= until_ns {
                if self.give_up(ticket, now_ns) {
                    return TurnEnd::TimedOut;
                }
                continue;
            }
            let pause_ns = self.watch(ticket, now_ns, counters).min(until_ns - now_ns);
            if pause_ns > 0 && waiter.state.load(Ordering::Acquire) == WAITING {
                std::thread::park_timeout(Duration::from_nanos(pause_ns));
            }
        }
    }

    /// Gives a permit back. Returns the result of the hold (None: it was never this gate's, the process has forked
    /// since) and whether nobody holds one now.
    pub fn give_back(&self, ticket: u64) -> (Option<PermitUsage>, bool) {
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked_at(now_ns);
        let held = state.end(ticket, now_ns);
        if held.is_none() {
            return (None, state.queue.holders() == 0);
        }
        let granted = state.queue.release(ticket);
        let idle = self.settle(state, granted, now_ns);
        (held, idle)
    }

    /// Lets everybody who waits go on without a permit.
    pub fn release_waiters(&self) {
        self.let_go(|_| true);
    }

    /// Lets those of one route go on without a permit.
    pub fn release_waiters_of(&self, route: &Arc<Route>) {
        self.let_go(|waiter| Arc::ptr_eq(&waiter.asker.route, route));
    }

    fn let_go(&self, goes: impl Fn(&Waiter) -> bool) {
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked_at(now_ns);
        let mut gone = HashMap::new();
        for (&ticket, waiter) in state.waiters.iter().filter(|(_, waiter)| goes(waiter)) {
            gone.insert(ticket, Arc::clone(waiter));
        }
        state.waiters.retain(|ticket, _| !gone.contains_key(ticket));
        let granted = state.queue.cancel(gone.keys().copied());
        for waiter in gone.values() {
            waiter.state.store(LET_GO, Ordering::Release);
        }
        self.settle(state, granted, now_ns);
        gone.values().for_each(|waiter| waiter.thread.unpark());
    }

    /// An empty gate of the same rules for a forked child: other threads' tickets are not its own, and the mutex may
    /// have been copied locked. Tickets go on counting, so that one from before the fork never means another's permit.
    pub fn empty_copy(&self) -> Self {
        let permits = self.permits.load(Ordering::Relaxed);
        let renewed = Self::new(permits, self.bounds.clone(), self.has_gil());
        renewed
            .tickets
            .store(self.tickets.load(Ordering::Relaxed), Ordering::Relaxed);
        renewed
    }

    /// Ends the wait of `ticket`; false when it was granted or let go meanwhile.
    fn give_up(&self, ticket: u64, now_ns: u64) -> bool {
        let mut state = self.locked_at(now_ns);
        if !state.queue.is_waiting(ticket) {
            return false;
        }
        state.waiters.remove(&ticket);
        let granted = state.queue.cancel([ticket]);
        self.settle(state, granted, now_ns);
        true
    }
}

fn is_main_thread() -> bool {
    // SAFETY: both calls only return numbers. On Linux the main thread's id is the process's.
    unsafe { libc::gettid() == libc::getpid() }
}
