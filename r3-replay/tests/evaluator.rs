//! The evaluator with a device that follows a script: it hangs, faults, dies, lies and leaks as candidates ask it to, in real
//! worker processes.

#![allow(clippy::unwrap_used)]

mod script;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use r3_replay::evaluate::evaluator::{
    DeviceChoice, Evaluator, EvaluatorError, EvaluatorOptions, JobId, JobState, Priority, Request,
    SubmitError, Workers,
};
use r3_replay::evaluate::rules::Allowed;
use r3_replay::evaluate::{Outcome, Plan, Verdict};

use script::{Act, KERNEL, Stage};

/// What a worker that is this program runs. As a test of its own it does nothing.
#[test]
fn worker_of_other_tests() {
    script::serve_if_asked();
}

fn options(stage: &Stage) -> EvaluatorOptions {
    let mut options = EvaluatorOptions {
        devices: vec![DeviceChoice::Cpu(90)],
        workers: Some(stage.workers()),
        silence: Duration::from_secs(20),
        ..EvaluatorOptions::default()
    };
    options.compile.workers = 2;
    options
}

/// Candidates of the script compute nothing, and do without what the original reads.
fn plan() -> Plan {
    Plan {
        allowed: Allowed::everything(),
        ..Plan::default()
    }
}

fn request(evaluator: &Evaluator, act: Act, number: u32) -> Request {
    let archive = evaluator.open(&script::archive()).unwrap();
    Request {
        archive,
        kernel: KERNEL.to_owned(),
        candidate: script::candidate(act, number),
        plan: plan(),
        priority: Priority(0),
    }
}

fn submit(evaluator: &Evaluator, act: Act, number: u32) -> JobId {
    evaluator.submit(request(evaluator, act, number)).unwrap()
}

/// The outcomes of jobs, as they come.
fn outcomes(evaluator: &Evaluator, jobs: &[JobId]) -> BTreeMap<JobId, Outcome> {
    let wanted: HashSet<JobId> = jobs.iter().copied().collect();
    let mut found = BTreeMap::new();
    let mut events = evaluator.events(0);
    let until = Instant::now() + Duration::from_secs(240);
    while found.len() < wanted.len() {
        let left = until.saturating_duration_since(Instant::now());
        let event = events.next_within(left).expect("an outcome is missing");
        if let JobState::Done(outcome) = event.state
            && wanted.contains(&event.job)
        {
            found.insert(event.job, *outcome);
        }
    }
    found
}

fn outcome(evaluator: &Evaluator, job: JobId) -> Outcome {
    outcomes(evaluator, &[job]).remove(&job).unwrap()
}

