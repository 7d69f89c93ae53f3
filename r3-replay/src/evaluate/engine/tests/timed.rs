//! The CPU device as if it measured: times with noise, caches that can be flushed, memory mapped in pages.

use std::cell::RefCell;
use std::rc::Rc;

use super::super::keys::Keys;
use super::*;
use crate::device::{
    AddressRange, CompareRange, DeviceError, DeviceInfo, Effort, Fill, GlobalAddress, Inexact,
    JitOption, KernelHandle, LaunchConfig, ModuleHandle, Piece, Work,
};
use crate::device::{HostBuffer, HostCopy, JudgeJob, Judged, MarkJob, MaskJob, Place};
use crate::evaluate::describe::DeviceDescription;

/// How it is.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Part of a time by which it varies.
    pub jitter: f64,
    /// How much slower a run is after a flush.
    pub cold: f64,
    /// What it says of itself.
    pub description: DeviceDescription,
    /// Nanoseconds of a unit of cost.
    pub unit: f64,
    /// A variable of the code that was loaded last: each timed run of other code that has [`SPOILS`] in it changes it.
    pub spoilt: Option<&'static str>,
}

/// See [`Manner::spoilt`].
const SPOILS: &str = "// spoils what was loaded last";

impl Default for Manner {
    fn default() -> Self {
        Self {
            jitter: 0.004,
            cold: 1.5,
            unit: 1.0,
            spoilt: None,
            description: DeviceDescription {
                name: "a device with times".to_owned(),
                sm: 90,
                multiprocessors: 2,
                max_shared_per_block: 64 << 10,
                l2_bytes: 64 << 10,
                memory_bandwidth: 1e12,
                ..DeviceDescription::default()
            },
        }
    }
}

/// What was done, as far as tests want to know.
#[derive(Clone, Debug, Default)]
pub struct Done {
    pub flushes: usize,
    pub resets: usize,
    pub launches: usize,
    pub loads: usize,
    pub unloads: usize,
}

pub struct Timed {
    inner: CpuDevice,
    manner: Manner,
    chance: Keys,
    flushed: bool,
    last: Option<ModuleHandle>,
    spoiling: Vec<ModuleHandle>,
    spoilers: Vec<KernelHandle>,
    pub done: Rc<RefCell<Done>>,
}

impl Timed {
    pub fn new(manner: Manner) -> Self {
        let options = CpuOptions {
            instruction_limit: Some(2_000_000),
            ..CpuOptions::default()
        };
        Self {
            inner: CpuDevice::new(options, Box::new(|_| {})),
            manner,
            chance: Keys::new(Some(11)),
            flushed: false,
            last: None,
            spoiling: Vec::new(),
            spoilers: Vec::new(),
            done: Rc::default(),
        }
    }
}

macro_rules! as_it_is {
    ($(fn $name:ident(&mut self $(, $arg:ident: $type:ty)*) -> $result:ty;)*) => {
        $(fn $name(&mut self $(, $arg: $type)*) -> $result {
            self.inner.$name($($arg),*)
        })*
    };
}

type Nothing = Result<(), DeviceError>;

impl Device for Timed {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn reservation_granularity(&self) -> u64 {
        self.inner.reservation_granularity().max(1 << 16)
    }

    fn mapping_granularity(&self) -> u64 {
        1 << 12
    }

    fn host_granularity(&self) -> u64 {
        self.inner.host_granularity()
    }

    fn runs_machine_code(&self) -> bool {
        self.inner.runs_machine_code()
    }

    fn work(&self) -> Option<&Work> {
        None
    }

    fn load(
        &mut self,
        image: &[u8],
        options: &[JitOption],
        globals: &[(&str, AddressRange)],
    ) -> Result<ModuleHandle, DeviceError> {
        let module = self.inner.load(image, options, globals)?;
        self.done.borrow_mut().loads += 1;
        self.last = Some(module);
        if image
            .windows(SPOILS.len())
            .any(|part| part == SPOILS.as_bytes())
        {
            self.spoiling.push(module);
        }
        Ok(module)
    }

