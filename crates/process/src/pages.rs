//! What may be done with a page of this process, from `/proc/self/maps`.

use std::sync::atomic::{AtomicUsize, Ordering};

const AT_ONCE_BYTES: usize = 16 * 1024;

/// A reading of the map. Room for it is made before, so that it can be filled where nothing may be allocated.
pub struct Pages {
    /// (first address, end, writable), ascending.
    parts: Vec<(usize, usize, bool)>,
    filled: bool,
}

impl Pages {
    /// Room for twice the parts that there are now.
    pub fn with_room() -> Self {
        let mut count = 0;
        read_lines(&mut |_| count += 1);
        Self {
            parts: Vec::with_capacity(count * 2 + 64),
            filled: false,
        }
    }

    /// Whether the page at `address` may be written; None if it is not mapped, or the map could not be read.
    /// The map is read at the first question.
    pub fn writable(&mut self, address: usize) -> Option<bool> {
        if !self.filled {
            self.filled = true;
            let parts = &mut self.parts;
            read_lines(&mut |line| {
                if parts.len() < parts.capacity() {
                    parts.extend(parse(line));
                }
            });
        }
        let after = self.parts.partition_point(|part| part.0 <= address);
        let part = self.parts.get(after.checked_sub(1)?)?;
        (address < part.1).then_some(part.2)
    }
}

/// Writes a word, in a page that may be written or not; its rights are as before afterwards. False: they stay so.
pub fn write_word(place: &AtomicUsize, word: usize, writable: bool) -> bool {
    if writable {
        place.store(word, Ordering::Release);
        return true;
    }
    let address = place.as_ptr() as usize;
    let page = (address - address % page_bytes()) as *mut libc::c_void;
    // SAFETY: the page holds the word, and is mapped; more rights for a moment break nobody.
    unsafe {
        if libc::mprotect(page, page_bytes(), libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return false;
        }
        place.store(word, Ordering::Release);
        libc::mprotect(page, page_bytes(), libc::PROT_READ);
    }
    true
}

/// Of memory, bytes.
pub fn page_bytes() -> usize {
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    if BYTES.load(Ordering::Relaxed) == 0 {
        // SAFETY: a question without arguments.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        BYTES.store(
            usize::try_from(bytes).unwrap_or(4096).max(1),
            Ordering::Relaxed,
        );
    }
    BYTES.load(Ordering::Relaxed)
}

/// `7f..-7f.. rw-p ...`
fn parse(line: &[u8]) -> Option<(usize, usize, bool)> {
    let mut at = 0;
    let start = hex(line, &mut at)?;
    at += 1;
    let end = hex(line, &mut at)?;
    Some((start, end, *line.get(at + 2)? == b'w'))
}

fn hex(line: &[u8], at: &mut usize) -> Option<usize> {
    let mut value: usize = 0;
    let first = *at;
    while let Some(digit) = line.get(*at).and_then(|&byte| (byte as char).to_digit(16)) {
        value = value.wrapping_mul(16).wrapping_add(digit as usize);
        *at += 1;
    }
    (*at > first).then_some(value)
}

/// Calls `visit` with the first bytes of each line. Allocates nothing.
fn read_lines(visit: &mut dyn FnMut(&[u8])) {
    let mut buffer = [0_u8; AT_ONCE_BYTES];
    // SAFETY: a constant path; the descriptor is closed below.
    let fd = unsafe {
        libc::open(
            c"/proc/self/maps".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    if fd < 0 {
        return;
    }
    let mut kept = 0;
    loop {
        // SAFETY: writes at most what is left of the buffer.
        let got =
            unsafe { libc::read(fd, buffer[kept..].as_mut_ptr().cast(), AT_ONCE_BYTES - kept) };
        let Some(got) = usize::try_from(got).ok().filter(|&got| got > 0) else {
            break;
        };
        let full = kept + got;
        let mut from = 0;
        while let Some(length) = buffer[from..full].iter().position(|&byte| byte == b'\n') {
            visit(&buffer[from..from + length]);
            from += length + 1;
        }
        // A line is at most a path's length and 80 bytes, far below the buffer's.
        buffer.copy_within(from..full, 0);
        kept = full - from;
        if kept == AT_ONCE_BYTES {
            break;
        }
    }
    // SAFETY: opened above.
    unsafe { libc::close(fd) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_writable_and_a_constant_is_not() {
        static CONSTANT: [u64; 4] = [1, 2, 3, 4];
        let variable = Box::new(5_u64);
        let mut pages = Pages::with_room();
        assert_eq!(pages.writable(&raw const *variable as usize), Some(true));
        assert_eq!(pages.writable(CONSTANT.as_ptr() as usize), Some(false));
        assert_eq!(pages.writable(8), None);
    }
}
