//! What the compiler refuses: the three ways in which a call could share memory that it must not, and launches whose arguments
//! are not the kernel's parameters.
#[test]
fn bad_calls_do_not_compile() {
    // The cases run when the list drops.
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
    for (file, code) in [
        ("output_is_input", "E0502"),
        ("two_outputs_one_buffer", "E0499"),
        ("drop_under_view", "E0505"),
        ("parameter_left_out", "E0063"),
        ("parameter_too_many", "E0560"),
    ] {
        let path = format!("{}/tests/compile_fail/{file}.stderr", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("the expected error is pinned beside its case");
        assert!(text.contains(&format!("error[{code}]")), "{path} must pin {code}:\n{text}");
    }
}
