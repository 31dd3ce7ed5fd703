//! A reader of pickles that hold names, numbers, containers and tensors.
//!
//! A pickle is a program of a stack machine (Python's `pickletools` lists its opcodes), and one opcode calls any function
//! by name. Here a name is one of the few of [`Name`], and calls build tensors and dicts; every other opcode, name or call
//! is an error that says which.

use landfall::DType;
use std::collections::HashMap;
use std::rc::Rc;

/// Elements in memory.
#[derive(Debug, Clone)]
pub(super) struct Storage {
    /// Name of its record.
    pub(super) key: Rc<str>,
    pub(super) dtype: DType,
    pub(super) elements: usize,
}

/// A view of a storage.
#[derive(Debug)]
pub(super) struct Tensor {
    pub(super) storage: Rc<Storage>,
    pub(super) offset: usize,
    pub(super) size: Vec<usize>,
    pub(super) stride: Vec<usize>,
    /// Whether its elements are those of the storage with the other sign: torch's negative bit.
    pub(super) negative: bool,
}

/// What names stand for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Name {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    /// Of dtypes that have no storage class of their own, none of which is supported: the dtype's name is read later.
    RebuildOther,
    UntypedStorage,
    Storage(DType),
}

/// What a dict within a container says of a tensor. What else it holds is dropped.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    negative: bool,
    /// A mark that is set and is not known.
    other: Option<Rc<str>>,
}

/// A value on the stack. Copies of one are cheap, whatever it holds.
#[derive(Debug, Clone)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float,
    Str(Rc<str>),
    Name(Name),
    Tuple(Rc<Vec<Value>>),
    List,
    Dict(Vec<(Value, Value)>),
    /// A dict within a container: versions of modules, hooks, marks of a tensor. Nothing in it is deep.
    Inner(Marks),
    Storage(Rc<Storage>),
    Tensor(Rc<Tensor>),
    Mark,
}

impl Value {
    /// What it is, in a sentence.
    pub(super) const fn what(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "an integer",
            Self::Float => "a float",
            Self::Str(_) => "text",
            Self::Name(_) => "a name",
            Self::Tuple(_) => "a tuple",
            Self::List => "a list",
            Self::Dict(_) | Self::Inner(_) => "a dict",
            Self::Storage(_) => "a storage",
            Self::Tensor(_) => "a tensor",
            Self::Mark => "a mark",
        }
    }

    /// As an element of a container.
    fn inner(self) -> Result<Self, String> {
        if let Self::Dict(entries) = &self {
            let mut marks = Marks::default();
            for (key, value) in entries {
                match (key, value) {
                    (_, Self::Bool(false)) => {}
                    (Self::Str(name), Self::Bool(true)) if &**name == "neg" => marks.negative = true,
                    (Self::Str(name), _) => marks.other = Some(Rc::clone(name)),
                    _ => marks.other = Some("of no name".into()),
                }
            }
            return Ok(Self::Inner(marks));
        }
        // The arguments of a call hold the tuples of sizes and strides, and those hold none.
        if let Self::Tuple(items) = &self
            && items.iter().any(|item| matches!(item, Self::Tuple(_)))
        {
            return Err("it holds tuples of tuples; save model.state_dict()".to_owned());
        }
        Ok(self)
    }
}

/// The name of a module's attribute.
fn name(module: &str, attribute: &str) -> Result<Name, String> {
    let dtype = match (module, attribute) {
        ("collections", "OrderedDict") => return Ok(Name::OrderedDict),
        ("torch._utils", "_rebuild_tensor_v2") => return Ok(Name::RebuildTensor),
        ("torch._utils", "_rebuild_parameter") => return Ok(Name::RebuildParameter),
        ("torch", "FloatStorage") => DType::F32,
        ("torch", "DoubleStorage") => DType::F64,
        ("torch", "HalfStorage") => DType::F16,
        ("torch", "BFloat16Storage") => DType::BF16,
        ("torch", "IntStorage") => DType::I32,
        ("torch", "LongStorage") => DType::I64,
        ("torch", "ByteStorage") => DType::U8,
        ("torch", "BoolStorage") => DType::Bool,
        ("torch._utils", "_rebuild_tensor_v3") => return Ok(Name::RebuildOther),
        ("torch.storage", "UntypedStorage") => return Ok(Name::UntypedStorage),
        _ => {
            if let Some(what) = unsupported(module, attribute) {
                return Err(format!(
                    "it holds {what}, which is not supported; convert it before it is saved"
                ));
            }
            return Err(format!(
                "it holds the Python object {module}.{attribute}, which is not loaded; save names and tensors alone, with \
                 torch.save(model.state_dict(), path)"
            ));
        }
    };
    Ok(Name::Storage(dtype))
}

