//! Errors of the steps as failures of their stage.

use crate::emit::EmitError;
use crate::error::LiftError;
use crate::libdevice::LibdeviceError;
use crate::passes::PassError;
use crate::recipe::{Failure, FailureKind, Stage};
use crate::specialise::SpecialiseError;
use crate::text::TextError;

/// What can be the reason of a failure.
pub(super) trait Cause {
    /// The failure of a stage by this reason.
    fn failure(self, stage: Stage) -> Failure;
}

/// A failure because the input is not accepted.
pub(super) fn refused(stage: Stage, message: impl Into<String>) -> Failure {
    Failure {
        stage,
        kind: FailureKind::Refused,
        message: message.into(),
        log: String::new(),
    }
}

impl Cause for Failure {
    fn failure(self, _: Stage) -> Failure {
        self
    }
}

impl Cause for String {
    fn failure(self, stage: Stage) -> Failure {
        refused(stage, self)
    }
}

impl Cause for LiftError {
    fn failure(self, stage: Stage) -> Failure {
        refused(stage, self.to_string())
    }
}

impl Cause for SpecialiseError {
    fn failure(self, stage: Stage) -> Failure {
        refused(stage, self.to_string())
    }
}

impl Cause for TextError {
    fn failure(self, stage: Stage) -> Failure {
        refused(stage, self.to_string())
    }
}

impl Cause for PassError {
    fn failure(self, stage: Stage) -> Failure {
        refused(stage, self.to_string())
    }
}

impl Cause for EmitError {
    fn failure(self, stage: Stage) -> Failure {
        refused(stage, self.to_string())
    }
}

impl Cause for LibdeviceError {
    fn failure(self, stage: Stage) -> Failure {
        let kind = match self {
            Self::NotFound { .. } => FailureKind::MissingTool,
            _ => FailureKind::Refused,
        };
        Failure {
            kind,
            ..refused(stage, self.to_string())
        }
    }
}
