//! Predictions of several windows at once: programs of fixed batches, which share the memory of the largest.

use super::names::{CONTEXT, KNOWN, PREDICTION};
use super::session::Session;
use landfall::{DType, DeviceKind, Error, Program};

/// A scaled window `[C, L]`, and its columns known in advance `[K, L + H]`.
pub type Seen<'a> = (&'a [f64], &'a [f64]);

/// Programs that predict 1, 2, 4, … windows in one run. All memory is planned and allocated here; a run allocates nothing on the
/// device.
///
/// ```
/// # use landfall::Engine;
/// # use landfall_train::models::{NLinear, NLinearConfig};
/// # use landfall_train::train::{Dataset, Session, TrainingOptions};
/// use landfall_train::train::Batches;
/// # let model = NLinear::new(NLinearConfig { context: 12, horizon: 4, outputs: 1 })?;
/// # let data = Dataset::blank(2, 12, 4, 1);
/// # let mut session = Session::new(&Engine::cpu()?, Box::new(model), &data, 12, 4, TrainingOptions::default())?;
/// let mut batches = Batches::new(&mut session, 8)?; // of a session with windows of two columns and 12 rows
/// let windows = [vec![0.5; 2 * 12], vec![-1.0; 2 * 12], vec![0.0; 2 * 12]];
/// let seen = windows.each_ref().map(|window| (window.as_slice(), &[][..])); // no columns known in advance
/// let predicted = batches.predict(&mut session, &seen)?;
/// assert_eq!(predicted[1], session.predict(&windows[1])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batches {
    /// By their batches, ascending.
    programs: Vec<(usize, Program)>,
    /// An input of the windows of a run, behind one another.
    input: Vec<f64>,
    /// Batches that were left out, because they round in another order.
    left_out: Vec<usize>,
}

impl Batches {
    /// Programs for up to `most` windows at once. On a CPU a batch whose predictions are not those of [`Session::predict`] to
    /// the last bit is left out, as [`Batches::left_out`] says: large products may be summed in another order.
    ///
    /// # Errors
    /// Not enough memory; a device fault.
    pub fn new(session: &mut Session, most: usize) -> Result<Self, Error> {
        let most = most.max(1);
        let sizes: Vec<usize> = std::iter::successors(Some(1usize), |n| n.checked_mul(2))
            .take_while(|&n| n < most)
            .chain([most])
            .collect();
        let programs = session.batch_programs(&sizes)?;
        let programs = sizes.into_iter().zip(programs).collect();
        let mut all = Self { programs, input: Vec::new(), left_out: Vec::new() };
        if session.engine.device() == DeviceKind::Cpu {
            all.leave_out_other_roundings(session)?;
        }
        Ok(all)
    }

    /// The most windows of one run.
    #[must_use]
    pub fn most(&self) -> usize {
        self.programs.last().map_or(1, |(size, _)| *size)
    }

    /// Batches that no run takes.
    #[must_use]
    pub fn left_out(&self) -> &[usize] {
        &self.left_out
    }

    /// Predicts each scaled window `[C, L]` with its columns known in advance `[K, L + H]`, as [`Session::predict_with`]
    /// predicts one: `[targets, Q, H]` for each. Without such columns their values are empty.
    ///
    /// # Errors
    /// [`Error::HostData`] for a window of another size; a device fault.
    pub fn predict(&mut self, session: &mut Session, windows: &[Seen<'_>]) -> Result<Vec<Vec<f64>>, Error> {
        let mut predicted = Vec::with_capacity(windows.len());
        for part in windows.chunks(self.most()) {
            let at = self.programs.iter().position(|(size, _)| *size >= part.len()).unwrap_or(0);
            let (size, program) = &mut self.programs[at];
            run(session, program, *size, part, &mut self.input, &mut predicted)?;
        }
        Ok(predicted)
    }

    fn leave_out_other_roundings(&mut self, session: &mut Session) -> Result<(), Error> {
        let (elements, known) = session.window_elements();
        let wave = |w: usize, i: usize| ((w * elements + i) as f64 * 0.7).sin() * (1.0 + w as f64 * 0.1);
        let waves = |elements: usize| -> Vec<Vec<f64>> {
            (0..self.most()).map(|w| (0..elements).map(|i| wave(w, i)).collect()).collect()
        };
        let (windows, known) = (waves(elements), waves(known));
        let windows: Vec<Seen<'_>> =
            windows.iter().zip(&known).map(|(window, known)| (window.as_slice(), known.as_slice())).collect();
        let alone: Result<Vec<_>, _> =
            windows.iter().map(|(window, known)| session.predict_with(window, known)).collect();
        let alone = alone?;
        let mut kept = Vec::with_capacity(self.programs.len());
        for (size, mut program) in std::mem::take(&mut self.programs) {
            let mut predicted = Vec::with_capacity(size);
            run(session, &mut program, size, &windows[..size], &mut self.input, &mut predicted)?;
            if predicted[..] == alone[..size] {
                kept.push((size, program));
            } else {
                self.left_out.push(size);
            }
        }
        self.programs = kept;
        Ok(())
    }
}

/// One run of a program whose batch is `size` over as many windows or fewer.
fn run(
    session: &mut Session,
    program: &mut Program,
    size: usize,
    windows: &[Seen<'_>],
    input: &mut Vec<f64>,
    predicted: &mut Vec<Vec<f64>>,
) -> Result<(), Error> {
    let (elements, known) = session.window_elements();
    for (name, what, elements) in
        [(CONTEXT, "a window", elements), (KNOWN, "the columns known in advance of a window", known)]
    {
        input.clear();
        for &(window, known) in windows {
            let values = if name == KNOWN { known } else { window };
            if values.len() != elements {
                let (expected, given) = (session.window_spec(elements), session.window_spec(values.len()));
                return Err(Error::HostData { what: what.to_owned(), expected, given });
            }
            input.extend_from_slice(values);
        }
        if elements == 0 {
            continue;
        }
        // Windows past the last one are zeros: what is predicted of them is left out below.
        input.resize(size * elements, 0.0);
        if session.options().dtype == DType::F64 {
            program.write(name, input)?;
        } else {
            program.write(name, &input.iter().map(|&x| x as f32).collect::<Vec<f32>>())?;
        }
    }
    program.run(&mut session.state)?;
    let all = program.read_host(PREDICTION)?.data;
    let all = session.options().loss.forecasts(all, session.horizon());
    predicted.extend(all.chunks_exact(all.len() / size).take(windows.len()).map(<[f64]>::to_vec));
    Ok(())
}
