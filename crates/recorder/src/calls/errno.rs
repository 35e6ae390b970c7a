//! The calling thread's error number: redirected calls leave it as they found it.

use libc::c_int;

/// This thread's error number, to be put back as it was.
pub struct Errno(c_int);

impl Errno {
    pub fn keep() -> Self {
        // SAFETY: always valid for the calling thread.
        Self(unsafe { *libc::__errno_location() })
    }

    pub fn restore(self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 }
    }
}
