//! A heavy phase that stands still in the middle of its work, and goes on.

use super::Job;
use crate::counters::add;
use crate::gate::{Asker, Ended};
use crate::shared::Mode;
use crate::{lock_waits, observer};
use greenlane_policy::order::Claim;
use greenlane_process::clock;
use pyo3::{ffi, Python};
use std::sync::Arc;

impl Job {
    /// The phase has a permit: others may ask its thread to stand still. Never the main thread: signals wait for it.
    pub(super) fn may_be_stopped(&self) {
        // SAFETY: with the GIL; the calls only return numbers. On Linux the main thread's id is the process's.
        unsafe {
            let main = libc::gettid() == libc::getpid();
            let state = ffi::PyThreadState_Get() as usize;
            self.face.runs_as(if main { 0 } else { state });
        }
    }

    /// Whether the phase may stand still now: it holds a permit and no lock that is known, and no job waits for one.
    pub fn may_stand_still(&self) -> bool {
        let mode = self
            .route
            .as_deref()
            .map(|route| self.shared.mode_of(route));
        self.ticket.is_some()
            && self.away == 0
            && mode == Some(Mode::On)
            && self.face.state() != 0
            && self.face.locks_held() <= 0
            && !lock_waits::any_lock_waited_for()
    }

    /// Stands still, without the GIL, until it is its turn again or it is let go. With `forced`, every waiter is before
    /// it; else nothing happens unless somebody is.
    pub fn stand_still(&mut self, py: Python<'_>, forced: bool) {
        let (Some(ticket), Some(route)) = (self.ticket, self.route.clone()) else {
            return;
        };
        let asker = Asker {
            claim: Claim::default(), // The gate knows it.
            face: Arc::clone(&self.face),
            route: Arc::clone(&route),
        };
        let shared = Arc::clone(&self.shared);
        let from_ns = clock::monotonic_ns();
        let Some(stopped) = shared.gate().stop(ticket, asker, forced) else {
            return;
        };
        add(&shared.counters.stopped, 1);
        add(&route.turns.stopped, 1);
        self.turn.stops += 1;
        add(&shared.counters.hold_ns, stopped.held.held_ns);
        stopped.held.count(&route.turns, &mut self.turn);
        let ended = py.detach(|| shared.gate().stand(&stopped, &shared.counters));
        let to_ns = clock::monotonic_ns();
        observer::stopped(from_ns, to_ns);
        add(&shared.counters.stopped_ns, to_ns - from_ns);
        add(&route.turns.waited_ns, to_ns - from_ns);
        self.totals.wait_ns += to_ns - from_ns;
        self.from_ns += to_ns - from_ns;
        if ended != Ended::Granted {
            add(&shared.counters.stopped_let_go, 1);
            if shared.mode_of(&route) != Mode::On {
                self.ticket = None;
                add(&shared.counters.released, 1);
                return;
            }
            shared.gate().go_on(&stopped);
        }
        shared.shorten_interval(py);
    }
}
