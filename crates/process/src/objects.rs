//! The loaded objects (executable, libraries, extension modules), as the dynamic linker lists them.
//!
//! Everything here runs inside `dl_iterate_phdr`'s callback: its lock keeps objects from being unloaded meanwhile. It
//! must not allocate there (an allocator may itself ask the dynamic linker) nor panic (it would unwind through C).

use libc::{c_int, c_void, dl_phdr_info, size_t, Elf64_Phdr, Elf64_Sym};
use std::ffi::CStr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;
use std::time::{Duration, Instant};

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_STRSZ: i64 = 10;
const DT_PLTREL: i64 = 20;
const DT_JMPREL: i64 = 23;

#[cfg(target_arch = "x86_64")]
const JUMP_SLOT: u32 = 7;
#[cfg(target_arch = "x86_64")]
const GLOB_DAT: u32 = 6;
/// A pointer in data, such as in a table of functions.
#[cfg(target_arch = "x86_64")]
const ADDRESS: u32 = 1;
#[cfg(target_arch = "aarch64")]
const JUMP_SLOT: u32 = 1026;
#[cfg(target_arch = "aarch64")]
const GLOB_DAT: u32 = 1025;
#[cfg(target_arch = "aarch64")]
const ADDRESS: u32 = 257;
/// Of other machines we know nothing.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const JUMP_SLOT: u32 = u32::MAX;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const GLOB_DAT: u32 = u32::MAX;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ADDRESS: u32 = u32::MAX;

/// Objects whose own calls are never redirected, by the beginning of their file name: the C library and what belongs
/// to it (a name look-up is one call, whatever it does inside), and the runtimes of sanitizers.
const UNTOUCHED: [&[u8]; 17] = [
    b"libc.so",
    b"libc-",
    b"ld-",
    b"ld.so",
    b"libpthread",
    b"libdl.so",
    b"libdl-",
    b"librt.so",
    b"librt-",
    b"libresolv",
    b"libnss_",
    b"libasan",
    b"libtsan",
    b"libubsan",
    b"liblsan",
    b"libclang_rt",
    b"linux-vdso",
];
/// Of these, the ones in which an address of a libc function may lie.
const HOME: [&[u8]; 5] = [b"libc.so", b"libc-", b"ld-", b"libpthread", b"librt"];

/// One relocation with an addend; the fields are the ELF format's.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rela {
    offset: u64,
    info: u64,
    addend: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Dyn {
    tag: i64,
    value: u64,
}

/// One loaded object. Valid inside [`visit_all`] only.
pub struct Object<'a> {
    base: usize,
    path: Option<&'a CStr>,
    headers: &'a [Elf64_Phdr],
}

/// Where an object keeps the address of a function of another object.
pub struct Slot<'a> {
    pub address: usize,
    pub name: &'a CStr,
    /// Resolved at the first call only: until then it leads back into the object.
    pub lazy: bool,
}

/// One walk at a time, and none during a `fork()`: the linker's lock, held by a thread that the child does not have,
/// would stop the child's first import for ever. Nobody waits longer than [`PATIENCE`]: another library's handler may
/// wait, between our two, for the thread that wants to walk.
static GATE: AtomicBool = AtomicBool::new(false);
static WATCHED: Once = Once::new();
/// A walk takes less than a millisecond.
const PATIENCE: Duration = Duration::from_millis(50);

extern "C" fn close_gate() {
    let mut begun = None;
    while GATE.swap(true, Ordering::Acquire) {
        if begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return;
        }
        // SAFETY: without arguments.
        unsafe { libc::sched_yield() };
    }
}

extern "C" fn open_gate() {
    GATE.store(false, Ordering::Release);
}

