//! The syntax tree: what the text says, in its order, nothing resolved.
//!
//! Printing a tree and parsing the text gives the same tree (positions apart).

use crate::isa::{Mnemonic, ScalarType, Selector, Space, SpecialRegister};
use crate::source::Pos;

/// An identifier, interned in [`Module::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u32);

/// A mnemonic with its modifiers, interned in [`Module::mnemonics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MnemonicId(pub u32);

/// A range of an arena: [`Body::operands`] for operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Range {
    /// Index of the first.
    pub start: u32,
    /// How many.
    pub len: u32,
}

/// One PTX module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// `.version` major.minor.
    pub version: (u16, u16),
    /// `.target`, e.g. `["sm_90a", "debug"]`.
    pub target: Vec<String>,
    /// `.address_size`, where it is given.
    pub address_size: Option<u32>,
    /// Everything at module level, in the order of the text.
    pub items: Vec<Item>,
    /// Text of identifiers, by [`Name`].
    pub names: Vec<Box<str>>,
    /// Mnemonics in use, by [`MnemonicId`].
    pub mnemonics: Vec<Mnemonic>,
}

impl Module {
    /// Text of an identifier.
    pub fn name(&self, name: Name) -> &str {
        self.names.get(name.0 as usize).map_or("", |n| n)
    }

    /// A mnemonic.
    ///
    /// # Panics
    /// When the id is of another module.
    pub fn mnemonic(&self, id: MnemonicId) -> &Mnemonic {
        &self.mnemonics[id.0 as usize]
    }
}

impl Module {
    /// Sets every place to 0:0, so that modules with the same content are equal.
    pub fn clear_positions(&mut self) {
        let none = Pos::default();
        for item in &mut self.items {
            match item {
                Item::Variable(variable) => variable.pos = none,
                Item::Function(function) => function.clear_positions(),
                Item::Alias { pos, .. } | Item::Verbatim { pos, .. } => *pos = none,
            }
        }
    }
}

/// Something at module level.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A variable in `.global`, `.const`, `.shared`, or a texture, sampler or surface reference.
    Variable(Variable),
    /// An entry or a device function, with or without body.
    Function(Function),
    /// `.alias a, b;`
    Alias {
        /// Place of the directive.
        pos: Pos,
        /// The new name.
        alias: Name,
        /// The function it stands for.
        target: Name,
    },
    /// `.file`, `.section … { … }`, module-level `.pragma`, `@@DWARF` and the like: kept as text, from the first to the
    /// last byte, without the line end.
    Verbatim {
        /// Place of the first byte.
        pos: Pos,
        /// The text.
        text: Box<str>,
    },
}

/// `.extern`, `.visible`, `.weak`, `.common`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// None given.
    #[default]
    Internal,
    /// `.extern`
    Extern,
    /// `.visible`
    Visible,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

/// A variable, a parameter, or the registers of one `.reg`.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Place of the name.
    pub pos: Pos,
    /// Linkage.
    pub linkage: Linkage,
    /// State space; [`Space::Reg`] for `.reg`.
    pub space: Space,
    /// Bank of `.const[n]`.
    pub bank: Option<u32>,
    /// `.align`, as given.
    pub align: Option<u32>,
    /// `.attribute(…)`: each entry as text without blanks, e.g. `.managed`, `.unified(1,2)`.
    pub attributes: Vec<Box<str>>,
    /// `.v2`, `.v4`, `.v8`: elements of a vector; 1 for a scalar.
    pub vector: u8,
    /// Type of an element.
    pub ty: ScalarType,
    /// `.ptr` of a kernel parameter.
    pub ptr: Option<PtrAttribute>,
    /// Name.
    pub name: Name,
    /// `<n>` after the name: a set of names `name0` … `name(n-1)`.
    pub count: Option<u32>,
    /// Dimensions; `None` is `[]`.
    pub dims: Vec<Option<u64>>,
    /// `= …`
    pub init: Option<Init>,
}

/// `.ptr{.space}{.align n}` of a kernel parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PtrAttribute {
    /// Space, where one is given.
    pub space: Option<Space>,
    /// Alignment of what it points to, where given.
    pub align: Option<u32>,
}

/// An initialiser.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// A number.
    Number(Number),
    /// `name`, `name+4`, `generic(name)+4`; `mask(n)` in front takes one byte of the address: `0xFF(name)`.
    Address {
        /// Symbol.
        name: Name,
        /// Added to its address.
        offset: i64,
        /// `generic(…)`
        generic: bool,
        /// `0xFF(…)`, `0xFF00(…)` …: which byte of the address, as a mask.
        mask: Option<u64>,
    },
    /// `{ …, … }`
    List(Vec<Init>),
    /// `"…"` is not PTX for variables, but texture references have `name = value` lists: kept as text.
    Fields(Box<str>),
}

/// A literal number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A signed literal (`-1`, `12`).
    Signed(i64),
    /// A literal with `U`, or one that needs 64 unsigned bits.
    Unsigned(u64),
    /// `0f3F800000`
    Single(u32),
    /// `0d3FF0000000000000`
    Double(u64),
    /// `1.5`, `1e-3`: bits of the double.
    Decimal(u64),
}

/// An entry or a device function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Place of the name.
    pub pos: Pos,
    /// Linkage.
    pub linkage: Linkage,
    /// `.entry`, not `.func`.
    pub entry: bool,
    /// `.attribute(…)` of the function.
    pub attributes: Vec<Box<str>>,
    /// Results of a `.func`.
    pub results: Vec<Variable>,
    /// Name.
    pub name: Name,
    /// Parameters.
    pub params: Vec<Variable>,
    /// Whether a list of parameters is written at all (`.entry f { … }` has none).
    pub has_param_list: bool,
    /// The last parameter is followed by unsized varargs (`.param .b8 x[]`): kept as an ordinary parameter with dim `None`.
    pub directives: Vec<FunctionDirective>,
    /// Body; `None` for a declaration.
    pub body: Option<Body>,
}

