//! `rm`, `mv` and `mirror --delete`: refusals, counts and confirmation questions.

use crate::alone::Place;
use crate::login_desk::Person;
use crate::odd_ftp::{Odd, Quirk};
use std::fs;

/// Files and directories below `there`.
const TREE: [&str; 4] = ["keep/deep/thesis.txt", "many/a", "many/b", "notes.txt"];

/// Starts plumb's server with the tree, and returns the working directory, the server and its URL.
fn served(name: &str) -> (Place, os::process::Program, String) {
    let place = Place::new(name);
    let (server, url) = place.serve("");
    for file in TREE {
        let path = place.0.join("there").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    (place, server, url)
}

fn left(place: &Place) -> Vec<&'static str> {
    TREE.into_iter().filter(|file| place.0.join("there").join(file).exists()).collect()
}

// attack row 145
#[test]
fn rm_refuses_paths_that_name_a_directory_by_its_place() {
    let (place, _server, url) = served("rm-refused");
    for path in [
        "",
        "/",
        "//",
        "/.",
        "/..",
        "/./",
        "/%2e%2e",
        "/many/..",
        "/many/%2e%2e/",
        "/a/../..",
        "/%2f",
        "/many/.",
        "/*/..",
    ] {
        for flags in [&["rm", "-r"][..], &["rm", "-rf"], &["rm"]] {
            let url = format!("{url}{path}");
            let (code, printed, said) = place.ran(&[flags, &[&url]].concat());
            assert_eq!((code, printed.as_str()), (Some(2), ""), "{path}: {said}");
            assert!(said.contains("refusing to remove"), "{path}: {said}");
        }
    }
    assert_eq!(left(&place), TREE);
}

// attack row 145
#[test]
fn a_refused_path_is_not_asked_of_the_server() {
    let place = Place::new("rm-unasked");
    let odd = Odd::start(&[], &[("f", b"x".to_vec())]);
    let (code, _, _) = place.ran(&["rm", "-r", &format!("ftp://127.0.0.1:{}/", odd.port)]);
    assert_eq!((code, odd.heard()), (Some(2), Vec::new()));
}

const DOTS: &[Quirk] = &[
    Quirk::Listing(
        "drwx------ 1 a b 1 Jan 02 2020 .\ndrwx------ 1 a b 1 Jan 02 2020 ..\n\
         -rw------- 1 a b 1 Jan 02 2020 .x\n",
    ),
    Quirk::On("DELE", "250 gone"),
];

#[test]
fn a_pattern_does_not_stand_for_dot_and_dot_dot() {
    let place = Place::new("rm-dots");
    let odd = Odd::start(DOTS, &[]);
    let url = format!("ftp://127.0.0.1:{}/d/.*", odd.port);
    let (code, _, said) = place.ran(&["rm", "-r", &url]);
    assert_eq!(code, Some(0), "{said}");
    assert!(odd.has_heard("DELE d/.x"));
    assert_eq!(
        odd.heard().iter().filter(|verb| matches!(verb.as_str(), "DELE" | "RMD")).count(),
        1
    );
}

