//! A file in memory, page by page as it is read: one of a gigabyte takes no more than what is looked at.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// See the module. The file must not become shorter meanwhile; recordings never do.
pub struct Mapped {
    begin: NonNull<libc::c_void>,
    length: usize,
}

// SAFETY: nobody writes to it.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// All of a file.
    pub fn new(file: &File) -> io::Result<Self> {
        let length = file.metadata()?.len() as usize;
        if length == 0 {
            return Ok(Self {
                begin: NonNull::dangling(),
                length,
            });
        }
        let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: a new mapping of an open file, wherever there is room.
        let begin =
            unsafe { libc::mmap(ptr::null_mut(), length, read, private, file.as_raw_fd(), 0) };
        match NonNull::new(begin) {
            Some(begin) if begin.as_ptr() != libc::MAP_FAILED => Ok(Self { begin, length }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as `self` lives; dangling only with no length.
        unsafe { std::slice::from_raw_parts(self.begin.as_ptr().cast(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: mapped by `new`, and the bytes are no longer borrowed.
            unsafe { libc::munmap(self.begin.as_ptr(), self.length) };
        }
    }
}

/// Lets the whole pages of some mapped bytes leave the memory; they are read from the file again when they are needed.
pub fn release(bytes: &[u8]) {
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
    let begin = (bytes.as_ptr() as usize).next_multiple_of(page);
    let end = (bytes.as_ptr() as usize + bytes.len()) / page * page;
    if begin < end {
        // SAFETY: whole pages of a private mapping of a file that nobody has written to.
        unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_DONTNEED) };
    }
}