/// Waits until a job is in a state.
fn wait_for(evaluator: &Evaluator, job: JobId, is: fn(&JobState) -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is(&evaluator.job(job).unwrap()) {
        assert!(Instant::now() < until, "{:?}", evaluator.job(job));
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

fn assert_gone(processes: &[u32]) {
    let until = Instant::now() + Duration::from_secs(10);
    while processes.iter().any(|process| is_alive(*process)) {
        assert!(Instant::now() < until, "{processes:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(process: u32) {
    // SAFETY: takes numbers; the process is a child of this one.
    unsafe { libc::kill(process.cast_signed(), libc::SIGKILL) };
}

#[test]
fn of_a_thousand_candidates_each_tenth_fails_in_its_own_way_and_no_other_one_notices() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let bad = [
        (Act::Hang, Verdict::Timeout),
        (Act::Fault, Verdict::Fault),
        (Act::Wrong, Verdict::Wrong),
        (Act::NoCode, Verdict::NoCode),
        (Act::Die, Verdict::Fault),
        (Act::Cheat, Verdict::Cheat),
        (Act::Panic, Verdict::Unjudged),
        (Act::DieOnce, Verdict::Right),
        (Act::Lie, Verdict::Unjudged),
        (Act::Shout, Verdict::Right),
    ];
    let mut expected = BTreeMap::new();
    for number in 0..1000u32 {
        let (act, verdict) = match number % 10 {
            7 => bad[(number / 10 % 10) as usize],
            _ => (Act::Right, Verdict::Right),
        };
        expected.insert(submit(&evaluator, act, number), (number, act, verdict));
    }
    let jobs: Vec<JobId> = expected.keys().copied().collect();
    let outcomes = outcomes(&evaluator, &jobs);
    for (job, outcome) in &outcomes {
        let (number, act, verdict) = expected[job];
        assert_eq!(outcome.verdict, verdict, "{number} {act:?}: {outcome:?}");
        if verdict == Verdict::Right {
            // The time that the script gave this one, and no other.
            let ratio = outcome.score.unwrap().ratio.median;
            assert_eq!(ratio, script::ratio(number), "{number} {act:?}");
            assert!(outcome.code.as_ref().unwrap().equal_to.is_none());
        }
        if act == Act::DieOnce {
            assert!(outcome.cost.restarts >= 1, "{outcome:?}");
        }
    }
    let status = evaluator.status();
    assert_eq!(status.done, 1000);
    assert_eq!(
        status.queued + status.compiling + status.waiting + status.running,
        0
    );
    assert!(status.restarts >= 40, "{status:?}");
    assert!(status.worker_memory > 0);
}

#[test]
fn a_hang_is_told_with_what_hung_and_its_limit() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let hung = outcome(&evaluator, submit(&evaluator, Act::Hang, 1));
    assert_eq!(hung.verdict, Verdict::Timeout);
    assert_eq!(
        hung.reason.as_deref(),
        Some("the candidate on launch 1 did not end within 0.2 s")
    );
    assert!(!hung.code.unwrap().image.is_empty());
}

#[test]
fn a_limit_that_passes_while_the_original_runs_says_nothing_of_the_candidate() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let unjudged = outcome(&evaluator, submit(&evaluator, Act::OriginalHangs, 1));
    assert_eq!(unjudged.verdict, Verdict::Unjudged, "{unjudged:?}");
    let right = outcome(&evaluator, submit(&evaluator, Act::Right, 2));
    assert_eq!(right.verdict, Verdict::Right);
}

#[test]
fn what_code_prints_does_not_reach_the_connection() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let loud = outcome(&evaluator, submit(&evaluator, Act::Shout, 3));
    assert_eq!(loud.verdict, Verdict::Right);
    assert_eq!(loud.cost.restarts, 0);
}

#[test]
fn a_worker_that_stands_still_as_a_whole_is_ended_from_outside() {
    let stage = Stage::new();
    let mut options = options(&stage);
    options.silence = Duration::from_secs(3);
    let evaluator = Evaluator::new(options).unwrap();
    let still = outcome(&evaluator, submit(&evaluator, Act::Stop, 1));
    assert_eq!(still.verdict, Verdict::Timeout, "{still:?}");
    let right = outcome(&evaluator, submit(&evaluator, Act::Right, 2));
    assert_eq!(right.verdict, Verdict::Right);
}

#[test]
fn a_full_queue_refuses_and_takes_again_when_something_is_done() {
    let stage = Stage::new();
    let mut options = options(&stage);
    options.queue_limit = 2;
    let evaluator = Evaluator::new(options).unwrap();
    let slow = submit(&evaluator, Act::Slow, 1);
    let second = submit(&evaluator, Act::Right, 2);
    let refused = evaluator.submit(request(&evaluator, Act::Right, 3));
    assert_eq!(refused, Err(SubmitError::Full { limit: 2 }));
    outcomes(&evaluator, &[slow, second]);
    let third = submit(&evaluator, Act::Right, 3);
    assert_eq!(outcome(&evaluator, third).verdict, Verdict::Right);
}

#[test]
fn what_is_urgent_runs_first_and_within_a_priority_the_order_is_kept() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let slow = submit(&evaluator, Act::Slow, 0);
    wait_for(&evaluator, slow, |state| *state == JobState::Running);
    let mut jobs = Vec::new();
    for (number, priority) in [(1, 0), (2, -1), (3, 5), (4, 0), (5, 5)] {
        let request = Request {
            priority: Priority(priority),
            ..request(&evaluator, Act::Right, number)
        };
        jobs.push(evaluator.submit(request).unwrap());
    }
    for job in &jobs {
        wait_for(&evaluator, *job, |state| {
            !matches!(state, JobState::Queued | JobState::Compiling)
        });
    }
    outcomes(&evaluator, &jobs);
    let ran: Vec<u32> = stage.ran().into_iter().skip(1).collect();
    assert_eq!(ran, [3, 5, 1, 4, 2]);
}