/// What torch saves and is no tensor here, in words.
fn unsupported(module: &str, attribute: &str) -> Option<String> {
    let dtype = match (module, attribute) {
        ("torch._utils", "_rebuild_sparse_tensor") => return Some("a sparse tensor".to_owned()),
        ("torch._utils", "_rebuild_qtensor") => return Some("a quantized tensor".to_owned()),
        ("torch._utils", "_rebuild_nested_tensor") => return Some("a nested tensor".to_owned()),
        ("torch._utils", "_rebuild_meta_tensor_no_storage") => {
            return Some("a tensor of the device meta, without elements".to_owned());
        }
        ("torch._tensor", "_rebuild_from_type_v2") => {
            return Some("a tensor of a class or with attributes of its own".to_owned());
        }
        ("torch", "CharStorage") => "int8",
        ("torch", "ShortStorage") => "int16",
        ("torch", "ComplexFloatStorage") => "complex64",
        ("torch", "ComplexDoubleStorage") => "complex128",
        ("torch", dtype)
            if ["float", "uint", "int", "complex", "bits"].iter().any(|kind| dtype.starts_with(kind)) =>
        {
            dtype
        }
        ("torch", storage) if storage.ends_with("Storage") => return Some(format!("a torch.{storage}")),
        _ => return None,
    };
    Some(format!("a tensor of dtype torch.{dtype}"))
}

/// The bytes that are left.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or("its pickle is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| "its pickle is cut off".to_owned())
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.bytes().map(|[byte]| byte)
    }

    fn count(&mut self) -> Result<usize, String> {
        usize::try_from(u32::from_le_bytes(self.bytes()?)).map_err(|e| e.to_string())
    }

    fn text(&mut self, n: usize) -> Result<&'a str, String> {
        std::str::from_utf8(self.take(n)?).map_err(|_| "a name in its pickle is not UTF-8".to_owned())
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let n = self.0.iter().position(|b| *b == b'\n').ok_or("its pickle is cut off")?;
        let line = self.text(n)?;
        self.take(1)?;
        Ok(line)
    }
}

#[derive(Default)]
struct Machine {
    stack: Vec<Value>,
    /// What opcodes refer back to. A dict is `None`: a state dict refers to none, and it changes after it is noted.
    memo: HashMap<usize, Option<Value>>,
}

const UNDERFLOW: &str = "its pickle takes more from the stack than there is";

impl Machine {
    fn pop(&mut self) -> Result<Value, String> {
        self.stack.pop().ok_or_else(|| UNDERFLOW.to_owned())
    }

    /// What is above the last mark.
    fn marked(&mut self) -> Result<Vec<Value>, String> {
        let at = self.stack.iter().rposition(|v| matches!(v, Value::Mark)).ok_or(UNDERFLOW)?;
        let items = self.stack.split_off(at + 1);
        self.stack.pop();
        Ok(items)
    }

    fn tuple(&mut self, items: Vec<Value>) -> Result<(), String> {
        let items = items.into_iter().map(Value::inner).collect::<Result<Vec<_>, _>>()?;
        self.stack.push(Value::Tuple(Rc::new(items)));
        Ok(())
    }

    fn last(&mut self, n: usize) -> Result<Vec<Value>, String> {
        let at = self.stack.len().checked_sub(n).ok_or(UNDERFLOW)?;
        Ok(self.stack.split_off(at))
    }

    fn note(&mut self, number: usize) -> Result<(), String> {
        let value = self.stack.last().ok_or(UNDERFLOW)?;
        let kept = (!matches!(value, Value::Dict(_) | Value::List | Value::Mark)).then(|| value.clone());
        self.memo.insert(number, kept);
        Ok(())
    }

