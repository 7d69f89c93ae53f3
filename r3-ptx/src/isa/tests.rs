//! What the tables must hold.

use super::{
    Comparison, Forms, Matrix, Mnemonic, Opcode, Operation, Order, Rounding, ScalarType, Scope,
    Selector, Shape, Space, SpecialRegister, Word,
};

fn mnemonic(text: &str) -> Mnemonic {
    Mnemonic::parse(text).unwrap()
}

#[test]
fn every_line_of_the_table_is_read() {
    assert_eq!(Forms::table().unread, Vec::<String>::new());
}

#[test]
fn every_opcode_has_a_form() {
    let missing: Vec<_> = Opcode::ALL
        .iter()
        .filter(|&&opcode| Forms::table().of(opcode).is_empty())
        .collect();
    assert_eq!(missing, Vec::<&Opcode>::new());
}

#[test]
fn every_modifier_stands_in_some_form() {
    let used = |word: &Word| {
        let mut slots = Forms::table().all().iter().flat_map(|form| &form.slots);
        slots.any(|slot| slot.words.contains(word))
    };
    let unused: Vec<_> = Word::ALL.iter().filter(|word| !used(word)).collect();
    assert_eq!(unused, Vec::<&Word>::new());
}

#[test]
fn every_type_stands_at_its_place_in_the_table_of_layouts() {
    for &ty in ScalarType::ALL {
        assert_eq!(ScalarType::from_text(ty.text()), Some(ty));
        assert!(ty.bits() > 0, "{ty}");
        assert!(ty.bits().is_multiple_of(u32::from(ty.lanes())), "{ty}");
    }
    let bits = |ty: ScalarType| (ty.bits(), ty.bytes(), ty.lanes());
    assert_eq!(bits(ScalarType::E2M1x2), (8, 1, 2));
    assert_eq!(bits(ScalarType::F32x2), (64, 8, 2));
    assert_eq!(bits(ScalarType::B128), (128, 16, 1));
    assert_eq!(bits(ScalarType::Pred), (1, 1, 1));
}

#[test]
fn special_registers_are_read_back() {
    let numbered = [
        "%envreg0",
        "%envreg31",
        "%pm7",
        "%pm0_64",
        "%reserved_smem_offset_1",
    ];
    let plain = SpecialRegister::plain().map(|register| register.to_string());
    for text in plain.chain(numbered.map(String::from)) {
        let register = SpecialRegister::from_text(&text).unwrap();
        assert_eq!(register.to_string(), text);
    }
    for text in ["%envreg32", "%envreg01", "%pm8", "%tid.q", "%r1", "tid.x"] {
        assert_eq!(SpecialRegister::from_text(text), None, "{text}");
    }
}

#[test]
fn selectors_are_read_back() {
    for text in ["b0", "h1", "h10", "h33", "b3210", "b7654"] {
        assert_eq!(Selector::from_text(text).unwrap().to_string(), text);
    }
    for text in ["x", "b", "h4", "h210", "b8", "b43210"] {
        assert_eq!(Selector::from_text(text), None, "{text}");
    }
}

#[test]
fn a_mnemonic_answers_in_any_order_of_its_words() {
    let swapped = mnemonic("vote.ballot.sync.b32");
    assert_eq!(swapped.forms(), mnemonic("vote.sync.ballot.b32").forms());
    let load = mnemonic("ld.global.relaxed.gpu.v4.f32");
    assert_eq!(load.space(), Some(Space::Global));
    assert_eq!(
        (load.order(), load.scope()),
        (Some(Order::Relaxed), Some(Scope::Gpu))
    );
    assert_eq!((load.vector(), load.ty()), (4, Some(ScalarType::F32)));
    let fence = mnemonic("membar.gl");
    assert_eq!(fence.scope(), Some(Scope::Gpu));
    let add = mnemonic("atom.add.global.u32");
    assert_eq!(add.operation(), Some(Operation::Add));
    assert!(add.form().is_some());
    let compare = mnemonic("setp.ltu.and.ftz.f32");
    assert_eq!(compare.comparison(), Some(Comparison::Ltu));
    let convert = mnemonic("cvt.rzi.s32.f32");
    assert_eq!(convert.rounding(), Some(Rounding::ZeroInt));
    assert_eq!(convert.types(), [ScalarType::S32, ScalarType::F32]);
    assert_eq!(mnemonic("barrier.cluster.arrive").scope(), None);
}

#[test]
fn types_and_spaces_keep_their_order() {
    assert!(
        mnemonic("mma.sync.aligned.m16n8k16.row.col.f32.bf16.f32.bf16")
            .form()
            .is_none()
    );
    assert!(
        mnemonic("cp.async.bulk.global.shared::cta.mbarrier::complete_tx::bytes")
            .form()
            .is_none()
    );
}

#[test]
fn words_that_come_together_do_not_come_alone() {
    assert!(mnemonic("min.xorsign.abs.f32").form().is_some());
    assert!(mnemonic("min.xorsign.f32").form().is_none());
    assert!(mnemonic("mbarrier.arrive.release.b64").form().is_none());
}

#[test]
fn shapes_and_fragments() {
    let fragments = |text: &str| {
        let mnemonic = mnemonic(text);
        [Matrix::D, Matrix::A, Matrix::B, Matrix::C].map(|m| mnemonic.fragment(m).unwrap())
    };
    use ScalarType::{B32, F32, F64, S32};
    let k16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
    assert_eq!(mnemonic(k16).shape(), Some(Shape { m: 16, n: 8, k: 16 }));
    assert_eq!(fragments(k16), [(F32, 4), (B32, 4), (B32, 2), (F32, 4)]);
    assert_eq!(
        fragments("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"),
        [(F32, 8), (B32, 2), (B32, 2), (F32, 8)]
    );
    assert_eq!(
        fragments("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"),
        [(F64, 2), (F64, 1), (F64, 1), (F64, 2)]
    );
    assert_eq!(
        fragments("mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32"),
        [(S32, 4), (B32, 2), (B32, 2), (S32, 4)]
    );
    assert_eq!(
        fragments("wmma.mma.sync.aligned.row.col.m8n32k16.f16.f32"),
        [(B32, 4), (B32, 8), (B32, 8), (F32, 8)]
    );
    let wgmma = mnemonic("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16");
    assert_eq!(wgmma.fragment(Matrix::D), Some((F32, 64)));
}

#[test]
fn the_table_as_it_is_read() {
    use std::fmt::Write;
    let mut out = String::new();
    for form in Forms::table().all() {
        let e = form.effects;
        let flags = [
            (e.reads, "reads"),
            (e.writes, "writes"),
            (e.convergent, "convergent"),
            (e.sync, "sync"),
            (e.control, "control"),
            (e.carry_in, "carry in"),
            (e.carry_out, "carry out"),
            (e.approximate, "approximate"),
            (e.old, "old"),
        ];
        let flags = flags.iter().filter(|(is, _)| *is).map(|(_, name)| *name);
        let mut properties: Vec<String> = flags.map(str::to_owned).collect();
        properties.extend(
            form.ptx
                .map(|(major, minor)| format!("ptx {major}.{minor}")),
        );
        properties.extend(form.sm.map(|sm| sm.to_string()));
        _ = writeln!(out, "{} | {}", form.text, properties.join(", "));
    }
    insta::assert_snapshot!(out);
}
