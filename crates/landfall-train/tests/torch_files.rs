//! Archives of `torch.save` that are views of all kinds, damaged or hostile. Whole ones of torch itself are read by the Python
//! tests.

use landfall::{DType, HostTensor};
use landfall_train::checkpoint::{File, Tensor};
use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::Path;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

/// The number that old files begin with.
const OLD_MAGIC: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

fn archive(records: &[(&str, &[u8])], compression: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in records {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(compression))
            .expect("a record");
        zip.write_all(bytes).expect("written");
    }
    zip.finish().expect("an archive").into_inner()
}

/// Reads an archive of a pickle and one storage of 4 floats.
fn refused(pickle: &[u8]) -> String {
    let floats: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let records: [(&str, &[u8]); 2] = [("a/data.pkl", pickle), ("a/data/0", &floats)];
    let bytes = archive(&records, CompressionMethod::Stored);
    match File::from_torch(Path::new("x.pth"), bytes) {
        Ok(file) => panic!("read as {file:?}"),
        Err(e) => {
            let said = e.to_string();
            said.strip_prefix("x.pth is no state dict of torch.save: ").expect("its beginning").to_owned()
        }
    }
}

/// A state dict of one tensor `w`, with these arguments of its rebuilding after the storage.
fn one(storage: &str, arguments: &[u8]) -> Vec<u8> {
    let mut pickle =
        b"\x80\x02}(X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage".to_vec();
    pickle.extend(format!("ctorch\n{storage}\n").bytes());
    pickle.extend(b"X\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ");
    pickle.extend(arguments);
    pickle.extend(b"\x89}tRu.");
    pickle
}

#[test]
fn what_is_written_is_read_in_every_dtype() {
    let mut file = File::default();
    for (i, &dtype) in DType::ALL.iter().enumerate() {
        let host = HostTensor::new(dtype, [2, 1, 3], vec![0.0, 1.0, 1.0, 0.0, 0.0, 1.0]).expect("6 elements");
        file.tensors.insert(format!("t{i}"), Tensor::from(&host));
    }
    let scalar = HostTensor::new(DType::F32, [], vec![0.5]).expect("a scalar");
    file.tensors.insert("scalar".to_owned(), Tensor::from(&scalar));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("all.pth");
    file.write_torch(&path).expect("written");
    let bytes = std::fs::read(&path).expect("there");
    assert_eq!(File::read(&path).expect("whole"), file);
    file.write_torch(&path).expect("written");
    assert_eq!(std::fs::read(&path).expect("there"), bytes, "equal tensors have equal bytes");
    // Cut anywhere, or with any byte of the pickle changed, it is refused or reads as something: nothing panics.
    for end in (0..bytes.len()).step_by(7) {
        std::fs::write(&path, &bytes[..end]).expect("written");
        assert!(File::read(&path).is_err(), "{end} bytes of {}", bytes.len());
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        let _ = File::from_torch(&path, changed);
    }
}

#[test]
fn views_of_storages() {
    let floats: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    // A transposed view: sizes 2 and 2, strides 1 and 2.
    let transposed = one("FloatStorage", b"K\0K\x02K\x02\x86K\x01K\x02\x86");
    let records: [(&str, &[u8]); 2] = [("a/data.pkl", &transposed), ("a/data/0", &floats)];
    let read = File::from_torch(Path::new("x"), archive(&records, CompressionMethod::Stored)).expect("whole");
    assert_eq!(read.tensors["w"].host().expect("whole").data, [1.0, 3.0, 2.0, 4.0]);

    assert_eq!(
        refused(&one("FloatStorage", b"K\x01K\x02K\x02\x86K\x02K\x01\x86")),
        "tensor w of size [2, 2], strides [2, 1] and offset 1 is not within its storage of 4 elements"
    );
    // A storage viewed over and over: a trillion elements of one.
    let many = refused(&one("FloatStorage", b"K\0J\0\0\0\x40K\x10\x86K\0K\0\x86"));
    assert!(
        many.starts_with("tensor w: the tensors up to it have 68719476736 bytes, and those of"),
        "{many}"
    );
    // More elements than numbers count, of none at all.
    let uncounted = refused(&one("FloatStorage", b"K\0J\0\0\0\x40J\0\0\0\x40J\0\0\0\x40\x87K\0K\0K\0\x87"));
    assert!(uncounted.contains("has more than 2^48 elements"), "{uncounted}");
    assert!(refused(&one("FloatStorage", b"J\xff\xff\xff\xffK\x02\x85K\x01\x85")).ends_with("is -1"));
    assert!(refused(&one("FloatStorage", b"K\0K\x02\x85K\x01K\x01\x86")).contains("sizes and strides"));
    assert_eq!(
        refused(&one("DoubleStorage", b"K\0K\x04\x85K\x01\x85")),
        "storage 0 has 16 bytes, and 4 elements of f64"
    );
    assert_eq!(
        refused(&one("ComplexFloatStorage", b"K\0K\x04\x85K\x01\x85")),
        "it holds a tensor of dtype torch.complex64, which is not supported; convert it before it is saved"
    );
    assert!(refused(&one("CharStorage", b"K\0K\x04\x85K\x01\x85")).contains("dtype torch.int8,"));
}

