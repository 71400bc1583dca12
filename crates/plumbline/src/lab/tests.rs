//! Tests of the arguments and exit codes of `plumb lab`.

use super::*;
use clap::Parser;
use laboratory::paper_scenario::built_in;

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