#[test]
fn a_job_can_be_cancelled_in_each_state_and_others_go_on() {
    let stage = Stage::new();
    let mut options = options(&stage);
    options.cancel_patience = Duration::from_millis(100);
    options.compile.workers = 1;
    let evaluator = Evaluator::new(options).unwrap();
    // Running: it would take 30 seconds, and its worker is ended.
    let running = submit(&evaluator, Act::VerySlow, 1);
    wait_for(&evaluator, running, |state| *state == JobState::Running);
    let waiting = submit(&evaluator, Act::Right, 2);
    wait_for(&evaluator, waiting, |state| *state == JobState::Waiting);
    let queued: Vec<JobId> = (10..30)
        .map(|number| submit(&evaluator, Act::Right, number))
        .collect();
    let last = *queued.last().unwrap();
    assert!(evaluator.cancel(last));
    assert!(evaluator.cancel(waiting));
    assert!(evaluator.cancel(running));
    assert!(!evaluator.cancel(running), "it is over");
    assert!(!evaluator.cancel(JobId(4711)), "there is none");
    let begun = Instant::now();
    for job in [running, waiting, last] {
        let cancelled = outcome(&evaluator, job);
        assert_eq!(cancelled.verdict, Verdict::Cancelled);
    }
    let rest: Vec<JobId> = queued[..queued.len() - 1].to_vec();
    for outcome in outcomes(&evaluator, &rest).values() {
        assert_eq!(outcome.verdict, Verdict::Right);
    }
    assert!(begun.elapsed() < Duration::from_secs(25));
    assert!(!stage.ran().contains(&2));
}

#[test]
fn equal_code_is_measured_once_unless_more_is_asked_of_it() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let first = submit(&evaluator, Act::Slow, 1);
    wait_for(&evaluator, first, |state| *state == JobState::Running);
    // While it runs, and spelt differently.
    let mut other = request(&evaluator, Act::Slow, 1);
    other.candidate.launch.block = Some(script::recorded_block());
    let follower = evaluator.submit(other).unwrap();
    let (first, follower) = {
        let mut found = outcomes(&evaluator, &[first, follower]);
        (
            found.remove(&first).unwrap(),
            found.remove(&follower).unwrap(),
        )
    };
    assert_ne!(first.candidate, follower.candidate);
    let equal = follower.code.clone().unwrap().equal_to;
    assert_eq!(equal, Some(first.candidate));
    assert_eq!(follower.score, first.score);
    assert_eq!(stage.ran(), [1]);
    // Afterwards.
    let again = outcome(&evaluator, submit(&evaluator, Act::Slow, 1));
    assert_eq!(again.score, first.score);
    assert_eq!(stage.ran(), [1]);
    assert_eq!(evaluator.status().equal, 2);
    // A plan that asks for more, and one that wants it measured anyway.
    let more = Plan {
        least_pairs: 64,
        most_pairs: 64,
        ..plan()
    };
    let anyway = Plan {
        again: true,
        ..plan()
    };
    for (plan, runs) in [(more, 2), (anyway, 3)] {
        let request = Request {
            plan,
            ..request(&evaluator, Act::Slow, 1)
        };
        let job = evaluator.submit(request).unwrap();
        let measured = outcome(&evaluator, job);
        assert_eq!(measured.code.unwrap().equal_to, None);
        assert_eq!(stage.ran().len(), runs);
    }
}

#[test]
fn who_waited_for_a_job_that_was_cancelled_gets_its_outcome() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let first = submit(&evaluator, Act::Slow, 1);
    wait_for(&evaluator, first, |state| *state == JobState::Running);
    let second = submit(&evaluator, Act::Slow, 1);
    wait_for(&evaluator, second, |state| *state == JobState::Waiting);
    assert!(evaluator.cancel(first));
    let heir = outcome(&evaluator, second);
    assert_eq!(heir.verdict, Verdict::Right);
    assert_eq!(heir.code.unwrap().equal_to, None);
    assert_eq!(stage.ran(), [1]);
}

#[test]
fn workers_that_are_killed_in_the_middle_cost_no_verdict() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let jobs: Vec<JobId> = (0..60)
        .map(|number| submit(&evaluator, Act::Short, number))
        .collect();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(300));
        for process in evaluator.processes() {
            kill(process);
        }
    }
    for (job, outcome) in outcomes(&evaluator, &jobs) {
        assert_eq!(outcome.verdict, Verdict::Right, "{job:?}: {outcome:?}");
    }
    assert!(evaluator.status().restarts > 0);
}

