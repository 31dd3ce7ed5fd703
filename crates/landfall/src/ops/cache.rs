//! Keys and values of the tokens so far, for generation.

use crate::contract::{Graph, StateSpec, Value};
use crate::error::Error;
use crate::ops::Visible;
use crate::values::{DType, Rule, Shape};

/// The keys and values of an attention layer in the state of programs that generate: each run appends those of its tokens, and its
/// queries see all tokens so far. The place of a run's tokens lies on the device, so that one captured program serves every token.
///
/// Entries `name.keys` and `name.values`, `[B, T, g, e]`, and `name.length`, i64 `[]`, the number of tokens so far; write 0 to it to
/// begin anew.
///
/// ```
/// use landfall::{DType, Engine, Graph, KvCache, Program, State, StateSpec};
/// use std::sync::Arc;
/// let mut spec = StateSpec::new();
/// let cache = KvCache::new(&mut spec, "layer", DType::F32, [1, 16, 2, 4])?;
/// let spec = Arc::new(spec);
/// let g = Graph::new(&spec);
/// let token = g.input("token", DType::F32, [1, 1, 2, 4]);
/// g.output("out", cache.attend(&g, token, token, token)?);
/// let engine = Engine::cpu()?;
/// let mut state = State::new(&engine, &spec)?;
/// let mut program = Program::compile(&engine, &state, "generate", &g)?;
/// for t in 0..3 {
///     program.write("token", &[t as f32; 8])?;
///     program.run(&mut state)?;
/// }
/// assert_eq!(state.read::<i64>("layer.length")?, [3]);
/// # Ok::<(), landfall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct KvCache {
    name: String,
}

impl KvCache {
    /// A cache for `shape`: `[B, T, g, e]`, `T` tokens at most.
    ///
    /// # Errors
    /// A name that the state has, a shape that has not four axes.
    pub fn new(
        spec: &mut StateSpec,
        name: &str,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let shape = shape.into();
        if shape.rank() != 4 {
            let expected = "4: [batch, tokens, key heads, features]";
            return Err(Rule::Rank { arg: 0, rank: shape.rank(), expected }
                .of("kv_cache", &[], None, None)
                .into());
        }
        let parts = [("keys", dtype, shape), ("values", dtype, shape), ("length", DType::I64, Shape::SCALAR)];
        for (part, dtype, shape) in parts {
            let name = format!("{name}.{part}");
            spec.add(&name, dtype, &[(name.clone(), shape)])?;
        }
        Ok(Self { name: name.to_owned() })
    }

    /// The number of tokens before this run, i64 `[]`: the place of its first token, for positions.
    ///
    /// # Errors
    /// A graph over another state.
    pub fn length(&self, g: &Graph) -> Result<Value, Error> {
        g.entry(&format!("{}.length", self.name))
    }

    /// Appends keys and values `[B, n, g, e]` of `n` tokens and attends with their queries `[B, n, h, e]` to all tokens so far, each
    /// query up to its own token ([`Graph::attend`]).
    ///
    /// # Errors
    /// Shapes that are not those of the cache; a graph over another state. More tokens than the cache holds are reported when a
    /// result is read.
    #[track_caller]
    pub fn attend(&self, g: &Graph, q: Value, k: Value, v: Value) -> Result<Value, Error> {
        let entry = |part: &str| g.entry(&format!("{}.{part}", self.name));
        let length = self.length(g)?;
        let keys = g.assign_rows(entry("keys")?, 1, k, length)?;
        let values = g.assign_rows(entry("values")?, 1, v, length)?;
        let shape = g.shape(k);
        let [batch, tokens] = [0, 1].map(|a| shape.dims().get(a).copied().unwrap_or(1));
        let after = g.add(length, g.fill(DType::I64, [], tokens as f64)?)?;
        let lengths = g.broadcast_to(g.reshape(after, [1])?, [batch])?;
        let out = g.attend(
            q,
            keys,
            values,
            Visible { causal: true, lengths: Some(lengths), ..Default::default() },
        )?;
        g.assign(length, after, g.fill(DType::Bool, [], 1.0)?)?;
        Ok(out)
    }
}
