//! Processes whose requests run on one loop.

use crate::looped::{LoopTurn, Looped};
use crate::process::LOOP;
use crate::world::World;

impl World<'_> {
    /// The loop of a process that has one.
    pub(super) fn looped(&mut self, process: usize) -> &mut Looped {
        self.processes[process]
            .looped
            .as_mut()
            .expect("a process of this host has a loop")
    }

    /// Something is ready: an idle loop's poll ends.
    pub(super) fn loop_wakes(&mut self, process: usize) {
        let looped = self.looped(process);
        if !std::mem::take(&mut looped.idle) {
            return;
        }
        if self.loop_turns(process) {
            self.want_cpu(process, LOOP);
        } else {
            self.looped(process).idle = true;
        }
    }

    /// The burst that the loop ran is over. Gives the loop, if it goes on without giving the GIL to somebody who waits.
    pub(super) fn loop_goes_on(&mut self, process: usize) -> Option<u32> {
        self.looped(process).take_polled();
        if !self.loop_turns(process) {
            self.looped(process).idle = true;
            return None;
        }
        let polled = self.looped(process).take_polled();
        let waits = !self.processes[process].line.is_empty();
        if polled && waits {
            self.processes[process].line.push(LOOP, self.now_ns);
            return None;
        }
        Some(LOOP)
    }

    /// Runs what is ready up to the next burst. False: nothing is.
    fn loop_turns(&mut self, process: usize) -> bool {
        loop {
            let now_ns = self.now_ns;
            let Some(turn) = self.looped(process).next(now_ns) else {
                return false;
            };
            match turn {
                LoopTurn::Run(id) => {
                    if !self.jobs[id].fresh || self.pick_up(id) {
                        self.advance(id);
                    }
                }
                LoopTurn::Accept => self.accept(process),
            }
            if self.looped(process).job.is_some() {
                return true;
            }
        }
    }
}
