// node: an async function a request, started as soon as its place is free. The job and its file: program.py.
'use strict';
const fs = require('fs');
const job = JSON.parse(process.argv[2]);
const nowNs = () => Number(process.hrtime.bigint());
const threadCpu = process.threadCpuUsage || process.cpuUsage;
const cpuNs = (usage) => (usage.user + usage.system) * 1000;
let kept = 0;  // what the loop computes must be used, or the compiler leaves it out

function burn(iterations) {
  for (let left = iterations; left > 0; left--) kept = (kept * 31 + left) | 0;
}

function iterationsPerMs() {
  const round = 2000000, costs = [];
  for (let number = 0; number < 33; number++) {
    const before = threadCpu.call(process);
    burn(round);
    costs.push(cpuNs(threadCpu.call(process)) - cpuNs(before));
  }
  return round / (costs.slice(2).sort((a, b) => a - b)[7] / 1e6);
}

const perMs = iterationsPerMs();
const bursts = job.bursts_ms.map((ms) => Math.round(ms * perMs));
const sleep = (ms) => new Promise((resume) => { if (ms) setTimeout(resume, ms); else setImmediate(resume); });
const records = [], beganNs = nowNs(), beganCpu = process.cpuUsage();
let left = job.requests, going = 0;

async function request(record) {
  record.push(nowNs());
  burn(bursts[0]);
  for (let call = 0; call < job.waits_ms.length; call++) {
    record.push(nowNs());
    if (job.together) await Promise.all(Array.from({ length: job.together }, () => sleep(job.waits_ms[call])));
    else await sleep(job.waits_ms[call]);
    record.push(nowNs());
    burn(bursts[call + 1]);
  }
  record.push(nowNs());
  going--;
  if (left) spawn(record[record.length - 1]);
  else if (!going) finish();
}

function spawn(arrivalNs) {
  left--; going++;
  const record = [arrivalNs, nowNs()];
  records.push(record);
  setImmediate(request, record);
}

async function finish() {
  const found = { runtime: `node ${process.version}`, iterations_per_ms: perMs, began_ns: beganNs, ended_ns: nowNs(),
                  cpu_ns: cpuNs(process.cpuUsage(beganCpu)), yield_ns: null, requests: records };
  const before = cpuNs(process.cpuUsage());
  for (let turn = 0; turn < job.yields; turn++) await sleep(0);
  if (job.yields) found.yield_ns = (cpuNs(process.cpuUsage()) - before) / job.yields;
  fs.writeFileSync(`${job.result}.part`, JSON.stringify(found));
  fs.renameSync(`${job.result}.part`, job.result);
}

for (let place = Math.min(job.green_threads, left); place > 0; place--) spawn(beganNs);
