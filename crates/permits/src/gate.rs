//! The gate where permits are asked for, waited for and given back: the shell around core's permit queue.
//!
//! Waiting is native and without the GIL: the waiter at the head of the queue also *watches* the holder, so that no
//! watchdog thread is needed. It lends the holder's permit on when
//! - the holder's thread CPU clock stands still (it blocks where no probe sees it),
//! - the GIL is found free while the holder computes (numpy, zlib: nothing to take turns for),
//! - the holder has used the CPU of its share: from then on it competes with the next, as threads do.
//!
//! A holder that was lent because it stood still and computes again counts again. A phase that runs without a permit and
//! has used the CPU of a heavy one is *charged*: it counts as a holder from then on.
//!
//! Lock order: the gate's mutex is a leaf. Nobody takes the GIL, another lock, or a system call that blocks under it.

use crate::counters::{add, Counters};
use crate::face::ThreadFace;
use crate::routes::Route;
use greenlane_policy::order::Claim;
use greenlane_policy::queue::PermitQueue;
use greenlane_process::clock;
use pyo3::Python;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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
/// Phases without a permit that are younger are not looked at: most end before.
const SEEN_NS: u64 = 1_000_000;
/// CPU that a holder uses after it stood still, ns, before it counts again: waking up and blocking again takes less.
const BACK_NS: u64 = 1_000_000;

/// Longest wait of the main thread: Python's signal handlers run there, and not before the wait ends.
const MAIN_THREAD_NS: u64 = 250_000_000;

static GATES: AtomicU64 = AtomicU64::new(1);

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

/// How long waits and holds last, and what is heavy; all in ns.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Longest wait.
    pub wait_ns: u64,
    /// Own CPU after which a holder no longer counts.
    pub share_ns: u64,
    /// Own CPU after which a phase without a permit counts.
    pub heavy_ns: u64,
}

/// Whether a holder counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lent {
    No,
    /// Since its thread stood still, with this CPU clock.
    Still(u64),
    ForGood,
}

struct Holder {
    face: Arc<ThreadFace>,
    /// Whose profile looks at the GIL belong to; None = it was charged.
    learns: Option<(Arc<Route>, usize)>,
    since_ns: u64,
    /// The CPU clock when it was granted.
    from_cpu_ns: u64,
    lent: Lent,
    /// (when, value) of the CPU clock when it last moved.
    cpu_moved: Option<(u64, u64)>,
    /// When its clock was last read for that.
    watched_ns: u64,
    look_at_ns: u64,
    /// (when, CPU clock) at the last look, and whether the GIL was free then.
    looked: (u64, u64),
    found_free: bool,
}

/// A thread that runs jobs, and its phase without a permit when it was last seen in one.
struct Seen {
    face: Weak<ThreadFace>,
    began_ns: u64,
    cpu_ns: u64,
}

struct State {
    queue: PermitQueue,
    threads: Vec<Seen>,
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
    bounds: Bounds,
    /// Differs from every other gate's.
    number: u64,
    /// False on free-threaded builds: there is no GIL to look at.
    gil: bool,
    tickets: AtomicU64,
    /// Whether anybody holds a permit that counts; a hint for callers without the mutex.
    held: AtomicBool,
    /// How long a holder's CPU clock must stand.
    still_ns: AtomicU64,
}

