//! How it is served: a set-up's host, processes, queue, lanes, limits and costs.

use super::at::{At, Read, MOST, MOST_MS, MOST_PROCESSES};
use super::rules::{at_once_rule, permit_rule, shed_rule};
use crate::model::Model;
use crate::set_up::{Costs, Host, Kind, Lane, Queue, SetUp};

/// The set-up of a model.
pub fn set_up(at: &At<'_>, model: &Model) -> Read<SetUp> {
    let rules = at.of("rules");
    let processes = at.of("processes").count(1.0, MOST_PROCESSES, 1)? as usize;
    let queue = queue(&at.of("queue"))?;
    let (lanes, lane_of) = lanes(&at.of("lanes"), model)?;
    let own: usize = lanes
        .iter()
        .filter(|lane| lane.kind == Kind::Hard)
        .map(|lane| lane.processes.max(1))
        .sum();
    if own >= processes && own > 0 {
        let rule =
            format!("more than {own}: hard lanes have so many of their own, and others need one");
        return at.of("processes").wrong(&rule);
    }
    let limit = at.of("limit").count(0.0, MOST, 0)?;
    let at_once = at.of("at_once").count(0.0, MOST, 0)?;
    let central = queue == Queue::Central;
    Ok(SetUp {
        host: host(at)?,
        queue,
        processes,
        cores: at.of("cores").count(0.0, MOST, 0)? as usize,
        switch_interval_ns: (at
            .of("switch_interval_ms")
            .number_or(0.0, MOST_MS, 5.0)?
            .max(1e-3)
            * 1e6) as u64,
        limit,
        at_once,
        at_once_rule: if central && at_once == 0 {
            Some(at_once_rule(&rules.of("at_once"))?)
        } else {
            None
        },
        shed: if at.of("shed").truth()? {
            Some(shed_rule(&rules.of("shed"))?)
        } else {
            None
        },
        lanes,
        lane_of,
        bulkheads: upstream_limits(at, model)?
            .map(|limits| (processes as u32 * limit.max(at_once).max(1), limits)),
        pool: at.of("pool").count(0.0, MOST_PROCESSES, 1)?,
        costs: costs(&at.of("costs"))?,
    })
}

fn host(at: &At<'_>) -> Read<Host> {
    let name = at.of("host");
    match name.text()? {
        "gevent" => Ok(Host::Gevent),
        "threads" | "celery" => Ok(Host::Threads),
        "asyncio" => Ok(Host::Asyncio),
        "permits" => Ok(Host::Permits(permit_rule(&at.of("rules").of("permits"))?)),
        _ => name.wrong("one of gevent, threads, permits, asyncio, celery"),
    }
}

fn queue(at: &At<'_>) -> Read<Queue> {
    Ok(match at.text_or("accept")? {
        "accept" => Queue::Accept,
        "central" => Queue::Central,
        _ => return at.wrong("accept or central"),
    })
}

fn lanes(at: &At<'_>, model: &Model) -> Read<(Vec<Lane>, Vec<usize>)> {
    let mut lanes = vec![Lane {
        kind: Kind::Soft,
        processes: 0,
        priority: 0,
    }];
    let mut lane_of = vec![0; model.routes.len()];
    for one in at.list()? {
        let kind = one.of("kind");
        let number = lanes.len();
        lanes.push(Lane {
            kind: match kind.text_or("soft")? {
                "soft" => Kind::Soft,
                "hard" => Kind::Hard,
                _ => return kind.wrong("soft or hard"),
            },
            processes: one.of("processes").count(0.0, MOST_PROCESSES, 0)? as usize,
            priority: one.of("priority").number_or(-1e9, 1e9, 0.0)? as i64,
        });
        for route in one.of("routes").list()? {
            let text = route.text()?;
            match model.routes.iter().position(|known| known.name == text) {
                Some(index) => lane_of[index] = number,
                None => return route.wrong("a route of the profile"),
            }
        }
    }
    Ok((lanes, lane_of))
}

/// By upstream of the model; 0 = the general rule holds. None = nobody is held back.
fn upstream_limits(at: &At<'_>, model: &Model) -> Read<Option<Vec<u32>>> {
    let mut limits = vec![0; model.upstreams.len()];
    let named = at.of("upstream_limits");
    for (name, limit) in named.object()? {
        let known = model.upstreams.iter().position(|one| one == name);
        match known {
            Some(index) => limits[index] = limit.count(0.0, MOST, 0)?,
            None => return limit.wrong("the limit of an upstream of the profile"),
        }
    }
    let held = limits.iter().any(|&limit| limit > 0);
    if held && at.of("host").text()? != "celery" {
        return named.wrong("none: only celery holds calls back");
    }
    Ok(held.then_some(limits))
}

fn costs(at: &At<'_>) -> Read<Costs> {
    let us = |name: &str| -> Read<u64> { Ok((at.of(name).number_or(0.0, 1e9, 0.0)? * 1e3) as u64) };
    let releases = |name: &str| at.of(name).count(0.0, 100.0, 0);
    Ok(Costs {
        switch_ns: us("switch_us")?,
        dispatch_ns: us("dispatch_us")?,
        front_ns: us("front_us")?,
        door_releases: releases("door_releases")?,
        request_releases: releases("request_releases")?,
        call_releases: releases("call_releases")?,
    })
}
