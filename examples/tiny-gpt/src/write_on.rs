//! Greedy decoding.

use crate::model::TinyGpt;
use crate::{LENGTH, TEXT};
use landfall::Error;
use landfall_train::train::{Arrays, Trainer, Weights};

/// A piece of the text and, one after the other, the most probable byte behind those so far.
pub(crate) fn write_on(trainer: &mut Trainer, model: &TinyGpt) -> Result<String, Error> {
    let mut text = TEXT[1_000..1_000 + LENGTH].to_vec();
    let last = |text: &[u8]| {
        let last = text[text.len() - LENGTH..].iter().map(|&byte| byte.into()).collect::<Vec<i64>>();
        Arrays::new().with("bytes", [1, LENGTH], last)
    };
    let mut next = trainer.predictor(&last(&text)?, 1, Weights::Last, |cx, batch| {
        let logits = model.logits(cx, batch.get("bytes")?)?;
        cx.graph.argmax(cx.graph.reshape(cx.graph.slice(logits, 1, LENGTH - 1, 1)?, [1, 256])?, -1)
    })?;
    for _ in 0..160 {
        text.push(next.run(trainer, &last(&text)?)?.int(0) as u8);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
