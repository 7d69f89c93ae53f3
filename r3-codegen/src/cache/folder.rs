//! The files of a cache.
//!
//! A file a question, in one of 256 folders by its hash. It is written under another name, then renamed, so that readers
//! see all of it or nothing. The time of its last change is that of its last use. A file named `lock` is held while files
//! are removed, so that of several processes one does it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use super::Statistics;
use super::key::Key;
use crate::recipe::Failure;

/// How a file begins.
const MAGIC: &[u8; 8] = b"R3CODE1\n";

/// The longest question with its answer.
const LONGEST: u64 = 1 << 30;

/// How a file ends whose writer was stopped; after an hour it is removed.
const UNFINISHED: &str = ".part";

/// A cache: where, and how large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Folder; the files are in a folder of it. Made when it is not there.
    pub folder: PathBuf,
    /// Bytes that files may have together.
    pub limit: u64,
}

/// Why a folder is no cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The folder cannot be made or used.
    #[error("{}: {error}", path.display())]
    Folder {
        /// Folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Somebody else could write into it.
    #[error("{} {why}: somebody else could put code there; name a folder of your own", path.display())]
    NotOwn {
        /// Folder.
        path: PathBuf,
        /// Why it is not trusted.
        why: String,
    },
}

/// A folder with answers.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    passed: AtomicU64,
    written: AtomicU64,
    evicted: AtomicU64,
    damaged: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    /// Bytes written since files were last counted: others write, too.
    since: AtomicU64,
    numbers: AtomicU64,
}

impl Cache {
    /// Opens a cache, or begins one.
    ///
    /// # Errors
    /// When the folder cannot be used, or is not this user's alone.
    pub fn open(options: &CacheOptions) -> Result<Cache, CacheError> {
        let outer = &options.folder;
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |error| CacheError::Folder { path, error }
        };
        let new = |path: &Path| {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(path)
        };
        new(outer).map_err(wrong(outer))?;
        is_safe(outer)?;
        let folder = outer.join("code-1");
        new(&folder).map_err(wrong(&folder))?;
        is_own(&folder)?;
        let cache = Cache {
            folder,
            limit: options.limit,
            counts: Counts::default(),
        };
        let files = cache.files();
        cache
            .counts
            .bytes
            .store(files.iter().map(|file| file.bytes).sum(), Relaxed);
        if cache.counts.bytes.load(Relaxed) > cache.limit {
            cache.make_room();
        }
        Ok(cache)
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What was done so far, in this process.
    pub fn statistics(&self) -> Statistics {
        let of = |count: &AtomicU64| count.load(Relaxed);
        let counts = &self.counts;
        Statistics {
            hits: of(&counts.hits),
            misses: of(&counts.misses),
            passed: of(&counts.passed),
            written: of(&counts.written),
            evicted: of(&counts.evicted),
            damaged: of(&counts.damaged),
            errors: of(&counts.errors),
            bytes: of(&counts.bytes),
        }
    }

    /// Counts a question that is not for the cache.
    pub(super) fn passed(&self) {
        self.counts.passed.fetch_add(1, Relaxed);
    }

