//! Connections that clients keep open: each stays with its process, and takes a place there until it is closed.

use crate::heap::Class;
use crate::world::{Event, World};

impl World<'_> {
    /// A request has come to a client.
    pub(super) fn connect(&mut self, id: u32) {
        let Some(number) = self.connection_of(id) else {
            return self.open(id);
        };
        let connection = &mut self.connections[number];
        if connection.busy {
            return connection.waiting.push_back(id);
        }
        connection.busy = true;
        connection.rest = connection.rest.wrapping_add(1);
        match connection.process {
            Some(process) => self.on_connection(process as usize, id),
            None => self.open(id),
        }
    }

    /// The request of a connection has been answered.
    pub(super) fn answered(&mut self, number: usize, process: usize) {
        let idle_ns = self
            .set_up
            .keep_alive
            .map_or(0, |keep_alive| keep_alive.idle_ns);
        let connection = &mut self.connections[number];
        connection.process = Some(process as u32);
        if let Some(next) = connection.waiting.pop_front() {
            return self.on_connection(process, next);
        }
        connection.busy = false;
        connection.rest = connection.rest.wrapping_add(1);
        let event = Event::Rested {
            connection: number as u32,
            rest: connection.rest,
        };
        self.timers.push(self.now_ns + idle_ns, Class::Other, event);
    }

    /// A connection has been idle for as long as it may.
    pub(super) fn rested(&mut self, number: usize, rest: u32) {
        let connection = &mut self.connections[number];
        if connection.busy || connection.rest != rest {
            return;
        }
        if let Some(process) = connection.process.take() {
            self.place_free(process as usize);
        }
    }

    fn on_connection(&mut self, process: usize, id: u32) {
        let lane = self.lane_of(id);
        self.jobs[id].process = process as u32;
        self.processes[process].in_flight += 1;
        self.front.entered(lane);
        self.start(process, id);
    }
}
