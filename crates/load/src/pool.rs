//! Connections that are kept, and requests that wait for one. Streams of one address and limit share a pool.

use std::collections::VecDeque;

/// A connection's place in the generator's table.
pub type Place = u32;

/// See the module.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Vec<Place>,
    waiting: VecDeque<u32>,
    open: usize,
    most: usize,
}

/// What a request that needs a connection gets.
#[derive(Debug, PartialEq, Eq)]
pub enum Offer {
    /// This one, unused at the moment. The one used last: fewest connections serve a load, as with any client's pool.
    Kept(Place),
    /// Leave to open one; it is counted as open.
    New,
    /// Nothing yet; the request stands in the queue.
    Wait,
}

impl Pool {
    /// At most `most` connections; 0 = as many as needed.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    pub fn offer(&mut self, request: u32) -> Offer {
        if let Some(place) = self.idle.pop() {
            return Offer::Kept(place);
        }
        if self.most != 0 && self.open >= self.most {
            self.waiting.push_back(request);
            return Offer::Wait;
        }
        self.open += 1;
        Offer::New
    }

    /// The connection has nothing to do: the request that gets it, or none, and it is idle.
    pub fn give_back(&mut self, place: Place, over: impl Fn(u32) -> bool) -> Option<u32> {
        let next = self.next(over);
        if next.is_none() {
            self.idle.push(place);
        }
        next
    }

    /// A connection is gone: the request that may open another in its stead (counted as open), or none.
    pub fn lose_connection(&mut self, over: impl Fn(u32) -> bool) -> Option<u32> {
        self.open -= 1;
        let next = self.next(over);
        self.open += usize::from(next.is_some());
        next
    }

    /// An idle connection is gone.
    pub fn forget(&mut self, place: Place) {
        if let Some(at) = self.idle.iter().rposition(|&one| one == place) {
            self.idle.remove(at);
            self.open -= 1;
        }
    }

    /// The first that waits and was not given up meanwhile.
    fn next(&mut self, over: impl Fn(u32) -> bool) -> Option<u32> {
        while let Some(request) = self.waiting.pop_front() {
            if !over(request) {
                return Some(request);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_used_last_is_used_next() {
        let mut pool = Pool::new(0);
        assert_eq!(pool.offer(1), Offer::New);
        assert_eq!(pool.offer(2), Offer::New);
        assert_eq!(pool.give_back(10, |_| false), None);
        assert_eq!(pool.give_back(11, |_| false), None);
        assert_eq!(pool.offer(3), Offer::Kept(11));
    }

    #[test]
    fn beyond_the_limit_requests_wait_in_order_and_those_given_up_are_passed_over() {
        let mut pool = Pool::new(1);
        assert_eq!(pool.offer(1), Offer::New);
        for request in 2..5 {
            assert_eq!(pool.offer(request), Offer::Wait);
        }
        assert_eq!(pool.give_back(7, |request| request == 2), Some(3));
        assert_eq!(pool.lose_connection(|_| false), Some(4));
        assert_eq!(pool.offer(5), Offer::Wait);
        assert_eq!(pool.give_back(8, |request| request == 5), None);
        assert_eq!(pool.offer(6), Offer::Kept(8));
    }

    #[test]
    fn a_lost_connection_makes_room() {
        let mut pool = Pool::new(1);
        assert_eq!(pool.offer(1), Offer::New);
        assert_eq!(pool.lose_connection(|_| false), None);
        assert_eq!(pool.offer(2), Offer::New);
        assert_eq!(pool.give_back(3, |_| false), None);
        pool.forget(3);
        assert_eq!(pool.offer(4), Offer::New);
    }
}