impl Function {
    fn clear_positions(&mut self) {
        let none = Pos::default();
        self.pos = none;
        for variable in self.results.iter_mut().chain(&mut self.params) {
            variable.pos = none;
        }
        let statements = self.body.iter_mut().flat_map(|body| &mut body.statements);
        for statement in statements {
            match statement {
                Statement::Instruction(instruction) => instruction.pos = none,
                Statement::Variable(variable) => variable.pos = none,
                Statement::CallPrototype(pos, function) => {
                    *pos = none;
                    function.clear_positions();
                }
                Statement::Label(pos, _)
                | Statement::BlockBegin(pos)
                | Statement::BlockEnd(pos)
                | Statement::Loc(pos, _)
                | Statement::Pragma(pos, _)
                | Statement::BranchTargets(pos, _)
                | Statement::CallTargets(pos, _)
                | Statement::Verbatim(pos, _) => *pos = none,
            }
        }
    }
}

/// A directive between parameters and body, or one of a prototype.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionDirective {
    /// `.maxntid`, `.reqntid`, `.minnctapersm`, `.maxnctapersm`, `.maxnreg`, `.reqnctapercluster`,
    /// `.maxclusterrank`, …: the name without dot, and its numbers.
    Numbers(Box<str>, Vec<u32>),
    /// `.noreturn`, `.explicitcluster`, `.blocksareclusters`, `.unique`, …: the name without dot.
    Flag(Box<str>),
    /// `.pragma "…", "…";`
    Pragma(Vec<Box<str>>),
    /// `.abi_preserve n`, `.abi_preserve_control n` and what else has text: as written.
    Verbatim(Box<str>),
}

/// What stands between the braces of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// Statements; nested blocks are flat, between [`Statement::BlockBegin`] and [`Statement::BlockEnd`].
    pub statements: Vec<Statement>,
    /// Arena of operands: [`Instruction::operands`], [`Operand::Vector`] and the like point into it.
    pub operands: Vec<Operand>,
}

impl Body {
    /// Operands of a range; none when it is of another body.
    pub fn range(&self, range: Range) -> &[Operand] {
        let start = range.start as usize;
        self.operands
            .get(start..start.saturating_add(range.len as usize))
            .unwrap_or_default()
    }
}

/// One statement of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// An instruction.
    Instruction(Instruction),
    /// `name:`
    Label(Pos, Name),
    /// `.reg`, `.local`, `.shared`, `.param`, … inside the body. One for each declared name.
    Variable(Box<Variable>),
    /// `{`
    BlockBegin(Pos),
    /// `}`
    BlockEnd(Pos),
    /// `.loc file line column {, function_name …}`: as written, with what follows on the line.
    Loc(Pos, Box<str>),
    /// `.pragma "…", "…";`
    Pragma(Pos, Vec<Box<str>>),
    /// `label: .branchtargets a, b, c;` (the label is a [`Statement::Label`] before it)
    BranchTargets(Pos, Vec<Name>),
    /// `label: .calltargets a, b;`
    CallTargets(Pos, Vec<Name>),
    /// `label: .callprototype (…) _ (…) .noreturn;`: a function without body whose name is the label.
    CallPrototype(Pos, Box<Function>),
    /// Another directive: as written.
    Verbatim(Pos, Box<str>),
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instruction {
    /// Place of the guard, or of the mnemonic.
    pub pos: Pos,
    /// `@p`, `@!p`
    pub guard: Option<Guard>,
    /// Opcode with modifiers.
    pub mnemonic: MnemonicId,
    /// Operands, in [`Body::operands`].
    pub operands: Range,
}

/// `@p`, `@!p`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// `!`
    pub negated: bool,
    /// The predicate register.
    pub register: Name,
}

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// A register, variable, label or function.
    Name(Name),
    /// `%v.x`: an element (0–3) of a vector register.
    Element(Name, u8),
    /// `%r.b0`, `%r.h10`, `-%r.b3`, `-%r` of a video instruction.
    Selected {
        /// The register.
        name: Name,
        /// `-` in front.
        negated: bool,
        /// Bytes or halves, where they are given.
        selector: Option<Selector>,
    },
    /// `%tid.x`, `%laneid`, …
    Special(SpecialRegister),
    /// `!%p`
    Not(Name),
    /// A literal; `-x` is folded into it.
    Number(Number),
    /// `name+4` outside brackets.
    Offset(Name, i64),
    /// `_`
    Sink,
    /// `WARP_SZ`
    WarpSize,
    /// `d|p`: two destinations, in [`Body::operands`].
    Pair(Range),
    /// `{a, b, …}`, in [`Body::operands`].
    Vector(Range),
    /// `(a, b, …)` of a call, in [`Body::operands`].
    List(Range),
    /// `array[1]`, `array[%r]`, `array[%r+1]`: an address in hand-written PTX. Two operands in [`Body::operands`]: the
    /// array's name; a number, a name or an [`Operand::Offset`].
    Index(Range),
    /// `[name]`, `[name+4]`, `[name+-4]`
    Address(Name, i64),
    /// `[name+0]`: as `[name]`, but without optimisation assemblers make other code of it.
    AddressPlusZero(Name),
    /// `[number]`
    AbsoluteAddress(u64),
    /// `[a, b, …]` of textures and tensors: elements in [`Body::operands`]. The first has its offset as [`Operand::Offset`].
    AddressList(Range),
}
