//! LLVM's own options, which hold for the whole process.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Mutex;

use super::PassError;

/// Set in every process.
const ALWAYS: &[&str] = &[
    // Pointers into shared, constant and local memory have 32 bits, as in nvcc's code.
    "-nvptx-short-ptr",
    // libdevice's square root is the exact one, as nvcc's is where nobody asks for another; LLVM would take the other.
    "-nvvm-reflect-add=__CUDA_PREC_SQRT=1",
];

/// Options that make LLVM print something and end the process.
const ENDING: &[&str] = &[
    "help",
    "h",
    "help-hidden",
    "help-list",
    "help-list-hidden",
    "version",
];

/// The options that this process runs with, once they are set.
static PRESENT: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// `llvm::StringRef` as it is passed by value: a pointer and a length.
#[repr(C)]
struct StringRef {
    data: *const c_char,
    length: usize,
}

// LLVM's C interface to this function drops the errors and their very existence: an option that does not exist is
// ignored. The function behind it tells, if it gets a stream to print to. It has C linkage but for its name, and takes
// nothing that a C function could not: the name is that of LLVM 22, to which the crate is bound.
unsafe extern "C" {
    #[link_name = "_ZN4llvm2cl23ParseCommandLineOptionsEiPKPKcNS_9StringRefEPNS_11raw_ostreamEPNS_3vfs10FileSystemES2_b"]
    fn parse_command_line_options(
        count: c_int,
        arguments: *const *const c_char,
        overview: StringRef,
        errors: *mut c_void,
        files: *mut c_void,
        variable: *const c_char,
        long_options_need_two_dashes: bool,
    ) -> bool;

    #[link_name = "_ZN4llvm5nullsEv"]
    fn nulls() -> *mut c_void;
}

/// Sets LLVM's options for this process, among them those that are always set. A second call with the same options does
/// nothing.
///
/// # Errors
/// When LLVM does not have an option or refuses its value, and when the process already runs with others. After an error
/// of the first kind the options before the refused one are set: such a process should not go on with others.
pub fn set(options: &[String]) -> Result<(), PassError> {
    let mut present = PRESENT
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(present) = present.as_deref() {
        if present == options {
            return Ok(());
        }
        return Err(PassError::OtherOptions {
            present: present.join(" "),
            asked: options.join(" "),
        });
    }
    for option in options {
        refuse_ending(option)?;
    }
    for option in ALWAYS {
        parse(option)?;
    }
    for option in options {
        parse(option)?;
    }
    *present = Some(options.to_vec());
    Ok(())
}

/// The options that this process runs with, beside those that are always set; `None` when nothing has been set yet.
#[must_use]
pub fn set_for_process() -> Option<Vec<String>> {
    PRESENT
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .clone()
}

/// Refuses what is not an option or would end the process.
fn refuse_ending(option: &str) -> Result<(), PassError> {
    let refuse = |reason: &str| {
        Err(PassError::Option {
            option: option.to_owned(),
            reason: reason.to_owned(),
        })
    };
    let Some(name) = option.strip_prefix('-') else {
        return refuse("it does not begin with `-`; write a value as `-option=value`");
    };
    let name = name.strip_prefix('-').unwrap_or(name);
    let name = name.split('=').next().unwrap_or(name);
    if name.is_empty() {
        return refuse("it has no name");
    }
    if ENDING.contains(&name) {
        return refuse("it makes LLVM print a text and end the process");
    }
    Ok(())
}

/// Gives LLVM one option.
fn parse(option: &str) -> Result<(), PassError> {
    let refused = |reason: &str| PassError::Option {
        option: option.to_owned(),
        reason: reason.to_owned(),
    };
    let text = CString::new(option).map_err(|_| refused("it has a zero byte in it"))?;
    let arguments = [c"r3".as_ptr(), text.as_ptr()];
    // SAFETY: two arguments that live for the call, an empty overview, LLVM's own stream that drops what is printed, and
    // null where LLVM's interface has null by default. With a stream given, the function returns instead of exiting. The
    // caller holds the lock, so that no other thread parses options meanwhile.
    let accepted = unsafe {
        parse_command_line_options(
            2,
            arguments.as_ptr(),
            StringRef {
                data: c"".as_ptr(),
                length: 0,
            },
            nulls(),
            std::ptr::null_mut(),
            std::ptr::null(),
            false,
        )
    };
    if accepted {
        Ok(())
    } else {
        Err(refused(
            "there is none of this name, or its value is not of the right kind (`opt --help-list-hidden` lists them)",
        ))
    }
}
