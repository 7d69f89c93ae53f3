//! Databases that are not what they should be.

use super::*;
use crate::evolve::variant::VariantNumber;

fn create(folder: &Path) -> Store {
    let store = Store::create(folder).unwrap();
    store.put_text(key::SPACE, "").unwrap();
    store
}

#[test]
fn a_run_that_was_killed_before_it_began_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    store.put(key::SETTINGS, &1).unwrap();
    drop(store);
    let store = Store::create(dir.path()).unwrap();
    assert_eq!(store.get::<i32>(key::SETTINGS).unwrap(), None);
}

#[test]
fn values_come_back_and_a_second_run_in_the_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let store = create(&folder);
    store.put("settings", &vec![1, 2]).unwrap();
    assert_eq!(store.need::<Vec<i32>>("settings").unwrap(), [1, 2]);
    assert_eq!(store.get::<i32>("nothing").unwrap(), None);
    assert!(matches!(Store::open(&folder), Err(StoreError::InUse(_))));
    // Somebody may look meanwhile.
    let look = Store::look(&folder).unwrap();
    assert_eq!(look.need::<Vec<i32>>("settings").unwrap(), [1, 2]);
    drop(store);
    assert!(matches!(Store::create(&folder), Err(StoreError::Exists(_))));
    assert!(Store::open(&folder).is_ok());
}

#[test]
fn there_is_no_run_where_none_is() {
    let dir = tempfile::tempdir().unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::NoRun(_)), "{error}");
}

#[test]
fn another_version_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path()));
    let db = Connection::open(dir.path().join(FILE)).unwrap();
    db.pragma_update(None, "user_version", 7).unwrap();
    drop(db);
    let error = Store::open(dir.path()).unwrap_err();
    assert!(
        matches!(error, StoreError::Version { found: 7, .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("tables 7, this one has 2"),
        "{error}"
    );
}

#[test]
fn another_program_s_database_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let db = Connection::open(dir.path().join(FILE)).unwrap();
    db.execute_batch("CREATE TABLE t (a)").unwrap();
    drop(db);
    let before = std::fs::read(dir.path().join(FILE)).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Foreign(_)), "{error}");
    assert_eq!(std::fs::read(dir.path().join(FILE)).unwrap(), before);
}

#[test]
fn a_damaged_file_is_an_error_and_not_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    for value in 0..2000 {
        store
            .put(&format!("key {value}"), &"x".repeat(100))
            .unwrap();
    }
    drop(store);
    let path = dir.path().join(FILE);
    let whole = std::fs::read(&path).unwrap();
    let _ = std::fs::remove_file(dir.path().join("run.db-wal"));
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        let end = (at + 300).min(bytes.len());
        bytes[at..end].fill(0xa5);
        std::fs::write(&path, &bytes).unwrap();
        // Damage in what is not used may go unnoticed; all else is told.
        if let Ok(store) = Store::open(dir.path()) {
            let _ = store.evaluations(None);
            let _ = store.events();
            let _ = store.get::<String>("key 7");
        }
    }
    std::fs::write(&path, b"no database at all").unwrap();
    assert!(Store::open(dir.path()).is_err());
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn json_in_a_row_that_makes_no_sense_names_the_row() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    store
        .db
        .execute_batch(
            "INSERT INTO candidates VALUES (1, 'x', '{\"nonsense\": 1}', NULL, NULL);
             INSERT INTO evaluations (candidate, phase, round, batch, reason, plan, state, asked_at)
             VALUES (1, 'search', 0, 0, 'proposed', '{}', 'asked', 0.0);",
        )
        .unwrap();
    let error = store.evaluations(None).unwrap_err().to_string();
    assert!(error.contains("evaluation 1: candidate"), "{error}");
    store
        .db
        .execute_batch(
            "UPDATE candidates SET candidate = '{}'; UPDATE evaluations SET phase = 'dream';",
        )
        .unwrap();
    let error = store.evaluations(None).unwrap_err().to_string();
    assert!(error.contains("`dream` is unknown"), "{error}");
}

#[test]
fn a_process_killed_in_a_transaction_leaves_what_was_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    store.put("before", &1).unwrap();
    store
        .db
        .execute_batch("BEGIN; INSERT INTO run VALUES ('within', '2');")
        .unwrap();
    // As the kernel leaves it: the files as they are, and no more locks.
    let copy = tempfile::tempdir().unwrap();
    for name in [FILE, "run.db-wal", "run.db-shm"] {
        let _ = std::fs::copy(dir.path().join(name), copy.path().join(name));
    }
    let store = Store::open(copy.path()).unwrap();
    assert_eq!(store.need::<i32>("before").unwrap(), 1);
    assert_eq!(store.get::<i32>("within").unwrap(), None);
}

#[test]
fn a_run_that_cannot_be_written_is_looked_at_as_a_copy_with_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    // In the log, as long as the store is open.
    store.put("settings", &7).unwrap();
    let copy = Copied::of(store.path()).unwrap();
    let at = copy.path.clone();
    let mut look = Store::connect(store.path(), &at.join(FILE), None).unwrap();
    look._copy = Some(copy);
    assert_eq!(look.need::<i32>("settings").unwrap(), 7);
    assert_eq!(look.path(), store.path());
    drop(look);
    assert!(!at.exists());
    // What says that a copy is needed.
    for code in [
        rusqlite::ffi::SQLITE_CANTOPEN,
        rusqlite::ffi::SQLITE_READONLY,
    ] {
        let error = rusqlite::ffi::Error::new(code);
        assert!(needs_writing(&rusqlite::Error::SqliteFailure(error, None)));
    }
    let full =
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None);
    assert!(!needs_writing(&full));
    let told = StoreError::Database {
        path: "run.db".into(),
        source: full,
    };
    assert!(told.to_string().contains("--resume"), "{told}");
}

