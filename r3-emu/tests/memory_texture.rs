//! Textures and surfaces through PTX.

mod memory_support;

use memory_support::{Run, address};
use r3_emu::FaultKind;
use r3_emu::memory::textures::{AddressMode, Format, Image, Level, Object, Sampler, Texture};
use std::sync::Arc;

/// 4 x 3 texels of `.f32` in buffer 0, `10 y + x`, rows of 32 bytes.
fn grid() -> Vec<u32> {
    (0..24u32)
        .map(|i| {
            let (x, y) = (i % 8, i / 8);
            if x < 4 {
                (10.0 * y as f32 + x as f32).to_bits()
            } else {
                f32::NAN.to_bits()
            }
        })
        .collect()
}

fn image(format: Format, channels: u32, width: u32, height: u32) -> Image {
    Image {
        format,
        channels,
        layers: 0,
        linear: false,
        levels: vec![Level {
            address: address(0),
            width,
            height,
            depth: 0,
            row_pitch: 32,
            slice_pitch: 0,
        }],
    }
}

fn texture(image: Image, sampler: Sampler) -> Object {
    Object::Texture(Arc::new(Texture { image, sampler }))
}

/// Fetches with x and y of each thread (`%f1`, `%f2`); `object` has handle 77, which is in `%rd7`.
fn fetch(object: Object, coordinates: &str, tex: &str) -> Vec<[f32; 4]> {
    let body = format!(
        "mov.u64 %rd7, 77;\ncvt.rn.f32.u32 %f0, %t;\n{coordinates}\n{tex}\nmad.wide.u32 %rd1, %t, 16, %a1;\n\
         st.global.v4.f32 [%rd1], {{%f4, %f5, %f6, %f7}};"
    );
    let run = Run::new(&body).block(8).words(&grid()).zeros(128);
    run.memory.set_object(77, object);
    let singles = run.run().singles(1);
    singles
        .chunks_exact(4)
        .map(|c| [c[0], c[1], c[2], c[3]])
        .collect()
}

fn first(texels: &[[f32; 4]]) -> Vec<f32> {
    texels.iter().map(|t| t[0]).collect()
}

const TEX: &str = "tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd7, {%f1, %f2}];";

#[test]
fn points_are_the_texels_and_missing_channels_are_zero_and_one() {
    let object = texture(image(Format::F32, 1, 4, 3), Sampler::default());
    let texels = fetch(
        object,
        "sub.f32 %f1, %f0, 0f3fc00000;\nmov.f32 %f2, 0f3fc00000;",
        TEX,
    );
    assert_eq!(
        first(&texels),
        [10.0, 10.0, 10.0, 11.0, 12.0, 13.0, 13.0, 13.0]
    );
    assert_eq!(texels[0][1..], [0.0, 0.0, 1.0]);
}

#[test]
fn linear_filtering_mixes_four_texels() {
    let sampler = Sampler {
        linear: true,
        ..Sampler::default()
    };
    let object = texture(image(Format::F32, 1, 4, 3), sampler);
    // x = t / 2 + 0.25, y = 1.
    let texels = fetch(
        object,
        "fma.rn.f32 %f1, %f0, 0f3f000000, 0f3e800000;\nmov.f32 %f2, 0f3f800000;",
        TEX,
    );
    assert_eq!(
        first(&texels),
        [5.0, 5.25, 5.75, 6.25, 6.75, 7.25, 7.75, 8.0]
    );
}

#[test]
fn normalised_coordinates_wrap_mirror_and_leave() {
    let run = |mode| {
        let sampler = Sampler {
            normalized: true,
            address: [mode; 3],
            border: [-1.0; 4],
            ..Sampler::default()
        };
        let object = texture(image(Format::F32, 1, 4, 3), sampler);
        // x = (t - 2 + 0.5) / 4
        first(&fetch(
            object,
            "sub.f32 %f1, %f0, 0f3fc00000;\nmul.f32 %f1, %f1, 0f3e800000;\nmov.f32 %f2, 0f3f000000;",
            TEX,
        ))
    };
    assert_eq!(
        run(AddressMode::Wrap),
        [12.0, 13.0, 10.0, 11.0, 12.0, 13.0, 10.0, 11.0]
    );
    assert_eq!(
        run(AddressMode::Mirror),
        [11.0, 10.0, 10.0, 11.0, 12.0, 13.0, 13.0, 12.0]
    );
    assert_eq!(
        run(AddressMode::Border),
        [-1.0, -1.0, 10.0, 11.0, 12.0, 13.0, -1.0, -1.0]
    );
}

