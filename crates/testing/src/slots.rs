//! Where every loaded object keeps the addresses of functions that it takes from others, as it stands now.

use greenlane_process::objects;
use pyo3::prelude::*;

/// (file name of the object, function, address of the slot, what it holds) of every slot in the process.
#[pyfunction]
pub fn slots() -> Vec<(String, String, usize, usize)> {
    // Nothing is allocated inside the walk: its lock is the linker's. So it is walked twice.
    let mut number = 0;
    objects::visit_all(&mut |object, _| {
        object.each_slot(&mut |_| number += 1);
        true
    });
    let mut found: Vec<([u8; 64], [u8; 64], usize, usize)> = Vec::with_capacity(number + 1024);
    objects::visit_all(&mut |object, _| {
        object.each_slot(&mut |slot| {
            if found.len() < found.capacity() {
                // SAFETY: a slot is an aligned word of a loaded object, which the walk keeps loaded.
                let holds = unsafe { (slot.address as *const usize).read_volatile() };
                let names = (cut(object.file_name()), cut(slot.name.to_bytes()));
                found.push((names.0, names.1, slot.address, holds));
            }
        });
        true
    });
    let text = |name: [u8; 64]| {
        String::from_utf8_lossy(&name)
            .trim_end_matches('\0')
            .to_owned()
    };
    found
        .into_iter()
        .map(|(object, function, at, holds)| (text(object), text(function), at, holds))
        .collect()
}

fn cut(name: &[u8]) -> [u8; 64] {
    let mut kept = [0; 64];
    let length = name.len().min(kept.len());
    kept[..length].copy_from_slice(&name[..length]);
    kept
}
