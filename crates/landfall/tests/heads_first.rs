//! Attention with PyTorch's axes: against loops in f64, and against attention with tokens before heads.

use landfall::{
    DType, Engine, Error, Graph, HeadsFirst, Program, Rule, State, StateSpec, Value, Visible, grad,
};
use std::sync::Arc;

/// Numbers that vary.
fn numbers(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 37 + seed * 101) % 97) as f64 / 48.5 - 1.0).collect()
}

struct Case {
    /// Axes before the heads.
    lead: &'static [usize],
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    features: usize,
    values: usize,
    causal: bool,
    scale: Option<f64>,
    /// 0 for none, 1 for a bool mask, 2 for an added one.
    mask: u8,
}

const CASE: Case = Case {
    lead: &[2],
    heads: 2,
    key_heads: 2,
    queries: 4,
    keys: 6,
    features: 4,
    values: 4,
    causal: false,
    scale: None,
    mask: 0,
};

impl Case {
    fn expected(&self, q: &[f64], k: &[f64], v: &[f64], mask: &[f64]) -> Vec<f64> {
        let batch: usize = self.lead.iter().product();
        let scale = self.scale.unwrap_or((self.features as f64).powf(-0.5));
        let mut out = Vec::new();
        for (b, h) in (0..batch).flat_map(|b| (0..self.heads).map(move |h| (b, h))) {
            let key_head = b * self.key_heads + h * self.key_heads / self.heads;
            for i in 0..self.queries {
                let row = &q[((b * self.heads + h) * self.queries + i) * self.features..][..self.features];
                let score = |j: usize| {
                    let key = &k[(key_head * self.keys + j) * self.features..][..self.features];
                    let dot: f64 = row.iter().zip(key).map(|(a, b)| a * b).sum();
                    let m = mask.get(i * self.keys + j).copied().unwrap_or(0.0);
                    let hidden = self.causal && j > i || self.mask == 1 && m == 0.0;
                    if hidden {
                        f64::NEG_INFINITY
                    } else {
                        scale * dot + if self.mask == 2 { m } else { 0.0 }
                    }
                };
                let weights: Vec<f64> = (0..self.keys).map(|j| score(j).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for c in 0..self.values {
                    let of = |j: usize| weights[j] * v[(key_head * self.keys + j) * self.values + c];
                    out.push((0..self.keys).map(of).sum::<f64>() / sum);
                }
            }
        }
        out
    }

    fn shape(&self, heads: usize, tokens: usize, features: usize) -> Vec<usize> {
        // Without axes before it, one head is no axis either.
        let all = [self.lead, &[heads, tokens, features]].concat();
        if self.lead.is_empty() && heads == 1 { all[1..].to_vec() } else { all }
    }

    fn check(&self) -> Result<(), Error> {
        let e = Engine::cpu_with_threads(1)?;
        let spec = Arc::new(StateSpec::new());
        let g = Graph::new(&spec);
        let sized = |shape: &[usize]| landfall::Shape::new(shape).expect("few axes");
        let shapes = [
            self.shape(self.heads, self.queries, self.features),
            self.shape(self.key_heads, self.keys, self.features),
            self.shape(self.key_heads, self.keys, self.values),
        ];
        let [q, k, v] = [0, 1, 2].map(|i| g.input(["q", "k", "v"][i], DType::F64, sized(&shapes[i])));
        let dtype = if self.mask == 1 { DType::Bool } else { DType::F64 };
        let mask = (self.mask > 0).then(|| g.input("mask", dtype, [self.queries, self.keys]));
        let options = HeadsFirst {
            mask,
            causal: self.causal,
            scale: self.scale,
            grouped: self.heads != self.key_heads,
        };
        g.output("out", g.scaled_dot_product_attention(q, k, v, options)?);
        let mut state = State::new(&e, &spec)?;
        let mut p = Program::compile(&e, &state, "attention", &g)?;
        let data: Vec<Vec<f64>> =
            shapes.iter().enumerate().map(|(i, s)| numbers(s.iter().product(), i)).collect();
        for (name, data) in ["q", "k", "v"].iter().zip(&data) {
            p.write(name, data)?;
        }
        let mut masked = numbers(self.queries * self.keys, 7);
        if self.mask == 1 {
            masked = masked
                .iter()
                .enumerate()
                .map(|(i, m)| f64::from(u8::from(*m > 0.0 || i % self.keys == 0)))
                .collect();
            p.write("mask", &masked.iter().map(|&m| m as u8).collect::<Vec<_>>())?;
        } else if self.mask == 2 {
            p.write("mask", &masked)?;
        }
        p.run(&mut state)?;
        let (got, want) = (p.read::<f64>("out")?, self.expected(&data[0], &data[1], &data[2], &masked));
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(&want) {
            assert!((g - w).abs() < 1e-12, "{g} for {w}");
        }
        Ok(())
    }
}

#[test]
fn results_are_those_of_the_definition() -> Result<(), Error> {
    for case in [
        CASE,
        Case { causal: true, ..CASE },
        Case { causal: true, keys: 4, ..CASE },
        Case { causal: true, queries: 7, keys: 3, ..CASE },
        Case { scale: Some(0.7), values: 2, ..CASE },
        Case { values: 9, causal: true, ..CASE },
        Case { heads: 6, mask: 1, ..CASE },
        Case { mask: 2, lead: &[2, 3], ..CASE },
        Case { lead: &[], mask: 2, ..CASE },
        Case { lead: &[], heads: 1, key_heads: 1, causal: true, ..CASE },
    ] {
        case.check()?;
    }
    Ok(())
}

#[test]
fn gradients_are_those_of_attention_with_tokens_first() -> Result<(), Error> {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let x = ["q", "k", "v"].map(|name| g.input(name, DType::F64, [2, 3, 4, 5]));
    let named: Vec<(String, Value)> = x.iter().enumerate().map(|(i, &v)| (i.to_string(), v)).collect();
    let causal = HeadsFirst { causal: true, ..HeadsFirst::default() };
    let out = g.scaled_dot_product_attention(x[0], x[1], x[2], causal)?;
    let turned = x.map(|v| g.permute(v, &[0, 2, 1, 3]));
    let [q, k, v] = turned;
    let same = g.attend(q?, k?, v?, Visible { causal: true, ..Visible::default() })?;
    // The same op of the same values: a graph has them once.
    assert_eq!(out, g.permute(same, &[0, 2, 1, 3])?);
    assert_eq!(grad(&g, g.sum(out, landfall::All)?, &named)?.len(), 3);
    Ok(())
}

#[test]
fn axes_in_the_other_order_are_suspected() -> Result<(), Error> {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let [q, k] = [("q", 9), ("k", 5)].map(|(name, tokens)| g.input(name, DType::F32, [2, 4, tokens, 8]));
    let told = g.attend(q, k, k, Visible::default()).expect_err("9 heads, 5 key heads").to_string();
    assert!(told.contains("[batch, tokens, heads, features]"), "{told}");
    assert!(told.contains("take scaled_dot_product_attention"), "{told}");
    let mask = g.input("mask", DType::Bool, [9, 9]);
    let seen = Visible { mask: Some(mask), ..Visible::default() };
    let told = g.attend(q, q, q, seen).expect_err("a mask of other axes").to_string();
    assert!(told.contains("take scaled_dot_product_attention"), "{told}");
    // What fits in neither order is no exchange of axes.
    let other = g.input("other", DType::F32, [2, 4, 5, 7]);
    let told = g.attend(q, other, other, Visible::default()).expect_err("7 features").to_string();
    assert!(!told.contains("take scaled_dot_product_attention"), "{told}");
    Ok(())
}

#[test]
fn what_pytorch_refuses_is_refused() {
    let g = Graph::new(&Arc::new(StateSpec::new()));
    let q = g.input("q", DType::F32, [2, 4, 9, 8]);
    let k = g.input("k", DType::F32, [2, 2, 9, 8]);
    let mask = g.input("mask", DType::Bool, [9, 9]);
    let rule = |q, k, options| match g.scaled_dot_product_attention(q, k, k, options) {
        Err(Error::Op(error)) => error.rule,
        other => panic!("{other:?}"),
    };
    assert!(matches!(rule(q, k, HeadsFirst::default()), Rule::Dim { .. }), "heads that are not grouped");
    let both = HeadsFirst { mask: Some(mask), causal: true, ..HeadsFirst::default() };
    assert!(matches!(rule(q, q, both), Rule::Attribute { name: "is_causal", .. }));
    let flat = g.input("flat", DType::F32, [8]);
    assert!(matches!(rule(flat, flat, HeadsFirst::default()), Rule::Rank { arg: 0, .. }));
}