    fn unload(&mut self, module: ModuleHandle) -> Nothing {
        self.done.borrow_mut().unloads += 1;
        self.inner.unload(module)
    }

    fn kernel(
        &mut self,
        module: ModuleHandle,
        name: &str,
    ) -> Result<Option<KernelHandle>, DeviceError> {
        let kernel = self.inner.kernel(module, name)?;
        if self.spoiling.contains(&module) {
            self.spoilers.extend(kernel);
        }
        Ok(kernel)
    }

    fn launch(&mut self, kernel: KernelHandle, config: &LaunchConfig<'_>) -> Nothing {
        self.done.borrow_mut().launches += 1;
        self.flushed = false;
        self.inner.launch(kernel, config)
    }

    fn launch_timed(
        &mut self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<Effort, DeviceError> {
        self.done.borrow_mut().launches += 1;
        if let (Some(name), Some(last)) = (self.manner.spoilt, self.last)
            && self.spoilers.contains(&kernel)
            && !self.spoiling.contains(&last)
            && let Some(place) = self.inner.global(last, name)?
        {
            self.inner.write(place.address, &[0x40])?;
        }
        let Effort::Work(work) = self.inner.launch_timed(kernel, config)? else {
            unreachable!("the CPU device counts");
        };
        let noise = 1.0 + self.manner.jitter * (2.0 * self.chance.fraction() - 1.0);
        let cold = match std::mem::take(&mut self.flushed) {
            true => self.manner.cold,
            false => 1.0,
        };
        let time = (1000.0 + self.manner.unit * work.cost as f64) * noise * cold;
        Ok(Effort::Nanoseconds(time))
    }

    fn flush_cache(&mut self) -> Nothing {
        self.done.borrow_mut().flushes += 1;
        self.flushed = true;
        Ok(())
    }

    fn reset_persisting(&mut self) -> Nothing {
        self.done.borrow_mut().resets += 1;
        Ok(())
    }

    fn properties(&mut self) -> Result<DeviceDescription, DeviceError> {
        Ok(self.manner.description.clone())
    }

    as_it_is! {
        fn free_memory(&mut self) -> Result<u64, DeviceError>;
        fn reserve(&mut self, range: AddressRange) -> Nothing;
        fn reserve_anywhere(&mut self, len: u64) -> Result<u64, DeviceError>;
        fn release(&mut self, range: AddressRange) -> Nothing;
        fn map(&mut self, range: AddressRange) -> Nothing;
        fn unmap(&mut self, range: AddressRange) -> Nothing;
        fn reserve_host(&mut self, range: AddressRange) -> Nothing;
        fn release_host(&mut self, range: AddressRange) -> Nothing;
        fn map_host(&mut self, range: AddressRange) -> Nothing;
        fn unmap_host(&mut self, range: AddressRange) -> Nothing;
        fn allocate(&mut self, len: u64) -> Result<u64, DeviceError>;
        fn free(&mut self, address: u64) -> Nothing;
        fn write(&mut self, address: u64, bytes: &[u8]) -> Nothing;
        fn read(&mut self, address: u64, out: &mut [u8]) -> Nothing;
        fn copy(&mut self, from: u64, to: u64, len: u64) -> Nothing;
        fn zero(&mut self, range: AddressRange) -> Nothing;
        fn write_pieces(&mut self, pieces: &[Piece], fill: &Fill<'_>) -> Nothing;
        fn compare(&mut self, ranges: &[CompareRange]) -> Result<Vec<bool>, DeviceError>;
        fn global(&mut self, module: ModuleHandle, name: &str) -> Result<Option<GlobalAddress>, DeviceError>;
        fn kernel_attribute(&mut self, kernel: KernelHandle, attribute: i32) -> Result<i32, DeviceError>;
        fn set_kernel_attribute(&mut self, kernel: KernelHandle, attribute: i32, value: i32) -> Nothing;
        fn set_cache_config(&mut self, kernel: KernelHandle, config: u32) -> Nothing;
        fn limit(&mut self, limit: u32) -> Result<u64, DeviceError>;
        fn set_limit(&mut self, limit: u32, value: u64) -> Nothing;
        fn inexact(&mut self, kernel: KernelHandle) -> Result<Vec<Inexact>, DeviceError>;
        fn meeting(&mut self, kernel: KernelHandle) -> Result<Option<String>, DeviceError>;
        fn synchronize(&mut self) -> Nothing;
        fn place(&mut self, pieces: &[Place]) -> Nothing;
        fn judge(&mut self, jobs: &[JudgeJob]) -> Result<Vec<Judged>, DeviceError>;
        fn mark_equal(&mut self, jobs: &[MarkJob]) -> Nothing;
        fn change_masks(&mut self, jobs: &[MaskJob]) -> Nothing;
        fn count_bits(&mut self, masks: &[AddressRange]) -> Result<Vec<u64>, DeviceError>;
        fn checksums(&mut self, key: u64, ranges: &[AddressRange]) -> Result<Vec<u64>, DeviceError>;
        fn host_buffer(&mut self, len: u64) -> Result<HostBuffer, DeviceError>;
        fn copy_out(&mut self, copies: &[HostCopy], to: &mut HostBuffer) -> Nothing;
        fn copy_in(&mut self, from: &HostBuffer, copies: &[HostCopy]) -> Nothing;
        fn occupancy(&mut self, kernel: KernelHandle, threads: u32, shared: u32) -> Result<Option<u32>, DeviceError>;
    }
}

/// What comes of some tasks, on such a device.
fn evaluate(sample: &Sample, manner: Manner, tasks: &[Task]) -> (Vec<TaskResult>, Done) {
    let mut device = Timed::new(manner);
    let done = Rc::clone(&device.done);
    let folder = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        seed: Some(1),
        lock_folder: Some(folder.path().to_owned()),
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(&sample.archive, &mut device, options);
    let results = tasks
        .iter()
        .map(|task| engine.evaluate(task, &Diary::default()).unwrap())
        .collect();
    drop(engine);
    let done = done.borrow().clone();
    (results, done)
}

fn planned(task: Task, plan: Plan) -> Task {
    Task {
        plan: Plan {
            launches: task.plan.launches.clone(),
            ..plan
        },
        ..task
    }
}

#[test]
fn the_original_has_times_noise_and_a_limit_to_what_can_be_won() {
    let saxpy = Sample::open("saxpy");
    let mut device = Timed::new(Manner::default());
    let mut engine = Engine::new(&saxpy.archive, &mut device, EngineOptions::default());
    let prepared = engine
        .prepare(saxpy.kernel, &[LaunchId(1)], &Diary::default())
        .unwrap()
        .remove(0);
    assert_eq!(prepared.unusable, None);
    assert!(prepared.original > 1000.0);
    assert!((0.01..0.02).contains(&prepared.noise), "{}", prepared.noise);
    assert!(
        prepared
            .notes
            .iter()
            .any(|note| note.contains("an empty kernel takes"))
    );
}

#[test]
fn the_original_does_not_win_and_what_does_more_loses() {
    let saxpy = Sample::open("saxpy");
    let longer = saxpy.with(&[(
        "mov.u64 %rd13, bias;",
        "mov.u64 %rd13, bias;\nnot.b64 %rd13, %rd13;\nnot.b64 %rd13, %rd13;",
    )]);
    let shorter = saxpy.with(&[(
        "cvt.u64.u32 %rd11, %r7;\nand.b64 %rd12, %rd11, 1020;",
        "and.b32 %r7, %r7, 1020;\ncvt.u64.u32 %rd12, %r7;\n",
    )]);
    let (results, done) = evaluate(
        &saxpy,
        Manner::default(),
        &[saxpy.with(&[]), longer, shorter],
    );
    for result in &results {
        assert_eq!((result.verdict, &result.reason), (Verdict::Right, &None));
    }
    let [same, longer, _] = results.as_slice() else {
        unreachable!()
    };
    let of = |result: &TaskResult| result.score.unwrap();
    assert!(!of(same).is_faster());
    assert!(of(longer).ratio.low > 1.0 && of(longer).dropped);
    let timing = &of_launch(longer).times[0];
    assert_eq!(timing.unit, Unit::Nanoseconds);
    assert!(timing.samples.iter().any(|pair| pair.candidate_first));
    assert!(timing.samples.iter().any(|pair| !pair.candidate_first));
    assert_eq!(done.loads, done.unloads, "nothing stays loaded");
    assert!(done.resets > 0, "no cache lines are kept");
}

fn of_launch(result: &TaskResult) -> &LaunchOutcome {
    &result.launches[0]
}

#[test]
fn both_regimes_are_timed_and_flushed_runs_are_colder() {
    let saxpy = Sample::open("saxpy");
    let both = planned(
        saxpy.with(&[]),
        Plan {
            regime: crate::evaluate::plan::Regime::Both,
            least_pairs: 8,
            most_pairs: 8,
            screen: 0,
            incumbent: Some(2.0),
            ..Plan::default()
        },
    );
    let (results, done) = evaluate(&saxpy, Manner::default(), std::slice::from_ref(&both));
    let times = &of_launch(&results[0]).times;
    assert_eq!(times.len(), 2);
    assert!(times[1].original > 1.3 * times[0].original, "{times:?}");
    assert!(done.flushes >= times[1].samples.len() * 2);
    let score = results[0].score.unwrap();
    let medians = [times[0].ratio.median, times[1].ratio.median];
    assert_eq!(score.ratio.median, medians[0].max(medians[1]));
    assert!(
        !results[0].notes.iter().any(|note| note.contains("unknown")),
        "{:?}",
        results[0].notes
    );
    // Where a flush does nothing, that is said.
    let warm = Manner {
        cold: 1.0,
        ..Manner::default()
    };
    let (results, _) = evaluate(&saxpy, warm, &[both]);
    assert!(
        results[0]
            .notes
            .iter()
            .any(|note| note.contains("cache regime unknown"))
    );
}

#[test]
fn what_is_faster_than_memory_is_set_aside() {
    let reverse = Sample::open("vmm");
    let mut slow = Manner::default();
    slow.description.l2_bytes = 1024;
    slow.description.memory_bandwidth = 1e9;
    let (results, _) = evaluate(&reverse, slow, &[reverse.with(&[])]);
    assert_eq!(
        results[0].verdict,
        Verdict::Implausible,
        "{:?}",
        results[0].reason
    );
    assert!(
        results[0]
            .reason
            .as_deref()
            .unwrap()
            .contains("times the bandwidth")
    );
    let (results, _) = evaluate(&reverse, Manner::default(), &[reverse.with(&[])]);
    assert_eq!(results[0].verdict, Verdict::Right);
}

#[test]
fn memory_behind_a_buffer_is_guarded() {
    let saxpy = Sample::open("saxpy");
    let beyond = saxpy.with(&[(
        "add.s64 %rd10, %rd3, %rd8;",
        "setp.eq.s32 %p1, %r1, 0;\n@%p1 st.global.u32 [%rd3+40000], %r1;\nadd.s64 %rd10, %rd3, %rd8;",
    )]);
    let (results, _) = evaluate(&saxpy, Manner::default(), &[beyond, saxpy.with(&[])]);
    assert_eq!(
        results[0].verdict,
        Verdict::Cheat,
        "{:?}",
        results[0].reason
    );
    assert!(results[0].reason.as_deref().unwrap().contains("arg3"));
    assert_eq!(results[1].verdict, Verdict::Right);
}

#[test]
fn what_changes_its_mind_while_it_is_timed_is_caught() {
    let saxpy = Sample::open("saxpy");
    // Wrong in one run out of some, by what guards hold behind a buffer: no run before was.
    let moody = saxpy.with(&[(
        "ld.const.f32 %f2, [%rd6];",
        "ld.const.f32 %f2, [%rd6];\nld.global.u32 %r8, [%rd3+40000];\nand.b32 %r8, %r8, 1;\nsetp.eq.s32 %p1, %r8, 0;\n\
         @%p1 mov.f32 %f2, 0f00000000;",
    )]);
    let moody = planned(
        moody,
        Plan {
            incumbent: Some(2.0),
            ..Plan::default()
        },
    );
    let (results, _) = evaluate(&saxpy, Manner::default(), &vec![moody; 6]);
    for result in results {
        // Two runs before, and some of the timed ones.
        assert!(!result.verdict.is_right(), "{result:?}");
    }
}

#[test]
fn what_changes_a_variable_of_the_original_is_no_faster() {
    let saxpy = Sample::open("saxpy");
    let spoilt = Manner {
        spoilt: Some("coefficients"),
        ..Manner::default()
    };
    let variables = (".const .align 4", &*format!("{SPOILS}\n.const .align 4"));
    let (results, _) = evaluate(&saxpy, spoilt, &[saxpy.with(&[variables])]);
    assert_eq!(results[0].verdict, Verdict::Cheat, "{results:?}");
    let reason = results[0].reason.as_deref().unwrap_or_default();
    assert!(reason.contains("the original's own"), "{reason}");
}

#[test]
fn another_snapshot_comes_in_between_timed_runs() {
    let saxpy = Sample::open("saxpy");
    let task = planned(
        saxpy.with(&[]),
        Plan {
            perturbed: 1,
            screen: 0,
            incumbent: Some(2.0),
            ..Plan::default()
        },
    );
    let mut device = Timed::new(Manner::default());
    let options = EngineOptions {
        seed: Some(2),
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(&saxpy.archive, &mut device, options);
    let diary = Diary::default();
    let result = engine.evaluate(&task, &diary).unwrap();
    assert_eq!((result.verdict, result.reason), (Verdict::Right, None));
    let diary: Vec<String> = diary
        .0
        .into_inner()
        .into_iter()
        .map(|(_, what)| what)
        .collect();
    let timed = |what: &String| what.starts_with("the candidate") && what.ends_with("timed");
    let first = diary.iter().position(timed).unwrap();
    let last = diary.iter().rposition(timed).unwrap();
    let between = &diary[first..last];
    assert!(
        between
            .iter()
            .any(|what| what.starts_with("the candidate") && what.contains("perturbed inputs")),
        "{diary:?}"
    );
}

#[test]
fn times_of_all_launches_make_one_score() {
    let saxpy = Sample::open("saxpy");
    let mut task = saxpy.with(&[]);
    task.plan = Plan {
        launches: vec![
            tuned(1),
            Weighted {
                weight: 3.0,
                ..tuned(2)
            },
        ],
        held_out: vec![LaunchId(3)],
        screen: 0,
        least_pairs: 8,
        most_pairs: 8,
        ..Plan::default()
    };
    let (results, _) = evaluate(&saxpy, Manner::default(), &[task]);
    let result = &results[0];
    assert_eq!((result.verdict, &result.reason), (Verdict::Right, &None));
    let score = result.score.unwrap();
    let times: Vec<_> = result
        .launches
        .iter()
        .flat_map(|launch| &launch.times)
        .collect();
    assert_eq!(times.len(), 2);
    let (one, other) = (times[0], times[1]);
    let whole = one.original + 3.0 * other.original;
    let left =
        (one.original * one.ratio.median + 3.0 * other.original * other.ratio.median) / whole;
    assert!((score.ratio.median - left).abs() < 1e-9);
    assert!(score.ratio.low <= score.ratio.median && score.ratio.median <= score.ratio.high);
    assert_eq!(score.worst, one.ratio.median.max(other.ratio.median));
    assert_eq!(
        score.pairs as usize,
        one.samples.len() + other.samples.len()
    );
}

#[test]
fn launches_share_the_pairs_of_a_search() {
    let saxpy = Sample::open("saxpy");
    let of = |launches: &[u64]| Task {
        plan: Plan {
            launches: launches.iter().copied().map(tuned).collect(),
            incumbent: Some(2.0),
            ..Plan::default()
        },
        ..saxpy.with(&[])
    };
    let (results, _) = evaluate(&saxpy, Manner::default(), &[of(&[1]), of(&[1, 2])]);
    let pairs = |result: &TaskResult| result.score.unwrap().pairs;
    assert_eq!(pairs(&results[0]), pairs(&results[1]));
    assert!(results[1].score.unwrap().ratio.confidence >= 0.95);
}
