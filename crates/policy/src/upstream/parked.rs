//! What leaves without having been begun: for want of room or time, or because its owner wants it elsewhere.

use super::Upstreams;

impl Upstreams {
    /// Takes out the orders that must go elsewhere: parked for too long, or too many, of one key or of all.
    ///
    /// Of a key the newest go, so that those before them keep their places. For the sum over keys they are taken where
    /// the last order would wait longest (parked x usual latency / limit, beyond one filling of the limit), for the bytes
    /// where most are.
    pub fn surplus(&mut self, now_ns: u64) -> Vec<u64> {
        self.pass(now_ns);
        let mut gone = Vec::new();
        while let Some(&(_, order)) = self.ages.first().filter(|&&(when, _)| when <= now_ns) {
            self.shed(order, now_ns, &mut gone);
        }
        for (number, generation) in std::mem::take(&mut self.over) {
            if self.keys[number as usize].generation != generation {
                continue;
            }
            self.keys[number as usize].over = false;
            while let Some(order) = self.beyond(number) {
                self.shed(order, now_ns, &mut gone);
            }
        }
        while self.parked > self.rule.all_parked_most {
            let Some(number) = self.longest() else {
                break;
            };
            let Some(order) = self.newest(number) else {
                break;
            };
            self.shed(order, now_ns, &mut gone);
        }
        while self.parked > 1 && self.parked_bytes > self.rule.all_parked_most_bytes {
            let Some(&(_, number)) = self.biggest.last() else {
                break;
            };
            let Some(order) = self.newest(number) else {
                break;
            };
            self.shed(order, now_ns, &mut gone);
        }
        gone
    }

    /// Takes out the orders whose deadline has passed while they were parked: they are never begun.
    pub fn take_expired(&mut self, now_ns: u64) -> Vec<u64> {
        self.pass(now_ns);
        std::mem::take(&mut self.expired)
    }

    /// Takes a parked order out. False: it is not parked. Says nothing about its key.
    pub fn withdraw(&mut self, order: u64, now_ns: u64) -> bool {
        self.pass(now_ns);
        self.unpark(order, now_ns).is_some()
    }

    /// Takes out all parked orders, oldest first.
    pub fn drain(&mut self, now_ns: u64) -> Vec<u64> {
        self.pass(now_ns);
        let mut parked: Vec<(u64, u64)> = self
            .orders
            .iter()
            .filter(|(_, known)| known.call.is_none())
            .map(|(&order, known)| (known.arrival, order))
            .collect();
        parked.sort_unstable();
        for &(_, order) in &parked {
            self.unpark(order, now_ns);
        }
        parked.into_iter().map(|(_, order)| order).collect()
    }

    /// The newest order of a key that has too much parked.
    pub(super) fn beyond(&self, number: u32) -> Option<u64> {
        let key = &self.keys[number as usize];
        let rule = key.rule(&self.rule);
        let count = key.parked.len() as u64;
        let many =
            count > rule.parked_most || (count > 1 && key.parked_bytes > rule.parked_most_bytes);
        many.then(|| self.newest(number)).flatten()
    }

    pub(super) fn newest(&self, number: u32) -> Option<u64> {
        let newest = self.keys[number as usize].parked.last_key_value();
        newest.map(|(_, &order)| order)
    }

    /// The key that the next order goes back from when there are too many of all.
    pub(super) fn longest(&self) -> Option<u32> {
        if self.recent.strange_parked() * 2 > self.rule.all_parked_most {
            return self.newest.last().map(|&(_, key)| key);
        }
        self.longest.last().map(|&(_, key)| key)
    }

    pub(super) fn shed(&mut self, order: u64, now_ns: u64, gone: &mut Vec<u64>) {
        if let Some(number) = self.unpark(order, now_ns) {
            self.keys[number as usize].counts.surplus += 1;
            gone.push(order);
        }
    }

    /// Takes a parked order out; gives the number of its key.
    pub(super) fn unpark(&mut self, order: u64, now_ns: u64) -> Option<u32> {
        let known = *self
            .orders
            .get(&order)
            .filter(|known| known.call.is_none())?;
        self.orders.remove(&order);
        let key = &mut self.keys[known.key as usize];
        key.parked.remove(&known.arrival);
        key.parked_bytes -= known.size;
        self.parked -= 1;
        self.parked_bytes -= known.size;
        self.ages.remove(&(known.leaves_ns, order));
        self.deadlines.remove(&(known.deadline_ns, order));
        self.settle(known.key, now_ns);
        Some(known.key)
    }
}
