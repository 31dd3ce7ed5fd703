//! Samples of tokens: each token of a sample has the same features and one class.

mod read;

use crate::error::DataError;
use crate::error::tokens::TokenError;
use crate::error::windows::WindowError;
use crate::segment::Segment;
use crate::windows::scaler::Scaler;
use crate::windows::scaler::mean_std;
use crate::windows::split::Split;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What the axes of samples stand for, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenNames {
    /// Tokens S.
    pub tokens: Vec<String>,
    /// Classes K; the number of a class is its place.
    pub classes: Vec<String>,
    /// Features F of every token.
    pub features: Vec<String>,
}

/// Samples of tokens with features, and their classes.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenData {
    /// Where they come from: the path of a file, or what generated them.
    pub source: String,
    /// Names of tokens, classes and features.
    pub names: TokenNames,
    /// Names of the samples N.
    pub samples: Vec<String>,
    /// Features `[N, S, F]`.
    pub inputs: Vec<f32>,
    /// Numbers of the classes `[N, S]`; empty where they are not known.
    pub labels: Vec<i64>,
    /// Share of the tokens that the best of all classifiers gets right, where the data was generated.
    pub bayes: Option<f64>,
}

/// How many samples each segment has: the first ones train, the last ones test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenSegments {
    counts: [usize; 3],
}

impl TokenSegments {
    /// Divides samples in their order.
    ///
    /// # Errors
    /// [`TokenError::TooFew`] when a segment has none; shares that are none.
    pub fn new(data: &TokenData, split: Split) -> Result<Self, DataError> {
        let samples = data.samples.len();
        let counts = split.rows(samples)?;
        match counts.iter().position(|n| *n == 0) {
            Some(empty) => {
                let (file, segment) = (data.source.clone(), Segment::ALL[empty]);
                Err(TokenError::TooFew { file, samples, segment, split: split.to_string() }.into())
            }
            None => Ok(Self { counts }),
        }
    }

    /// The samples of a segment.
    #[must_use]
    pub fn samples(&self, segment: Segment) -> Range<usize> {
        let [train, validation, test] = self.counts;
        match segment {
            Segment::Train => 0..train,
            Segment::Validation => train..train + validation,
            Segment::Test => train + validation..train + validation + test,
        }
    }
}

impl TokenData {
    /// Number of features of a sample, over all its tokens.
    fn width(&self) -> usize {
        self.names.tokens.len() * self.names.features.len()
    }

    /// Mean and population standard deviation of each token's features over these samples, which should be the training
    /// samples alone; a feature that is constant there is divided by 1.
    ///
    /// # Errors
    /// [`WindowError::Unscalable`] when the statistics of a feature overflow.
    pub fn fit(&self, samples: Range<usize>) -> Result<Vec<Scaler>, DataError> {
        let (width, features) = (self.width(), self.names.features.len());
        let (mean, std) = mean_std(&self.inputs[samples.start * width..samples.end * width], width);
        if let Some(at) = mean.iter().zip(&std).position(|(m, s)| !(m.is_finite() && s.is_finite())) {
            let (token, feature) = (&self.names.tokens[at / features], &self.names.features[at % features]);
            let (file, column) = (self.source.clone(), format!("{token}.{feature}"));
            return Err(DataError::Window(WindowError::Unscalable { file, column }));
        }
        let of_tokens = mean.chunks(features.max(1)).zip(std.chunks(features.max(1)));
        of_tokens.map(|(mean, std)| Scaler::new(mean.to_vec(), std.to_vec())).collect()
    }

    /// The features with each token's mean taken off and its standard deviation divided by.
    ///
    /// # Errors
    /// [`TokenError::Scalers`] for scalers of other tokens or features; [`TokenError::Overflow`].
    pub fn scaled(mut self, scalers: &[Scaler]) -> Result<Self, DataError> {
        let (tokens, features) = (self.names.tokens.len(), self.names.features.len());
        if scalers.len() != tokens || scalers.iter().any(|s| s.channels() != features) {
            let found = (scalers.len(), scalers.first().map_or(0, Scaler::channels));
            return Err(TokenError::Scalers { file: self.source, expected: (tokens, features), found }.into());
        }
        for (i, row) in self.inputs.chunks_exact_mut(features.max(1)).enumerate() {
            let scaler = &scalers[i % tokens];
            for ((f, x), (mean, std)) in
                row.iter_mut().enumerate().zip(scaler.mean().iter().zip(scaler.std()))
            {
                let scaled = ((f64::from(*x) - mean) / std) as f32;
                if !scaled.is_finite() {
                    let (token, feature) =
                        (self.names.tokens[i % tokens].clone(), self.names.features[f].clone());
                    let (file, sample) = (self.source, self.samples[i / tokens].clone());
                    return Err(TokenError::Overflow { file, sample, token, feature }.into());
                }
                *x = scaled;
            }
        }
        Ok(self)
    }

    /// Share of the most frequent class among the tokens of these samples: what is right without looking.
    #[must_use]
    pub fn most_frequent(&self, samples: Range<usize>) -> f64 {
        let tokens = self.names.tokens.len();
        let labels = self.labels.get(samples.start * tokens..samples.end * tokens).unwrap_or_default();
        let mut counts = vec![0usize; self.names.classes.len()];
        for count in labels.iter().filter_map(|&l| usize::try_from(l).ok()) {
            counts[count] += 1;
        }
        counts.into_iter().max().unwrap_or(0) as f64 / labels.len().max(1) as f64
    }
}
