//! How long threads waited for a core, as the scheduler counts it, and what the machine withheld from all of them.

use std::fs;
use std::path::{Path, PathBuf};

/// While no core was ever stolen, `/proc/stat` is read only once in this many looks: it is slow with many cores.
const RARELY: u32 = 60;
const TICK_NS: u64 = 10_000_000;

/// Sums since each thread, or this process's recording, began.
#[derive(Default)]
pub struct Cores {
    /// (thread, waited for a core, ns).
    pub waited: Vec<(u32, u64)>,
    pub threads: u32,
    /// Cores stolen from this machine, and time that its group had no quota for, ns.
    pub withheld_ns: u64,
    begun_ns: Option<u64>,
    stolen_ns: u64,
    /// What its group had no quota for, since it began and when [`Cores::was_throttled`] was last asked.
    throttled_ns: u64,
    asked_ns: Option<u64>,
    looks: u32,
    quota: Option<PathBuf>,
}

impl Cores {
    /// Looks again.
    pub fn look(&mut self) {
        self.waited.clear();
        self.threads = 0;
        let Ok(tasks) = fs::read_dir("/proc/self/task") else {
            return;
        };
        for task in tasks.flatten() {
            self.threads += 1;
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let thread = task.file_name().to_str().and_then(|name| name.parse().ok());
            if let (Some(thread), Some(waited_ns)) = (thread, parse_waited_ns(&text)) {
                self.waited.push((thread, waited_ns));
            }
        }
        if self.stolen_ns > 0 || self.looks % RARELY == 0 {
            let text = fs::read_to_string("/proc/stat").unwrap_or_default();
            self.stolen_ns = stolen(&text).unwrap_or(self.stolen_ns);
        }
        self.looks = self.looks.wrapping_add(1);
        let quota = self.quota.get_or_insert_with(quota_file);
        self.throttled_ns = parse_throttled_ns(&fs::read_to_string(quota).unwrap_or_default());
        let whole_ns = self.stolen_ns.saturating_add(self.throttled_ns);
        let begun_ns = *self.begun_ns.get_or_insert(whole_ns);
        self.withheld_ns = whole_ns.saturating_sub(begun_ns);
    }

    /// Whether its group had no quota for a tenth of the time `in_ns` since this was last asked, or more.
    pub fn was_throttled(&mut self, in_ns: u64) -> bool {
        let before_ns = self.asked_ns.replace(self.throttled_ns);
        let more_ns = before_ns.map_or(0, |before_ns| self.throttled_ns.saturating_sub(before_ns));
        more_ns > 0 && more_ns >= in_ns / 10
    }

    /// All threads together.
    pub fn all_ns(&self) -> u64 {
        self.waited.iter().map(|one| one.1).sum()
    }
}

/// The second number; None where the kernel does not count: then it says that nobody ever ran, too.
fn parse_waited_ns(schedstat: &str) -> Option<u64> {
    let mut numbers = schedstat.split(' ').map(str::parse::<u64>);
    let ran_ns = numbers.next()?.ok()?;
    let waited_ns = numbers.next()?.ok()?;
    (ran_ns > 0).then_some(waited_ns)
}

/// The eighth number of the first line, `cpu`.
fn stolen(stat: &str) -> Option<u64> {
    let ticks: u64 = stat
        .lines()
        .next()?
        .split_whitespace()
        .nth(8)?
        .parse()
        .ok()?;
    Some(ticks * TICK_NS)
}

/// Where the quota of our group is accounted for: version 2 of the groups, else 1. In a container a group may be seen at
/// the root alone.
fn quota_file() -> PathBuf {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let files = groups.lines().filter_map(|line| {
        let (_, group) = line.split_once(':')?;
        let (controllers, path) = group.split_once(":/")?;
        let is_cpus = controllers.split(',').any(|each| each == "cpu");
        let mounts = [controllers, "cpu"].map(|mount| root.join(mount));
        let files = mounts.map(|mount| [mount.join(path).join("cpu.stat"), mount.join("cpu.stat")]);
        (controllers.is_empty() || is_cpus).then_some(files.concat())
    });
    let found = files.flatten().find(|file| file.exists());
    found.unwrap_or_else(|| root.join("cpu/cpu.stat"))
}

fn parse_throttled_ns(stat: &str) -> u64 {
    let line = |name: &str| {
        let number = stat.lines().find_map(|line| line.strip_prefix(name));
        number.and_then(|number| number.trim().parse::<u64>().ok())
    };
    let us = line("throttled_usec ").map(|us| us.saturating_mul(1_000));
    us.or_else(|| line("throttled_time ")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_withheld_is_read_in_either_spelling() {
        assert_eq!(stolen("cpu  1 2 3 4 5 6 7 8 9 0\ncpu0 1"), Some(80_000_000));
        assert_eq!(stolen("cpu 1"), None);
        assert_eq!(
            parse_throttled_ns("nr_throttled 3\nthrottled_usec 70\n"),
            70_000
        );
        assert_eq!(
            parse_throttled_ns("nr_throttled 3\nthrottled_time 70\n"),
            70
        );
        assert_eq!(parse_throttled_ns(""), 0);
        assert_eq!(parse_waited_ns("70 20 3\n"), Some(20));
        assert_eq!(parse_waited_ns("0 0 0\n"), None);
        assert_eq!(parse_waited_ns(""), None);
    }

    #[test]
    fn the_calling_thread_is_among_them() {
        // SAFETY: gettid has no arguments and cannot fail.
        let own = unsafe { libc::gettid() } as u32;
        let from = std::time::Instant::now();
        let mut cores = Cores::default();
        cores.look();
        assert_eq!(cores.withheld_ns, 0);
        // Until the scheduler's next tick a new thread has never run.
        while !cores.waited.iter().any(|one| one.0 == own) {
            assert!(from.elapsed().as_secs() < 10);
            cores.look();
        }
    }
}
