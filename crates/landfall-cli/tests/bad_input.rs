//! Whatever is wrong with what was given is said in one line, with exit code 2, and leaves nothing behind.

mod program;

use program::{Folder, SMALL, csv};

fn folder() -> Folder {
    let f = Folder::new();
    f.write("d.csv", csv(300));
    f
}

fn train(f: &Folder, text: &str) -> String {
    f.write("bad.csv", text);
    f.refused("train --preset patchtst-42 --data bad.csv --context 16 --horizon 2 --max-steps 1 --out run")
}

#[test]
fn files() {
    let f = folder();
    assert_eq!(f.refused("train --data absent.csv --out run"), "absent.csv: no such file; check the path");
    assert_eq!(train(&f, ""), "bad.csv: the file is empty; it needs a header line and rows of numbers");
    assert_eq!(
        train(&f, "date,a\n2021-01-01,1\n2021-01-02,x\n"),
        "bad.csv:3: column `a`: `x` is not a number; correct or clear the cell, or choose others with --columns"
    );
    assert_eq!(
        train(&f, "date,a\n2021-01-01,1\n2021-01-01,2\n"),
        "bad.csv:3: date 2021-01-01 00:00:00 stands in line 2 too, with other values; keep one row per date, or name the \
         column that tells series apart with --series-id"
    );
    assert_eq!(
        f.refused("train --data d.csv --columns load,sun --out run"),
        "d.csv: no column `sun` among load, wind; add it or correct its name"
    );
    assert_eq!(
        f.refused("train --preset patchtst-42 --data d.csv --out run"),
        "training split has 210 rows; 432 needed (context 336 + horizon 96): reduce --context and --horizon, or change \
         --split (no horizon fits context 336, no context fits horizon 96)"
    );
    assert_eq!(
        f.refused("train --data d.csv --split ett --out run"),
        "split ett needs 14400 rows, the series has 300; use ratios such as `0.7,0.1,0.2`"
    );
}

#[test]
fn numbers_out_of_range() {
    let f = folder();
    for (flags, text) in [
        ("--horizon 0", "--horizon 0: it must be at least 1"),
        ("--context 0", "--context 0: it must be at least 1"),
        (
            "--context 8",
            "context (8) must be at least the patch length (16); raise the context or set the patch",
        ),
        ("--dropout 1", "dropout is 1; it must be in [0, 1)"),
        ("--dropout nan", "dropout is NaN; it must be in [0, 1)"),
        ("--batch 0", "--batch 0: it must be at least 1"),
        ("--epochs 0", "--epochs 0: it must be at least 1"),
        ("--max-steps 0", "--max-steps 0: it must be at least 1"),
        ("--log-every 0", "--log-every 0: it must be at least 1"),
        ("--checkpoint-every 0", "--checkpoint-every 0: it must be at least 1"),
        ("--lr -1", "--lr -1.0: it must be above 0"),
        ("--lr inf", "--lr inf: it must be above 0"),
        ("--clip -1", "--clip -1.0: it must be at least 0"),
        ("--weight-decay -1", "--weight-decay -1.0: it must be at least 0"),
        ("--betas 0.9,1", "--betas 1.0: each must be at least 0 and below 1"),
        ("--threads 0", "--threads 0: it must be 1 to 1024"),
        (
            "--seed 18446744073709551615",
            "--seed 18446744073709551615: it must be at most 9223372036854775807",
        ),
        (
            "--epochs 3 --max-steps 3",
            "--epochs 3 and --max-steps 3: both say how long the run is; leave one of them out",
        ),
        (
            "--split 0.5,0.5",
            "split `0.5,0.5` cannot be read; write three ratios as `0.7,0.1,0.2`, `last` or `last:24` for the last rows as the test \
             rows, or `ett`",
        ),
        (
            "--split 0.5,0.1,0.1",
            "split 0.5,0.1,0.1: the ratios must sum to 1, and their sum is 0.7; correct them",
        ),
        ("--fill mean", "no fill `mean`; choose from previous, linear, zero"),
    ] {
        let given = flags.split(' ').next().expect("a flag");
        let base = if given == "--context" {
            "train --preset patchtst-42 --data d.csv --horizon 8"
        } else {
            "train --preset patchtst-42 --data d.csv --context 32"
        };
        assert_eq!(f.refused(&format!("{base} {flags} --out run")), text, "{flags}");
    }
    let long = f.refused(
        "train --preset patchtst-42 --data d.csv --context 32 --horizon 8 --epochs 99999999999999 --out run",
    );
    assert_eq!(long, "--epochs 99999999999999: a run has at most 100,000,000 steps; give fewer");
}

