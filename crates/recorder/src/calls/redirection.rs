//! Makes the slots of all loaded objects lead to us, and back.
//!
//! Safe beside threads that load, unload and call, without the GIL:
//!
//! - objects are not unloaded while they are walked, for the linker's lock is held;
//! - an object that the linker is still relocating is left for the next walk: its slots hold no address yet, or lie in
//!   a page that will become read-only and is not so yet. The linker leaves a slot that holds an address alone, except
//!   at a lazy call's first resolution, which at worst puts the real address back;
//! - a slot is written as one word, and the pages' rights are as before afterwards;
//! - a slot that leads neither to libc nor to the lazy resolver belongs to somebody else's redirection: left alone.

use super::originals::{self, real};
use super::replacements::PLACES;
use super::symbols;
use greenlane_process::objects::{self, Object, Slot};
use greenlane_process::pages::{self, page_bytes, Pages};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Walks for the sake of slots that were not ready, without a new object; then they are let be.
const MOST_RETRIES: u64 = 8;
const MOST_HOMES: usize = 16;

/// What a walk found and did.
#[derive(Clone, Copy, Default)]
pub struct RedirectionTotals {
    /// Objects with redirected slots, and their redirected slots.
    pub objects: u64,
    pub slots: u64,
    /// Slots that lead to somebody else.
    pub foreign: u64,
    /// Slots that the linker had not finished.
    pub unfinished: u64,
    /// Slots whose page could not be made writable.
    pub failed: u64,
}

/// Where slots are to lead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToUs,
    Back,
}

/// Objects ever loaded, at the last walk; and walks since then.
static SEEN_LOADED: AtomicU64 = AtomicU64::new(0);
static RETRIES: AtomicU64 = AtomicU64::new(0);
/// Redirects all slots, while `wanted`.
pub fn redirect(wanted: &AtomicBool) -> RedirectionTotals {
    walk(Direction::ToUs, wanted)
}

/// Whether objects have been loaded since the last walk, or some were not ready in it. One look at the linker's count.
pub fn is_due(unfinished: u64) -> bool {
    let mut loaded = 0;
    objects::visit_all(&mut |_, adds| {
        loaded = adds;
        false
    });
    if loaded != SEEN_LOADED.load(Ordering::Relaxed) {
        RETRIES.store(0, Ordering::Relaxed);
        return true;
    }
    unfinished > 0 && RETRIES.fetch_add(1, Ordering::Relaxed) < MOST_RETRIES
}

/// Makes all slots lead to where they led.
pub fn give_back() {
    walk(Direction::Back, &AtomicBool::new(true));
}

fn walk(lead: Direction, wanted: &AtomicBool) -> RedirectionTotals {
    let mut walk = Walk {
        lead,
        homes: [(0, 0); MOST_HOMES],
        pages: Pages::with_room(),
        page_bytes: page_bytes(),
        found: RedirectionTotals::default(),
    };
    walk.find_homes();
    objects::visit_all(&mut |object, loaded| {
        SEEN_LOADED.store(loaded, Ordering::Relaxed);
        // Asked inside: nothing may be redirected after another thread has given everything back.
        let still = wanted.load(Ordering::Relaxed);
        if still {
            walk.visit(object);
        }
        still
    });
    walk.found
}

struct Walk {
    lead: Direction,
    /// Where libc's functions live: from, to.
    homes: [(usize, usize); MOST_HOMES],
    pages: Pages,
    page_bytes: usize,
    found: RedirectionTotals,
}

impl Walk {
    fn find_homes(&mut self) {
        let mut places = self.homes.iter_mut();
        objects::visit_all(&mut |object, _| {
            if object.is_home() {
                if let Some(place) = places.next() {
                    let span = object.span();
                    *place = (span.start, span.end);
                }
            }
            true
        });
    }

    fn is_home(&self, address: usize) -> bool {
        self.homes
            .iter()
            .any(|&(from, to)| (from..to).contains(&address))
    }

    fn visit(&mut self, object: &Object<'_>) {
        let ourselves = redirect as *const () as usize;
        if object.is_untouched() || object.contains(ourselves) {
            return;
        }
        let before = self.found.slots;
        object.each_slot(&mut |slot| {
            if let Some(index) = symbols::index_of(slot.name) {
                self.turn(object, slot, index);
            }
        });
        self.found.objects += u64::from(self.found.slots > before);
    }

    fn turn(&mut self, object: &Object<'_>, slot: &Slot<'_>, index: usize) {
        if real(index) == 0 {
            return;
        }
        // SAFETY: an aligned word in a loaded object's data, checked by `each_slot`; others read and write it whole.
        let place = unsafe { &*(slot.address as *const AtomicUsize) };
        let leads = place.load(Ordering::Acquire);
        let is_ours = leads == PLACES[index].address();
        let to = match self.lead {
            Direction::ToUs if is_ours => {
                self.found.slots += 1;
                return;
            }
            Direction::Back if !is_ours => return,
            Direction::Back => real(index),
            Direction::ToUs => {
                let resolver = slot.lazy && object.contains(leads);
                if !resolver && !originals::leads_to(index, leads) && !self.is_home(leads) {
                    match object.is_unrelocated(leads) {
                        true => self.found.unfinished += 1,
                        false => self.found.foreign += 1,
                    }
                    return;
                }
                PLACES[index].address()
            }
        };
        self.write(object, slot.address, place, to);
    }

    fn write(&mut self, object: &Object<'_>, address: usize, place: &AtomicUsize, to: usize) {
        let becomes_read_only = object.becomes_read_only(address, self.page_bytes);
        match (becomes_read_only, self.pages.writable(address)) {
            (_, None) => self.found.failed += 1,
            (true, Some(true)) => self.found.unfinished += 1,
            (_, Some(writable)) if pages::write_word(place, to, writable) => self.found.slots += 1,
            (_, Some(_)) => self.found.failed += 1,
        }
    }
}
