//! Hostile requests, and what a server may answer to each.

use super::random::Random;
use super::server::{Kind, TOKEN};
use crate::http;
use std::fmt::Write as _;

/// What a request may end with.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
    /// The codes that are right.
    pub(super) codes: &'static [u16],
    /// What the client does once it has written.
    pub(super) then: Then,
}

/// What a client does once it has written.
#[derive(PartialEq)]
pub(super) enum Then {
    /// It waits for the answer.
    Waits,
    /// It waits too, and the server may end the connection without an answer.
    Stalls,
    /// It ends its side of the connection, and may have no answer.
    Ends,
}

/// An hourly series of 300 rows.
pub(super) fn csv() -> String {
    let mut text = "date,load,wind\n".to_owned();
    for i in 0..300usize {
        let wave = (i as f64 / 24.0 * std::f64::consts::TAU).sin();
        let noise = ((i * 7919 + 13) % 101) as f64 / 101.0;
        let _ = writeln!(
            text,
            "2021-01-{:02} {:02}:00:00,{:.4},{:.4}",
            1 + i / 24,
            i % 24,
            50.0 + 9.0 * wave + noise,
            3.0 + noise
        );
    }
    text
}

/// So many columns of so many rows as JSON, with names that no run knows.
pub(super) fn columns(n: usize, rows: usize) -> String {
    let cells = |c: usize| (0..rows).map(|row| format!("{}.5", (row * (c + 3)) % 17)).collect::<Vec<_>>();
    let columns: Vec<String> = (0..n).map(|c| format!("\"c{c}\": [{}]", cells(c).join(","))).collect();
    format!("{{\"columns\": {{{}}}}}", columns.join(","))
}

/// A request with a body and the token.
pub(super) fn post(path: &str, content: &str, body: &[u8]) -> Vec<u8> {
    with_header(&http::post(path, content, body), &format!("Authorization: Bearer {TOKEN}"))
}

/// A request with one header more.
fn with_header(request: &[u8], header: &str) -> Vec<u8> {
    let first = request.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    [&request[..first], header.as_bytes(), b"\r\n", &request[first..]].concat()
}

