//! What a gate knows, and who is woken when that changes.

use super::holder::{Asker, Holder, PermitUsage};
use crate::thread_view::ThreadView;
use greenlane_policy::queue::delay_caused::DelayCaused;
use greenlane_policy::queue::PermitQueue;
use greenlane_process::numbers::NumberMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How long a holder's CPU clock must stand at least before it counts as blocked. A thread that waits for the GIL wakes
/// every switch interval, which its clock shows (see [`Gate::turns_take`]).
pub(super) const STILL_NS: u64 = 6_000_000;
pub(super) static GATES: AtomicU64 = AtomicU64::new(1);

pub(super) const WAITING: u8 = 0;
pub(super) const GRANTED: u8 = 1;
pub(super) const LET_GO: u8 = 2;

pub(super) struct Waiter {
    pub(super) asker: Asker,
    pub(super) thread: std::thread::Thread,
    pub(super) state: AtomicU8,
}

/// How long waits and holds last, and what is heavy; all in ns.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Longest wait.
    pub wait_ns: u64,
    /// Own CPU after which a holder no longer counts.
    pub share_ns: u64,
    /// The least that is heavy, as the settings say.
    pub least_ns: u64,
    /// Own CPU after which a phase without a permit counts; learned.
    pub heavy_ns: Arc<AtomicU64>,
}

impl Bounds {
    pub(super) fn heavy_ns(&self) -> u64 {
        self.heavy_ns.load(Ordering::Relaxed)
    }
}

pub(super) struct GateState {
    pub(super) queue: PermitQueue,
    pub(super) threads: Vec<SampledThread>,
    pub(super) waiters: NumberMap<u64, Arc<Waiter>>,
    pub(super) holders: NumberMap<u64, Holder>,
    pub(super) kept: DelayCaused,
}

impl GateState {
    /// `ticket`, which the queue has granted, holds.
    pub(super) fn hold(&mut self, ticket: u64, asker: &Asker, now_ns: u64) {
        let mut holder = Holder::of(asker, now_ns);
        holder.counts(self.kept.each_ns(), self.queue.is_express(ticket));
        self.holders.insert(ticket, holder);
    }

    /// It holds no more.
    pub(super) fn end(&mut self, ticket: u64, now_ns: u64) -> Option<PermitUsage> {
        let holder = self.holders.remove(&ticket)?;
        Some(holder.usage(now_ns, self.kept.each_ns()))
    }
}

/// A thread that runs jobs, and its phase without a permit when it was last seen in one.
pub(super) struct SampledThread {
    pub(super) view: Weak<ThreadView>,
    pub(super) began_ns: u64,
    pub(super) cpu_ns: u64,
}

/// See the module.
pub struct Gate {
    pub(super) state: Mutex<GateState>,
    pub(super) permits: AtomicUsize,
    pub(super) bounds: Bounds,
    /// Differs from every other gate's.
    pub(super) number: u64,
    /// False on free-threaded builds until an import switches the GIL on: there is none to look at.
    pub(super) gil: AtomicBool,
    pub(super) tickets: AtomicU64,
    /// Whether anybody holds a permit that counts; a hint for callers without the mutex.
    pub(super) held: AtomicBool,
    /// When phase ends next look for phases to charge.
    pub(super) charge_at_ns: AtomicU64,
    /// How long a holder's CPU clock must stand.
    pub(super) still_ns: AtomicU64,
}

impl Gate {
    pub fn new(permits: usize, bounds: Bounds, gil: bool) -> Self {
        Self {
            state: Mutex::new(GateState {
                queue: PermitQueue::new(permits),
                threads: Vec::new(),
                waiters: NumberMap::default(),
                holders: NumberMap::default(),
                kept: DelayCaused::default(),
            }),
            permits: AtomicUsize::new(permits),
            bounds,
            number: GATES.fetch_add(1, Ordering::Relaxed),
            gil: AtomicBool::new(gil),
            tickets: AtomicU64::new(1),
            held: AtomicBool::new(false),
            charge_at_ns: AtomicU64::new(0),
            still_ns: AtomicU64::new(STILL_NS),
        }
    }

    /// Turns granted tickets into holders and wakes them and the new head. Returns whether nobody holds a permit now.
    pub(super) fn settle(
        &self,
        mut state: MutexGuard<'_, GateState>,
        granted: Vec<u64>,
        now_ns: u64,
    ) -> bool {
        let mut to_wake = Vec::new();
        for ticket in granted {
            if let Some(waiter) = state.waiters.remove(&ticket) {
                state.hold(ticket, &waiter.asker, now_ns);
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

    /// To change who waits or holds.
    pub(super) fn locked_at(&self, now_ns: u64) -> MutexGuard<'_, GateState> {
        let mut state = self.lock();
        let (holders, waiting) = (state.queue.holders(), state.queue.waiting());
        state.kept.until(now_ns, waiting, holders);
        state
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
