//! Whose turn it is on a process's CPU. Slices are lazy: there is an event only when somebody waits.

use crate::cores::Stretch;
use crate::jobs::Between;
use crate::line::{Key, Line, Taker};
use crate::model::Work;
use crate::process::LOOP;
use crate::set_up::Order;
use crate::tally::Cause;
use crate::world::World;

impl World<'_> {
    /// `who` (a job, or the loop) wants the CPU of `process`.
    pub(super) fn want_cpu(&mut self, process: usize, who: u32) {
        if self.processes[process].idles() {
            self.cores.enter(self.now_ns);
            self.give(process, who);
            return;
        }
        let key = self.key(who);
        let one = &mut self.processes[process];
        if one.keeper == Some(who) {
            one.kept = Some(who);
            return;
        }
        // Who waits for a GIL asks for it himself; slices of ideal CPUs do not depend on who waits.
        let cuts = self.order == Order::Gil || one.line.is_empty();
        one.line.push(who, key);
        if cuts && !one.turning {
            self.cut(process);
        }
    }

    /// The turn of this number has ended, unless its end has been moved since.
    pub(super) fn turn_over(&mut self, process: usize, turn: u32) {
        let one = &mut self.processes[process];
        if one.turn != turn {
            return;
        }
        let Some(who) = one.running.take() else {
            return;
        };
        one.busy_ns += one.stretch_ns;
        one.turning = true;
        let (cpu_ns, switch_ns) = (one.stretch_ns - one.switch_ns, one.switch_ns);
        let id = self.job_of(process, who);
        let job = &mut self.jobs[id];
        let asked = cpu_ns < job.left_ns;
        if switch_ns > 0 {
            // It is no wait, too.
            job.wants_ns += switch_ns;
            self.tally.computed(job.index, job.route, switch_ns);
        }
        let goes_on = self.used(process, who, cpu_ns);
        self.processes[process].turning = false;
        match goes_on.or_else(|| self.next_of_line(process, asked)) {
            Some(next) => self.give(process, next),
            None => self.cores.leave(self.now_ns),
        }
    }

    /// Who gets the CPU. `asked`: it was taken from somebody who wanted more.
    fn next_of_line(&mut self, process: usize, asked: bool) -> Option<u32> {
        let taker = if asked && self.wins(self.set_up.costs.asker_frac) {
            Taker::Asker
        } else {
            Taker::Woken
        };
        let line = &mut self.processes[process].line;
        line.pop(taker, self.now_ns)
    }

    /// Whether a thread that gives the GIL away for a moment has it again before the one that it has woken.
    pub(super) fn keeps_gil(&mut self, process: usize, frac: f64) -> bool {
        let keeps = self.wins(frac);
        if keeps {
            self.processes[process].line.missed(self.now_ns);
        }
        keeps
    }

    fn wins(&mut self, frac: f64) -> bool {
        frac > 0.0 && self.races.unit() <= frac
    }

    /// Takes note of CPU used. Gives who goes on without queueing.
    fn used(&mut self, process: usize, who: u32, cpu_ns: u64) -> Option<u32> {
        let id = self.job_of(process, who);
        let job = &mut self.jobs[id];
        job.left_ns -= cpu_ns;
        if job.left_ns > 0 {
            let key = self.key(who);
            self.processes[process].line.push(who, key);
            return None;
        }
        if who != LOOP {
            self.burst_over(id);
            return self.processes[process].kept.take();
        }
        self.looped(process).job = None;
        self.burst_over(id);
        self.loop_goes_on(process)
    }

    fn burst_over(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        let burst_ns = std::mem::take(&mut job.burst_ns);
        match job.between {
            // Its wait is told with that for its process.
            Some(Between::Starting | Between::Closing) => return self.release(id),
            Some(Between::Kept) => {
                job.between = None;
                return self.goes_on(id);
            }
            _ => {}
        }
        let waited_ns = (self.now_ns - job.wants_ns).saturating_sub(burst_ns);
        self.tally
            .waited(job.index, job.route, Cause::Cpu, waited_ns);
        self.tally.computed(job.index, job.route, burst_ns);
        if std::mem::take(&mut job.placed) {
            let process = job.process as usize;
            self.next_placed(process);
            self.go_on(id);
        } else if job.between.is_some() {
            self.release(id);
        } else {
            self.phase_over(id, burst_ns);
            self.advance(id);
        }
    }

    /// A call is over for which its thread has kept the GIL: it has it still if it computes now.
    pub(super) fn goes_on(&mut self, id: u32) {
        let job = &self.jobs[id];
        let process = job.process as usize;
        let computes = job.step != job.end && self.model.steps[job.step as usize].work == Work::Cpu;
        self.processes[process].keeper = computes.then_some(id);
        self.advance(id);
        self.processes[process].keeper = None;
    }

    fn give(&mut self, process: usize, who: u32) {
        let id = self.job_of(process, who);
        let left_ns = self.jobs[id].left_ns;
        let began_cpu_ns = self.cores.cpu_ns(self.now_ns);
        let switch_ns = self.set_up.costs.switch_ns;
        let one = &mut self.processes[process];
        one.switch_ns = if one.last.replace(who) == Some(who) {
            0
        } else {
            one.line.switched(self.now_ns);
            switch_ns
        };
        let room_ns = one.line.room_ns(self.now_ns, self.slice_ns);
        let slice_ns = room_ns.map_or(left_ns, |room_ns| left_ns.min(room_ns));
        one.running = Some(who);
        one.turn = one.turn.wrapping_add(1);
        one.began_cpu_ns = began_cpu_ns;
        one.stretch_ns = one.switch_ns + slice_ns;
        let (stretch_ns, turn) = (one.stretch_ns, one.turn);
        self.until(process, turn, stretch_ns);
    }

    /// Somebody has begun to wait: who computes does so to the end of a slice only, or of the newcomer's interval.
    fn cut(&mut self, process: usize) {
        let slice_ns = self.slice_ns(process);
        if slice_ns == 0 {
            return;
        }
        let used_ns = self.cores.cpu_ns(self.now_ns) - self.processes[process].began_cpu_ns;
        let one = &mut self.processes[process];
        let end_ns = if self.order == Order::Gil {
            (used_ns + slice_ns).max(one.switch_ns)
        } else {
            let own_ns = used_ns.saturating_sub(one.switch_ns);
            one.switch_ns + (own_ns / slice_ns + 1) * slice_ns
        };
        if end_ns < one.stretch_ns {
            one.stretch_ns = end_ns;
            one.turn = one.turn.wrapping_add(1);
            let turn = one.turn;
            self.until(process, turn, end_ns - used_ns);
        }
    }

    fn until(&mut self, process: usize, turn: u32, cpu_ns: u64) {
        let stretch = Stretch::Process {
            process: process as u32,
            turn,
        };
        self.cores.until(self.now_ns, cpu_ns, stretch);
    }

    /// How long who computes may do so while others wait, ns; 0 = as long as it wants. Of a GIL, what a waiter waits
    /// before it asks: more than 0.
    fn slice_ns(&self, process: usize) -> u64 {
        match &self.processes[process].line {
            Line::Gil(waiters) => waiters.interval_ns(),
            _ => self.slice_ns,
        }
    }

    /// Only a GIL has a loop among those that wait.
    pub(super) fn key(&self, who: u32) -> Key {
        match self.order {
            Order::Turns => (0, 0),
            Order::Gil => (0, self.now_ns),
            Order::Oldest => (0, self.jobs[who].index),
            Order::First => {
                let job = &self.jobs[who];
                let lane = self.set_up.lane_of[job.route as usize];
                (-self.set_up.lanes[lane].priority, job.wants_ns)
            }
        }
    }

    fn job_of(&self, process: usize, who: u32) -> u32 {
        if who != LOOP {
            return who;
        }
        let looped = self.processes[process].looped.as_ref();
        looped
            .and_then(|looped| looped.job)
            .expect("the loop wants the CPU for a job")
    }
}
