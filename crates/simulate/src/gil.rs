//! Who waits for a GIL, and to whom it goes: CPython's `take_gil` and `drop_gil` over a condition variable of glibc.
//!
//! Who waits does so for one switch interval at a time. If the GIL has not changed hands in it, the waiter then asks
//! the holder to drop it; in any case it waits again, behind all others, because the condition variable goes by who has
//! begun to wait first and a wait that has run out has left it. From this follows who is next:
//!
//! - Who comes in the middle of a turn (from an upstream) is next, however many compute: by the end of the turn they
//!   have all started over, behind him.
//! - Who begins to wait when the GIL changes hands (it was dropped, or lost in a short call) is behind all of them.
//!
//! Sources: Python/ceval_gil.h of 3.11 (ceval_gil.c since 3.12). nptl/pthread_cond_wait.c of glibc 2.34: waiters
//! stand in two groups, newcomers join the younger, signals go to the older until it is used up; a wait that runs out
//! leaves its group. Within a group glibc promises no order; Linux's kernel/futex wakes threads of ordinary priority in
//! that of arrival. The futex and scheduling events of three threads that compute and one that sleeps, recorded with
//! perf, show the same: all 153 signals woke the one whose present wait was the oldest. Other C libraries may differ.

use std::collections::VecDeque;

/// Waiters that are told apart, at most; those behind move up as these leave. More threads than a pool usually has.
const TOLD_APART: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Waiter {
    who: u32,
    /// A wait of its: when it began, and when it runs out. From then on it waits for one interval at a time.
    since_ns: u64,
    until_ns: u64,
}

impl Waiter {
    /// Waits that have run out by then, from this one on.
    fn over(&self, at_ns: u64, interval_ns: u64) -> u64 {
        (at_ns + interval_ns).saturating_sub(self.until_ns) / interval_ns
    }

    /// When its present wait began.
    fn present_ns(&self, now_ns: u64, interval_ns: u64) -> u64 {
        match self.over(now_ns, interval_ns) {
            0 => self.since_ns,
            over => self.until_ns + (over - 1) * interval_ns,
        }
    }
}

/// See the module. One interval is in force for all, but a wait that has begun keeps the one that it began with.
#[derive(Clone, Debug)]
pub struct Waiters {
    /// By when they came.
    waiting: VecDeque<Waiter>,
    switched_ns: u64,
    interval_ns: u64,
    /// Waits that have run out, and threads that were woken for nothing, by then; None = not counted.
    wakes: Option<u64>,
    counted_ns: u64,
}

impl Waiters {
    /// `interval_ns`: more than 0. `counts`: [`Waiters::wakes`] is asked for.
    pub fn new(interval_ns: u64, counts: bool) -> Self {
        Self {
            waiting: VecDeque::new(),
            switched_ns: 0,
            interval_ns,
            wakes: counts.then_some(0),
            counted_ns: 0,
        }
    }

    /// For how long one waits before it asks, ns.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Another interval is in force. Of very many, those who are not told apart yet have waited by it all along.
    pub fn set_interval(&mut self, now_ns: u64, interval_ns: u64) {
        if interval_ns == self.interval_ns {
            return;
        }
        self.wakes(now_ns);
        for one in self.waiting.iter_mut().take(TOLD_APART) {
            if one.until_ns <= now_ns {
                let since_ns = one.present_ns(now_ns, self.interval_ns);
                one.until_ns = since_ns + self.interval_ns;
                // Before a switch at that instant: turns are a little longer than intervals.
                one.since_ns = since_ns - 1;
            }
        }
        self.interval_ns = interval_ns;
    }

    /// How often threads have woken and not got the GIL so far, which is what they switch for beside their work. Those
    /// that are not told apart yet do not count: with that many threads the wakes are too many in any case.
    pub fn wakes(&mut self, now_ns: u64) -> u64 {
        let Some(before) = self.wakes else { return 0 };
        let told_apart = self.waiting.iter().take(TOLD_APART);
        let wakes = before
            + told_apart
                .map(|one| self.since_counted(one, now_ns))
                .sum::<u64>();
        (self.wakes, self.counted_ns) = (Some(wakes), now_ns);
        wakes
    }

