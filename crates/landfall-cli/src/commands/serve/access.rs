//! Who may ask: on the machine itself, requests that name it as their host and come from no page of somebody else; beyond it, who has
//! the token.

use super::answer::Refusal;
use crate::args::Access as Args;
use crate::error::CliError;
use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use hyper::{HeaderMap, Request, StatusCode};
use std::net::{IpAddr, SocketAddr};

/// The variable of the environment that holds the token.
const VARIABLE: &str = "LANDFALL_TOKEN";

/// What a request needs.
pub(super) struct Access {
    /// Where the server listens.
    address: SocketAddr,
    /// Further names by which it may be asked.
    hosts: Vec<String>,
    token: Option<String>,
}

impl Access {
    /// For a server at this address.
    pub(super) fn of(args: &Args, address: SocketAddr) -> Result<Self, CliError> {
        let token = match (&args.token, &args.token_file, std::env::var(VARIABLE).ok()) {
            (Some(token), _, _) => Some((token.clone(), "--token")),
            (None, Some(path), _) => {
                let read = std::fs::read_to_string(path);
                let text = read.map_err(|why| CliError::Token { path: path.clone(), why })?;
                Some((text, "--token-file"))
            }
            (None, None, given) => given.map(|token| (token, VARIABLE)),
        };
        let token = match token.filter(|_| !args.no_token) {
            Some((text, from)) => {
                let token = text.trim().to_owned();
                if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                    let why = "a token is one or more visible ASCII characters without blanks";
                    return Err(CliError::Flags { flag: "the token", other: from.to_owned(), why });
                }
                Some(token)
            }
            None => None,
        };
        if token.is_none() && !args.no_token && !address.ip().is_loopback() {
            return Err(CliError::Open { address: address.ip() });
        }
        Ok(Self { address, hosts: args.allow_host.clone(), token })
    }

    /// The same for a server that listens here, at the port that it was given.
    pub(super) fn at(self, address: SocketAddr) -> Self {
        Self { address, ..self }
    }

    /// Why a request is refused, if it is. Whether the server lives, everybody may ask who names it rightly.
    pub(super) fn refusal<B>(&self, request: &Request<B>) -> Option<Refusal> {
        let headers = request.headers();
        let host = match host(headers) {
            Ok(host) => host,
            Err(refusal) => return Some(refusal),
        };
        let asked = request.uri().authority().map(hyper::http::uri::Authority::as_str);
        for authority in std::iter::once(host).chain(asked) {
            if self.address.ip().is_loopback() && !self.knows(authority) {
                let text = format!(
                    "the host {} is not this server; ask it as {}, or give landfall serve --allow-host",
                    shown(authority),
                    self.address
                );
                return Some(Refusal::new(StatusCode::FORBIDDEN, text));
            }
        }
        if let Some(origin) = headers.get_all(ORIGIN).iter().find(|origin| !self.own(origin.as_bytes(), host))
        {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            let text = format!(
                "a page of {} may not ask this server; landfall serve --allow-host lets pages of a host",
                shown(&origin)
            );
            return Some(Refusal::new(StatusCode::FORBIDDEN, text));
        }
        let token = self.token.as_ref().filter(|_| request.uri().path() != "/health")?;
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let (scheme, rest) = given.split_at_checked(7).unwrap_or_default();
        let right = scheme.eq_ignore_ascii_case(b"bearer ") && same(rest.trim_ascii(), token.as_bytes());
        let text = "this server needs its token: -H 'Authorization: Bearer TOKEN'";
        (!right).then(|| Refusal::new(StatusCode::UNAUTHORIZED, text))
    }

    /// Whether a host, with a port or without, is the machine itself or one that is allowed.
    fn knows(&self, authority: &str) -> bool {
        let name = name_of(authority);
        let itself = name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        itself || self.allows(name)
    }

    fn allows(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    /// Whether a page of this origin is the server's own, or of a host that is allowed.
    fn own(&self, origin: &[u8], host: &str) -> bool {
        let Ok(origin) = std::str::from_utf8(origin) else { return false };
        let Some((_, authority)) = origin.split_once("://") else { return false };
        let port = format!(":{}", self.address.port());
        let here = self.address.ip().is_loopback() && self.knows(authority) && authority.ends_with(&port);
        authority.eq_ignore_ascii_case(host) || here || self.allows(name_of(authority))
    }
}

