//! `digits.csv` holds 1,797 digits, each line 64 pixels from 0 to 16 and the label: the test set of "Optical Recognition of Handwritten
//! Digits" of the UCI Machine Learning Repository (Alpaydin and Kaynak, 1998), CC BY 4.0, as scikit-learn ships it.

use landfall::Error;
use landfall_train::train::Arrays;

/// The digits in an order of their own: the file has those of one writer behind one another.
pub(crate) fn digits() -> Result<Arrays, Error> {
    let lines: Vec<&str> = include_str!("../digits.csv").lines().collect();
    let n = lines.len();
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for i in 0..n {
        let numbers = lines[i * 769 % n].split(',').map(|number| number.parse().unwrap_or(f32::NAN));
        let mut numbers: Vec<f32> = numbers.collect();
        labels.extend(numbers.pop().map(|label| label as i64));
        pixels.extend(numbers.iter().map(|pixel| pixel / 16.0));
    }
    Arrays::new().with("pixels", [n, 64], pixels)?.with("label", [n], labels)
}
