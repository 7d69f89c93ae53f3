//! For any tree: printing it and parsing the text gives that tree.

use std::collections::HashMap;

use proptest::prelude::*;
use r3_ptx::isa::{Mnemonic, ScalarType, Selector, Space, SpecialRegister};
use r3_ptx::source::Pos;
use r3_ptx::tree::{
    Body, Function, FunctionDirective, Guard, Init, Instruction, Item, Linkage, MnemonicId, Module,
    Name, Number, Operand, PtrAttribute, Range, Statement, Variable,
};

/// An operand with what it holds, before it is laid out in an arena.
#[derive(Clone, Debug)]
enum Shape {
    Name(String),
    Element(String, u8),
    Selected(String, bool, Option<Selector>),
    Special(SpecialRegister),
    Not(String),
    Number(Number),
    Offset(String, i64),
    Sink,
    WarpSize,
    Address(String, i64),
    AddressPlusZero(String),
    Absolute(u64),
    Index(String, Box<Shape>),
    Pair(Box<[Shape; 2]>),
    Vector(Vec<Shape>),
    List(Vec<Shape>),
    AddressList(Vec<Shape>),
}

#[derive(Clone, Debug)]
enum Line {
    Instruction(Option<(bool, String)>, &'static str, Vec<Shape>),
    Label(String),
    Variable(Declared),
    Block(Vec<Line>),
    Pragma(String),
    Targets(bool, Vec<String>),
    Prototype(String, Vec<Declared>, Vec<Declared>, bool),
}

#[derive(Clone, Debug)]
struct Declared {
    linkage: Linkage,
    space: Space,
    align: Option<u32>,
    managed: bool,
    vector: u8,
    ty: ScalarType,
    ptr: Option<PtrAttribute>,
    name: String,
    count: Option<u32>,
    dims: Vec<Option<u64>>,
    init: Option<Value>,
}

#[derive(Clone, Debug)]
enum Value {
    Number(Number),
    Address(String, i64, bool, Option<u64>),
    List(Vec<Value>),
}

/// Lays shapes out in the order in which the text has them.
#[derive(Default)]
struct Builder {
    module: Module,
    names: HashMap<String, Name>,
    mnemonics: HashMap<&'static str, MnemonicId>,
}

const HERE: Pos = Pos { line: 0, column: 0 };

impl Builder {
    fn name(&mut self, text: &str) -> Name {
        let next = Name(self.names.len() as u32);
        *self.names.entry(text.to_string()).or_insert_with(|| {
            self.module.names.push(text.into());
            next
        })
    }

    fn mnemonic(&mut self, text: &'static str) -> MnemonicId {
        let next = MnemonicId(self.mnemonics.len() as u32);
        *self.mnemonics.entry(text).or_insert_with(|| {
            let mnemonic = Mnemonic::parse(text).expect("a mnemonic");
            self.module.mnemonics.push(mnemonic);
            next
        })
    }

    fn range(&mut self, body: &mut Body, list: &[Shape]) -> Range {
        let made: Vec<Operand> = list.iter().map(|shape| self.operand(body, shape)).collect();
        let start = body.operands.len() as u32;
        body.operands.extend(made);
        Range {
            start,
            len: list.len() as u32,
        }
    }

    fn operand(&mut self, body: &mut Body, shape: &Shape) -> Operand {
        match shape {
            Shape::Name(name) => Operand::Name(self.name(name)),
            Shape::Element(name, index) => Operand::Element(self.name(name), *index),
            Shape::Selected(name, negated, selector) => Operand::Selected {
                name: self.name(name),
                negated: *negated,
                selector: *selector,
            },
            Shape::Special(register) => Operand::Special(*register),
            Shape::Not(name) => Operand::Not(self.name(name)),
            Shape::Number(number) => Operand::Number(*number),
            Shape::Offset(name, offset) => Operand::Offset(self.name(name), *offset),
            Shape::Sink => Operand::Sink,
            Shape::WarpSize => Operand::WarpSize,
            Shape::Address(name, offset) => Operand::Address(self.name(name), *offset),
            Shape::AddressPlusZero(name) => Operand::AddressPlusZero(self.name(name)),
            Shape::Absolute(address) => Operand::AbsoluteAddress(*address),
            Shape::Index(name, index) => {
                let list = [Shape::Name(name.clone()), (**index).clone()];
                Operand::Index(self.range(body, &list))
            }
            Shape::Pair(both) => Operand::Pair(self.range(body, &both[..])),
            Shape::Vector(list) => Operand::Vector(self.range(body, list)),
            Shape::List(list) => Operand::List(self.range(body, list)),
            Shape::AddressList(list) => Operand::AddressList(self.range(body, list)),
        }
    }

