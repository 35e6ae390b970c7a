use super::*;

const MS: u64 = 1_000_000;
const RULE: ChoiceRule = ChoiceRule {
    call: WeightRule {
        heavy_ns: MS,
        least_ns: MS,
        quantile: 0.9,
        margin: 1.0,
        learn_after: 3,
    },
    inline: true,
    process: true,
    budget_ns: 500 * MS,
    workers: 1,
};

/// What a function's calls cost at each place, and what its pickling does.
#[derive(Clone, Copy)]
struct Function {
    took_ns: [u64; 3],
    lag_ns: [u64; 3],
    released: u64,
    kept_ns: u64,
}

const PYTHON: Function = Function {
    took_ns: [49 * MS, 51 * MS, 50 * MS],
    lag_ns: [49 * MS, 2 * MS, MS / 10],
    released: 0,
    kept_ns: MS / 10,
};

struct World {
    chooser: Chooser,
    now_ns: u64,
    ran: Vec<Place>,
}

impl World {
    fn new() -> Self {
        Self {
            chooser: Chooser::default(),
            now_ns: MS,
            ran: Vec::new(),
        }
    }

    fn call(&mut self, function: &Function) -> Next {
        let next = self.chooser.next(self.now_ns, &RULE);
        let place = next.place as usize;
        self.now_ns += function.took_ns[place];
        self.ran.push(next.place);
        if next.inspect {
            self.chooser.inspected(function.kept_ns);
        }
        if next.prepare {
            self.chooser.ready();
        }
        let cost = Measured {
            took_ns: function.took_ns[place],
            ran_ns: function.took_ns[place],
            cpu_ns: function.took_ns[place],
            lag_ns: next.measure.then_some(function.lag_ns[place]),
            released: next.measure.then_some(function.released),
            computed: true,
            crowd: 1,
        };
        self.chooser.observe(next, &cost, self.now_ns, &RULE);
        next
    }

    fn tries(&self) -> usize {
        let tried = self.ran.iter().filter(|&&place| place == Place::Process);
        tried.count()
    }

    fn calls(&mut self, function: &Function, count: usize) -> (Place, Why) {
        (0..count).for_each(|_| {
            self.call(function);
        });
        self.chooser.chosen()
    }
}

#[test]
fn a_light_function_runs_where_its_caller_is_after_three_calls_on_the_thread() {
    let light = Function {
        took_ns: [MS / 10; 3],
        ..PYTHON
    };
    let mut world = World::new();
    assert_eq!(world.calls(&light, 10), (Place::Inline, Why::Light));
    assert_eq!(world.ran[..3], [Place::Thread; 3]);
    assert_eq!(world.ran[3..], [Place::Inline; 7]);
}

#[test]
fn python_that_holds_the_gil_goes_to_a_process_that_is_as_fast_and_calmer() {
    let mut world = World::new();
    assert_eq!(world.calls(&PYTHON, 25), (Place::Process, Why::Calmer));
    assert!(world.chooser.settled());
    assert!(!world.ran.contains(&Place::Inline));
}

#[test]
fn what_is_slower_in_a_process_stays_on_the_thread_and_is_given_up_early() {
    let mut world = World::new();
    let slower = Function {
        took_ns: [49 * MS, 51 * MS, 200 * MS],
        ..PYTHON
    };
    assert_eq!(world.calls(&slower, 25), (Place::Thread, Why::Faster));
    let tried = world.ran.iter().filter(|&&place| place == Place::Process);
    assert_eq!(tried.count(), 3, "one cold, two that are enough");
}

#[test]
fn what_runs_without_the_gil_stays_on_the_thread_and_no_process_is_made() {
    let mut world = World::new();
    let native = Function {
        took_ns: [5 * MS; 3],
        lag_ns: [5 * MS, MS / 10, MS / 10],
        released: 950,
        ..PYTHON
    };
    assert_eq!(world.calls(&native, 40), (Place::Thread, Why::Released));
    assert!(!world.ran.contains(&Place::Process));
}

