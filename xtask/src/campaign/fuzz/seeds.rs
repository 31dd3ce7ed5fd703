//! Sound inputs, and mutations that keep their structure: a checkpoint whose header, data and hashes fit together and
//! whose contents are strange, an entry of the cache with its own hash.

use super::entry::Target;
use crate::campaign::random::Random;
use landfall_train::checkpoint::File;
use std::path::Path;

const CSV: [&str; 9] = [
    "date,load,wind\n2021-01-01 00:00:00,50.1,3.2\n2021-01-01 01:00:00,51.2,3.1\n2021-01-01 02:00:00,52.3,3.0\n2021-01-01 03:00:00,50.9,2.9\n",
    "Month,Passengers\n1949-01,112\n1949-02,118\n1949-03,132\n1949-04,129\n1949-05,121\n1949-06,135\n",
    "datum;wert;text\n01.02.2020;1.234,5;a\n02.02.2020;2.345,6;b\n03.02.2020;;c\n04.02.2020;-1,25;d\n",
    "# a comment\nds\ty\n20200101\t1\n20200102\t2\n20200103\tNA\n20200104\t4e3\n",
    "store,date,sales\nA,2020-01-05,1\nB,2020-01-05,2\nA,2020-01-12,3\nB,2020-01-12,4\nA,2020-01-19,5\nB,2020-01-19,6\n",
    "year,month,day,hour,x\n2010,1,1,0,-21\n2010,1,1,1,-21\n2010,1,1,2,-20\n2010,1,1,3,-19\n",
    "\"time\",\"v\"\n\"2020-03-29T01:00:00+01:00\",\"$1,234.50\"\n\"2020-03-29T03:00:00+02:00\",\"$1,235.50\"\n\"2020-03-29T04:00:00+02:00\",\"$2.00\"\n",
    "a b c\n1 2 3\n4 5 6\n7 8 9\n10 11 13\n14 15 17\n",
    "Quarter,v,p\nQ1 2020,1,5%\nQ2 2020,2,6%\nQ3 2020,3,7%\nQ4 2020,4,9%\n",
];

const CONFIG: [&str; 5] = [
    "preset = \"patchtst-42\"\nsynthetic = \"demo\"\nepochs = 3\nlr = 0.0001\nbatch = 16\n[network]\nd-model = 16\nheads = 4\n",
    "data = [\"a.csv\", \"b.csv\"]\nhorizon = 12\nmodel = \"nlinear\"\nsplit = \"0.7,0.1,0.2\"\nperiod = 12\nseed = 7\nquantiles = [0.1, 0.5, 0.9]\n",
    "model = \"cross-asset\"\nsamples = 100\ndropout = 0.1\nbetas = [0.9, 0.98]\nweight-decay = 0.01\nclip = 1.0\ndtype = \"bf16\"\n",
    "model = \"dlinear\"\npreset = \"dlinear\"\nmax-steps = 100\ncheckpoint-every = 7\nschedule = \"cosine\"\nloss = \"huber\"\nhuber-delta = 0.5\n[network]\nkernel = 25\n",
    "data = \"a.csv\"\ncolumns = [\"x\", \"y\"]\ntarget = [\"x\"]\nfill = \"linear\"\ndate-column = \"ds\"\nseparator = \";\"\nthreads = 2\ndevice = \"cpu\"\n[[scaler]]\nseries = \"a\"\nmean = [1.0, 2.0]\nstd = [1.0, 0.5]\n",
];

/// The sound inputs of a target of text.
pub(super) fn texts(target: Target) -> Vec<Vec<u8>> {
    let bytes = |all: &[&str]| -> Vec<Vec<u8>> { all.iter().map(|text| text.as_bytes().to_vec()).collect() };
    match target {
        // Repeated rows make files that are long enough for windows.
        Target::Csv => bytes(&CSV).into_iter().chain((0..3).map(series)).collect(),
        Target::Config => bytes(&CONFIG),
        Target::Frame | Target::Checkpoint | Target::TuneCache | Target::Chronos => Vec::new(),
    }
}