/// Calls `visit` with each object and the number of objects ever loaded, until it gives false.
pub fn visit_all(visit: &mut dyn FnMut(&Object<'_>, u64) -> bool) {
    struct Visitor<'a>(&'a mut dyn FnMut(&Object<'_>, u64) -> bool);

    unsafe extern "C" fn call(info: *mut dl_phdr_info, _: size_t, visitor: *mut c_void) -> c_int {
        // SAFETY: `visitor` is the local below; the linker keeps what `info` points to alive during the call.
        unsafe {
            let visitor = &mut *visitor.cast::<Visitor<'_>>();
            let info = &*info;
            let path = (!info.dlpi_name.is_null()).then(|| CStr::from_ptr(info.dlpi_name));
            let headers = if info.dlpi_phdr.is_null() {
                &[][..]
            } else {
                std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
            };
            let object = Object {
                base: info.dlpi_addr as usize,
                path,
                headers,
            };
            c_int::from(!(visitor.0)(&object, info.dlpi_adds))
        }
    }

    WATCHED.call_once(|| {
        // SAFETY: the functions touch one atomic. A failure (no memory) leaves the child to chance.
        unsafe { libc::pthread_atfork(Some(close_gate), Some(open_gate), Some(open_gate)) };
    });
    let mut visitor = Visitor(visit);
    close_gate();
    // SAFETY: the callback gets a pointer to `visitor`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut visitor).cast()) };
    open_gate();
}

impl<'a> Object<'a> {
    /// Its file; None for the executable, whose name is empty.
    pub fn path(&self) -> Option<&'a CStr> {
        self.path.filter(|path| !path.is_empty())
    }

    /// Without its folder; empty for the executable.
    pub fn file_name(&self) -> &'a [u8] {
        let path = self.path.map_or(&[][..], CStr::to_bytes);
        path.rsplit(|&byte| byte == b'/').next().unwrap_or(&[])
    }

    /// Whether its calls stay as they are.
    pub fn is_untouched(&self) -> bool {
        UNTOUCHED
            .iter()
            .any(|start| self.file_name().starts_with(start))
    }

    /// Whether libc's functions live in it.
    pub fn is_home(&self) -> bool {
        HOME.iter().any(|start| self.file_name().starts_with(start))
    }

    fn at(&self, header: &Elf64_Phdr) -> Range<usize> {
        let start = self.base.wrapping_add(header.p_vaddr as usize);
        start..start.wrapping_add(header.p_memsz as usize)
    }

    fn of_type(&self, kind: u32) -> impl Iterator<Item = &'a Elf64_Phdr> {
        self.headers
            .iter()
            .filter(move |header| header.p_type == kind)
    }

    /// Whether `value` looks like what a slot holds before the linker has come to it: nothing, or an offset.
    pub fn is_unrelocated(&self, value: usize) -> bool {
        value == 0 || value < self.base
    }

    /// Whether `address` lies in it.
    pub fn contains(&self, address: usize) -> bool {
        self.of_type(libc::PT_LOAD)
            .any(|header| self.at(header).contains(&address))
    }

    /// From its first to its last byte.
    pub fn span(&self) -> Range<usize> {
        let loads = || self.of_type(libc::PT_LOAD).map(|header| self.at(header));
        let start = loads().map(|range| range.start).min().unwrap_or(0);
        start..loads().map(|range| range.end).max().unwrap_or(0)
    }

    /// Whether `address` lies in a part that was writable when loaded.
    fn was_writable(&self, address: usize) -> bool {
        self.of_type(libc::PT_LOAD)
            .any(|header| header.p_flags & libc::PF_W != 0 && self.at(header).contains(&address))
    }

    /// Whether `address` lies in a page that the linker makes read-only once it has relocated the object.
    pub fn becomes_read_only(&self, address: usize, page: usize) -> bool {
        self.of_type(libc::PT_GNU_RELRO).any(|header| {
            let range = self.at(header);
            let down = |at: usize| at - at % page;
            (down(range.start)..down(range.end)).contains(&address)
        })
    }

    /// Calls `visit` with each slot for a function that this object takes from another.
    pub fn each_slot(&self, visit: &mut dyn FnMut(&Slot<'_>)) {
        let Some(tables) = self.tables() else {
            return;
        };
        for (start, bytes) in [tables.calls, tables.others] {
            if start == 0
                || !self.contains(start)
                || !self.contains(start + bytes.saturating_sub(1))
            {
                continue;
            }
            for index in 0..bytes / size_of::<Rela>() {
                // SAFETY: the table lies wholly within the loaded object.
                let entry = unsafe { (start as *const Rela).add(index).read_unaligned() };
                let kind = entry.info as u32;
                if kind == JUMP_SLOT || kind == GLOB_DAT || kind == ADDRESS && entry.addend == 0 {
                    self.visit_entry(&tables, entry, kind == JUMP_SLOT, visit);
                }
            }
        }
    }

    fn visit_entry(
        &self,
        tables: &Tables,
        entry: Rela,
        lazy: bool,
        visit: &mut dyn FnMut(&Slot<'_>),
    ) {
        let address = self.base.wrapping_add(entry.offset as usize);
        let symbol_at = tables.symbols + (entry.info >> 32) as usize * size_of::<Elf64_Sym>();
        if address % align_of::<usize>() != 0
            || !self.was_writable(address)
            || !self.contains(symbol_at)
        {
            return;
        }
        // SAFETY: checked to lie within the loaded object.
        let symbol = unsafe { (symbol_at as *const Elf64_Sym).read_unaligned() };
        let name_at = symbol.st_name as usize;
        // A function that the object itself defines is not libc's, whatever it is called.
        if symbol.st_shndx != 0 || name_at == 0 || name_at >= tables.names_bytes {
            return;
        }
        // SAFETY: the string table lies in the object and each of its strings ends with a NUL, its last byte.
        let name = unsafe { CStr::from_ptr((tables.names + name_at) as *const _) };
        visit(&Slot {
            address,
            name,
            lazy,
        });
    }

    fn tables(&self) -> Option<Tables> {
        let dynamic = self.at(self.of_type(libc::PT_DYNAMIC).next()?);
        if !self.contains(dynamic.start) {
            return None;
        }
        let mut tables = Tables::default();
        let mut at_rela = true;
        for index in 0..dynamic.len() / size_of::<Dyn>() {
            // SAFETY: within the dynamic segment, which is loaded.
            let entry = unsafe { (dynamic.start as *const Dyn).add(index).read_unaligned() };
            let value = entry.value as usize;
            match entry.tag {
                0 => break,
                DT_STRTAB => tables.names = self.absolute(value),
                DT_STRSZ => tables.names_bytes = value,
                DT_SYMTAB => tables.symbols = self.absolute(value),
                DT_JMPREL => tables.calls.0 = self.absolute(value),
                DT_PLTRELSZ => tables.calls.1 = value,
                DT_PLTREL => at_rela = entry.value as i64 == DT_RELA,
                DT_RELA => tables.others.0 = self.absolute(value),
                DT_RELASZ => tables.others.1 = value,
                _ => {}
            }
        }
        let last_name = (tables.names + tables.names_bytes).wrapping_sub(1);
        let sound = at_rela && self.contains(tables.names) && self.contains(last_name);
        (sound && self.contains(tables.symbols)).then_some(tables)
    }

    /// The linker makes these entries absolute in most objects, in place; in the others they are offsets.
    fn absolute(&self, value: usize) -> usize {
        if value < self.base {
            self.base + value
        } else {
            value
        }
    }
}

/// Where an object's tables lie: (address, bytes), 0 = none.
#[derive(Default)]
struct Tables {
    names: usize,
    names_bytes: usize,
    symbols: usize,
    calls: (usize, usize),
    others: (usize, usize),
}
