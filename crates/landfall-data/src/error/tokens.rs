//! Everything that can be wrong with samples of tokens.

use crate::message::place::Place;
use crate::segment::Segment;

/// What is wrong with samples of tokens.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's text says what its fields are")]
pub enum TokenError {
    #[error(
        "{file}: column `{column}` names no token; a table with a row for each sample has columns `token.feature`, \
         and one with a row for each sample and token has columns `sample` and `token`"
    )]
    NoToken { file: String, column: String },
    #[error("{file}: no column of a feature; give each token at least one")]
    NoFeature { file: String },
    #[error("{file}: no column `{column}`; training needs the class of every token")]
    NoLabel { file: String, column: String },
    #[error("{file}: no column `{column}`, which token `{like}` has; every token has the same features")]
    OtherFeatures { file: String, column: String, like: String },
    #[error("{file}: no feature `{feature}`; give the features that the run was trained on")]
    AbsentFeature { file: String, feature: String },
    #[error("{file}: {found} features where the run has {expected}; give those that it was trained on")]
    MoreFeatures { file: String, found: usize, expected: usize },
    #[error("{at}: column `{column}` is empty; name what the row belongs to")]
    Unnamed { at: Place, column: &'static str },
    #[error("{at}: column `{column}`: the value is missing; fill it in, or leave the sample out")]
    Missing { at: Place, column: String },
    #[error("{at}: column `{column}`: `{text}` is no number that f32 holds; correct it")]
    Number { at: Place, column: String, text: String },
    #[error("{at}: column `{column}`: the class is missing; give every token of every sample one")]
    MissingLabel { at: Place, column: String },
    #[error("{at}: column `{column}`: class `{text}` is none of the run's ({known}); correct it")]
    UnknownClass { at: Place, column: String, text: String, known: String },
    #[error("{at}: token `{token}` of sample `{sample}` is there twice; keep one row of each")]
    Twice { at: Place, sample: String, token: String },
    #[error("{at}: sample `{sample}` is there twice; keep one row of each")]
    SampleTwice { at: Place, sample: String },
    #[error("{file}: sample `{sample}` has no token `{token}`; every sample has all tokens")]
    AbsentToken { file: String, sample: String, token: String },
    #[error("{at}: token `{token}` is none of the run's ({known}); leave its rows out")]
    UnknownToken { at: Place, token: String, known: String },
    #[error("{file}: every token is of class `{class}`; there must be at least 2 classes")]
    OneClass { file: String, class: String },
    #[error("{file}: {samples} samples leave none for {segment} with split {split}; give more")]
    TooFew { file: String, samples: usize, segment: Segment, split: String },
    #[error(
        "{file}: {} tokens of {} features, and scalers for {} tokens of {}; use the run's own", .expected.0,
        .expected.1, .found.0, .found.1
    )]
    Scalers { file: String, expected: (usize, usize), found: (usize, usize) },
    #[error(
        "{file}: feature `{feature}` of token `{token}` in sample `{sample}` leaves the range of f32 when scaled; \
         correct it"
    )]
    Overflow { file: String, sample: String, token: String, feature: String },
    #[error("{count} files of samples where one is needed; put all samples into one")]
    ManyFiles { count: usize },
}

crate::message::debug_as_text!(TokenError);
