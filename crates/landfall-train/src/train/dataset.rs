//! What a session trains on: one block of values on the device, and where its windows start.

use crate::data::DataError;
use crate::data::synthetic::WalkData;
use crate::data::{Panel, Segment, Split, TokenData, TokenSegments, WindowedPanel};
use sha2::{Digest, Sha256};
use std::ops::Range;

/// What is predicted.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The rows after the context, of this many channels from the first on.
    Future(usize),
    /// One label for each window.
    Labels(Vec<f32>),
    /// A class of each channel (token) of each window (sample).
    Classes {
        /// Numbers of the classes `[C, N]`.
        labels: Vec<i64>,
        /// How many classes there are.
        classes: usize,
    },
}

/// A run of windows: number of the first, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First window.
    pub base: usize,
    /// Number of windows.
    pub count: usize,
}

/// Windows at neighbouring starts within one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Number of its first window; it ends where the next stretch begins.
    pub first: usize,
    /// Start of that window, in units of the stride.
    pub start: usize,
    /// Number of its series.
    pub series: usize,
}

/// Scaled values `[C, T]` of all series behind each other, and the windows on them. Windows are offsets: their number
/// costs no memory, only the number of series does.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Scaled values, channel by channel, in each the series behind each other.
    pub values: Vec<f32>,
    /// Number of channels C.
    pub channels: usize,
    /// The last so many channels are known in advance: a window shows them in the rows that it forecasts, too.
    pub known: usize,
    /// Rows of each channel T, over all series.
    pub rows: usize,
    /// Rows between starts of neighbouring windows.
    pub stride: usize,
    /// What is predicted.
    pub target: Target,
    /// Number of series.
    pub series: usize,
    /// Where the windows lie, ascending by their numbers.
    pub stretches: Vec<Stretch>,
    /// Windows of training, validation and test.
    spans: [Span; 3],
    /// Columns that stand behind each other as if they were series ([`Dataset::by_column`]); 1 of others.
    pub(super) folded: usize,
}

