//! The interactive client, command by command.

use crate::alone::Place;
use crate::login_desk::Person;
use crate::odd_ftp::{Odd, Quirk};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn many_files_come_and_go_and_one_that_is_here_stops_no_other() {
    let place = Place::new("shell-many");
    let (_server, url) = place.serve("");
    for name in ["a.gz", "b.gz", "c.txt"] {
        fs::write(place.0.join("there").join(name), name).unwrap();
    }
    fs::write(place.0.join("a.gz"), "older").unwrap();
    let lines = "mget *.gz c.txt\nmget -f a.*\nmkdir up\ncd up\nmput *.gz c.txt\nput c.txt x/\n";
    let (_, said) = place.types(&url, lines);
    assert!(said.contains("a.gz exists: use --force"), "{said}");
    assert_eq!(place.read("b.gz"), b"b.gz");
    assert_eq!((place.read("a.gz"), place.read("c.txt")), (b"a.gz".into(), b"c.txt".into()));
    assert_eq!(place.read("there/up/a.gz"), b"a.gz");
    assert_eq!(place.read("there/up/c.txt"), b"c.txt");
}

#[test]
fn whoever_wants_to_be_asked_is_asked_before_each_of_many_files() {
    let place = Place::new("shell-asked");
    let (_server, url) = place.serve("");
    for name in ["a", "b", "c", "d"] {
        fs::write(place.0.join("there").join(name), name).unwrap();
    }
    // No for a, then all.
    place.types(&url, "prompt\nmget *\nn\na\n");
    assert_eq!(
        ["a", "b", "c", "d"].map(|name| place.0.join(name).exists()),
        [false, true, true, true]
    );
    // Yes for a, then quit.
    place.types(&url, "prompt\nmdelete *\ny\nq\n");
    let left = ["a", "b", "c", "d"].map(|name| place.0.join("there").join(name).exists());
    assert_eq!(left, [false, true, true, true]);
    let history = fs::read_to_string(place.0.join("plumb/ftp_history")).unwrap();
    assert!(history.contains("mdelete *") && !history.lines().any(|line| line == "y"), "{history}");
}

#[test]
fn the_folder_where_we_are_is_no_pattern_and_neither_is_a_name_that_is_there() {
    let place = Place::new("shell-patterns");
    let (_server, url) = place.serve("");
    for name in ["a[1]/x", "a[1]/y.gz", "a1/x", "a1/y.gz", "b[1]", "b1", "c[1]/x", "c1/x"] {
        let file = place.0.join("there").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, name).unwrap();
    }
    let lines = "cd 'a[1]'\nls\nmget *.gz\nchmod 600 *.gz\nrm x\nrm *.gz\ncd ..\nrm b[1]\n\
        rm -r c[1]\n";
    let (printed, said) = place.types(&url, lines);
    assert_eq!(place.read("y.gz"), b"a[1]/y.gz", "{said}");
    assert_eq!(printed, "x\ny.gz\n", "{said}");
    let is_there = |name: &str| place.0.join("there").join(name).exists();
    assert!(["a1/x", "a1/y.gz", "b1", "c1/x"].into_iter().all(is_there), "{said}");
    assert!(!["a[1]/x", "a[1]/y.gz", "b[1]", "c[1]"].into_iter().any(is_there), "{said}");
    place.types(&url, "rm b[1]\n");
    assert!(!is_there("b1"), "nothing has that very name now");
}

#[test]
fn several_are_listed_a_switch_that_is_none_is_said_and_a_pattern_goes_into_a_folder() {
    let place = Place::new("shell-several");
    let (_server, url) = place.serve("");
    for name in ["d/x", "e/y", "a.gz", "b.gz"] {
        let file = place.0.join("there").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, name).unwrap();
    }
    fs::create_dir(place.0.join("into")).unwrap();
    let lines = "ls d e\nls -x\nget *.gz into\nget *.gz none\nget a.* one\n";
    let (printed, said) = place.types(&url, lines);
    assert_eq!(printed, "d:\nx\ne:\ny\n", "{said}");
    assert!(said.contains("wrong arguments for 'ls', usage: ls [-l] [NAME...]"), "{said}");
    assert!(said.contains("none is not a directory: several files need one"), "{said}");
    assert_eq!(
        (place.read("into/a.gz"), place.read("into/b.gz")),
        (b"a.gz".into(), b"b.gz".into())
    );
    assert_eq!(place.read("one"), b"a.gz");
}

#[test]
fn names_rights_and_times_are_changed_and_told() {
    let place = Place::new("shell-names");
    let (_server, url) = place.serve("");
    fs::write(place.0.join("there/a b"), "text").unwrap();
    let lines = "rename \"a b\" c\nchmod 640 c\nchmod 9 c\nmkdir d e\nrmdir e\nmodtime c\nsize c\n";
    let (printed, said) = place.types(&url, lines);
    let about = fs::metadata(place.0.join("there/c")).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o640, "{said}");
    assert!(said.contains("'9' is not an octal mode like 644"), "{said}");
    assert!(place.0.join("there/d").is_dir() && !place.0.join("there/e").exists());
    assert!(printed.contains(" UTC\n") && printed.contains("4 bytes, "), "{printed}");
}

