//! How one process is: what its last look has found, or that none has had the GIL since.

use greenlane_process::clock;
use libc::clockid_t;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How one process is. One line of text between siblings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub pid: u32,
    pub parent: u32,
    /// Whether it can serve.
    pub ok: bool,
    /// False: only a restart helps.
    pub live: bool,
    pub reason: String,
}

/// One thread at the last look.
struct Seen {
    thread: i32,
    cpu_ns: u64,
    /// Its name, and where it was.
    what: String,
}

struct Told {
    status: (bool, bool, String),
    threads: Vec<Seen>,
    /// What keeps Python from running, and when that was looked at.
    keeper: (u64, String),
}

/// Looking at each thread takes longer than an answer: it is not done for each.
const KEEPER_EVERY_NS: u64 = 250_000_000;

pub struct Shared {
    pub over: AtomicBool,
    /// Nothing listens: the thread has ended.
    pub ended: AtomicBool,
    /// Since when a look waits for the GIL, or has it; 0 = no look is under way.
    pub asked_ns: AtomicU64,
    after_ns: u64,
    hung_ns: u64,
    told: Mutex<Told>,
}

impl Shared {
    pub fn new(after_ns: u64, hung_ns: u64) -> Self {
        let status = (true, true, "fine".to_owned());
        Self {
            over: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            asked_ns: AtomicU64::new(0),
            after_ns,
            hung_ns,
            told: Mutex::new(Told {
                status,
                threads: Vec::new(),
                keeper: (0, String::new()),
            }),
        }
    }

    pub fn tell(&self, ok: bool, live: bool, reason: String, threads: Vec<(i32, String)>) {
        let seen = threads.into_iter().filter_map(|(thread, what)| {
            let cpu_ns = clock::read(clock_of(thread))?;
            Some(Seen {
                thread,
                cpu_ns,
                what,
            })
        });
        let threads = seen.collect();
        *self.told() = Told {
            status: (ok, live, reason),
            threads,
            keeper: (0, String::new()),
        };
    }

    pub fn status(&self) -> Status {
        // SAFETY: no arguments, no failure.
        let parent = unsafe { libc::getppid() }.unsigned_abs();
        let mut told = self.told();
        let (ok, live, reason) = match self.held_ns() {
            Some(held_ns) => (false, held_ns < self.hung_ns, told.who_holds(held_ns)),
            None => told.status.clone(),
        };
        Status {
            pid: std::process::id(),
            parent,
            ok,
            live,
            reason,
        }
    }

    /// For how long no look has had the GIL, if that is too long.
    fn held_ns(&self) -> Option<u64> {
        let asked_ns = self.asked_ns.load(Ordering::Acquire);
        let held_ns = clock::monotonic_ns().saturating_sub(asked_ns);
        (asked_ns != 0 && held_ns >= self.after_ns).then_some(held_ns)
    }

    /// Held for some microseconds; nobody waits for the GIL meanwhile.
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    /// What keeps Python from running: the thread that has computed most since the last look, or want of cores.
    fn who_holds(&mut self, held_ns: u64) -> String {
        let now_ns = clock::monotonic_ns();
        if now_ns >= self.keeper.0 + KEEPER_EVERY_NS {
            self.keeper = (now_ns, self.look_for_keeper(held_ns));
        }
        let seconds = held_ns as f64 / 1e9;
        format!(
            "no other thread ran Python for {seconds:.1} s: {}",
            self.keeper.1
        )
    }

    fn look_for_keeper(&self, held_ns: u64) -> String {
        let since = |thread, cpu_ns| clock::read(clock_of(thread))?.checked_sub(cpu_ns);
        let known = self.threads.iter();
        let known = known.map(|one| (since(one.thread, one.cpu_ns), one.what.as_str()));
        let is_new = |thread: &i32| self.threads.iter().all(|one| one.thread != *thread);
        let new = threads().filter(is_new);
        let new = new.map(|thread| (since(thread, 0), "a thread that has started just before"));
        let spent = known
            .chain(new)
            .filter_map(|(spent_ns, what)| Some((spent_ns?, what)));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        keeper(&spent.collect::<Vec<_>>(), held_ns, cores)
    }
}

/// Who keeps the GIL, of threads with what each has computed meanwhile. Where many share the cores, who has it waits for
/// a core, too.
fn keeper(spent: &[(u64, &str)], held_ns: u64, cores: usize) -> String {
    let total_ns: u64 = spent.iter().map(|one| one.0).sum();
    let many = spent.iter().filter(|one| one.0 > held_ns / 200).count();
    match spent.iter().max_by_key(|one| one.0) {
        Some(&(most_ns, what)) if most_ns > held_ns / 4 && most_ns >= total_ns / 2 => {
            format!("the GIL is held by {what}")
        }
        _ if many > 2 * cores => format!("{many} threads compute, and share {cores} cores"),
        _ => "the GIL is held".to_owned(),
    }
}

