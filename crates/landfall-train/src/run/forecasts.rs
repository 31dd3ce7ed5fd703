//! The forecasts of all windows of a segment, one window at a time.

use crate::data::{Segment, WindowForecast, WindowedPanel};
use crate::train::Session;

/// Forecasts every window of a segment, series after series, window after window: `each` gets them one at a time, in the
/// units of the data. `session` holds the data of `panel`. Memory does not grow with the number of windows.
///
/// # Errors
/// A device fault; what `each` returns.
pub fn window_forecasts<E: From<landfall::Error> + Send>(
    session: &mut Session,
    panel: &WindowedPanel,
    segment: Segment,
    mut each: impl FnMut(WindowForecast<'_>) -> Result<(), E> + Send,
) -> Result<(), E> {
    let loss = session.options().loss.clone();
    let (outputs, point) = (loss.outputs(), loss.point());
    let parts = panel.parts(segment);
    let Some(horizon) = parts.first().map(|part| part.windows.horizon()) else { return Ok(()) };
    let size = panel.targets() * outputs * horizon;
    let mut windows = parts.iter().enumerate().flat_map(|(series, part)| {
        let target = |start| part.windows.target(start).start;
        part.windows.starts().enumerate().map(move |(window, start)| (series, window, target(start)))
    });
    let mut values = vec![0.0; size];
    let engine = session.engine.clone();
    // Inside, every launch finds the engine's threads at hand.
    engine.enter(|| {
        session.predict_all(segment, |_, scaled| {
            for (scaled, (series, window, start_row)) in scaled.chunks_exact(size).zip(&mut windows) {
                let scaler = parts[series].scaler;
                for (i, (value, scaled)) in values.iter_mut().zip(scaled).enumerate() {
                    *value = scaler.inverse(i / (outputs * horizon), *scaled);
                }
                let values = &values;
                let forecast = WindowForecast { series, window, start_row, horizon, outputs, point, values };
                each(forecast)?;
            }
            Ok(())
        })
    })
}
