//! What the results of a run are compared with.

use crate::data::synthetic::WalkData;
use crate::data::{DataError, Segment, Split, TokenData, TokenNames, TokenSegments, WindowedPanel};
use std::sync::Arc;

/// What the results are compared with.
pub enum Comparison {
    /// Baselines over the windows of series.
    Series(Arc<WindowedPanel>),
    /// What is known of generated windows.
    Labels(WalkData),
    /// What is known of samples of tokens.
    Classes(Classes),
}

/// What is known of samples of tokens without a model.
pub struct Classes {
    /// The samples in one line.
    pub line: String,
    /// How often the most frequent class of all test tokens is right.
    most_frequent: f64,
    /// How often the best of all classifiers is right, of generated samples.
    bayes: Option<f64>,
}

impl Classes {
    pub(super) fn of(data: &TokenData, split: Split) -> Result<Self, DataError> {
        let TokenNames { tokens, classes, features } = &data.names;
        let (source, n) = (&data.source, data.samples.len());
        let test = TokenSegments::new(data, split)?.samples(Segment::Test);
        Ok(Self {
            line: format!(
                "data {source}: {n} samples of {} tokens with {} features, classes {}",
                tokens.len(),
                features.len(),
                classes.join(", ")
            ),
            most_frequent: data.most_frequent(test),
            bayes: data.bayes,
        })
    }

    /// Shares of right classes that need no model, by name.
    pub fn scores(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let frequent = Some(("most frequent class", self.most_frequent));
        [frequent, self.bayes.map(|b| ("Bayes classifier", b))].into_iter().flatten()
    }
}
