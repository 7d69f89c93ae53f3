//! Products on disk, by what they are made of.
//!
//! A [`CachedPool`] is a pool of workers that remembers: a recipe that was compiled before, by this process or another, by
//! the same tools, is read from a [`Cache`], a folder. `key` says what makes two questions the same, `folder` is the files.
//!
//! ```text
//!   recipe ──► key (recipe, tools) ──► file there? ──► its recipe and tools are these? ──► answer
//!                                          │ no, damaged                 │ no
//!                                          ▼                             ▼
//!                                    worker ──► answer ──► file (written aside, then renamed)
//! ```
//!
//! A recipe of CUDA C++ is two questions: what its compiler makes of the source, and what becomes of that. The first depends on the
//! text, the compiler's options, the target, and on all files that it may include (`includes`); all recipes of one source share its answer.
//! The latest of these answers are kept in memory too, also without a folder.
//!
//! # What holds
//!
//! - **The same answer as by compiling.** A file holds the whole recipe and the tools' identity and is compared with the
//!   question: no hash is trusted. [`CachedPool::compile_twice`] compiles past the cache, and compares.
//! - **Only what is certain is kept**: products, and refusals, which come again. Crashes, time and memory limits and missing
//!   tools are asked anew. A source that reads files which nobody knows before is not kept, since these may change.
//! - **A damaged file is a miss** and is removed. A full disk, or a folder that nothing can be written to, costs time only.
//! - **Nobody else's folder.** The folder belongs to this user and is closed to others, else it is refused; so is each file.
//! - **Bounded.** Beyond a size, what was not used for longest goes. Several processes may share a folder.

mod folder;
mod includes;
mod key;
mod recent;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::compile;
use crate::recipe::{Code, Failure, FailureKind, Product, Recipe, Source, Stage};
use crate::source::Compiled;
use crate::worker::Pool;

pub use folder::{Cache, CacheError, CacheOptions};
use includes::Known;
use key::{Key, Tools};
use recent::Recent;

/// What a cache did so far, in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Answers that were there.
    pub hits: u64,
    /// Questions that were compiled and could have been there.
    pub misses: u64,
    /// Questions of which answers are not kept.
    pub passed: u64,
    /// Answers that were written.
    pub written: u64,
    /// Files that were removed to keep the size.
    pub evicted: u64,
    /// Files that were damaged and were removed.
    pub damaged: u64,
    /// Files that could not be read or written.
    pub errors: u64,
    /// Bytes in the folder, when they were last counted, and what was written since.
    pub bytes: u64,
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// It was compiled.
    Compiled,
    /// It was in the cache. Its times are those of when it was compiled.
    Cached,
}

/// Two compilations of a recipe that came out differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Unsteady {
    /// There is no product, the first or the second time.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The products differ.
    #[error(
        "two compilations of one recipe differ in their {part}, first at byte {at}: what makes it is not steady"
    )]
    Differs {
        /// `LLVM IR`, `PTX` or `cubin`.
        part: String,
        /// First byte that differs.
        at: u64,
    },
}

/// A pool of workers with a cache. Callable from many threads; a recipe that several ask for at the same time is compiled
/// once.
#[derive(Debug)]
pub struct CachedPool {
    pool: Arc<Pool>,
    cache: Option<Cache>,
    tools: Tools,
    /// What headers include, and what sources came to.
    known: Known,
    recent: Recent,
    under_way: Mutex<HashSet<u128>>,
    done: Condvar,
}

impl CachedPool {
    /// A pool with a cache; without one it only compiles.
    pub fn new(pool: Arc<Pool>, cache: Option<Cache>) -> CachedPool {
        CachedPool {
            cache,
            tools: Tools::of(&pool.command().program),
            known: Known::default(),
            recent: Recent::default(),
            pool,
            under_way: Mutex::default(),
            done: Condvar::new(),
        }
    }

