//! Size, alignment, initial bytes and relocations of variables.

use super::CheckError;
use super::names::{Entity, Names};
use super::numbers;
use crate::isa::{ScalarType, Space};
use crate::tree::{self, Init};
use crate::typed::{Relocation, Symbol, Variable};

/// The most bytes of a variable with an initialiser.
pub const MOST_INITIAL_BYTES: u64 = 1 << 28;

/// A variable without its initial bytes.
pub(super) fn variable(
    tree: &tree::Module,
    variable: &tree::Variable,
) -> Result<Variable, CheckError> {
    let name = tree.name(variable.name);
    let wrong = |why: &str| CheckError::Variable {
        name: name.into(),
        why: why.into(),
    };
    let vector = variable.vector.max(1);
    let element = variable.ty.bytes() * u64::from(vector);
    let unsized_array = variable.dims.contains(&None);
    let mut dims = variable.dims.clone();
    if let (Some(first), Some(Init::List(list))) = (dims.first_mut(), &variable.init) {
        // `x[] = { … }` is as long as its list.
        first.get_or_insert(list.len() as u64);
    }
    let count = dims
        .iter()
        .try_fold(1u64, |count, dim| count.checked_mul(dim.unwrap_or(0)));
    let size = count.and_then(|count| count.checked_mul(element));
    let size = size.ok_or_else(|| wrong("its size has more than 64 bits"))?;
    if variable.space == Space::Reg && !variable.dims.is_empty() {
        return Err(wrong("registers have no arrays; use %r<n> for a set"));
    }
    let align = match variable.align {
        Some(align) if !align.is_power_of_two() => {
            return Err(wrong("its alignment is no power of two"));
        }
        Some(align) => u64::from(align),
        // Three elements do not exist: sizes of vectors are powers of two.
        None => element.max(1).next_power_of_two(),
    };
    Ok(Variable {
        pos: variable.pos,
        name: name.into(),
        linkage: variable.linkage,
        space: variable.space,
        ty: variable.ty,
        vector,
        size,
        align,
        unsized_array: unsized_array && variable.init.is_none(),
        managed: variable.attributes.iter().any(|a| a.contains("managed")),
        ptr: variable.ptr,
        init: None,
        relocations: Vec::new(),
    })
}

/// Fills in the initial bytes.
pub(super) fn initialise(
    tree: &tree::Module,
    names: &Names<'_>,
    variable: &tree::Variable,
    made: &mut Variable,
) -> Result<(), CheckError> {
    let (Some(init), name) = (&variable.init, tree.name(variable.name)) else {
        return Ok(());
    };
    if matches!(init, Init::Fields(_)) {
        return Ok(());
    }
    let wrong = |why: String| CheckError::Variable {
        name: name.into(),
        why: why.into(),
    };
    if made.size > MOST_INITIAL_BYTES {
        return Err(wrong(format!(
            "it has {} bytes and an initialiser; {MOST_INITIAL_BYTES} are the limit",
            made.size
        )));
    }
    if variable.space == Space::Shared {
        return Err(wrong("shared variables have no initialisers".into()));
    }
    // Elements below each level of braces.
    let mut below = vec![u64::from(made.vector)];
    for dim in variable.dims.iter().rev() {
        let last = below.last().copied().unwrap_or(1);
        below.push(last.saturating_mul(dim.unwrap_or(1)));
    }
    below.reverse();
    let mut filler = Filler {
        tree,
        names,
        ty: made.ty,
        bytes: vec![0; made.size as usize],
        relocations: Vec::new(),
        below,
    };
    match init {
        Init::List(list) => filler.list(list, 0, 0).map_err(wrong)?,
        init => filler.element(init, 0).map_err(wrong)?,
    }
    made.init = Some(filler.bytes);
    made.relocations = filler.relocations;
    Ok(())
}

struct Filler<'a, 't> {
    tree: &'t tree::Module,
    names: &'a Names<'t>,
    ty: ScalarType,
    bytes: Vec<u8>,
    relocations: Vec<Relocation>,
    below: Vec<u64>,
}

impl Filler<'_, '_> {
    /// A list in braces, whose first element is number `first`.
    fn list(&mut self, list: &[Init], level: usize, first: u64) -> Result<(), String> {
        // Entries of the list cover this many elements when they are in braces themselves.
        let step = self.below.get(level + 1).copied().unwrap_or(1).max(1);
        let mut at = first;
        for init in list {
            if let Init::List(inner) = init {
                // A list begins where its row begins.
                at = first + (at - first).div_ceil(step) * step;
                self.list(inner, level + 1, at)?;
                at += step;
            } else {
                self.element(init, at)?;
                at += 1;
            }
        }
        Ok(())
    }

    fn element(&mut self, init: &Init, at: u64) -> Result<(), String> {
        let width = self.ty.bytes();
        let offset = at * width;
        let room = self.bytes.len() as u64 / width.max(1);
        if at >= room {
            return Err(format!("its initialiser has more than its {room} elements"));
        }
        match init {
            Init::Number(number) => {
                let bits = initial_bits(*number, self.ty).ok_or_else(|| {
                    format!("{} is no value of .{}", numbers::describe(*number), self.ty)
                })?;
                let bytes = bits.to_le_bytes();
                let to = self
                    .bytes
                    .get_mut(offset as usize..(offset + width) as usize);
                for (to, from) in to.unwrap_or_default().iter_mut().zip(bytes) {
                    *to = from;
                }
                Ok(())
            }
            Init::Address {
                name,
                offset: addend,
                generic,
                mask,
            } => {
                let text = self.tree.name(*name);
                let symbol = match self.names.get(*name) {
                    Some(Entity::Variable(id)) => Symbol::Variable(id),
                    Some(Entity::Function(id)) => Symbol::Function(id),
                    Some(other) => return Err(format!("`{text}` is {}", other.what())),
                    None => return Err(format!("unknown variable or function `{text}`")),
                };
                let (shift, bytes) = match mask {
                    Some(mask) => byte_of(*mask)
                        .ok_or_else(|| format!("the mask {mask:#x} takes no whole byte"))?,
                    None => (0, width.min(8) as u8),
                };
                self.relocations.push(Relocation {
                    offset,
                    bytes,
                    shift,
                    symbol,
                    addend: *addend,
                    generic: *generic,
                });
                Ok(())
            }
            Init::List(list) => match list.as_slice() {
                [only] => self.element(only, at),
                _ => Err("its initialiser has more braces than it has dimensions".into()),
            },
            Init::Fields(_) => Err("lists of fields are for textures".into()),
        }
    }
}

/// As [`numbers::bits`]; an integer may initialise a float.
fn initial_bits(number: tree::Number, ty: ScalarType) -> Option<u64> {
    if let (Some(value), true) = (numbers::integer(number), ty.is_float()) {
        let value = tree::Number::Decimal((value as f64).to_bits());
        return numbers::bits(value, ty);
    }
    numbers::bits(number, ty)
}

/// Shift and width of the byte that a mask takes.
fn byte_of(mask: u64) -> Option<(u8, u8)> {
    let shift = mask.trailing_zeros();
    (mask != 0 && shift.is_multiple_of(8) && mask >> shift == 0xFF).then_some((shift as u8, 1))
}
