//! Processes whose requests run on one loop.

use crate::jobs::Origin;
use crate::looped::{Looped, Pool, Turn};
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
        if polled && waits && !self.keeps_gil(process) {
            self.processes[process].line.push(LOOP, self.now_ns);
            return None;
        }
        Some(LOOP)
    }

    /// Fills a pool of a closed loop on gevent: who spawns goes on until it has no room.
    pub(super) fn fill_pool(&mut self, places: u32) {
        let free = (0..places).map(|place| (place, 0)).collect();
        self.looped(0).pool = Some(Pool {
            room: places,
            told: false,
            free,
        });
        self.spawn();
        self.loop_wakes(0);
    }

    /// A greenlet of a pool has ended: its place is free, which its spawner learns by a callback.
    pub(super) fn pool_freed(&mut self, place: u32) {
        let now_ns = self.now_ns;
        let looped = self.looped(0);
        if let Some(pool) = &mut looped.pool {
            pool.free.push_back((place, now_ns));
            looped.call_back(Turn::Ended);
        }
    }

    /// Runs what is ready up to the next burst. False: nothing is.
    fn loop_turns(&mut self, process: usize) -> bool {
        loop {
            let now_ns = self.now_ns;
            let Some(turn) = self.looped(process).next(now_ns) else {
                return false;
            };
            match turn {
                Turn::Run(id) => {
                    if !self.jobs[id].fresh || self.pick_up(id) {
                        self.advance(id);
                    }
                }
                Turn::Accept => self.accept(process),
                Turn::Ended => self.pool_ended(),
                Turn::Room => {
                    if let Some(pool) = &mut self.looped(0).pool {
                        pool.told = false;
                    }
                    self.spawn();
                }
            }
            if self.looped(process).job.is_some() {
                return true;
            }
        }
    }

    fn pool_ended(&mut self) {
        let looped = self.looped(0);
        if let Some(pool) = &mut looped.pool {
            pool.room += 1;
            if !std::mem::replace(&mut pool.told, true) {
                looped.call_back(Turn::Room);
            }
        }
    }

    fn spawn(&mut self) {
        loop {
            let Some(pool) = &mut self.looped(0).pool else {
                return;
            };
            if pool.room == 0 {
                return;
            }
            let Some((place, free_ns)) = pool.free.pop_front() else {
                return;
            };
            pool.room -= 1;
            let route = self.source.route();
            let id = self.create(route, free_ns, Origin::Place(place), None);
            let lane = self.lane_of(id);
            self.front.entered(lane);
            let one = &mut self.processes[0];
            one.in_flight += 1;
            one.in_progress += 1;
            self.looped(0).call_back(Turn::Run(id));
        }
    }
}