#[test]
fn what_runs_without_the_gil_is_measured_again_when_it_changes() {
    let mut world = World::new();
    let native = Function {
        took_ns: [5 * MS; 3],
        lag_ns: [5 * MS, MS / 10, MS / 10],
        released: 950,
        ..PYTHON
    };
    world.calls(&native, 40);
    assert_eq!(world.calls(&PYTHON, 40).0, Place::Process);
    let longer = Function {
        took_ns: [15 * MS; 3],
        ..native
    };
    let mut world = World::new();
    world.calls(&native, 40);
    assert_eq!(world.calls(&longer, 40), (Place::Thread, Why::Released));
}

#[test]
fn a_sleep_that_holds_the_gil_goes_to_a_process_whatever_that_takes() {
    let mut world = World::new();
    let sleep = Function {
        took_ns: [20 * MS, 20 * MS, 25 * MS],
        lag_ns: [20 * MS, 20 * MS, MS / 10],
        ..PYTHON
    };
    assert_eq!(world.calls(&sleep, 25), (Place::Process, Why::Faster));
}

#[test]
fn a_payload_that_keeps_the_loop_longer_than_the_thread_would_is_not_tried() {
    let mut world = World::new();
    let fat = Function {
        kept_ns: 12 * MS,
        ..PYTHON
    };
    assert_eq!(world.calls(&fat, 25), (Place::Thread, Why::Payload));
    assert!(!world.ran.contains(&Place::Process));
}

#[test]
fn what_cannot_cross_is_refused_for_good() {
    let mut world = World::new();
    world.calls(&PYTHON, 25);
    world.chooser.refuse(world.now_ns);
    world.ran.clear();
    assert_eq!(world.calls(&PYTHON, 2_000), (Place::Thread, Why::Refused));
    assert!(!world.ran.contains(&Place::Process));
}

#[test]
fn a_budget_of_nothing_tries_nothing() {
    let rule = ChoiceRule {
        budget_ns: 0,
        ..RULE
    };
    let mut chooser = Chooser::default();
    for now_ns in (MS..).step_by(100 * MS as usize).take(50) {
        let next = chooser.next(now_ns, &rule);
        assert_eq!(next.place, Place::Thread);
        let cost = Measured {
            took_ns: 50 * MS,
            ran_ns: 50 * MS,
            ..Measured::default()
        };
        chooser.observe(next, &cost, now_ns, &rule);
    }
    assert_eq!(chooser.chosen(), (Place::Thread, Why::Budget));
}

#[test]
fn trying_stops_when_its_budget_is_spent_and_goes_on_when_more_has_accrued() {
    let mut world = World::new();
    let dear = Function {
        took_ns: [300 * MS, 300 * MS, 700 * MS],
        ..PYTHON
    };
    assert_eq!(world.calls(&dear, 100), (Place::Thread, Why::Faster));
    assert_eq!(
        world.tries(),
        3,
        "400 ms too long each, of 500: one cold, two"
    );
    world.calls(&dear, 100);
    assert_eq!(world.tries(), 3, "a minute later still in debt");
    world.now_ns += 60_000 * MS;
    world.calls(&dear, 10);
    assert!(world.tries() > 3);
}

#[test]
fn a_trial_that_has_begun_comes_to_its_verdict_however_long_the_calls_are() {
    let mut world = World::new();
    let minutes = Function {
        took_ns: [30_000 * MS, 30_000 * MS, 33_100 * MS],
        ..PYTHON
    };
    assert_eq!(world.calls(&minutes, 12), (Place::Thread, Why::Faster));
    assert_eq!(world.tries(), 4, "its budget is spent: one cold, three");
}

#[test]
fn what_differs_by_little_is_tried_longer() {
    let mut world = World::new();
    let little_slower = Function {
        took_ns: [49 * MS, 50 * MS, 62 * MS],
        ..PYTHON
    };
    assert_eq!(
        world.calls(&little_slower, 40),
        (Place::Thread, Why::Faster)
    );
    assert_eq!(world.tries(), 10, "one cold, nine");
}

#[test]
fn every_second_call_hit_by_a_neighbour_decides_nothing() {
    let mut world = World::new();
    let hit = Function {
        took_ns: [49 * MS, 51 * MS, 120 * MS],
        ..PYTHON
    };
    while !world.chooser.settled() {
        let function = if world.tries() % 2 == 0 { PYTHON } else { hit };
        world.call(&function);
    }
    assert_eq!(world.chooser.chosen(), (Place::Process, Why::Calmer));
}

