//! Which rows networks are fit on and which windows they are scored on before they are chosen.

use crate::data::{Member, Segment, WindowedPanel};
use crate::train::Dataset;
use std::ops::Range;

/// Fewer validation windows than these (in the longest series) and rolling origins take validation's place: neighbouring
/// windows share most of their rows, so a handful of them is one observation.
pub const MIN_WINDOWS: usize = 30;
/// Rolling origins: the second half of the rows before the test part, in so many blocks. A network is fit for each.
pub const BLOCKS: usize = 3;
/// A fold is fit on at least so many windows.
const MIN_FIT: usize = 4;

/// The first predicted row of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Its series.
    pub series: usize,
    /// First row of its series, in the rows of all series one after another.
    pub begin: usize,
    /// First predicted row, counted the same way.
    pub at: usize,
}

/// For each series the starts of windows (first rows of their contexts): those to fit on and those to score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// Windows to fit on.
    pub fit: Vec<Range<usize>>,
    /// Windows to score.
    pub score: Vec<Range<usize>>,
}

impl Fold {
    /// The windows of the series, one series after another, as origins.
    pub fn origins<'a>(
        panel: &'a WindowedPanel,
        starts: &'a [Range<usize>],
    ) -> impl Iterator<Item = Origin> + 'a {
        let mut begin = 0;
        panel.members().iter().zip(starts).enumerate().flat_map(move |(series, (m, starts))| {
            let first = begin;
            begin += m.series.rows();
            let context = m.segments.windows(Segment::Train).context();
            starts.clone().map(move |start| Origin { series, begin: first, at: first + start + context })
        })
    }

    /// Whether it has windows to fit networks on, and does not score baselines alone.
    #[must_use]
    pub fn fits(&self) -> bool {
        Self::windows(&self.fit) > 0
    }

    fn windows(starts: &[Range<usize>]) -> usize {
        starts.iter().map(ExactSizeIterator::len).sum()
    }

    /// A dataset that trains on the windows to fit on and validates on those to score.
    #[must_use]
    pub fn dataset(&self, dataset: &Dataset, panel: &WindowedPanel) -> Dataset {
        let none = vec![0..0; panel.members().len()];
        dataset.with_starts(panel, &[self.fit.clone(), self.score.clone(), none])
    }
}

/// How candidates are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// One fold, validation, or several, rolling origins.
    pub folds: Vec<Fold>,
    /// Whether the folds are rolling origins: because validation has fewer than [`MIN_WINDOWS`] windows, or as was asked for.
    pub rolling: bool,
    /// Validation windows of the series that has most.
    pub validation: usize,
    /// What the chosen network is fit on in the end: all windows before the test rows.
    pub all: Vec<Range<usize>>,
    /// Whether each window that is scored has a season before it.
    pub seasonal: bool,
}

impl Plan {
    /// A plan for a panel that is divided, by validation where it has enough windows and nobody asks for `rolling` origins. Windows are scored only with `history` rows before them, at least the
    /// context, so that a seasonal naive forecast of this period is scored on the same windows.
    ///
    /// With rolling origins, the rows before the test part are cut in half, and the second half in three blocks. For each
    /// block networks are fit on windows before it and scored on windows whose first predicted row lies in it. So a choice
    /// never sees a test row, and never scores a row that the network was fit on. Where no block has room for that, one fold
    /// without windows to fit on scores the baselines on all windows before the test rows. Where no window has a season before
    /// it, there are the windows without one.
    #[must_use]
    pub fn new(panel: &WindowedPanel, history: usize, rolling: bool) -> Self {
        let seasonal = Self::with_history(panel, history, rolling);
        match seasonal.scored() {
            0 => Self { seasonal: false, ..Self::with_history(panel, 0, rolling) },
            _ => seasonal,
        }
    }

    fn with_history(panel: &WindowedPanel, history: usize, rolling: bool) -> Self {
        let windows = |segment| -> Vec<Range<usize>> {
            panel.members().iter().map(|m| m.segments.windows(segment).starts()).collect()
        };
        let (train, validation) = (windows(Segment::Train), windows(Segment::Validation));
        let all = panel
            .members()
            .iter()
            .map(|m| {
                let (of_train, of_test) =
                    (m.segments.windows(Segment::Train), m.segments.rows(Segment::Test));
                let end = of_test.start + of_train.context();
                starts_within(0..end, of_train.context(), of_train.horizon())
            })
            .collect();
        let most = validation.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        if most >= MIN_WINDOWS && !rolling {
            let later = |(m, starts): (&Member, Range<usize>)| {
                let context = m.segments.windows(Segment::Train).context();
                starts.start.max(history.saturating_sub(context)).min(starts.end)..starts.end
            };
            let score = panel.members().iter().zip(validation).map(later).collect();
            let folds = vec![Fold { fit: train, score }];
            return Self { folds, rolling: false, validation: most, all, seasonal: true };
        }
        let folds: Vec<Fold> = (0..BLOCKS).map(|block| block_of(panel, history, block)).collect();
        let sound = |f: &Fold| Fold::windows(&f.fit) >= MIN_FIT && Fold::windows(&f.score) > 0;
        let mut folds: Vec<Fold> = folds.into_iter().filter(sound).collect();
        if folds.is_empty() {
            let after = |(m, starts): (&Member, &Range<usize>)| {
                let context = m.segments.windows(Segment::Train).context();
                starts.start.max(history.saturating_sub(context)).min(starts.end)..starts.end
            };
            let score: Vec<Range<usize>> = panel.members().iter().zip(&all).map(after).collect();
            let fit = vec![0..0; score.len()];
            folds.extend((Fold::windows(&score) > 0).then_some(Fold { fit, score }));
        }
        Self { folds, rolling: true, validation: most, all, seasonal: true }
    }