/// Those of this process.
fn threads() -> impl Iterator<Item = i32> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
}

/// The kernel's CPU clock of one thread of this process.
fn clock_of(thread: i32) -> clockid_t {
    (!thread << 3) | 6
}

impl Status {
    /// One line, without its end.
    pub fn line(&self) -> String {
        let Self {
            pid,
            parent,
            ok,
            live,
            reason,
        } = self;
        let reason: String = reason
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        format!(
            "{pid} {parent} {} {} {reason}",
            u8::from(*ok),
            u8::from(*live)
        )
    }

    /// None: no such line.
    pub fn read(line: &str) -> Option<Self> {
        let mut fields = line.splitn(5, ' ');
        let mut next = || fields.next();
        let (pid, parent) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let (ok, live) = (next()? == "1", next()? == "1");
        let reason = next()?.to_owned();
        Some(Self {
            pid,
            parent,
            ok,
            live,
            reason,
        })
    }

    fn json(&self) -> String {
        let reason = quoted(&self.reason);
        format!(
            r#"{{"pid":{},"ok":{},"reason":{reason}}}"#,
            self.pid, self.ok
        )
    }
}

/// The answer for all processes of a service: whether it is well, and one short JSON object.
///
/// Ready while one of them can serve; live while none of them is beyond help. Who supervises others is left out.
pub fn answer(mut all: Vec<Status>, live: bool) -> (bool, String) {
    let parents: Vec<_> = all.iter().map(|one| one.parent).collect();
    if !all.iter().all(|one| parents.contains(&one.pid)) {
        all.retain(|one| !parents.contains(&one.pid));
    }
    all.sort_by_key(|one| (one.ok, one.live, one.pid));
    let ok = if live {
        all.iter().all(|one| one.live)
    } else {
        all.iter().any(|one| one.ok)
    };
    let bad = all.iter().filter(|one| !one.ok).count();
    let reason = match &all[..] {
        [one] => one.reason.clone(),
        [first, ..] if bad > 0 => format!("{bad} of {} processes: {}", all.len(), first.reason),
        _ => "fine".to_owned(),
    };
    let reason = quoted(&reason);
    let processes: Vec<_> = all.iter().map(Status::json).collect();
    let processes = processes.join(",");
    let text = format!(r#"{{"ok":{ok},"reason":{reason},"processes":[{processes}]}}"#);
    (ok, text)
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for each in text.chars() {
        match each {
            '"' | '\\' => quoted.extend(['\\', each]),
            each if each.is_control() => quoted.push(' '),
            each => quoted.push(each),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pid: u32, parent: u32, reason: &str) -> Status {
        let ok = reason == "fine";
        let (live, reason) = (reason != "gone", reason.to_owned());
        Status {
            pid,
            parent,
            ok,
            live,
            reason,
        }
    }

    #[test]
    fn a_line_says_all() {
        let one = status(7, 1, "loop blocked 6.2 s by a b.py:4");
        assert_eq!(Status::read(&one.line()), Some(one));
        assert_eq!(Status::read("7 1 x"), None);
    }

    #[test]
    fn ready_while_one_can_serve_and_live_while_none_is_beyond_help() {
        let fine = || status(7, 1, "fine");
        assert_eq!(
            answer(vec![fine()], false),
            (
                true,
                r#"{"ok":true,"reason":"fine","processes":[{"pid":7,"ok":true,"reason":"fine"}]}"#
                    .to_owned()
            )
        );
        let (ready, said) = answer(vec![fine(), status(8, 1, r#"in "a""#)], false);
        assert!(
            ready && said.contains(r#""reason":"1 of 2 processes: in \"a\"""#),
            "{said}"
        );
        assert!(!answer(vec![status(7, 1, "full"), status(8, 1, "full")], false).0);
        assert!(answer(vec![fine(), status(8, 1, "full")], true).0);
        assert!(!answer(vec![fine(), status(8, 1, "gone")], true).0);
    }

    #[test]
    fn many_threads_that_share_few_cores_are_no_call_that_keeps_the_gil() {
        let many = vec![(50, "a"); 40];
        assert_eq!(
            keeper(&many, 1000, 2),
            "40 threads compute, and share 2 cores"
        );
        let hog = [(900, "thread x"), (100, "b")];
        assert_eq!(keeper(&hog, 1000, 2), "the GIL is held by thread x");
        assert_eq!(keeper(&[(1, "a")], 1000, 2), "the GIL is held");
    }

    #[test]
    fn a_supervisor_does_not_count() {
        assert!(!answer(vec![status(7, 1, "fine"), status(8, 7, "full")], false).0);
    }
}