#[test]
fn a_fresh_process_is_one_that_only_others_of_its_kind_were_in_before() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let mut number = 0;
    let mut run = |act: Act, fresh_process: bool| {
        number += 1;
        let request = Request {
            plan: Plan {
                fresh_process,
                ..plan()
            },
            ..request(&evaluator, act, number)
        };
        let outcome = outcome(&evaluator, evaluator.submit(request).unwrap());
        assert_eq!(outcome.cost.restarts, 0, "that is nobody's fault");
        evaluator.status().restarts
    };
    assert_eq!(run(Act::Right, false), 0);
    assert_eq!(run(Act::Right, true), 1);
    assert_eq!(run(Act::Right, true), 1);
    assert_eq!(run(Act::Cheat, true), 1);
    assert_eq!(run(Act::Right, true), 2);
    assert_eq!(run(Act::Right, false), 2);
    assert_eq!(run(Act::Right, true), 3);
}

#[test]
fn a_buffer_that_the_original_needs_is_left_alone_after_a_restart() {
    let stage = Stage::new();
    stage.set("poison");
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let right = outcome(&evaluator, submit(&evaluator, Act::Right, 1));
    assert_eq!(right.verdict, Verdict::Right);
    assert_eq!(evaluator.status().restarts, 1);
}

#[test]
fn a_worker_that_lies_in_the_way_of_addresses_starts_over_in_place() {
    let stage = Stage::new();
    stage.set("collide");
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let before = evaluator.processes();
    let right = outcome(&evaluator, submit(&evaluator, Act::Right, 1));
    assert_eq!(right.verdict, Verdict::Right, "{right:?}");
    assert!(stage.is("collided"));
    assert_eq!(right.cost.restarts, 0);
    assert!(
        before
            .iter()
            .all(|process| evaluator.processes().contains(process))
    );
    let hung = outcome(&evaluator, submit(&evaluator, Act::Hang, 2));
    assert_eq!(hung.verdict, Verdict::Timeout);
    let right = outcome(&evaluator, submit(&evaluator, Act::Right, 3));
    assert_eq!(right.verdict, Verdict::Right);
}

#[test]
fn launches_that_cannot_be_judged_are_told_and_left_out() {
    let stage = Stage::new();
    stage.set("unusable");
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let right = outcome(&evaluator, submit(&evaluator, Act::Right, 1));
    assert_eq!(right.verdict, Verdict::Right);
    assert!(
        right
            .notes
            .contains(&"launch 2 cannot be judged: the script says so".to_owned()),
        "{:?}",
        right.notes
    );
    let mut named = request(&evaluator, Act::Right, 2);
    named.plan.launches = serde_json::from_str(r#"[{"launch": 2, "weight": 1.0}]"#).unwrap();
    let refused = outcome(&evaluator, evaluator.submit(named).unwrap());
    assert_eq!(refused.verdict, Verdict::CannotRun);
}

#[test]
fn events_have_no_gaps_and_can_be_read_again_from_a_number() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let jobs: Vec<JobId> = (0..5).map(|n| submit(&evaluator, Act::Right, n)).collect();
    outcomes(&evaluator, &jobs);
    let all: Vec<u64> = evaluator
        .events(0)
        .take(20)
        .map(|event| event.sequence)
        .collect();
    assert!(all.iter().copied().eq(1..=20), "{all:?}");
    let mut later = evaluator.events(17);
    assert_eq!(later.next().unwrap().sequence, 18);
    for job in jobs {
        let of_job: Vec<JobState> = evaluator
            .events(0)
            .take(25)
            .filter(|event| event.job == job)
            .map(|event| event.state)
            .collect();
        assert!(
            matches!(
                of_job.as_slice(),
                [
                    JobState::Queued,
                    JobState::Compiling,
                    JobState::Waiting,
                    JobState::Running,
                    JobState::Done(_)
                ]
            ),
            "{of_job:?}"
        );
    }
}

