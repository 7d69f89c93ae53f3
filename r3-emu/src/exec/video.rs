//! Video instructions: see [`arith::video`](crate::arith::video).

use super::Op;
use crate::arith::video::{MultiplyAdd, Operation, Part, Relation, Scalar, Second, Simd};
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, Selector, Word};
use r3_ptx::typed::Operand;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    use Opcode as O;
    let clamp = mnemonic.has(Word::Clamp);
    let (operation, lanes) = match mnemonic.opcode() {
        O::Vadd => (Operation::Add, 1),
        O::Vsub => (Operation::Sub, 1),
        O::Vabsdiff => (Operation::AbsDiff, 1),
        O::Vmin => (Operation::Min, 1),
        O::Vmax => (Operation::Max, 1),
        O::Vshl => (Operation::ShiftLeft { clamp }, 1),
        O::Vshr => (Operation::ShiftRight { clamp }, 1),
        O::Vset => (Operation::Set(relation(mnemonic)?), 1),
        O::Vadd2 => (Operation::Add, 2),
        O::Vsub2 => (Operation::Sub, 2),
        O::Vavrg2 => (Operation::Average, 2),
        O::Vabsdiff2 => (Operation::AbsDiff, 2),
        O::Vmin2 => (Operation::Min, 2),
        O::Vmax2 => (Operation::Max, 2),
        O::Vset2 => (Operation::Set(relation(mnemonic)?), 2),
        O::Vadd4 => (Operation::Add, 4),
        O::Vsub4 => (Operation::Sub, 4),
        O::Vavrg4 => (Operation::Average, 4),
        O::Vabsdiff4 => (Operation::AbsDiff, 4),
        O::Vmin4 => (Operation::Min, 4),
        O::Vmax4 => (Operation::Max, 4),
        O::Vset4 => (Operation::Set(relation(mnemonic)?), 4),
        O::Vmad => return Some(multiply_add(d, mnemonic)),
        _ => return None,
    };
    Some(if lanes == 1 {
        scalar(d, mnemonic, operation)
    } else {
        simd(d, mnemonic, operation, lanes)
    })
}

fn relation(mnemonic: &Mnemonic) -> Option<Relation> {
    [
        (Word::Eq, Relation::Eq),
        (Word::Ne, Relation::Ne),
        (Word::Lt, Relation::Lt),
        (Word::Le, Relation::Le),
        (Word::Gt, Relation::Gt),
        (Word::Ge, Relation::Ge),
    ]
    .into_iter()
    .find_map(|(word, relation)| mnemonic.has(word).then_some(relation))
}

/// Whether result, first and second operand are signed. `vset` names no type of its result, which is unsigned.
fn signs(mnemonic: &Mnemonic) -> [bool; 3] {
    let mut types = mnemonic.types().iter().map(|ty| ty.is_signed());
    let result = mnemonic.types().len() > 2 && types.next() == Some(true);
    [
        result,
        types.next() == Some(true),
        types.next() == Some(true),
    ]
}

/// Selector and sign in front of an operand.
fn selected(d: &Decoder<'_>, index: usize) -> Result<(Option<Selector>, bool), Unsupported> {
    Ok(match d.operand(index)? {
        Operand::Selected {
            selector, negated, ..
        } => (selector, negated),
        _ => (None, false),
    })
}

/// The part that a selector of one place names.
fn part(selector: Option<Selector>) -> Result<Part, Unsupported> {
    match selector.map(|s| (s.halves(), s.places().to_vec())).as_ref() {
        None => Ok(Part::Word),
        Some((true, places)) => match places.as_slice() {
            &[n @ 0..=1] => Ok(Part::Half(n)),
            _ => Err(Unsupported::new("selector of several halves")),
        },
        Some((false, places)) => match places.as_slice() {
            &[n @ 0..=3] => Ok(Part::Byte(n)),
            _ => Err(Unsupported::new("selector of several bytes")),
        },
    }
}

