//! Requests held back before their upstream: begun when the bulkheads let them.

use crate::heap::Class;
use crate::model::Work;
use crate::tally::{Cause, Outcome};
use crate::world::{Event, World};
use greenlane_policy::upstream;

impl<'a> World<'a> {
    /// A request arrives where calls are held back.
    pub(super) fn order(&mut self, id: u32) {
        let key = self.key_of(id);
        self.jobs[id].ordered = true;
        let now_ns = self.now_ns;
        if let Some(bulkheads) = &mut self.bulkheads {
            bulkheads.upstreams.arrive(id.into(), key, now_ns, 0, 0);
        }
        self.begin_orders();
    }

    /// A request that was held back, and begun, has ended.
    pub(super) fn order_over(&mut self, id: u32, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Done => upstream::Outcome::Ok,
            Outcome::Refused => upstream::Outcome::Cancelled,
        };
        let now_ns = self.now_ns;
        if let Some(bulkheads) = &mut self.bulkheads {
            bulkheads.upstreams.end(id.into(), now_ns, outcome);
        }
    }

    /// Begins what may begin.
    pub(super) fn begin_orders(&mut self) {
        loop {
            let now_ns = self.now_ns;
            let Some(bulkheads) = &mut self.bulkheads else {
                return;
            };
            let Some(id) = bulkheads.upstreams.next(now_ns).map(|start| start.order) else {
                break;
            };
            let id = id as u32;
            let job = &self.jobs[id];
            let waited_ns = now_ns - job.arrival_ns;
            self.tally
                .add_wait(job.index, job.route, Cause::Upstream, waited_ns);
            self.place(id);
        }
        self.look_again();
    }

    /// Time alone may let somebody begin.
    pub(super) fn looks(&mut self) {
        if let Some(bulkheads) = &mut self.bulkheads {
            bulkheads.looks_ns = u64::MAX;
        }
        self.begin_orders();
    }

    fn look_again(&mut self) {
        let now_ns = self.now_ns;
        let Some(bulkheads) = &mut self.bulkheads else {
            return;
        };
        // What is parked for too long stays here: there is nowhere to send it to.
        let wake_ns = bulkheads
            .upstreams
            .wake_ns(now_ns)
            .filter(|&at| at > now_ns);
        if let Some(at_ns) = wake_ns.filter(|&at| at < bulkheads.looks_ns) {
            bulkheads.looks_ns = at_ns;
            self.timers.push(at_ns, Class::Other, Event::Looks);
        }
    }

    /// The upstream that a request calls first; its route if it calls none.
    fn key_of(&self, id: u32) -> &'a str {
        let (model, job) = (self.model, &self.jobs[id]);
        let steps = &model.steps[job.step as usize..job.end as usize];
        let called = steps.iter().find_map(|step| match step.work {
            Work::Io { upstream } => upstream,
            _ => None,
        });
        match called {
            Some(upstream) => &model.upstreams[upstream as usize],
            None => &model.routes[job.route as usize].name,
        }
    }
}
