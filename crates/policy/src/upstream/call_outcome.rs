//! What a call's end, or its not ending, says about its key.

use super::breaker::{BreakerState, ProbeResult};
use super::rule::Outcome;
use super::{Call, Upstreams};

impl Upstreams {
    /// Judges the calls in progress that are slow by now. True: that has opened the breaker.
    pub(super) fn overtaken(&mut self, number: u32, now_ns: u64) -> bool {
        let common = self.recent.common();
        let mut opened = false;
        let key = &mut self.keys[number as usize];
        let rule = key.rule.as_deref().unwrap_or(&self.rule);
        let Some(slow_ns) = key.slow_ns(rule) else {
            return false;
        };
        let mut found = false;
        while let Some(&(began_ns, order)) = key.unjudged.first() {
            if now_ns.saturating_sub(began_ns) <= slow_ns {
                break;
            }
            key.unjudged.pop_first();
            if let Some(call) = self
                .orders
                .get_mut(&order)
                .and_then(|known| known.call.as_mut())
            {
                call.slow = true;
            }
            found = true;
            key.counts.slow += 1;
            key.breaker.note_call(true);
            opened |= key.breaker.judge(now_ns, false, !common, rule);
        }
        if opened {
            key.counts.opened += 1;
            key.late.clear();
        }
        if found {
            self.note_answer(number, now_ns);
            self.settle(number, now_ns);
        }
        opened
    }

    pub(super) fn judge(
        &mut self,
        number: u32,
        now_ns: u64,
        call: Call,
        took_ns: u64,
        outcome: Outcome,
        common: bool,
    ) {
        let key = &mut self.keys[number as usize];
        let rule = key.rule.as_deref().unwrap_or(&self.rule);
        let failed = outcome != Outcome::Ok;
        if let Some(turn) = call.probe {
            if !failed && turn == key.breaker.turn() {
                key.probed.push(took_ns);
            }
            match key
                .breaker
                .probe_ended(now_ns, turn, outcome, !common, rule)
            {
                ProbeResult::Undecided => {}
                ProbeResult::Opened => {
                    key.counts.opened += 1;
                    key.late.clear();
                }
                ProbeResult::Closed => {
                    key.limiter
                        .note_probes(now_ns, median(&mut key.probed), rule)
                }
            }
            return;
        }
        if key.breaker.state() != BreakerState::Closed {
            if !failed {
                key.late.push(took_ns);
            }
            if key.breaker.ended_late(outcome, rule) {
                key.limiter.note_probes(now_ns, median(&mut key.late), rule);
            }
            return;
        }
        let slow =
            call.timed && !call.slow && key.slow_ns(rule).is_some_and(|slow_ns| took_ns > slow_ns);
        // One that was found slow while it ran has been counted; that it failed is news.
        if !call.slow || failed {
            key.counts.slow += u64::from(slow);
            key.breaker.note_call(slow);
            if key.breaker.judge(now_ns, failed, slow && !common, rule) {
                key.counts.opened += 1;
                key.late.clear();
            }
        }
        let running = key.running;
        match outcome {
            Outcome::Ok => {
                let slots = self.slots;
                key.limiter
                    .note_success(now_ns, call.began_ns, running, common, rule, slots);
            }
            Outcome::TimedOut | Outcome::Refused => {
                key.limiter
                    .note_drop(now_ns, call.began_ns, running, common, rule);
            }
            Outcome::Failed | Outcome::Cancelled => {}
        }
    }

    pub(super) fn note_answer(&mut self, number: u32, now_ns: u64) {
        let place = self.next_place();
        let key = &mut self.keys[number as usize];
        key.answered_ns = now_ns;
        if key.strange {
            key.strange = false;
            key.turn.rejoin(self.round, place, self.rule.weight);
        }
        if !key.is_recent {
            key.is_recent = true;
            self.recent.push(now_ns, number, key.generation);
        }
    }
}

/// The upper median; 0 of nothing.
fn median(sample: &mut [u64]) -> u64 {
    sample.sort_unstable();
    sample.get(sample.len() / 2).copied().unwrap_or(0)
}
