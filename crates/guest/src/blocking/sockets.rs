//! Rules of sockets, look-ups and TLS: a call can block unless the socket, or a flag of the call, says not to.

use super::phase;
use super::quick_calls::{looks_up, Quick};
use super::waits::{has_bits, is_true};
use crate::nonblocking_calls::send_at_once;
use greenlane_methods::call::{Call, Function};
use greenlane_methods::table::Rule;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ptr;

enum Does {
    /// Flags may stand at this place, if it is not 0.
    Waits(usize),
    Receives {
        into: bool,
    },
    Connects,
    Closes,
    LooksUp,
    Sends,
    SendsAll,
    /// On OpenSSL's object, whose socket is asked.
    Tls,
    /// Likewise; what has been decrypted already is handed out immediately.
    TlsReads,
}

struct SocketRule {
    kind: u8,
    does: Does,
    /// Of a socket `getblocking`, then what the rule asks beside it.
    asks: Vec<Function>,
}

/// The rule called `rule`; `asks` are the socket's `getblocking`, and of a TLS read `pending`, of a socket's receive and
/// connect `gettimeout`; of its close `detach`, and of a look-up nothing.
pub fn rule_named(
    rule: &str,
    _method: &Bound<'_, PyAny>,
    kind: u8,
    at: usize,
    asks: &[Function],
) -> Option<Box<dyn Rule>> {
    let does = match rule {
        "socket" => Does::Waits(at),
        "receives" => Does::Receives { into: false },
        "receives_into" => Does::Receives { into: true },
        "connects" => Does::Connects,
        "closes" => Does::Closes,
        "looks_up" => Does::LooksUp,
        "sends" => Does::Sends,
        "sends_all" => Does::SendsAll,
        "tls" => Does::Tls,
        "tls_reads" => Does::TlsReads,
        _ => return None,
    };
    let asked = match does {
        Does::LooksUp => 0,
        Does::Waits(_) | Does::Sends | Does::SendsAll | Does::Closes | Does::Tls => 1,
        _ => 2,
    };
    (asks.len() == asked).then(|| {
        let asks = asks.to_vec();
        Box::new(SocketRule { kind, does, asks }) as Box<dyn Rule>
    })
}

impl Rule for SocketRule {
    fn wants(&self) -> bool {
        phase::is_heard()
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call.
        unsafe {
            if let Does::Closes = self.does {
                let closed = Quick::of(call).and_then(|quick| quick.closes(&self.asks[0]));
                return closed.unwrap_or_else(|| call.pass());
            }
            if !self.can_block(call) {
                return call.pass();
            }
            if let Does::Sends | Does::SendsAll = self.does {
                if let Some(result) = self.try_now(call) {
                    return result;
                }
            }
            let quickly = || match self.does {
                Does::LooksUp => looks_up(call),
                Does::Receives { into } => Quick::of(call)?.receives(into, &self.asks[1]),
                Does::Connects => Quick::of(call)?.connects(&self.asks[1]),
                _ => None,
            };
            let made = || quickly().unwrap_or_else(|| call.pass());
            phase::around(self.kind, made, |_| ())
        }
    }
}

impl SocketRule {
    unsafe fn can_block(&self, call: &Call<'_>) -> bool {
        let flags_at = match self.does {
            Does::LooksUp => return true,
            Does::Waits(at) => at,
            Does::Receives { into } => 1 + usize::from(into),
            Does::Sends | Does::SendsAll => 1,
            _ => 0,
        };
        let flags = (flags_at != 0)
            .then(|| call.argument(flags_at, Some(c"flags")))
            .flatten();
        // SAFETY: within the call; references are given back.
        unsafe {
            if let Does::Tls | Does::TlsReads = self.does {
                return self.tls_can_block(call.this);
            }
            let dontwait = flags.is_some_and(|flags| has_bits(flags, libc::MSG_DONTWAIT.into()));
            !dontwait && is_true(self.asks[0].call(call.this, &[])) == Some(true)
        }
    }

    unsafe fn tls_can_block(&self, this: *mut PyObject) -> bool {
        // SAFETY: within the call; references are given back.
        unsafe {
            if let Does::TlsReads = self.does {
                if is_true(self.asks[1].call(this, &[])) == Some(true) {
                    return false;
                }
            }
            let owner = ffi::PyObject_GetAttrString(this, c"owner".as_ptr());
            if owner.is_null() {
                ffi::PyErr_Clear();
                return false;
            }
            // Memory BIOs (`ssl.SSLObject`) have an owner that is no socket, and never block.
            let is_socket = is_a(owner, self.asks[0].class);
            let blocks = is_socket && is_true(self.asks[0].call(owner, &[])) == Some(true);
            ffi::Py_DECREF(owner);
            blocks
        }
    }

    /// What a send gives that needed no wait: all of it went within the phase. None: the socket's own call is to be made.
    unsafe fn try_now(&self, call: &Call<'_>) -> Option<*mut PyObject> {
        // SAFETY: within the call, so the thread is attached and the arguments live.
        unsafe {
            let py = Python::assume_attached();
            let data = call.argument(0, None)?;
            if call.placed() != 1 || call.named() != 0 || ffi::PyBytes_CheckExact(data) == 0 {
                return None;
            }
            let data = Bound::from_borrowed_ptr(py, data);
            let bytes = data.cast::<PyBytes>().ok()?.as_bytes();
            let socket = Bound::from_borrowed_ptr(py, call.this);
            let sent = match send_at_once(&socket, bytes) {
                Ok(0) => return None,
                Ok(sent) => sent,
                Err(error) => {
                    error.restore(py);
                    return Some(ptr::null_mut());
                }
            };
            if let Does::Sends = self.does {
                return Some(ffi::PyLong_FromSize_t(sent));
            }
            if sent == bytes.len() {
                ffi::Py_INCREF(ffi::Py_None());
                return Some(ffi::Py_None());
            }
            let rest = PyBytes::new(py, &bytes[sent..]);
            Some(phase::around(
                self.kind,
                || call.function.call(call.this, &[rest.as_ptr()]),
                |_| (),
            ))
        }
    }
}

unsafe fn is_a(object: *mut PyObject, class: *mut PyTypeObject) -> bool {
    // SAFETY: an object, and a class or null.
    unsafe { !class.is_null() && ffi::PyObject_TypeCheck(object, class) != 0 }
}