    fn recall(&mut self, number: usize) -> Result<(), String> {
        let value = self.memo.get(&number).cloned().flatten();
        self.stack.push(value.ok_or("its pickle refers back to a dict, or to nothing")?);
        Ok(())
    }

    fn set(&mut self, items: Vec<Value>) -> Result<(), String> {
        let Some(Value::Dict(entries)) = self.stack.last_mut() else {
            return Err("its pickle fills what is no dict".to_owned());
        };
        let mut items = items.into_iter();
        while let Some(key) = items.next() {
            let value = items.next().ok_or("a key in its pickle has no value")?;
            entries.push((key.inner()?, value.inner()?));
        }
        Ok(())
    }

    /// That a list is what was filled.
    fn on_list(&self) -> Result<(), String> {
        match self.stack.last() {
            Some(Value::List) => Ok(()),
            Some(_) => Err("its pickle fills what is no list".to_owned()),
            None => Err(UNDERFLOW.to_owned()),
        }
    }

    /// Calls a name.
    fn reduce(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let (Value::Name(function), Value::Tuple(arguments)) = (&function, &arguments) else {
            return Err(format!("its pickle calls {} with {}", function.what(), arguments.what()));
        };
        let value = match (function, arguments.as_slice()) {
            (Name::OrderedDict, []) => Value::Dict(Vec::new()),
            (
                Name::RebuildTensor,
                [
                    Value::Storage(storage),
                    Value::Int(offset),
                    Value::Tuple(size),
                    Value::Tuple(stride),
                    rest @ ..,
                ],
            ) => {
                // Whether it has a gradient, its hooks, its marks.
                let marks = match rest.get(2) {
                    None | Some(Value::None) => Marks::default(),
                    Some(Value::Inner(marks)) => marks.clone(),
                    Some(other) => return Err(format!("the marks of a tensor are {}", other.what())),
                };
                if let Some(mark) = marks.other {
                    return Err(format!("a tensor has the mark `{mark}`, which is not supported"));
                }
                let tensor = Tensor {
                    storage: Rc::clone(storage),
                    offset: whole(*offset)?,
                    size: numbers(size)?,
                    stride: numbers(stride)?,
                    negative: marks.negative,
                };
                if tensor.size.len() != tensor.stride.len() {
                    return Err("a tensor has other numbers of sizes and strides".to_owned());
                }
                Value::Tensor(Rc::new(tensor))
            }
            (Name::RebuildParameter, [tensor @ Value::Tensor(_), ..]) => tensor.clone(),
            (function, arguments) => {
                let of: Vec<_> = arguments.iter().map(Value::what).collect();
                return Err(format!("its pickle calls {function:?} with {}", of.join(", ")));
            }
        };
        self.stack.push(value);
        Ok(())
    }

    /// `("storage", type, key, place, elements)`.
    fn storage(&mut self) -> Result<(), String> {
        let id = self.pop()?;
        let Value::Tuple(parts) = &id else {
            return Err(format!("its pickle names a storage by {}", id.what()));
        };
        let [Value::Str(kind), Value::Name(class), Value::Str(key), _, Value::Int(elements)] =
            parts.as_slice()
        else {
            return Err("its pickle names a storage in an unknown form".to_owned());
        };
        let dtype = match class {
            Name::Storage(dtype) => dtype,
            // Bytes; the dtype that they are of is refused by its name, or the call that takes them is.
            Name::UntypedStorage => &DType::U8,
            Name::OrderedDict | Name::RebuildTensor | Name::RebuildParameter | Name::RebuildOther => {
                return Err("its pickle names a storage in an unknown form".to_owned());
            }
        };
        if &**kind != "storage" || key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(format!("its pickle names a {kind} `{key}`, no storage"));
        }
        let storage = Storage { key: Rc::clone(key), dtype: *dtype, elements: whole(*elements)? };
        self.stack.push(Value::Storage(Rc::new(storage)));
        Ok(())
    }
}

fn whole(number: i64) -> Result<usize, String> {
    usize::try_from(number).map_err(|_| format!("a size, stride or offset in its pickle is {number}"))
}

fn numbers(values: &[Value]) -> Result<Vec<usize>, String> {
    let number = |value: &Value| {
        let Value::Int(n) = value else {
            return Err(format!("a size or stride in its pickle is {}", value.what()));
        };
        whole(*n)
    };
    values.iter().map(number).collect()
}