    /// Whether networks are scored, and not baselines alone.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.folds.iter().any(Fold::fits)
    }

    /// Windows that candidates are scored on.
    #[must_use]
    pub fn scored(&self) -> usize {
        self.folds.iter().map(|f| Fold::windows(&f.score)).sum()
    }
}

/// Starts of the windows that lie in these rows.
fn starts_within(rows: Range<usize>, context: usize, horizon: usize) -> Range<usize> {
    let window = context + horizon;
    if rows.len() < window { rows.start..rows.start } else { rows.start..rows.end - window + 1 }
}

/// The fold of a block of rows before the test part.
fn block_of(panel: &WindowedPanel, history: usize, block: usize) -> Fold {
    let (mut fit, mut score) = (Vec::new(), Vec::new());
    for m in panel.members() {
        let of_train = m.segments.windows(Segment::Train);
        let (context, horizon) = (of_train.context(), of_train.horizon());
        let rows = m.segments.rows(Segment::Test).start + context;
        let cut = |block: usize| rows / 2 + (rows - rows / 2) * block / BLOCKS;
        let begin = cut(block).max(history);
        let end = (cut(block + 1) + horizon - 1).min(rows);
        fit.push(starts_within(0..begin, context, horizon));
        score.push(match begin.checked_sub(context) {
            Some(first) if first < end => starts_within(first..end, context, horizon),
            _ => 0..0,
        });
    }
    Fold { fit, score }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Panel, Scaling, Series, Split, Validation};

    fn panel(rows: &[usize], context: usize, horizon: usize) -> WindowedPanel {
        let one = |(i, &rows): (usize, &usize)| {
            let values = (0..rows).map(|r| r as f64).collect();
            Series::new(format!("s{i}"), vec!["a".to_owned()], vec![values], None).expect("a series")
        };
        let panel = Panel::new(rows.iter().enumerate().map(one).collect()).expect("series");
        let split = Split::ratio(0.7, 0.1, 0.2).expect("a partition");
        WindowedPanel::fit_with(panel, split, (context, horizon), (Validation::Optional, Scaling::Standard))
            .expect("windows")
    }

    #[test]
    fn validation_is_one_fold_where_it_has_windows() {
        let panel = panel(&[1000, 400], 24, 12);
        let plan = Plan::new(&panel, 12, false);
        assert!(!plan.rolling);
        assert_eq!((plan.folds.len(), plan.validation), (1, 100 - 11));
        assert_eq!(plan.folds[0].fit, [0..700 - 35, 0..280 - 35]);
        assert_eq!(plan.folds[0].score, [676..676 + 89, 256..256 + 29]);
        assert_eq!(plan.all, [0..800 - 35, 0..320 - 35]);
        let origins: Vec<Origin> = Fold::origins(&panel, &plan.folds[0].score).collect();
        assert_eq!(origins[0], Origin { series: 0, begin: 0, at: 700 });
        assert_eq!(origins[89], Origin { series: 1, begin: 1000, at: 1280 });
    }

    #[test]
    fn rolling_origins_never_score_what_was_fit_nor_a_test_row() {
        for (rows, context, horizon) in [(144, 36, 12), (36, 9, 6), (114, 34, 11), (60, 5, 1)] {
            let panel = panel(&[rows], context, horizon);
            let plan = Plan::new(&panel, 12, false);
            let test = rows - rows / 5;
            assert!(plan.rolling && !plan.folds.is_empty(), "{rows} rows: {plan:?}");
            for fold in &plan.folds {
                let (fit, score) = (&fold.fit[0], &fold.score[0]);
                assert!(fit.len() >= MIN_FIT && !score.is_empty());
                let last_fit_row = fit.end - 1 + context + horizon;
                let (first, last) = (score.start + context, score.end - 1 + context + horizon);
                assert!(last_fit_row <= first, "{rows} rows: fit to row {last_fit_row}, scored from {first}");
                assert!(last <= test, "{rows} rows: scored to row {last}, test rows begin at {test}");
            }
            let ends: Vec<usize> =
                plan.folds.iter().map(|f| f.score[0].end - 1 + context + horizon).collect();
            assert_eq!(ends.last(), Some(&test));
        }
    }
}
