//! A pool of workers with a cache in front.

#![allow(clippy::unwrap_used, reason = "a test that is wrong stops")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use r3_codegen::cache::{Cache, CacheOptions, CachedPool, Origin, Unsteady};
use r3_codegen::recipe::{Code, Compiler, FailureKind, Recipe, Route, Source, Stage};
use r3_codegen::worker::{Limits, Pool, WorkerCommand};

/// A worker that says what it is told, or dies.
fn faulty(limits: Limits) -> Arc<Pool> {
    let command = WorkerCommand {
        program: env!("CARGO_BIN_EXE_r3-faulty-worker").into(),
        arguments: Vec::new(),
    };
    Arc::new(Pool::new(command, limits))
}

fn limits() -> Limits {
    Limits {
        workers: 2,
        memory: 1 << 30,
        ..Limits::default()
    }
}

fn cache(folder: &Path) -> Option<Cache> {
    let options = CacheOptions {
        folder: folder.to_owned(),
        limit: 1 << 24,
    };
    Some(Cache::open(&options).unwrap())
}

fn recipe(what: &str) -> Recipe {
    Recipe::new(Code::Ptx(what.to_owned()))
}

#[test]
fn what_was_compiled_is_not_compiled_again_by_anyone() {
    let folder = tempfile::tempdir().unwrap();
    let (ask, other) = (recipe("echo one"), recipe("say two"));
    let first = {
        let pool = CachedPool::new(faulty(limits()), cache(folder.path()));
        let (first, origin) = pool.compile_telling(&ask);
        assert_eq!(origin, Origin::Compiled);
        assert_eq!(pool.compile_telling(&ask), (first.clone(), Origin::Cached));
        assert_eq!(pool.compile_telling(&other).1, Origin::Compiled);
        let counted = pool.statistics();
        assert_eq!((counted.hits, counted.misses, counted.written), (1, 2, 2));
        first
    };
    let pool = CachedPool::new(faulty(limits()), cache(folder.path()));
    assert_eq!(pool.compile_telling(&ask), (first, Origin::Cached));
    // Workers are started for what is not there.
    assert_eq!(pool.pool().started(), 0);
    pool.compile_again(&ask).unwrap();
    assert_eq!(pool.pool().started(), 1);
}

#[test]
fn refusals_are_kept_and_accidents_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        time: Duration::from_millis(500),
        ..limits()
    };
    let pool = CachedPool::new(faulty(limits), cache(folder.path()));
    let twice = |what: &str| {
        let ask = recipe(what);
        let (first, _) = pool.compile_telling(&ask);
        let (second, origin) = pool.compile_telling(&ask);
        let (first, second) = (first.unwrap_err(), second.unwrap_err());
        assert_eq!((first.stage, first.kind), (second.stage, second.kind));
        (first.kind, origin)
    };
    assert_eq!(twice("nonsense"), (FailureKind::Refused, Origin::Cached));
    assert_eq!(twice("abort"), (FailureKind::Crash, Origin::Compiled));
    assert_eq!(twice("hang"), (FailureKind::Timeout, Origin::Compiled));
}

#[test]
fn one_question_of_many_threads_is_compiled_once() {
    let folder = tempfile::tempdir().unwrap();
    let pool = CachedPool::new(faulty(limits()), cache(folder.path()));
    let ask = recipe("echo same");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| pool.compile(&ask).unwrap());
        }
    });
    let counted = pool.statistics();
    assert_eq!((counted.written, counted.hits), (1, 7));
}

#[test]
fn without_a_folder_it_is_the_pool() {
    let pool = CachedPool::new(faulty(limits()), None);
    let (answer, origin) = pool.compile_telling(&recipe("echo one"));
    assert_eq!(origin, Origin::Compiled);
    assert_eq!(
        pool.compile(&recipe("echo one")).unwrap().ptx,
        answer.unwrap().ptx
    );
    assert_eq!(pool.statistics(), Default::default());
}

#[test]
fn two_compilations_that_differ_are_told() {
    let pool = CachedPool::new(faulty(limits()), None);
    assert!(pool.compile_twice(&recipe("echo one")).is_ok());
    // Each child's folder is its own, and a child is used again: litter tells the same twice, processes do not.
    let failure = pool.compile_twice(&recipe("nonsense")).unwrap_err();
    assert!(matches!(failure, Unsteady::Failed(_)));
    let two = Limits {
        jobs: 1,
        ..limits()
    };
    let pool = CachedPool::new(faulty(two), None);
    let failure = pool.compile_twice(&recipe("litter")).unwrap_err();
    assert!(
        matches!(&failure, Unsteady::Differs { part, .. } if part == "PTX"),
        "{failure}"
    );
}

