//! Where the C library's functions really are.
//!
//! Not in the slots: those may lead to the lazy resolver, or to us. Not always where the dynamic linker points either:
//! in an executable that is not position-independent and takes `&read`, the public address of `read` is a stub of the
//! executable, which jumps through the executable's slot, which leads to us.

use super::symbols::{COUNT, WANTED};
use greenlane_process::objects;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Room for the names of all libraries; libc is among the first.
const MOST_NAMES_BYTES: usize = 1 << 18;

#[allow(clippy::declare_interior_mutable_const)] // The first value of each place.
const NOWHERE: AtomicUsize = AtomicUsize::new(0);
/// What the redirected calls call; 0 = this C library has no such function.
static REAL: [AtomicUsize; COUNT] = [NOWHERE; COUNT];
/// The address that other objects are given.
static PUBLIC: [AtomicUsize; COUNT] = [NOWHERE; COUNT];

/// The function number `index` itself.
#[inline]
pub fn real(index: usize) -> usize {
    REAL[index].load(Ordering::Relaxed)
}

/// Lets calls of the function number `index` go to `address`.
pub fn pretend(index: usize, address: usize) {
    REAL[index].store(address, Ordering::Release);
}

/// Whether `address` is a known way to the function number `index`.
pub fn leads_to(index: usize, address: usize) -> bool {
    address != 0 && (address == real(index) || address == PUBLIC[index].load(Ordering::Relaxed))
}

/// Finds all functions, once. Call outside of [`objects::each`]: asks the dynamic linker.
pub fn find() {
    if PUBLIC
        .iter()
        .any(|address| address.load(Ordering::Relaxed) != 0)
    {
        return;
    }
    let libraries = libraries();
    for (index, wanted) in WANTED.iter().enumerate() {
        // SAFETY: a search by name in the objects that are loaded for all.
        let public = unsafe { libc::dlsym(libc::RTLD_DEFAULT, wanted.as_ptr()) } as usize;
        if public == 0 {
            continue;
        }
        let real = if is_stub(public, wanted) {
            libraries
                .iter()
                .find_map(|library| defined_in(library, wanted))
        } else {
            Some(public)
        };
        if let Some(real) = real {
            REAL[index].store(real, Ordering::Release);
            PUBLIC[index].store(public, Ordering::Release);
        }
    }
}

/// Whether `address` is an executable's stub for the function `name` of another object.
fn is_stub(address: usize, name: &CStr) -> bool {
    let mut stub = false;
    objects::visit_all(&mut |object, _| {
        if object.contains(address) {
            object.each_slot(&mut |slot| stub |= slot.name == name);
            return false;
        }
        true
    });
    stub
}

/// File names of the libraries, in the order in which the linker searches them.
fn libraries() -> Vec<CString> {
    // Nothing may be allocated while the linker's list is walked.
    let mut names: Vec<u8> = Vec::with_capacity(MOST_NAMES_BYTES);
    objects::visit_all(&mut |object, _| {
        let name = object.path().map_or(&[][..], CStr::to_bytes);
        let room = names.capacity() - names.len() > name.len();
        if room && !name.is_empty() {
            names.extend_from_slice(name);
            names.push(0);
        }
        room
    });
    let names = names.split(|&byte| byte == 0);
    names.filter_map(|name| CString::new(name).ok()).collect()
}

fn defined_in(library: &CStr, name: &CStr) -> Option<usize> {
    // SAFETY: looks up a library that is loaded, without loading any. The handle is given back: it only counts.
    let address = unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return None;
        }
        let address = libc::dlsym(handle, name.as_ptr()) as usize;
        libc::dlclose(handle);
        address
    };
    let mut inside = false;
    objects::visit_all(&mut |object, _| {
        let found = object.contains(address);
        inside |= found && object.path().is_some_and(|path| path == library);
        !found
    });
    (address != 0 && inside).then_some(address)
}