#[test]
fn calls_that_waver_are_measured_again_ever_more_rarely() {
    let mut world = World::new();
    let short = Function {
        took_ns: [5 * MS; 3],
        lag_ns: [5 * MS, MS / 10, MS / 10],
        released: 950,
        ..PYTHON
    };
    let long = Function {
        took_ns: [10 * MS; 3],
        ..short
    };
    let mut measured = [0; 2];
    for half in &mut measured {
        for number in 0..1_000 {
            let next = world.call(if number / 10 % 2 == 0 { &short } else { &long });
            *half += usize::from(next.measure);
        }
    }
    assert!(measured[0] < 40 && measured[1] < 20, "{measured:?}");
}

#[test]
fn two_looks_in_three_that_found_the_gil_free_count_as_what_they_are() {
    let mut world = World::new();
    let native = Function {
        took_ns: [3 * MS; 3],
        lag_ns: [3 * MS, MS / 10, MS / 10],
        released: 0,
        ..PYTHON
    };
    for number in 0..3 {
        let released = if number == 1 { 1000 } else { 666 };
        world.call(&Function { released, ..native });
    }
    world.call(&native);
    assert_eq!(world.chooser.chosen(), (Place::Thread, Why::Released));
}

#[test]
fn a_first_call_that_loads_a_model_hides_nothing() {
    let mut world = World::new();
    let native = Function {
        took_ns: [3 * MS; 3],
        lag_ns: [3 * MS, MS / 10, MS / 10],
        released: 750,
        ..PYTHON
    };
    world.call(&PYTHON);
    assert_eq!(world.calls(&native, 10), (Place::Thread, Why::Released));
}

#[test]
fn one_try_at_a_time() {
    let mut world = World::new();
    while !world.call(&PYTHON).tried {}
    let open = (0..20).find_map(|_| {
        let next = world.chooser.next(world.now_ns, &RULE);
        next.tried.then_some(next)
    });
    assert!(open.is_some());
    for _ in 0..20 {
        assert!(!world.chooser.next(world.now_ns, &RULE).tried);
    }
    world.now_ns += LOST_NS;
    assert!(world.chooser.next(world.now_ns, &RULE).tried);
}

#[test]
fn a_function_that_becomes_light_learns_on_the_thread_before_it_runs_inline() {
    let mut world = World::new();
    world.calls(&PYTHON, 25);
    world.ran.clear();
    let light = Function {
        took_ns: [MS / 10; 3],
        ..PYTHON
    };
    assert_eq!(world.calls(&light, 80), (Place::Inline, Why::Light));
    let first = world.ran.iter().position(|&at| at == Place::Inline);
    let before = &world.ran[..first.unwrap()];
    assert_eq!(before[before.len() - 3..], [Place::Thread; 3]);
}

#[test]
fn a_function_that_becomes_heavy_inline_goes_away_with_its_second_call() {
    let mut world = World::new();
    let light = Function {
        took_ns: [MS / 10; 3],
        ..PYTHON
    };
    world.calls(&light, 50);
    world.ran.clear();
    world.calls(&PYTHON, 40);
    assert_eq!(world.ran[0], Place::Inline);
    assert!(!world.ran[1..].contains(&Place::Inline));
}

#[test]
fn one_surprise_makes_no_processes() {
    let mut world = World::new();
    let light = Function {
        took_ns: [MS / 10; 3],
        ..PYTHON
    };
    world.calls(&light, 50);
    world.call(&PYTHON);
    world.ran.clear();
    world.calls(&light, 30);
    assert_eq!(world.ran, [Place::Thread; 30]);
    assert_eq!(world.chooser.chosen().1, Why::Surprised);
}

#[test]
fn a_choice_that_has_become_wrong_is_seen_at_the_next_look() {
    let mut world = World::new();
    world.calls(&PYTHON, 25);
    let now_slower = Function {
        took_ns: [49 * MS, 51 * MS, 90 * MS],
        ..PYTHON
    };
    assert_eq!(world.calls(&now_slower, 40).0, Place::Thread);
    world.now_ns += AGAIN_NS;
    assert_eq!(world.calls(&PYTHON, 300).0, Place::Process);
}

