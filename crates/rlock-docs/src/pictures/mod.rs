//! The pictures in docs/pictures that this program draws. That of hand-offs is drawn from the stored figures, by
//! the benchmark.

mod fail_over;
mod house;
mod life;
mod queue;

use std::fs;
use std::path::Path;

use crate::picture::Picture;

/// The name of each picture's file, and the picture.
pub(crate) fn all() -> [(&'static str, Picture); 4] {
    [
        ("life.svg", life::picture()),
        ("hand-off.svg", queue::picture()),
        ("fail-over.svg", fail_over::picture()),
        ("house.svg", house::picture()),
    ]
}

/// Writes the pictures that differ from what is stored.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let folder = root.join("docs/pictures");
    for (name, picture) in all() {
        let path = folder.join(name);
        let text = picture.finish();
        if fs::read_to_string(&path).is_ok_and(|stored| stored == text) {
            continue;
        }
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        println!("docs: drew {}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn the_stored_pictures_are_what_is_drawn() {
        for (name, picture) in all() {
            let path = root().join("docs/pictures").join(name);
            let stored = fs::read_to_string(&path).unwrap_or_default();
            assert!(stored == picture.finish(), "{} is stale: run `make docs`", path.display());
        }
    }

    #[test]
    fn no_text_overlaps_another_or_leaves_the_picture() {
        for (name, picture) in all() {
            let (width, height) = picture.size();
            let texts = picture.placed();
            for (index, one) in texts.iter().enumerate() {
                let inside = one.left >= 8.0
                    && one.right <= width - 8.0
                    && one.top >= 8.0
                    && one.bottom <= height - 8.0;
                assert!(inside, "{name}: {} leaves the picture", one.text);
                for other in &texts[..index] {
                    let apart = one.right < other.left
                        || other.right < one.left
                        || one.bottom < other.top
                        || other.bottom < one.top;
                    assert!(apart, "{name}: {} overlaps {}", one.text, other.text);
                }
            }
        }
    }

    #[test]
    fn texts_fit_into_their_boxes() {
        let mut faults = Vec::new();
        for (name, picture) in all() {
            for text in picture.placed() {
                let (x, y) = (text.left.midpoint(text.right), text.top.midpoint(text.bottom));
                let around = picture.boxes().iter().map(|edges| edges.map(f64::from)).filter(
                    |[left, top, width, height]| {
                        *left < x && x < left + width && *top < y && y < top + height
                    },
                );
                let innermost = around.min_by(|one, other| one[2].total_cmp(&other[2]));
                if let Some([left, _, width, _]) = innermost
                    && (text.left < left || text.right > left + width)
                {
                    faults.push(format!("{name}: {} is wider than its box of {width}", text.text));
                }
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
