//! Shared memory, mapped until its last user is gone; and a count of forks, for those who must not share it.

use std::io::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Once;

static FORKS: AtomicU64 = AtomicU64::new(0);
static WATCHED: Once = Once::new();

extern "C" fn before_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How often this process and its line have forked. Counted before the fork, so that what was made earlier is known as
/// such in the parent too: its child shares it.
pub fn forks() -> u64 {
    WATCHED.call_once(|| {
        // SAFETY: the handler only adds to an atomic. Without memory for it, forks go uncounted: a child of somebody
        // who holds results then shares memory that is used again.
        unsafe { libc::pthread_atfork(Some(before_fork), None, None) };
    });
    FORKS.load(Ordering::Relaxed)
}

/// The whole of a memory file.
pub struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: the address is valid for as long as the value; who may write where is the users' protocol.
unsafe impl Send for Mapping {}
unsafe impl Sync for Mapping {}

impl Mapping {
    pub fn new(fd: i32, writable: bool) -> Result<Self> {
        // SAFETY: `status` is written by fstat before it is read; the mapping is private to this value.
        unsafe {
            let mut status: libc::stat = std::mem::zeroed();
            if libc::fstat(fd, &mut status) != 0 {
                return Err(Error::last_os_error());
            }
            let length = usize::try_from(status.st_size).unwrap_or(0);
            let access = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
            let start = libc::mmap(
                std::ptr::null_mut(),
                length,
                access,
                libc::MAP_SHARED,
                fd,
                0,
            );
            if start == libc::MAP_FAILED {
                return Err(Error::last_os_error());
            }
            Ok(Self {
                start: start.cast(),
                length,
            })
        }
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// The address of `length` bytes from `offset` on; None if they are not all inside.
    pub fn place(&self, offset: usize, length: usize) -> Option<*mut u8> {
        let end = offset.checked_add(length)?;
        // SAFETY: inside the mapping, as just checked.
        (end <= self.length).then(|| unsafe { self.start.add(offset) })
    }

    /// Where in the mapping these bytes lie; None if they do not.
    pub fn offset_of(&self, bytes: &[u8]) -> Option<usize> {
        let offset = (bytes.as_ptr() as usize).checked_sub(self.start as usize)?;
        (offset.checked_add(bytes.len())? <= self.length).then_some(offset)
    }

    /// The 64-bit word number `word`; None if there is none.
    pub fn word(&self, word: usize) -> Option<&AtomicU64> {
        let place = self.place(word.checked_mul(8)?, 8)?;
        // SAFETY: inside the mapping, aligned because mappings begin on a page, and only ever used as an atomic.
        Some(unsafe { &*place.cast::<AtomicU64>() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; its users hold this value.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