impl Dataset {
    /// SHA-256 of its values, in hexadecimal: ranks compare it before they train together.
    #[must_use]
    pub fn digest(&self) -> String {
        Sha256::digest(bytemuck::cast_slice(&self.values)).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Windows over the series of a panel, each scaled by its training rows.
    ///
    /// ```
    /// use landfall_train::data::{Split, synthetic};
    /// use landfall_train::train::Dataset;
    /// let series = synthetic::demo(200, 3, 1)?;
    /// let (dataset, windowed) = Dataset::forecast(series, Split::ratio(0.7, 0.1, 0.2)?, 24, 6)?;
    /// assert_eq!((dataset.channels, dataset.rows), (3, 200));
    /// assert_eq!(windowed.targets(), 3);
    /// # Ok::<(), landfall_train::data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// When the series are too short for the split, or a value overflows when scaled.
    pub fn forecast(
        panel: impl Into<Panel>,
        split: Split,
        context: usize,
        horizon: usize,
    ) -> Result<(Self, WindowedPanel), DataError> {
        let windowed = WindowedPanel::fit(panel.into(), split, context, horizon)?;
        Ok((Self::windowed(&windowed)?, windowed))
    }

    /// Windows over series that are divided and have their scalers.
    ///
    /// # Errors
    /// When a value overflows when scaled.
    pub fn windowed(panel: &WindowedPanel) -> Result<Self, DataError> {
        let (members, channels) = (panel.members(), panel.columns().len());
        let rows = members.iter().map(|m| m.series.rows()).sum();
        let mut values = vec![0.0; channels * rows];
        let mut offset = 0;
        for m in members {
            let own = m.series.rows();
            for c in 0..channels {
                values[c * rows + offset..][..own].copy_from_slice(&m.scaler.scale_column(&m.series, c)?);
            }
            offset += own;
        }
        let starts = Segment::ALL.map(|segment| {
            members.iter().map(|m| m.segments.windows(segment).starts()).collect::<Vec<Range<usize>>>()
        });
        let (stretches, spans) = stretches(panel, &starts);
        let target = Target::Future(panel.targets());
        let (known, series) = (panel.known(), members.len());
        Ok(Self { values, channels, known, rows, stride: 1, target, series, stretches, spans, folded: 1 })
    }

    /// The values of a panel with other windows: for training, validation and test the starts of each series' windows,
    /// in rows of the series.
    #[must_use]
    pub fn with_starts(&self, panel: &WindowedPanel, starts: &[Vec<Range<usize>>; 3]) -> Self {
        let (stretches, spans) = stretches(panel, starts);
        Self { stretches, spans, ..self.clone() }
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
        let (rows, stretches) = (s * l, vec![Stretch { first: 0, start: 0, series: 0 }]);
        let (spans, folded) = ([all; 3], 1);
        Self { values, channels: c, known: 0, rows, stride: l, target, series: 1, stretches, spans, folded }
    }

    /// Samples of tokens, which are channels here, and their classes.
    #[must_use]
    pub fn classification(data: &TokenData, segments: TokenSegments) -> Self {
        let (n, tokens, features) = (data.samples.len(), data.names.tokens.len(), data.names.features.len());
        let (mut values, mut labels) = (vec![0.0; data.inputs.len()], vec![0; data.labels.len()]);
        for (i, token) in data.inputs.chunks_exact(features.max(1)).enumerate() {
            let at = (i % tokens * n + i / tokens) * features;
            values[at..at + features].copy_from_slice(token);
        }
        for (i, &label) in data.labels.iter().enumerate() {
            labels[i % tokens * n + i / tokens] = label;
        }
        let spans = Segment::ALL.map(|segment| {
            let samples = segments.samples(segment);
            Span { base: samples.start, count: samples.len() }
        });
        let target = Target::Classes { labels, classes: data.names.classes.len() };
        let (rows, stretches) = (n * features, vec![Stretch { first: 0, start: 0, series: 0 }]);
        Self {
            values,
            channels: tokens,
            known: 0,
            rows,
            stride: features,
            target,
            series: 1,
            stretches,
            spans,
            folded: 1,
        }
    }

    /// Zeros in place of samples with classes, as [`Dataset::blank`].
    #[must_use]
    pub fn blank_classes(tokens: usize, features: usize, classes: usize, samples: usize) -> Self {
        let all = Span { base: 0, count: samples };
        let values = vec![0.0; tokens.saturating_mul(features).saturating_mul(samples)];
        let target = Target::Classes { labels: vec![0; tokens.saturating_mul(samples)], classes };
        let (rows, stretches) =
            (samples.saturating_mul(features), vec![Stretch { first: 0, start: 0, series: 0 }]);
        Self {
            values,
            channels: tokens,
            known: 0,
            rows,
            stride: features,
            target,
            series: 1,
            stretches,
            spans: [all; 3],
            folded: 1,
        }
    }

    /// Zeros in place of a series, with this many windows in every segment: for a session that plans or predicts.
    #[must_use]
    pub fn blank(channels: usize, context: usize, horizon: usize, windows: usize) -> Self {
        let rows = context.saturating_add(horizon).saturating_add(windows.max(1) - 1);
        let all = Span { base: 0, count: windows };
        let values = vec![0.0; channels.saturating_mul(rows)];
        let (target, stretches) = (Target::Future(channels), vec![Stretch { first: 0, start: 0, series: 0 }]);
        let (spans, folded) = ([all; 3], 1);
        Self { values, channels, known: 0, rows, stride: 1, target, series: 1, stretches, spans, folded }
    }

    /// The same windows without the columns that are known in advance, for a model that reads none.
    #[must_use]
    pub fn without_known(&self) -> Self {
        let channels = self.channels - self.known;
        let values = self.values[..channels * self.rows].to_vec();
        let (target, stretches) = (self.target.clone(), self.stretches.clone());
        Self { values, channels, known: 0, target, stretches, ..*self }
    }

    /// The same windows with one column each: a window of several columns becomes one of each column, as if columns were
    /// series. A batch of windows is then one of series-windows, whose memory does not grow with the number of columns. It is for
    /// models that read each column by itself.
    #[must_use]
    pub fn by_column(&self) -> Self {
        let (columns, mut stretches, mut first) = (self.channels, Vec::new(), 0);
        let spans = self.spans.map(|Span { base, count }| {
            let own: Vec<Stretch> =
                self.stretches.iter().copied().filter(|s| (base..base + count).contains(&s.first)).collect();
            let span = Span { base: first, count: count * columns };
            for column in 0..columns {
                stretches.extend(own.iter().map(|s| Stretch {
                    first: first + column * count + s.first - base,
                    start: s.start + column * self.rows / self.stride,
                    series: column * self.series + s.series,
                }));
            }
            first += span.count;
            span
        });
        Self {
            values: self.values.clone(),
            channels: 1,
            known: 0,
            rows: columns * self.rows,
            stride: self.stride,
            target: Target::Future(1),
            series: columns * self.series,
            stretches,
            spans,
            folded: columns,
        }
    }

    /// Whether validation and test have windows of their own.
    #[must_use]
    pub fn holds_out(&self) -> bool {
        self.spans[1] != self.spans[0]
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

    /// Windows of a segment in each series.
    #[must_use]
    pub fn windows_of_series(&self, segment: Segment) -> Vec<usize> {
        let Span { base, count } = self.span(segment);
        let mut windows = vec![0; self.series];
        for (i, stretch) in self.stretches.iter().enumerate() {
            let next = self.stretches.get(i + 1).map_or(usize::MAX, |next| next.first);
            let (from, to) = (stretch.first.max(base), next.min(base + count));
            windows[stretch.series] += to.saturating_sub(from);
        }
        windows
    }

    /// Channels (or tokens) of the prediction, or one label.
    #[must_use]
    pub fn targets(&self) -> usize {
        match self.target {
            Target::Future(targets) => targets,
            Target::Labels(_) => 1,
            Target::Classes { .. } => self.channels,
        }
    }
}

/// Where the windows of a panel's series lie that start at these rows of each, for each segment.
fn stretches(panel: &WindowedPanel, starts: &[Vec<Range<usize>>; 3]) -> (Vec<Stretch>, [Span; 3]) {
    let (mut stretches, mut first) = (Vec::with_capacity(3 * panel.members().len()), 0);
    let spans = [0, 1, 2].map(|segment: usize| {
        let (base, mut offset) = (first, 0);
        for (series, (m, own)) in panel.members().iter().zip(&starts[segment]).enumerate() {
            if !own.is_empty() {
                stretches.push(Stretch { first, start: offset + own.start, series });
            }
            first += own.len();
            offset += m.series.rows();
        }
        Span { base, count: first - base }
    });
    (stretches, spans)
}