#[test]
fn linear_memory_is_read_by_integers_and_is_zero_outside() {
    let mut image = image(Format::F32, 2, 2, 0);
    image.linear = true;
    let object = texture(image, Sampler::default());
    let tex = "sub.u32 %r1, %t, 1;\ntex.1d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [%rd7, {%r1}];";
    let texels = fetch(object, "", tex);
    assert_eq!(
        texels[..4],
        [
            [0.0; 4],
            [0.0, 1.0, 0.0, 1.0],
            [2.0, 3.0, 0.0, 1.0],
            [0.0; 4]
        ]
    );
}

#[test]
fn integers_are_read_as_they_are_or_as_fractions() {
    let bytes = |normalized_float, dtype: &str, registers: &str| {
        let sampler = Sampler {
            normalized_float,
            ..Sampler::default()
        };
        let mut image = image(Format::S8, 4, 1, 1);
        image.levels[0].address = address(1);
        let body = format!(
            "mov.u64 %rd7, 77;\nmov.f32 %f1, 0f00000000;\ntex.2d.v4.{dtype}.f32 {registers}, [%rd7, {{%f1, %f1}}];\n\
             st.global.v4.{} [%a0], {registers};",
            if dtype == "f32" { "f32" } else { "u32" }
        );
        let run = Run::new(&body).block(1).zeros(16).words(&[0x7f81_0080]);
        run.memory.set_object(77, texture(image, sampler));
        run.run().words(0)
    };
    assert_eq!(
        bytes(false, "s32", "{%r1, %r2, %r3, %r4}"),
        [0xffff_ff80, 0, 0xffff_ff81, 127]
    );
    let floats: Vec<f32> = bytes(true, "f32", "{%f1, %f2, %f3, %f4}")
        .into_iter()
        .map(f32::from_bits)
        .collect();
    assert_eq!(floats, [-1.0, 0.0, -1.0, 1.0]);
}

#[test]
fn gathers_layers_levels_and_queries() {
    let object = texture(image(Format::F32, 1, 4, 3), Sampler::default());
    let tex = "tld4.r.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd7, {%f1, %f2}];";
    let texels = fetch(
        object.clone(),
        "mov.f32 %f1, 0f40000000;\nmov.f32 %f2, 0f3f800000;",
        tex,
    );
    assert_eq!(texels[0], [11.0, 12.0, 2.0, 1.0]);

    let mut layered = image(Format::F32, 1, 4, 0);
    layered.layers = 3;
    layered.levels[0].slice_pitch = 32;
    let tex = "tex.a1d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd7, {%t, %f1}];";
    let texels = fetch(
        texture(layered, Sampler::default()),
        "mov.f32 %f1, 0f3f800000;",
        tex,
    );
    assert_eq!(first(&texels)[..4], [1.0, 11.0, 21.0, 21.0]);

    let mut mipmap = image(Format::F32, 1, 4, 1);
    mipmap.levels.push(Level {
        address: address(0) + 32,
        width: 2,
        ..mipmap.levels[0]
    });
    let sampler = Sampler {
        mip_linear: true,
        mip_clamp: [0.0, 8.0],
        ..Sampler::default()
    };
    let tex = "tex.level.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd7, {%f1, %f1}], %f2;";
    let texels = fetch(
        texture(mipmap, sampler),
        "mov.f32 %f1, 0f00000000;\nmul.f32 %f2, %f0, 0f3e800000;",
        tex,
    );
    assert_eq!(first(&texels)[..6], [0.0, 2.5, 5.0, 7.5, 10.0, 10.0]);

    let tex = "txq.width.b32 %r1, [%rd7];\ntxq.height.b32 %r2, [%rd7];\ntxq.channel_data_type.b32 %r3, [%rd7];\ncvt.rn.f32.u32 %f4, %r1;\n\
               cvt.rn.f32.u32 %f5, %r2;\ncvt.rn.f32.u32 %f6, %r3;\nmov.f32 %f7, 0f00000000;";
    assert_eq!(fetch(object, "", tex)[0], [4.0, 3.0, 4318.0, 0.0]);
}

