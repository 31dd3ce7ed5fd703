//! What the page calls, in the C interface of WebAssembly: [`room`] for a CSV, [`forecast`], and [`answer`] with its [`answer_len`].
//!
//! The page makes a new instance for each forecast, so a CSV leaves no memory behind, and what follows a defect is not asked again.

use std::sync::{Mutex, PoisonError};

static CSV: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<String> = Mutex::new(String::new());

fn say(text: String) {
    *ANSWER.lock().unwrap_or_else(PoisonError::into_inner) = text;
}

/// Memory for a CSV of so many bytes, which the page fills; null where there is not that much.
// SAFETY: no other symbol of a page has this name.
#[unsafe(no_mangle)]
pub extern "C" fn room(len: usize) -> *mut u8 {
    let mut csv = CSV.lock().unwrap_or_else(PoisonError::into_inner);
    csv.clear();
    if csv.try_reserve_exact(len).is_err() {
        return std::ptr::null_mut();
    }
    csv.resize(len, 0);
    csv.as_mut_ptr()
}

/// Forecasts so many rows of the CSV. Whatever comes of it is at [`answer`]; a defect ends the instance, and is there too.
// SAFETY: no other symbol of a page has this name.
#[unsafe(no_mangle)]
pub extern "C" fn forecast(horizon: usize) {
    std::panic::set_hook(Box::new(|defect| {
        let what = defect.payload_as_str().unwrap_or("no message");
        let at = defect.location().map(ToString::to_string).unwrap_or_default();
        let error = format!("internal error at {at}: {what}; please report it with the data");
        say(serde_json::json!({"error": error}).to_string());
    }));
    let csv = std::mem::take(&mut *CSV.lock().unwrap_or_else(PoisonError::into_inner));
    say(crate::answer::answer(&csv, horizon));
}

/// The answer: JSON in UTF-8, empty before the first one.
// SAFETY: no other symbol of a page has this name.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    ANSWER.lock().unwrap_or_else(PoisonError::into_inner).as_ptr()
}

/// Its bytes.
// SAFETY: no other symbol of a page has this name.
#[unsafe(no_mangle)]
pub extern "C" fn answer_len() -> usize {
    ANSWER.lock().unwrap_or_else(PoisonError::into_inner).len()
}

#[cfg(test)]
mod tests {
    /// The answer as the page reads it.
    fn said() -> String {
        // SAFETY: nobody writes the answer meanwhile, and it has as many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(super::answer(), super::answer_len()) };
        String::from_utf8(bytes.to_vec()).expect("JSON is UTF-8")
    }

    #[test]
    fn what_lies_in_the_room_is_forecast() {
        let csv = b"day,sales\n2024-01-01,3\n2024-01-02,5\n2024-01-03,4\n2024-01-04,5\n";
        let room = super::room(csv.len());
        // SAFETY: the room is as long.
        unsafe { std::ptr::copy_nonoverlapping(csv.as_ptr(), room, csv.len()) };
        super::forecast(2);
        assert_eq!(said(), crate::answer(csv, 2));
        assert!(said().contains("2024-01-06"), "{}", said());
        // The room was emptied.
        super::forecast(2);
        assert!(said().contains("error"), "{}", said());
        assert!(super::room(usize::MAX).is_null());
    }
}
