//! Pointwise ops: the steps of an op's expression, one ONNX operator or a few for each.

use super::proto::Attribute;
use super::writer::{Writer, data_type};
use crate::export::error::{ExportError, no_form};
use landfall::DType;
use landfall::codegen::{Binary, Expression, Reg, Step, Unary};

/// The value of a step.
#[derive(Debug, Clone)]
struct Register {
    name: String,
    /// Its dtype: that of the expression's arithmetic, or bool.
    dtype: DType,
}

/// Writes an expression over arguments that broadcast against each other; the result's name.
pub(super) fn expression(
    w: &mut Writer,
    expression: &Expression,
    arguments: &[(String, DType)],
    result: DType,
    wish: &str,
    op: &'static str,
) -> Result<String, ExportError> {
    let arithmetic = match arguments {
        [] => result,
        _ => expression.arithmetic(arguments.iter().map(|(_, dtype)| *dtype)),
    };
    let mut steps = Steps { w, arithmetic, wish, done: Vec::new() };
    for step in expression.steps() {
        let register = steps.write(step, arguments, op)?;
        steps.done.push(register);
    }
    let Some(last) = steps.done.last().cloned() else { return Err(no_form(op, None, "it computes nothing")) };
    Ok(steps.cast(&last, result))
}

struct Steps<'a> {
    w: &'a mut Writer,
    /// The dtype that it is computed in.
    arithmetic: DType,
    wish: &'a str,
    done: Vec<Register>,
}

impl Steps<'_> {
    fn write(
        &mut self,
        step: &Step,
        arguments: &[(String, DType)],
        op: &'static str,
    ) -> Result<Register, ExportError> {
        let register = |name: String, dtype| Register { name, dtype };
        Ok(match *step {
            Step::Arg(i) => {
                let Some((name, dtype)) = arguments.get(usize::from(i)).cloned() else {
                    return Err(no_form(op, None, "it reads an argument that it is not given"));
                };
                register(name, dtype)
            }
            Step::Const(value) => register(self.w.scalar(self.arithmetic, value), self.arithmetic),
            Step::Unary(f, x) => register(self.unary(f, x), self.arithmetic),
            Step::Binary(f, lhs, rhs) => self.binary(f, lhs, rhs),
            Step::Select(condition, lhs, rhs) => {
                let condition = self.done[usize::from(condition.0)].clone();
                let condition = self.cast(&condition, DType::Bool);
                let (lhs, rhs) = (self.number(lhs), self.number(rhs));
                register(self.node("Where", &[&condition, &lhs, &rhs]), self.arithmetic)
            }
            Step::Rounded(dtype, x) => {
                let x = Register { name: self.number(x), dtype: self.arithmetic };
                let rounded = Register { name: self.cast(&x, dtype), dtype };
                register(self.cast(&rounded, self.arithmetic), self.arithmetic)
            }
            Step::Kept { .. } => return Err(no_form(op, None, "it draws random numbers of Landfall's own")),
        })
    }

    fn node(&mut self, op_type: &str, inputs: &[&str]) -> String {
        self.w.node(op_type, inputs, Vec::new(), self.wish)
    }

    /// A register in another dtype.
    fn cast(&mut self, register: &Register, dtype: DType) -> String {
        if register.dtype == dtype {
            return register.name.clone();
        }
        let to = vec![Attribute::int("to", i64::from(data_type(dtype)))];
        self.w.node("Cast", &[&register.name], to, self.wish)
    }

    /// A step's value as a number.
    fn number(&mut self, of: Reg) -> String {
        let register = self.done[usize::from(of.0)].clone();
        self.cast(&register, self.arithmetic)
    }

    fn scalar(&mut self, value: f64) -> String {
        self.w.scalar(self.arithmetic, value)
    }

    fn unary(&mut self, f: Unary, x: Reg) -> String {
        let x = self.number(x);
        let plain = match f {
            Unary::Neg => "Neg",
            Unary::Abs => "Abs",
            Unary::Exp => "Exp",
            Unary::Ln => "Log",
            Unary::Sqrt => "Sqrt",
            Unary::Recip => "Reciprocal",
            Unary::Tanh => "Tanh",
            Unary::Erf => "Erf",
            Unary::Sin => "Sin",
            Unary::Cos => "Cos",
            Unary::Floor => "Floor",
            Unary::Ceil => "Ceil",
            Unary::Round => "Round",
            Unary::Sign => "Sign",
            Unary::Rsqrt => {
                let root = self.node("Sqrt", &[&x]);
                return self.node("Reciprocal", &[&root]);
            }
            Unary::NormalCdf => {
                // Φ(x) = ½(1 + erf(x/√2)): within 6e-8 absolute, where Landfall's own is relative in the lower tail.
                let (factor, half) = (self.scalar(std::f64::consts::FRAC_1_SQRT_2), self.scalar(0.5));
                let scaled = self.node("Mul", &[&x, &factor]);
                let erf = self.node("Erf", &[&scaled]);
                let halved = self.node("Mul", &[&erf, &half]);
                return self.node("Add", &[&halved, &half]);
            }
            Unary::Bell => {
                let (square, factor) = (self.node("Mul", &[&x, &x]), self.scalar(-0.5));
                let exponent = self.node("Mul", &[&square, &factor]);
                return self.node("Exp", &[&exponent]);
            }
            Unary::Expm1 => {
                let (power, one) = (self.node("Exp", &[&x]), self.scalar(1.0));
                return self.node("Sub", &[&power, &one]);
            }
            Unary::Log1p => {
                let one = self.scalar(1.0);
                let sum = self.node("Add", &[&x, &one]);
                return self.node("Log", &[&sum]);
            }
        };
        self.node(plain, &[&x])
    }

    fn binary(&mut self, f: Binary, lhs: Reg, rhs: Reg) -> Register {
        let (lhs, rhs) = (self.number(lhs), self.number(rhs));
        let (op_type, dtype) = match f {
            Binary::Add => ("Add", self.arithmetic),
            Binary::Sub => ("Sub", self.arithmetic),
            Binary::Mul => ("Mul", self.arithmetic),
            Binary::Div => ("Div", self.arithmetic),
            Binary::Max => ("Max", self.arithmetic),
            Binary::Min => ("Min", self.arithmetic),
            Binary::Pow => ("Pow", self.arithmetic),
            Binary::Equal => ("Equal", DType::Bool),
            Binary::Less => ("Less", DType::Bool),
            Binary::LessEqual => ("LessOrEqual", DType::Bool),
            // ONNX's remainder of integers has the sign of the divisor too; of floats it has not.
            Binary::Rem if !self.arithmetic.is_float() => ("Mod", self.arithmetic),
            Binary::Rem => {
                let quotient = self.node("Div", &[&lhs, &rhs]);
                let whole = self.node("Floor", &[&quotient]);
                let multiple = self.node("Mul", &[&whole, &rhs]);
                let name = self.node("Sub", &[&lhs, &multiple]);
                return Register { name, dtype: self.arithmetic };
            }
        };
        Register { name: self.node(op_type, &[&lhs, &rhs]), dtype }
    }
}