#[test]
fn surfaces_are_loaded_stored_and_reduced_by_bytes() {
    let body = "mov.u64 %rd7, 77;\nmul.lo.u32 %r1, %t, 4;\nmov.u32 %r2, 1;\nsuld.b.2d.b32.zero {%r3}, [%rd7, {%r1, %r2}];\n\
                sust.b.2d.b32.zero [%rd7, {%r1, %r2}], {%t};\nmad.wide.u32 %rd1, %t, 4, %a1;\nst.global.u32 [%rd1], %r3;\n\
                sured.b.add.2d.u32.clamp [%rd7, {%r1, 2}], 1;\nsuld.b.2d.v2.b8.clamp {%h1, %h2}, [%rd7, {0, 0}];\nsust.p.2d.v4.b32.zero [%rd7, {%t, 7}], {%t, %t, %t, %t};";
    let input: Vec<u32> = (100..124).collect();
    let run = Run::new(body).block(6).words(&input).zeros(24);
    run.memory
        .set_object(77, Object::Surface(Arc::new(image(Format::U32, 1, 4, 3))));
    let done = run.run();
    assert_eq!(done.words(1), [108, 109, 110, 111, 0, 0]);
    let w = done.words(0);
    assert_eq!(&w[8..13], &[0, 1, 2, 3, 112]);
    assert_eq!(&w[16..21], &[117, 118, 119, 122, 120]);
}

#[test]
fn formatted_stores_convert() {
    let body = "mov.u64 %rd7, 77;\nmov.f32 %f1, 0f40200000;\nsust.p.2d.v2.b32.trap [%rd7, {1, 0}], {%f1, %f1};";
    let run = Run::new(body).block(1).words(&[0; 8]);
    run.memory
        .set_object(77, Object::Surface(Arc::new(image(Format::F16, 2, 4, 1))));
    assert_eq!(run.run().words(0)[..3], [0, 0x4100_4100, 0]);
}

#[test]
fn traps_of_surfaces_and_wrong_handles_are_faults() {
    let surface = |body: &str| {
        let run = Run::new(body).block(1).words(&[0; 24]);
        run.memory
            .set_object(77, Object::Surface(Arc::new(image(Format::U32, 1, 4, 3))));
        run.fails().0
    };
    let kind = surface("mov.u64 %rd7, 77;\nsuld.b.2d.b32.trap {%r1}, [%rd7, {16, 1}];");
    assert!(
        matches!(
            kind,
            FaultKind::OutOfBounds {
                space: "surface",
                address: 16,
                len: 4,
                write: false,
                ..
            }
        ),
        "{kind:?}"
    );
    let kind = surface("mov.u64 %rd7, 77;\nsuld.b.2d.b32.trap {%r1}, [%rd7, {2, 1}];");
    assert!(
        matches!(
            kind,
            FaultKind::Misaligned {
                space: "surface",
                ..
            }
        ),
        "{kind:?}"
    );
    let kind = surface(
        "mov.u64 %rd7, 5;\nmov.f32 %f1, 0f00000000;\ntex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd7, {%f1, %f1}];",
    );
    assert_eq!(
        kind,
        FaultKind::Invalid("0x5 is no handle of a texture".to_owned())
    );
}

/// A module's texture reference has its handle in its 8 bytes.
#[test]
fn texture_references_of_a_module() {
    let front = ".global .texref ref;";
    let body = "mov.f32 %f1, 0f3fc00000;\ntex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [ref, {%f1, %f1}];\nst.global.f32 [%a1], %f4;";
    let run = Run::with(front, body).block(1).words(&grid()).zeros(4);
    run.memory
        .set_object(0, texture(image(Format::F32, 1, 4, 3), Sampler::default()));
    assert_eq!(run.run().singles(1), [11.0]);
}
