//! Run-time compilation: source and options are remembered with what was compiled from them.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::{Call, after, written};
use crate::ffi::CUresult;
use crate::nvrtc;

/// Larger outputs are not looked at.
const OUTPUT_LIMIT: usize = 1 << 30;

/// # Safety
/// `text` is null or a C string.
unsafe fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the caller.
    Some(
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    )
}

/// # Safety
/// `list` is null or has `count` C strings.
unsafe fn strings(list: *const *const c_char, count: c_int) -> Vec<String> {
    if list.is_null() {
        return Vec::new();
    }
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: by the caller.
    (0..count)
        .filter_map(|i| unsafe { string(*list.add(i)) })
        .collect()
}

pub fn create(
    call: Call<'_>,
    _: &'static str,
    program: *mut *mut c_void,
    source: *const c_char,
    name: *const c_char,
    header_count: c_int,
    headers: *const *const c_char,
    include_names: *const *const c_char,
) -> CUresult {
    after(call, || {
        // SAFETY: the program's own arguments, which NVRTC has just accepted.
        unsafe {
            let Some(program) = written(program) else {
                return;
            };
            if source.is_null() {
                return;
            }
            let text = CStr::from_ptr(source).to_bytes().to_vec();
            let contents = strings(headers, header_count)
                .into_iter()
                .map(String::into_bytes);
            let names = strings(include_names, header_count);
            let headers = names.into_iter().zip(contents).collect();
            nvrtc::created(
                program as usize,
                string(name).unwrap_or_default(),
                text,
                headers,
            );
        }
    })
}

pub fn destroy(call: Call<'_>, _: &'static str, program: *mut *mut c_void) -> CUresult {
    // SAFETY: the program's own argument; NVRTC clears the handle.
    let handle = unsafe { written(program) };
    after(call, || {
        if let Some(handle) = handle {
            nvrtc::destroyed(handle as usize);
        }
    })
}

pub fn compile(
    call: Call<'_>,
    _: &'static str,
    program: *mut c_void,
    count: c_int,
    options: *const *const c_char,
) -> CUresult {
    after(call, || {
        // SAFETY: the program's own arguments.
        nvrtc::compiled(program as usize, unsafe { strings(options, count) });
    })
}

pub fn add_name_expression(
    call: Call<'_>,
    _: &'static str,
    program: *mut c_void,
    expression: *const c_char,
) -> CUresult {
    after(call, || {
        // SAFETY: the program's own argument.
        if let Some(expression) = unsafe { string(expression) } {
            nvrtc::name_expression(program as usize, expression, None);
        }
    })
}

pub fn get_lowered_name(
    call: Call<'_>,
    _: &'static str,
    program: *mut c_void,
    expression: *const c_char,
    lowered: *mut *const c_char,
) -> CUresult {
    after(call, || {
        // SAFETY: the program's own arguments; NVRTC has written the name.
        let (expression, lowered) = unsafe {
            (
                string(expression),
                written(lowered).and_then(|name| string(name)),
            )
        };
        if let Some(expression) = expression {
            nvrtc::name_expression(program as usize, expression, lowered);
        }
    })
}

pub fn get_output(
    call: Call<'_>,
    _: &'static str,
    program: *mut c_void,
    output: *mut c_char,
) -> CUresult {
    after(call, || {
        // SAFETY: NVRTC has filled the program's buffer with PTX text, which ends with a NUL, or with an
        // ELF file, whose header tells its length.
        let image = unsafe { r3_image::memory::copy_image(output.cast(), OUTPUT_LIMIT) };
        if let Ok((_, image)) = image {
            nvrtc::output(program as usize, &image);
        }
    })
}
