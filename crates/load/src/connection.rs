//! One connection: its socket, what is being sent, what is being received.

use crate::answer::Answer;
use crate::pool::Place;
use rustix::event::epoll::EventFlags;
use std::os::fd::OwnedFd;

/// See the module.
pub(crate) struct Connection {
    pub fd: OwnedFd,
    /// It carries this request; None = it is idle.
    pub request: Option<u32>,
    /// It has carried no request before: what happens to it is the server's word, not an old connection's end.
    pub fresh: bool,
    /// What epoll watches it for; empty = it is not registered.
    pub interest: EventFlags,
    pub out: Vec<u8>,
    pub written: usize,
    pub answer: Answer,
}

impl Connection {
    pub fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            request: None,
            fresh: true,
            interest: EventFlags::empty(),
            out: Vec::new(),
            written: 0,
            answer: Answer::default(),
        }
    }

    pub fn is_written(&self) -> bool {
        self.written == self.out.len()
    }
}

/// Connections by place. A place that was freed gets another generation: events for its last owner find nobody.
#[derive(Default)]
pub(crate) struct Connections {
    places: Vec<(u32, Option<Connection>)>,
    free: Vec<Place>,
}

impl Connections {
    pub fn add(&mut self, connection: Connection) -> Place {
        if let Some(place) = self.free.pop() {
            self.places[place as usize].1 = Some(connection);
            return place;
        }
        self.places.push((0, Some(connection)));
        Place::try_from(self.places.len() - 1).expect("descriptors are fewer than 2^32")
    }

    /// Closes it.
    pub fn remove(&mut self, place: Place) {
        let slot = &mut self.places[place as usize];
        slot.0 = slot.0.wrapping_add(1);
        slot.1 = None;
        self.free.push(place);
    }

    pub fn at(&mut self, place: Place) -> &mut Connection {
        self.places[place as usize]
            .1
            .as_mut()
            .expect("the place is taken")
    }

    /// What epoll hands back for it.
    pub fn tag(&self, place: Place) -> u64 {
        u64::from(self.places[place as usize].0) << 32 | u64::from(place)
    }

    /// Whose tag that is, if it still lives.
    pub fn find_by_tag(&self, tag: u64) -> Option<Place> {
        let place = tag as u32;
        let (generation, connection) = &self.places[place as usize];
        (u64::from(*generation) == tag >> 32 && connection.is_some()).then_some(place)
    }
}
