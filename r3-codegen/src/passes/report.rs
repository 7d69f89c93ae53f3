//! What LLVM says when it cannot go on.

use std::ffi::{CStr, c_char, c_void};
use std::io::Write;
use std::sync::Once;

use inkwell::context::Context;
use llvm_sys::LLVMDiagnosticSeverity;
use llvm_sys::core::{
    LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription,
    LLVMGetDiagInfoSeverity,
};
use llvm_sys::error_handling::LLVMInstallFatalErrorHandler;
use llvm_sys::prelude::LLVMDiagnosticInfoRef;

/// How the line on standard error begins that a fatal error leaves behind.
pub const FATAL: &str = "r3: LLVM's fatal error: ";

/// Makes LLVM's `report_fatal_error` print one line that begins with [`FATAL`] before it ends the process, which nothing
/// can prevent: whoever started the process finds the reason there. Any number of calls.
pub fn catch_fatal_errors() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function for the whole life of the process, and LLVM has none installed by us yet.
        unsafe { LLVMInstallFatalErrorHandler(Some(fatal)) };
    });
}

/// Called by LLVM, which exits when this returns.
extern "C" fn fatal(reason: *const c_char) {
    let reason = if reason.is_null() {
        "no reason given".to_owned()
    } else {
        // SAFETY: LLVM gives a zero-terminated text that lives for the call.
        unsafe { CStr::from_ptr(reason) }
            .to_string_lossy()
            .replace('\n', " ")
    };
    let mut out = std::io::stderr().lock();
    let _ = writeln!(out, "{FATAL}{reason}");
    let _ = out.flush();
}

/// Collects what LLVM reports through a context. Without it an error there ends the process.
#[derive(Debug)]
pub struct Diagnostics {
    /// Boxed, because LLVM holds its address.
    said: Box<Said>,
}

/// What was said.
#[derive(Debug, Default)]
struct Said {
    errors: Vec<String>,
    others: Vec<String>,
}

impl Diagnostics {
    /// Listens to a context from now on. The listener must live as long as anything runs in the context.
    #[must_use]
    pub fn of(context: &Context) -> Self {
        let mut said = Box::<Said>::default();
        let address: *mut Said = &raw mut *said;
        // SAFETY: the context is alive; the box lives in the value that is returned, whose drop cannot come before the end
        // of a use by LLVM as long as its owner keeps it beside the context.
        unsafe {
            LLVMContextSetDiagnosticHandler(context.raw(), Some(listen), address.cast());
        }
        Self { said }
    }

    /// Errors since the last call, as one text.
    pub fn take_errors(&mut self) -> Option<String> {
        if self.said.errors.is_empty() {
            return None;
        }
        Some(std::mem::take(&mut self.said.errors).join("\n"))
    }

    /// Warnings since the last call, each once, in order.
    pub fn take_warnings(&mut self) -> Vec<String> {
        let mut all = std::mem::take(&mut self.said.others);
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|warning| seen.insert(warning.clone()));
        all
    }
}

/// Called by LLVM for each diagnostic.
extern "C" fn listen(info: LLVMDiagnosticInfoRef, said: *mut c_void) {
    if said.is_null() {
        return;
    }
    // SAFETY: `said` is the box of a living `Diagnostics`, and LLVM calls from the thread that works in its context.
    let said = unsafe { &mut *said.cast::<Said>() };
    // SAFETY: LLVM gives a valid diagnostic for the call, and a message that we free.
    let (text, severity) = unsafe {
        let message = LLVMGetDiagInfoDescription(info);
        let text = if message.is_null() {
            String::new()
        } else {
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            LLVMDisposeMessage(message);
            text
        };
        (text, LLVMGetDiagInfoSeverity(info))
    };
    match severity {
        LLVMDiagnosticSeverity::LLVMDSError => said.errors.push(text),
        LLVMDiagnosticSeverity::LLVMDSWarning => said.others.push(text),
        _ => {}
    }
}