#[test]
fn names_and_combinations() {
    let f = folder();
    for (words, text) in [
        (
            "train --preset big",
            "unknown preset `big`; choose from auto, patchtst-42, patchtst-64, patchtst-wide, patchtst-deep, window-regressor, dlinear, dlinear-etth2, tide, tide-etth2, tsmixer, tsmixer-etth2, cross-asset",
        ),
        (
            "train --model patchtst --preset window-regressor",
            "--model patchtst and --preset window-regressor: that preset is a window-regressor; leave one of them out",
        ),
        (
            "train --model window-regressor --data d.csv",
            "--model window-regressor and --data: a CSV has no labels of windows; use --synthetic walk",
        ),
        (
            "train --data d.csv --channels 3",
            "--channels and --data: it sizes generated data; leave it out (--columns chooses columns of the file)",
        ),
        (
            "train --draws pytorch --preset patchtst-42",
            "--draws pytorch and --model patchtst: only dlinear's layers are drawn there as they are here; leave it out",
        ),
        (
            "train --draws mersenne",
            "invalid value 'mersenne' for '--draws <DRAWS>': choose philox or pytorch; --help lists what there is",
        ),
        ("train --columns load", "--columns and generated data: it belongs to a file; give --data too"),
        (
            "train --optimizer rmsprop",
            "invalid value 'rmsprop' for '--optimizer <OPTIMIZER>': choose one of adam, adamw, sgd, lion; --help lists what there is",
        ),
        (
            "train --horizon ten",
            "invalid value 'ten' for '--horizon <H>': give a whole number; --help lists what there is",
        ),
        (
            "train --data",
            "a value is required for '--data <F.csv>' but none was supplied; --help lists what there is",
        ),
        (
            "train d.csv",
            "unexpected argument 'd.csv' found; give data as --data d.csv; --help lists what there is",
        ),
        (
            "learn",
            "unrecognized subcommand 'learn'; a similar subcommand exists: 'plan'; --help lists what there is",
        ),
        (
            "train --preset patchtst-42 --data d.csv --context 32 --horizon 8 --freeze nothing",
            "no parameter's name contains `nothing`, so it freezes none; one of the names is model.backbone.W_P.weight",
        ),
        (
            "train --preset patchtst-42 --data d.csv --context 32 --horizon 8 --freeze model",
            "every parameter is frozen, so there is nothing to train; freeze fewer",
        ),
        ("evaluate --model last-value", "--data is needed; a baseline is scored on a file"),
        (
            "evaluate",
            "a run directory, --model or --pretrained is needed; as in: landfall evaluate runs/patchtst-42-1, or: landfall evaluate \
             --model last-value --data F.csv",
        ),
        (
            "evaluate --model seasonal-naive --data d.csv --context 12 --horizon 8 --period 250",
            "a seasonal period of 250 needs as many rows of history, there are 240; choose 1 to 240",
        ),
        ("evaluate nowhere", "nowhere is not a run directory: there is nothing of this name"),
        ("forecast nowhere", "nowhere is not a run directory: there is nothing of this name"),
        ("plan --batch 0", "--batch 0: it must be at least 1"),
        (
            "report nowhere --horizon 30",
            "unexpected argument '--horizon' found; --horizon is set when a run is trained; --help lists what there is",
        ),
        ("forecast nowhere --horizon 30", "--horizon and a run directory: a run has its own; leave it out"),
    ] {
        assert_eq!(f.refused(words), text, "{words}");
    }
}

#[test]
fn configuration_files() {
    let f = folder();
    assert_eq!(
        f.refused("train --config c.toml"),
        format!("c.toml: cannot be read ({}); check the path and its permissions", f.why_not("c.toml"))
    );
    f.write("c.toml", "lr = 0.1\nlearning-rate = 0.1\n");
    let text = f.refused("train --config c.toml --out run");
    assert!(
        text.starts_with("c.toml:2: unknown key `learning-rate`, expected one of `version`, `data`, "),
        "{text}"
    );
    f.write("c.toml", "[network]\nwidth = 3\n");
    let text = f.refused("train --config c.toml --out run");
    assert!(text.starts_with("c.toml:2: unknown key `width`, expected one of `patch`, `stride`, "), "{text}");
    f.write("c.toml", "[network]\nd-model = 10\nheads = 4\n");
    assert_eq!(
        f.refused("train --config c.toml --out run"),
        "d_model is 10, heads is 4; heads must divide d_model"
    );
}

