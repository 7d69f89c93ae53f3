//! Images as applications hand them to the driver, and as the driver takes them.

#![allow(clippy::unwrap_used)]

use std::ffi::c_void;
use std::path::Path;

use r3_image::memory::Loadable;
use r3_image::{Image, ImageError, ImageKind, copy_image};

const LIMIT: usize = 1 << 20;

/// `__fatBinC_Wrapper_t`.
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const c_void,
    list: *const c_void,
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read(path).unwrap()
}

/// The bytes in a buffer of exactly their length: a checker of addresses sees any read behind it.
fn exact(bytes: &[u8]) -> Box<[u8]> {
    bytes.into()
}

fn copy(bytes: &[u8], limit: usize) -> Result<(ImageKind, Vec<u8>), ImageError> {
    let buffer = exact(bytes);
    // SAFETY: every caller passes an image that is complete, or ends at a NUL.
    unsafe { copy_image(buffer.as_ptr().cast(), limit) }
}

fn copy_wrapped(
    version: u32,
    data: &[u8],
    list: &[&[u8]],
) -> Result<(ImageKind, Vec<u8>), ImageError> {
    let mut pointers: Vec<*const c_void> = list.iter().map(|item| item.as_ptr().cast()).collect();
    pointers.push(std::ptr::null());
    let wrapper = Wrapper {
        magic: 0x4662_43B1,
        version,
        data: data.as_ptr().cast(),
        list: pointers.as_ptr().cast(),
    };
    // SAFETY: a complete wrapper of complete containers.
    unsafe { copy_image((&raw const wrapper).cast(), LIMIT) }
}

#[test]
fn each_kind_is_copied_whole_and_no_further() {
    for (name, kind) in [
        ("default.fatbin", ImageKind::Fatbin),
        ("features-13.0-sm_90.cubin", ImageKind::Cubin),
        ("features-11.8-sm_80.cubin", ImageKind::Cubin),
        ("features-13.0-sm_100.cubin", ImageKind::Cubin),
        ("triton-sm_90a.cubin", ImageKind::Cubin),
        ("large-params-12.9-sm_90.cubin", ImageKind::Cubin),
    ] {
        let bytes = fixture(name);
        let (found, copied) = copy(&bytes, LIMIT).unwrap();
        assert_eq!(found, kind, "{name}");
        assert!(
            copied == bytes,
            "{name}: {} of {} bytes",
            copied.len(),
            bytes.len()
        );
        // What follows in memory does not matter.
        let (_, again) = copy(&[&bytes[..], b"\x7fELF and more"].concat(), LIMIT).unwrap();
        assert!(again == bytes, "{name}");
    }
}

#[test]
fn text_is_copied_up_to_its_nul() {
    let text = fixture("triton.ptx");
    let (kind, copied) = copy(&[&text[..], b"\0.version"].concat(), LIMIT).unwrap();
    assert_eq!(kind, ImageKind::Ptx);
    assert!(copied == text);
}

#[test]
fn an_archive_is_copied_with_its_members() {
    let member = |name: &str, bytes: &[u8]| {
        let mut out = format!(
            "{name:<16}0           0     0     644     {:<10}`\n",
            bytes.len()
        );
        out.push_str(std::str::from_utf8(bytes).unwrap());
        if bytes.len() % 2 == 1 {
            out.push('\n');
        }
        out
    };
    let archive = format!(
        "!<arch>\n{}{}",
        member("a.o/", b"odd"),
        member("b.o/", b"even")
    );
    let (kind, copied) = copy(&[archive.as_bytes(), &[0; 60]].concat(), LIMIT).unwrap();
    assert_eq!(kind, ImageKind::Unknown);
    assert_eq!(String::from_utf8(copied).unwrap(), archive);
}

#[test]
fn a_wrapper_of_version_1_leads_to_its_container() {
    let container = fixture("default.fatbin");
    let (kind, copied) = copy_wrapped(1, &container, &[]).unwrap();
    assert_eq!(kind, ImageKind::Fatbin);
    assert!(copied == container);
}

#[test]
fn a_wrapper_of_version_2_leads_to_the_linked_container_and_its_parts() {
    let (linked, a, b) = (
        fixture("linked.fatbin"),
        fixture("rdc.fatbin"),
        fixture("default.fatbin"),
    );
    let (_, copied) = copy_wrapped(2, &linked, &[&a, &b]).unwrap();
    let image = Image::from_vec(copied);
    assert_eq!(image.containers().len(), 3);
    let parts: Vec<_> = image
        .containers()
        .iter()
        .map(|range| &image.bytes()[range.clone()])
        .collect();
    assert!(parts == [&linked[..], &a, &b]);
    // The linked kernel knows its registers; the relocatable one does not know its callee's.
    assert_eq!(image.kernel("shift").unwrap().registers, Some(44));
}

#[test]
fn several_containers_go_back_behind_a_wrapper() {
    let parts = [
        fixture("linked.fatbin"),
        fixture("rdc.fatbin"),
        fixture("default.fatbin"),
    ];
    let image = Image::from_vec(parts.concat());
    let loadable = Loadable::new(&image);
    // SAFETY: what it points to is complete.
    let (_, copied) = unsafe { copy_image(loadable.as_ptr(), LIMIT) }.unwrap();
    assert!(copied == parts.concat());
}

#[test]
fn single_images_go_back_as_they_are_and_text_gets_its_nul() {
    for name in ["default.fatbin", "features-13.0-sm_90.cubin", "triton.ptx"] {
        let bytes = fixture(name);
        let loadable = Loadable::new(&Image::parse(&bytes));
        assert_eq!(loadable.as_ptr().align_offset(8), 0);
        // SAFETY: what it points to is complete.
        let (_, copied) = unsafe { copy_image(loadable.as_ptr(), LIMIT) }.unwrap();
        assert!(copied == bytes, "{name}");
    }
}

#[test]
fn the_limit_holds_for_every_kind() {
    for name in ["default.fatbin", "features-13.0-sm_90.cubin"] {
        let bytes = fixture(name);
        for limit in [0, 8, 64, bytes.len() - 1] {
            assert_eq!(
                copy(&bytes, limit),
                Err(ImageError::TooLong { limit }),
                "{name}"
            );
        }
    }
    let text = [&fixture("triton.ptx")[..], b"\0"].concat();
    assert_eq!(copy(&text, 100), Err(ImageError::TooLong { limit: 100 }));
}

#[test]
fn what_has_no_known_length_is_refused() {
    // SAFETY: null is allowed.
    let null = unsafe { copy_image(std::ptr::null(), LIMIT) };
    assert_eq!(null, Err(ImageError::Null));
    assert_eq!(
        copy(b"BC\xC0\xDE\x01", LIMIT),
        Err(ImageError::Unknown(0xDEC0_4342))
    );
    assert_eq!(
        copy(b"hello\0", LIMIT),
        Err(ImageError::Unknown(0x6C6C_6568))
    );
    assert_eq!(copy(b"\0", LIMIT), Err(ImageError::Unknown(0)));
    let error = copy_wrapped(3, &fixture("default.fatbin"), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fatbin wrapper version is 0x3, which cannot be right"
    );
    let error = copy_wrapped(1, b"nothing ", &[]).unwrap_err();
    assert!(matches!(error, ImageError::BadHeader { .. }), "{error}");
}
