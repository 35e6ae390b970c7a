//! The files of one process: `<folder>/<pid>-<process>-<nnnn>.glr`, a new one now and then so that the oldest of all
//! processes can be deleted when together they are too large.

use greenlane_recording_format::chunk::{frame, Header};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files end in this.
pub const SUFFIX: &str = "glr";
/// Segments a recording is made of at its largest: what is deleted at once is one of them.
const SEGMENTS: u64 = 32;
const SMALLEST_BYTES: u64 = 64 << 10;

/// See the module.
pub struct Segments {
    folder: PathBuf,
    process: u64,
    max_bytes: u64,
    file: Option<(File, PathBuf)>,
    /// Bytes in the present file.
    length: u64,
    number: u32,
    sequence: u32,
    pub lost: u64,
    pub written_bytes: u64,
    /// What the last write said; cleared by a good one.
    pub error: Option<String>,
    /// Chunks that could not be written.
    pub failed: u64,
}

impl Segments {
    /// Nothing is opened before the first write.
    pub fn new(folder: &Path, process: u64, max_bytes: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            process,
            max_bytes,
            file: None,
            length: 0,
            number: 0,
            sequence: 0,
            lost: 0,
            written_bytes: 0,
            error: None,
            failed: 0,
        }
    }

    /// Opens the first file, so that a folder that cannot be written is known at the start.
    pub fn open(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            let name = format!(
                "{}-{:016x}-{:04}.{SUFFIX}",
                std::process::id(),
                self.process,
                self.number
            );
            let path = self.folder.join(name);
            let file = OpenOptions::new()
                .append(true)
                .create_new(true)
                .open(&path)?;
            self.file = Some((file, path));
            self.length = 0;
        }
        Ok(())
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
        if self.length >= (self.max_bytes / SEGMENTS).max(SMALLEST_BYTES) {
            self.turn_over();
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_deleted() {
            self.file = None; // Another process found it the oldest.
            self.number += 1;
        }
        self.open()?;
        match &mut self.file {
            Some((file, _)) => file.write_all(bytes),
            None => Ok(()),
        }
    }

    fn is_deleted(&self) -> bool {
        let about = self
            .file
            .as_ref()
            .and_then(|(file, _)| file.metadata().ok());
        about.is_some_and(|about| about.nlink() == 0)
    }

    fn turn_over(&mut self) {
        self.file = None;
        self.number += 1;
        self.delete_oldest();
    }

    /// Deletes the oldest files of all processes in the folder until those that remain leave room for one more.
    fn delete_oldest(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
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
        for (_, length, path) in files {
            if total <= room {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= length;
            }
        }
    }
}
