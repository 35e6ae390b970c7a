//! The gate where permits are asked for, waited for and given back: the shell around core's permit queue.
//!
//! Waiting is native and without the GIL: the waiter at the head of the queue also *watches* the holder, so that no
//! watchdog thread is needed. It lends the holder's permit on when
//! - the holder's thread CPU clock stands still (it blocks where no probe sees it),
//! - the GIL is found free while the holder computes (numpy, zlib: nothing to take turns for),
//! - the hold has lasted far beyond its expected burst (a spin wait, or a mislearned phase).
//!
//! Lock order: the gate's mutex is a leaf. Nobody takes the GIL, another lock, or a system call that blocks under it.

use crate::counters::{add, Counters};
use crate::face::ThreadFace;
use crate::routes::Route;
use greenlane_policy::bounds::Bounds;
use greenlane_policy::order::{Claim, Discipline};
use greenlane_policy::queue::PermitQueue;
use greenlane_process::clock;
use pyo3::Python;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often the head of the queue looks at the holder.
const WATCH_NS: u64 = 2_000_000;
/// How long a holder's CPU clock must stand at least before it counts as blocked. A thread that waits for the GIL wakes
/// every switch interval, which its clock shows (see [`Gate::turns_take`]); one that the kernel has put aside for this
/// long is lent by mistake, harmlessly.
const STILL_NS: u64 = 6_000_000;
/// CPU below which a clock stands still, ns: one wake-up costs more.
const STILL_CPU_NS: u64 = 1_000;
/// How long a holder runs before the GIL is first looked at: it must have had time to take it.
const FIRST_LOOK_NS: u64 = 1_000_000;
/// Time between two looks that agree that the GIL is free, and after one that found it held.
const SECOND_LOOK_NS: u64 = 300_000;
const NEXT_LOOK_NS: u64 = 8_000_000;
/// Taking the GIL within this time means that it was free: from a computing thread it takes a switch interval.
const FREE_NS: u64 = 60_000;
/// How often those behind the head check on themselves; being granted or becoming the head wakes them anyway.
const BEHIND_NS: u64 = 100_000_000;

/// Longest wait of the main thread: Python's signal handlers run there, and not before the wait ends.
const MAIN_THREAD_NS: u64 = 250_000_000;

const WAITING: u8 = 0;
const GRANTED: u8 = 1;
const LET_GO: u8 = 2;

/// One who asks for a permit.
pub struct Asker {
    pub claim: Claim,
    pub face: Arc<ThreadFace>,
    pub route: Arc<Route>,
    pub phase: usize,
    /// Whether waiters should look at the GIL while it holds a permit.
    pub worth_a_look: bool,
}

struct Waiter {
    asker: Asker,
    thread: std::thread::Thread,
    state: AtomicU8,
}

struct Holder {
    face: Arc<ThreadFace>,
    route: Arc<Route>,
    phase: usize,
    since_ns: u64,
    expected_ns: u64,
    lent: bool,
    /// (when, value) of the CPU clock when it last moved.
    cpu_moved: Option<(u64, u64)>,
    look_at_ns: u64,
    /// (when, CPU clock) at the last look, and whether the GIL was free then.
    looked: (u64, u64),
    found_free: bool,
}

struct State {
    queue: PermitQueue,
    waiters: HashMap<u64, Arc<Waiter>>,
    holders: HashMap<u64, Holder>,
}

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The ticket holds a permit.
    Granted(u64),
    /// All are taken; the ticket waits. Call [`Gate::wait`].
    Queued(u64),
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Granted,
    TimedOut,
    LetGo,
}

/// See the module.
pub struct Gate {
    state: Mutex<State>,
    permits: usize,
    discipline: Discipline,
    ageing_ns: u64,
    bounds: Bounds,
    /// False on free-threaded builds: there is no GIL to look at.
    gil: bool,
    tickets: AtomicU64,
    /// Whether anybody holds a permit that counts; a hint for callers without the mutex.
    held: AtomicBool,
    /// How long a holder's CPU clock must stand.
    still_ns: AtomicU64,
}