    fn value(&mut self, value: &Value) -> Init {
        match value {
            Value::Number(number) => Init::Number(*number),
            Value::Address(name, offset, generic, mask) => Init::Address {
                name: self.name(name),
                offset: *offset,
                generic: *generic,
                mask: *mask,
            },
            Value::List(list) => Init::List(list.iter().map(|value| self.value(value)).collect()),
        }
    }

    fn variable(&mut self, declared: &Declared, parameter: bool) -> Variable {
        let name = self.name(&declared.name);
        let init = declared.init.as_ref().filter(|_| !parameter);
        Variable {
            pos: HERE,
            linkage: if parameter {
                Linkage::Internal
            } else {
                declared.linkage
            },
            space: declared.space,
            bank: None,
            align: declared.align,
            attributes: declared
                .managed
                .then(|| ".managed".into())
                .into_iter()
                .collect(),
            vector: declared.vector,
            ty: declared.ty,
            ptr: declared.ptr,
            name,
            count: declared.count,
            dims: declared.dims.clone(),
            init: init.map(|value| self.value(value)),
        }
    }

    fn variables(&mut self, list: &[Declared]) -> Vec<Variable> {
        list.iter()
            .map(|declared| self.variable(declared, true))
            .collect()
    }

    fn lines(&mut self, body: &mut Body, lines: &[Line]) {
        for line in lines {
            let statement = match line {
                Line::Instruction(guard, mnemonic, operands) => {
                    let guard = guard.as_ref().map(|(negated, register)| Guard {
                        negated: *negated,
                        register: self.name(register),
                    });
                    let mnemonic = self.mnemonic(mnemonic);
                    let operands = self.range(body, operands);
                    Statement::Instruction(Instruction {
                        pos: HERE,
                        guard,
                        mnemonic,
                        operands,
                    })
                }
                Line::Label(name) => Statement::Label(HERE, self.name(name)),
                Line::Variable(declared) => {
                    Statement::Variable(Box::new(self.variable(declared, false)))
                }
                Line::Block(lines) => {
                    body.statements.push(Statement::BlockBegin(HERE));
                    self.lines(body, lines);
                    Statement::BlockEnd(HERE)
                }
                Line::Pragma(text) => Statement::Pragma(HERE, vec![text.as_str().into()]),
                Line::Targets(calls, names) => {
                    let names = names.iter().map(|name| self.name(name)).collect();
                    if *calls {
                        Statement::CallTargets(HERE, names)
                    } else {
                        Statement::BranchTargets(HERE, names)
                    }
                }
                Line::Prototype(label, results, params, noreturn) => {
                    let name = self.name(label);
                    body.statements.push(Statement::Label(HERE, name));
                    let results = self.variables(results);
                    let params = self.variables(params);
                    let flag = noreturn.then(|| FunctionDirective::Flag("noreturn".into()));
                    Statement::CallPrototype(
                        HERE,
                        Box::new(Function {
                            pos: HERE,
                            linkage: Linkage::Internal,
                            entry: false,
                            attributes: Vec::new(),
                            results,
                            name,
                            params,
                            has_param_list: true,
                            directives: flag.into_iter().collect(),
                            body: None,
                        }),
                    )
                }
            };
            body.statements.push(statement);
        }
    }
}

fn name() -> BoxedStrategy<String> {
    prop_oneof![
        "%[a-z]{1,2}[0-9]{1,4}",
        "[$][A-Za-z_$]{1,6}",
        "_[a-z0-9$]{1,5}",
        "[A-Z][A-Za-z0-9_$]{0,8}"
    ]
    .prop_filter("has a meaning of its own", |text| {
        text != "WARP_SZ" && SpecialRegister::from_text(text).is_none()
    })
    .boxed()
}

fn literal() -> BoxedStrategy<Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::Signed),
        (-40i64..300).prop_map(Number::Signed),
        Just(Number::Signed(i64::MIN)),
        any::<u64>().prop_map(Number::Unsigned),
        any::<u32>().prop_map(Number::Single),
        any::<u64>().prop_map(Number::Double),
        any::<f64>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(|value| Number::Decimal(value.to_bits())),
    ]
    .boxed()
}

