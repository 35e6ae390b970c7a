//! A phase that holds a permit, as those who watch it see it.

use crate::counters::{add, Turns};
use crate::observer::PhaseTurn;
use crate::routes::Route;
use crate::thread_view::ThreadView;
use greenlane_policy::order::Claim;
use greenlane_process::clock;
use std::sync::Arc;

/// CPU below which a clock stands still, ns: one wake-up costs more.
const STILL_CPU_NS: u64 = 1_000;
/// CPU that a holder uses after it stood still, ns, before it counts again: waking up and blocking again takes less.
const BACK_NS: u64 = 1_000_000;

/// One who asks for a permit.
pub struct Asker {
    pub claim: Claim,
    pub view: Arc<ThreadView>,
    pub route: Arc<Route>,
}

/// Whether a holder counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lent {
    No,
    /// Since its thread stood still, with this CPU clock.
    Still(u64),
    /// It computes without the GIL.
    Released,
    /// It has used the CPU of its share.
    Shared,
}

/// The result of a hold.
pub struct PermitUsage {
    pub held_ns: u64,
    /// Time that others waited for it meanwhile; where several held permits, its part.
    others_waited_ns: u64,
    express: bool,
    shared: bool,
}

impl PermitUsage {
    /// Counts it for its route, and notes it in its phase's turn.
    pub fn count(&self, turns: &Turns, turn: &mut PhaseTurn) {
        turn.express |= self.express;
        turn.shared |= self.shared;
        add(&turns.others_waited_ns, self.others_waited_ns);
        add(&turns.express, u64::from(self.express));
        add(&turns.shared, u64::from(self.shared));
    }
}

pub(super) struct Holder {
    pub(super) view: Arc<ThreadView>,
    since_ns: u64,
    /// Whether it was let in beside another one.
    express: bool,
    /// Whether it was, and has not yet used the CPU of a heavy one.
    pub(super) is_short: bool,
    /// What [`greenlane_policy::queue::delay_caused`] said when it began to count, and what others had waited for it before.
    kept_from_ns: u64,
    kept_ns: u64,
    /// The CPU clock when it was granted.
    from_cpu_ns: u64,
    pub(super) lent: Lent,
    /// (when, value) of the CPU clock when it last moved.
    cpu_moved: Option<(u64, u64)>,
    /// When its clock was last read for that.
    watched_ns: u64,
    /// Whether it has not moved since it could have had the GIL.
    pub(super) was_offered_the_gil: bool,
}

impl Holder {
    pub(super) fn of(asker: &Asker, now_ns: u64) -> Self {
        Self::new(Arc::clone(&asker.view), now_ns)
    }

    pub(super) fn new(view: Arc<ThreadView>, now_ns: u64) -> Self {
        let cpu_ns = clock::read(view.cpu_clock()).unwrap_or(0);
        Self {
            view,
            since_ns: now_ns,
            express: false,
            is_short: false,
            kept_from_ns: 0,
            kept_ns: 0,
            from_cpu_ns: cpu_ns,
            lent: Lent::No,
            cpu_moved: None,
            watched_ns: 0,
            was_offered_the_gil: false,
        }
    }

    /// Counts from now on.
    pub(super) fn counts(&mut self, kept_ns: u64, express: bool) {
        self.kept_from_ns = kept_ns;
        (self.express, self.is_short) = (express, express);
    }

    /// No longer counts.
    pub(super) fn lend(&mut self, lent: Lent, kept_ns: u64) {
        self.kept_ns += kept_ns - self.kept_from_ns;
        self.lent = lent;
    }

    pub(super) fn usage(&self, now_ns: u64, kept_ns: u64) -> PermitUsage {
        let since_lent = match self.lent {
            Lent::No => kept_ns - self.kept_from_ns,
            _ => 0,
        };
        PermitUsage {
            held_ns: now_ns.saturating_sub(self.since_ns),
            others_waited_ns: self.kept_ns + since_lent,
            express: self.express,
            shared: self.lent == Lent::Shared,
        }
    }

    pub(super) fn sleeps(&self) -> bool {
        matches!(self.lent, Lent::Still(_))
    }

    pub(super) fn has_used(&self, cpu_ns: u64) -> bool {
        clock::read(self.view.cpu_clock())
            .is_some_and(|now_ns| now_ns.saturating_sub(self.from_cpu_ns) >= cpu_ns)
    }

    pub(super) fn still(&self) -> Lent {
        Lent::Still(clock::read(self.view.cpu_clock()).unwrap_or(u64::MAX))
    }

    /// Whether it stood still and computes again; from now on it does not count as one that stood still.
    pub(super) fn is_back(&mut self, kept_ns: u64) -> bool {
        let Lent::Still(cpu_ns) = self.lent else {
            return false;
        };
        let back = self.has_used(cpu_ns.saturating_sub(self.from_cpu_ns) + BACK_NS);
        if back {
            (self.lent, self.cpu_moved) = (Lent::No, None);
            self.kept_from_ns = kept_ns;
        }
        back
    }

    /// One that computed without the GIL. True: it needs it after all, and counts again.
    pub(super) fn needs_the_gil(&mut self, kept_ns: u64) -> bool {
        let needs = self.view.computes_with_gil();
        if needs {
            (self.lent, self.kept_from_ns) = (Lent::No, kept_ns);
            // What it computed without the GIL was nobody's share.
            self.from_cpu_ns = clock::read(self.view.cpu_clock()).unwrap_or(self.from_cpu_ns);
        }
        needs
    }

    /// It could have had the GIL just now. The watcher may have waited long for it, and was not late.
    pub(super) fn offered_the_gil(&mut self, now_ns: u64) {
        (self.was_offered_the_gil, self.watched_ns) = (true, now_ns);
    }

    /// Whether its thread has used no CPU for `still_ns`, although it could have; remembers when it last did.
    pub(super) fn stands_still(&mut self, now_ns: u64, still_ns: u64) -> bool {
        let Some(cpu_ns) = clock::read(self.view.cpu_clock()) else {
            return true; // Its thread has ended.
        };
        // A watcher that was late was stopped itself, and so was the whole process: throttled by its container's quota.
        let late = now_ns.saturating_sub(self.watched_ns) >= still_ns;
        self.watched_ns = now_ns;
        match self.cpu_moved.filter(|_| !late) {
            Some((when_ns, seen_ns)) if cpu_ns.saturating_sub(seen_ns) < STILL_CPU_NS => {
                // The machine may have others to run: such a thread stands still and computes all the same.
                now_ns.saturating_sub(when_ns) >= still_ns && !self.view.is_runnable()
            }
            _ => {
                self.cpu_moved = Some((now_ns, cpu_ns));
                self.was_offered_the_gil = false;
                false
            }
        }
    }
}
