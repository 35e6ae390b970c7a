//! Who waits for a GIL, and to whom it goes: CPython's `take_gil` and `drop_gil` over a condition variable of glibc.
//!
//! Who waits does so for one switch interval at a time. If the GIL has not changed hands in it, the waiter then asks
//! the holder to drop it; in any case it waits anew, behind all others, because the condition variable goes by who has
//! begun to wait first and a wait that has run out has left it. From this follows who is next:
//!
//! - Who comes in the middle of a turn (from an upstream) is next, however many compute: by the end of the turn they
//!   have all begun anew, behind him.
//! - Who begins to wait when the GIL changes hands (it was dropped, or lost in a short call) is behind all of them.
//! - Who has asked may find the GIL free before the one that was woken gets there, and then has it.
//! - Who is woken and finds the GIL taken again waits anew as well.
//!
//! Sources: Python/ceval_gil.h of 3.11 (ceval_gil.c since 3.12). nptl/pthread_cond_wait.c of glibc 2.34: waiters
//! stand in two groups, newcomers join the younger, signals go to the older until it is used up; a wait that runs out
//! leaves its group. Within a group glibc promises no order; Linux's kernel/futex wakes threads of ordinary priority in
//! that of arrival. The futex and scheduling events of three threads that compute and one that sleeps, recorded with
//! perf, show the same: all 153 signals woke the one whose present wait was the oldest. Other C libraries may differ.

use std::collections::VecDeque;

/// So many are told apart; those behind them come up as these leave. More threads than a pool usually has.
const TOLD_APART: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Waiter {
    who: u32,
    since_ns: u64,
}

/// See the module. An interval is more than 0 and the same for all.
#[derive(Clone, Debug, Default)]
pub struct Waiters {
    /// By when they came.
    waiting: VecDeque<Waiter>,
    switched_ns: u64,
}

