//! `landfall report`: one file with every chart, whose figures are those of `evaluate`.

mod program;

use program::{Folder, SMALL, csv};

#[test]
fn a_report_is_one_file_with_every_chart() {
    let f = Folder::new();
    f.write("d.csv", csv(300).replace("date,load,wind", "date,<load>&,wind"));
    f.runs(&format!("{SMALL} --epochs 2 --lr 0.003 --schedule constant --out run"));
    f.runs("report run --out r.html --svg r.svg");
    let html = f.read("r.html");
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    // Nothing asks the network for anything.
    for word in ["http:", "https:", "<script", "src=", "@import", "url("] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(!html.contains("<load>") && html.contains("&lt;load&gt;&amp;"), "names are escaped");
    for chart in [
        "First test window",
        "Window of median error",
        "Worst test window",
        "Last test window",
        "Beyond the end of the data",
        "Error by horizon step",
        "Error by column",
        "Histogram of residuals",
        "Residuals over time",
        "Loss and validation error",
        "Learning rate",
    ] {
        assert!(html.contains(&format!("<figcaption>{chart}")), "{chart}");
    }
    // The forecast is what people open a report for: it comes first, with its numbers.
    let place = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}"));
    let order = [
        "<h2>Forecast</h2>",
        "The whole series and its forecast",
        "<th scope=\"col\">Date</th>",
        "How good it is",
        "MASE",
        "sMAPE",
    ];
    assert!(order.windows(2).all(|two| place(two[0]) < place(two[1])), "{order:?}");
    for text in [concat!("landfall ", env!("CARGO_PKG_VERSION")), "landfall forecast run"] {
        place(text);
    }
    // The errors are those of evaluate, with four significant digits.
    let scores = f.runs("evaluate run --json").json();
    for name in ["mse", "mae"] {
        let x = scores[name].as_f64().expect("a number");
        let places = (3.0 - x.log10().floor()).max(0.0) as usize;
        assert!(html.contains(&format!("<td>{x:.places$}</td>")), "{name} {x}");
    }
    let svg = f.read("r.svg");
    assert!(svg.starts_with("<svg xmlns=") && svg.contains("prefers-color-scheme:dark"), "{svg:.300}");
    assert_eq!(f.refused("report run --out r.html"), "r.html exists already; choose another file");
}

/// A run of too few rows to test anything is forecast by `train`'s word; its report shows that forecast and says why no errors are there.
#[test]
fn a_run_that_was_not_tested_is_reported() {
    let f = Folder::new();
    let rows: String =
        (0..30).map(|i| format!("20{:02}-{:02}-01,{}\n", 20 + i / 12, 1 + i % 12, 50 + i % 12)).collect();
    f.write("d.csv", format!("month,y\n{rows}"));
    f.runs("train --data d.csv --horizon 12 --device cpu --threads 1 --max-steps 5 --out run");
    let said = f.run("report run --out r.html").err;
    assert!(said.contains("nothing of this data can be tested"), "{said}");
    let html = f.read("r.html");
    assert!(
        html.contains("The whole series and its forecast")
            && html.contains("nothing of this data can be tested"),
        "{html:.500}"
    );
    let picture = f.refused("report run --out s.html --svg s.svg");
    assert!(picture.starts_with("--svg and run: it shows a test window"), "{picture}");
    let refused = f.refused("evaluate run");
    assert!(
        refused.starts_with("nothing of this data can be tested: ") && refused.contains("shorter horizon"),
        "{refused}"
    );
}