    /// The answer to a question, if it is there.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &Key) -> Option<Result<T, Failure>> {
        let path = self.path(key);
        let found = match read(&path) {
            Ok(found) => found,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.counts.errors.fetch_add(1, Relaxed);
                }
                None
            }
        };
        let answer = found.and_then(|(file, bytes)| {
            let Some((question, answer)) = decode(&bytes) else {
                self.counts.damaged.fetch_add(1, Relaxed);
                _ = std::fs::remove_file(&path);
                return None;
            };
            // Another question with the same hash is a miss, and what comes of this one takes its place.
            if question != key.bytes {
                return None;
            }
            // When it was used last. That it cannot be said is no harm.
            _ = file.set_modified(SystemTime::now());
            Some(answer)
        });
        let count = match answer {
            Some(_) => &self.counts.hits,
            None => &self.counts.misses,
        };
        count.fetch_add(1, Relaxed);
        answer
    }

    /// Keeps an answer. That it cannot be kept is counted, and no error of the question.
    pub(super) fn put<T: Serialize>(&self, key: &Key, answer: &Result<T, Failure>) {
        let Some(bytes) = encode(key, answer) else {
            return;
        };
        let length = bytes.len() as u64;
        if length > self.limit / 4 {
            return;
        }
        let path = self.path(key);
        match self.write(&path, &bytes) {
            Ok(()) => self.counts.written.fetch_add(1, Relaxed),
            Err(_) => {
                self.counts.errors.fetch_add(1, Relaxed);
                return;
            }
        };
        let total = self.counts.bytes.fetch_add(length, Relaxed) + length;
        let since = self.counts.since.fetch_add(length, Relaxed) + length;
        if total > self.limit || since > self.limit / 8 {
            self.make_room();
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        let name = format!("{:032x}", key.hash);
        let (shard, rest) = name.split_at(2);
        self.folder.join(shard).join(rest)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let shard = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let number = self.counts.numbers.fetch_add(1, Relaxed);
        let part = shard.join(format!("{}-{number}{UNFINISHED}", std::process::id()));
        let create = || {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&part)
        };
        let mut file = match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(shard)?;
                create()?
            }
            // Of a process with the same number, before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                std::fs::remove_file(&part)?;
                create()?
            }
            created => created?,
        };
        let done = file
            .write_all(bytes)
            .and_then(|()| std::fs::rename(&part, path));
        if done.is_err() {
            _ = std::fs::remove_file(&part);
        }
        done
    }

    /// Counts the files, and removes what was not used for longest until nine tenths of the limit are left.
    fn make_room(&self) {
        let Some(_lock) = self.lock() else {
            // Another process is at it.
            return;
        };
        let mut files = self.files();
        files.sort_by_key(|file| file.used);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        if total > self.limit {
            let aim = self.limit / 10 * 9;
            for file in &files {
                if total <= aim {
                    break;
                }
                if std::fs::remove_file(&file.path).is_ok() {
                    self.counts.evicted.fetch_add(1, Relaxed);
                }
                total -= file.bytes;
            }
        }
        self.counts.bytes.store(total, Relaxed);
        self.counts.since.store(0, Relaxed);
    }

    /// All files with answers. What was left unfinished an hour ago is removed.
    fn files(&self) -> Vec<Known> {
        let list = |folder: &Path| {
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            entries.filter_map(Result::ok)
        };
        let mut found = Vec::new();
        for shard in list(&self.folder) {
            for entry in list(&shard.path()) {
                let Ok(data) = entry.metadata() else { continue };
                let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let path = entry.path();
                if path.to_string_lossy().ends_with(UNFINISHED) {
                    let age = SystemTime::now().duration_since(used).unwrap_or_default();
                    if age > Duration::from_secs(3600) {
                        _ = std::fs::remove_file(path);
                    }
                    continue;
                }
                found.push(Known {
                    path,
                    bytes: data.len(),
                    used,
                });
            }
        }
        found
    }

    fn lock(&self) -> Option<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options
            .custom_flags(libc::O_NOFOLLOW)
            .open(self.folder.join("lock"))
            .ok()?;
        // SAFETY: takes numbers; the file is open.
        let held = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        held.then_some(file)
    }
}

/// A file with an answer.
struct Known {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// A folder in which the cache's own may be: nobody else can take that away and put another in its place.
fn is_safe(folder: &Path) -> Result<(), CacheError> {
    let data = std::fs::metadata(folder).map_err(|error| CacheError::Folder {
        path: folder.to_owned(),
        error,
    })?;
    let no = |why: String| {
        Err(CacheError::NotOwn {
            path: folder.to_owned(),
            why,
        })
    };
    let sticky = data.mode() & 0o1000 != 0;
    if data.uid() != user() && data.uid() != 0 {
        return no(format!("belongs to user {}", data.uid()));
    }
    if data.mode() & 0o022 != 0 && !sticky {
        return no("can be written by others".to_owned());
    }
    Ok(())
}

/// The cache's own folder: this user's, and closed to others.
fn is_own(folder: &Path) -> Result<(), CacheError> {
    let wrong = |error| CacheError::Folder {
        path: folder.to_owned(),
        error,
    };
    let data = std::fs::symlink_metadata(folder).map_err(wrong)?;
    let no = |why: String| {
        Err(CacheError::NotOwn {
            path: folder.to_owned(),
            why,
        })
    };
    if !data.is_dir() {
        return no("is no folder".to_owned());
    }
    if data.uid() != user() {
        return no(format!("belongs to user {}", data.uid()));
    }
    if data.mode() & 0o022 != 0 {
        return no("can be written by others".to_owned());
    }
    if data.mode() & 0o077 != 0 {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).map_err(wrong)?;
    }
    Ok(())
}

