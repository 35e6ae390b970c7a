//! What a request does besides computing under the GIL: calls to upstreams, and work in other places.

use crate::cores::Stretch;
use crate::heap::Class;
use crate::jobs::Between;
use crate::tally::Cause;
use crate::world::{Event, World};

impl World<'_> {
    /// A thread has had the GIL for a moment, and needs it as often as it must: then its request goes on with what is
    /// between.
    pub(super) fn release(&mut self, id: u32) {
        if !self.has_passed(id) {
            return;
        }
        match self.jobs[id].between.take() {
            Some(Between::Calling) => self.call(id),
            Some(Between::Reading) => self.goes_on(id),
            _ => {
                let process = self.jobs[id].process as usize;
                self.let_in(id);
                self.take_in(process, true);
            }
        }
    }

    /// Whether a thread has had the GIL as often as it must; else it waits for it.
    pub(super) fn has_passed(&mut self, id: u32) -> bool {
        let process = self.jobs[id].process as usize;
        while self.jobs[id].releases > 0 {
            self.jobs[id].releases -= 1;
            if self.gives_away(process, id) {
                self.jobs[id].wants_ns = self.now_ns;
                self.want_cpu(process, id);
                return false;
            }
        }
        true
    }

    /// Whether a thread that gives the GIL away for a moment loses it to one that waits.
    fn gives_away(&self, process: usize, id: u32) -> bool {
        let one = &self.processes[process];
        let accepts = self.jobs[id].between == Some(Between::Starting);
        let has_it = accepts || one.last == Some(id);
        one.turning && has_it && !one.line.is_empty()
    }

    /// A request begins to wait for its upstream.
    pub(super) fn call(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        let step = self.model.steps[job.step as usize];
        job.step += 1;
        let event = Event::CallOver { job: id };
        self.timers.push(self.now_ns + step.ns, Class::Other, event);
    }

    /// A request goes on where its process runs what is ready.
    pub(super) fn go_on(&mut self, id: u32) {
        let process = self.jobs[id].process as usize;
        self.jobs[id].wants_ns = self.now_ns;
        if self.processes[process].looped.is_some() {
            self.start(process, id);
        } else {
            self.advance(id);
        }
    }

    /// Computes for so long without the GIL.
    pub(super) fn compute_beside(&mut self, id: u32, cpu_ns: u64) {
        self.cores.enter(self.now_ns);
        self.cores.until(self.now_ns, cpu_ns, Stretch::Beside(id));
    }

    /// That is over.
    pub(super) fn beside_over(&mut self, id: u32) {
        self.cores.leave(self.now_ns);
        if std::mem::take(&mut self.jobs[id].placed) {
            self.pool.running -= 1;
            if let Some((next, cpu_ns)) = self.pool.waiting.pop_front() {
                self.placed_waited(next);
                self.begin_in_pool(next, cpu_ns);
            }
        }
        self.go_on(id);
    }

    /// Work for a worker process, of this much CPU.
    pub(super) fn in_pool(&mut self, id: u32, cpu_ns: u64) {
        self.jobs[id].wants_ns = self.now_ns;
        if self.pool.running < self.set_up.pool.max(1) {
            self.begin_in_pool(id, cpu_ns);
        } else {
            self.pool.waiting.push_back((id, cpu_ns));
        }
    }

    /// Work for the process's one native thread, of this much CPU.
    pub(super) fn on_thread(&mut self, id: u32, cpu_ns: u64) {
        let job = &mut self.jobs[id];
        (job.burst_ns, job.left_ns) = (cpu_ns, cpu_ns);
        job.wants_ns = self.now_ns;
        let process = job.process as usize;
        self.processes[process].placed.push_back(id);
        if !self.processes[process].placed_busy {
            self.next_placed(process);
        }
    }

    /// The native thread turns to the next piece of work.
    pub(super) fn next_placed(&mut self, process: usize) {
        let next = self.processes[process].placed.pop_front();
        self.processes[process].placed_busy = next.is_some();
        if let Some(id) = next {
            self.placed_waited(id);
            self.jobs[id].placed = true;
            self.want_cpu(process, id);
        }
    }

    fn begin_in_pool(&mut self, id: u32, cpu_ns: u64) {
        self.pool.running += 1;
        self.jobs[id].placed = true;
        self.compute_beside(id, cpu_ns);
    }

    fn placed_waited(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        let waited_ns = self.now_ns - job.wants_ns;
        job.wants_ns = self.now_ns;
        self.tally
            .add_wait(job.index, job.route, Cause::Placed, waited_ns);
    }
}