fn leaf() -> BoxedStrategy<Shape> {
    let selector = prop::sample::select(vec!["b0", "b3", "h1", "h10", "b3210", "h32", "b7654"])
        .prop_map(|text| Selector::from_text(text).expect("a selector"));
    let special: Vec<_> = SpecialRegister::plain()
        .chain([
            SpecialRegister::Envreg(31),
            SpecialRegister::Pm(7),
            SpecialRegister::Pm64(0),
        ])
        .collect();
    prop_oneof![
        name().prop_map(Shape::Name),
        (name(), 0u8..4).prop_map(|(name, index)| Shape::Element(name, index)),
        (name(), any::<bool>(), selector).prop_map(|(n, negated, s)| Shape::Selected(
            n,
            negated,
            Some(s)
        )),
        name().prop_map(|name| Shape::Selected(name, true, None)),
        prop::sample::select(special).prop_map(Shape::Special),
        name().prop_map(Shape::Not),
        literal().prop_map(Shape::Number),
        (name(), any::<i64>()).prop_map(|(name, offset)| Shape::Offset(name, offset)),
        Just(Shape::Sink),
        Just(Shape::WarpSize),
    ]
    .boxed()
}

fn bracketed() -> BoxedStrategy<Shape> {
    let list = || prop::collection::vec(leaf(), 0..5);
    let index = prop_oneof![
        name().prop_map(Shape::Name),
        any::<i64>().prop_map(|n| Shape::Number(Number::Signed(n))),
        (name(), any::<i64>()).prop_map(|(name, offset)| Shape::Offset(name, offset)),
    ];
    prop_oneof![
        3 => leaf(),
        1 => (name(), any::<i64>().prop_filter("has its own shape", |n| *n != 0)).prop_map(|(n, o)| Shape::Address(n, o)),
        1 => name().prop_map(|name| Shape::Address(name, 0)),
        1 => name().prop_map(Shape::AddressPlusZero),
        1 => any::<u64>().prop_map(Shape::Absolute),
        1 => (name(), index).prop_map(|(name, index)| Shape::Index(name, Box::new(index))),
        1 => (leaf(), leaf()).prop_map(|(a, b)| Shape::Pair(Box::new([a, b])))
            // After a number, `|` is an operator.
            .prop_filter("no pair", |pair| !matches!(pair, Shape::Pair(both)
                if matches!(both[0], Shape::Number(_) | Shape::WarpSize | Shape::Offset(..)))),
        1 => list().prop_map(Shape::Vector),
        1 => (name(), list(), prop::collection::vec(leaf(), 1..3)).prop_map(|(first, vector, mut rest)| {
            rest.insert(0, Shape::Name(first));
            rest.push(Shape::Vector(vector));
            Shape::AddressList(rest)
        }),
    ]
    .boxed()
}

fn instruction() -> BoxedStrategy<Line> {
    let mnemonic = prop::sample::select(vec![
        "add.s32",
        "ld.global.L1::no_allocate.L2::128B.v2.f32",
        "st.shared::cta.u32",
        "bra.uni",
        "ret",
        "vote.ballot.sync.b32",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        "setp.lt.and.u32",
        "tex.2d.v4.f32.f32",
    ]);
    let call = (
        prop::option::of(prop::collection::vec(leaf(), 0..2)),
        name(),
        prop::option::of(prop::collection::vec(leaf(), 0..4)),
        prop::option::of(name()),
    )
        .prop_map(|(results, target, arguments, table)| {
            let mut list: Vec<Shape> = results.map(Shape::List).into_iter().collect();
            list.push(Shape::Name(target));
            list.extend(arguments.map(Shape::List));
            list.extend(table.map(Shape::Name));
            ("call.uni", list)
        });
    let plain = (mnemonic, prop::collection::vec(bracketed(), 0..5));
    (
        prop::option::of((any::<bool>(), name())),
        prop_oneof![8 => plain, 1 => call],
    )
        .prop_map(|(guard, (mnemonic, operands))| Line::Instruction(guard, mnemonic, operands))
        .boxed()
}

