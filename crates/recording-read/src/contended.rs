//! Waits for places of resources, and who had them meanwhile, as a process' events say it.

use greenlane_recording_format::event::Text;
use std::collections::HashMap;

/// A wait for a place. Its unit and job are those of [`Timeline`]; `NONE` = none.
#[derive(Clone, Copy)]
pub struct Contention {
    pub from_ns: u64,
    pub to_ns: u64,
    pub unit: u32,
    pub job: u32,
    pub resource: u32,
    pub key: Key,
    pub line: Text,
    pub gave_up: bool,
    /// Whether it is counted here; others are of another part.
    pub own: bool,
}

/// What a resource is told by: several of one name are one to a reader.
pub type Key = (u8, Text, u32);

/// A place that a unit had while another one waited.
#[derive(Clone, Copy)]
pub struct Hold {
    pub from_ns: u64,
    pub to_ns: u64,
    pub unit: u32,
    pub job: u32,
    pub resource: u32,
    pub line: Text,
}

/// What the events of a process say of its resources.
#[derive(Default)]
pub struct ResourceEvents {
    pub contentions: Vec<Contention>,
    pub holds: Vec<Hold>,
    /// By job: calls of upstreams, (from, to, operation, upstream).
    pub calls: HashMap<u32, Vec<(u64, u64, Text, Text)>>,
}