#[test]
fn rm_counts_names_and_prints_as_json_what_it_removes() {
    let (place, _server, url) = served("rm-counts");
    let many = format!("{url}/many");
    let (code, printed, said) = place.ran(&["rm", "-r", "-n", &many]);
    assert_eq!((code, printed.as_str()), (Some(0), "delete many/b\ndelete many/a\ndelete many/\n"));
    assert!(!said.contains("removed"), "{said}");
    assert_eq!(left(&place), TREE);
    let (code, _, said) = place.ran(&["rm", "-r", "-v", &many]);
    assert_eq!(code, Some(0), "{said}");
    for part in ["removing 2 files and 1 directory", "removed 'many/a'", "removed 'many/'"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (code, printed, said) = place.ran(&["rm", "-r", "--json", &format!("{url}/keep")]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let first = r#"{"kind":"file","name":"keep/deep/thesis.txt","what":"deleted"}"#;
    assert_eq!((printed.lines().next(), printed.lines().count()), (Some(first), 3));
    assert_eq!(left(&place), ["notes.txt"]);
}

#[test]
fn rm_of_a_directory_says_how_it_is_removed() {
    let (place, _server, url) = served("rm-directory");
    let (code, _, said) = place.ran(&["rm", &format!("{url}/many")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("'many' is a directory: use -r"), "{said}");
    let (code, _, said) = place.ran(&["rm", &format!("{url}/*")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("'keep' is a directory: use -r to remove it"), "{said}");
    assert!(said.contains("2 directories were not removed"), "{said}");
    assert_eq!(left(&place), TREE[..3]);
}

/// Runs plumb on a terminal, answers its question, waits for `last`, and returns its exit code.
fn answered(
    place: &Place,
    words: &[&str],
    (question, answer): (&str, &str),
    last: &str,
) -> Option<i32> {
    let mut command = place.plumb();
    command.args(words);
    let mut person = Person::running(command);
    person.sees(question);
    person.types(answer);
    person.sees(last);
    person.leaves().code()
}

#[test]
fn on_a_terminal_rm_asks_and_only_yes_removes() {
    let (place, _server, url) = served("rm-asks");
    let many = format!("{url}/many");
    let (words, question) = (["rm", "-r", &many], "remove 2 files and 1 directory? [y/N]");
    let code = answered(&place, &words, (question, "\r"), "nothing was changed");
    assert_eq!((code, left(&place)), (Some(3), TREE.to_vec()));
    let code = answered(&place, &words, (question, "y\r"), "removed 2 files and 1 directory");
    assert_eq!(code, Some(0));
    assert_eq!(left(&place), ["keep/deep/thesis.txt", "notes.txt"]);
}

#[test]
fn the_shell_refuses_the_same_paths() {
    let (place, _server, url) = served("rm-shell");
    let lines = "cd many\nrm -r .\nrm -r ..\nmdelete ..\nrmdir .\nrm -rf /\nrm -r ''\nmv .. x\n\
                 mv a .\nrm -r ../many/..\n";
    let (_, said) = place.types(&url, lines);
    assert_eq!(said.matches("refusing to remove").count(), 7, "{said}");
    assert_eq!(said.matches("refusing to rename").count(), 2, "{said}");
    assert_eq!(left(&place), TREE);
    let (_, said) = place.types(&url, "rm -rv many\n");
    assert!(said.contains("removing 2 files and 1 directory"), "{said}");
    assert_eq!(left(&place), ["keep/deep/thesis.txt", "notes.txt"]);
}

#[test]
fn mv_takes_two_urls_of_the_same_host_and_user() {
    let (place, _server, url) = served("mv-urls");
    let notes = format!("{url}/notes.txt");
    let (code, _, said) = place.ran(&["mv", &notes, "ftp://192.0.2.1/notes.txt"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("differ in host, port or user"), "{said}");
    let other = url.replace("ftp://", "ftp://ann@");
    let (code, _, said) = place.ran(&["mv", &notes, &format!("{other}/x")]);
    assert_eq!(code, Some(2), "{said}");
    place.done(&["mv", &notes, &format!("{url}/many/new.txt")]);
    assert_eq!(place.read("there/many/new.txt"), b"notes.txt");
    place.done(&["mv", &format!("{url}/many/new.txt"), "notes.txt"]);
    assert_eq!(left(&place), TREE);
}

#[test]
fn mv_refuses_paths_that_name_a_directory_by_its_place() {
    let (place, _server, url) = served("mv-refused");
    let notes = format!("{url}/notes.txt");
    for (from, to) in [
        (url.as_str(), "x"),
        (&notes, "."),
        (&notes, "many/.."),
        (&notes, "/"),
        (&notes, ""),
        (&format!("{url}/many/.."), "x"),
        (&notes, &format!("{url}/")),
    ] {
        let (code, _, said) = place.ran(&["mv", from, to]);
        assert_eq!(code, Some(2), "{from} {to}: {said}");
        assert!(said.contains("refusing to rename"), "{said}");
    }
    assert_eq!(left(&place), TREE);
}

#[test]
fn mirror_deletes_in_a_root_only_if_it_is_forced() {
    let (place, _server, url) = served("mirror-root");
    fs::create_dir(place.0.join("empty")).unwrap();
    for to in ["", "/", "/.", "/many/.."] {
        let (code, _, said) = place.ran(&["mirror", "--delete", "empty", &format!("{url}{to}")]);
        assert_eq!(code, Some(2), "{to}: {said}");
        assert!(said.contains("refusing to delete in the destination"), "{said}");
    }
    for to in [".", "..", "/"] {
        let (code, _, said) = place.ran(&["mirror", "--delete", &format!("{url}/many"), to]);
        assert_eq!(code, Some(2), "{to}: {said}");
    }
    assert_eq!(left(&place), TREE);
    let many = format!("{url}/many");
    let (code, _, said) = place.ran(&["mirror", "--delete", "empty", &many]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("deleting 2 files at the destination"), "{said}");
    assert_eq!(left(&place), ["keep/deep/thesis.txt", "notes.txt"]);
    place.done(&["mirror", "--delete", "--force", "empty", &url]);
    assert_eq!(left(&place), [""; 0]);
}

#[test]
fn on_a_terminal_mirror_asks_before_it_deletes() {
    let (place, _server, url) = served("mirror-asks");
    fs::create_dir(place.0.join("empty")).unwrap();
    let words = ["mirror", "--delete", "empty", &format!("{url}/many")];
    let question = ("delete 2 files at the destination? [y/N]", "n\r");
    let code = answered(&place, &words, question, "nothing was changed");
    assert_eq!((code, left(&place)), (Some(3), TREE.to_vec()));
}