fn value() -> BoxedStrategy<Value> {
    let mask = prop::option::of((0u32..8).prop_map(|byte| 0xFFu64 << (8 * byte)));
    let leaf = prop_oneof![
        literal().prop_map(Value::Number),
        (name(), any::<i64>(), any::<bool>(), mask)
            .prop_map(|(n, o, g, m)| Value::Address(n, o, g, m)),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop::collection::vec(inner, 0..5).prop_map(Value::List)
    })
    .boxed()
}

fn declared() -> BoxedStrategy<Declared> {
    let linkage = prop::sample::select(vec![
        Linkage::Internal,
        Linkage::Extern,
        Linkage::Visible,
        Linkage::Weak,
        Linkage::Common,
    ]);
    let spaces = vec![
        Space::Reg,
        Space::Const,
        Space::Global,
        Space::Local,
        Space::Param,
        Space::Shared,
        Space::SharedCluster,
    ];
    let types = vec![
        ScalarType::B8,
        ScalarType::U64,
        ScalarType::F32,
        ScalarType::Pred,
        ScalarType::F16x2,
        ScalarType::B128,
    ];
    let ptr = (
        prop::option::of(prop::sample::select(vec![
            Space::Global,
            Space::Const,
            Space::Shared,
            Space::Local,
        ])),
        prop::option::of(any::<u32>()),
    )
        .prop_map(|(space, align)| PtrAttribute { space, align });
    let dim = prop::option::of(0u64..=i64::MAX as u64);
    (
        (
            linkage,
            prop::sample::select(spaces),
            prop::option::of(any::<u32>()),
            any::<bool>(),
        ),
        (
            prop::sample::select(vec![1u8, 2, 4, 8]),
            prop::sample::select(types),
            prop::option::of(ptr),
        ),
        (
            name(),
            prop::option::of(any::<u32>()),
            prop::collection::vec(dim, 0..3),
            prop::option::of(value()),
        ),
    )
        .prop_map(
            |((linkage, space, align, managed), (vector, ty, ptr), (name, count, dims, init))| {
                Declared {
                    linkage,
                    space,
                    align,
                    managed,
                    vector,
                    ty,
                    ptr,
                    name,
                    count,
                    dims,
                    init,
                }
            },
        )
        .boxed()
}

fn line() -> BoxedStrategy<Line> {
    let list = || prop::collection::vec(declared(), 0..3);
    let leaf = prop_oneof![
        6 => instruction(),
        1 => name().prop_map(Line::Label),
        2 => declared().prop_map(Line::Variable),
        1 => "[a-z _0-9;{}/*]{0,12}".prop_map(Line::Pragma),
        1 => (any::<bool>(), prop::collection::vec(name(), 1..4)).prop_map(|(c, n)| Line::Targets(c, n)),
        1 => (name(), list(), list(), any::<bool>()).prop_map(|(n, r, p, f)| Line::Prototype(n, r, p, f)),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(Line::Block)
    })
    .boxed()
}

