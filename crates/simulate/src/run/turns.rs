//! Whose turn it is on a process's CPU. Slices are lazy: there is an event only when somebody waits.

use crate::cores::Stretch;
use crate::jobs::Between;
use crate::model::Work;
use crate::process::LOOP;
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
        let one = &mut self.processes[process];
        if one.keeper == Some(who) {
            one.kept = Some(who);
            return;
        }
        one.line.push(who, self.now_ns);
        if !one.turning {
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
        if switch_ns > 0 {
            // It is no wait, too.
            job.wants_ns += switch_ns;
            self.tally.add_burst(job.index, job.route, switch_ns);
        }
        let goes_on = self.charge_cpu(process, who, cpu_ns);
        self.processes[process].turning = false;
        match goes_on.or_else(|| self.processes[process].line.pop(self.now_ns)) {
            Some(next) => self.give(process, next),
            None => self.cores.leave(self.now_ns),
        }
    }

    /// Takes note of CPU used. Gives who goes on without queueing.
    fn charge_cpu(&mut self, process: usize, who: u32, cpu_ns: u64) -> Option<u32> {
        let id = self.job_of(process, who);
        let job = &mut self.jobs[id];
        job.left_ns -= cpu_ns;
        if job.left_ns > 0 {
            self.processes[process].line.push(who, self.now_ns);
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
        if job.between == Some(Between::Starting) {
            // Its wait is told with that for its process.
            return self.release(id);
        }
        let waited_ns = (self.now_ns - job.wants_ns).saturating_sub(burst_ns);
        self.tally
            .add_wait(job.index, job.route, Cause::Cpu, waited_ns);
        self.tally.add_burst(job.index, job.route, burst_ns);
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
            one.line.note_switch(self.now_ns);
            switch_ns
        };
        let asked_ns = one.line.asked_ns();
        let slice_ns = asked_ns.map_or(left_ns, |at_ns| {
            left_ns.min(at_ns.saturating_sub(self.now_ns))
        });
        one.running = Some(who);
        one.turn = one.turn.wrapping_add(1);
        one.began_cpu_ns = began_cpu_ns;
        one.stretch_ns = one.switch_ns + slice_ns;
        let (stretch_ns, turn) = (one.stretch_ns, one.turn);
        self.until(process, turn, stretch_ns);
    }

    /// Somebody has begun to wait: who computes does so to the end of the newcomer's interval only.
    fn cut(&mut self, process: usize) {
        let one = &mut self.processes[process];
        let used_ns = self.cores.cpu_ns(self.now_ns) - one.began_cpu_ns;
        let end_ns = (used_ns + one.line.interval_ns()).max(one.switch_ns);
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