/// The value that a pickle describes.
///
/// # Errors
/// A sentence about what is cut off, or is not loaded.
pub(super) fn load(bytes: &[u8]) -> Result<Value, String> {
    let (mut input, mut m) = (Input(bytes), Machine::default());
    loop {
        match input.byte()? {
            // PROTO
            0x80 => match input.byte()? {
                2..=5 => {}
                other => return Err(format!("its pickle has protocol {other}; 2 to 5 are read")),
            },
            // FRAME: the length of what follows.
            0x95 => drop(input.take(8)?),
            b'(' => m.stack.push(Value::Mark),
            b'N' => m.stack.push(Value::None),
            opcode @ (0x88 | 0x89) => m.stack.push(Value::Bool(opcode == 0x88)),
            b'K' => m.stack.push(Value::Int(input.byte()?.into())),
            b'M' => m.stack.push(Value::Int(u16::from_le_bytes(input.bytes()?).into())),
            b'J' => m.stack.push(Value::Int(i32::from_le_bytes(input.bytes()?).into())),
            // LONG1: two's complement of so many bytes.
            0x8a => {
                let n = usize::from(input.byte()?);
                let digits = input.take(n)?;
                let sign = digits.last().is_some_and(|b| b & 0x80 != 0);
                let mut wide = [if sign { 0xff } else { 0 }; 8];
                wide.get_mut(..n).ok_or("an integer in its pickle has over 64 bits")?.copy_from_slice(digits);
                m.stack.push(Value::Int(i64::from_le_bytes(wide)));
            }
            b'G' => {
                input.take(8)?;
                m.stack.push(Value::Float);
            }
            // BINUNICODE, SHORT_BINUNICODE
            b'X' => {
                let n = input.count()?;
                m.stack.push(Value::Str(input.text(n)?.into()));
            }
            0x8c => {
                let n = usize::from(input.byte()?);
                m.stack.push(Value::Str(input.text(n)?.into()));
            }
            b'}' => m.stack.push(Value::Dict(Vec::new())),
            b']' => m.stack.push(Value::List),
            // APPEND, APPENDS: what a list holds is dropped.
            b'a' => {
                m.pop()?;
                m.on_list()?;
            }
            b'e' => {
                m.marked()?;
                m.on_list()?;
            }
            b')' => m.tuple(Vec::new())?,
            b't' => {
                let items = m.marked()?;
                m.tuple(items)?;
            }
            opcode @ 0x85..=0x87 => {
                let items = m.last(usize::from(opcode - 0x84))?;
                m.tuple(items)?;
            }
            b's' => {
                let items = m.last(2)?;
                m.set(items)?;
            }
            b'u' => {
                let items = m.marked()?;
                m.set(items)?;
            }
            // GLOBAL, STACK_GLOBAL
            b'c' => {
                let (module, attribute) = (input.line()?, input.line()?);
                m.stack.push(Value::Name(name(module, attribute)?));
            }
            0x93 => {
                let (attribute, module) = (m.pop()?, m.pop()?);
                let (Value::Str(module), Value::Str(attribute)) = (&module, &attribute) else {
                    return Err("a name in its pickle is no text".to_owned());
                };
                m.stack.push(Value::Name(name(module, attribute)?));
            }
            b'q' => {
                let number = input.byte()?.into();
                m.note(number)?;
            }
            b'r' => {
                let number = input.count()?;
                m.note(number)?;
            }
            // MEMOIZE
            0x94 => m.note(m.memo.len())?,
            b'h' => {
                let number = input.byte()?.into();
                m.recall(number)?;
            }
            b'j' => {
                let number = input.count()?;
                m.recall(number)?;
            }
            b'R' => m.reduce()?,
            b'Q' => m.storage()?,
            // BUILD: the attributes of an OrderedDict, where torch keeps versions of modules.
            b'b' => {
                m.pop()?;
                if !matches!(m.stack.last(), Some(Value::Dict(_))) {
                    return Err("its pickle sets attributes of what is no dict".to_owned());
                }
            }
            b'.' => return m.pop(),
            other => {
                return Err(format!("its pickle has the opcode {other:#04x}, which no state dict needs"));
            }
        }
    }
}
