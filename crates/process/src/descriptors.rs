//! Our descriptors among the program's.
//!
//! A program closes descriptors that it did not open (`closefrom`, daemons), and their numbers are used again. So our
//! writer thread has a table of its own, which the program cannot reach; where the kernel gives it none (before
//! Linux 5.9, or a filter forbids it), what is behind a number is compared with what was opened, before each use. So it
//! is for Python's part of us: see [`Descriptor`].

use std::fs::{File, Metadata};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::Once;

/// Close to this, below what `select` can hold, few programs have descriptors. A higher number would make the table that
/// each fork copies larger.
const HIGH: u64 = 1024;
const ROOM: u64 = 64;

/// What is behind a descriptor, whatever its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub fn of(about: &Metadata) -> Self {
        Self {
            device: about.dev(),
            inode: about.ino(),
        }
    }

    /// Asks the system; None: the number has no descriptor. Allowed in a forked child.
    pub fn behind(fd: RawFd) -> Option<Self> {
        // SAFETY: the call fills a local; a number without a descriptor is an error.
        unsafe {
            let mut about: libc::stat = std::mem::zeroed();
            (libc::fstat(fd, &mut about) == 0).then_some(Self {
                device: about.st_dev,
                inode: about.st_ino,
            })
        }
    }
}

/// Gives the calling thread an empty table of descriptors, and a root and a working directory that `chroot` and `chdir`
/// of other threads do not change. A child that another thread forks has none of these descriptors. False: it could not.
pub fn unshare_descriptors() -> bool {
    const UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: both change what belongs to the calling thread alone afterwards. No descriptor is closed in the old table.
    unsafe {
        libc::unshare(libc::CLONE_FS);
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, UNSHARE) == 0
    }
}

/// The same file under a high number, if there is room for it; closed by `exec`.
pub fn high(file: File) -> File {
    let fd = high_copy(file.as_raw_fd());
    // SAFETY: a new descriptor belongs to nobody else.
    fd.map_or(file, |fd| unsafe { File::from_raw_fd(fd) })
}

fn high_copy(fd: RawFd) -> Option<RawFd> {
    // SAFETY: asks for a limit into a local, and for a new descriptor.
    let copy = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let from = limit.rlim_cur.min(HIGH).saturating_sub(ROOM).max(3);
        libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, from as libc::c_int)
    };
    (copy >= 0).then_some(copy)
}

/// A descriptor that was given to us; closed in forked children. Dropping it closes nothing.
pub struct Descriptor {
    fd: RawFd,
    identity: Identity,
}

impl Descriptor {
    /// Moves a descriptor that the caller owns to a high number.
    pub fn take(fd: RawFd) -> Self {
        WATCHED.call_once(|| {
            // SAFETY: the handler makes system calls only.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        let high = high_copy(fd).map_or(fd, |copy| {
            // SAFETY: the caller has given it to us.
            unsafe { libc::close(fd) };
            copy
        });
        let identity = Identity::behind(high).unwrap_or(NOTHING);
        if let Some(place) = KEPT.iter().find(|place| place.claim(FREE)) {
            place.keep(high, identity);
        }
        Self { fd: high, identity }
    }

    pub fn number(&self) -> RawFd {
        self.fd
    }

    /// Whether it is still what it was: the program may have closed it, and used its number again. Cost: 0.3 us.
    pub fn is_ours(&self) -> bool {
        Identity::behind(self.fd) == Some(self.identity)
    }

    /// Closes it, unless somebody else has done so.
    pub fn close(&self) {
        let is_this =
            |place: &&OpenDescriptor| place.identity() == self.identity && place.claim(self.fd);
        if let Some(place) = KEPT.iter().find(is_this) {
            place.fd.store(FREE, Ordering::Release);
        }
        if self.is_ours() {
            // SAFETY: it is ours: just asked.
            unsafe { libc::close(self.fd) };
        }
    }
}

const NOTHING: Identity = Identity {
    device: 0,
    inode: 0,
};
/// Numbers in a place: nobody's, and being written.
const FREE: RawFd = -1;
const CLAIMED: RawFd = -2;

/// A descriptor that children are not to have.
struct OpenDescriptor {
    fd: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl OpenDescriptor {
    fn claim(&self, holding: RawFd) -> bool {
        let orders = (Ordering::AcqRel, Ordering::Relaxed);
        self.fd
            .compare_exchange(holding, CLAIMED, orders.0, orders.1)
            .is_ok()
    }

    fn keep(&self, fd: RawFd, identity: Identity) {
        self.device.store(identity.device, Ordering::Relaxed);
        self.inode.store(identity.inode, Ordering::Relaxed);
        self.fd.store(fd, Ordering::Release);
    }

    fn identity(&self) -> Identity {
        Identity {
            device: self.device.load(Ordering::Relaxed),
            inode: self.inode.load(Ordering::Relaxed),
        }
    }
}

/// A file and its lock are open at a time; beyond this many, children have the rest.
const MOST_KEPT: usize = 8;
static KEPT: [OpenDescriptor; MOST_KEPT] = [const {
    OpenDescriptor {
        fd: AtomicI32::new(FREE),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
    }
}; MOST_KEPT];
static WATCHED: Once = Once::new();

extern "C" fn in_child() {
    for place in &KEPT {
        let fd = place.fd.swap(FREE, Ordering::Relaxed);
        if fd >= 0 && Identity::behind(fd) == Some(place.identity()) {
            // SAFETY: it is ours: just asked.
            unsafe { libc::close(fd) };
        }
    }
}
