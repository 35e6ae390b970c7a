//! One job on one thread: its phases, and the permit that its heavy phases hold.

use crate::counters::{add, Turns};
use crate::gang;
use crate::gate::{Answer, Asker, PermitUsage, TurnEnd};
use crate::observer::{self, PhaseTurn};
use crate::places::{OPENED, RESUMED};
use crate::routes::Route;
use crate::shared::{Mode, Shared};
use crate::thread_view::ThreadView;
use greenlane_policy::order::Claim;
use greenlane_policy::weight::{Pin, Weight};
use greenlane_process::clock;
use greenlane_process::cpu::CpuMeter;
use pyo3::Python;
use std::sync::Arc;

/// A job that runs on a thread, or is paused between two.
pub struct Job {
    pub shared: Arc<Shared>,
    view: Arc<ThreadView>,
    route: Option<Arc<Route>>,
    phase: usize,
    /// Calls of `leave` that no `enter` has answered yet, 1 while it is paused; its phase runs while this is 0.
    away: u32,
    /// When the phase began, ns.
    from_ns: u64,
    cpu: CpuMeter,
    pub arrival_ns: u64,
    /// When the answer is due, ns; 0 = never.
    pub deadline_ns: u64,
    /// The permit in hand.
    ticket: Option<u64>,
    /// Whether the phase runs without one because it is believed light, its thread holds a lock, or its wait was too
    /// long: it may be charged.
    free: bool,
    /// How the phase goes.
    turn: PhaseTurn,
    totals: Totals,
}

/// What a job used. CPU is counted only in its phases: between open and close, and not inside blocking calls.
#[derive(Clone, Copy, Default)]
pub struct Totals {
    pub cpu_ns: u64,
    /// Waits for permits.
    pub wait_ns: u64,
    /// CPU used after the deadline.
    pub late_cpu_ns: u64,
    pub phases: u64,
    /// Phases that were expected to be heavy, or were charged.
    pub heavy: u64,
}

impl Job {
    /// Opens a job and begins its first phase, which may wait for a permit.
    pub fn open(
        py: Python<'_>,
        shared: &Arc<Shared>,
        view: Arc<ThreadView>,
        route: Option<Arc<Route>>,
        arrival_ns: u64,
        deadline_ns: u64,
    ) -> Self {
        add(&shared.counters.jobs, 1);
        if shared.gate().meet(&view) {
            gang::join(py, &view);
        }
        let mut job = Self {
            shared: Arc::clone(shared),
            view,
            route,
            phase: 0,
            away: 0,
            from_ns: 0,
            cpu: CpuMeter::of_this_thread(),
            arrival_ns,
            deadline_ns,
            ticket: None,
            free: false,
            turn: PhaseTurn::default(),
            totals: Totals::default(),
        };
        job.begin(py);
        job
    }

    /// Whether calls that cannot block may be made within the phase, with the GIL kept. Not of a late job that wants to
    /// be told so at its next call.
    pub fn keeps_the_gil(&self) -> bool {
        let route = self.route.as_deref();
        let mode = route.map_or_else(|| self.shared.mode(), |route| self.shared.mode_of(route));
        mode == Mode::On && !(self.shared.late_error.is_some() && self.is_late())
    }

    /// Whether its phase runs: a call that blocks now ends it.
    pub fn runs(&self) -> bool {
        self.away == 0
    }

    /// Ends the phase, unless it has ended already: the thread is about to block at `place`.
    pub fn leave(&mut self, py: Python<'_>, place: u64) {
        self.away += 1;
        if self.away == 1 {
            self.end(py, place);
        }
    }

    /// Begins the next phase, if this answers the outermost `leave`.
    pub fn enter(&mut self, py: Python<'_>) {
        if self.away == 0 {
            return;
        }
        self.away -= 1;
        if self.away == 0 {
            self.begin(py);
        }
    }