impl Gate {
    pub fn new(permits: usize, bounds: Bounds, gil: bool) -> Self {
        Self {
            state: Mutex::new(State {
                queue: PermitQueue::new(permits, true),
                threads: Vec::new(),
                waiters: HashMap::new(),
                holders: HashMap::new(),
            }),
            permits,
            bounds,
            number: GATES.fetch_add(1, Ordering::Relaxed),
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

    /// A thread will run jobs. Cheap when the gate knows it.
    pub fn meet(&self, face: &Arc<ThreadFace>) {
        if face.is_new_to(self.number) {
            let mut state = self.locked();
            state.threads.retain(|seen| seen.face.strong_count() > 0);
            state.threads.push(Seen {
                face: Arc::downgrade(face),
                began_ns: 0,
                cpu_ns: 0,
            });
        }
    }

    /// Asks for a permit; never blocks. With `wait` false a refusal leaves nothing behind (observe mode).
    pub fn ask(&self, asker: Asker, wait: bool, counters: &Counters) -> Option<Answer> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked();
        self.charge(&mut state, now_ns, counters);
        if state.queue.request(now_ns, ticket, asker.claim) {
            state.holders.insert(ticket, Holder::of(&asker, now_ns));
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
                    let mut bound_ns = self.bounds.wait_ns;
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
        let renewed = Self::new(self.permits, self.bounds, self.gil);
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
        if state.queue.head() != Some(ticket) {
            return BEHIND_NS;
        }
        self.charge(&mut state, now_ns, counters);
        let still_ns = self.still_ns.load(Ordering::Relaxed);
        let mut look_at = None;
        let mut to_lend = None;
        let mut pause_ns = WATCH_NS;
        let State { queue, holders, .. } = &mut *state;
        for (&held, holder) in holders {
            if holder.lent != Lent::No {
                if holder.is_back() {
                    queue.call_back(held);
                    self.held.store(true, Ordering::Relaxed);
                }
            } else if holder.has_used(self.bounds.share_ns) {
                to_lend = Some((held, Lent::ForGood, &counters.lent_overrun));
            } else if holder.stands_still(now_ns, still_ns) {
                to_lend = Some((held, holder.still(), &counters.lent_still));
            } else if self.gil && now_ns >= holder.look_at_ns {
                look_at = Some((held, holder.learns.clone(), holder.is_busy(now_ns)));
            } else {
                pause_ns = pause_ns.min(holder.look_at_ns.saturating_sub(now_ns).max(100_000));
            }
        }
        if let Some((held, lent, counter)) = to_lend {
            self.lend(state, held, lent, now_ns, counter);
            return 0;
        }
        drop(state);
        match look_at {
            Some((held, learns, busy)) => self.look(held, busy, learns, counters),
            None => pause_ns,
        }
    }

    /// Phases without a permit that have used the CPU of a heavy one since they were first seen count as holders.
    fn charge(&self, state: &mut State, now_ns: u64, counters: &Counters) {
        let State {
            queue,
            holders,
            threads,
            ..
        } = state;
        for seen in threads {
            let Some(face) = seen.face.upgrade() else {
                continue;
            };
            let began_ns = face.runs_free_since();
            if began_ns == 0 || now_ns.saturating_sub(began_ns) < SEEN_NS {
                continue;
            }
            let Some(cpu_ns) = clock::read(face.cpu_clock()) else {
                continue;
            };
            if began_ns != seen.began_ns {
                (seen.began_ns, seen.cpu_ns) = (began_ns, cpu_ns);
            } else if cpu_ns.saturating_sub(seen.cpu_ns) >= self.bounds.heavy_ns {
                let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
                if face.charge(began_ns, ticket) {
                    queue.charge(ticket, Claim::default());
                    holders.insert(ticket, Holder::new(face, None, now_ns));
                    self.held.store(true, Ordering::Relaxed);
                    add(&counters.charged, 1);
                }
            }
        }
    }

    /// Takes the GIL for a moment to learn whether it was free; lends after two free looks in a row between which the
    /// holder was `busy`. A holder that is not teaches nothing: it sleeps, or waits for the GIL itself.
    fn look(
        &self,
        held: u64,
        busy: bool,
        learns: Option<(Arc<Route>, usize)>,
        counters: &Counters,
    ) -> u64 {
        add(&counters.looks, 1);
        let before_ns = clock::monotonic_ns();
        let Some((free, again)) = Python::try_attach(|_| {
            let free = clock::monotonic_ns() - before_ns < FREE_NS;
            let again = learns.is_some_and(|(route, phase)| {
                route.with(phase, |profile| {
                    if busy {
                        profile.looked(free);
                    }
                    profile.worth_a_look()
                })
            });
            (free, again)
        }) else {
            return BEHIND_NS; // The interpreter is ending.
        };
        let now_ns = clock::monotonic_ns();
        let mut state = self.locked();
        let holder = state.holders.get_mut(&held);
        let Some(holder) = holder.filter(|holder| holder.lent == Lent::No) else {
            return 0;
        };
        if free && busy && holder.found_free {
            let counter = &counters.lent_released;
            self.lend(state, held, Lent::ForGood, now_ns, counter);
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

    fn lend(
        &self,
        mut state: MutexGuard<'_, State>,
        held: u64,
        lent: Lent,
        now_ns: u64,
        counter: &AtomicU64,
    ) {
        if let Some(holder) = state.holders.get_mut(&held) {
            holder.lent = lent;
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
                    .insert(ticket, Holder::of(&waiter.asker, now_ns));
                waiter.state.store(GRANTED, Ordering::Release);
                to_wake.push(waiter);
            }
        }
        let head = state.queue.head();
        to_wake.extend(head.and_then(|ticket| state.waiters.get(&ticket).cloned()));
        // Who has used its share computes on: the interval stays short for those who wake beside it.
        let idle = state.holders.values().all(Holder::sleeps);
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
    fn of(asker: &Asker, now_ns: u64) -> Self {
        let learns = (Arc::clone(&asker.route), asker.phase);
        let mut holder = Self::new(Arc::clone(&asker.face), Some(learns), now_ns);
        if !asker.worth_a_look {
            holder.look_at_ns = u64::MAX;
        }
        holder
    }

    fn new(face: Arc<ThreadFace>, learns: Option<(Arc<Route>, usize)>, now_ns: u64) -> Self {
        let cpu_ns = clock::read(face.cpu_clock()).unwrap_or(0);
        Self {
            face,
            learns,
            since_ns: now_ns,
            from_cpu_ns: cpu_ns,
            lent: Lent::No,
            cpu_moved: None,
            watched_ns: 0,
            look_at_ns: now_ns + FIRST_LOOK_NS,
            looked: (now_ns, cpu_ns),
            found_free: false,
        }
    }

    fn sleeps(&self) -> bool {
        matches!(self.lent, Lent::Still(_))
    }

    fn has_used(&self, cpu_ns: u64) -> bool {
        clock::read(self.face.cpu_clock())
            .is_some_and(|now_ns| now_ns.saturating_sub(self.from_cpu_ns) >= cpu_ns)
    }

    fn still(&self) -> Lent {
        Lent::Still(clock::read(self.face.cpu_clock()).unwrap_or(u64::MAX))
    }

    /// Whether it stood still and computes again; from now on it does not count as one that stood still.
    fn is_back(&mut self) -> bool {
        let Lent::Still(cpu_ns) = self.lent else {
            return false;
        };
        let back = self.has_used(cpu_ns.saturating_sub(self.from_cpu_ns) + BACK_NS);
        if back {
            (self.lent, self.cpu_moved) = (Lent::No, None);
        }
        back
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
        // A watcher that was late was stopped itself, and so was the whole process: throttled by its container's quota.
        let late = now_ns.saturating_sub(self.watched_ns) >= still_ns;
        self.watched_ns = now_ns;
        match self.cpu_moved.filter(|_| !late) {
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
