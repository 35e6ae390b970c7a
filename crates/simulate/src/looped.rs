//! In which order a loop runs what is ready: gevent's, and asyncio's.
//!
//! gevent: all queued callbacks, then a poll, then everything that the poll found, as one batch. New greenlets, and the
//! news that one has ended, are callbacks: they go before requests whose network is ready, however long those have been
//! ready. Only after 50 callbacks, if 5 ms have passed, the rest waits for a poll (`_run_callbacks` in gevent's
//! src/gevent/libev/corecext.pyx). asyncio: the same without callbacks; what a poll found runs in order of readiness.

use std::collections::VecDeque;

/// gevent looks at the clock after this many callbacks …
const CALLBACKS: u32 = 50;
/// … and leaves the rest for after a poll if this has passed since the first, ns.
const INTERVAL_NS: u64 = 5_000_000;

/// Something for the loop to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopTurn {
    /// This job begins or goes on.
    Run(u32),
    /// New connections are taken.
    Accept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Callbacks,
    Poll,
    Batch,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Looped {
    phase: Phase,
    callbacks: VecDeque<LoopTurn>,
    left: u32,
    began_ns: u64,
    /// What the next poll finds.
    ready: VecDeque<LoopTurn>,
    batch: VecDeque<LoopTurn>,
    polled: bool,
    /// It waits in its poll.
    pub idle: bool,
    /// Whose burst it runs.
    pub job: Option<u32>,
    /// Its listening socket is among what the next poll finds.
    pub listening: bool,
    /// Connections that wait at its socket.
    pub accepting: VecDeque<u32>,
}

impl Default for Looped {
    fn default() -> Self {
        Self {
            phase: Phase::Poll,
            callbacks: VecDeque::new(),
            left: CALLBACKS,
            began_ns: 0,
            ready: VecDeque::new(),
            batch: VecDeque::new(),
            polled: false,
            idle: true,
            job: None,
            listening: false,
            accepting: VecDeque::new(),
        }
    }
}

impl Looped {
    /// Queues a callback.
    pub fn call_back(&mut self, turn: LoopTurn) {
        self.callbacks.push_back(turn);
    }

    /// The next poll finds this.
    pub fn ready(&mut self, turn: LoopTurn) {
        self.ready.push_back(turn);
    }

    /// What runs now, given that nothing runs; None = it waits in its poll.
    pub fn next(&mut self, now_ns: u64) -> Option<LoopTurn> {
        loop {
            match self.phase {
                Phase::Callbacks => {
                    if self.left == 0 {
                        if now_ns - self.began_ns >= INTERVAL_NS {
                            self.phase = Phase::Poll;
                            continue;
                        }
                        self.left = CALLBACKS;
                    }
                    if let Some(turn) = self.callbacks.pop_front() {
                        self.left -= 1;
                        return Some(turn);
                    }
                    self.phase = Phase::Poll;
                }
                Phase::Poll => {
                    self.polled = true;
                    if self.ready.is_empty() && self.callbacks.is_empty() {
                        return None;
                    }
                    std::mem::swap(&mut self.ready, &mut self.batch);
                    self.phase = Phase::Batch;
                }
                Phase::Batch => {
                    if let Some(turn) = self.batch.pop_front() {
                        return Some(turn);
                    }
                    self.phase = Phase::Callbacks;
                    (self.left, self.began_ns) = (CALLBACKS, now_ns);
                }
            }
        }
    }

    /// Whether it has polled since this was last asked: then others had a chance to take the GIL.
    pub fn take_polled(&mut self) -> bool {
        std::mem::take(&mut self.polled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_go_before_what_became_ready_earlier() {
        let mut looped = Looped::default();
        looped.ready(LoopTurn::Run(1));
        assert_eq!(looped.next(0), Some(LoopTurn::Run(1)));
        looped.ready(LoopTurn::Run(2));
        looped.call_back(LoopTurn::Run(3));
        assert_eq!(looped.next(1), Some(LoopTurn::Run(3)));
        assert_eq!(looped.next(2), Some(LoopTurn::Run(2)));
        assert_eq!(looped.next(3), None);
    }

    #[test]
    fn a_batch_ends_before_what_became_ready_during_it() {
        let mut looped = Looped::default();
        looped.ready(LoopTurn::Run(1));
        looped.ready(LoopTurn::Run(2));
        assert_eq!(looped.next(0), Some(LoopTurn::Run(1)));
        looped.ready(LoopTurn::Run(3));
        looped.call_back(LoopTurn::Run(4));
        let found: Vec<_> = (1..4).map(|now_ns| looped.next(now_ns)).collect();
        assert_eq!(
            found,
            [LoopTurn::Run(2), LoopTurn::Run(4), LoopTurn::Run(3)].map(Some)
        );
    }

    #[test]
    fn after_fifty_callbacks_and_five_milliseconds_the_rest_waits_for_a_poll() {
        let mut looped = Looped::default();
        looped.ready(LoopTurn::Run(0));
        looped.next(0);
        (1..=120).for_each(|job| looped.call_back(LoopTurn::Run(job)));
        looped.next(0); // the batch is over: callbacks begin
        looped.ready(LoopTurn::Run(999));
        for job in 2..=50 {
            assert_eq!(looped.next(1_000_000), Some(LoopTurn::Run(job)));
        }
        assert_eq!(looped.next(4_999_999), Some(LoopTurn::Run(51))); // too soon: 50 more
        for job in 52..=100 {
            assert_eq!(looped.next(9_000_000), Some(LoopTurn::Run(job)));
        }
        assert_eq!(looped.next(9_000_000), Some(LoopTurn::Run(999)));
        assert_eq!(looped.next(9_000_000), Some(LoopTurn::Run(101)));
    }
}