#[test]
fn what_was_chosen_before_a_restart_holds_once_the_workers_are_ready() {
    let mut chooser = Chooser::default();
    chooser.restore(Place::Process, Why::Calmer, 50 * MS, MS, &RULE);
    let first = chooser.next(MS, &RULE);
    assert_eq!((first.place, first.prepare), (Place::Thread, true));
    chooser.ready();
    assert_eq!(chooser.next(2 * MS, &RULE).place, Place::Process);
}

#[test]
fn a_light_function_is_measured_again_after_a_restart() {
    let mut world = World::new();
    world
        .chooser
        .restore(Place::Inline, Why::Light, MS / 10, MS, &RULE);
    let light = Function {
        took_ns: [MS / 10; 3],
        ..PYTHON
    };
    world.calls(&light, 5);
    assert_eq!(world.ran[..3], [Place::Thread; 3]);
    assert_eq!(world.ran[3..], [Place::Inline; 2]);
}

#[test]
fn a_forked_child_gets_its_workers_ready_and_goes_on_trying() {
    let mut world = World::new();
    while !world.call(&PYTHON).tried {}
    world.chooser.forked();
    assert!(world.call(&PYTHON).prepare);
    assert_eq!(world.calls(&PYTHON, 25).0, Place::Process);
    world.chooser.forked();
    let next = world.call(&PYTHON);
    assert_eq!((next.place, next.prepare), (Place::Thread, true));
    assert_eq!(world.call(&PYTHON).place, Place::Process);
}

#[test]
fn a_light_function_that_must_not_run_inline_stays_on_the_thread() {
    let rule = ChoiceRule {
        inline: false,
        ..RULE
    };
    let mut chooser = Chooser::default();
    for now_ns in 1..20 {
        let next = chooser.next(now_ns, &rule);
        assert_eq!(next.place, Place::Thread);
        let cost = Measured {
            took_ns: MS / 10,
            ran_ns: MS / 10,
            ..Measured::default()
        };
        chooser.observe(next, &cost, now_ns, &rule);
    }
    assert_eq!(chooser.chosen(), (Place::Thread, Why::Light));
}

#[test]
fn names_are_told_apart() {
    for place in Place::ALL {
        assert_eq!(Place::named(place.name()), Some(place));
    }
    for why in Why::ALL {
        assert_eq!(Why::named(why.name()), Some(why));
    }
}

/// Where a function settles whose calls take 350 ms on the thread and 400 in a process, with `crowd` callers at a time.
fn settled_with(crowd: u64, workers: u64) -> (Place, Why, [(u64, u64); 2]) {
    let rule = ChoiceRule {
        workers,
        budget_ns: 60_000 * MS,
        ..RULE
    };
    let (mut chooser, mut now_ns) = (Chooser::default(), MS);
    for _ in 0..60 {
        let next = chooser.next(now_ns, &rule);
        if next.inspect {
            chooser.inspected(0);
        }
        if next.prepare {
            chooser.ready();
        }
        let took_ns = if next.place == Place::Process {
            400 * MS
        } else {
            350 * MS
        };
        now_ns += took_ns;
        let cost = Measured {
            took_ns,
            ran_ns: took_ns,
            lag_ns: next.measure.then_some(0),
            released: next.measure.then_some(0),
            computed: true,
            crowd,
            ..Measured::default()
        };
        chooser.observe(next, &cost, now_ns, &rule);
    }
    let (place, why) = chooser.chosen();
    (place, why, chooser.weighed())
}

#[test]
fn callers_that_come_together_are_served_by_several_workers_at_once() {
    let (place, why, weighed) = settled_with(4, 2);
    assert_eq!((place, why), (Place::Process, Why::Faster));
    assert_eq!(weighed.map(|(took_ns, _)| took_ns), [1_400 * MS, 800 * MS]);
    assert_eq!(settled_with(4, 1).0, Place::Thread);
    assert_eq!(settled_with(1, 2).0, Place::Thread);
}
