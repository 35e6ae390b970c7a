//! What others use of each core, and which process a core belongs to.

use super::state::CLAIM;
use greenlane_policy::gang::Core;
use greenlane_process::affinity::busy_ns;
use std::collections::HashMap;
use std::mem::{size_of, zeroed};
use std::sync::atomic::Ordering;

/// What was read of the cores.
#[derive(Default)]
pub struct Usage {
    at_ns: u64,
    busy_ns: HashMap<u32, u64>,
}

impl Usage {
    /// When the last look was.
    pub fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// What others have used of each of `cores` since the last look, of which `ours_ns` says what was used by us.
    /// Nothing at the first look, and where the kernel does not tell.
    pub fn look(&mut self, now_ns: u64, cores: &[u32], ours_ns: &HashMap<u32, u64>) -> Vec<Core> {
        let busy: HashMap<_, _> = busy_ns().into_iter().collect();
        let took_ns = now_ns.saturating_sub(self.at_ns).max(1) as f64;
        let before = std::mem::replace(&mut self.busy_ns, busy);
        self.at_ns = now_ns;
        let foreign = |&number: &u32| {
            let used_ns = self
                .busy_ns
                .get(&number)?
                .saturating_sub(*before.get(&number)?);
            let ours_ns = ours_ns.get(&number).copied().unwrap_or(0);
            Some(Core {
                number,
                foreign_frac: used_ns.saturating_sub(ours_ns) as f64 / took_ns,
                free: true,
            })
        };
        cores.iter().filter_map(foreign).collect()
    }
}

/// Makes a core this process' own; false: another one has it. It lasts as long as the process does: what makes it so is a
/// socket of a name without a file, seen by all processes of this network namespace.
pub fn claim(core: u32) -> bool {
    give_up_claim();
    let socket = Name::of_core(core);
    let taken = socket.is_some();
    CLAIM.store(socket.map_or(-1, Name::into_descriptor), Ordering::SeqCst);
    taken
}

pub fn give_up_claim() {
    drop(Name(CLAIM.swap(-1, Ordering::SeqCst)));
}

/// Whether no process has it.
pub fn is_free(core: u32) -> bool {
    Name::of_core(core).is_some()
}

/// Keeps other processes from measuring at the same time; None: one does.
pub fn alone() -> Option<Name> {
    Name::of("greenlane-hand-over")
}

/// A socket's name, which is this process' own as long as the socket is open.
pub struct Name(i32);

impl Name {
    fn of_core(core: u32) -> Option<Self> {
        Self::of(&format!("greenlane-core-{core}"))
    }

    fn of(name: &str) -> Option<Self> {
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

    fn into_descriptor(self) -> i32 {
        std::mem::ManuallyDrop::new(self).0
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
