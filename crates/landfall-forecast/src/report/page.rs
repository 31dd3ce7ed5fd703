//! The file: head, sections, tables.

use super::style;
use super::svg::escape;
use std::fmt::Write;

/// A page that grows from top to bottom.
#[derive(Debug, Default)]
pub(super) struct Page {
    body: String,
}

impl Page {
    pub(super) fn heading(&mut self, level: u8, text: &str) {
        let _ = writeln!(self.body, "<h{level}>{}</h{level}>", escape(text));
    }

    /// A paragraph of a class, which may be empty.
    pub(super) fn paragraph(&mut self, class: &str, text: &str) {
        let _ = writeln!(self.body, "<p class=\"{class}\">{}</p>", escape(text));
    }

    /// Names and what they are.
    pub(super) fn facts(&mut self, facts: &[(&str, String)]) {
        self.body += "<dl class=\"facts\">";
        for (name, value) in facts {
            let _ = write!(self.body, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
        }
        self.body += "</dl>\n";
    }

    /// A table; the row of number `own` stands out.
    pub(super) fn table(&mut self, header: &[&str], rows: &[Vec<String>], own: Option<usize>) {
        let cells = |tag: &str, row: &[String]| -> String {
            row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
        };
        let header: Vec<String> = header.iter().map(|&h| h.to_owned()).collect();
        let head = cells("th scope=\"col\"", &header).replace("</th scope=\"col\">", "</th>");
        let _ = write!(
            self.body,
            "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead><tbody>"
        );
        for (i, row) in rows.iter().enumerate() {
            let class = if own == Some(i) { " class=\"own\"" } else { "" };
            let _ = write!(self.body, "<tr{class}>{}</tr>", cells("td", row));
        }
        self.body += "</tbody></table></div>\n";
    }

    /// Charts beside each other: title, what stands beside it, and the SVG.
    pub(super) fn charts(&mut self, charts: &[(String, String, String)]) {
        self.body += "<div class=\"cards\">";
        for (title, beside, svg) in charts {
            let (title, beside) = (escape(title), escape(beside));
            let _ = write!(
                self.body,
                "<figure><figcaption>{title} <span>{beside}</span></figcaption>{svg}</figure>"
            );
        }
        self.body += "</div>\n";
    }

    /// A chart as wide as the page; on a narrow screen it is moved by hand.
    pub(super) fn wide_chart(&mut self, title: &str, beside: &str, svg: &str) {
        let (title, beside) = (escape(title), escape(beside));
        let _ = writeln!(
            self.body,
            "<figure class=\"wide\" tabindex=\"0\"><figcaption>{title} <span>{beside}</span></figcaption>{svg}</figure>"
        );
    }

    /// The whole file.
    pub(super) fn html(self, title: &str) -> String {
        let (title, chart, page, body) = (escape(title), style::CHART, style::PAGE, self.body);
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\
             <title>{title}</title>\n<style>\n{chart}{page}</style></head>\n<body><main>\n{body}</main></body></html>\n"
        )
    }
}