#[test]
fn what_is_here_is_shown_and_a_command_of_this_machine_is_run() {
    let place = Place::new("shell-here");
    let (_server, url) = place.serve("");
    fs::create_dir(place.0.join("sub")).unwrap();
    fs::write(place.0.join("sub/file"), "12345").unwrap();
    let lines = "lcd sub\nlpwd\nlls -l\n!cat file > copy\n!exit 3\nlcd /no/such\n";
    let (printed, said) = place.types(&url, lines);
    assert!(printed.contains(&format!("{}\n", place.0.join("sub").display())), "{printed}");
    assert!(
        printed.lines().any(|line| line.contains(" 5 ") && line.ends_with(" file")),
        "{printed}"
    );
    assert_eq!(place.read("sub/copy"), b"12345");
    assert!(said.contains("the command ended with exit status: 3"), "{said}");
    assert!(said.contains("cannot change to /no/such"), "{said}");
}

#[test]
fn what_changes_the_session_is_not_sent_as_it_is() {
    let place = Place::new("shell-quote");
    let odd = Odd::start(&[Quirk::On("SITE", "200 so be it")], &[("file", vec![7; 9])]);
    let url = format!("127.0.0.1:{}", odd.port);
    let lines = "quote TYPE A\nsite UMASK 022\nquote NOOP\nquote\nget file\n";
    let (printed, said) = place.types(&url, lines);
    assert!(said.contains("TYPE cannot be sent by quote: use type"), "{said}");
    assert!(odd.has_heard("SITE UMASK 022") && !odd.has_heard("TYPE A"), "{said}");
    assert!(printed.contains("so be it"), "{printed}");
    assert_eq!(place.read("file"), [7; 9]);
}

#[test]
fn type_mode_and_words_are_as_they_were_said() {
    let place = Place::new("shell-type");
    let (_server, url) = place.serve("");
    fs::write(place.0.join("there/text"), "one\r\ntwo\r\n").unwrap();
    fs::write(place.0.join("there/words"), [0x12_u8; 9]).unwrap();
    let lines = "type E\nget text ebcdic\ntype I\nmode Z\nget text\nmode S\nstore oct\nget words\n\
        type\nstru P\ntype L8\nstru P\nstatus\nhelp delete\n";
    let (printed, said) = place.types(&url, lines);
    assert_eq!(place.read("text"), b"one\r\ntwo\r\n", "{said}");
    assert_eq!(place.read("words"), b"044110220441\n102204411022\n", "{said}");
    assert!(printed.contains("TYPE L 36, MODE S, STRU F, local words as oct\n"), "{printed}");
    assert!(printed.contains("rm [-rfnv] NAME..."), "{printed}");
    assert!(said.contains("STRU P"), "{said}");
}

#[test]
fn data_connections_come_from_there_and_from_here_again() {
    let place = Place::new("shell-active");
    let odd = Odd::start(&[], &[("file", vec![7; 9])]);
    let url = format!("127.0.0.1:{}", odd.port);
    place.types(&url, "active\nget file a\npassive\nget file b\n");
    let verbs = odd.heard();
    let ways: Vec<_> =
        verbs.iter().filter(|verb| matches!(verb.as_str(), "EPRT" | "EPSV")).collect();
    assert_eq!(ways, ["EPRT", "EPSV"], "{verbs:?}");
    assert_eq!((place.read("a"), place.read("b")), (vec![7; 9], vec![7; 9]));
}

#[test]
fn the_tabulator_knows_commands_names_there_and_files_here() {
    let place = Place::new("shell-tab");
    fs::write(place.0.join("here.txt"), "text").unwrap();
    let odd = Odd::start(&[], &[("a name", vec![7; 9])]);
    let mut command = place.plumb();
    command.args(["ftp", &format!("127.0.0.1:{}", odd.port)]);
    let mut person = Person::running(command);
    person.sees("plumb ftp>");
    person.types("ls\r");
    person.sees("a name");
    person.types("ge\ta\t it\r");
    person.sees("downloaded '/a name': 9 bytes");
    person.types("put he\t\r");
    person.sees("uploaded '/here.txt': 4 bytes");
    person.types("quit\r");
    assert_eq!(person.leaves().code(), Some(0));
    assert_eq!(place.read("it"), [7; 9]);
}

#[test]
fn a_new_session_has_the_working_directory_of_the_one_before() {
    let place = Place::new("shell-directory");
    let (_server, url) = place.serve("");
    fs::create_dir_all(place.0.join("there/d")).unwrap();
    for name in ["same", "d/same"] {
        fs::write(place.0.join("there").join(name), name).unwrap();
    }
    // plumb tries a failed get again without paths, in case the server does not support them. That
    // changes the working directory, so plumb ends the session; the next command runs in a new one.
    let (_, said) = place.types(&url, "cd d\nget nope\nquote DELE same\n");
    assert!(
        place.0.join("there/same").exists() && !place.0.join("there/d/same").exists(),
        "{said}"
    );
}

#[test]
fn a_reply_to_stat_is_not_taken_for_the_features_of_the_server() {
    let place = Place::new("shell-stat");
    let (_server, url) = place.serve("");
    fs::write(place.0.join("there/file"), "text").unwrap();
    let (printed, said) = place.types(&url, "status\nquote STAT\nsize file\n");
    assert!(
        printed.lines().any(|line| line.contains('4')) && !said.contains("no size or time"),
        "{said}"
    );
}
