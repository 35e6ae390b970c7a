//! Up to which load a lane with processes of its own leaves everybody served.

/// `own` of `processes` processes serve a class that has the share `share` of all CPU work, and nobody else; the others
/// serve the rest, and nothing of it.
#[derive(Clone, Copy, Debug)]
pub struct HardLane {
    pub processes: u32,
    pub own: u32,
    /// 0 to 1.
    pub share: f64,
}

impl HardLane {
    /// The utilisation of all processes at which those of the others are full: (P - p) / (P (1 - s)). More than 1 means
    /// never; infinite when there are no others.
    pub fn others_full(self) -> f64 {
        of(
            self.processes - self.own.min(self.processes),
            self.processes,
            1.0 - self.share,
        )
    }

    /// The utilisation of all processes at which the lane is full: p / (P s).
    pub fn lane_full(self) -> f64 {
        of(self.own, self.processes, self.share)
    }
}

fn of(own: u32, processes: u32, share: f64) -> f64 {
    if share > 0.0 {
        f64::from(own) / (f64::from(processes) * share)
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(processes: u32, own: u32, share: f64) -> f64 {
        let lane = HardLane {
            processes,
            own,
            share,
        };
        lane.others_full().min(lane.lane_full()).min(1.0)
    }

    #[test]
    fn a_lane_for_a_hundredth_wastes_about_a_process() {
        assert!((below(4, 1, 0.01) - 0.7576).abs() < 1e-4);
        assert!((below(16, 1, 0.01) - 0.947).abs() < 1e-3);
    }

    #[test]
    fn a_class_too_large_for_its_lane_fills_that_first() {
        assert!((below(4, 1, 0.5) - 0.5).abs() < 1e-12);
        assert!((below(4, 2, 0.5) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn without_others_or_without_a_class_nobody_is_in_the_way() {
        assert_eq!((below(1, 1, 1.0), below(2, 1, 0.0)), (1.0, 0.5));
        assert_eq!(below(1, 1, 0.5), 0.0);
    }
}
