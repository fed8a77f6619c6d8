//! Paths as they stand in archives, to paths below a folder.

use super::{ArchiveLimits, EntryReason};

/// A name in a path may have so many bytes on the systems that there are.
const NAME_BYTES: usize = 255;

/// A path below the folder: names joined by `/`, none of them special; empty for the folder itself.
///
/// # Errors
/// Why there is none.
pub(super) fn below(raw: &[u8], limits: &ArchiveLimits) -> Result<Vec<u8>, EntryReason> {
    check_characters(raw)?;
    let names: Vec<&[u8]> = raw.split(|it| *it == b'/').filter(|it| !it.is_empty() && *it != b".").collect();
    let length = names.iter().map(|it| it.len() + 1).sum::<usize>();
    if length > limits.path_bytes || names.iter().any(|it| it.len() > NAME_BYTES) {
        return Err(EntryReason::TooLong { limit: limits.path_bytes });
    }
    if names.len() > limits.depth {
        return Err(EntryReason::TooDeep { limit: limits.depth });
    }
    names.iter().try_for_each(|it| check_name(it))?;
    match names.first() {
        Some(first) if *first == b"__MACOSX" => Err(EntryReason::ResourceFork),
        _ => Ok(names.join(&b'/')),
    }
}

fn check_characters(raw: &[u8]) -> Result<(), EntryReason> {
    match raw {
        [b'/', ..] => Err(EntryReason::Absolute),
        // A drive of Windows. No system that we know of has sources in a folder of such a name.
        [letter, b':', ..] if letter.is_ascii_alphabetic() => Err(EntryReason::Absolute),
        _ if raw.contains(&0) => Err(EntryReason::Nul),
        // It divides names on some systems and belongs to them on others.
        _ if raw.contains(&b'\\') => Err(EntryReason::Backslash),
        _ if !cfg!(unix) && std::str::from_utf8(raw).is_err() => Err(EntryReason::NotUtf8),
        _ => Ok(()),
    }
}

fn check_name(name: &[u8]) -> Result<(), EntryReason> {
    match name {
        b".." => Err(EntryReason::Upwards),
        _ if is_git_data(name) => Err(EntryReason::GitData),
        _ => Ok(()),
    }
}

/// Whether some system takes a name for `.git`: without regard to case, characters that can't be seen, dots and blanks at its end, the name of
/// a stream after a colon, or by its short name. A repository in a folder says what belongs to it, and where else to look.
fn is_git_data(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    let seen: String = name.chars().filter(|it| !is_invisible(*it)).collect();
    let stem = seen.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    [".git", "git~1"].iter().any(|it| stem.eq_ignore_ascii_case(it))
}

/// Characters that the file system of macOS passes over.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &[u8], expected: Result<&[u8], EntryReason>) {
        let limits = ArchiveLimits { path_bytes: 600, depth: 4, ..ArchiveLimits::default() };
        assert_eq!(below(raw, &limits).as_deref(), expected.as_ref().map(|it| *it), "{}", String::from_utf8_lossy(raw));
    }

    #[test]
    fn plain_paths_stay_and_what_means_nothing_goes() {
        check(b"src/a b.py", Ok(b"src/a b.py"));
        check("src/\u{fc}\n.py".as_bytes(), Ok("src/\u{fc}\n.py".as_bytes()));
        check(b"./src//a.py/", Ok(b"src/a.py"));
        check(b"./", Ok(b""));
        check(b"a/...", Ok(b"a/..."));
        check(b"a:b/12:30.log", Err(EntryReason::Absolute));
        check(b"ab:c", Ok(b"ab:c"));
    }

    #[cfg(unix)]
    #[test]
    fn bytes_that_are_no_text_are_kept() {
        check(b"src/\xff.py", Ok(b"src/\xff.py"));
    }

    #[test]
    fn nothing_leads_out_of_the_folder() {
        check(b"/etc/passwd", Err(EntryReason::Absolute));
        check(b"//host/share", Err(EntryReason::Absolute));
        check(b"C:/x", Err(EntryReason::Absolute));
        check(b"c:x", Err(EntryReason::Absolute));
        check(b"..", Err(EntryReason::Upwards));
        check(b"a/../b", Err(EntryReason::Upwards));
        check(b"a/..", Err(EntryReason::Upwards));
        check(b"..\\b", Err(EntryReason::Backslash));
        check(b"a\0b", Err(EntryReason::Nul));
    }

    #[test]
    fn no_name_stands_for_a_repository() {
        for name in [
            ".git",
            "a/.git/config",
            ".GIT/x",
            "a/.Git",
            "git~1/config",
            "GIT~1",
            ".git./x",
            ".git ",
            ".git::$INDEX_ALLOCATION/x",
            ".g\u{200c}it/x",
            "\u{feff}.git",
        ] {
            check(name.as_bytes(), Err(EntryReason::GitData));
        }
        for name in [".github/x.yml", ".gitignore", "git~2", ".gitx", "git"] {
            check(name.as_bytes(), Ok(name.as_bytes()));
        }
    }

    #[test]
    fn long_and_deep_paths_are_left_out() {
        let long = EntryReason::TooLong { limit: 600 };
        check(&[b'a'; 255], Ok(&[b'a'; 255]));
        check(&[b'a'; 256], Err(long.clone()));
        check(&[&[b'a'; 200][..]; 3].join(&b'/'), Err(long));
        check(b"a/b/c/d", Ok(b"a/b/c/d"));
        check(b"a/b/c/d/e", Err(EntryReason::TooDeep { limit: 4 }));
        check(b"__MACOSX/a/._b.py", Err(EntryReason::ResourceFork));
    }
}
