//! Tests of the arguments and exit codes of `plumb lab`.

use super::*;
use clap::Parser;
use laboratory::paper_scenario::built_in;
use std::io::Read;

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

/// Returns the result of `plumb lab NAME --scenario FILE`.
fn exit_status(name: &str, file: &Path) -> exit::Result {
    let arguments = ["lab", name, "--scenario", file.to_str().unwrap()];
    run(&Line::try_parse_from(arguments).unwrap().arguments)
}

#[test]
fn invalid_user_input_is_exit_code_2_and_not_a_stalled_experiment() {
    let directory = std::env::temp_dir().join(format!("plumb-lab-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    let file = directory.join("mine.toml");
    let text = built_in(Paper::Rfc573).replace("name = \"usc-isi\"", "name = \"harvard\"");
    fs::write(&file, text).unwrap();
    let statuses = [
        exit_status("rfc573", &file),
        exit_status("tm233", &file),
        exit_status("rfc573", &directory),
    ];
    fs::remove_dir_all(&directory).unwrap();
    let missing_file_status = exit_status("rfc573", &file);
    let wrong_arguments = Err(Failure::WrongArguments);
    assert_eq!(
        (statuses, missing_file_status),
        ([wrong_arguments, wrong_arguments, wrong_arguments], wrong_arguments)
    );
}

#[test]
fn the_module_sizes_of_this_program_are_found() {
    let table = tm233::code_size_table(&File::open(PROGRAM).unwrap()).unwrap();
    let tcp = table.rows.iter().find(|row| row.what == "TCP").unwrap();
    assert!(tcp.ours > 5_396.0, "{table:?}");
    assert!(table.rows.iter().all(|row| row.ours > 0.0), "{table:?}");
}

#[test]
fn the_module_sizes_of_a_stripped_program_are_found_in_its_debug_file() {
    let directory = std::env::temp_dir().join(format!("plumb-symbols-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    let program = directory.join("plumb");
    // A header without sections, as in a program whose section headers were removed.
    let mut headers = vec![0; 4096];
    File::open(PROGRAM).unwrap().read_exact(&mut headers).unwrap();
    headers[0x28..0x30].fill(0);
    headers[0x3C..0x3E].fill(0);
    fs::write(&program, headers).unwrap();
    let without_symbols = code_sizes(&program);
    fs::copy(PROGRAM, directory.join("plumb.debug")).unwrap();
    let with_debug_file = code_sizes(&program);
    fs::remove_dir_all(&directory).unwrap();
    assert!(without_symbols.is_none());
    assert!(with_debug_file.is_some());
}
