//! The files of one process: `<folder>/<pid>-<process>-<nnnn>.glr`, a new one now and then so that the oldest of all
//! processes can be deleted when together they are too large, or they are too old.

use greenlane_process::descriptors::{high, Identity};
use greenlane_recording_format::chunk::{frame, Header};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Files end in this.
pub const SUFFIX: &str = "glr";
/// Segments a recording is made of at its largest: what is deleted at once is one of them.
const SEGMENTS: u64 = 32;
const SMALLEST_BYTES: u64 = 64 << 10;
/// The same of its age: so much longer than asked for is kept, at most.
const AGES: u32 = 8;

/// See the module.
pub struct Segments {
    folder: PathBuf,
    process: u64,
    max_bytes: u64,
    /// Zero = for ever.
    keep: Duration,
    begun: Instant,
    file: Option<(File, Identity)>,
    /// Bytes in the present file.
    length: u64,
    number: u32,
    sequence: u32,
    /// May be written before the folder is looked at again.
    allowed_bytes: u64,
    pub lost: u64,
    pub written_bytes: u64,
    /// What the last write said; cleared by a good one.
    pub error: Option<String>,
    /// Chunks that could not be written.
    pub failed: u64,
}

impl Segments {
    /// Nothing is opened before the first write.
    pub fn new(folder: &Path, process: u64, max_bytes: u64, keep: Duration) -> Self {
        Self {
            folder: folder.to_owned(),
            process,
            max_bytes,
            keep,
            begun: Instant::now(),
            file: None,
            length: 0,
            number: 0,
            sequence: 0,
            allowed_bytes: 0,
            lost: 0,
            written_bytes: 0,
            error: None,
            failed: 0,
        }
    }

    /// Opens the first file, so that a folder that cannot be written is known at the start.
    pub fn open(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            let options = OpenOptions::new().append(true).create_new(true).to_owned();
            self.file = Some(self.open_file(options)?);
            self.length = 0;
            self.begun = Instant::now();
            self.allowed_bytes = self.make_room();
        }
        Ok(())
    }

    fn open_file(&self, mut options: OpenOptions) -> io::Result<(File, Identity)> {
        let name = format!(
            "{}-{:016x}-{:04}.{SUFFIX}",
            std::process::id(),
            self.process,
            self.number
        );
        let file = options
            .custom_flags(libc::O_NOFOLLOW)
            .mode(0o600)
            .open(self.folder.join(name))?;
        let identity = Identity::of(&file.metadata()?);
        Ok((high(file), identity))
    }

    /// Whether the next chunk begins a file: then it should say again what is true since long.
    pub fn at_start(&self) -> bool {
        self.file.is_none() || self.length == 0
    }

    /// Writes a chunk. What cannot be written is counted, the file keeps only whole chunks, and the next try may work.
    pub fn write(&mut self, base_ns: u64, payload: &[u8]) {
        let header = Header {
            process: self.process,
            pid: std::process::id(),
            sequence: self.sequence,
            lost: u32::try_from(self.lost).unwrap_or(u32::MAX),
            base_ns,
            length: 0,
            crc: 0,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = frame(header, payload);
        match self.append(&bytes) {
            Ok(()) => {
                self.error = None;
                self.length += bytes.len() as u64;
                self.written_bytes += bytes.len() as u64;
            }
            Err(error) => {
                self.error = Some(error.to_string());
                self.failed += 1;
                if let Some((file, _)) = &self.file {
                    let _ = file.set_len(self.length);
                }
            }
        }
        self.allowed_bytes = self.allowed_bytes.saturating_sub(bytes.len() as u64);
        let old = !self.keep.is_zero() && self.begun.elapsed() >= self.keep / AGES;
        if old || self.length >= (self.max_bytes / SEGMENTS).max(SMALLEST_BYTES) {
            self.file = None;
            self.number += 1;
        } else if self.allowed_bytes == 0 {
            self.allowed_bytes = self.make_room();
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.find_again();
        self.open()?;
        match &mut self.file {
            Some((file, _)) => file.write_all(bytes),
            None => Ok(()),
        }
    }

    /// Makes sure that the descriptor is still our file's, and that the file still has a name; else the next begins.
    fn find_again(&mut self) {
        let Some((file, identity)) = self.file.take() else {
            return;
        };
        let about = file.metadata().ok();
        let ours = about.filter(|about| Identity::of(about) == identity);
        let there = match ours {
            Some(about) => (about.nlink() > 0).then_some((file, identity)),
            None => {
                let _ = file.into_raw_fd(); // The program has closed it; the number is not ours to close.
                let reopened = self.open_file(OpenOptions::new().append(true).to_owned());
                reopened.ok().filter(|(_, again)| *again == identity)
            }
        };
        if there.is_none() {
            self.number += 1;
        }
        self.file = there;
    }

    /// Deletes the oldest files of all processes in the folder until those that remain leave room for one more. Gives
    /// what this process may write before it looks again: its part of the room, if the others take theirs.
    fn make_room(&self) -> u64 {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return SMALLEST_BYTES;
        };
        let mut files: Vec<_> = entries
            .flatten()
            .filter(|entry| {
                entry
                    .path()
                    .extension()
                    .is_some_and(|suffix| suffix == SUFFIX)
            })
            .filter_map(|entry| {
                let about = entry.metadata().ok()?;
                Some((about.modified().ok()?, about.len(), entry.path()))
            })
            .collect();
        files.sort();
        let room = self.max_bytes - self.max_bytes / SEGMENTS;
        let mut total: u64 = files.iter().map(|(_, length, _)| length).sum();
        let mut count = files.len() as u64;
        let now = SystemTime::now();
        let is_old = |written: SystemTime| {
            let age = now.duration_since(written).unwrap_or_default();
            !self.keep.is_zero() && age > self.keep
        };
        for (written, length, path) in files {
            if total <= room && !is_old(written) {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= length;
                count -= 1;
            }
        }
        let part = self.max_bytes.saturating_sub(total) / (count + 1);
        part.max(SMALLEST_BYTES)
    }
}
