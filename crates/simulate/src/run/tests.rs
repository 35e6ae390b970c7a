//! What theory and the rules demand of whole runs.

use super::*;
use crate::front::worker_limits;
use crate::reading::model_and_set_up;
use crate::tally::Cause;
use serde_json::{json, Value};

const RULES: &str = r#"{
    "permits": {"permits": 1, "heavy_ns": 4e6, "quantile": 0.9, "margin": 1.0, "learn_after": 3, "max_phases": 32,
        "wait_max_ns": 1e10, "share_ns": 1e8, "interval_s": 0.0005},
    "shed": {"waited_ns": 5e6, "stands_ns": 1e8, "stands_count": 3, "frac": 0.99, "most": 0.75},
    "at_once": {"busy": 0.98, "least": 1, "most": 64, "gap_ns": 2e5, "window_ns": 1e9}
}"#;

fn rules() -> Value {
    serde_json::from_str(RULES).unwrap_or_default()
}

fn read(profile: &Value, set_up: Value) -> (Model, SetUp) {
    let (profile, set_up) = (profile.to_string(), set_up.to_string());
    let read = model_and_set_up(profile.as_bytes(), set_up.as_bytes());
    read.unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

fn ran_at(profile: &Value, set_up: Value, jobs: u64, seed: u64, load: f64) -> Report {
    let mut set_up = set_up;
    if set_up["rules"].is_null() {
        set_up["rules"] = rules();
    }
    let (model, set_up) = read(profile, set_up);
    let report = simulate(&model, &set_up, &Run { jobs, seed, load }, &mut |_| true);
    report.unwrap_or_else(|| panic!("nobody stops it"))
}

fn ran(profile: &Value, set_up: Value, jobs: u64) -> Report {
    ran_at(profile, set_up, jobs, 1, 1.0)
}

/// One route of one step.
fn one(rate_per_s: f64, step: Value) -> Value {
    json!({"routes": [{"route": "a", "rate_per_s": rate_per_s, "sequences": [{"steps": [step]}]}]})
}

/// The same, its steps by the middles of 1,000 equally likely parts of an exponential law.
fn varied(rate_per_s: f64, mean_ms: f64, steps: impl Fn(f64) -> Value) -> Value {
    let sequence = |part: u32| {
        let ms = -mean_ms * ((f64::from(part) + 0.5) / 1e3).ln();
        json!({"steps": steps(ms)})
    };
    let sequences: Vec<Value> = (0..1000).map(sequence).collect();
    json!({"routes": [{"route": "a", "rate_per_s": rate_per_s, "sequences": sequences}]})
}

/// Bikes of 3 x 100 ms of I/O with 1 ms of CPU around, quotes of 16 ms of CPU.
fn pricing() -> Value {
    let mut steps = vec![json!(["cpu", 1])];
    (0..3).for_each(|_| steps.extend([json!(["io", 100]), json!(["cpu", 1])]));
    json!({"routes": [
        {"route": "bikes", "rate_per_s": 20, "sequences": [{"steps": steps}], "deadline_ms": 500},
        {"route": "quote", "rate_per_s": 48, "sequences": [{"steps": [["cpu", 16]]}]},
    ]})
}

fn p99_ms(report: &Report, route: usize) -> f64 {
    report.routes[route].tally.latency.quantile_ns(0.99) as f64 / 1e6
}

fn mean_ms(report: &Report, route: usize) -> f64 {
    report.routes[route].tally.latency.mean_ns() / 1e6
}

#[test]
fn one_server_takes_what_theory_says() {
    let fixed = one(80.0, json!(["cpu", 10]));
    let service = [
        (
            varied(80.0, 10.0, |ms| json!([["cpu", ms]])),
            "gevent",
            50.0,
        ),
        (fixed.clone(), "gevent", 30.0),
        (fixed, "threads", 50.0), // processor sharing
    ];
    for (profile, host, expected_ms) in service {
        let set_up = json!({"host": host, "switch_interval_ms": 0.5});
        let found = mean_ms(&ran(&profile, set_up, 300_000), 0);
        assert!((found / expected_ms - 1.0).abs() < 0.06, "{host} {found}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let run = |seed| {
        let set_up = json!({"host": "permits", "processes": 2, "queue": "accept"});
        ran_at(&pricing(), set_up, 5_000, seed, 1.9).to_json()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn every_policy_meets_the_same_requests() {
    let profile = varied(300.0, 5.0, |ms| {
        json!([["cpu", ms], ["io", 4.0 * ms], ["cpu", 2]])
    });
    let cpu = |set_up: Value| ran(&profile, set_up, 20_000).routes[0].tally.cpu_ns;
    let expected = cpu(json!({"host": "gevent", "processes": 4, "queue": "central", "at_once": 1}));
    for host in ["threads", "permits", "gevent", "asyncio"] {
        for queue in ["accept", "central"] {
            let set_up = json!({"host": host, "processes": 4, "queue": queue, "at_once": 8});
            assert_eq!(cpu(set_up), expected, "{host} {queue}");
        }
    }
}

#[test]
fn one_permit_and_a_short_interval_keep_both_classes_short() {
    let costs = json!({"call_releases": 2, "door_releases": 1});
    let run = |host: &str| ran(&pricing(), json!({"host": host, "costs": costs}), 40_000);
    let (gevent, threads, permits) = (run("gevent"), run("threads"), run("permits"));
    assert!(p99_ms(&permits, 0) < 320.0, "{}", p99_ms(&permits, 0));
    assert!(p99_ms(&threads, 0) > 1.1 * p99_ms(&permits, 0));
    assert!(p99_ms(&gevent, 0) > 500.0, "{}", p99_ms(&gevent, 0));
    // Quotes pay for what bikes gain, but little: on gevent they go first come first served, and bikes behind them.
    assert!(p99_ms(&permits, 1) < 1.2 * p99_ms(&gevent, 1));
    assert!(mean_ms(&permits, 1) < mean_ms(&threads, 1));
    let waited = permits.routes[1].tally.waits_ns[Cause::Permit as usize];
    assert!(waited > 0 && permits.routes[0].tally.waits_ns[Cause::Permit as usize] < waited / 100);
}

/// Latency and wait for a permit, ms, of a request of 10 ms that comes 5 ms after one that was expected to take 10 ms and
/// takes 2 s.
fn behind_a_long_hold(rules: Value) -> (f64, f64) {
    let mut recorded: Vec<Value> = (0..10)
        .flat_map(|at| [json!([at * 50, 0, 0]), json!([at * 50 + 25, 1, 0])])
        .collect();
    recorded.extend([json!([1000, 0, 1]), json!([1005, 1, 0])]);
    let short = json!({"steps": [["cpu", 10]]});
    let long = json!({"steps": [["cpu", 2000]]});
    let profile = json!({"arrivals": {"recorded": recorded}, "routes": [
        {"route": "long", "rate_per_s": 1, "sequences": [short, long]},
        {"route": "short", "rate_per_s": 1, "sequences": [short]},
    ]});
    let report = ran(&profile, json!({"host": "permits", "rules": rules}), 22);
    let short = &report.routes[1].tally;
    let waited_ns = short.waits_ns[Cause::Permit as usize];
    (short.latency.max_ns() as f64 / 1e6, waited_ns as f64 / 1e6)
}

#[test]
fn nobody_waits_for_a_permit_for_longer_than_its_bound() {
    let mut rules = rules();
    rules["permits"]["wait_max_ns"] = json!(5e7);
    let (latency_ms, waited_ms) = behind_a_long_hold(rules);
    assert!((waited_ms - 50.0).abs() < 1.0, "{waited_ms}");
    assert!((60.0..90.0).contains(&latency_ms), "{latency_ms}");
}

#[test]
fn a_holder_that_has_used_its_share_competes_with_the_next() {
    let (latency_ms, waited_ms) = behind_a_long_hold(rules());
    assert!((waited_ms - 95.0).abs() < 5.0, "{waited_ms}");
    assert!((105.0..125.0).contains(&latency_ms), "{latency_ms}");
}

/// How long the request of "last" waits for a permit, ms. What each of three routes computes is learned from five requests.
/// Then one of each comes, at `then` ms; that of "rare" computes for 300 ms for once.
fn behind_one_that_is_rarely_long(first_ms: u32, rare_ms: u32, then: &[u64]) -> f64 {
    let mut recorded: Vec<Value> = (0..15).map(|at| json!([at * 500, at % 3, 0])).collect();
    let at_ms = |place: usize| 8_000 + then[place];
    recorded.extend([
        json!([at_ms(0), 0, 0]),
        json!([at_ms(1), 1, 1]),
        json!([at_ms(2), 2, 0]),
    ]);
    recorded.sort_by_key(|one| one[0].as_u64());
    let steps = |ms: u32| json!({"steps": [["cpu", ms]]});
    let profile = json!({"arrivals": {"recorded": recorded}, "routes": [
        {"route": "first", "rate_per_s": 1, "sequences": [steps(first_ms)]},
        {"route": "rare", "rate_per_s": 1, "sequences": [steps(rare_ms), steps(300)]},
        {"route": "last", "rate_per_s": 1, "sequences": [steps(6)]},
    ]});
    let report = ran(&profile, json!({"host": "permits"}), 18);
    report.routes[2].tally.waits_ns[Cause::Permit as usize] as f64 / 1e6
}

#[test]
fn one_that_was_let_in_and_turns_out_long_keeps_short_ones_out_for_its_first_ms_only() {
    let waited_ms = behind_one_that_is_rarely_long(400, 6, &[0, 5, 10]);
    assert!((5.0..30.0).contains(&waited_ms), "{waited_ms}");
}

#[test]
fn a_light_phase_that_turns_out_heavy_counts_as_a_long_holder_beside_which_a_short_one_goes() {
    // "rare" asks for no permit. Uncounted, "last" would wait for all of "first", which is not twice as long.
    let waited_ms = behind_one_that_is_rarely_long(10, 1, &[5, 0, 10]);
    assert!((1.0..4.0).contains(&waited_ms), "{waited_ms}");
}

#[test]
fn in_lasting_overload_light_requests_have_threads_and_heavy_ones_wait_for_them() {
    let quotes = 1.3 * 1000.0 / 16.0;
    let mut profile = pricing();
    profile["routes"][1]["rate_per_s"] = json!(quotes);
    let run = |host: &str| ran(&profile, json!({"host": host, "limit": 64}), 20_000);
    let (permits, threads) = (run("permits"), run("threads"));
    let waited_ms = |report: &Report, route: usize| {
        let tally = &report.routes[route].tally;
        tally.waits_ns[Cause::Queue as usize] as f64 / 1e6 / tally.counts.done as f64
    };
    assert!(waited_ms(&permits, 0) < 10.0, "{}", waited_ms(&permits, 0));
    assert!(waited_ms(&threads, 0) > 1000.0);
    assert!(waited_ms(&permits, 1) > 1000.0);
    // The permit has work all the time: heavy ones end no later.
    assert!(mean_ms(&permits, 1) < 1.1 * mean_ms(&threads, 1));
}

/// (since which ms of the run, us) of each switch interval that is in force in the process, one after the other.
fn intervals(profile: &Value, set_up: Value) -> Vec<(u64, u64)> {
    let (model, set_up) = read(profile, set_up);
    let mut world = World::new(&model, &set_up, 0, 1_000_000, 1, 1.0);
    let mut found: Vec<(u64, u64)> = Vec::new();
    world.begin();
    while world.step() {
        let permits = world.processes[0].permits.as_ref();
        let us = permits.map_or(0, |permits| permits.interval.ns() / 1_000);
        if found.last().is_none_or(|last| last.1 != us) {
            found.push((world.now_ns / 1_000_000, us));
        }
    }
    found
}

/// A phase that computes for 4 s holds a permit from 1 s on. From 2 s on `lights` threads call an upstream 400 times and
/// compute for 0.05 ms in between. A light request comes every 20 ms.
fn beside_a_long_phase(lights: usize) -> Value {
    let mut recorded: Vec<Value> = (0..10).map(|at| json!([at * 50, 0, 0])).collect();
    recorded.push(json!([1000, 0, 1]));
    recorded.extend((0..lights).map(|_| json!([2000, 1, 0])));
    recorded.extend((50..400).map(|at| json!([at * 20 + 7, 2, 0])));
    recorded.sort_by_key(|one| one[0].as_u64());
    let calls: Vec<Value> = (0..400)
        .flat_map(|_| [json!(["io", 0.5]), json!(["cpu", 0.05])])
        .collect();
    json!({"arrivals": {"recorded": recorded}, "routes": [
        {"route": "heavy", "rate_per_s": 1, "sequences": [{"steps": [["cpu", 10]]}, {"steps": [["cpu", 4000]]}]},
        {"route": "light", "rate_per_s": 1, "sequences": [{"steps": calls}]},
        {"route": "tick", "rate_per_s": 1, "sequences": [{"steps": [["cpu", 0.05]]}]},
    ]})
}

#[test]
fn while_a_permit_is_held_the_interval_grows_with_those_who_wait_and_comes_back() {
    let ran = |lights, own_ms: f64| {
        let set_up = json!({"host": "permits", "rules": rules(), "switch_interval_ms": own_ms});
        let mut found = intervals(&beside_a_long_phase(lights), set_up);
        found.retain(|&(since_ms, _)| since_ms >= 1000);
        found
    };
    let found = ran(30, 5.0);
    // Alone with the ticks, then those who wait, and when they have gone it comes back by halves; at last the process' own.
    let ours: Vec<u64> = found.iter().map(|one| one.1).collect();
    assert_eq!(found[0], (1000, 500));
    assert!((2000..2010).contains(&found[1].0), "{found:?}");
    assert!(
        ours.iter().any(|us| (3_500..=5_000).contains(us)),
        "{ours:?}"
    );
    let back = ours.len() - 2;
    assert_eq!(ours[back..], [500, 5000]);
    let halves = ours[back - 2..=back].windows(2);
    assert!(halves.clone().all(|two| two[1] >= two[0] / 2), "{ours:?}");
    // Never longer than the process' own, and two who wait leave it as it is.
    let most = |found: Vec<(u64, u64)>| found.iter().map(|one| one.1).max();
    assert_eq!(most(ran(30, 2.0)), Some(2000));
    assert_eq!(most(ran(30, 20.0)), Some(20_000));
    let few: Vec<u64> = ran(2, 5.0).iter().map(|one| one.1).collect();
    assert_eq!(few, [500, 5000]);
}

/// Latency, ms, of a request of `steps` that comes 7 ms after one that computes for long, on threads with a GIL.
fn beside_one_that_computes(steps: Value, costs: Value) -> f64 {
    let profile = json!({"arrivals": {"recorded": [[0, 0, 0], [7, 1, 0]]}, "routes": [
        {"route": "long", "rate_per_s": 1, "sequences": [{"steps": [["cpu", 500]]}]},
        {"route": "short", "rate_per_s": 1, "upstreams": ["up"], "sequences": [{"steps": steps}]},
    ]});
    let report = ran(&profile, json!({"host": "threads", "costs": costs}), 2);
    report.routes[1].tally.latency.max_ns() as f64 / 1e6
}

#[test]
fn who_loses_the_gil_waits_for_it_again_each_time() {
    let run = |steps: Value, which: &str, times: u32| {
        let none = beside_one_that_computes(steps.clone(), json!({}));
        beside_one_that_computes(steps, json!({which: times})) - none
    };
    let waits = |io: Value| run(json!([["cpu", 1], io, ["cpu", 1]]), "call_releases", 3);
    let (called, slept) = (waits(json!(["io", 100, 0])), waits(json!(["io", 100])));
    assert!((called - 15.0).abs() < 2.0, "{called}");
    assert_eq!(slept, 0.0, "a sleep is no call");
    let begins = run(json!([["cpu", 1]]), "request_releases", 2);
    assert!((begins - 10.0).abs() < 0.1, "{begins}");
}

#[test]
fn the_thread_that_accepts_waits_for_the_gil_as_well_and_so_lets_few_compute_at_once() {
    let run = |turns: u32| {
        let mut profile = pricing();
        let varies = varied(1.0, 16.0, |ms| json!([["cpu", ms]]));
        profile["routes"][1]["sequences"] = varies["routes"][0]["sequences"].clone();
        let set_up = json!({"host": "threads", "costs": {"door_releases": turns}});
        ran(&profile, set_up, 100_000)
    };
    let (open, door) = (run(0), run(3));
    assert!(p99_ms(&door, 1) < 0.8 * p99_ms(&open, 1));
    let queued = |report: &Report| report.routes[1].tally.waits_ns[Cause::Queue as usize];
    assert!(queued(&open) == 0 && queued(&door) > 0);
}

#[test]
fn at_once_follows_from_what_requests_do() {
    let number = |steps: Value| {
        let mut profile = one(100.0, json!(["cpu", 1]));
        profile["routes"][0]["sequences"][0]["steps"] = steps;
        let set_up =
            json!({"host": "threads", "queue": "central", "processes": 2, "rules": rules()});
        let (model, set_up) = read(&profile, set_up);
        worker_limits(&model, &set_up)[1]
    };
    assert_eq!(number(json!([["cpu", 10]])), 1);
    let found = number(json!([["cpu", 5], ["io", 55]]));
    assert!((16..=20).contains(&found), "{found}");
}

#[test]
fn a_tight_limit_with_shedding_keeps_goodput_in_overload_and_without_it_nothing_is_in_time() {
    let mut profile = varied(240.0, 2.5, |ms| {
        json!([["cpu", ms], ["io", 55], ["cpu", ms]])
    });
    profile["routes"][0]["deadline_ms"] = json!(300);
    let good = |shed: bool| {
        let report = ran(
            &profile,
            json!({"host": "gevent", "limit": 15, "shed": shed}),
            60_000,
        );
        let counts = report.routes[0].tally.counts;
        (counts.done - counts.late) as f64 / (counts.done + counts.refused) as f64
    };
    assert!(good(false) < 0.05, "{}", good(false));
    assert!(good(true) > 0.65, "{}", good(true));
}

#[test]
fn a_hard_lane_is_untouched_by_others_and_a_soft_one_may_use_all() {
    let run = |kind: &str, priority: i32| {
        let lane = json!({"name": "bikes", "routes": ["bikes"], "kind": kind, "processes": 1, "priority": priority});
        let set_up = json!({"host": "gevent", "processes": 3, "queue": "central", "at_once": 30, "lanes": [lane]});
        ran_at(&pricing(), set_up, 40_000, 1, 2.4)
    };
    let hard = run("hard", 0);
    assert!(p99_ms(&hard, 0) < 400.0, "{}", p99_ms(&hard, 0));
    let soft = run("soft", 10);
    assert!(mean_ms(&soft, 1) < mean_ms(&hard, 1) * 1.5);
    assert_eq!(hard.busy_frac.len(), 3);
}

#[test]
fn a_bulkhead_keeps_a_slow_upstream_from_the_slots_of_others() {
    let profile = json!({"routes": [
        {"route": "slow", "rate_per_s": 2, "upstreams": ["slow"], "sequences": [{"steps": [["io", 8000, 0]]}]},
        {"route": "fast", "rate_per_s": 20, "upstreams": ["fast"], "sequences": [{"steps": [["io", 100, 0]]}]},
    ]});
    let run = |limits: Value| {
        let set_up = json!({"host": "celery", "queue": "central", "limit": 10, "at_once": 10,
            "upstream_limits": limits});
        mean_ms(&ran(&profile, set_up, 4_000), 1)
    };
    let (held, free) = (run(json!({"slow": 4})), run(json!({})));
    assert!(held < 150.0, "{held}");
    assert!(free > 10.0 * held, "{free}");
}

#[test]
fn more_processes_than_cores_share_them() {
    let profile = one(150.0, json!(["cpu", 10]));
    let run = |cores: u32| {
        let set_up = json!({"host": "gevent", "processes": 8, "queue": "accept", "cores": cores});
        mean_ms(&ran(&profile, set_up, 100_000), 0)
    };
    let (two, eight) = (run(2), run(8));
    assert!(eight < 10.6, "{eight}");
    assert!(two > 1.3 * eight && two < 3.0 * eight, "{two}");
}

#[test]
fn heavy_work_beside_a_loop_leaves_the_loop_to_others() {
    let run = |place: Value| {
        let set_up = json!({"host": "asyncio", "placement": place, "switch_interval_ms": 0.5});
        ran(&pricing(), set_up, 40_000)
    };
    let [inline, thread, process] = [
        json!({}),
        json!({"quote": "thread"}),
        json!({"quote": "process"}),
    ]
    .map(run);
    assert!(p99_ms(&inline, 0) > 400.0, "{}", p99_ms(&inline, 0));
    assert!(p99_ms(&thread, 0) < 320.0, "{}", p99_ms(&thread, 0));
    assert!(p99_ms(&process, 0) < 308.0, "{}", p99_ms(&process, 0));
    assert!(process.routes[1].tally.waits_ns[Cause::Placed as usize] > 0);
}

#[test]
fn more_than_can_be_served_comes_to_an_end_and_is_said() {
    let report = ran(
        &one(200.0, json!(["cpu", 10])),
        json!({"host": "threads"}),
        5_000,
    );
    assert!(report.jobs == 5_000 && report.in_progress > 1_000);
    assert!(report.cpu_frac() > 0.99);
}

#[test]
fn a_run_can_be_stopped() {
    let profile = one(50.0, json!(["cpu", 10])).to_string();
    let read = model_and_set_up(profile.as_bytes(), br#"{"host": "threads"}"#);
    let (model, set_up) = read.unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let amount = Run {
        jobs: 1_000_000,
        seed: 1,
        load: 1.0,
    };
    assert!(simulate(&model, &set_up, &amount, &mut |_| false).is_none());
}
