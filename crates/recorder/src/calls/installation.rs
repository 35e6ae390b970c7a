//! Redirects the calls of all loaded objects, tries whether that works, and puts everything back.

use super::redirection::{self, RedirectionTotals};
use super::{originals, redirected, sockets, symbols};
use crate::names;
use greenlane_interpreter::gil;
use greenlane_process::forks;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

static INSTALLED: AtomicBool = AtomicBool::new(false);
/// What the last walk found; see [`RedirectionTotals`].
static FOUND: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];
/// Why nothing is redirected. Touched with the GIL only: a forked child finds it free.
static WHY: Mutex<String> = Mutex::new(String::new());

/// Whether calls are redirected.
pub fn is_installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Redirects the calls of all loaded objects; Err says why not. `stamps`: ask the kernel for stamps too.
pub fn install(py: Python<'_>, stamps: bool) -> Result<(), String> {
    let tried = try_install(py);
    if tried.is_err() {
        uninstall();
    } else {
        sockets::want(stamps);
        if stamps {
            sockets::stamp_all();
        }
    }
    let mut why = WHY.lock().unwrap_or_else(PoisonError::into_inner);
    *why = tried.clone().err().unwrap_or_default();
    tried
}

/// Why nothing is redirected; empty if it is, or was never tried.
pub fn why(_with_the_gil: Python<'_>) -> String {
    WHY.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Redirects the calls of objects that were loaded since. Cheap when there are none: 1 us. Needs no GIL.
pub fn rescan() {
    if is_installed() && redirection::is_due(redirection_totals().unfinished) {
        note(redirection::redirect(&INSTALLED));
    }
}

/// Puts everything back as it was.
pub fn uninstall() {
    sockets::want(false);
    sockets::unstamp_all();
    if INSTALLED.swap(false, Ordering::Relaxed) {
        redirection::give_back();
        note(RedirectionTotals::default());
    }
}

fn try_install(py: Python<'_>) -> Result<(), String> {
    if !cfg!(target_env = "gnu") {
        return Err("the C library is not glibc".to_owned());
    }
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Err(format!("unknown processor {}", std::env::consts::ARCH));
    }
    forks::watch();
    originals::find();
    for (index, wanted) in symbols::WANTED.iter().enumerate() {
        let name = wanted.to_str().unwrap_or_default();
        let name = match index {
            // Of the calls made by number, those for this are timed.
            symbols::SYSCALL => "futex",
            _ => name.trim_start_matches("__x").trim_start_matches("__"),
        };
        let name = name.trim_end_matches("_chk");
        redirected::name(index, names::text(name));
    }
    gil::find(py);
    INSTALLED.store(true, Ordering::Relaxed);
    note(redirection::redirect(&INSTALLED));
    test(py)
}

fn note(found: RedirectionTotals) {
    let RedirectionTotals {
        objects,
        slots,
        foreign,
        unfinished,
        failed,
    } = found;
    let counts = [objects, slots, foreign, unfinished, failed];
    for (place, count) in FOUND.iter().zip(counts) {
        place.store(count, Ordering::Relaxed);
    }
}

pub fn redirection_totals() -> RedirectionTotals {
    let [objects, slots, foreign, unfinished, failed] =
        [0, 1, 2, 3, 4].map(|index: usize| FOUND[index].load(Ordering::Relaxed));
    RedirectionTotals {
        objects,
        slots,
        foreign,
        unfinished,
        failed,
    }
}

static TEST_SEEN: AtomicU64 = AtomicU64::new(0);
static TEST_REAL: AtomicUsize = AtomicUsize::new(0);
/// One more than the fork generation of the process whose test is under way; 0 = none is.
static TESTING: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn test_read(fd: c_int, bytes: *mut libc::c_void, length: usize) -> isize {
    TEST_SEEN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: `read` itself, called as the caller did.
    unsafe {
        let read: unsafe extern "C-unwind" fn(c_int, *mut libc::c_void, usize) -> isize =
            transmute(TEST_REAL.load(Ordering::Relaxed));
        read(fd, bytes, length)
    }
}

/// Reads a byte from a pipe as Python does, and sees whether it came through us.
fn test(py: Python<'_>) -> Result<(), String> {
    // Reading gives up the GIL: another thread may be at the same, and it may fork.
    let own = forks::generation() + 1;
    if TESTING.swap(own, Ordering::Relaxed) == own {
        return Ok(());
    }
    let (real, ours) = (
        originals::real(symbols::READ),
        test_read as *const () as usize,
    );
    if real != ours {
        TEST_REAL.store(real, Ordering::Relaxed);
    }
    let before = TEST_SEEN.load(Ordering::Relaxed);
    originals::pretend(symbols::READ, ours);
    let read = read_a_byte(py);
    originals::pretend(symbols::READ, TEST_REAL.load(Ordering::Relaxed));
    TESTING.store(0, Ordering::Relaxed);
    match read {
        Err(error) => Err(format!("the test could not read from a pipe: {error}")),
        Ok(byte) if byte != b"g" => Err("the test read something else than was written".to_owned()),
        Ok(_) if TEST_SEEN.load(Ordering::Relaxed) == before => {
            Err("the test's read did not come through us".to_owned())
        }
        Ok(_) => Ok(()),
    }
}

fn read_a_byte(py: Python<'_>) -> PyResult<Vec<u8>> {
    let os = py.import("posix")?;
    let (from, to): (c_int, c_int) = os.call_method0("pipe")?.extract()?;
    let read = os
        .call_method1("write", (to, pyo3::types::PyBytes::new(py, b"g")))
        .and_then(|_| os.call_method1("read", (from, 1)))
        .and_then(|read| read.extract());
    os.call_method1("close", (from,))?;
    os.call_method1("close", (to,))?;
    read
}
