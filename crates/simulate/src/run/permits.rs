//! Phases ask for permits of their process, wait for them and give them back.

use crate::heap::Class;
use crate::interval::Interval;
use crate::tally::Cause;
use crate::world::{Event, World};
use greenlane_policy::queue::Granted;
use greenlane_policy::weight::{Pin, Weight};

/// Between two looks at what phases have used: the waiter at the head looks as often.
const LOOK_NS: u64 = 2_000_000;
/// Who was let in beside a holder has turned out long after this many times the CPU of a heavy phase, as in production.
const LONG: u64 = 2;

impl World<'_> {
    /// Asks for a permit if the phase of `id` that begins is heavy. False: it waits for one.
    pub(super) fn ask(&mut self, process: usize, id: u32) -> bool {
        let job = &mut self.jobs[id];
        let Some(permits) = &mut self.processes[process].permits else {
            return true;
        };
        let weight = permits.rule.weight;
        let profile = permits.profile(job.route, job.phase);
        if profile.weight(&weight, Pin::Auto, job.attained_ns) != Weight::Heavy {
            if job.burst_ns > weight.heavy_ns {
                permits.free.push(id);
                self.watch(process);
            }
            return true;
        }
        job.asked = true;
        let claim = permits.claim(job);
        if permits.queue.request(self.now_ns, id.into(), claim) {
            permits.hold(id, job);
            self.shorten(process);
            self.watch(process);
            return true;
        }
        let until_ns = self.now_ns + permits.rule.wait_max_ns;
        self.waits = self.waits.wrapping_add(1).max(1);
        let wait = self.waits;
        self.jobs[id].wait = wait;
        let event = Event::PermitOver { job: id, wait };
        self.timers.push(until_ns, Class::Other, event);
        self.watch(process);
        false
    }

    /// The phase of `id` has ended after so much CPU.
    pub(super) fn phase_over(&mut self, id: u32, burst_ns: u64) {
        let job = &mut self.jobs[id];
        job.attained_ns += burst_ns;
        let process = job.process as usize;
        let Some(permits) = &mut self.processes[process].permits else {
            return;
        };
        let weight = permits.rule.weight;
        let profile = permits.profile(job.route, job.phase);
        profile.update(burst_ns, &weight);
        permits.rule.weight.heavy_ns = permits.heavy_threshold.update(burst_ns);
        job.phase = (job.phase + 1).min(permits.rule.phases.max(1) as u32 - 1);
        permits.free.retain(|free| *free != id);
        if std::mem::take(&mut job.holds) {
            permits.holders.retain(|holder| holder.id != id);
            let granted = permits.queue.release(id.into());
            let nobody = permits.queue.holders() == 0;
            self.note_grants(process, &granted);
            self.watch(process);
            if nobody {
                self.restore(process);
            }
        }
        self.tend(process);
    }

    /// A wait for a permit has lasted for as long as it may: the phase runs without.
    pub(super) fn permit_over(&mut self, id: u32, wait: u32) {
        let job = &mut self.jobs[id];
        if job.wait != wait {
            return;
        }
        let process = job.process as usize;
        let Some(permits) = &mut self.processes[process].permits else {
            return;
        };
        let granted = permits.queue.cancel([id.into()]);
        self.permit_waited(id);
        self.want_cpu(process, id);
        self.note_grants(process, &granted);
        self.watch(process);
    }

    /// Looks at what phases have used: a holder its share, one that was let in more than a short phase,
    /// one without a permit as much as a heavy phase.
    pub(super) fn hold_over(&mut self, process: usize) {
        let running = self.slice(process);
        let Some(permits) = &mut self.processes[process].permits else {
            return;
        };
        if permits.look_at_ns != self.now_ns {
            return; // There is an earlier look in its place.
        }
        permits.look_at_ns = 0;
        let mut granted = Granted::new();
        if permits.queue.waiting() > 0 {
            let (share_ns, heavy_ns) = (permits.rule.share_ns, permits.rule.weight.heavy_ns);
            let used_ns = |id: u32| self.jobs[id].used_ns(id, running);
            let is_charged = |&id: &u32| used_ns(id) >= heavy_ns;
            let (charged, free) = permits.free.drain(..).partition::<Vec<_>, _>(is_charged);
            permits.free = free;
            for holder in permits.holders.iter_mut().filter(|holder| !holder.lent) {
                let used_ns = used_ns(holder.id);
                if holder.is_short && used_ns >= LONG * permits.rule.weight.least_ns {
                    holder.is_short = false;
                    granted.extend(permits.queue.outlasts(holder.id.into()));
                }
                if used_ns >= permits.queue.share_of(holder.id.into(), share_ns) {
                    holder.lent = true;
                    granted.extend(permits.queue.share(holder.id.into()));
                }
            }
            for id in charged {
                permits.queue.charge(id.into());
                permits.hold(id, &mut self.jobs[id]);
            }
            granted.extend(permits.queue.due());
        }
        self.note_grants(process, &granted);
        self.watch(process);
    }

    fn note_grants(&mut self, process: usize, tickets: &[u64]) {
        for &ticket in tickets {
            let id = ticket as u32;
            self.permit_waited(id);
            if let Some(permits) = &mut self.processes[process].permits {
                permits.hold(id, &mut self.jobs[id]);
            }
            self.shorten(process);
            self.want_cpu(process, id);
        }
    }

    /// Who has the process' CPU now, and for how long it has had it in this turn, ns.
    fn slice(&mut self, process: usize) -> Option<(u32, u64)> {
        let cpu_ns = self.cores.cpu_ns(self.now_ns);
        let one = &self.processes[process];
        let had_ns = cpu_ns.saturating_sub(one.began_cpu_ns + one.switch_ns);
        one.running.map(|id| (id, had_ns))
    }

    fn permit_waited(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        job.wait = 0;
        let waited_ns = self.now_ns - job.wants_ns;
        job.wants_ns = self.now_ns;
        self.tally
            .add_wait(job.index, job.route, Cause::Permit, waited_ns);
    }

    /// Sees to it that the first phase that may have used what it may is looked at then.
    fn watch(&mut self, process: usize) {
        let running = self.slice(process);
        let Some(permits) = &mut self.processes[process].permits else {
            return;
        };
        if permits.queue.waiting() == 0 {
            return;
        }
        let (heavy_ns, share_ns) = (permits.rule.weight.heavy_ns, permits.rule.share_ns);
        let counting = permits.holders.iter().filter(|holder| !holder.lent);
        let share_of = |id: u32| permits.queue.share_of(id.into(), share_ns);
        let most = counting.map(|holder| match holder.is_short {
            true => (holder.id, LONG * permits.rule.weight.least_ns),
            false => (holder.id, share_of(holder.id)),
        });
        let free = permits.free.iter().map(|&id| (id, heavy_ns));
        let left = most
            .chain(free)
            .map(|(id, most_ns)| most_ns.saturating_sub(self.jobs[id].used_ns(id, running)));
        let Some(left_ns) = left.min() else { return };
        let at_ns = self.now_ns + left_ns.max(LOOK_NS);
        if permits.look_at_ns == 0 || at_ns < permits.look_at_ns {
            permits.look_at_ns = at_ns;
            let event = Event::HoldOver {
                process: process as u32,
            };
            self.timers.push(at_ns, Class::Other, event);
        }
    }

    /// Somebody has a permit of `process`.
    fn shorten(&mut self, process: usize) {
        self.change(process, |interval, _| interval.is_long(), Interval::shorten);
    }

    /// A phase has ended in `process`.
    fn tend(&mut self, process: usize) {
        let due = |interval: &Interval, now_ns| now_ns >= interval.due_ns;
        self.change(process, due, Interval::tend);
    }

    /// Nobody holds a permit of `process` now.
    fn restore(&mut self, process: usize) {
        let forced = |interval: &Interval, _| interval.forced.is_some();
        self.change(process, forced, Interval::restore);
    }

    /// Does `how` to the interval if `due`; those who wait do so by it then.
    fn change(
        &mut self,
        process: usize,
        due: impl Fn(&Interval, u64) -> bool,
        how: impl Fn(&mut Interval, u64, u64),
    ) {
        let one = &mut self.processes[process];
        let (Some(permits), waiters) = (&mut one.permits, &mut one.line) else {
            return;
        };
        let interval = &mut permits.interval;
        if due(interval, self.now_ns) {
            how(interval, self.now_ns, waiters.wakes(self.now_ns));
            waiters.set_interval(self.now_ns, interval.ns().max(1));
        }
    }
}