impl Gate {
    pub fn new(
        permits: usize,
        discipline: Discipline,
        ageing_ns: u64,
        bounds: Bounds,
        gil: bool,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                queue: PermitQueue::new(permits, discipline, ageing_ns),
                waiters: HashMap::new(),
                holders: HashMap::new(),
            }),
            permits,
            discipline,
            ageing_ns,
            bounds,
            gil,
            tickets: AtomicU64::new(1),
            held: AtomicBool::new(false),
            still_ns: AtomicU64::new(STILL_NS),
        }
    }

    /// Whether anybody holds a permit that counts.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Who waits for the GIL wakes that often: a holder whose clock stands for one interval may be one of them.
    pub fn turns_take(&self, interval_s: f64) {
        let two_ns = (interval_s * 2e9) as u64;
        self.still_ns.store(two_ns.max(STILL_NS), Ordering::Relaxed);
    }

    /// (phases that hold a permit and count, phases that wait).
    pub fn pressure(&self) -> (usize, usize) {
        let state = self.locked();
        (state.queue.holders(), state.queue.waiting())
    }

    /// Asks for a permit; never blocks. With `wait` false a refusal leaves nothing behind (observe mode).
    pub fn ask(&self, asker: Asker, wait: bool) -> Option<Answer> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked();
        if state.queue.request(now_ns, ticket, asker.claim) {
            state.holders.insert(ticket, Holder::new(&asker, now_ns));
            self.held.store(true, Ordering::Relaxed);
            return Some(Answer::Granted(ticket));
        }
        if !wait {
            state.queue.cancel(now_ns, ticket);
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
    pub fn wait(&self, ticket: u64, counters: &Counters) -> Ended {
        let (waiter, until_ns) = {
            let state = self.locked();
            match state.waiters.get(&ticket) {
                Some(waiter) => {
                    let mut bound_ns = self.bounds.wait_ns(state.queue.expected_ns());
                    if is_main_thread() {
                        bound_ns = bound_ns.min(MAIN_THREAD_NS);
                    }
                    (Arc::clone(waiter), clock::monotonic_ns() + bound_ns)
                }
                // Granted or let go between asking and waiting.
                None if state.holders.contains_key(&ticket) => return Ended::Granted,
                None => return Ended::LetGo,
            }
        };
        loop {
            match waiter.state.load(Ordering::Acquire) {
                GRANTED => return Ended::Granted,
                LET_GO => return Ended::LetGo,
                _ => {}
            }
            let now_ns = clock::monotonic_ns();
            if now_ns >= until_ns {
                if self.give_up(ticket, now_ns) {
                    return Ended::TimedOut;
                }
                continue;
            }
            let pause_ns = self.watch(ticket, now_ns, counters).min(until_ns - now_ns);
            if pause_ns > 0 && waiter.state.load(Ordering::Acquire) == WAITING {
                std::thread::park_timeout(Duration::from_nanos(pause_ns));
            }
        }
    }

    /// Gives a permit back. Returns how long it was held in ns (None: it was never this gate's, the process has forked
    /// since) and whether nobody holds one now.
    pub fn give_back(&self, ticket: u64) -> (Option<u64>, bool) {
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked();
        let Some(holder) = state.holders.remove(&ticket) else {
            return (None, state.queue.holders() == 0);
        };
        let granted = state.queue.release(now_ns, ticket);
        let idle = self.settle(state, granted, now_ns);
        (Some(now_ns.saturating_sub(holder.since_ns)), idle)
    }

    /// Lets everybody who waits go on without a permit.
    pub fn let_everybody_go(&self) {
        let mut state = self.locked();
        let everybody = state.queue.release_waiters();
        let waiters: Vec<_> = everybody
            .iter()
            .filter_map(|ticket| state.waiters.remove(ticket))
            .collect();
        for waiter in &waiters {
            waiter.state.store(LET_GO, Ordering::Release);
        }
        drop(state);
        waiters.iter().for_each(|waiter| waiter.thread.unpark());
    }

    /// Lets those of one route go on without a permit.
    pub fn let_route_go(&self, route: &Arc<Route>) {
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked();
        let of_route = |(_, waiter): &(&u64, &Arc<Waiter>)| Arc::ptr_eq(&waiter.asker.route, route);
        let tickets: Vec<u64> = state
            .waiters
            .iter()
            .filter(of_route)
            .map(|(&ticket, _)| ticket)
            .collect();
        let mut gone = Vec::new();
        for ticket in tickets {
            state.queue.cancel(now_ns, ticket); // Frees no permit, so it grants nothing.
            gone.extend(state.waiters.remove(&ticket));
        }
        for waiter in &gone {
            waiter.state.store(LET_GO, Ordering::Release);
        }
        self.settle(state, Vec::new(), now_ns); // Wakes the new head.
        gone.iter().for_each(|waiter| waiter.thread.unpark());
    }

    /// An empty gate of the same rules for a forked child: other threads' tickets are not its own, and the mutex may
    /// have been copied locked. Tickets go on counting, so that one from before the fork never means another's permit.
    pub fn renewed(&self) -> Self {
        let renewed = Self::new(
            self.permits,
            self.discipline,
            self.ageing_ns,
            self.bounds,
            self.gil,
        );
        renewed
            .tickets
            .store(self.tickets.load(Ordering::Relaxed), Ordering::Relaxed);
        renewed
    }

    /// Ends the wait of `ticket`; false when it was granted or let go meanwhile.
    fn give_up(&self, ticket: u64, now_ns: u64) -> bool {
        let mut state = self.locked();
        if !state.queue.is_waiting(ticket) {
            return false;
        }
        state.waiters.remove(&ticket);
        let granted = state.queue.cancel(now_ns, ticket);
        self.settle(state, granted, now_ns);
        true
    }

    /// Looks after the holders if `ticket` is the head of the queue. Returns for how long to sleep, ns.
    fn watch(&self, ticket: u64, now_ns: u64, counters: &Counters) -> u64 {
        let mut state = self.locked();
        if state.queue.head(now_ns) != Some(ticket) {
            return BEHIND_NS;
        }
        let still_ns = self.still_ns.load(Ordering::Relaxed);
        let mut look_at = None;
        let mut to_lend = None;
        let mut pause_ns = WATCH_NS;
        for (&held, holder) in state.holders.iter_mut().filter(|(_, holder)| !holder.lent) {
            if now_ns.saturating_sub(holder.since_ns) >= self.bounds.hold_ns(holder.expected_ns) {
                to_lend = Some((held, &counters.lent_overrun));
            } else if holder.stands_still(now_ns, still_ns) {
                to_lend = Some((held, &counters.lent_still));
            } else if self.gil && now_ns >= holder.look_at_ns {
                look_at = Some((
                    held,
                    Arc::clone(&holder.route),
                    holder.phase,
                    holder.is_busy(now_ns),
                ));
            } else {
                pause_ns = pause_ns.min(holder.look_at_ns.saturating_sub(now_ns).max(100_000));
            }
        }
        if let Some((held, counter)) = to_lend {
            self.lend(state, held, now_ns, counter);
            return 0;
        }
        drop(state);
        match look_at {
            Some((held, route, phase, busy)) => self.look(held, busy, &route, phase, counters),
            None => pause_ns,
        }
    }

    /// Takes the GIL for a moment to learn whether it was free; lends after two free looks in a row between which the
    /// holder was `busy`. A holder that is not teaches nothing: it sleeps, or waits for the GIL itself.
    fn look(&self, held: u64, busy: bool, route: &Route, phase: usize, counters: &Counters) -> u64 {
        add(&counters.looks, 1);
        let before_ns = clock::monotonic_ns();
        let Some((free, again)) = Python::try_attach(|_| {
            let free = clock::monotonic_ns() - before_ns < FREE_NS;
            let again = route.with(phase, |profile| {
                if busy {
                    profile.looked(free);
                }
                profile.worth_a_look()
            });
            (free, again)
        }) else {
            return BEHIND_NS; // The interpreter is ending.
        };
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked();
        let Some(holder) = state.holders.get_mut(&held).filter(|holder| !holder.lent) else {
            return 0;
        };
        if free && busy && holder.found_free {
            self.lend(state, held, now_ns, &counters.lent_released);
            return 0;
        }
        holder.found_free = free;
        let pause_ns = match (free, busy) {
            (true, true) => SECOND_LOOK_NS,
            (_, false) => WATCH_NS,
            (false, true) => NEXT_LOOK_NS,
        };
        let last = busy && !free && !again;
        holder.look_at_ns = if last { u64::MAX } else { now_ns + pause_ns };
        pause_ns.min(WATCH_NS)
    }

    fn lend(&self, mut state: MutexGuard<'_, State>, held: u64, now_ns: u64, counter: &AtomicU64) {
        if let Some(holder) = state.holders.get_mut(&held) {
            holder.lent = true;
            add(counter, 1);
        }
        let granted = state.queue.lend(now_ns, held);
        self.settle(state, granted, now_ns);
    }

    /// Turns granted tickets into holders and wakes them and the new head. Returns whether nobody holds a permit now.
    fn settle(&self, mut state: MutexGuard<'_, State>, granted: Vec<u64>, now_ns: u64) -> bool {
        let mut to_wake = Vec::new();
        for ticket in granted {
            if let Some(waiter) = state.waiters.remove(&ticket) {
                state
                    .holders
                    .insert(ticket, Holder::new(&waiter.asker, now_ns));
                waiter.state.store(GRANTED, Ordering::Release);
                to_wake.push(waiter);
            }
        }
        let head = state.queue.head(now_ns);
        to_wake.extend(head.and_then(|ticket| state.waiters.get(&ticket).cloned()));
        let idle = state.queue.holders() == 0;
        self.held.store(!idle, Ordering::Relaxed);
        drop(state);
        to_wake.iter().for_each(|waiter| waiter.thread.unpark());
        idle
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_main_thread() -> bool {
    // SAFETY: both calls only return numbers. On Linux the main thread's id is the process's.
    unsafe { libc::gettid() == libc::getpid() }
}

impl Holder {
    fn new(asker: &Asker, now_ns: u64) -> Self {
        Self {
            face: Arc::clone(&asker.face),
            route: Arc::clone(&asker.route),
            phase: asker.phase,
            since_ns: now_ns,
            expected_ns: asker.claim.expected_ns,
            lent: false,
            cpu_moved: None,
            look_at_ns: if asker.worth_a_look {
                now_ns + FIRST_LOOK_NS
            } else {
                u64::MAX
            },
            looked: (now_ns, clock::read(asker.face.cpu_clock()).unwrap_or(0)),
            found_free: false,
        }
    }

    /// Whether its thread has used half of the time since the last look as CPU; starts the next such stretch.
    fn is_busy(&mut self, now_ns: u64) -> bool {
        let (when_ns, seen_ns) = self.looked;
        let cpu_ns = clock::read(self.face.cpu_clock()).unwrap_or(seen_ns);
        self.looked = (now_ns, cpu_ns);
        cpu_ns.saturating_sub(seen_ns) * 2 >= now_ns.saturating_sub(when_ns)
    }

    /// Whether its thread has used no CPU for `still_ns`; remembers when it last did.
    fn stands_still(&mut self, now_ns: u64, still_ns: u64) -> bool {
        let Some(cpu_ns) = clock::read(self.face.cpu_clock()) else {
            return true; // Its thread has ended.
        };
        match self.cpu_moved {
            Some((when_ns, seen_ns)) if cpu_ns.saturating_sub(seen_ns) < STILL_CPU_NS => {
                now_ns.saturating_sub(when_ns) >= still_ns
            }
            _ => {
                self.cpu_moved = Some((now_ns, cpu_ns));
                false
            }
        }
    }
}