/// A file of this user as it is; `None` when it is another's or no file.
fn read(path: &Path) -> io::Result<Option<(File, Vec<u8>)>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let data = file.metadata()?;
    if !data.is_file() || data.uid() != user() || data.len() > LONGEST {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    (&file).take(LONGEST).read_to_end(&mut bytes)?;
    Ok(Some((file, bytes)))
}

/// A file's bytes: magic, checksum of what follows, and question and answer, compressed.
fn encode<T: Serialize>(key: &Key, answer: &Result<T, Failure>) -> Option<Vec<u8>> {
    let plain = postcard::to_stdvec(&(&key.bytes, answer)).ok()?;
    if plain.len() as u64 > LONGEST {
        return None;
    }
    let packed = zstd::bulk::compress(&plain, 1).ok()?;
    let mut bytes = Vec::with_capacity(packed.len() + 16);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&xxh3_64(&packed).to_le_bytes());
    bytes.extend_from_slice(&packed);
    Some(bytes)
}

/// Question and answer of a file's bytes; `None` when they are damaged.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<(Vec<u8>, Result<T, Failure>)> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (sum, packed) = rest.split_first_chunk::<8>()?;
    if xxh3_64(packed).to_le_bytes() != *sum {
        return None;
    }
    let mut plain = Vec::new();
    zstd::stream::read::Decoder::new(packed)
        .ok()?
        .take(LONGEST)
        .read_to_end(&mut plain)
        .ok()?;
    match postcard::take_from_bytes(&plain) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{FailureKind, Product, Stage};

    fn key(number: u8) -> Key {
        Key {
            bytes: vec![number; 20],
            hash: u128::from(number) << 120 | u128::from(number),
        }
    }

    fn answer(text: &str) -> Result<Product, Failure> {
        Ok(Product {
            llvm: None,
            ptx: text.to_owned(),
            cubin: None,
            guards: Vec::new(),
            changes: Vec::new(),
            notes: Vec::new(),
            timings: Vec::new(),
        })
    }

    fn found(cache: &Cache, key: &Key) -> Option<Result<Product, Failure>> {
        cache.get(key)
    }

    /// Text that does not become smaller by packing.
    fn noise(seed: u64, bytes: usize) -> String {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(b' ' + ((state >> 33) % 95) as u8)
        };
        (0..bytes).map(|_| next()).collect()
    }

    fn cache(folder: &Path, limit: u64) -> Cache {
        Cache::open(&CacheOptions {
            folder: folder.to_owned(),
            limit,
        })
        .unwrap()
    }

    #[test]
    fn an_answer_is_found_by_its_question_alone() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 1 << 20);
        assert_eq!(found(&cache, &key(1)), None);
        cache.put(&key(1), &answer("one"));
        assert_eq!(found(&cache, &key(1)), Some(answer("one")));
        assert_eq!(found(&cache, &key(2)), None);
        // The same hash is not enough.
        let twin = Key {
            bytes: vec![9],
            ..key(1)
        };
        assert_eq!(found(&cache, &twin), None);
        let refusal: Result<Product, _> = Err(Failure {
            stage: Stage::Passes,
            kind: FailureKind::Refused,
            message: "no such pass".to_owned(),
            log: String::new(),
        });
        cache.put(&key(2), &refusal);
        // Another process.
        let other = super::tests::cache(folder.path(), 1 << 20);
        assert_eq!(other.get(&key(2)), Some(refusal));
        let counted = cache.statistics();
        assert_eq!((counted.hits, counted.misses, counted.written), (1, 3, 2));
        assert_eq!(other.statistics().bytes, counted.bytes);
    }

    #[test]
    fn a_damaged_file_is_a_miss_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 1 << 20);
        cache.put(&key(1), &answer("one"));
        let path = cache.path(&key(1));
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(found(&cache, &key(1)), None, "byte {at}");
            assert!(!path.exists());
            std::fs::write(&path, &good[..at]).unwrap();
            assert_eq!(found(&cache, &key(1)), None, "{at} bytes");
        }
        assert_eq!(cache.statistics().damaged, 2 * good.len() as u64);
        std::fs::write(&path, &good).unwrap();
        assert_eq!(found(&cache, &key(1)), Some(answer("one")));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 100_000);
        let size = 10_000;
        let age = |number: u8, seconds: u64| {
            let file = File::options().append(true).open(cache.path(&key(number)));
            let then = SystemTime::now() - Duration::from_secs(seconds);
            file.unwrap().set_modified(then).unwrap();
        };
        for number in 1..=8 {
            cache.put(&key(number), &answer(&noise(number.into(), size)));
            age(number, 1000 - 10 * u64::from(number));
        }
        assert_eq!(cache.statistics().evicted, 0);
        // The oldest is used again.
        assert!(found(&cache, &key(1)).is_some());
        for number in 9..=14 {
            cache.put(&key(number), &answer(&noise(number.into(), size)));
        }
        let there: Vec<bool> = (1..=14).map(|n| cache.path(&key(n)).exists()).collect();
        assert!(there[0] && there[13], "{there:?}");
        assert!(!there[1] && !there[2], "{there:?}");
        let bytes: u64 = cache.files().iter().map(|file| file.bytes).sum();
        assert!(bytes <= 100_000, "{bytes}");
        assert_eq!(cache.statistics().bytes, bytes);
        assert!(cache.statistics().evicted >= 3);
        // What would push out everything else is not kept.
        cache.put(&key(20), &answer(&noise(20, 50_000)));
        assert!(!cache.path(&key(20)).exists());
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| {
            Cache::open(&CacheOptions {
                folder: path.to_owned(),
                limit: 1 << 20,
            })
        };
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let inner = open(folder.path()).unwrap().folder().to_owned();
        assert_eq!(inner.metadata().unwrap().mode() & 0o777, 0o700);
        // Readable becomes closed; writable is not trusted any more.
        mode(&inner, 0o755);
        open(folder.path()).unwrap();
        assert_eq!(inner.metadata().unwrap().mode() & 0o777, 0o700);
        mode(&inner, 0o770);
        assert!(matches!(
            open(folder.path()),
            Err(CacheError::NotOwn { .. })
        ));
        mode(&inner, 0o700);
        mode(folder.path(), 0o777);
        assert!(matches!(
            open(folder.path()),
            Err(CacheError::NotOwn { .. })
        ));
        mode(folder.path(), 0o1777);
        open(folder.path()).unwrap();
        // Nor is a link to somewhere.
        std::fs::remove_dir_all(&inner).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &inner).unwrap();
        assert!(matches!(
            open(folder.path()),
            Err(CacheError::NotOwn { .. })
        ));
    }

    #[test]
    fn files_that_are_none_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 1 << 20);
        let path = cache.path(&key(1));
        // A link to what is not the cache's, and a folder.
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let target = folder.path().join("precious");
        std::fs::write(&target, "x").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert_eq!(found(&cache, &key(1)), None);
        cache.put(&key(1), &answer("one"));
        assert_eq!(std::fs::read(&target).unwrap(), b"x");
        assert_eq!(found(&cache, &key(1)), Some(answer("one")));
        // What nothing can be written to costs nothing but the count.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(found(&cache, &key(1)), None);
        cache.put(&key(1), &answer("one"));
        assert!(cache.statistics().errors > 0);
    }

    #[test]
    fn several_writers_and_readers_see_whole_answers() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4u64 {
                let folder = folder.path();
                scope.spawn(move || {
                    let cache = cache(folder, 60_000);
                    for round in 0..60 {
                        let number = ((round * 7 + writer) % 12) as u8 + 1;
                        let expected = answer(&noise(number.into(), 4000));
                        if let Some(found) = found(&cache, &key(number)) {
                            assert_eq!(found, expected);
                        }
                        cache.put(&key(number), &expected);
                    }
                    let counted = cache.statistics();
                    assert_eq!((counted.damaged, counted.errors), (0, 0));
                });
            }
        });
        let left = cache(folder.path(), 60_000);
        assert!(left.statistics().bytes <= 60_000 + 4 * 8_000);
    }
}
