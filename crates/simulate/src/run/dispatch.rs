//! Which process gets a request, and when.

use crate::jobs::Between;
use crate::looped;
use crate::set_up::{Host, Kind, Queue};
use crate::tally::{Cause, Outcome};
use crate::world::World;
use greenlane_policy::threads::{is_heavy, next_queue, PoolQueue};
use std::collections::VecDeque;

/// asyncio accepts up to this many connections at one wake-up of its socket.
const BACKLOG: u32 = 100;

impl World<'_> {
    /// A request has come.
    pub(super) fn place(&mut self, id: u32) {
        let lane = self.lane_of(id);
        match self.set_up.queue {
            Queue::Central => {
                self.front.queues[lane].push_back(id);
                self.dispatch();
            }
            Queue::Accept => self.open(id),
        }
    }

    /// A new connection has come, with a request.
    pub(super) fn open(&mut self, id: u32) {
        let lane = self.lane_of(id);
        if self.set_up.host.loops() {
            let group = self.front.group_of[self.front.groups[lane][0]];
            self.front.accepting[group].push_back(id);
            self.listen_all(lane);
            return;
        }
        let process = self.choose_process(lane);
        self.jobs[id].process = process as u32;
        self.processes[process].in_flight += 1;
        self.front.in_progress[lane] += 1;
        if self.processes[process].looped.is_some() {
            self.looped(process).accepting.push_back(id);
            self.listen(process);
        } else {
            let (route, one) = (self.jobs[id].route as usize, &mut self.processes[process]);
            let permits = one.permits.as_ref();
            let is_heavy = permits.is_some_and(|permits| is_heavy(permits.asked[route]));
            let line = if is_heavy {
                &mut one.heavy
            } else {
                &mut one.light
            };
            line.push_back(id);
            self.next_thread(process);
        }
    }

    /// Gives a thread that is free to one who waits for it, by production's rule.
    fn next_thread(&mut self, process: usize) {
        let one = &self.processes[process];
        let most = match self.set_up.limit {
            0 => usize::MAX,
            most => most as usize,
        };
        let came = |line: &VecDeque<u32>| line.front().map(|&id| self.jobs[id].index);
        let waiting = one.permits.as_ref().map_or(0, |own| own.queue.waiting());
        let busy = one.in_progress as usize;
        let turn = next_queue(most, busy, came(&one.light), came(&one.heavy), waiting);
        let one = &mut self.processes[process];
        let line = match turn {
            Some(PoolQueue::Heavy) => &mut one.heavy,
            Some(PoolQueue::Light) => &mut one.light,
            None => return,
        };
        if let Some(id) = line.pop_front() {
            self.take(process, id);
        }
    }

    /// Gives those who wait in the central queue to processes with room.
    pub(super) fn dispatch(&mut self) {
        while let Some((lane, process)) = self.next_of_queue() {
            let Some(id) = self.front.queues[lane].pop_front() else {
                return;
            };
            self.jobs[id].process = process as u32;
            self.front.in_progress[lane] += 1;
            self.processes[process].in_flight += 1;
            self.take(process, id);
        }
    }

    /// A process gives a place to a request, which has come on a connection that is open.
    pub(super) fn take(&mut self, process: usize, id: u32) {
        self.processes[process].in_progress += 1;
        self.start(process, id);
    }

    /// A request is there for a process that has a place for it.
    pub(super) fn start(&mut self, process: usize, id: u32) {
        match &mut self.processes[process].looped {
            Some(looped) => {
                looped.ready(looped::LoopTurn::Run(id));
                self.loop_wakes(process);
            }
            None if self.set_up.costs.door_releases == 0 => self.let_in(id),
            None => {
                self.processes[process].door.push_back(id);
                if !self.processes[process].door_busy {
                    self.take_in(process, false);
                }
            }
        }
    }

    /// The thread that accepts takes the next requests in. `has_gil`: it comes from the one before.
    pub(super) fn take_in(&mut self, process: usize, mut has_gil: bool) {
        loop {
            let one = &mut self.processes[process];
            let next = one.door.pop_front();
            one.door_busy = next.is_some();
            let idles = one.idles();
            let Some(id) = next else {
                return;
            };
            let job = &mut self.jobs[id];
            job.between = Some(Between::Starting);
            job.releases = self.set_up.costs.door_releases;
            if !has_gil && !idles {
                job.releases -= 1;
                job.wants_ns = self.now_ns;
                return self.want_cpu(process, id);
            }
            if !self.has_passed(id) {
                return;
            }
            self.jobs[id].between = None;
            self.let_in(id);
            has_gil = self.processes[process].turning;
        }
    }

    /// A thread begins a request, unless it refuses it.
    pub(super) fn let_in(&mut self, id: u32) {
        if !self.pick_up(id) {
            return;
        }
        let releases = self.set_up.costs.request_releases;
        if releases == 0 {
            return self.advance(id);
        }
        let job = &mut self.jobs[id];
        (job.between, job.releases) = (Some(Between::Reading), releases);
        job.burst_ns = job.left_ns;
        let process = job.process as usize;
        self.want_cpu(process, id);
    }

    /// A process begins a request. False: it has refused it.
    pub(super) fn pick_up(&mut self, id: u32) -> bool {
        let lane = self.lane_of(id);
        let job = &mut self.jobs[id];
        job.fresh = false;
        job.began_ns = self.now_ns;
        job.wants_ns = self.now_ns;
        job.left_ns = self.set_up.costs.dispatch_ns;
        let waited_ns = self.now_ns - job.arrival_ns;
        self.tally
            .add_wait(job.index, job.route, Cause::Queue, waited_ns);
        let (arrival_ns, due_ns) = (job.arrival_ns, job.due_ns);
        let sheds = &mut self.processes[job.process as usize].sheds;
        let refuses = sheds
            .get_mut(lane)
            .is_some_and(|shed| shed.refuses(arrival_ns, due_ns, self.now_ns));
        if refuses {
            self.finish(id, Outcome::Refused);
        }
        !refuses
    }

    /// A process's loop takes connections from its socket.
    pub(super) fn accept(&mut self, process: usize) {
        // gunicorn's gevent workers take one at a time if there are several; gevent alone as many as asyncio.
        let one = matches!(self.set_up.host, Host::Gevent) && self.set_up.processes > 1;
        let most = if one { 1 } else { BACKLOG };
        let group = self.front.group_of[process];
        self.looped(process).listening = false;
        for _ in 0..most {
            if !self.has_room(process) {
                return;
            }
            let own = self.looped(process).accepting.pop_front();
            let shared = own.is_none();
            let Some(id) = own.or_else(|| self.front.accepting[group].pop_front()) else {
                return;
            };
            if shared {
                let lane = self.lane_of(id);
                self.jobs[id].process = process as u32;
                self.processes[process].in_flight += 1;
                self.front.in_progress[lane] += 1;
            }
            self.processes[process].in_progress += 1;
            match self.set_up.host {
                Host::Gevent => self.looped(process).call_back(looped::LoopTurn::Run(id)),
                _ => self.looped(process).ready(looped::LoopTurn::Run(id)),
            }
        }
        self.listen(process);
    }

    /// A process has a place more.
    pub(super) fn place_free(&mut self, process: usize) {
        self.processes[process].in_progress -= 1;
        if self.set_up.queue == Queue::Central {
            self.dispatch();
        } else if self.processes[process].looped.is_some() {
            self.listen(process);
        } else {
            self.next_thread(process);
            // The queue at the permit may have gone: then one more need not wait any longer.
            self.next_thread(process);
        }
    }

    pub(super) fn lane_of(&self, id: u32) -> usize {
        self.set_up.lane_of[self.jobs[id].route as usize]
    }

    fn has_room(&self, process: usize) -> bool {
        let limit = self.set_up.limit;
        limit == 0 || self.processes[process].in_progress < limit
    }

    /// A process's next poll finds its socket, if somebody waits there and it would take him.
    fn listen(&mut self, process: usize) {
        let waits = !self.front.accepting[self.front.group_of[process]].is_empty();
        let room = self.has_room(process);
        let looped = self.looped(process);
        let nobody = !waits && looped.accepting.is_empty();
        if looped.listening || !room || nobody {
            return;
        }
        looped.listening = true;
        looped.ready(looped::LoopTurn::Accept);
        self.loop_wakes(process);
    }

    /// One of the idle processes of a lane sees the socket of all; while none idles, each does at its next poll.
    fn listen_all(&mut self, lane: usize) {
        let idles = |world: &Self, process: usize| {
            world.has_room(process)
                && world.processes[process]
                    .looped
                    .as_ref()
                    .is_some_and(|looped| looped.idle)
        };
        let group = self.front.groups[lane].clone();
        let idle: Vec<usize> = group
            .iter()
            .copied()
            .filter(|&process| idles(self, process))
            .collect();
        match idle.len() {
            0 => group.iter().for_each(|&process| self.listen(process)),
            count => {
                let process = idle[self.front.choose(count)];
                self.listen(process);
            }
        }
    }

    /// The thread that looks first: of a process that idles, else of the one with the fewest who want its CPU.
    fn choose_process(&mut self, lane: usize) -> usize {
        let group = &self.front.groups[lane];
        let count = group.len();
        if count == 1 {
            return group[0];
        }
        let first = self.front.choose(count);
        let group = &self.front.groups[lane];
        let wanting = |&process: &usize| {
            let one = &self.processes[process];
            u32::from(!one.idles()) + one.line.len() as u32
        };
        let around = (0..count).map(|step| group[(first + step) % count]);
        around.min_by_key(wanting).unwrap_or(group[first])
    }

    /// Who leaves the central queue now, for which process.
    fn next_of_queue(&self) -> Option<(usize, usize)> {
        let mut best: Option<((i64, u64), usize, usize)> = None;
        for (lane, queue) in self.front.queues.iter().enumerate() {
            let Some(&head) = queue.front() else {
                continue;
            };
            let key = (-self.set_up.lanes[lane].priority, self.jobs[head].index);
            if best.is_some_and(|(first, _, _)| first < key) || !self.may_begin(lane) {
                continue;
            }
            if let Some(process) = self.with_room(lane) {
                best = Some((key, lane, process));
            }
        }
        best.map(|(_, lane, process)| (lane, process))
    }

    fn with_room(&self, lane: usize) -> Option<usize> {
        let open = self.front.groups[lane].iter().copied().filter(|&process| {
            let one = &self.processes[process];
            one.in_progress < one.at_once
        });
        open.min_by_key(|&process| self.processes[process].in_progress)
    }

    /// Whether one more of a lane may be in progress: not in what is kept for others.
    fn may_begin(&self, lane: usize) -> bool {
        let lanes = &self.set_up.lanes;
        let rule = &lanes[lane];
        let here = self.front.in_progress[lane];
        let keeps = |other: usize| {
            let one = &lanes[other];
            other != lane && one.kind == Kind::Soft && one.processes > 0
        };
        if rule.kind == Kind::Hard || !(0..lanes.len()).any(keeps) {
            return true;
        }
        let group = &self.front.groups[lane];
        let kept: usize = (0..lanes.len())
            .filter(|&other| keeps(other))
            .map(|other| lanes[other].processes)
            .sum();
        let shared: u32 = group
            .iter()
            .take(group.len().saturating_sub(kept))
            .map(|&process| self.processes[process].at_once)
            .sum();
        let used: u32 = if rule.processes > 0 {
            here
        } else {
            let without =
                |other: &usize| lanes[*other].kind != Kind::Hard && lanes[*other].processes == 0;
            (0..lanes.len())
                .filter(without)
                .map(|other| self.front.in_progress[other])
                .sum()
        };
        used < shared
    }
}
