//! Which cores threads may use, and how busy the cores are.

use libc::{c_int, cpu_set_t, pid_t};
use std::fs;
use std::mem::{size_of, zeroed};

/// A set of cores, by their numbers below 1,024: what the kernel's call takes without a size of its own.
#[derive(Clone, Copy)]
pub struct Cores(cpu_set_t);

impl Cores {
    pub fn of_core(core: u32) -> Self {
        Self::of([core])
    }

    pub fn of(cores: impl IntoIterator<Item = u32>) -> Self {
        // SAFETY: zeros are the empty set.
        let mut set = unsafe { zeroed() };
        for core in cores {
            // SAFETY: a local; a number that does not fit is left out.
            unsafe { libc::CPU_SET(core as usize, &mut set) };
        }
        Self(set)
    }

    /// Those that a thread of this process may use, 0 = the calling one; None: it has ended, or the kernel refuses.
    pub fn of_thread(thread: pid_t) -> Option<Self> {
        // SAFETY: the kernel writes it, and zeros are a value of it.
        unsafe {
            let mut set = zeroed();
            let failed: c_int = libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), &mut set);
            (failed == 0).then_some(Self(set))
        }
    }

    /// Lets a thread use these, 0 = the calling one. A system call that may be made in a forked child.
    pub fn give_to(&self, thread: pid_t) -> bool {
        // SAFETY: the kernel reads the set.
        unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), &self.0) == 0 }
    }

    pub fn numbers(&self) -> Vec<u32> {
        // SAFETY: a look at a set, within its size.
        let has = |core: &u32| unsafe { libc::CPU_ISSET(*core as usize, &self.0) };
        (0..libc::CPU_SETSIZE as u32).filter(has).collect()
    }
}

impl PartialEq for Cores {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: looks at two sets.
        unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
    }
}

/// The threads of this process.
pub fn threads() -> Vec<pid_t> {
    let entries = fs::read_dir("/proc/self/task");
    let names = entries.into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The core that a thread of this process has or had last.
pub fn core_of(thread: pid_t) -> Option<u32> {
    const PROCESSOR: usize = 36;
    let line = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    let after_name = line.get(line.rfind(')')? + 2..)?;
    after_name.split(' ').nth(PROCESSOR)?.parse().ok()
}

/// Whether this process has a child.
pub fn has_child() -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel writes into a local; with these flags it changes nothing.
    unsafe { libc::waitid(libc::P_ALL, 0, &mut zeroed(), flags) == 0 }
}

/// By core: the time that programs have used it since the machine's start, ns. Interrupts, and what other machines took,
/// are left out: nobody escapes them by another core.
pub fn busy_ns() -> Vec<(u32, u64)> {
    // SAFETY: no arguments, no failure.
    let tick_ns = 1_000_000_000 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let core = words.next()?.parse().ok()?;
        let ticks: u64 = words
            .take(3)
            .filter_map(|word| word.parse::<u64>().ok())
            .sum();
        Some((core, ticks * tick_ns))
    };
    text.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_given_cores_and_told_which() {
        let before = Cores::of_thread(0).expect("it lives");
        let first = before.numbers()[0];
        std::thread::spawn(move || {
            assert!(Cores::of_core(first).give_to(0));
            let now = Cores::of_thread(0).expect("it lives");
            assert!(now == Cores::of_core(first));
            // SAFETY: no arguments, no failure.
            assert_eq!(core_of(unsafe { libc::gettid() }), Some(first));
        })
        .join()
        .expect("it passes");
        assert!(Cores::of_thread(0) == Some(before));
        assert!(Cores::of_thread(pid_t::MAX).is_none());
    }

    #[test]
    fn each_core_has_been_busy() {
        let cores = Cores::of_thread(0).expect("it lives").numbers();
        let busy = busy_ns();
        assert!(cores
            .iter()
            .all(|core| busy.iter().any(|(known, ns)| known == core && *ns > 0)));
    }
}