fn module() -> BoxedStrategy<Module> {
    let directives = prop::collection::vec(
        prop_oneof![
            prop::collection::vec(any::<u32>(), 1..4)
                .prop_map(|n| FunctionDirective::Numbers("maxntid".into(), n)),
            Just(FunctionDirective::Flag("explicitcluster".into())),
            Just(FunctionDirective::Pragma(vec![
                "nounroll".into(),
                "x".into()
            ])),
        ],
        0..3,
    );
    let function = (
        name(),
        any::<bool>(),
        prop::collection::vec(declared(), 0..2),
        prop::option::of(prop::collection::vec(declared(), 0..3)),
        directives,
        prop::option::of(prop::collection::vec(line(), 0..12)),
    );
    let item = prop_oneof![
        declared().prop_map(|declared| (Some(declared), None)),
        function.prop_map(|function| (None, Some(function))),
    ];
    let alias = prop::option::of((name(), name()));
    let verbatim = prop::option::of(prop::sample::select(vec![
        ".file 1 \"a; {.cu\"",
        ".file\t2 \"b.cu\", 1700000000, 42",
        ".section .debug_str\n{\n$x: .b8 1,2\n}",
        ".pragma \"a\", \"b\";",
        "@@DWARF .byte 1, 2",
    ]));
    let head = (
        (0u16..20, 0u16..10),
        prop::option::of(prop::sample::select(vec![32u32, 64])),
    );
    (head, prop::collection::vec((item, alias, verbatim), 0..4))
        .prop_map(|((version, address_size), items)| {
            let mut builder = Builder::default();
            builder.module.version = version;
            builder.module.address_size = address_size;
            builder.module.target = vec!["sm_90a".into(), "debug".into()];
            for ((variable, function), alias, verbatim) in items {
                if let Some(declared) = variable {
                    let item = Item::Variable(builder.variable(&declared, false));
                    builder.module.items.push(item);
                }
                if let Some((name, entry, results, params, directives, lines)) = function {
                    let results = if entry {
                        Vec::new()
                    } else {
                        builder.variables(&results)
                    };
                    let name = builder.name(&name);
                    let has_param_list = params.is_some();
                    let params = builder.variables(&params.unwrap_or_default());
                    let body = lines.map(|lines| {
                        let mut body = Body::default();
                        builder.lines(&mut body, &lines);
                        body
                    });
                    let linkage = Linkage::Visible;
                    let function = Function {
                        pos: HERE,
                        linkage,
                        entry,
                        attributes: Vec::new(),
                        results,
                        name,
                        params,
                        has_param_list,
                        directives,
                        body,
                    };
                    builder.module.items.push(Item::Function(function));
                }
                if let Some((alias, target)) = alias {
                    let item = Item::Alias {
                        pos: HERE,
                        alias: builder.name(&alias),
                        target: builder.name(&target),
                    };
                    builder.module.items.push(item);
                }
                if let Some(text) = verbatim {
                    builder.module.items.push(Item::Verbatim {
                        pos: HERE,
                        text: text.into(),
                    });
                }
            }
            builder.module
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn parsing_what_was_printed_gives_the_tree(module in module()) {
        let text = module.to_string();
        let mut again = match r3_ptx::parse(&text) {
            Ok(again) => again,
            Err(errors) => return Err(TestCaseError::fail(errors.render(&text))),
        };
        again.clear_positions();
        prop_assert_eq!(module, again, "{}", text);
    }
}

/// Lines of real files, damaged and mixed: one change is a place, how much goes, and what comes instead.
fn damaged() -> BoxedStrategy<String> {
    const FILES: [&str; 4] = [
        include_str!("fixtures/traps.ptx"),
        include_str!("fixtures/asm.ptx"),
        include_str!("fixtures/hopper.ptx"),
        include_str!("fixtures/variables.ptx"),
    ];
    const PIECES: [&str; 28] = [
        "",
        ";",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ",",
        "|",
        "+0",
        "-",
        "%tid.x",
        "_",
        ".b32",
        "0x8000000000000000",
        ".5",
        "WARP_SZ",
        ":",
        "!",
        "@p ",
        "//",
        "/*",
        "\"",
        "# 1 \"f\"\n",
        "::",
        "<4>",
        " = {1, generic(managed)}",
    ];
    let change = (
        any::<prop::sample::Index>(),
        0usize..6,
        prop::sample::select(PIECES.to_vec()),
    );
    let file = prop::sample::select(FILES.to_vec());
    (
        file,
        any::<prop::sample::Index>(),
        1usize..40,
        prop::collection::vec(change, 0..3),
    )
        .prop_map(|(file, from, lines, changes)| {
            // A few lines in a body that is whole, so that some of it is accepted.
            let all: Vec<&str> = file.lines().collect();
            let from = from.index(all.len());
            let mut text = all[from..all.len().min(from + lines)].join("\n");
            for (at, gone, piece) in changes {
                let at = at.index(text.len() + 1);
                let end = text.len().min(at + gone);
                if text.is_char_boundary(at) && text.is_char_boundary(end) {
                    text.replace_range(at..end, piece);
                }
            }
            format!(".version 9.0\n.target sm_90a\n.address_size 64\n.entry k () {{\n{text}\n}}\n")
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn damaged_text_is_refused_or_read_as_it_is_printed(text in damaged()) {
        match r3_ptx::parse(&text) {
            Err(errors) => {
                prop_assert!(!errors.list.is_empty());
                _ = errors.render(&text);
            }
            Ok(mut module) => {
                _ = r3_ptx::check(&module);
                let printed = module.to_string();
                let mut again = match r3_ptx::parse(&printed) {
                    Ok(again) => again,
                    Err(errors) => return Err(TestCaseError::fail(errors.render(&printed))),
                };
                module.clear_positions();
                again.clear_positions();
                prop_assert_eq!(module, again, "{}", printed);
            }
        }
    }
}
