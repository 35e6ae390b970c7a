//! What others use of each core, and which process a core belongs to.

use super::state::in_force;
use crate::thread_view::ThreadView;
use greenlane_policy::gang::Core;
use greenlane_process::affinity::{busy_ns, core_of};
use std::collections::HashMap;
use std::mem::{size_of, zeroed, ManuallyDrop};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;

/// The socket that makes the gang's core this process' own; -1 = none.
static CLAIM: AtomicI32 = AtomicI32::new(-1);

/// What was read of the cores.
#[derive(Default)]
pub struct Usage {
    at_ns: u64,
    busy_ns: HashMap<u32, u64>,
    /// By thread: the CPU that it had used as a member.
    kept_ns: HashMap<i32, u64>,
}

impl Usage {
    /// What others have used of each of `cores` since the last look, and what the members have. Nothing at the first look,
    /// and where the kernel does not tell.
    pub fn look(&mut self, now_ns: u64, cores: &[u32], members: &[Arc<ThreadView>]) -> Vec<Core> {
        let ours_ns = self.ours_ns(members);
        let took_ns = now_ns.saturating_sub(self.at_ns).max(1) as f64;
        let before = std::mem::replace(&mut self.busy_ns, busy_ns().into_iter().collect());
        self.at_ns = now_ns;
        let look = |&number: &u32| {
            let used_ns = self
                .busy_ns
                .get(&number)?
                .saturating_sub(*before.get(&number)?);
            let ours_ns = ours_ns.get(&number).copied().unwrap_or(0);
            Some(Core {
                number,
                foreign_frac: used_ns.saturating_sub(ours_ns) as f64 / took_ns,
                ours_frac: ours_ns as f64 / took_ns,
                free: true,
            })
        };
        cores.iter().filter_map(look).collect()
    }

    /// By core: what the members have used of it since the last look, those that were away left out. Where there is no
    /// gang, by the core that each had last.
    fn ours_ns(&mut self, members: &[Arc<ThreadView>]) -> HashMap<u32, u64> {
        let kept = members
            .iter()
            .map(|view| (view.thread(), view.kept_cpu_ns().unwrap_or(0)));
        let before = std::mem::replace(&mut self.kept_ns, kept.collect());
        let mut ours = HashMap::new();
        for (thread, kept_ns) in &self.kept_ns {
            let used_ns = kept_ns.saturating_sub(*before.get(thread).unwrap_or(kept_ns));
            if used_ns > 0 {
                if let Some(core) = in_force().or_else(|| core_of(*thread)) {
                    *ours.entry(core).or_insert(0) += used_ns;
                }
            }
        }
        ours
    }
}

/// Makes a core this process' own; false: another one has it. It lasts as long as the process does: what makes it so is a
/// socket of a name without a file, seen by all processes of this network namespace.
pub fn claim(core: u32) -> bool {
    give_up_claim();
    match Name::of(&format!("greenlane-core-{core}")) {
        Some(name) => {
            CLAIM.store(ManuallyDrop::new(name).0, Ordering::SeqCst);
            true
        }
        None => false,
    }
}

/// As a forked child may do.
pub fn give_up_claim() {
    drop(Name(CLAIM.swap(-1, Ordering::SeqCst)));
}

/// Whether no process has it.
pub fn is_free(core: u32) -> bool {
    Name::of(&format!("greenlane-core-{core}")).is_some()
}

/// A socket's name, which is this process' own as long as the socket is open.
pub struct Name(i32);

impl Name {
    /// None: another process has it.
    pub fn of(name: &str) -> Option<Self> {
        // SAFETY: the address is a local that is filled up to the length that is told; its first byte stays 0.
        unsafe {
            let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
            let socket = Self(libc::socket(libc::AF_UNIX, flags, 0));
            let mut address: libc::sockaddr_un = zeroed();
            address.sun_family = libc::AF_UNIX as libc::sa_family_t;
            for (place, byte) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
                *place = byte as libc::c_char;
            }
            let length = size_of::<libc::sa_family_t>() + 1 + name.len();
            let bound = libc::bind(socket.0, (&raw const address).cast(), length as u32);
            (bound == 0).then_some(socket)
        }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.0 >= 0 {
            // SAFETY: our own, closed once.
            unsafe { libc::close(self.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_belongs_to_one_process_until_it_gives_it_up() {
        let far = 1_000_003; // No machine has it.
        assert!(is_free(far) && claim(far));
        assert!(!is_free(far));
        give_up_claim();
        assert!(is_free(far));
    }
}