/// A series that is long enough for windows in every segment.
fn series(kind: usize) -> Vec<u8> {
    let mut text = ["date,load,wind\n", "x\n", "d;a;b;c\n"][kind].to_owned();
    for i in 0..[60, 80, 100][kind] {
        let (day, x) = (i + 1, 10.0 + f64::from(i * 37 % 101) / 7.0);
        text += &match kind {
            0 => format!("2021-{:02}-{:02},{x:.3},{}\n", 1 + (day - 1) / 28, 1 + (day - 1) % 28, day % 7),
            1 => format!("{x:.2}\n"),
            _ => format!(
                "{:02}/{:02}/2021;{x:.1};{};{}\n",
                1 + (day - 1) % 28,
                1 + (day - 1) / 28,
                -day,
                day * day
            ),
        };
    }
    text.into_bytes()
}

/// Numbers that break arithmetic.
pub(super) const NUMBERS: [&str; 22] = [
    "0",
    "-1",
    "1e308",
    "-1e308",
    "1e30",
    "1e-300",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "99999999999999999999",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "0.0000000000000000000001",
    "1000000000",
    "1e-400",
    "-0",
    "0x10",
    "1_000",
    "1,000.5",
    "1.000,5",
];

/// A mutation that keeps the target's structure, where it has one.
pub(super) fn structured(
    target: Target,
    sound: &[u8],
    folder: &Path,
    random: &mut Random,
) -> Option<Vec<u8>> {
    match target {
        Target::Checkpoint | Target::Chronos => checkpoint(sound, folder, random),
        Target::TuneCache => cached(sound, random),
        Target::Csv | Target::Frame | Target::Config => None,
    }
}

/// A checkpoint that is written as any other, of another content.
fn checkpoint(sound: &[u8], folder: &Path, random: &mut Random) -> Option<Vec<u8>> {
    let path = folder.join("structured.safetensors");
    std::fs::write(&path, sound).ok()?;
    let mut file = File::read(&path).ok()?;
    for _ in 0..1 + random.below(3) {
        let names: Vec<String> = file.tensors.keys().cloned().collect();
        let keys: Vec<String> = file.metadata.keys().cloned().collect();
        let (name, key) = (random.pick(&names).clone(), random.pick(&keys).clone());
        match random.below(8) {
            0 => _ = file.metadata.remove(&key),
            1 | 2 => _ = file.metadata.insert(key, (*random.pick(&NUMBERS)).to_owned()),
            3 => {
                let value = format!("{} {}", random.pick(&NUMBERS), random.pick(&NUMBERS));
                _ = file.metadata.insert(key, value);
            }
            4 => _ = file.tensors.remove(&name),
            5 => {
                let tensor = file.tensors.remove(&name)?;
                _ = file.tensors.insert(format!("{name}x"), tensor);
            }
            _ => {
                let strange = [f32::NAN, f32::INFINITY, f32::MAX, -0.0, f32::MIN_POSITIVE];
                let bytes = &mut file.tensors.get_mut(&name)?.bytes;
                let at = 4 * random.below(bytes.len() / 4);
                bytes.get_mut(at..at + 4)?.copy_from_slice(&random.pick(&strange).to_le_bytes());
            }
        }
        if file.tensors.is_empty() || file.metadata.is_empty() {
            break;
        }
    }
    file.write(&path).ok()?;
    std::fs::read(&path).ok()
}

/// An entry of the cache with a field that is another one.
fn cached(sound: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let mut kept: serde_json::Value = serde_json::from_slice(sound).ok()?;
    let fields = ["instruction", "device", "driver", "sources", "kernel"];
    let strange = ["", "\n", "\u{0}", "a\nb", "é", "\u{202e}", "x"];
    kept["entry"][*random.pick(&fields)] = match random.below(4) {
        0 => serde_json::Value::Null,
        1 => serde_json::json!([1, 2]),
        2 => random.pick(&strange).repeat(1 + random.below(3000)).into(),
        _ => (*random.pick(&strange)).into(),
    };
    serde_json::to_vec_pretty(&kept).ok()
}