/// Opcodes that view storage 0 of `elements` elements of this type, under `name`.
fn entry(name: &str, (storage, elements): (&str, u8), arguments: &[u8]) -> Vec<u8> {
    let mut entry = vec![b'X', name.len() as u8, 0, 0, 0];
    entry.extend(name.bytes());
    entry.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage");
    entry.extend(format!("ctorch\n{storage}\nX\x01\0\0\x000X\x03\0\0\0cpuK").bytes());
    entry.extend([&[elements][..], b"tQ", arguments, b"tR"].concat());
    entry
}

/// The tensors of these entries over one storage.
fn read_all(entries: &[Vec<u8>], stored: &[u8]) -> Result<BTreeMap<String, Tensor>, String> {
    let pickle = [b"\x80\x02}(".as_slice(), &entries.concat(), b"u."].concat();
    let records: [(&str, &[u8]); 2] = [("a/data.pkl", &pickle), ("a/data/0", stored)];
    let read = File::from_torch(Path::new("x.pth"), archive(&records, CompressionMethod::Stored));
    read.map(|file| file.tensors).map_err(|e| {
        let said = e.to_string();
        said.strip_prefix("x.pth is no state dict of torch.save: ").expect("its beginning").to_owned()
    })
}

#[test]
fn tied_overlapping_and_stretched_views_are_read() {
    let floats: Vec<u8> = (0..6u8).flat_map(|x| f32::from(x).to_le_bytes()).collect();
    let of = ("FloatStorage", 6);
    let entries = [
        entry("tied", of, b"K\0K\x06\x85K\x01\x85\x89}"),
        entry("also tied", of, b"K\0K\x06\x85K\x01\x85\x89}"),
        // Windows of 3, each one further, from element 1 on.
        entry("windows", of, b"K\x01K\x02K\x03\x86K\x01K\x01\x86\x89}"),
        entry("stretched", of, b"K\x05K\x02K\x02\x86K\0K\0\x86\x89}"),
        entry("transposed", of, b"K\0K\x03K\x02\x86K\x01K\x03\x86\x89}"),
        entry("scalar", of, b"K\x04))\x89}"),
        // No element, behind the storage.
        entry("none", of, b"K\x09K\0K\x02\x86K\x02K\x01\x86\x89}"),
    ];
    let all = read_all(&entries, &floats).expect("whole");
    let data = |name: &str| all[name].host().expect("whole").data;
    assert_eq!(data("tied"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(all["also tied"], all["tied"]);
    assert_eq!(data("windows"), [1.0, 2.0, 3.0, 2.0, 3.0, 4.0]);
    assert_eq!(data("stretched"), [5.0; 4]);
    assert_eq!(data("transposed"), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!((all["scalar"].spec.shape.rank(), data("scalar")), (0, vec![4.0]));
    assert_eq!((all["none"].spec.shape.dims(), data("none")), (&[0, 2][..], vec![]));
}

#[test]
fn the_negative_bit_changes_the_sign_and_other_marks_are_refused() {
    let marked = |mark: &str, of, width: &[u8]| {
        let mark = [&[b'X', mark.len() as u8, 0, 0, 0][..], mark.as_bytes()].concat();
        entry("x", of, &[&b"K\0"[..], width, b"\x85K\x01\x85\x89}}", &mark, b"\x88s"].concat())
    };
    let floats: Vec<u8> = [1.5f32, -2.0, 0.0, f32::NAN].iter().flat_map(|x| x.to_le_bytes()).collect();
    let read = |entry, stored: &[u8]| read_all(&[entry], stored).map(|all| all["x"].bytes.clone());
    let want: Vec<u8> = [-1.5f32, 2.0, -0.0, -f32::NAN].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(read(marked("neg", ("FloatStorage", 4), b"K\x04"), &floats), Ok(want));
    let ints: Vec<u8> = [1, i64::MIN, 0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let want: Vec<u8> = [-1, i64::MIN, 0].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(read(marked("neg", ("LongStorage", 3), b"K\x03"), &ints), Ok(want));
    assert_eq!(read(marked("neg", ("ByteStorage", 2), b"K\x02"), &[1, 0]), Ok(vec![255, 0]));
    let why = read(marked("neg", ("BoolStorage", 2), b"K\x02"), &[1, 0]).expect_err("no sign");
    assert_eq!(why, "tensor x is a negative view of bool, which has no sign");
    let why = read(marked("conj", ("FloatStorage", 4), b"K\x04"), &floats).expect_err("unknown");
    assert_eq!(why, "a tensor has the mark `conj`, which is not supported");
}

#[test]
fn names_of_the_format_itself_are_refused_and_all_others_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("names.safetensors");
    let mut file = File::default();
    let host = HostTensor::new(DType::U8, [2], vec![1.0, 2.0]).expect("2 elements");
    for name in ["", " ", "a\0b", "\u{1f409}", "\"quoted\\", "__metadata", "sha256", "a/b", "\n", "\u{202e}x"]
    {
        file.tensors.insert(name.to_owned(), Tensor::from(&host));
        file.metadata.insert(format!("of {name}"), name.to_owned());
    }
    let empty = HostTensor::new(DType::F64, [3, 0], vec![]).expect("no elements");
    file.tensors.insert("empty".to_owned(), Tensor::from(&empty));
    file.write(&path).expect("written");
    assert_eq!(File::read(&path).expect("whole"), file);
    file.metadata.clear();
    file.write_torch(&path).expect("written");
    assert_eq!(File::read(&path).expect("whole"), file);
    file.tensors.insert("__metadata__".to_owned(), Tensor::from(&host));
    let said = file.write(&path).expect_err("refused").to_string();
    assert!(said.contains("no tensor named __metadata__"), "{said}");
    file.write_torch(&path).expect("torch has no such name");
    assert_eq!(File::read(&path).expect("whole"), file);
    file.tensors.remove("__metadata__");
    file.metadata.insert("sha256".to_owned(), "mine".to_owned());
    let said = file.write(&path).expect_err("refused").to_string();
    assert!(said.contains("metadata has an entry sha256"), "{said}");
}

#[test]
fn pickles_run_nothing() {
    // os.system("true")
    assert!(refused(b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R.").starts_with(
        "it holds the Python object os.system, which is not loaded; save names and tensors alone"
    ));
    assert!(refused(b"\x80\x04\x8c\x05posix\x8c\x06system\x93.").contains("posix.system"));
    assert_eq!(
        refused(b"\x80\x02ccollections\nOrderedDict\nX\x01\0\0\0a\x85R."),
        "its pickle calls OrderedDict with text"
    );
    // INST, which calls too.
    assert_eq!(refused(b"(ios\nsystem\n."), "its pickle has the opcode 0x69, which no state dict needs");
    assert_eq!(refused(b"\x80\x02K\x05."), "it holds no dict of tensors; save model.state_dict()");
    assert_eq!(
        refused(b"\x80\x02}X\x05\0\0\0epochK\x05s."),
        "its entry `epoch` is an integer, no tensor; save model.state_dict()"
    );
    assert_eq!(
        refused(b"\x80\x02}X\x05\0\0\0model}K\x01K\x02ss."),
        "its entry `model` is a dict, no tensor; save model.state_dict()"
    );
    for cut in [&b""[..], b"\x80", b"\x80\x02X\xff\xff\xff\xffab", b"\x80\x02}(", b"\x80\x02cos"] {
        assert_eq!(refused(cut), "its pickle is cut off");
    }
    for empty in [&b"R."[..], b"Q.", b"t.", b"u.", b"\x85.", b"q\0.", b"b.", b"."] {
        assert!(refused(empty).contains("stack"), "{empty:?}");
    }
    assert!(refused(b"}q\0h\0.").contains("refers back to a dict"));
    // A million tuples, each in the next.
    let deep = [b")".as_slice(), &[0x85; 1_000_000], b"."].concat();
    assert_eq!(refused(&deep), "it holds tuples of tuples; save model.state_dict()");
    // A path out of the archive's folder as the name of a storage.
    let out = refused(b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x03\0\0\0../X\x03\0\0\0cpuK\x04tQ.");
    assert_eq!(out, "its pickle names a storage `../`, no storage");
}

#[test]
fn archives_of_other_kinds() {
    let said = |bytes: Vec<u8>| File::from_torch(Path::new("x"), bytes).expect_err("refused").to_string();
    let stored = |records: &[(&str, &[u8])]| archive(records, CompressionMethod::Stored);
    let pickle = one("FloatStorage", b"K\0K\x04\x85K\x01\x85");
    assert!(said(stored(&[("a/other", b"")])).ends_with("the archive has no record data.pkl"));
    assert!(said(stored(&[("a/data.pkl", &pickle)])).contains("its record a/data/0: "));
    let big: [(&str, &[u8]); 2] = [("a/data.pkl", &pickle), ("a/byteorder", b"big")];
    assert!(said(stored(&big)).ends_with("its byte order is \"big\"; save it on a little-endian machine"));
    let old = tempfile::NamedTempFile::new().expect("a file");
    // As of protocol 4, which frames it.
    std::fs::write(old.path(), [&b"\x80\x04\x95\x0d\0\0\0\0\0\0\0"[..], OLD_MAGIC].concat())
        .expect("written");
    let said = File::read(old.path()).expect_err("refused").to_string();
    assert!(
        said.ends_with("its format is that of torch before 1.6; load it there and save it again"),
        "{said}"
    );
}
