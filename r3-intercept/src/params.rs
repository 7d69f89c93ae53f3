//! The parameter buffer of a launch, copied before the driver sees it.

use std::ffi::c_void;

use r3_archive::model::ParamLayout;

use crate::ffi::*;

/// The driver refuses larger buffers (CUDA 12.1 and later: 32,764 bytes).
const LIMIT: usize = 64 * 1024;

/// How the program gave the arguments.
#[derive(Clone, Copy)]
pub struct Arguments {
    /// `kernelParams`: a pointer to each argument.
    pub params: *const *mut c_void,
    /// `extra`: one buffer.
    pub extra: *const *mut c_void,
}

impl Arguments {
    /// Copies the arguments into one buffer; `None` when that needs a layout that is not known.
    ///
    /// # Safety
    /// As for the launch functions: the arrays are null, or as the kernel needs them.
    pub unsafe fn copy(&self, layout: Option<&[ParamLayout]>) -> Option<Vec<u8>> {
        if !self.extra.is_null() {
            // SAFETY: by the caller.
            return unsafe { self.copy_extra() };
        }
        if self.params.is_null() {
            return Some(Vec::new());
        }
        let layout = layout?;
        let len = layout
            .iter()
            .map(|p| p.offset as usize + p.size as usize)
            .max()
            .unwrap_or(0);
        if len > LIMIT {
            return None;
        }
        let mut buffer = vec![0u8; len];
        for (index, param) in layout.iter().enumerate() {
            let at = param.offset as usize;
            // SAFETY: by the caller, there is a pointer for each parameter, to as many bytes as the
            // kernel declares.
            unsafe {
                let argument = *self.params.add(index);
                if argument.is_null() {
                    return None;
                }
                std::ptr::copy_nonoverlapping(
                    argument.cast::<u8>(),
                    buffer[at..].as_mut_ptr(),
                    param.size as usize,
                );
            }
        }
        Some(buffer)
    }

    /// # Safety
    /// `extra` is a list of pairs that ends with `CU_LAUNCH_PARAM_END`.
    unsafe fn copy_extra(&self) -> Option<Vec<u8>> {
        let (mut buffer, mut len) = (std::ptr::null::<u8>(), 0usize);
        let mut at = self.extra;
        // SAFETY: by the caller. Keys other than these three do not exist.
        unsafe {
            for _ in 0..8 {
                match *at as usize {
                    CU_LAUNCH_PARAM_END => break,
                    CU_LAUNCH_PARAM_BUFFER_POINTER => buffer = (*at.add(1)).cast(),
                    CU_LAUNCH_PARAM_BUFFER_SIZE => {
                        let size = (*at.add(1)).cast::<usize>();
                        if size.is_null() {
                            return None;
                        }
                        len = *size;
                    }
                    _ => return None,
                }
                at = at.add(2);
            }
            if len > LIMIT || (buffer.is_null() && len > 0) {
                return None;
            }
            if len == 0 {
                return Some(Vec::new());
            }
            Some(std::slice::from_raw_parts(buffer, len).to_vec())
        }
    }
}

/// The aligned 8-byte words of a parameter buffer, with their offsets.
pub fn words(buffer: &[u8]) -> impl Iterator<Item = (u32, u64)> + '_ {
    buffer.chunks_exact(8).enumerate().map(|(i, word)| {
        let word: [u8; 8] = word.try_into().unwrap_or_default();
        ((i * 8) as u32, u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_parameters_own_and_not_the_distance_to_the_next() {
        // (int, char, double): a read of the char as up to the next offset would run out of bounds.
        let (a, b, c) = (0x0403_0201u32, 0xaau8, 2.5f64);
        let pointers = [
            (&raw const a).cast_mut().cast::<c_void>(),
            (&raw const b).cast_mut().cast(),
            (&raw const c).cast_mut().cast(),
        ];
        let layout = [(0, 4), (4, 1), (8, 8)].map(|(offset, size)| ParamLayout { offset, size });
        let arguments = Arguments {
            params: pointers.as_ptr(),
            extra: std::ptr::null(),
        };
        // SAFETY: one pointer for each parameter.
        let buffer = unsafe { arguments.copy(Some(&layout)) }.unwrap();
        let mut expected = vec![1, 2, 3, 4, 0xaa, 0, 0, 0];
        expected.extend(2.5f64.to_le_bytes());
        assert_eq!(buffer, expected);
    }

    #[test]
    fn extra_gives_the_whole_buffer_in_either_order_of_its_pairs() {
        let bytes = [7u8; 20];
        let mut len = bytes.len();
        let pointer = bytes.as_ptr().cast_mut().cast::<c_void>();
        let size = (&raw mut len).cast::<c_void>();
        let key = |k: usize| k as *mut c_void;
        for list in [
            [key(1), pointer, key(2), size, key(0)],
            [key(2), size, key(1), pointer, key(0)],
        ] {
            let arguments = Arguments {
                params: std::ptr::null(),
                extra: list.as_ptr(),
            };
            // SAFETY: a list as the driver takes it.
            assert_eq!(unsafe { arguments.copy(None) }.as_deref(), Some(&bytes[..]));
        }
    }

    #[test]
    fn no_arguments_at_all_are_legal() {
        let arguments = Arguments {
            params: std::ptr::null(),
            extra: std::ptr::null(),
        };
        // SAFETY: both null.
        assert_eq!(unsafe { arguments.copy(None) }, Some(Vec::new()));
    }
}
