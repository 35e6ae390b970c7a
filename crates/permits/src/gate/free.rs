//! Phases without a permit: one that has used the CPU of a heavy one is charged, and counts as a holder from then on.

use super::holder::Holder;
use super::state::{Gate, GateState, SampledThread};
use crate::counters::{add, Counters};
use crate::thread_view::ThreadView;
use greenlane_process::clock;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Phases without a permit that are younger are not looked at: most end before.
const SEEN_NS: u64 = 1_000_000;
/// How often phase ends look for such phases, where nobody asks for a permit or waits for one.
const CHARGE_NS: u64 = 5_000_000;

impl Gate {
    /// A thread will run jobs. Cheap when the gate knows it; true: it did not.
    pub fn meet(&self, view: &Arc<ThreadView>) -> bool {
        let is_new = view.is_new_to(self.number);
        if is_new {
            let mut state = self.lock();
            state.threads.retain(|seen| seen.view.strong_count() > 0);
            state.threads.push(SampledThread {
                view: Arc::downgrade(view),
                began_ns: 0,
                cpu_ns: 0,
            });
        }
        is_new
    }

    /// A phase has ended: others may turn out heavy meanwhile. True: one has, and nobody had asked. Cheap.
    pub fn charge_now_and_then(&self, now_ns: u64, counters: &Counters) -> bool {
        if now_ns < self.charge_at_ns.load(Ordering::Relaxed) {
            return false;
        }
        self.charge_at_ns
            .store(now_ns + CHARGE_NS, Ordering::Relaxed);
        let mut state = self.locked_at(now_ns);
        let charged = self.charge(&mut state, now_ns, counters);
        if charged {
            let granted = state.queue.due();
            self.settle(state, granted, now_ns);
        }
        charged
    }

    /// Phases without a permit that have used the CPU of a heavy one since they were first seen count as holders. True:
    /// there is a new one.
    pub(super) fn charge(&self, state: &mut GateState, now_ns: u64, counters: &Counters) -> bool {
        let mut charged = false;
        let GateState {
            queue,
            holders,
            threads,
            kept,
            ..
        } = state;
        for seen in threads {
            let Some(view) = seen.view.upgrade() else {
                continue;
            };
            let began_ns = view.runs_free_since();
            let young = began_ns == 0 || now_ns.saturating_sub(began_ns) < SEEN_NS;
            if young || !view.is_chargeable() || !view.is_known_to(self.number) {
                continue;
            }
            let Some(cpu_ns) = clock::read(view.cpu_clock()) else {
                continue;
            };
            if began_ns != seen.began_ns {
                (seen.began_ns, seen.cpu_ns) = (began_ns, cpu_ns);
            } else if cpu_ns.saturating_sub(seen.cpu_ns) >= self.bounds.heavy_ns() {
                let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
                if view.charge(began_ns, ticket) {
                    queue.charge(ticket);
                    let mut holder = Holder::new(view, now_ns);
                    holder.counts(kept.each_ns(), false);
                    holders.insert(ticket, holder);
                    self.held.store(true, Ordering::Relaxed);
                    add(&counters.charged, 1);
                    charged = true;
                }
            }
        }
        charged
    }
}
