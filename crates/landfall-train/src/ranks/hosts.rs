//! Slurm's lists of hosts: `node[01-03,07],login1`.

/// The first host of a list: of each bracket the first number, of the list the first term. [`None`] if it is no such list.
pub(super) fn first(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list.trim();
    loop {
        let end = rest.find(['[', ']', ',']).unwrap_or(rest.len());
        let (plain, after) = rest.split_at(end);
        host.push_str(plain);
        let Some(inner) = after.strip_prefix('[') else {
            let complete = after.is_empty() || after.starts_with(',');
            return (complete && !host.is_empty() && !host.contains(char::is_whitespace)).then_some(host);
        };
        let (numbers, after) = inner.split_once(']')?;
        let number = numbers.split([',', '-']).next()?;
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        host.push_str(number);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::first;

    #[test]
    fn the_first_host_of_a_list() {
        let table = [
            ("node1", Some("node1")),
            ("a1,b2", Some("a1")),
            ("node[01-03,07]", Some("node01")),
            ("node[7]", Some("node7")),
            ("node[12,02]", Some("node12")),
            ("rack[1-2]node[3-4]", Some("rack1node3")),
            ("rack[2,5-6]-n[008-010].cluster.example", Some("rack2-n008.cluster.example")),
            ("login,node[1-3]", Some("login")),
            ("node[1-3],login", Some("node1")),
            ("gpu-a-3.example.org", Some("gpu-a-3.example.org")),
            (" node1 ", Some("node1")),
            ("10.0.0.[1-4]", Some("10.0.0.1")),
            ("", None),
            (",a", None),
            ("node[1-3", None),
            ("node1-3]", None),
            ("node[]", None),
            ("node[-3]", None),
            ("node[a-c]", None),
            ("node 1", None),
        ];
        for (list, host) in table {
            assert_eq!(first(list).as_deref(), host, "{list:?}");
        }
    }
}
