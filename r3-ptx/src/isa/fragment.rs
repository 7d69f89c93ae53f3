//! How many registers the operands of matrix operations have, and of which type.

use super::form::{Count, Matrix, TypeRule};
use super::{Mnemonic, Opcode, ScalarType, Shape, Word};

impl Mnemonic {
    /// Type that a rule gives.
    pub fn resolve(&self, rule: TypeRule) -> Option<ScalarType> {
        match rule {
            TypeRule::Nth(n) => self.types().get(usize::from(n)).copied(),
            TypeRule::Fixed(ty) => Some(ty),
            TypeRule::Wide => Some(match self.ty()? {
                ScalarType::U16 => ScalarType::U32,
                ScalarType::S16 => ScalarType::S32,
                ScalarType::U32 => ScalarType::U64,
                ScalarType::S32 => ScalarType::S64,
                _ => return None,
            }),
        }
    }

    /// Registers of an operand, where the number is fixed; `None`: one without braces.
    pub fn count(&self, count: Count) -> Option<usize> {
        match count {
            Count::One | Count::Parts => None,
            Count::Vector => match self.vector() {
                1 => None,
                n => Some(usize::from(n)),
            },
            Count::Exactly(n) => Some(usize::from(n)),
            Count::Repeat => Some(usize::from(self.repeat()) * self.registers_of_one()),
        }
    }

    /// Registers that `.x1` means.
    fn registers_of_one(&self) -> usize {
        match self.any_of(&[Word::M16N16, Word::N16x128b, Word::N16x256b]) {
            Some(Word::N16x256b) => 4,
            Some(_) => 2,
            None => 1,
        }
    }

    /// Registers of a matrix in one thread: their type and number.
    pub fn fragment(&self, matrix: Matrix) -> Option<(ScalarType, usize)> {
        let matrix = match matrix {
            Matrix::Named => self.named_matrix()?,
            matrix => matrix,
        };
        let shape = self.shape()?;
        let ty = self.element(matrix)?;
        if self.opcode() == Opcode::Wgmma {
            // The rows are spread over the 128 threads of a warp group.
            return Some(packed(
                ty,
                usize::from(shape.m) * usize::from(shape.n) / 128,
            ));
        }
        if let Some(count) = self.irregular(matrix, shape, ty) {
            return Some((packed(ty, 1).0, count));
        }
        let sparse = self.any_of(&[Word::Sp, Word::SpOrderedMetadata]).is_some();
        let (m, n, k) = (
            usize::from(shape.m),
            usize::from(shape.n),
            usize::from(shape.k),
        );
        let elements = match matrix {
            Matrix::A => m * k / if sparse { 2 } else { 1 },
            Matrix::B => n * k,
            _ => m * n,
        } / 32;
        // Formats below a byte lie in bytes, except where a kind packs them.
        let packs = self.any_of(&[Word::KindMxf4, Word::KindMxf4nvf4]).is_some();
        if ty.is_float() && ty.bits() < 8 && !packs {
            return Some((ScalarType::B32, elements / 4));
        }
        Some(packed(ty, elements))
    }

    /// Fragments whose number of registers does not follow from the shape.
    fn irregular(&self, matrix: Matrix, shape: Shape, ty: ScalarType) -> Option<usize> {
        let factor = matches!(matrix, Matrix::A | Matrix::B);
        match self.opcode() {
            // Each thread holds the f16 factors twice.
            Opcode::Wmma if ty == ScalarType::F16 => Some(if factor { 8 } else { 4 }),
            // m8n8k4 on f16 is four products, one for each quarter of the warp.
            Opcode::Mma if shape == (Shape { m: 8, n: 8, k: 4 }) && ty != ScalarType::F64 => {
                let f32 = ty == ScalarType::F32;
                Some(if factor {
                    2
                } else if f32 {
                    8
                } else {
                    4
                })
            }
            _ => None,
        }
    }

    /// Type of the elements of a matrix.
    fn element(&self, matrix: Matrix) -> Option<ScalarType> {
        let types = self.types();
        let nth = |n: usize| types.get(n).copied();
        if self.has(Word::Load) || self.has(Word::Store) {
            return nth(0);
        }
        match (matrix, types.len()) {
            (Matrix::D, _) => nth(0),
            // `wmma.mma….f16.f32`: result and summand; the factors are f16.
            (Matrix::C, 2) => nth(1),
            (_, 2) => Some(ScalarType::F16),
            (Matrix::A, _) => nth(1),
            (Matrix::B, _) => nth(2),
            (_, _) => nth(3),
        }
    }

    fn named_matrix(&self) -> Option<Matrix> {
        self.words().iter().find_map(|word| match word {
            Word::A => Some(Matrix::A),
            Word::B => Some(Matrix::B),
            Word::C => Some(Matrix::C),
            Word::D => Some(Matrix::D),
            _ => None,
        })
    }
}

/// Registers for so many elements.
fn packed(ty: ScalarType, elements: usize) -> (ScalarType, usize) {
    let register = match ty.bits() {
        64 => ScalarType::F64,
        32 if ty != ScalarType::TF32 => ty,
        _ => ScalarType::B32,
    };
    let bits = ty.bits() as usize;
    (
        register,
        (elements * bits).div_ceil(register.bits() as usize),
    )
}
