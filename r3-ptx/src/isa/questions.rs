//! Questions to a mnemonic: what its words mean, in whatever order they stand.

use super::{Mnemonic, Opcode, ScalarType, Space, Word};

macro_rules! meanings {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $($word:ident)|+,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Meaning of a word, where it has one of these.
            pub fn from_word(word: Word) -> Option<Self> {
                match word {
                    $($(Word::$word)|+ => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

meanings! {
/// A rounding mode.
Rounding {
    /// To nearest, ties to even: `.rn`
    Nearest = Rn,
    /// Towards zero: `.rz`
    Zero = Rz,
    /// Towards minus infinity: `.rm`
    Down = Rm,
    /// Towards plus infinity: `.rp`
    Up = Rp,
    /// To nearest, ties away from zero: `.rna`
    NearestAway = Rna,
    /// With random bits: `.rs`
    Stochastic = Rs,
    /// To an integer, ties to even: `.rni`
    NearestInt = Rni,
    /// To an integer, towards zero: `.rzi`
    ZeroInt = Rzi,
    /// To an integer, towards minus infinity: `.rmi`
    DownInt = Rmi,
    /// To an integer, towards plus infinity: `.rpi`
    UpInt = Rpi,
}
}

meanings! {
/// A comparison of `set`, `setp`, `vset`.
Comparison {
    /// `.eq`
    Eq = Eq,
    /// `.ne`
    Ne = Ne,
    /// `.lt`
    Lt = Lt,
    /// `.le`
    Le = Le,
    /// `.gt`
    Gt = Gt,
    /// `.ge`
    Ge = Ge,
    /// `.lo`
    Lo = Lo,
    /// `.ls`
    Ls = Ls,
    /// `.hi`
    Hi = Hi,
    /// `.hs`
    Hs = Hs,
    /// `.equ`
    Equ = Equ,
    /// `.neu`
    Neu = Neu,
    /// `.ltu`
    Ltu = Ltu,
    /// `.leu`
    Leu = Leu,
    /// `.gtu`
    Gtu = Gtu,
    /// `.geu`
    Geu = Geu,
    /// `.num`
    Num = Num,
    /// `.nan`
    Nan = Nan,
}
}

meanings! {
/// What combines a comparison with a predicate.
Boolean {
    /// `.and`
    And = And,
    /// `.or`
    Or = Or,
    /// `.xor`
    Xor = Xor,
}
}

meanings! {
/// Memory order, or the old `.volatile`.
Order {
    /// `.weak`
    Weak = Weak,
    /// `.relaxed`
    Relaxed = Relaxed,
    /// `.acquire`
    Acquire = Acquire,
    /// `.release`
    Release = Release,
    /// `.acq_rel`
    AcqRel = AcqRel,
    /// `.sc`
    SeqCst = Sc,
    /// `.volatile`
    Volatile = Volatile,
    /// `.mmio`
    Mmio = Mmio,
}
}

meanings! {
/// Scope of a memory operation.
Scope {
    /// `.cta`
    Cta = Cta,
    /// `.cluster`
    Cluster = Cluster,
    /// `.gpu`, and `.gl` of `membar`
    Gpu = Gpu | Gl,
    /// `.sys`
    Sys = Sys,
}
}

meanings! {
/// Operation of an atomic, a reduction or a vote.
Operation {
    /// `.and`
    And = And,
    /// `.or`
    Or = Or,
    /// `.xor`
    Xor = Xor,
    /// `.add`
    Add = Add,
    /// `.inc`
    Inc = Inc,
    /// `.dec`
    Dec = Dec,
    /// `.min`
    Min = Min,
    /// `.max`
    Max = Max,
    /// `.cas`
    Cas = Cas,
    /// `.exch`
    Exch = Exch,
    /// `.popc`
    Popc = Popc,
}
}

/// Rows, columns and depth of a matrix operation: `m16n8k16`. `k` is 0 where the text has none (`m8n8`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Rows of the result.
    pub m: u16,
    /// Columns of the result.
    pub n: u16,
    /// Depth.
    pub k: u16,
}

impl Shape {
    /// Reads a word like `m16n8k16` or `m8n8`.
    pub fn from_word(word: Word) -> Option<Self> {
        let rest = word.text().strip_prefix('m')?;
        let (m, rest) = rest.split_once('n')?;
        let (n, k) = rest.split_once('k').unwrap_or((rest, "0"));
        Some(Self {
            m: m.parse().ok()?,
            n: n.parse().ok()?,
            k: k.parse().ok()?,
        })
    }
}

impl Mnemonic {
    /// Whether a modifier is there.
    pub fn has(&self, word: Word) -> bool {
        self.words().contains(&word)
    }

    /// Whether one of them is there: the first of the text.
    pub fn any_of(&self, words: &[Word]) -> Option<Word> {
        self.words()
            .iter()
            .copied()
            .find(|word| words.contains(word))
    }

    /// The first type of the text.
    pub fn ty(&self) -> Option<ScalarType> {
        self.types().first().copied()
    }

    fn first<T>(&self, meaning: impl Fn(Word) -> Option<T>) -> Option<T> {
        self.words().iter().find_map(|&word| meaning(word))
    }

    /// Rounding mode, where one is given.
    pub fn rounding(&self) -> Option<Rounding> {
        self.first(Rounding::from_word)
    }

    /// `.ftz`
    pub fn ftz(&self) -> bool {
        self.has(Word::Ftz)
    }

    /// `.sat`
    pub fn sat(&self) -> bool {
        self.has(Word::Sat)
    }

    /// `.satfinite`
    pub fn satfinite(&self) -> bool {
        self.has(Word::Satfinite)
    }

    /// `.relu`
    pub fn relu(&self) -> bool {
        self.has(Word::Relu)
    }

    /// `.approx`
    pub fn approx(&self) -> bool {
        self.has(Word::Approx)
    }

    /// State space: the first of the text. `None` where none is given (a generic address).
    pub fn space(&self) -> Option<Space> {
        self.first(space_of)
    }

    /// All state spaces, in the order of the text: `cp.async.bulk.shared::cluster.global…` has two.
    pub fn spaces(&self) -> impl Iterator<Item = Space> + '_ {
        self.words().iter().filter_map(|&word| space_of(word))
    }

    /// Comparison of `set`, `setp` and the like.
    pub fn comparison(&self) -> Option<Comparison> {
        self.first(Comparison::from_word)
    }

    /// What combines a comparison with a predicate; also that of `lop3.or`.
    pub fn boolean(&self) -> Option<Boolean> {
        self.first(Boolean::from_word)
    }

    /// Elements of `.v2`, `.v4`, `.v8`; 1 without.
    pub fn vector(&self) -> u8 {
        self.first(|word| match word {
            Word::V2 => Some(2),
            Word::V4 => Some(4),
            Word::V8 => Some(8),
            _ => None,
        })
        .unwrap_or(1)
    }

    /// The number of `.x1` … `.x128`; 1 without.
    pub fn repeat(&self) -> u8 {
        self.first(|word| match word {
            Word::X1 => Some(1),
            Word::X2 => Some(2),
            Word::X4 => Some(4),
            Word::X8 => Some(8),
            Word::X16 => Some(16),
            Word::X32 => Some(32),
            Word::X64 => Some(64),
            Word::X128 => Some(128),
            _ => None,
        })
        .unwrap_or(1)
    }

    /// Memory order, where one is given.
    pub fn order(&self) -> Option<Order> {
        self.first(Order::from_word)
    }

    /// Scope, where one is given. The `.cluster` of `barrier.cluster` is none.
    pub fn scope(&self) -> Option<Scope> {
        if self.opcode() == Opcode::Barrier {
            return None;
        }
        self.first(Scope::from_word)
    }

    /// Operation of an atomic, a reduction, or of `bar.red`.
    pub fn operation(&self) -> Option<Operation> {
        self.first(Operation::from_word)
    }

    /// Shape of a matrix operation.
    pub fn shape(&self) -> Option<Shape> {
        self.first(Shape::from_word)
    }

    /// `.row` and `.col`, in the order of the text; `true` is row.
    pub fn layouts(&self) -> impl Iterator<Item = bool> + '_ {
        self.words().iter().filter_map(|word| match word {
            Word::Row => Some(true),
            Word::Col => Some(false),
            _ => None,
        })
    }
}

/// State space that a word names.
fn space_of(word: Word) -> Option<Space> {
    match word {
        Word::Const => Some(Space::Const),
        Word::Global => Some(Space::Global),
        Word::Local => Some(Space::Local),
        Word::Param => Some(Space::Param),
        Word::ParamEntry => Some(Space::ParamEntry),
        Word::ParamFunc => Some(Space::ParamFunc),
        Word::Shared => Some(Space::Shared),
        Word::SharedCta => Some(Space::SharedCta),
        Word::SharedCluster => Some(Space::SharedCluster),
        _ => None,
    }
}
