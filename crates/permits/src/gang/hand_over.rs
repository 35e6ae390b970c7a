//! What it costs to wake a thread that goes on where another one stops, as threads do that hand the GIL on: measured by two
//! of our own, on one core and on two.

use greenlane_policy::gang::HandOver;
use greenlane_process::affinity::Cores;
use greenlane_process::{clock, signals};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// What has been measured: one core, two cores; 0 = not yet. A forked child knows it, too.
static KNOWN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// How long each computes before it wakes the other one: a core sleeps the deeper the longer it is idle.
const COMPUTES_NS: u64 = 1_000_000;
/// Hand-overs of a round, and rounds. The places take turns: something else may use a core for a while.
const EACH: usize = 6;
const ROUNDS: usize = 6;
/// A hand-over that takes longer is over: the machine has other things to do.
const PATIENCE: Duration = Duration::from_millis(20);

pub fn known() -> Option<HandOver> {
    match [0, 1].map(|at: usize| KNOWN[at].load(Ordering::Relaxed)) {
        [0, _] | [_, 0] => None,
        [one_core_ns, two_cores_ns] => Some(HandOver {
            one_core_ns,
            two_cores_ns,
        }),
    }
}

/// Measures on the first two of `cores`; None: there are fewer, or no thread could be started. Some 70 ms.
pub fn measure(cores: &[u32]) -> Option<HandOver> {
    let &[first, second, ..] = cores else {
        return None;
    };
    let mut found = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let place = round % 2;
        found[place].extend(hand_overs(first, [first, second][place])?);
    }
    let [one_core_ns, two_cores_ns] = found.map(|mut taken| {
        // The lower quarter: where the machine has other things to do, many wait for a core.
        taken.sort_unstable();
        taken.get(taken.len() / 4).copied().unwrap_or(0).max(1)
    });
    for (known, ns) in KNOWN.iter().zip([one_core_ns, two_cores_ns]) {
        known.store(ns, Ordering::Relaxed);
    }
    known()
}

/// How many turns there have been, and since when the present one is due.
type Turns = (Mutex<(usize, u64)>, Condvar);

/// What each of a few hand-overs between two threads on these cores takes, ns.
fn hand_overs(first: u32, second: u32) -> Option<Vec<u64>> {
    let turns: Arc<Turns> = Arc::default();
    let threads = [first, second].into_iter().enumerate().map(|(mine, core)| {
        let turns = Arc::clone(&turns);
        let takes = move || take_turns(&turns, mine, core);
        signals::with_all_blocked(|| thread::Builder::new().spawn(takes)).ok()
    });
    let threads: Vec<_> = threads.collect();
    let found = threads.into_iter().map(|thread| thread?.join().ok());
    found
        .collect::<Option<Vec<_>>>()
        .map(|found| found.concat())
}

fn take_turns((turn, changed): &Turns, mine: usize, core: u32) -> Vec<u64> {
    Cores::one(core).give_to(0);
    let mut found = Vec::new();
    for _ in 0..EACH {
        let others = |now: &mut (usize, u64)| now.0 % 2 != mine;
        let Ok(guard) = turn.lock() else { break };
        let waited = changed.wait_timeout_while(guard, PATIENCE, others);
        let Ok((guard, _)) = waited else { break };
        let from_ns = clock::monotonic_ns();
        if guard.1 != 0 {
            found.push(from_ns - guard.1);
        }
        drop(guard);
        while clock::monotonic_ns() - from_ns < COMPUTES_NS {
            std::hint::spin_loop();
        }
        if let Ok(mut now) = turn.lock() {
            *now = (mine + 1, clock::monotonic_ns());
        }
        changed.notify_one();
    }
    found
}
