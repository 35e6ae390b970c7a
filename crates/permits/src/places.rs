//! Where a phase begins: at which blocking call, by the Python functions that made it and their lines. The same place is the same class,
//! however many calls came before it: contended locks and loops over rows shift numbers, not places.

use greenlane_process::numbers::NumberMap;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a job begins.
pub const OPENED: u64 = 0;
/// Where a job goes on that was paused: the next chunk of a response.
pub const RESUMED: u64 = 1;

/// Frames that are looked at, at most: a driver and its client library take up to some twenty.
const MOST_FRAMES: usize = 24;
/// The application's own frames that name a place, at most: what called these is the framework.
const MOST_OWN: usize = 3;
/// Code objects that are remembered, at most. More than a service has; code that each job creates again would fill it.
const MOST_CODES: usize = 1 << 15;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// By the address of a code object: what names it over restarts, and in the lowest bit whether it is the application's.
static CODES: Mutex<Option<NumberMap<usize, u64>>> = Mutex::new(None);

/// The place of the call that the thread makes now.
pub fn call_site(_attached: Python<'_>) -> u64 {
    let (mut place, mut own) = (FNV_OFFSET, 0);
    // SAFETY: attached. Frames and their code are held while they are looked at.
    unsafe {
        let mut frame = ffi::PyEval_GetFrame();
        ffi::Py_XINCREF(frame.cast());
        for _ in 0..MOST_FRAMES {
            if frame.is_null() || own >= MOST_OWN {
                break;
            }
            let code = ffi::PyFrame_GetCode(frame);
            let named = name_of(code);
            let line = ffi::PyFrame_GetLineNumber(frame);
            ffi::Py_DECREF(code.cast());
            place = mix(mix(place, named), u64::from(line.unsigned_abs()));
            own += (named & 1) as usize;
            let back = ffi::PyFrame_GetBack(frame);
            ffi::Py_DECREF(frame.cast());
            frame = back;
        }
        ffi::Py_XDECREF(frame.cast());
    }
    // Fits a JSON number, and is none of the two above.
    (place >> 12) | 2
}

fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(FNV_PRIME).rotate_left(23)
}

unsafe fn name_of(code: *mut ffi::PyCodeObject) -> u64 {
    if let Some(&known) = codes().get_or_insert_default().get(&(code as usize)) {
        return known;
    }
    // SAFETY: as the caller says: the code is held. Nothing is locked while Python may run.
    let (file, function) = unsafe {
        (
            text(code.cast(), c"co_filename"),
            text(code.cast(), c"co_qualname"),
        )
    };
    let hashed = file
        .bytes()
        .chain([0])
        .chain(function.bytes())
        .fold(FNV_OFFSET, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
        });
    let named = hashed & !1 | u64::from(is_own(&file));
    let mut codes = codes();
    let codes = codes.get_or_insert_default();
    if codes.len() >= MOST_CODES {
        codes.clear();
    }
    codes.insert(code as usize, named);
    named
}

/// Whether a file is the application's: none of the standard library's or of installed packages.
fn is_own(file: &str) -> bool {
    let library = ["/site-packages/", "/dist-packages/"];
    let standard = file
        .split("/lib/python3")
        .nth(1)
        .is_some_and(|rest| rest.starts_with('.'));
    !(standard || file.starts_with('<') || library.iter().any(|part| file.contains(part)))
}

/// "" = it has none.
unsafe fn text(object: *mut ffi::PyObject, name: &CStr) -> String {
    // SAFETY: an object that the caller holds; the text belongs to the string, which is held here.
    unsafe {
        let value = ffi::PyObject_GetAttrString(object, name.as_ptr());
        if value.is_null() {
            ffi::PyErr_Clear();
            return String::new();
        }
        let said = ffi::PyUnicode_AsUTF8(value);
        let text = match said.is_null() {
            true => {
                ffi::PyErr_Clear();
                String::new()
            }
            false => CStr::from_ptr(said).to_string_lossy().into_owned(),
        };
        ffi::Py_DECREF(value);
        text
    }
}

fn codes() -> MutexGuard<'static, Option<NumberMap<usize, u64>>> {
    CODES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_applications_own_files_are_its_own() {
        assert!(is_own("/srv/shop/pricing.py"));
        assert!(is_own("/srv/lib/python3000/pricing.py"));
        assert!(!is_own("/usr/lib/python3.11/http/client.py"));
        assert!(!is_own(
            "/srv/venv/lib/python3.11/site-packages/flask/app.py"
        ));
        assert!(!is_own("<frozen importlib._bootstrap>"));
    }
}
