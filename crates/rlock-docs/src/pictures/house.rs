//! The house: the parts of the repository, and which imports which.

use crate::picture::Picture;

pub(crate) fn picture() -> Picture {
    let mut picture = Picture::new(
        668,
        "The parts of rlock",
        "Clients send commands to the module in the server. The module's commands, its events and its timer call the rules in \
         rlock-core, which import nothing of the project. A decision goes to one executor, which writes effects, raises \
         events and publishes messages. The model checker, the fuzzer and the test harness stand beside.",
    );
    legend(&mut picture);
    clients(&mut picture);
    server(&mut picture);
    proofs(&mut picture);
    picture
}

fn legend(picture: &mut Picture) {
    picture.arrow(&[[492, 31], [528, 31]], "");
    picture.text(536, 36, "small", "imports");
    picture.arrow(&[[614, 31], [650, 31]], "dashed");
    picture.text(658, 36, "small", "sends");
}

/// A part: its name, and what it is for.
fn part(picture: &mut Picture, place: [u32; 4], class: &str, name: &str, what: &str) {
    let [x, y, width, height] = place;
    picture.rect(place, class);
    let middle = y + height / 2;
    picture.centred(x + width / 2, middle - 4, "code", name);
    picture.centred(x + width / 2, middle + 15, "small", what);
}

fn clients(picture: &mut Picture) {
    part(picture, [24, 58, 168, 52], "box", "crates/rlock-cli", "the command rlock");
    part(picture, [220, 58, 168, 52], "box", "crates/rlock-client", "the Rust client");
    part(picture, [416, 58, 148, 52], "box", "any client", "in any language");
    part(picture, [592, 58, 144, 52], "box", "Redisson", "its Lua scripts");
    picture.arrow(&[[192, 84], [219, 84]], "");
    for x in [304, 490] {
        picture.text(x + 10, 134, "small", "RLOCK.*");
        picture.arrow(&[[x, 110], [x, 179]], "dashed");
    }
    picture.arrow(&[[664, 110], [664, 183]], "dashed");
}

fn server(picture: &mut Picture) {
    picture.rect([24, 146, 712, 330], "frame");
    picture.text(36, 168, "small", "redis-server or valkey-server");
    module(picture);
    part(
        picture,
        [40, 406, 520, 56],
        "green",
        "crates/rlock-core",
        "requests, rules and queues: no I/O, no clock",
    );
    picture.arrow(&[[137, 376], [137, 405]], "");
    picture.arrow(&[[321, 406], [321, 377]], "dashed");
    picture.text(331, 395, "small", "decisions, for perform.rs");
    let sent = [
        ("keys", "one hash per lock"),
        ("effects", "replicas and AOF"),
        ("events", "keyspace events"),
        ("messages", "by PUBLISH"),
    ];
    for (index, (name, what)) in (0..).zip(sent) {
        let y = 184 + index * 50;
        picture.arrow(&[[548, y + 21], [579, y + 21]], "dashed");
        picture.rect([580, y, 144, 42], "box");
        picture.centred(652, y + 18, "strong", name);
        picture.centred(652, y + 35, "small", what);
    }
}

fn module(picture: &mut Picture) {
    picture.rect([40, 180, 520, 196], "box");
    picture.text(52, 202, "strong", "src: the module");
    part(picture, [52, 214, 170, 64], "blue", "command/", "one file each");
    part(picture, [236, 214, 170, 64], "blue", "perform.rs", "the one executor");
    part(picture, [52, 298, 170, 64], "blue", "waiters.rs", "blocked clients, timer");
    part(picture, [236, 298, 170, 64], "blue", "server_events.rs", "keys and the server");
    part(picture, [428, 192, 120, 172], "amber", "ffi/", "every unsafe");
    picture.arrow(&[[222, 246], [235, 246]], "");
    picture.arrow(&[[236, 330], [223, 330]], "");
    picture.arrow(&[[406, 246], [427, 246]], "");
    picture.arrow(&[[406, 330], [427, 330]], "");
}

fn proofs(picture: &mut Picture) {
    picture.text(24, 508, "strong", "Proofs and tests");
    part(picture, [24, 522, 120, 52], "box", "model", "model checker");
    part(picture, [24, 594, 120, 52], "box", "fuzz", "fuzzer");
    part(picture, [176, 522, 166, 52], "box", "crates/rlock-sim", "a server of plain data");
    part(picture, [176, 594, 166, 52], "box", "crates/rlock-oracle", "the rules once more");
    part(picture, [374, 522, 170, 52], "box", "tests, integration", "on real servers");
    part(picture, [374, 594, 170, 52], "box", "lab", "what it costs");
    part(picture, [584, 558, 152, 52], "box", "rlock-testkit", "starts servers");
    picture.arrow(&[[144, 548], [175, 548]], "");
    picture.arrow(&[[144, 620], [175, 620]], "");
    picture.arrow(&[[259, 594], [259, 575]], "");
    picture.arrow(&[[259, 522], [259, 463]], "");
    picture.arrow(&[[544, 548], [564, 548], [564, 576], [583, 576]], "");
    picture.arrow(&[[544, 620], [564, 620], [564, 592], [583, 592]], "");
    picture.arrow(&[[660, 558], [660, 477]], "dashed");
}

#[cfg(test)]
mod tests {
    use super::picture;
    use crate::root;

    /// The arrows between crates: the importer, and the crate that it imports.
    const IMPORTS: [(&str, &str); 8] = [
        ("crates/rlock-cli", "rlock-client"),
        (".", "rlock-core"),
        ("crates/rlock-sim", "rlock-core"),
        ("crates/rlock-oracle", "rlock-sim"),
        ("model", "rlock-sim"),
        ("fuzz", "rlock-oracle"),
        (".", "rlock-testkit"),
        ("lab", "rlock-testkit"),
    ];

    #[test]
    fn the_parts_and_their_imports_are_those_of_the_repository() {
        let manifest = |part: &str| std::fs::read_to_string(root().join(part).join("Cargo.toml")).unwrap();
        for (part, other) in IMPORTS {
            assert!(manifest(part).contains(&format!("\n{other}")), "{part} does not import {other}");
        }
        let core = manifest("crates/rlock-core");
        let own = core.split("[dev-dependencies]").next().unwrap();
        assert!(!own.contains("\nrlock-"), "rlock-core imports a part of the project");
        let texts = picture();
        for text in texts.placed().iter().map(|placed| placed.text.as_str()) {
            let in_module =
                ["command/", "perform.rs", "waiters.rs", "server_events.rs", "ffi/"].contains(&text);
            let path = if in_module { root().join("src").join(text) } else { root().join(text) };
            let is_path =
                in_module || text.starts_with("crates/") || ["model", "fuzz", "lab"].contains(&text);
            assert!(!is_path || path.exists(), "there is no {text}");
        }
    }
}
