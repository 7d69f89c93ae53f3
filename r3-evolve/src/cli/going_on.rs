//! What who goes on with a run begins with: that archive, device and tools are what they were, and a server that knows the kernel.

use super::Failure;
use super::judging::{Judging, environment, refuse_another};
use super::signals::{Preparing, Signals};
use crate::store::{Store, StoreError, key};
use crate::tune::client::Server;
use crate::tune::clock::Clock;
use crate::tune::{ArchiveFile, Environment, Ground, Settings, TuneError, ground};

/// A run that somebody goes on with.
pub(super) struct GoingOn<'a> {
    pub store: &'a Store,
    /// As they are now.
    pub settings: &'a Settings,
    pub judging: &'a Judging,
    /// Whether changes are taken as they are.
    pub force: bool,
    /// What is said of changes to who cannot take them as they are by `--force`.
    pub changed: Option<&'a str>,
    /// What helps where the archive is not where it was.
    pub moved: &'a str,
    /// What is said to who leaves before it begins.
    pub left: String,
}

/// What it begins with.
pub(super) struct Again {
    pub server: Server,
    /// Launches and the original's times are those that the run began with.
    pub ground: Ground,
    pub environment: Environment,
    /// What has changed since.
    pub changes: Vec<String>,
    pub signals: Signals,
}

impl GoingOn<'_> {
    /// Starts the server. `digest`: that of the space.
    pub fn prepare(
        self,
        digest: impl FnOnce(&Ground) -> Result<u128, Failure>,
    ) -> Result<Again, Failure> {
        let Self {
            store,
            settings,
            judging,
            force,
            changed,
            moved,
            left,
        } = self;
        let archive = ArchiveFile::read(&settings.archive).map_err(|error| {
            let moved = (!settings.archive.exists()).then(|| format!(": {moved}"));
            Failure::new(format!("{error}{}", moved.unwrap_or_default()))
        })?;
        let was: Environment = store.need(key::ENVIRONMENT).map_err(Failure::new)?;
        // What can be said without a server is said first.
        if !force {
            refuse_another(&archive, &was, settings)
                .map_err(|changes| refused(changes, changed))?;
        }
        let signals = Signals::listen().map_err(Failure::new)?;
        let preparing = Preparing::watch(&signals, move || left).map_err(Failure::new)?;
        let log = store.folder().join("serve.log");
        let mut server = judging.connect(settings, Some(log))?;
        let mut ground = ground(&mut server, settings).map_err(Failure::new)?;
        let now = environment(&mut server, &archive, &ground, digest(&ground)?)?;
        let changes = now.changes(&was);
        if !changes.is_empty() && !force {
            return Err(refused(changes, changed));
        }
        preparing.over();
        ground.choice = store.need(key::LAUNCHES).map_err(Failure::new)?;
        ground.prepared = store.need(key::PREPARED).map_err(Failure::new)?;
        Ok(Again {
            server,
            ground,
            environment: now,
            changes,
            signals,
        })
    }
}

/// That something has changed since the run began, and what can be done.
fn refused(changes: Vec<String>, advice: Option<&str>) -> Failure {
    match advice {
        Some(advice) => Failure::new(format!("{}: {advice}", changes.join("; "))),
        None => Failure::new(TuneError::Changed(changes)),
    }
}

impl Again {
    /// Writes down what has changed, and that the run goes on.
    pub fn note(&self, store: &Store, clock: &dyn Clock) -> Result<(), StoreError> {
        for change in &self.changes {
            store.event(clock.unix(), "changed", change)?;
        }
        store.put(key::ENVIRONMENT, &self.environment)?;
        store.event(clock.unix(), "resume", "the run goes on")
    }
}
