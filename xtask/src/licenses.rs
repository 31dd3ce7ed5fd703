//! The licences of the crates whose code is in the Python wheel.

use crate::command::output;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

/// The file, which the wheel carries.
const FILE: &str = "python/THIRD-PARTY.md";

/// Writes the list, or only compares it.
pub(crate) fn run(top: &Path, check: bool) -> Result<(), String> {
    let text = list(top, "landfall-python", "the wheel", &["landfall-cli/parquet"])?;
    let path = top.join(FILE);
    if !check {
        return std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()));
    }
    match std::fs::read_to_string(&path) {
        Ok(found) if found == text => Ok(()),
        Ok(_) | Err(_) => Err(format!("{FILE} is not what Cargo.lock says; run cargo xtask licenses")),
    }
}

/// The list of what a package of this workspace holds, under the name that readers know, with these features.
pub(crate) fn list(top: &Path, root: &str, called: &str, features: &[&str]) -> Result<String, String> {
    let platform = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let text = output(
        Command::new(env!("CARGO"))
            .current_dir(top)
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(platform)
            .args(features.iter().flat_map(|feature| ["--features", feature])),
    )?;
    let metadata: Value = serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))?;
    let by_id = |of: &Value| -> HashMap<String, Value> {
        let items = of.as_array().into_iter().flatten();
        items.map(|item| (item["id"].as_str().unwrap_or_default().to_owned(), item.clone())).collect()
    };
    let (packages, nodes) = (by_id(&metadata["packages"]), by_id(&metadata["resolve"]["nodes"]));
    let id = packages.iter().find(|(_, package)| package["name"] == root).map(|(id, _)| id);
    let mut open = vec![id.ok_or_else(|| format!("there is no package {root}"))?.clone()];
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !found.insert(id.clone()) {
            continue;
        }
        for dependency in nodes.get(&id).and_then(|node| node["deps"].as_array()).into_iter().flatten() {
            // Those of tests and of builds are not in the wheel.
            let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            let linked = kinds.into_iter().any(|kind| kind["kind"].is_null());
            if let Some(id) = dependency["pkg"].as_str().filter(|_| linked) {
                open.push(id.to_owned());
            }
        }
    }
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or("not said").to_owned();
    let foreign =
        found.iter().filter_map(|id| packages.get(id)).filter(|package| !package["source"].is_null());
    let mut rows: Vec<String> = foreign
        .map(|p| {
            let (name, version) = (text(p, "name"), text(p, "version"));
            format!("| {name} | {version} | {} | {} |", text(p, "license"), text(p, "repository"))
        })
        .collect();
    rows.sort();
    Ok(format!(
        "# Crates in {called}\n\nIts compiled part holds code of these crates. Written by `cargo xtask licenses` from \
         Cargo.lock; macros that run at build time are among them.\n\n| crate | version | licence | source |\n|---|---|---|---|\n{}\n",
        rows.join("\n")
    ))
}