#[test]
fn damage_is_told_in_a_line() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path()));
    let path = dir.path().join(FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    for byte in bytes.iter_mut().skip(4096) {
        *byte ^= 0xa5;
    }
    std::fs::write(&path, bytes).unwrap();
    let error = Store::look(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
}

/// A database as version 1 had it, with an evaluation in it.
fn version_1(folder: &Path) {
    let db = Connection::open(folder.join(FILE)).unwrap();
    db.execute_batch(schema::TABLES).unwrap();
    db.pragma_update(None, "application_id", schema::APPLICATION)
        .unwrap();
    db.pragma_update(None, "user_version", 1).unwrap();
    let candidate = r3_replay::evaluate::Candidate::default();
    let plan = r3_replay::evaluate::Plan::default();
    db.execute(
        "INSERT INTO candidates VALUES (1, ?1, ?2, NULL)",
        [
            candidate.id().to_string(),
            serde_json::to_string(&candidate).unwrap(),
        ],
    )
    .unwrap();
    db.execute(
        "INSERT INTO evaluations (candidate, phase, round, batch, reason, plan, state, asked_at) \
         VALUES (1, 'search', 0, 0, 'proposed', ?1, 'asked', 1.0)",
        [serde_json::to_string(&plan).unwrap()],
    )
    .unwrap();
    db.execute("INSERT INTO run VALUES ('space', '\"\"')", [])
        .unwrap();
}

#[test]
fn a_run_of_version_1_is_looked_at_as_it_is_and_gets_the_new_tables_when_somebody_works_on_it() {
    let dir = tempfile::tempdir().unwrap();
    version_1(dir.path());
    let version = || {
        let db = Connection::open(dir.path().join(FILE)).unwrap();
        db.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0))
            .unwrap()
    };
    let look = Store::look(dir.path()).unwrap();
    let rows = look.evaluations(None).unwrap();
    assert_eq!((rows.len(), rows[0].variant, rows[0].of), (1, None, None));
    assert!(look.slots().unwrap().is_empty() && look.variants().unwrap().is_empty());
    assert!(look.variant(VariantNumber(1)).unwrap().is_none());
    drop(look);
    assert_eq!(version(), 1);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.evaluations(None).unwrap(), rows);
    drop(store);
    assert_eq!(version(), schema::VERSION);
    assert_eq!(
        Store::look(dir.path()).unwrap().evaluations(None).unwrap(),
        rows
    );
}

#[test]
fn the_text_of_a_variant_is_kept_once_and_comes_back_with_every_candidate_of_it() {
    use crate::evolve::slot::Opening;
    use crate::evolve::variant::{IslandNumber, Lineage, Operator};
    use r3_replay::evaluate::candidate::{CandidateCode, SourceCode};
    use r3_replay::evaluate::{Candidate, Plan};

    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path());
    let text = "__global__ void k() {}".repeat(100);
    let candidate = |threads: u32| {
        let mut candidate = Candidate {
            code: CandidateCode::Source(SourceCode {
                text: text.clone(),
                ..SourceCode::default()
            }),
            ..Candidate::default()
        };
        candidate.launch.block = Some([threads, 1, 1]);
        candidate
    };
    let new = |threads| NewEvaluation {
        candidate: candidate(threads),
        point: None,
        plan: Plan::default(),
        reason: Reason::Proposed,
        parent: None,
    };
    let row = VariantRow {
        number: VariantNumber(1),
        slot: 0,
        turn: 0,
        text: text.clone(),
        fingerprint: "0".into(),
        launch: Default::default(),
        lineage: Lineage {
            operator: Operator::Original,
            parents: Vec::new(),
            island: IslandNumber(0),
            by: String::new(),
            what: String::new(),
        },
        made_at: 1.0,
        embedding: None,
    };
    let slot = SlotRow {
        slot: 0,
        island: IslandNumber(0),
        after: 0,
        models: false,
        opening: Opening::Original,
        opened_at: 1.0,
        told: None,
        told_at: None,
        closing: None,
    };
    let made = NewVariant {
        row: row.clone(),
        evaluations: (0, vec![new(32), new(64)]),
    };
    let numbers = store.open_slot(&slot, Some(&made), &[], None, 0).unwrap();
    let rows = store.rows(&numbers).unwrap();
    assert_eq!(rows[0].candidate, candidate(32));
    assert_eq!(rows[1].candidate, candidate(64));
    assert_eq!(rows[1].variant, Some(VariantNumber(1)));
    assert_eq!(rows[1].of, Some(OfSlot { slot: 0, step: 1 }));
    // The identity is that of the whole.
    let ids: Vec<String> = rows
        .iter()
        .map(|row| row.candidate.id().to_string())
        .collect();
    assert_eq!(ids[0], candidate(32).id().to_string());
    assert_eq!(store.variants().unwrap(), [row]);
    assert_eq!(store.slots().unwrap(), [slot]);
    let longest: i64 = store
        .db
        .query_row("SELECT MAX(LENGTH(candidate)) FROM candidates", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert!(longest < text.len() as i64);
}