#[test]
fn what_was_long_ago_is_forgotten() {
    let stage = Stage::new();
    let mut options = options(&stage);
    options.history = 10;
    let evaluator = Evaluator::new(options).unwrap();
    let mut jobs = Vec::new();
    for number in 0..8 {
        let job = submit(&evaluator, Act::Right, number);
        wait_for(&evaluator, job, |state| matches!(state, JobState::Done(_)));
        jobs.push(job);
    }
    let known = |job: &JobId| evaluator.job(*job).is_some();
    let forgotten: Vec<bool> = jobs.iter().map(known).collect();
    // The last ten events are those of two jobs.
    assert_eq!(
        forgotten,
        [false, false, false, false, false, false, true, true]
    );
    let first = evaluator.events(0).next().unwrap();
    assert_eq!(first.sequence, 8 * 5 - 10 + 1);
}

#[test]
fn after_a_shutdown_no_process_and_no_folder_is_left_and_events_end() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let done = submit(&evaluator, Act::Right, 1);
    outcome(&evaluator, done);
    let slow = submit(&evaluator, Act::VerySlow, 2);
    wait_for(&evaluator, slow, |state| *state == JobState::Running);
    let waiting: Vec<JobId> = (3..40).map(|n| submit(&evaluator, Act::Right, n)).collect();
    let processes = evaluator.processes();
    assert!(!processes.is_empty());
    let folders: Vec<PathBuf> = processes
        .iter()
        .map(|process| std::fs::read_link(format!("/proc/{process}/cwd")).unwrap())
        .collect();
    let begun = Instant::now();
    evaluator.shutdown();
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_gone(&processes);
    for folder in folders {
        assert!(!folder.exists(), "{}", folder.display());
    }
    let ended: Vec<Verdict> = evaluator
        .events(0)
        .filter_map(|event| match event.state {
            JobState::Done(outcome) => Some(outcome.verdict),
            _ => None,
        })
        .collect();
    assert_eq!(ended.len(), waiting.len() + 2);
    assert_eq!(ended.iter().filter(|v| **v == Verdict::Right).count(), 1);
    let refused = evaluator.submit(request(&evaluator, Act::Right, 1));
    assert_eq!(refused, Err(SubmitError::ShuttingDown));
}

#[test]
fn when_it_is_dropped_no_process_is_left() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let slow = submit(&evaluator, Act::VerySlow, 2);
    wait_for(&evaluator, slow, |state| *state == JobState::Running);
    let processes = evaluator.processes();
    drop(evaluator);
    assert_gone(&processes);
}

#[test]
fn a_device_that_cannot_be_opened_is_told_at_the_start() {
    let stage = Stage::new();
    stage.set("no device");
    let Err(error) = Evaluator::new(options(&stage)).map(|_| ()) else {
        panic!("it was opened");
    };
    assert_eq!(
        error,
        EvaluatorError::Device {
            device: "CPU device (sm_90)".to_owned(),
            reason: "the script has no device".to_owned()
        }
    );
    let mut without = options(&stage);
    if let Some(Workers { device, .. }) = &mut without.workers {
        device.program = "/nowhere/to-be-found".into();
    }
    let Err(error) = Evaluator::new(without).map(|_| ()) else {
        panic!("it was started");
    };
    assert!(matches!(error, EvaluatorError::Device { .. }), "{error}");
}

#[test]
fn two_devices_share_the_work() {
    let stage = Stage::new();
    let mut options = options(&stage);
    options.devices = vec![DeviceChoice::Cpu(90); 2];
    let evaluator = Evaluator::new(options).unwrap();
    let slow = submit(&evaluator, Act::VerySlow, 1);
    wait_for(&evaluator, slow, |state| *state == JobState::Running);
    let right = outcome(&evaluator, submit(&evaluator, Act::Right, 2));
    assert_eq!(right.verdict, Verdict::Right);
    assert!(evaluator.cancel(slow));
}

#[test]
fn what_cannot_be_submitted_says_why() {
    let stage = Stage::new();
    let evaluator = Evaluator::new(options(&stage)).unwrap();
    let good = request(&evaluator, Act::Right, 1);
    let mut kernel = good.clone();
    kernel.kernel = "nothing".to_owned();
    let mut launch = good.clone();
    launch.plan.held_out = serde_json::from_str("[77]").unwrap();
    let mut pairs = good;
    pairs.plan.most_pairs = 1;
    for (request, told) in [
        (kernel, "has no kernel `nothing`"),
        (launch, "launch 77 is none of this kernel"),
        (pairs, "4 pairs at least and 1 at most"),
    ] {
        let error = evaluator.submit(request).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}
