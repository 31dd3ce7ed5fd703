//! `docs/settings.md` is written from the declarations; `LANDFALL_BLESS=1` writes it anew.

use landfall_forecast::run::{Group, Preset, SETTINGS, Setting};
use landfall_train::models::{ModelKind, ModelOption};
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

/// A value by the name that it has in a file.
fn name(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}

/// A cell of a table of Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn of_setting(setting: &Setting) -> String {
    let range = setting.range_in_words();
    let takes =
        if range.is_empty() { setting.takes.to_owned() } else { format!("{}, {range}", setting.takes) };
    let mut notes = Vec::new();
    if setting.by_person() && setting.facts.resumable {
        notes.push("A resumed run may change it");
    }
    if setting.by_person() && !setting.facts.hashed {
        notes.push("The configuration's hash leaves it out");
    }
    let doc = [setting.help()].into_iter().chain(notes.into_iter().map(str::to_owned)).collect::<Vec<_>>();
    format!("| `{}` | `{}` | {takes} | {}. |\n", setting.key(), setting.name, cell(&doc.join(". ")))
}

fn of_option(option: &ModelOption, default: &str) -> String {
    let key = option.name.replace('_', "-");
    format!("| `{key}` | {} | `{default}` | {} |\n", option.kind, cell(option.doc.trim()))
}

fn reference() -> Result<String, std::fmt::Error> {
    let mut page = "# Settings\n\n\
        Every setting of a run, written from its declaration. A file (`train --config F.toml`, `config.toml` of a run) has it \
        under its key, `landfall train` as an argument of that name with two hyphens before it, `landfall.Forecaster` as a \
        keyword. What is left out comes from the [preset](#presets).\n"
        .to_owned();
    for group in Group::ALL {
        write!(
            page,
            "\n## {}\n\n| key | keyword | takes | what it is |\n|---|---|---|---|\n",
            group.heading()
        )?;
        SETTINGS.iter().filter(|s| s.facts.group == group).for_each(|s| page.push_str(&of_setting(s)));
    }
    page.push_str(
        "\n## Options of the network\n\nThe keys of the table `[network]`, or of the keyword `network`, for each model.\n",
    );
    for kind in ModelKind::ALL {
        write!(page, "\n### {}\n\n{}\n\n", kind.name(), kind.doc().trim())?;
        let config = kind.config();
        if config.options().is_empty() {
            page.push_str("It has none.\n");
            continue;
        }
        page.push_str("| key | takes | default | what it is |\n|---|---|---|---|\n");
        for option in config.options() {
            let default = config.value(option.name).map_or_else(String::new, |value| value.to_string());
            page.push_str(&of_option(option, &default));
        }
    }
    page.push_str(
        "\n## Presets\n\n| preset | model | other than the model's defaults | recipe |\n|---|---|---|---|\n",
    );
    for preset in Preset::ALL {
        let options: Vec<String> = preset
            .options
            .iter()
            .map(|(name, value)| format!("`{} = {value}`", name.replace('_', "-")))
            .collect();
        let r = &preset.recipe;
        writeln!(
            page,
            "| `{}` | {} | {} | batch {}, {} epochs, {} at {:?}, {}{}{}{} |",
            preset.name,
            preset.model.map_or("chosen by validation", ModelKind::name),
            options.join(", "),
            r.batch,
            r.epochs,
            name(r.optimizer),
            r.lr,
            name(r.schedule),
            if r.weight_decay > 0.0 { format!(", weight decay {}", r.weight_decay) } else { String::new() },
            r.clip.map_or_else(String::new, |clip| format!(", gradients clipped to {clip}")),
            r.patience.map_or_else(String::new, |patience| format!(", patience {patience}")),
        )?;
    }
    Ok(page)
}

#[test]
fn the_reference_is_that_of_the_declarations() -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let want = reference()?;
    if std::env::var_os("LANDFALL_BLESS").is_some() {
        std::fs::write(&path, &want)?;
    }
    let got = std::fs::read_to_string(&path)?;
    let differs = want.lines().zip(got.lines()).find(|(want, got)| want != got);
    assert!(
        want == got,
        "docs/settings.md differs from the declarations at {differs:?}; LANDFALL_BLESS=1 writes it anew"
    );
    Ok(())
}

#[test]
fn a_setting_is_declared_once_and_said_in_a_sentence() {
    for (i, setting) in SETTINGS.iter().enumerate() {
        assert!(SETTINGS[..i].iter().all(|other| other.name != setting.name), "{}", setting.name);
        let help = setting.help();
        assert!(!help.is_empty() && !help.contains(['{', '}']), "{}: {help}", setting.name);
        for dropped in setting.facts.drops {
            assert!(SETTINGS.iter().any(|other| other.name == *dropped), "{}: {dropped}", setting.name);
        }
    }
}