#[test]
fn checkpoints_and_run_folders() {
    let f = folder();
    f.write("foreign.bin", "this is no checkpoint");
    let text = f.refused(&format!("{SMALL} --init foreign.bin --out run"));
    assert!(text.starts_with("foreign.bin is not a whole safetensors file ("), "{text}");
    assert!(text.ends_with("it may be truncated or of another kind"), "{text}");
    assert_eq!(
        f.refused(&format!("{SMALL} --init absent.bin --out run")),
        format!("cannot read absent.bin: {}", f.why_not("absent.bin"))
    );

    f.runs(&format!("{SMALL} --max-steps 1 --out run"));
    assert_eq!(
        f.refused(&format!("{SMALL} --max-steps 1 --out run")),
        "the run directory run already exists; choose another with --out, or resume it with --resume run"
    );
    f.write("file", "");
    assert_eq!(
        f.refused(&format!("{SMALL} --max-steps 1 --out file/run")),
        "cannot write file/run: file is a file, not a folder; check the permissions of its directory and the free space"
    );
    let text = f.refused(&format!("{SMALL} --max-steps 1 --out new/{}", "x".repeat(300)));
    assert!(text.contains("File name too long"), "{text}");

    // A checkpoint of another horizon, and one that was cut.
    assert_eq!(
        f.refused("train --preset patchtst-42 --data d.csv --context 32 --horizon 4 --max-steps 1 --init run/best.safetensors --out other"),
        "run/best.safetensors: tensor model.head.linear.weight is f32[8, 64], the model has it as [4, 64]"
    );
    let whole = std::fs::read(f.path().join("run/checkpoint.safetensors")).expect("a checkpoint");
    f.write("cut.safetensors", &whole[..whole.len() / 2]);
    let text = f.refused(&format!("{SMALL} --init cut.safetensors --out other"));
    assert!(text.starts_with("cut.safetensors is not a whole safetensors file ("), "{text}");

    assert_eq!(
        f.refused("train --resume run --lr 0.1"),
        "--lr and --resume: a resumed run keeps its settings; only --epochs, --max-steps, --shard-optimizer, \
         --device, --threads, --log-every, --checkpoint-every may be given"
    );
    assert_eq!(
        f.refused("train --resume run --out other"),
        "--out and --resume: a resumed run keeps its folder and settings; leave it out"
    );
    assert_eq!(
        f.refused("train --resume run"),
        "run is complete with 1 of 1 steps; give a larger --epochs or --max-steps to go on"
    );
    f.write("d.csv", csv(290));
    let text = f.refused("train --resume run --max-steps 3");
    assert!(
        text.starts_with("run: ")
            && text.contains("d.csv is not what the run was trained on (column `load` "),
        "{text}"
    );
    f.write("run/checkpoint.safetensors", &whole[..100]);
    let text = f.refused("train --resume run --max-steps 3");
    assert!(text.starts_with("run/checkpoint.safetensors is not a whole safetensors file ("), "{text}");

    // Another file: its columns are named, and it must hold a context.
    f.write("other.csv", csv(40).replace("wind", "sun"));
    assert_eq!(
        f.refused("forecast run --data other.csv"),
        "other.csv: no column `wind` among load, sun; add it or correct its name"
    );
    f.write("short.csv", csv(20));
    assert_eq!(
        f.refused("forecast run --data short.csv"),
        "short.csv: 20 rows where 32 are needed; give a longer series"
    );
    f.write("taken.csv", "");
    assert_eq!(
        f.refused("forecast run --data d.csv --out taken.csv"),
        "taken.csv exists already; choose another file"
    );
    assert_eq!(
        f.refused("evaluate run --horizon 4"),
        "--horizon and a run directory: a run has its own; leave it out"
    );
}

#[cfg(unix)]
#[test]
fn unwritable_folders() {
    use std::os::unix::fs::PermissionsExt;
    let f = folder();
    std::fs::create_dir(f.path().join("locked")).expect("made");
    std::fs::set_permissions(f.path().join("locked"), PermissionsExt::from_mode(0o555)).expect("locked");
    if std::fs::write(f.path().join("locked/probe"), "").is_ok() {
        // This user may write everywhere that something can be written at all.
        let text = f.refused(&format!("{SMALL} --max-steps 1 --out /proc/landfall-run"));
        assert!(text.starts_with("cannot write /proc/landfall-run: "), "{text}");
        return;
    }
    assert_eq!(
        f.refused(&format!("{SMALL} --max-steps 1 --out locked/run")),
        "cannot write locked/run: Permission denied (os error 13); check the permissions of its directory and the free space"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let f = folder();
    for words in ["--help", "plan --all", "evaluate --model last-value --data d.csv --context 32 --horizon 8"]
    {
        let mut child =
            f.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let done = child.wait_with_output().expect("it ends");
        assert_eq!(
            (done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()),
            (Some(0), ""),
            "{words}"
        );
    }
}

#[test]
fn columns_of_text_are_no_targets() {
    let f = Folder::new();
    let rows: String =
        (0..60).map(|i| format!("2024-{:02}-{:02},{},sun\n", 1 + i / 28, 1 + i % 28, i * 7 % 13)).collect();
    f.write("d.csv", format!("date,load,sky\n{rows}"));
    assert_eq!(
        f.refused("train --data d.csv --horizon 4 --target sky"),
        "d.csv: column `sky` holds text, and what is forecast must be numbers; choose another column"
    );
}
