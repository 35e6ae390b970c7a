//! Files: what a slow or remote disk makes of them.

use super::originals::real;
use super::redirected::{
    begin_at, called_for, end_call, is_recorded, redirected, CallTime, DRIVER,
};
use super::symbols;
use libc::{c_char, c_int, c_void, iovec, mode_t, off64_t, off_t, size_t, ssize_t};
use std::mem::transmute;

redirected! {
    /// Its last argument is there if `flags` say so; it is passed on unlooked at.
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, OPEN, CallTime::Blocked(DRIVER);
    /// As [`open`].
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, OPEN64, CallTime::Blocked(DRIVER);
    /// As [`open`].
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, OPENAT, CallTime::Blocked(DRIVER);
    /// As [`open`].
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, OPENAT64, CallTime::Blocked(DRIVER);
    pread(fd: c_int, bytes: *mut c_void, length: size_t, at: off_t) -> ssize_t, PREAD, CallTime::Blocked(DRIVER);
    pread64(fd: c_int, bytes: *mut c_void, length: size_t, at: off64_t) -> ssize_t, PREAD64, CallTime::Blocked(DRIVER);
    pwrite(fd: c_int, bytes: *const c_void, length: size_t, at: off_t) -> ssize_t, PWRITE, CallTime::Blocked(DRIVER);
    pwrite64(fd: c_int, bytes: *const c_void, length: size_t, at: off64_t) -> ssize_t, PWRITE64, CallTime::Blocked(DRIVER);
    preadv(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t, PREADV, CallTime::Blocked(DRIVER);
    preadv64(fd: c_int, parts: *const iovec, count: c_int, at: off64_t) -> ssize_t, PREADV64, CallTime::Blocked(DRIVER);
    pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t, PWRITEV, CallTime::Blocked(DRIVER);
    pwritev64(fd: c_int, parts: *const iovec, count: c_int, at: off64_t) -> ssize_t, PWRITEV64, CallTime::Blocked(DRIVER);
    stat(path: *const c_char, found: *mut c_void) -> c_int, STAT, CallTime::Blocked(DRIVER);
    stat64(path: *const c_char, found: *mut c_void) -> c_int, STAT64, CallTime::Blocked(DRIVER);
    lstat(path: *const c_char, found: *mut c_void) -> c_int, LSTAT, CallTime::Blocked(DRIVER);
    lstat64(path: *const c_char, found: *mut c_void) -> c_int, LSTAT64, CallTime::Blocked(DRIVER);
    fstatat(folder: c_int, path: *const c_char, found: *mut c_void, flags: c_int) -> c_int, FSTATAT,
        CallTime::Blocked(DRIVER);
    fstatat64(folder: c_int, path: *const c_char, found: *mut c_void, flags: c_int) -> c_int, FSTATAT64,
        CallTime::Blocked(DRIVER);
    /// `stat` of objects that were built against glibc before 2.33.
    __xstat(version: c_int, path: *const c_char, found: *mut c_void) -> c_int, XSTAT, CallTime::Blocked(DRIVER);
    /// As [`__xstat`].
    __xstat64(version: c_int, path: *const c_char, found: *mut c_void) -> c_int, XSTAT64, CallTime::Blocked(DRIVER);
}