impl Waiters {
    /// One more begins to wait.
    pub fn push(&mut self, who: u32, now_ns: u64) {
        let since_ns = now_ns;
        self.waiting.push_back(Waiter { who, since_ns });
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The GIL has changed hands.
    pub fn switched(&mut self, now_ns: u64) {
        self.switched_ns = now_ns;
    }

    /// When somebody asks for the GIL if it does not change hands before; None = nobody waits.
    pub fn asked_ns(&self, interval_ns: u64) -> Option<u64> {
        let asker = self.asker(interval_ns)?;
        Some(self.whole_ns(self.waiting[asker], interval_ns) + interval_ns)
    }

    /// Takes out whom a signal wakes: whose present wait began first.
    pub fn pop(&mut self, now_ns: u64, interval_ns: u64) -> Option<u32> {
        self.remove(self.first(now_ns, interval_ns)?)
    }

    /// Takes out who has asked.
    pub fn pop_asker(&mut self, interval_ns: u64) -> Option<u32> {
        self.remove(self.asker(interval_ns)?)
    }

    /// Whom a signal has woken found the GIL taken, and waits anew.
    pub fn missed(&mut self, now_ns: u64, interval_ns: u64) {
        if let Some(first) = self.first(now_ns, interval_ns) {
            self.waiting[first].since_ns = now_ns;
        }
    }

    fn remove(&mut self, index: usize) -> Option<u32> {
        self.waiting.remove(index).map(|one| one.who)
    }

    /// Of those alike, who came first: in truth it runs out first, by what a turn is longer than an interval.
    fn first(&self, now_ns: u64, interval_ns: u64) -> Option<usize> {
        let present_ns = |one: Waiter| (now_ns - one.since_ns) % interval_ns;
        self.least(|one| interval_ns - present_ns(one))
    }

    fn asker(&self, interval_ns: u64) -> Option<usize> {
        self.least(|one| self.whole_ns(one, interval_ns))
    }

    fn least(&self, of: impl Fn(Waiter) -> u64) -> Option<usize> {
        match self.waiting.len() {
            0 => None,
            1 => Some(0),
            count => (0..count.min(TOLD_APART)).min_by_key(|&at| of(self.waiting[at])),
        }
    }

    /// When its first wait begins that does not reach back to before the last switch. A wait that begins anew just then
    /// does reach back: turns are a little longer than intervals.
    fn whole_ns(&self, one: Waiter, interval_ns: u64) -> u64 {
        if one.since_ns >= self.switched_ns {
            return one.since_ns;
        }
        let waited_ns = self.switched_ns - one.since_ns;
        one.since_ns + (waited_ns / interval_ns + 1) * interval_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const INTERVAL: u64 = 5 * MS;

    /// Turns of threads that only compute, from a switch at 0; `waiters` came at these ms. Gives who holds the GIL, with
    /// the ms of its turn, until one of `until` does.
    fn turns(waiters: &mut Waiters, mut holder: u32, until: u32) -> Vec<(u32, u64)> {
        let (mut found, mut began_ns) = (Vec::new(), 0);
        while holder != until {
            let at_ns = waiters.asked_ns(INTERVAL).unwrap_or(u64::MAX);
            found.push((holder, (at_ns - began_ns) / MS));
            waiters.push(holder, at_ns);
            holder = waiters.pop(at_ns, INTERVAL).unwrap_or(until);
            waiters.switched(at_ns);
            began_ns = at_ns;
        }
        found
    }

    fn waiting(since_ms: &[u64]) -> Waiters {
        let mut waiters = Waiters::default();
        for (who, &ms) in since_ms.iter().enumerate() {
            waiters.push(who as u32, ms * MS);
        }
        waiters
    }

    #[test]
    fn nobody_asks_where_nobody_waits() {
        let mut waiters = Waiters::default();
        assert_eq!(waiters.asked_ns(INTERVAL), None);
        assert_eq!(
            (waiters.pop(7, INTERVAL), waiters.pop_asker(INTERVAL)),
            (None, None)
        );
        waiters.missed(7, INTERVAL);
        assert_eq!(waiters.len(), 0);
    }

    #[test]
    fn threads_that_only_compute_take_turns_of_an_interval() {
        let mut waiters = waiting(&[0, 0, 0]);
        waiters.push(9, 0);
        let found = turns(&mut waiters, 7, 9);
        assert_eq!(found, [(7, 5), (0, 5), (1, 5), (2, 5)]);
    }

    #[test]
    fn who_comes_in_the_middle_of_a_turn_is_next_however_many_compute() {
        for count in [1, 3, 20] {
            let mut waiters = waiting(&vec![0; count]);
            waiters.push(99, 2 * MS);
            assert_eq!(turns(&mut waiters, 98, 99), [(98, 5)], "{count}");
        }
    }

    #[test]
    fn who_begins_to_wait_with_a_switch_is_behind_all_who_compute() {
        let mut waiters = waiting(&[1, 2, 3]);
        waiters.switched(4 * MS);
        waiters.push(99, 4 * MS);
        let holders: Vec<u32> = turns(&mut waiters, 98, 99)
            .iter()
            .map(|turn| turn.0)
            .collect();
        assert_eq!(holders, [98, 0, 1, 2]);
    }

    #[test]
    fn only_a_wait_without_a_switch_asks() {
        let mut waiters = waiting(&[1]);
        // It runs out at 6 and 11 ms. A switch at 4 is inside the first.
        waiters.switched(4 * MS);
        assert_eq!(waiters.asked_ns(INTERVAL), Some(11 * MS));
        // One that comes after the switch asks sooner, whoever waits for longer; the older one is next.
        waiters.push(8, 5 * MS);
        assert_eq!(waiters.asked_ns(INTERVAL), Some(10 * MS));
        let mut other = waiters.clone();
        assert_eq!(waiters.pop(10 * MS, INTERVAL), Some(0));
        assert_eq!(other.pop_asker(INTERVAL), Some(8));
    }

    #[test]
    fn who_was_woken_for_nothing_waits_anew() {
        let mut waiters = waiting(&[0, 1]);
        waiters.missed(3 * MS, INTERVAL);
        assert_eq!(waiters.asked_ns(INTERVAL), Some(6 * MS));
        assert_eq!(waiters.pop(4 * MS, INTERVAL), Some(1));
        assert_eq!(waiters.pop(4 * MS, INTERVAL), Some(0));
    }

    #[test]
    fn of_very_many_the_first_are_told_apart() {
        let mut waiters = waiting(&[0; 1000]);
        waiters.push(2000, MS);
        assert_eq!(waiters.pop(5 * MS, INTERVAL), Some(0));
        assert_eq!(waiters.len(), 1000);
    }
}