/// The one host that a request names.
fn host(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut all = headers.get_all(HOST).iter();
    match (all.next().map(|host| host.to_str()), all.next()) {
        (Some(Ok(host)), None) => Ok(host),
        _ => Err(Refusal::new(StatusCode::BAD_REQUEST, "a request has one header Host; give it")),
    }
}

/// A host without its port, and an address of IPv6 without its brackets.
fn name_of(authority: &str) -> &str {
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((address, rest)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return if rest.is_empty() || rest.strip_prefix(':').is_some_and(digits) {
            address
        } else {
            authority
        };
    }
    match authority.rsplit_once(':') {
        Some((name, port)) if digits(port) => name,
        Some(_) | None => authority,
    }
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Whether two texts are equal, in a time that does not tell where they differ.
fn same(given: &[u8], token: &[u8]) -> bool {
    let mut differs = u8::from(given.len() != token.len());
    for (given, own) in given.iter().chain(std::iter::repeat(&0)).zip(token) {
        differs |= std::hint::black_box(given ^ own);
    }
    differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: &str, hosts: &[&str], token: Option<&str>) -> Access {
        Access {
            address: address.parse().expect("an address"),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            token: token.map(str::to_owned),
        }
    }

    fn code(access: &Access, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        access.refusal(&request).map_or(200, |refusal| refusal.code.as_u16())
    }

    #[test]
    fn hosts_on_the_machine_itself_are_its_own() {
        let local = access("127.0.0.1:8080", &["shop.example"], None);
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1",
            "127.0.0.1:9000",
            "127.8.8.8",
            "[::1]:8080",
            "shop.example:1",
        ] {
            assert_eq!(code(&local, "/", &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil",
            "10.0.0.1",
            "[::2]",
            "",
            "localhost:80:80",
            "[::1]evil",
            "0.0.0.0",
            "xlocalhost",
        ] {
            assert_eq!(code(&local, "/health", &[("host", host)]), 403, "{host}");
        }
        assert_eq!(code(&local, "/", &[]), 400);
        assert_eq!(code(&local, "/", &[("host", "localhost"), ("host", "evil.example")]), 400);
        assert_eq!(code(&local, "http://evil.example/", &[("host", "localhost")]), 403);
        // Beyond the machine there are names that it does not know.
        let open = access("192.168.0.7:8080", &[], None);
        assert_eq!(code(&open, "/", &[("host", "box.example:8080")]), 200);
    }

    #[test]
    fn pages_of_others_are_refused() {
        let local = access("127.0.0.1:8080", &["shop.example"], None);
        let from =
            |host: &str, origin: &str| code(&local, "/forecast", &[("host", host), ("origin", origin)]);
        for (host, origin) in [
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1:8080", "http://localhost:8080"),
            // Through a tunnel.
            ("localhost:9000", "http://localhost:9000"),
            ("localhost:8080", "https://shop.example"),
        ] {
            assert_eq!(from(host, origin), 200, "{host} {origin}");
        }
        for origin in
            ["null", "http://evil.example", "http://localhost:3000", "http://localhost:8080.evil.example", ""]
        {
            assert_eq!(from("localhost:8080", origin), 403, "{origin}");
        }
        let open = access("0.0.0.0:8080", &[], None);
        let of = |origin| code(&open, "/", &[("host", "box:8080"), ("origin", origin)]);
        assert_eq!((of("http://box:8080"), of("http://evil.example")), (200, 403));
    }

    #[test]
    fn a_token_is_needed_for_all_but_health() {
        let open = access("0.0.0.0:8080", &[], Some("s3cret"));
        let with = |value: &str| code(&open, "/model", &[("host", "box"), ("authorization", value)]);
        assert_eq!((with("Bearer s3cret"), with("bearer  s3cret ")), (200, 200));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer s3cre",
            "Bearer s3crets",
            "Bearer S3cret",
            "Basic s3cret",
            "s3cret",
        ] {
            assert_eq!(with(wrong), 401, "{wrong}");
        }
        assert_eq!(
            (code(&open, "/model", &[("host", "box")]), code(&open, "/health", &[("host", "box")])),
            (401, 200)
        );
    }
}