    /// The workers.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Where the cache is.
    pub fn folder(&self) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.folder().to_owned())
    }

    /// What the cache did so far.
    pub fn statistics(&self) -> Statistics {
        let cache = self.cache.as_ref();
        cache.map(Cache::statistics).unwrap_or_default()
    }

    /// As [`Pool::compile`], from the cache where it can be.
    pub fn compile(&self, recipe: &Recipe) -> Result<Product, Failure> {
        self.compile_telling(recipe).0
    }

    /// The same, and where the answer comes from.
    pub fn compile_telling(&self, recipe: &Recipe) -> (Result<Product, Failure>, Origin) {
        if let Code::Source(source) = &recipe.code {
            return self.compile_of_source(recipe, source);
        }
        let Some(cache) = &self.cache else {
            return (self.pool.compile(recipe), Origin::Compiled);
        };
        let Some(key) = Key::of(recipe, &self.tools) else {
            cache.passed();
            return (self.pool.compile(recipe), Origin::Compiled);
        };
        let _alone = self.alone(key.hash);
        if let Some(answer) = cache.get(&key) {
            return (answer, Origin::Cached);
        }
        let answer = self.pool.compile(recipe);
        if is_certain(&answer) {
            cache.put(&key, &answer);
        }
        (answer, Origin::Compiled)
    }

    /// A recipe of a source: what its compiler makes of that is a question of its own.
    fn compile_of_source(
        &self,
        recipe: &Recipe,
        source: &Source,
    ) -> (Result<Product, Failure>, Origin) {
        let (source, target) = match compile::front_end(recipe, source) {
            Ok(asked) => asked,
            Err(failure) => return (Err(failure), Origin::Compiled),
        };
        let (compiled, first) = self.compile_source_telling(&source, &target);
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(failure) => return (Err(failure), first),
        };
        let rest = compile::behind_front_end(recipe, &compiled);
        if matches!(rest.code, Code::Source(_)) {
            return (self.pool.compile(recipe), Origin::Compiled);
        }
        let (mut product, second) = self.compile_telling(&rest);
        if let Ok(product) = &mut product {
            compile::of_source(product, &recipe.approximate, &compiled);
        }
        let origin = match (first, second) {
            (Origin::Cached, Origin::Cached) => Origin::Cached,
            _ => Origin::Compiled,
        };
        (product, origin)
    }

    /// Compiles a recipe, whatever the cache has. Nothing is kept.
    pub fn compile_again(&self, recipe: &Recipe) -> Result<Product, Failure> {
        self.pool.compile(recipe)
    }

    /// Compiles a recipe twice, past the cache, and compares: a pass or a tool that is not steady shows.
    ///
    /// # Errors
    /// When there is no product, or the two differ.
    pub fn compile_twice(&self, recipe: &Recipe) -> Result<Product, Unsteady> {
        let first = self.pool.compile(recipe)?;
        let second = self.pool.compile(recipe)?;
        match difference(&first, &second) {
            Some((part, at)) => Err(Unsteady::Differs {
                part: part.to_owned(),
                at,
            }),
            None => Ok(first),
        }
    }

    /// What a source's own compiler makes of it, as [`Pool::compile_source`], and where the answer comes from.
    pub fn compile_source_telling(
        &self,
        source: &Source,
        target: &str,
    ) -> (Result<Arc<Compiled>, Failure>, Origin) {
        let Some(key) = Key::of_source(source, target, &self.tools, &self.known) else {
            if let Some(cache) = &self.cache {
                cache.passed();
            }
            let answer = self.pool.compile_source(source, target);
            return (answer.map(Arc::new), Origin::Compiled);
        };
        let _alone = self.alone(key.hash);
        if let Some(answer) = self.recent.get(&key) {
            return (answer, Origin::Cached);
        }
        let kept = self.cache.as_ref().and_then(|cache| cache.get(&key));
        let (answer, origin) = match kept {
            Some(answer) => (answer, Origin::Cached),
            None => {
                let answer = self.pool.compile_source(source, target);
                // A header that was changed meanwhile: which one was read is not known.
                let still = Key::of_source(source, target, &self.tools, &self.known);
                if !is_certain(&answer) || still.as_ref() != Some(&key) {
                    return (answer.map(Arc::new), Origin::Compiled);
                }
                if let Some(cache) = &self.cache {
                    cache.put(&key, &answer);
                }
                (answer, Origin::Compiled)
            }
        };
        let answer = answer.map(Arc::new);
        self.recent.put(key, answer.clone());
        (answer, origin)
    }

    /// Waits until nobody else has this question compiled.
    fn alone(&self, hash: u128) -> Alone<'_> {
        let lock = || {
            self.under_way
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let mut under_way = lock();
        while !under_way.insert(hash) {
            under_way = self
                .done
                .wait(under_way)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Alone { of: self, hash }
    }
}

/// The right to have a question compiled.
struct Alone<'a> {
    of: &'a CachedPool,
    hash: u128,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let under_way = self.of.under_way.lock();
        under_way
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.hash);
        self.of.done.notify_all();
    }
}

/// Whether an answer comes again, each time.
fn is_certain<T>(answer: &Result<T, Failure>) -> bool {
    match answer {
        Ok(_) => true,
        Err(failure) => failure.kind == FailureKind::Refused && failure.stage != Stage::Worker,
    }
}

/// The first difference of two products: in which part, at which byte. Times do not count.
pub fn difference(a: &Product, b: &Product) -> Option<(&'static str, u64)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
    let cubin = |product: &Product| {
        let cubin = product.cubin.as_ref();
        cubin.map(|cubin| cubin.bytes.clone()).unwrap_or_default()
    };
    let parts = [
        ("LLVM IR", text(&a.llvm), text(&b.llvm)),
        (
            "PTX",
            a.ptx.clone().into_bytes(),
            b.ptx.clone().into_bytes(),
        ),
        ("cubin", cubin(a), cubin(b)),
    ];
    parts.into_iter().find_map(|(part, a, b)| {
        let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
        (a != b).then_some((part, same as u64))
    })
}