    /// Files the rest of the job under `route`. Its present phase becomes that route's first.
    pub fn name(&mut self, py: Python<'_>, route: Arc<Route>) {
        if self
            .route
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &route))
        {
            return;
        }
        self.route = Some(route);
        self.phase = 0;
        self.ask_within_the_phase(py);
    }

    /// Takes the turn that the phase owes: it began while its thread held a lock, and the last one has been released.
    ///
    /// A driver that waits for its server inside a lock of its own (psycopg, redis-py) begins every phase that way.
    pub fn take_deferred_turn(&mut self, py: Python<'_>) {
        self.ask_within_the_phase(py);
    }

    /// Ends the phase so that the job can go on on another thread; [`Job::resume`] answers it.
    pub fn pause(&mut self, py: Python<'_>) {
        if self.away == 0 {
            self.end(py, RESUMED);
        }
        self.away = 1;
    }

    /// Begins the next phase on the calling thread.
    pub fn resume(&mut self, py: Python<'_>, view: Arc<ThreadView>) {
        if self.shared.gate().meet(&view) {
            gang::join(py, &view);
        }
        self.view = view;
        self.cpu = CpuMeter::of_this_thread();
        self.enter(py);
    }

    /// Ends the job.
    pub fn close(mut self, py: Python<'_>) -> Totals {
        if self.away == 0 {
            self.end(py, OPENED);
        }
        if self.deadline_ns != 0 && clock::monotonic_ns() > self.deadline_ns {
            add(&self.shared.counters.jobs_late, 1);
        }
        self.totals
    }

    /// Whether its deadline has passed.
    pub fn is_late(&self) -> bool {
        self.deadline_ns != 0 && clock::monotonic_ns() > self.deadline_ns
    }

    /// Asks for a permit in the middle of a phase. What the phase has used so far stays counted, a wait does not.
    fn ask_within_the_phase(&mut self, py: Python<'_>) {
        if self.away == 0 && self.ticket.is_none() {
            let spent_ns = clock::monotonic_ns().saturating_sub(self.from_ns);
            let idle = self.give_back_charged();
            self.begin(py);
            if idle && self.ticket.is_none() {
                self.shared.restore_interval(py);
            }
            self.from_ns = self.from_ns.saturating_sub(spent_ns);
        }
    }

    fn begin(&mut self, py: Python<'_>) {
        self.view.set_turn_deferred(false);
        self.free = false;
        if let Some(route) = &self.route {
            let mode = self.shared.mode_of(route);
            if mode != Mode::Off {
                let route = Arc::clone(route);
                self.ask_if_heavy(py, &route, mode);
            }
        }
        self.from_ns = clock::monotonic_ns();
        self.view.begin(py, self.from_ns);
        if self.ticket.is_none() {
            self.view.runs_free(self.from_ns, self.free);
        }
    }

    fn ask_if_heavy(&mut self, py: Python<'_>, route: &Arc<Route>, mode: Mode) {
        let shared = Arc::clone(&self.shared);
        let (rule, pin, attained_ns) = (&shared.rule(), route.pin(), self.totals.cpu_ns);
        let (weight, expected_ns, long_ns) = route.with(self.phase, |profile| {
            let weight = profile.weight(rule, pin, attained_ns);
            (weight, profile.expected_ns(), profile.long_ns())
        });
        if weight != Weight::Heavy {
            match weight {
                Weight::Unknown => {
                    add(&shared.counters.skipped_unknown, 1);
                    gang::go_away(&self.view, false);
                }
                Weight::Native => gang::go_away(&self.view, true),
                _ => {}
            }
            // What its owner calls light runs free whatever it costs, and what has no GIL takes nobody's turn.
            self.free = mode == Mode::On
                && weight != Weight::Native
                && !matches!(pin, Pin::Light | Pin::Native);
            return;
        }
        self.totals.heavy += 1;
        if self.view.locks_held() > 0 {
            add(&shared.counters.skipped_lock, 1);
            add(&route.turns.skipped, 1);
            self.turn.skipped = true;
            self.view.set_turn_deferred(true);
            self.free = mode == Mode::On;
            return;
        }
        let asker = Asker {
            claim: Claim {
                arrival_ns: self.arrival_ns,
                deadline_ns: self.deadline_ns,
                expected_ns,
                long_ns,
                attained_ns,
            },
            view: Arc::clone(&self.view),
            route: Arc::clone(route),
        };
        match shared.gate().ask(asker, mode == Mode::On, &shared.counters) {
            Some(Answer::Granted(ticket)) => {
                add(&shared.counters.granted, 1);
                self.hold(py, ticket, mode);
            }
            Some(Answer::Queued(ticket)) => self.wait(py, ticket, mode, &route.turns),
            None => add(&shared.counters.would_wait, 1),
        }
    }

    fn wait(&mut self, py: Python<'_>, ticket: u64, mode: Mode, turns: &Turns) {
        let shared = Arc::clone(&self.shared);
        shared.see_gil(py);
        let from_ns = clock::monotonic_ns();
        let ended = py.detach(|| shared.gate().wait(ticket, &shared.counters));
        let waited_ns = clock::monotonic_ns().saturating_sub(from_ns);
        observer::report_wait(from_ns, from_ns + waited_ns);
        self.totals.wait_ns += waited_ns;
        add(&shared.counters.waited, 1);
        add(&shared.counters.wait_ns, waited_ns);
        add(&turns.waited, 1);
        add(&turns.waited_ns, waited_ns);
        match ended {
            TurnEnd::Granted => {
                add(&shared.counters.waited_granted, 1);
                self.hold(py, ticket, mode);
            }
            TurnEnd::TimedOut => add(&shared.counters.skipped_timeout, 1),
            TurnEnd::LetGo => add(&shared.counters.skipped_switched, 1),
        }
        let skipped = ended != TurnEnd::Granted;
        self.free = skipped && mode == Mode::On;
        self.turn.skipped |= skipped;
        add(&turns.skipped, u64::from(skipped));
    }

    fn hold(&mut self, py: Python<'_>, ticket: u64, mode: Mode) {
        self.ticket = Some(ticket);
        self.turn.taken = true;
        self.count(|turns| add(&turns.turns, 1));
        if mode == Mode::On {
            self.shared.shorten_interval(py);
        }
    }

    /// Ends the phase; the next one begins at `place`.
    fn end(&mut self, py: Python<'_>, place: u64) {
        let now_ns = clock::monotonic_ns();
        let burst_ns = self.burst(now_ns);
        let (looks, free) = self.view.end();
        gang::come_back(&self.view);
        if self.give_back() {
            self.shared.restore_interval(py);
        }
        observer::report_turn(std::mem::take(&mut self.turn));
        self.totals.cpu_ns += burst_ns;
        self.totals.phases += 1;
        add(&self.shared.counters.phases, 1);
        self.shared.tend_interval(py, now_ns);
        if self.deadline_ns != 0 {
            let late_ns = clock::monotonic_ns()
                .saturating_sub(self.deadline_ns)
                .min(burst_ns);
            self.totals.late_cpu_ns += late_ns;
            add(&self.shared.counters.late_cpu_ns, late_ns);
        }
        if let Some(route) = &self.route {
            if self.shared.mode_of(route) != Mode::Off {
                let rule = self.shared.rule();
                let computes_with_gil = route.with(self.phase, |profile| {
                    profile.update(burst_ns, &rule);
                    profile.add_looks(looks, free);
                    !profile.is_native()
                });
                if computes_with_gil {
                    self.shared.heavy.update(burst_ns);
                }
            }
            self.phase = route.phase_at(place, self.shared.last_phase);
        }
    }

    /// The CPU of the phase that ends now, ns; what its blocking call costs the kernel counts with the next one. A phase
    /// that took less than a quarter of "heavy" is not worth a look at the thread's CPU clock.
    fn burst(&mut self, now_ns: u64) -> u64 {
        let wall_ns = now_ns.saturating_sub(self.from_ns);
        self.cpu
            .stretch(wall_ns, self.shared.least_rule.heavy_ns / 4)
            .ns()
    }

    /// Gives the permit back. True when nobody holds one now and this job did.
    fn give_back(&mut self) -> bool {
        let Some(ticket) = self.ticket.take() else {
            return self.give_back_charged();
        };
        let (held, idle) = self.shared.gate().give_back(ticket);
        if let Some(held) = held {
            add(&self.shared.counters.released, 1);
            add(&self.shared.counters.hold_ns, held.held_ns);
            self.count_held(&held);
        }
        idle
    }

    /// Gives back what the phase was charged with; as [`Job::give_back`].
    fn give_back_charged(&mut self) -> bool {
        let Some(ticket) = self.view.settle() else {
            return false;
        };
        self.totals.heavy += 1;
        let (held, idle) = self.shared.gate().give_back(ticket);
        self.turn.charged = true;
        self.count(|turns| add(&turns.charged, 1));
        if let Some(held) = held {
            self.count_held(&held);
        }
        idle
    }

    fn count_held(&mut self, held: &PermitUsage) {
        if let Some(route) = &self.route {
            held.count(&route.turns, &mut self.turn);
        }
    }

    fn count(&self, what: impl FnOnce(&Turns)) {
        if let Some(route) = &self.route {
            what(&route.turns);
        }
    }
}

impl Drop for Job {
    /// However a job ends, thread death included, its permit is given back. The interval is restored by the next event.
    /// Between phases it has none, and what its thread is charged with is another job's.
    fn drop(&mut self) {
        if self.runs() {
            self.give_back();
        }
    }
}