#[test]
fn real_products_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let command = WorkerCommand {
        program: env!("CARGO_BIN_EXE_r3-compile-worker").into(),
        arguments: Vec::new(),
    };
    let real = || {
        let pool = Arc::new(Pool::new(command.clone(), limits()));
        CachedPool::new(pool, cache(folder.path()))
    };
    let text = include_str!("fixtures/text/knobs.ptx");
    let mut ask = Recipe {
        kernel: Some("heat".to_owned()),
        ..recipe(text)
    };
    let lifted = real().compile(&ask).unwrap();
    ask.route = Route::Text;
    let kept = real().compile(&ask).unwrap();
    assert_ne!(lifted.ptx, kept.ptx);
    let pool = real();
    assert_eq!(pool.compile_telling(&ask), (Ok(kept), Origin::Cached));
    ask.route = Route::Lift;
    assert_eq!(pool.compile_telling(&ask), (Ok(lifted), Origin::Cached));
    assert!(pool.compile_twice(&ask).is_ok());
}

#[test]
fn a_stopped_pool_fails_at_once_and_leaves_nobody() {
    let pool = faulty(limits());
    let failures: Vec<_> = std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| pool.compile(&recipe("hang")).unwrap_err()))
            .collect();
        while pool.processes().len() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        pool.stop();
        waiting.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for failure in failures
        .into_iter()
        .chain([pool.compile(&recipe("echo one")).unwrap_err()])
    {
        assert_eq!(
            (failure.stage, failure.kind),
            (Stage::Worker, FailureKind::Crash)
        );
        assert!(failure.message.contains("stopped"), "{failure}");
    }
    assert_eq!(pool.processes(), Vec::<u32>::new());
}

/// A file called nvcc, which makes the same of every source, and counts.
fn counting_compiler(folder: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;

    let path = folder.join("nvcc");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'release 13.0, V13.0.1'; exit; fi\n\
         echo run >> '{}'\nfor last; do :; done\necho 'echo .entry k(' > \"$last\"\n",
        folder.join("runs").display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn all_recipes_of_a_source_share_what_its_compiler_made_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let header = folder.path().join("beside.h");
    std::fs::write(&header, "// first").unwrap();
    let source = Source {
        text: "#include \"beside.h\"".to_owned(),
        name: "k.cu".into(),
        headers: Vec::new(),
        name_expressions: Vec::new(),
        compiler: Compiler::Nvcc,
        program: Some(counting_compiler(folder.path())),
        options: Vec::new(),
        directory: Some(folder.path().to_owned()),
    };
    let recipe = |level: usize, division: bool| {
        let mut recipe = Recipe::new(Code::Source(source.clone()));
        recipe.target = Some("sm_90".to_owned());
        recipe.assembler.options = vec![format!("-maxrregcount={level}")];
        recipe.approximate.division = division;
        recipe
    };
    let runs = || {
        let log = std::fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
        log.lines().count()
    };
    let kept = folder.path().join("cache");
    let pool = CachedPool::new(faulty(limits()), cache(&kept));
    std::thread::scope(|scope| {
        for level in 0..20 {
            let recipe = recipe(level, false);
            let pool = &pool;
            scope.spawn(move || pool.compile(&recipe).unwrap());
        }
    });
    assert_eq!(runs(), 1);
    let (product, origin) = pool.compile_telling(&recipe(3, false));
    assert_eq!(origin, Origin::Cached);
    let product = product.unwrap();
    assert!(
        product
            .notes
            .iter()
            .any(|note| note == "compiled by nvcc 13.0.1"),
        "{product:?}"
    );
    let (compiled, _) = pool.compile_source_telling(&source, "sm_90");
    assert_eq!(compiled.unwrap().kernels, ["k"]);
    assert_eq!(runs(), 1);
    // What its compiler is told is another question.
    pool.compile(&recipe(3, true)).unwrap();
    assert_eq!(runs(), 2);
    // Another process, and one that keeps nothing on disk.
    let again = CachedPool::new(faulty(limits()), cache(&kept));
    assert_eq!(again.compile_telling(&recipe(3, false)).1, Origin::Cached);
    assert_eq!(runs(), 2);
    let without = CachedPool::new(faulty(limits()), None);
    without.compile(&recipe(1, false)).unwrap();
    without.compile(&recipe(2, false)).unwrap();
    assert_eq!(runs(), 3);
    // A header that differs is another source.
    std::fs::write(&header, "// second one").unwrap();
    for pool in [&pool, &without] {
        assert_eq!(pool.compile_telling(&recipe(3, false)).1, Origin::Compiled);
    }
    assert_eq!(runs(), 5);
}
