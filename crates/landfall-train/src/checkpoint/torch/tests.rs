//! Archives that are damaged or hostile. Whole ones of torch itself are read by the Python tests.

use super::*;
use landfall::HostTensor;
use std::io::Write;
use zip::write::{SimpleFileOptions, ZipWriter};

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
    assert_eq!(many, "tensor w: the tensors up to it have 68719476736 bytes, their storages 16");
    assert!(refused(&one("FloatStorage", b"J\xff\xff\xff\xffK\x02\x85K\x01\x85")).ends_with("is -1"));
    assert!(refused(&one("FloatStorage", b"K\0K\x02\x85K\x01K\x01\x86")).contains("sizes and strides"));
    assert_eq!(
        refused(&one("DoubleStorage", b"K\0K\x04\x85K\x01\x85")),
        "storage 0 has 16 bytes, and 4 elements of f64"
    );
    assert_eq!(
        refused(&one("ComplexFloatStorage", b"K\0K\x04\x85K\x01\x85")),
        "it holds a torch.ComplexFloatStorage, whose dtype is not supported"
    );
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
    std::fs::write(old.path(), OLD_MAGIC).expect("written");
    let said = File::read(old.path()).expect_err("refused").to_string();
    assert!(
        said.ends_with("its format is that of torch before 1.6; load it there and save it again"),
        "{said}"
    );
}
