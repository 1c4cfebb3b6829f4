//! The project's addresses stand in one file, and a release needs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FILE: &str = "packaging/addresses.toml";
const NAMES: [&str; 4] = ["repository", "maintainer", "security", "signing"];

/// Addresses for tests; their host names are never in use.
const SET: &str = "repository = \"https://host.invalid/owner/rlock\"\nmaintainer = \"A Name <name@host.invalid>\"\n\
                   security = \"security@host.invalid\"\nsigning = \"RWQinvalid\"\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// A copy of the scripts, with its own addresses.
struct Copy {
    folder: PathBuf,
}

impl Copy {
    fn with(name: &str, addresses: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("rlock-addresses-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("scripts")).unwrap();
        fs::create_dir_all(folder.join("packaging")).unwrap();
        for script in ["addresses.sh", "dist.sh", "publish.sh"] {
            fs::copy(root().join("scripts").join(script), folder.join("scripts").join(script)).unwrap();
        }
        fs::create_dir_all(folder.join("clients")).unwrap();
        fs::copy(root().join("clients/names.toml"), folder.join("clients/names.toml")).unwrap();
        fs::write(folder.join(FILE), addresses).unwrap();
        Self { folder }
    }

    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        let script = self.folder.join("scripts").join(script);
        Command::new("sh").arg(script).args(arguments).output().unwrap()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// All files that people wrote, with their text.
fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    let generated = ["target", ".git", ".deps", "node_modules", "corpus", "artifacts"];
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if generated.contains(&name.as_str()) || name.contains("lock.json") || name.ends_with(".lock") {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            files(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.push((path.strip_prefix(root()).unwrap().display().to_string(), text));
        }
    }
}

fn value(name: &str, text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='));
    line.expect(name).trim().trim_matches('"').to_string()
}

/// E-mail addresses whose host name could be in use.
fn mails(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "@._+-".contains(c);
    let words = text.split(|c| !is_part(c)).map(|word| word.trim_matches(['.', '-']));
    let is_mail = |word: &&str| {
        let Some((name, host)) = word.split_once('@') else { return false };
        let end = host.rsplit_once('.').map_or("", |(_, end)| end);
        let is_host = end.len() >= 2 && end.bytes().all(|byte| byte.is_ascii_lowercase());
        !name.is_empty() && is_host && !["invalid", "example", "test", "service", "sh"].contains(&end)
    };
    words.filter(is_mail).collect()
}

#[test]
fn a_release_is_refused_while_an_address_is_not_set() {
    for name in NAMES {
        let line = format!("{name} = \"{}\"", value(name, SET));
        let copy = Copy::with(name, &SET.replace(&line, &format!("{name} = \"\"")));
        for (script, arguments) in [("dist.sh", &[] as &[&str]), ("publish.sh", &["--dry-run"])] {
            let ran = copy.run(script, arguments);
            let said = String::from_utf8_lossy(&ran.stderr);
            assert!(!ran.status.success(), "{script} continued without {name}");
            assert_eq!(said, format!("release: not set: {name}. Set the project's addresses in {FILE}\n"));
            assert!(!copy.folder.join("target").exists(), "{script} has begun");
        }
    }
}

#[test]
fn addresses_that_are_set_are_taken_from_the_file() {
    let copy = Copy::with("set", SET);
    assert!(copy.run("addresses.sh", &["require"]).status.success());
    for name in NAMES {
        let said = copy.run("addresses.sh", &["get", name]).stdout;
        assert_eq!(String::from_utf8_lossy(&said).trim(), value(name, SET));
    }
    let project = copy.folder.join("project");
    let crates =
        ["machine", "links", "client", "multi", "cli"].map(|name| format!("crates/rlock-{name}/Cargo.toml"));
    let poms = ["", "-shedlock", "-spring"].map(|name| format!("clients/java{name}/pom.xml"));
    let others = ["Cargo.toml", "clients/python/pyproject.toml", "clients/javascript/package.json"];
    for manifest in crates.iter().chain(&poms).map(String::as_str).chain(others) {
        fs::create_dir_all(project.join(manifest).parent().unwrap()).unwrap();
        fs::copy(root().join(manifest), project.join(manifest)).unwrap();
    }
    assert!(copy.run("addresses.sh", &["fill", "project"]).status.success());
    let read = |manifest: &str| fs::read_to_string(project.join(manifest)).unwrap();
    assert!(
        read("Cargo.toml")
            .contains("[workspace.package]\nrepository = \"https://host.invalid/owner/rlock\"\n")
    );
    for manifest in &crates {
        assert_eq!(read(manifest).matches("\nrepository.workspace = true\n").count(), 1, "{manifest}");
        assert!(!read(manifest).contains("publish = false"), "{manifest}");
    }
    for pom in &poms {
        for element in [
            "<url>https://host.invalid/owner/rlock</url>\n",
            "<developer><name>A Name</name><email>name@host.invalid</email></developer>",
            "<connection>scm:git:https://host.invalid/owner/rlock.git</connection>",
        ] {
            assert_eq!(read(pom).matches(element).count(), 1, "{pom}: {element}");
        }
    }
    assert!(
        read(others[1]).contains("\n[project.urls]\nRepository = \"https://host.invalid/owner/rlock\"\n")
    );
    assert!(read(others[2]).contains("\n  \"repository\": \"https://host.invalid/owner/rlock\",\n"));
}

#[test]
fn only_mail_addresses_are_found() {
    // This file is read by the next test as well.
    let text = "A <b.c AT d-e.org>, redis AT 7.0, rlock AT 1.service, redis://:word AT 127.0.0.1, f AT g.invalid, j AT k.dev.";
    let text = text.replace(" AT ", "@");
    let own = ["b.c AT d-e.org", "j AT k.dev"].map(|mail| mail.replace(" AT ", "@"));
    assert_eq!(mails(&text), own);
}

#[test]
fn no_other_file_names_an_address() {
    let addresses = fs::read_to_string(root().join(FILE)).unwrap();
    let set: Vec<String> =
        NAMES.map(|name| value(name, &addresses)).into_iter().filter(|it| !it.is_empty()).collect();
    let mut all = Vec::new();
    files(&root(), &mut all);
    assert!(all.iter().any(|(path, _)| path == "README.md") && all.len() > 100);
    let mut faults = Vec::new();
    for (path, text) in all.iter().filter(|(path, _)| path != FILE) {
        faults.extend(set.iter().filter(|address| text.contains(*address)).map(|it| format!("{path}: {it}")));
        faults.extend(mails(text).into_iter().map(|mail| format!("{path}: {mail}")));
        for key in ["repository", "homepage"] {
            let own = text.lines().filter(|line| {
                let rest = line.trim_start().trim_start_matches('"').strip_prefix(key).unwrap_or_default();
                path.rsplit_once('.').is_some_and(|(_, end)| ["toml", "json"].contains(&end))
                    && rest.trim_start_matches(['"', ' ']).starts_with([':', '='])
            });
            faults.extend(own.map(|line| format!("{path}: {line}")));
        }
    }
    assert!(faults.is_empty(), "addresses belong into {FILE}:\n{}", faults.join("\n"));
}
