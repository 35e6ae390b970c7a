//! In observe mode nobody waits: what each route would pay and gain is counted from a queue beside it.

use super::state::Gate;
use crate::counters::{add, Counters};
use crate::routes::Route;
use greenlane_policy::order::Claim;
use greenlane_policy::queue::shadow::{Foreseen, Shadow};
use greenlane_process::clock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// CPU after which what is known of the pace is halved, ns.
const WINDOW_NS: u64 = 2_000_000_000;

/// See the module.
pub(super) struct Beside {
    shadow: Shadow<Arc<Route>>,
    /// Phases that run: since when, and whether no other one has run meanwhile.
    running: HashMap<u64, (u64, bool)>,
    /// Time and CPU of those that ran alone: what is left of a core for one that has the permit.
    wall_ns: u64,
    cpu_ns: u64,
}

impl Beside {
    pub(super) fn new(permits: usize, share_ns: u64) -> Mutex<Self> {
        Mutex::new(Self {
            shadow: Shadow::new(permits, share_ns),
            running: HashMap::new(),
            wall_ns: 0,
            cpu_ns: 0,
        })
    }

    fn pass(&mut self, now_ns: u64) {
        let core_frac = match self.wall_ns {
            0 => 1.0,
            wall_ns => (self.cpu_ns as f64 / wall_ns as f64).min(1.0),
        };
        for turn in self.shadow.pass(now_ns, core_frac) {
            count(&turn);
        }
    }

    fn ask(&mut self, ticket: u64, now_ns: u64) {
        let alone = self.running.is_empty();
        self.running.values_mut().for_each(|one| one.1 = false);
        self.running.insert(ticket, (now_ns, alone));
    }

    fn know(&mut self, ticket: u64, burst_ns: u64, now_ns: u64) {
        if let Some((from_ns, true)) = self.running.remove(&ticket) {
            self.wall_ns += now_ns.saturating_sub(from_ns);
            self.cpu_ns += burst_ns;
            if self.cpu_ns > WINDOW_NS {
                (self.wall_ns, self.cpu_ns) = (self.wall_ns / 2, self.cpu_ns / 2);
            }
        }
        self.shadow.know(ticket, burst_ns);
    }
}

fn count(turn: &Foreseen<Arc<Route>>) {
    let turns = &turn.of.turns;
    add(&turns.turns, 1);
    add(&turns.waited, u64::from(turn.waited_ns > 0));
    add(&turns.waited_ns, turn.waited_ns);
    add(&turns.others_waited_ns, turn.others_waited_ns);
    add(&turns.express, u64::from(turn.express));
    add(&turns.shared, u64::from(turn.shared));
}

impl Gate {
    /// A phase begins that would ask for a permit. Gives its ticket, and whether it would wait.
    pub fn foresee(&self, claim: Claim, route: &Arc<Route>, counters: &Counters) -> (u64, bool) {
        let (ticket, now_ns) = (self.next_ticket(), clock::monotonic_ns());
        let mut beside = self.beside();
        beside.pass(now_ns);
        beside.ask(ticket, now_ns);
        let waits = beside.shadow.ask(ticket, claim, Arc::clone(route));
        add(&counters.would_wait, u64::from(waits));
        (ticket, waits)
    }

    /// It has ended, and took `burst_ns`; None: it is another route's, or its thread has died.
    pub fn foreseen(&self, ticket: u64, burst_ns: Option<u64>) {
        let now_ns = clock::monotonic_ns();
        let mut beside = self.beside();
        beside.pass(now_ns);
        match burst_ns {
            Some(burst_ns) => beside.know(ticket, burst_ns, now_ns),
            None => {
                beside.running.remove(&ticket);
                beside.shadow.know(ticket, 0);
            }
        }
    }

    /// Counts the turns that have ended meanwhile.
    pub fn foresee_until_now(&self) {
        self.beside().pass(clock::monotonic_ns());
    }

    fn beside(&self) -> MutexGuard<'_, Beside> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
