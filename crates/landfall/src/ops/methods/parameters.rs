//! The types of parameters that attributes of ops do not have: axes and sizes as a person counts them.

use crate::contract::{AttributeType, AttributeValue, SEVERAL_AXES, SIZES};
use crate::values::{Axes, Axis, Rule, Shape};

/// A whole number.
impl AttributeType for i64 {
    const TAKES: &'static str = "an integer";
    fn value(&self) -> AttributeValue {
        AttributeValue::Int(*self)
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        if let AttributeValue::Int(v) = value { Some(*v) } else { None }
    }
}

/// An axis, from the end if it is negative.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) isize);

impl AttributeType for At {
    const TAKES: &'static str = "an axis";
    fn value(&self) -> AttributeValue {
        AttributeValue::Int(self.0 as i64)
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        i64::from_value(value).and_then(|v| v.try_into().ok()).map(Self)
    }
}

impl Axis for At {
    fn index(self, rank: usize) -> Result<usize, Rule> {
        self.0.index(rank)
    }
}

/// Axes, from the end where they are negative; one number is one axis.
pub(super) struct Several(Vec<isize>);

impl AttributeType for Several {
    const TAKES: &'static str = SEVERAL_AXES;
    fn value(&self) -> AttributeValue {
        AttributeValue::Ints(self.0.iter().map(|&axis| axis as i64).collect())
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        match value {
            AttributeValue::Int(axis) => Some(Self(vec![(*axis).try_into().ok()?])),
            AttributeValue::Ints(axes) => {
                axes.iter().map(|&axis| axis.try_into().ok()).collect::<Option<_>>().map(Self)
            }
            AttributeValue::None
            | AttributeValue::Bool(_)
            | AttributeValue::Float(_)
            | AttributeValue::Text(_) => None,
        }
    }
}

impl Several {
    /// Their indices in a shape of this rank.
    pub(super) fn indices(&self, rank: usize) -> Result<Vec<usize>, Rule> {
        self.0.as_slice().indices(rank)
    }
}

/// Sizes of which one may be −1: what the elements leave for it.
pub(super) struct Sizes(Vec<i64>);

impl AttributeType for Sizes {
    const TAKES: &'static str = SIZES;
    fn value(&self) -> AttributeValue {
        AttributeValue::Ints(self.0.clone())
    }
    fn from_value(value: &AttributeValue) -> Option<Self> {
        match value {
            AttributeValue::Int(size) => Some(Self(vec![*size])),
            AttributeValue::Ints(sizes) => Some(Self(sizes.clone())),
            AttributeValue::None
            | AttributeValue::Bool(_)
            | AttributeValue::Float(_)
            | AttributeValue::Text(_) => None,
        }
    }
}

impl Sizes {
    /// The shape of these sizes that has so many elements.
    pub(super) fn of(&self, elements: usize) -> Result<Shape, Rule> {
        let known: Vec<usize> = self.0.iter().filter_map(|&size| size.try_into().ok()).collect();
        let product = known.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let rest = product.and_then(|product| elements.checked_div(product));
        let sizes = self.0.iter().map(|&size| usize::try_from(size).ok().or(rest.filter(|_| size == -1)));
        let sizes = sizes.collect::<Option<Vec<_>>>().filter(|_| self.0.len() <= known.len() + 1);
        sizes.and_then(|sizes| Shape::new(&sizes)).ok_or_else(|| Rule::AttributeValue {
            name: "shape",
            value: self.value().to_string(),
            takes: Self::TAKES,
            choices: &[],
        })
    }
}
