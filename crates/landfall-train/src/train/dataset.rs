//! What a session trains on: one block of values on the device, and where its windows start.

use crate::data::DataError;
use crate::data::synthetic::WalkData;
use crate::data::{Scaler, Segment, Segments, Series, Split, Windows};

/// What is predicted.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The rows after the context.
    Future,
    /// One label for each window.
    Labels(Vec<f32>),
}

/// A run of windows: number of the first, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First window.
    pub base: usize,
    /// Number of windows.
    pub count: usize,
}

/// Scaled values `[C, T]` and the windows on them. Windows are offsets: their number costs no memory.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Scaled values, channel by channel.
    pub values: Vec<f32>,
    /// Number of channels C.
    pub channels: usize,
    /// Rows of each channel T.
    pub rows: usize,
    /// Rows between starts of neighbouring windows.
    pub stride: usize,
    /// What is predicted.
    pub target: Target,
    /// Windows of training, validation and test.
    spans: [Span; 3],
}

impl Dataset {
    /// Windows over a series, scaled by its training rows.
    ///
    /// # Errors
    /// When the series is too short for the split, or a value overflows when scaled.
    pub fn forecast(
        series: &Series,
        split: Split,
        context: usize,
        horizon: usize,
    ) -> Result<(Self, Scaler, Segments), DataError> {
        let segments = Segments::new(split, series.rows(), context, horizon)?;
        let scaler = Scaler::fit(series, segments.rows(Segment::Train))?;
        let dataset = Self::scaled(series, &scaler, &segments)?;
        Ok((dataset, scaler, segments))
    }

    /// Windows over a series, scaled by a scaler that was fit before.
    ///
    /// # Errors
    /// When the scaler is for other columns, or a value overflows when scaled.
    pub fn scaled(series: &Series, scaler: &Scaler, segments: &Segments) -> Result<Self, DataError> {
        let span = |s| {
            let w: Windows = segments.windows(s);
            Span { base: w.base(), count: w.count() }
        };
        Ok(Self {
            values: scaler.scale_f32(series)?,
            channels: series.channels(),
            rows: series.rows(),
            stride: 1,
            target: Target::Future,
            spans: [span(Segment::Train), span(Segment::Validation), span(Segment::Test)],
        })
    }

    /// Samples with one label each: all of them train, and validation and test are the training samples too.
    #[must_use]
    pub fn regression(data: &WalkData) -> Self {
        let (s, c, l) = (data.samples, data.channels, data.length);
        let mut values = vec![0.0; s * c * l];
        for (i, window) in data.inputs.chunks_exact(l.max(1)).enumerate() {
            let (sample, channel) = (i / c, i % c);
            let at = (channel * s + sample) * l;
            values[at..at + l].copy_from_slice(window);
        }
        let all = Span { base: 0, count: s };
        let target = Target::Labels(data.labels.clone());
        Self { values, channels: c, rows: s * l, stride: l, target, spans: [all; 3] }
    }

    /// The windows of a segment.
    #[must_use]
    pub fn span(&self, segment: Segment) -> Span {
        match segment {
            Segment::Train => self.spans[0],
            Segment::Validation => self.spans[1],
            Segment::Test => self.spans[2],
        }
    }

    /// Channels of the prediction: one for each channel, or one label.
    #[must_use]
    pub fn targets(&self) -> usize {
        match self.target {
            Target::Future => self.channels,
            Target::Labels(_) => 1,
        }
    }
}
