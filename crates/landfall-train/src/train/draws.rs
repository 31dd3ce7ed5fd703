//! Where a run's initial values and orders are drawn from.

use crate::nn::{Init, Parameter, Parameters};
use landfall::Rule;
use rand_mt::Mt;
use serde::{Deserialize, Serialize};

/// A generator of initial values and of each epoch's order. Dropout's masks are ours with either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Draws {
    /// Ours: each parameter has a stream of its own, each epoch a keyed bijection, and nothing is stored.
    #[default]
    Philox,
    /// What a PyTorch program draws on a processor after `torch.manual_seed(seed)`, all from one Mersenne twister: the
    /// initial values of its layers in their order, then one `torch.randperm` an epoch. So a run has the initial values and
    /// the batches of the program that it is compared with, seed for seed.
    PyTorch,
}

/// PyTorch's generator on a processor: the 32-bit Mersenne twister of Matsumoto and Nishimura (1998).
#[derive(Debug)]
pub(super) struct Twister(Mt);

/// Below as many positions one word decides a place of a permutation, beyond it two would.
const WINDOWS: usize = u32::MAX as usize / 20;

impl Twister {
    /// As `torch.manual_seed`, which takes a seed's lower half.
    pub(super) fn new(seed: u64) -> Self {
        Self(Mt::new(seed as u32))
    }

    /// Uniform in ±`bound`, as `Tensor.uniform_` fills f32: 24 bits of a word.
    fn uniform(&mut self, bound: f32) -> f64 {
        let unit = f64::from(self.0.next_u32() & 0x00ff_ffff) / f64::from(1 << 24);
        f64::from((unit * f64::from(bound + bound) - f64::from(bound)) as f32)
    }

    /// The initial values of all parameters, in the order in which layers made them.
    ///
    /// # Errors
    /// A rule for what other programs draw in an order or by a method that is not known here.
    pub(super) fn values(&mut self, parameters: &Parameters) -> Result<Vec<Vec<f64>>, Rule> {
        let each = |(number, p): (usize, &Parameter)| match p.init {
            Init::Constant(c) if p.parts.len() == 1 => Ok(vec![c; p.shape.elements()]),
            Init::Uniform(bound) if p.parts.len() == 1 => {
                Ok((0..p.shape.elements()).map(|_| self.uniform(bound as f32)).collect())
            }
            Init::Constant(_) | Init::Uniform(_) | Init::Normal(_) => Err(Rule::Attribute {
                name: "number of a parameter that is stacked or begins normally distributed",
                value: number as f64,
                expected: "none where PyTorch's draws are asked for",
            }),
        };
        parameters.list().iter().enumerate().map(each).collect()
    }

    /// The order of `n` windows in each of so many epochs, one after the other: `torch.randperm(n)`.
    ///
    /// # Errors
    /// A rule for more windows than one word decides among.
    pub(super) fn orders(&mut self, n: usize, epochs: usize) -> Result<Vec<i64>, Rule> {
        if n >= WINDOWS {
            return Err(Rule::Attribute {
                name: "windows in PyTorch's order",
                value: n as f64,
                expected: "below 214748364",
            });
        }
        let mut all = Vec::with_capacity(n * epochs);
        for _ in 0..epochs {
            let first = all.len();
            all.extend(0..n as i64);
            let order = &mut all[first..];
            for i in 0..n.saturating_sub(1) {
                order.swap(i, i + self.0.next_u32() as usize % (n - i));
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first values of `torch.manual_seed(2021); a = Linear(336, 96); b = Linear(336, 96); randperm(8209)`, twice, as
    /// PyTorch 2.15 gives them.
    #[test]
    fn draws_what_pytorch_draws() {
        let mut parameters = Parameters::new();
        for name in ["a", "b"] {
            crate::nn::Linear::new(&mut parameters, name, 336, 96);
        }
        let mut twister = Twister::new(2021);
        let values = twister.values(&parameters).expect("uniform values");
        let first = [
            -0.040_322_408_080_101_01,
            0.001_460_644_183_680_415_2,
            0.026_465_151_458_978_653,
            0.023_555_418_476_462_364,
        ];
        assert_eq!(values[0][..4], first);
        assert_eq!(values[1][0], 0.026_898_290_961_980_82);
        assert_eq!(values[2].last(), Some(&-0.015_675_360_336_899_757));
        assert_eq!(values[3].last(), Some(&-0.004_254_114_814_102_65));
        let orders = twister.orders(8209, 2).expect("few windows");
        assert_eq!(orders[..6], [6680, 6514, 5402, 8119, 1302, 1988]);
        assert_eq!(orders[8206..8209], [1963, 1520, 6732]);
        assert_eq!(orders[8209..8213], [2919, 422, 6720, 3364]);
        for epoch in orders.chunks(8209) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..8209));
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        let mut normal = Parameters::new();
        normal.add("w", [4, 4], Init::kaiming_normal(4));
        let told = Twister::new(1).values(&normal).expect_err("a normal value").to_string();
        assert!(told.contains("PyTorch's draws"), "{told}");
        let told = Twister::new(1).orders(1 << 30, 1).expect_err("too many").to_string();
        assert!(told.contains("below 214748364"), "{told}");
    }
}