/// One of these.
fn word(random: &mut Random, of: &[&'static str]) -> &'static str {
    of[random.below(of.len())]
}

/// A text with some bytes changed, left out or repeated.
fn damaged(random: &mut Random, text: &str) -> Vec<u8> {
    let mut text = text.as_bytes().to_vec();
    for _ in 0..1 + random.below(20) {
        let at = random.below(text.len());
        match random.below(4) {
            0 => text[at] = random.next() as u8,
            1 => text.truncate(at.max(1)),
            2 => text.insert(at, *random.pick(b",;\n\"\0\xff9-")),
            _ => {
                let piece = text[at..(at + random.below(200)).min(text.len())].to_vec();
                text.extend_from_slice(&piece);
            }
        }
    }
    text
}

/// What stands behind the `?` of a request with a right history, and the code for it of a server without a run. A server of a run
/// knows none of it.
const QUERIES: [(&str, &[u16]); 24] = [
    ("series", &[400]),
    ("series=%", &[400]),
    ("a=b", &[400]),
    ("horizon", &[400]),
    ("horizon=", &[400]),
    ("horizon=-1", &[400]),
    ("horizon=1e1", &[400]),
    ("horizon=99999999999999999999", &[400]),
    ("horizon=12&horizon=12", &[400]),
    ("horizon=12&series=%ff%fe", &[400]),
    ("horizon=12&target=%zz", &[400]),
    ("horizon=12&interval=", &[400]),
    ("horizon=12&interval=none,80", &[400]),
    ("horizon=12&quantiles=0.5,,", &[400]),
    ("horizon=0", &[422]),
    ("horizon=513", &[422]),
    ("horizon=12&interval=100", &[422]),
    ("horizon=12&interval=-inf", &[422]),
    ("horizon=12&quantiles=nan", &[422]),
    ("horizon=12&target=lead", &[422]),
    ("horizon=12&target=load,load", &[422]),
    ("horizon=512", &[200]),
    // Levels so near to 100 that half of the rest is no level in f64.
    ("horizon=12&interval=1,99.99999999999999", &[422]),
    ("horizon=12&quantiles=1e-320&interval=1,99.99&series=%00", &[200]),
];

/// The requests with each of these queries: few, and each with its code, so every attack sends them all.
pub(super) fn queries(history: &str, kind: Kind) -> Vec<Case> {
    let case = |(query, codes): &(&str, &'static [u16])| Case {
        name: "query",
        bytes: post(&format!("/forecast?{query}"), "text/csv", history.as_bytes()),
        codes: kind.codes(&[400], codes),
        then: Then::Waits,
    };
    QUERIES.iter().map(case).collect()
}

/// One hostile request to a server of this kind.
pub(super) fn hostile(random: &mut Random, history: &str, kind: Kind) -> Case {
    let post = |content: &str, body: &[u8]| post(kind.path(), content, body);
    let json = |body: &str| post("application/json", body.as_bytes());
    let head = |rest: &str| {
        format!(
            "POST {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: text/csv\r\n{rest}",
            kind.path()
        )
    };
    let column = |cell: &str| format!("{{\"columns\": {{\"load\": [{cell}]}}}}");
    let both = |cells: &[String]| {
        let cells = cells.join(",");
        format!("{{\"columns\": {{\"load\": [{cells}], \"wind\": [{cells}]}}}}")
    };
    let halves = |n: usize| (0..n).map(|i| format!("{i}.5"));
    let case = |name, bytes, codes| Case { name, bytes, codes, then: Then::Waits };
    match random.below(38) {
        0 => {
            let whole = both(&halves(60).collect::<Vec<_>>());
            case("truncated JSON", json(&whole[..random.below(whole.len())]), &[400, 422])
        }
        1 => {
            let cells = ["\"a\"", "[1]", "{}", "{\"a\": {}}", "true, []", "\"\\ud800\"", "1 2", "nul"];
            case("wrong types", json(&column(word(random, &cells))), &[400, 422])
        }
        2 => case(
            "not a number",
            json(&column(word(random, &["NaN", "Infinity", "-Infinity", "1e999", "-1e400"]))),
            &[400, 422],
        ),
        3 => {
            let depth = 1 + random.below(200_000);
            case(
                "deep JSON",
                json(&word(random, &["[", "{\"a\":", "{\"histories\":["]).repeat(depth)),
                // Histories that stand in a history are understood, and refused.
                &[400, 413, 422],
            )
        }
        // The pretrained forecaster continues any finite values.
        4 => {
            let cells = ["1e300", "-1e308", "1e40", "3"];
            let cells: Vec<String> = (0..48).map(|_| word(random, &cells).to_owned()).collect();
            case("far values", json(&both(&cells)), kind.codes(&[422], &[200]))
        }
        5 => case("huge by its header", head("Content-Length: 99999999999\r\n\r\na").into_bytes(), &[413]),
        6 => {
            let mut bytes = head("Transfer-Encoding: chunked\r\n\r\n").into_bytes();
            let chunk = [b"10000\r\n".as_slice(), &[b'7'; 0x10000], b"\r\n"].concat();
            (0..20).for_each(|_| bytes.extend_from_slice(&chunk));
            bytes.extend_from_slice(b"0\r\n\r\n");
            case("huge in chunks", bytes, &[413])
        }
        7 => {
            let n = 1 + random.below(400);
            let bytes: Vec<u8> = (0..n).map(|_| random.next() as u8).collect();
            case("bytes", [bytes, b"\r\n\r\n".to_vec()].concat(), &[400]).ends()
        }
        8 => case(
            "long header",
            format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(100_000 + random.below(100_000)))
                .into_bytes(),
            &[431],
        ),
        9 => {
            let headers: String = (0..100 + random.below(1000)).fold(String::new(), |mut all, i| {
                let _ = write!(all, "X-{i}: 1\r\n");
                all
            });
            case(
                "many headers",
                format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").into_bytes(),
                &[431],
            )
        }
        10 => {
            let head = head(&format!("Content-Length: {}\r\n\r\n", history.len()));
            let body = &history.as_bytes()[..random.below(history.len())];
            case("body cut off", [head.as_bytes(), body].concat(), &[400]).ends()
        }
        // Rarely: each takes as long as the server waits.
        11 if random.below(8) == 0 => {
            let whole = post("text/csv", history.as_bytes());
            let head = whole.len() - history.len();
            let at = 1 + random.below(whole.len() - 1);
            let then = if at >= head { Then::Waits } else { Then::Stalls };
            Case { name: "slow client", bytes: whole[..at].to_vec(), codes: &[408], then }
        }
        11 => case("nothing", Vec::new(), &[]).ends(),
        12 => case(
            "content type",
            post(
                word(
                    random,
                    &[
                        "text/html",
                        "",
                        "json",
                        "application/x-www-form-urlencoded",
                        "multipart/mixed; boundary=x",
                    ],
                ),
                b"a",
            ),
            &[415],
        ),
        13 | 14 => case("damaged CSV", post("text/csv", &damaged(random, history)), &[200, 413, 422]),
        15 => {
            let body = "{\"columns\": {\"lead\": [1, 2, 3]}}";
            case("other columns", json(body), kind.codes(&[422], &[200]))
        }
        16 => case("empty body", post(word(random, &["text/csv", "application/json"]), b""), &[400, 422]),
        17 => {
            let path = format!("/{}", "x".repeat(random.below(2000)));
            let method = word(random, &["GET", "POST", "DELETE", "OPTIONS", "BREW"]);
            case("other paths", format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n\r\n").into_bytes(), &[200, 404, 405])
        }
        18 => {
            let n = 65 + random.below(2000);
            case(
                "many histories",
                json(&format!("{{\"histories\": [{}]}}", vec![column("1"); n].join(","))),
                &[413],
            )
        }
        19 => {
            let text = head(
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            );
            case("two lengths", text.into_bytes(), &[400, 422])
        }
        20 => case("not UTF-8", post("application/json", b"{\"columns\": {\"l\xff\xfe\": [1]}}"), &[400]),
        21 => {
            let dates: [(&str, &'static [u16]); 6] = [
                ("\"\"", &[422]),
                ("\"2021-13-45\"", &[422]),
                ("null", &[422]),
                ("\"9999999999-01-01\"", &[422]),
                // Nanoseconds since 1970. Equal rows of one date are one row.
                ("1e18", &[200]),
                ("\"2021-01-01 00:00:00\"", &[200]),
            ];
            let (date, codes) = random.pick(&dates);
            let (dates, ones) = (vec![*date; 48].join(","), vec!["1"; 48].join(","));
            let body =
                format!("{{\"dates\": [{dates}], \"columns\": {{\"load\": [{ones}], \"wind\": [{ones}]}}}}");
            case("dates", json(&body), kind.codes(&[422], codes))
        }
        // Without a run one row is enough.
        22 => {
            let n = random.below(48);
            let codes: &[u16] = if n == 0 { &[422] } else { &[200] };
            case("short history", json(&both(&halves(n).collect::<Vec<_>>())), kind.codes(&[422], codes))
        }
        // A column more than half of which is missing is left out.
        23 => {
            let (known, missing) = (random.below(48), 1 + random.below(60));
            let cells: Vec<String> = halves(known).chain(vec!["null".to_owned(); missing]).collect();
            let codes: &[u16] = if known < missing { &[422] } else { &[200] };
            case("missing values", json(&both(&cells)), kind.codes(&[422], codes))
        }
        24 => {
            let mut queries = queries(history, kind);
            queries.swap_remove(random.below(queries.len()))
        }
        25 => case(
            "parts without a boundary",
            post(
                word(
                    random,
                    &[
                        "multipart/form-data",
                        "multipart/form-data; boundary",
                        "multipart/form-data; charset=x",
                    ],
                ),
                b"a",
            ),
            &[400],
        ),
        26 => {
            let part = |name: &str| {
                format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{history}\r\n")
            };
            let names = [&["data"][..], &["data", "future"], &["data", "data"], &["future"], &["other"], &[]];
            let parts: String = names[random.below(names.len())].iter().map(|name| part(name)).collect();
            let whole = damaged(random, &format!("{parts}--x--\r\n"));
            case("damaged parts", post("multipart/form-data; boundary=x", &whole), &[200, 400, 413, 422])
        }
        27 => {
            let n = 1000 + random.below(60_000);
            let name = word(random, &["c", "load", "x"]);
            let rows: Vec<String> =
                (0..n).map(|i| format!("{{\"{name}{}\":1}}", if name == "load" { 0 } else { i })).collect();
            // Columns of other names have one cell of all rows each; the equal ones are a constant.
            let codes: &[u16] = if name == "load" { &[200] } else { &[413, 422] };
            let body = format!("{{\"rows\":[{}]}}", rows.join(","));
            case("rows with names of their own", json(&body), kind.codes(&[413, 422], codes))
        }
        28 => {
            let n = 1000 + random.below(60_000);
            let columns: Vec<String> = (0..n).map(|i| format!("\"c{i}\":[1]")).collect();
            let body = format!("{{\"columns\":{{{}}}}}", columns.join(","));
            case("many names", json(&body), kind.codes(&[413, 422], &[413]))
        }
        29 => {
            let cells = word(random, &["{},", "{\"load\":1},{},", "{\"wind\":null},"])
                .repeat(1000 + random.below(60_000));
            let body = format!("{{\"rows\":[{cells}{{\"wind\":1}}]}}");
            case("rows without cells", json(&body), kind.codes(&[413, 422], &[422]))
        }
        30 => {
            let n = 1000 + random.below(100_000);
            let equal = random.below(2) == 0;
            let names: Vec<String> =
                (0..n).map(|i| if equal { "c".to_owned() } else { format!("c{i}") }).collect();
            let rows = vec!["1"; n].join(",");
            let body = format!("{}\n{rows}\n", names.join(","));
            case("wide header", post("text/csv", body.as_bytes()), kind.codes(&[413, 422], &[413]))
        }
        31 => {
            let (n, rows) = (65 + random.below(15_000), 1 + 2 * random.below(2));
            let text: String = (0..n * rows).fold("id,date,load,wind\n".to_owned(), |mut text, i| {
                let _ = writeln!(text, "k{},2021-01-0{},{i},1", i / rows, 1 + i % rows);
                text
            });
            // A row alone does not say that its text names a series.
            let codes: &[u16] = if rows == 1 { &[422] } else { &[413] };
            case("many series", post("text/csv", text.as_bytes()), codes)
        }
        32 => {
            let headers = [
                "Host: evil.example",
                "Host: 127.0.0.1.evil.example:80",
                "Host: localhost\r\nOrigin: http://evil.example",
                "Host: localhost\r\nOrigin: null",
                "Host: ",
                "Host: localhost\r\nHost: evil.example",
                "X-Host: localhost",
            ];
            let text = format!(
                "GET /model HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n{}\r\n\r\n",
                word(random, &headers)
            );
            case("other hosts", text.into_bytes(), &[400, 403])
        }
        33 => {
            let tokens = [
                "",
                "Authorization: Bearer\r\n",
                "Authorization: Bearer of-the-campaigm\r\n",
                "Authorization: Basic of-the-campaign\r\n",
            ];
            let path = word(random, &["/", "/model", "/metrics", "/forecast"]);
            let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", word(random, &tokens));
            case("no token", text.into_bytes(), &[401])
        }
        34 => {
            let (horizon, n) = (1 + random.below(128), 1 + random.below(3000));
            let levels: Vec<String> = (1..=n).map(|level| format!("{level}e-5")).collect();
            let path = format!("/forecast?horizon={horizon}&quantiles={}", levels.join(","));
            // Of two columns a median, the levels and the two bounds of an interval.
            let numbers = 2 * horizon * (1 + n + 2);
            let codes: &[u16] = if numbers > 1 << 18 { &[413] } else { &[200] };
            case("many levels", self::post(&path, "text/csv", history.as_bytes()), kind.codes(&[400], codes))
        }
        35 => {
            let (n, rows) = (1 + random.below(100), 1 + random.below(40));
            let codes: &[u16] = if n > 64 { &[413] } else { &[200] };
            case("many columns", json(&columns(n, rows)), kind.codes(&[422], codes))
        }
        // A CSV repeats the name of a column for each level, and that of a series in each row.
        36 => {
            let (name, n) = ("n".repeat(1 + random.below(300_000)), 1 + random.below(1000));
            let levels: Vec<String> = (1..=n).map(|level| format!("{level}e-5")).collect();
            let row = |day: usize| format!("{name},2021-01-0{day},{day}\nb,2021-01-0{day},{day}\n");
            let (query, text) = if random.below(2) == 0 {
                (format!("horizon=1&quantiles={}", levels.join(",")), format!("{name}\n1\n2\n"))
            } else {
                ("horizon=512".to_owned(), format!("id,date,load\n{}", (1..4).map(row).collect::<String>()))
            };
            let bytes = self::post(&format!("/forecast?{query}"), "text/csv", text.as_bytes());
            case("long names", bytes, kind.codes(&[400], &[200, 413]))
        }
        _ => case(
            "lengths that differ",
            json("{\"dates\": [\"2021-01-01\"], \"columns\": {\"load\": [1, 2], \"wind\": [1]}}"),
            &[422],
        ),
    }
}

impl Case {
    /// The client ends its side of the connection.
    fn ends(self) -> Self {
        Self { then: Then::Ends, ..self }
    }
}