fn scalar(
    d: &mut Decoder<'_>,
    mnemonic: &Mnemonic,
    operation: Operation,
) -> Result<Op, Unsupported> {
    let [signed, a, b] = signs(mnemonic);
    let second = if mnemonic.has(Word::Add) {
        Second::Add
    } else if mnemonic.has(Word::Min) {
        Second::Min
    } else if mnemonic.has(Word::Max) {
        Second::Max
    } else {
        match selected(d, 0)? {
            (None, _) => Second::None,
            (selector, _) => Second::Merge(part(selector)?),
        }
    };
    let scalar = Scalar {
        operation,
        a: (part(selected(d, 1)?.0)?, a),
        b: (part(selected(d, 2)?.0)?, b),
        signed,
        sat: mnemonic.sat(),
        second,
    };
    let mut op = d.whole(Class::Alu, |warp, op, mask| {
        let scalar = *warp.data::<Scalar>(op);
        warp.map3(op, mask, |a: u32, b: u32, c: u32| scalar.run(a, b, c))
    });
    sources(d, &mut op)?;
    d.record(&mut op, scalar);
    Ok(op)
}

fn multiply_add(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let [_, a, b] = signs(mnemonic);
    let (first, second, third) = (selected(d, 1)?, selected(d, 2)?, selected(d, 3)?);
    let record = MultiplyAdd {
        a: (part(first.0)?, a),
        b: (part(second.0)?, b),
        negate_product: first.1 != second.1,
        negate_addend: third.1,
        plus_one: mnemonic.has(Word::Po),
        shift: if mnemonic.has(Word::Shr7) {
            7
        } else if mnemonic.has(Word::Shr15) {
            15
        } else {
            0
        },
        sat: mnemonic.sat(),
    };
    let mut op = d.whole(Class::Alu, |warp, op, mask| {
        let record = *warp.data::<MultiplyAdd>(op);
        warp.map3(op, mask, |a: u32, b: u32, c: u32| record.run(a, b, c))
    });
    sources(d, &mut op)?;
    d.record(&mut op, record);
    Ok(op)
}

fn simd(
    d: &mut Decoder<'_>,
    mnemonic: &Mnemonic,
    operation: Operation,
    lanes: u8,
) -> Result<Op, Unsupported> {
    let [signed, a, b] = signs(mnemonic);
    let mask = match selected(d, 0)?.0 {
        None => (1 << lanes) - 1,
        Some(selector) => selector
            .places()
            .iter()
            .fold(0, |mask, &place| mask | 1 << (place % lanes)),
    };
    let simd = Simd {
        operation,
        lanes,
        a: places(selected(d, 1)?.0, lanes, 0)?,
        b: places(selected(d, 2)?.0, lanes, lanes)?,
        signed: [a, b, signed],
        sat: mnemonic.sat(),
        add: mnemonic.has(Word::Add),
        mask,
    };
    let mut op = d.whole(Class::Alu, |warp, op, mask| {
        let simd = *warp.data::<Simd>(op);
        warp.map3(op, mask, |a: u32, b: u32, c: u32| simd.run(a, b, c))
    });
    sources(d, &mut op)?;
    d.record(&mut op, simd);
    Ok(op)
}

/// Places of the lanes from the lowest; without a selector those of the operand itself, from `first` on.
fn places(selector: Option<Selector>, lanes: u8, first: u8) -> Result<[u8; 4], Unsupported> {
    let mut result = [first, first + 1, first + 2, first + 3];
    if let Some(selector) = selector {
        let named = selector.places();
        if named.len() != usize::from(lanes) {
            return Err(Unsupported::new("selector of another number of lanes"));
        }
        for (place, &name) in result.iter_mut().zip(named.iter().rev()) {
            *place = name % (2 * lanes);
        }
    }
    Ok(result)
}

/// Destination and up to three sources.
fn sources(d: &mut Decoder<'_>, op: &mut Op) -> Result<(), Unsupported> {
    op.a = d.src::<u32>(1)?;
    op.b = d.src::<u32>(2)?;
    op.c = if d.operand_count() > 3 {
        d.src::<u32>(3)?
    } else {
        d.number(0, 4)
    };
    op.d = d.dst::<u32>(0)?;
    Ok(())
}