    /// One more begins to wait.
    pub fn push(&mut self, who: u32, now_ns: u64) {
        self.waiting.push_back(Waiter {
            who,
            since_ns: now_ns,
            until_ns: now_ns + self.interval_ns,
        });
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The GIL has changed hands.
    pub fn note_switch(&mut self, now_ns: u64) {
        self.switched_ns = now_ns;
    }

    /// When somebody asks for the GIL if it does not change hands before; None = nobody waits.
    pub fn asked_ns(&self) -> Option<u64> {
        Some(self.asks_ns(self.waiting[self.asker()?]))
    }

    /// Takes out whom a signal wakes: whose present wait began first.
    pub fn pop(&mut self, now_ns: u64) -> Option<u32> {
        let first = self.first(now_ns)?;
        if let Some(wakes) = self.wakes {
            self.wakes = Some(wakes + self.since_counted(&self.waiting[first], now_ns));
        }
        self.waiting.remove(first).map(|one| one.who)
    }

    fn since_counted(&self, one: &Waiter, now_ns: u64) -> u64 {
        one.over(now_ns, self.interval_ns) - one.over(self.counted_ns, self.interval_ns)
    }

    /// Of those alike, who came first: in truth it runs out first, by what a turn is longer than an interval.
    fn first(&self, now_ns: u64) -> Option<usize> {
        self.least(|one| one.present_ns(now_ns, self.interval_ns))
    }

    fn asker(&self) -> Option<usize> {
        self.least(|one| self.asks_ns(one))
    }

    fn least(&self, of: impl Fn(Waiter) -> u64) -> Option<usize> {
        match self.waiting.len() {
            0 => None,
            1 => Some(0),
            count => (0..count.min(TOLD_APART)).min_by_key(|&at| of(self.waiting[at])),
        }
    }

    /// When its first wait runs out that does not reach back to before the last switch. A wait that starts over just then
    /// does reach back: turns are a little longer than intervals.
    fn asks_ns(&self, one: Waiter) -> u64 {
        if one.since_ns >= self.switched_ns {
            return one.until_ns;
        }
        let reaching_back = one.over(self.switched_ns, self.interval_ns);
        one.until_ns + (reaching_back + 1) * self.interval_ns
    }
}

#[cfg(test)]
mod tests {
    //! With one interval all along `tests/plan/test_simulation_reference.py` has a model of every timer beside it.

    use super::*;

    const MS: u64 = 1_000_000;
    const INTERVAL: u64 = 5 * MS;

    fn waiting(since_ms: &[u64]) -> Waiters {
        let mut waiters = Waiters::new(INTERVAL, true);
        for (who, &ms) in since_ms.iter().enumerate() {
            waiters.push(who as u32, ms * MS);
        }
        waiters
    }

    #[test]
    fn only_a_wait_without_a_switch_asks() {
        let mut waiters = waiting(&[1]);
        // It runs out at 6 and 11 ms. A switch at 4 is inside the first.
        waiters.note_switch(4 * MS);
        assert_eq!(waiters.asked_ns(), Some(11 * MS));
        // One that comes after the switch asks sooner than one that waits for longer; the older one is next.
        waiters.push(8, 5 * MS);
        assert_eq!(waiters.asked_ns(), Some(10 * MS));
        assert_eq!(waiters.pop(10 * MS), Some(0));
    }

    #[test]
    fn a_wait_that_has_begun_keeps_its_interval() {
        let mut waiters = waiting(&[0]);
        waiters.set_interval(2 * MS, MS);
        assert_eq!(waiters.asked_ns(), Some(5 * MS));
        waiters.push(9, 2 * MS);
        assert_eq!(waiters.asked_ns(), Some(3 * MS));
    }

    #[test]
    fn a_change_finds_those_who_wait_in_their_present_wait() {
        let mut waiters = waiting(&[0, 1, 3]);
        waiters.note_switch(11 * MS);
        let mut same = waiters.clone();
        // They have started over at 10, 11 and 8 ms.
        waiters.set_interval(12 * MS, MS);
        assert_eq!(waiters.asked_ns(), Some(14 * MS));
        waiters.set_interval(12 * MS + 1, INTERVAL);
        assert_eq!(waiters.asked_ns(), same.asked_ns());
        for who in [2, 0, 1] {
            assert_eq!(waiters.pop(12 * MS + 2), Some(who));
            assert_eq!(same.pop(12 * MS + 2), Some(who));
        }
    }

    #[test]
    fn each_wait_that_runs_out_is_counted_once() {
        let mut waiters = waiting(&[0, 0, 1]);
        assert_eq!(waiters.wakes(4 * MS), 0);
        assert_eq!(waiters.wakes(12 * MS), 6);
        waiters.set_interval(12 * MS, MS);
        assert_eq!(waiters.wakes(14 * MS), 6);
        assert_eq!(waiters.wakes(16 * MS), 6 + 2 + 2 + 1);
        // Who leaves has been woken for something.
        assert_eq!(waiters.pop(18 * MS + MS / 2), Some(0));
        assert_eq!(waiters.wakes(18 * MS + MS / 2), 11 + 6);
        let mut uncounted = Waiters::new(INTERVAL, false);
        uncounted.push(0, 0);
        assert_eq!(uncounted.wakes(99 * MS), 0);
    }

    #[test]
    fn of_very_many_the_first_are_told_apart() {
        let mut waiters = waiting(&[0; 1000]);
        waiters.push(2000, MS);
        assert_eq!(waiters.pop(5 * MS), Some(0));
        assert_eq!(waiters.len(), 1000);
    }
}
