//! What it costs to wake a thread that goes on where another one stops, as threads do that hand the GIL on: measured by two
//! of our own, on one core and on two.

use super::usage::Name;
use greenlane_policy::gang::HandOver;
use greenlane_process::affinity::Cores;
use greenlane_process::{clock, our_threads, signals};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use std::{fs, thread};

/// What has been measured: one core, two cores; 0 = not yet. A forked child knows it, too.
static KNOWN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// How long each computes before it wakes the other one. A core sleeps the deeper the longer it is idle; from 0.5 ms on
/// the difference stayed the same.
const COMPUTES_NS: u64 = 500_000;
/// Hand-overs of a thread in a round, and rounds of both places in turns: something else may use a core for a while.
const EACH: usize = 8;
const ROUNDS: usize = 4;
/// A hand-over that takes longer is over: the machine has other things to do.
const PATIENCE: Duration = Duration::from_millis(20);

fn cached() -> Option<HandOver> {
    let [one_core_ns, two_cores_ns] = [0, 1].map(|at: usize| KNOWN[at].load(Ordering::Relaxed));
    (two_cores_ns != 0).then_some(HandOver {
        one_core_ns,
        two_cores_ns,
    })
}

/// What this process, or another one since the machine's start, has measured.
pub fn load_or_measure(cache: Option<&Path>) -> Option<HandOver> {
    cached().or_else(|| {
        let text = fs::read_to_string(cache?).ok()?;
        let mut words = text.split_whitespace();
        let is_of_now = words.next()? == boot()?;
        let one_core_ns = words.next()?.parse().ok()?;
        let two_cores_ns = words.next()?.parse().ok()?;
        is_of_now.then(|| learn(one_core_ns, two_cores_ns))?
    })
}

/// Measures on the first two of `cores`; None: there are fewer, no thread could be started, or another process measures
/// now. Some 70 ms.
pub fn measure(cores: &[u32], cache: Option<&Path>) -> Option<HandOver> {
    let &[first, second, ..] = cores else {
        return None;
    };
    let _alone = Name::of("greenlane-hand-over")?;
    let mut found = [Vec::new(), Vec::new()];
    for round in 0..2 * ROUNDS {
        // On one core, on two, on the other one, on two.
        let pair = [[first, first], [first, second], [second, second]][[0, 1, 2, 1][round % 4]];
        found[round % 2].extend(hand_overs(pair)?);
    }
    let [one_core_ns, two_cores_ns] = found.map(|mut took| {
        // The first decile: where the machine has other things to do, most wait for a core.
        took.sort_unstable();
        took.get(took.len() / 10).copied().unwrap_or(0).max(1)
    });
    if let (Some(cache), Some(boot)) = (cache, boot()) {
        // Whole or not at all; without it the next process measures again.
        let part = cache.with_extension(std::process::id().to_string());
        let _ = fs::write(&part, format!("{boot} {one_core_ns} {two_cores_ns}\n"))
            .and_then(|()| fs::rename(&part, cache));
    }
    learn(one_core_ns, two_cores_ns)
}

fn learn(one_core_ns: u64, two_cores_ns: u64) -> Option<HandOver> {
    KNOWN[0].store(one_core_ns, Ordering::Relaxed);
    KNOWN[1].store(two_cores_ns, Ordering::Relaxed);
    cached()
}

fn boot() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

/// How many turns there have been, and since when the present one is due.
type Turns = (Mutex<(usize, u64)>, Condvar);

/// What each of a few hand-overs between two threads on these cores took, ns.
fn hand_overs(cores: [u32; 2]) -> Option<Vec<u64>> {
    let turns: Arc<Turns> = Arc::default();
    let threads = [0, 1].map(|mine| {
        let turns = Arc::clone(&turns);
        let take = move || take_turns(&turns, mine, cores[mine]);
        signals::with_all_blocked(|| thread::Builder::new().spawn(take)).ok()
    });
    let took = threads.map(|thread| thread?.join().ok());
    Some(took.into_iter().collect::<Option<Vec<_>>>()?.concat())
}

fn take_turns((turn, changed): &Turns, mine: usize, core: u32) -> Vec<u64> {
    our_threads::mark();
    Cores::of_core(core).give_to(0);
    let mut took = Vec::new();
    for _ in 0..EACH {
        let others = |now: &mut (usize, u64)| now.0 % 2 != mine;
        let Ok(guard) = turn.lock() else { break };
        let Ok((guard, _)) = changed.wait_timeout_while(guard, PATIENCE, others) else {
            break;
        };
        let from_ns = clock::monotonic_ns();
        // The first ones touch all for the first time.
        if guard.0 >= 4 && guard.0 % 2 == mine {
            took.push(from_ns - guard.1);
        }
        let next = guard.0 + 1;
        drop(guard);
        while clock::monotonic_ns() - from_ns < COMPUTES_NS {
            std::hint::spin_loop();
        }
        if let Ok(mut now) = turn.lock() {
            *now = (next, clock::monotonic_ns());
        }
        changed.notify_one();
    }
    took
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_kept_for_other_processes_until_the_next_start() {
        let cores = Cores::of_thread(0).map_or(Vec::new(), |cores| cores.numbers());
        let cache = std::env::temp_dir().join(format!("hand-over-{}", std::process::id()));
        if let Some(cost) = measure(&cores, Some(&cache)) {
            assert_eq!(load_or_measure(None), Some(cost));
            let kept = fs::read_to_string(&cache).expect("it is kept");
            KNOWN[1].store(0, Ordering::Relaxed);
            assert_eq!(load_or_measure(Some(&cache)), Some(cost));
            KNOWN[1].store(0, Ordering::Relaxed);
            fs::write(&cache, kept.replace(&boot().expect("it started"), "before"))
                .expect("written");
            assert_eq!(load_or_measure(Some(&cache)), None);
            fs::remove_file(&cache).expect("it was there");
        }
        assert_eq!(measure(&cores[..1], None), None);
    }
}
