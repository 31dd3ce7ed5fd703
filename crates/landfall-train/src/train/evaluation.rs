//! What an evaluation yields.

/// Sums over the windows of a segment, for each series and target channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Windows seen.
    pub windows: usize,
    /// Windows of whole batches.
    pub windows_drop_last: usize,
    /// Windows of each series.
    pub series: Vec<usize>,
    /// Sum of squared errors `[series, targets]`, all windows.
    pub squared: Vec<f64>,
    /// Sum of absolute errors `[series, targets]`, all windows.
    pub absolute: Vec<f64>,
    /// The same over whole batches only.
    pub squared_drop_last: Vec<f64>,
    /// The same over whole batches only.
    pub absolute_drop_last: Vec<f64>,
    /// Number of target channels.
    pub targets: usize,
    /// Values of each target channel in one window.
    pub horizon: usize,
    /// What a forecast of quantiles is scored by besides, where the loss is one.
    pub quantiles: Option<QuantileScore>,
    /// Mean negative log-likelihood of the scaled values, where a distribution is predicted.
    pub nll: Option<f64>,
    /// What a prediction of classes is scored by besides; the errors above are those of its probabilities.
    pub classes: Option<ClassScore>,
}

/// Scores of a prediction of classes, over all tokens of all windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassScore {
    /// Mean negative logarithm of the class's probability, in nats.
    pub cross_entropy: f64,
    /// Share of the tokens whose class has the largest probability.
    pub accuracy: f64,
}

/// Scores of a forecast of quantiles, over all windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileScore {
    /// Mean quantile loss over the levels, scaled.
    pub pinball: f64,
    /// Share of the values between the lowest and the highest level's prediction.
    pub coverage: f64,
    /// The share that there should be: the highest level less the lowest.
    pub nominal: f64,
}

impl Evaluation {
    /// Mean squared and mean absolute error over all windows.
    #[must_use]
    pub fn errors(&self) -> (f64, f64) {
        self.means(&self.squared, &self.absolute, self.windows)
    }

    /// Mean squared and mean absolute error over whole batches; `None` when there is none.
    #[must_use]
    pub fn errors_drop_last(&self) -> Option<(f64, f64)> {
        let n = self.windows_drop_last;
        (n > 0).then(|| self.means(&self.squared_drop_last, &self.absolute_drop_last, n))
    }

    /// Mean squared and mean absolute error of one series, over all its windows.
    #[must_use]
    pub fn errors_of(&self, series: usize) -> (f64, f64) {
        let sums = |all: &'_ [f64]| all.chunks_exact(self.targets).nth(series).unwrap_or_default().to_vec();
        let windows = self.series.get(series).copied().unwrap_or(0);
        self.means(&sums(&self.squared), &sums(&self.absolute), windows)
    }

    /// Adds window `number` of the segment, of this series: per target the sums of its squared and absolute errors.
    pub fn add_window(&mut self, number: usize, series: usize, squared: &[f64], absolute: &[f64]) {
        let at = series * self.targets;
        let mut sums = vec![(&mut self.squared, squared), (&mut self.absolute, absolute)];
        if number < self.windows_drop_last {
            sums.push((&mut self.squared_drop_last, squared));
            sums.push((&mut self.absolute_drop_last, absolute));
        }
        for (sums, errors) in sums {
            sums[at..].iter_mut().zip(errors).for_each(|(sum, error)| *sum += error);
        }
    }

    /// Sums of windows with one column each ([`Dataset::by_column`](super::Dataset::by_column)) as those of windows with so many.
    pub(super) fn unfolded(self, columns: usize) -> Self {
        if columns == 1 {
            return self;
        }
        let series = self.series.len() / columns;
        let sums = |all: &[f64]| -> Vec<f64> {
            (0..all.len()).map(|i| all[i % columns * series + i / columns]).collect()
        };
        let (squared, absolute) = (sums(&self.squared), sums(&self.absolute));
        Self {
            windows: self.windows / columns,
            windows_drop_last: 0,
            series: self.series[..series].to_vec(),
            squared_drop_last: vec![0.0; squared.len()],
            absolute_drop_last: vec![0.0; absolute.len()],
            squared,
            absolute,
            targets: columns,
            ..self
        }
    }

    fn means(&self, squared: &[f64], absolute: &[f64], windows: usize) -> (f64, f64) {
        let n = (windows * self.horizon * self.targets).max(1) as f64;
        (squared.iter().sum::<f64>() / n, absolute.iter().sum::<f64>() / n)
    }
}
