//! F2: the WordPiece model of a `tokenizer.json`, with its vocabulary in one piece.
//!
//! Does what `tokenizers::models::wordpiece::WordPiece` does, in a quarter of the time to load: that one holds each token as two
//! strings in two maps. Knows nothing of how a text becomes words.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

use foldhash::fast::FixedState;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use tokenizers::models::wordpiece::WordPieceTrainer;
use tokenizers::{Model, Result, Token};

/// Splits a word into the longest pieces of its vocabulary, from its beginning.
#[derive(Deserialize)]
pub(super) struct WordPiece {
    #[serde(default, rename = "type")]
    _kind: Kind,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: Vocabulary,
}

/// The one type of model that is read. Older files don't name it.
#[derive(Default, Deserialize)]
enum Kind {
    #[default]
    WordPiece,
}

impl WordPiece {
    /// The largest id of a token.
    pub(super) fn largest(&self) -> u32 {
        self.vocab.ids.iter().copied().max().unwrap_or(0)
    }

    fn unknown(&self, word: &str) -> Result<Vec<Token>> {
        let id = self.vocab.id(&self.unk_token).ok_or("the vocabulary lacks the token for what it lacks")?;
        Ok(vec![piece(id, 0, word.len())])
    }
}

/// A token without its text, which nothing here reads.
fn piece(id: u32, start: usize, end: usize) -> Token {
    Token::new(id, String::new(), (start, end))
}

impl Model for WordPiece {
    type Trainer = WordPieceTrainer;

    fn tokenize(&self, word: &str) -> Result<Vec<Token>> {
        if word.chars().count() > self.max_input_chars_per_word {
            return self.unknown(word);
        }
        let prefix = &self.continuing_subword_prefix;
        let mut continuing = prefix.clone();
        let mut pieces = Vec::new();
        let mut rest = word;
        while !rest.is_empty() {
            let start = word.len() - rest.len();
            continuing.truncate(prefix.len());
            continuing.push_str(rest);
            let (text, extra) = if start == 0 { (rest, 0) } else { (&continuing[..], prefix.len()) };
            let ends = rest.char_indices().rev().map(|(at, char)| at + char.len_utf8());
            let longest = ends.map(|end| (end, self.vocab.id(&text[..extra + end]))).find(|it| it.1.is_some());
            let Some((end, Some(id))) = longest else { return self.unknown(word) };
            pieces.push(piece(id, start, start + end));
            rest = &rest[end..];
        }
        Ok(pieces)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.vocab.id(token)
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        let entry = self.vocab.ids.iter().position(|&it| it == id)?;
        Some(self.vocab.token(entry).to_owned())
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        self.vocab.ids.iter().enumerate().map(|(entry, &id)| (self.vocab.token(entry).to_owned(), id)).collect()
    }

    fn get_vocab_size(&self) -> usize {
        self.vocab.ids.len()
    }

    fn save(&self, _: &Path, _: Option<&str>) -> Result<Vec<PathBuf>> {
        Err("this vocabulary is only read".into())
    }

    fn get_trainer(&self) -> Self::Trainer {
        WordPieceTrainer::default()
    }
}

/// Tokens and their ids. A token is an entry, numbered as in the file.
#[derive(Default)]
struct Vocabulary {
    /// All tokens, one after the other.
    text: String,
    /// Where each ends.
    ends: Vec<u32>,
    ids: Vec<u32>,
    /// A hash table by open addressing, never more than half full: an entry's number plus one, or zero.
    slots: Vec<u32>,
}

impl Vocabulary {
    fn token(&self, entry: usize) -> &str {
        let start = entry.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.text[start..self.ends[entry] as usize]
    }

    /// The slot that holds a token, or else the one that it belongs in.
    fn slot(&self, token: &str) -> usize {
        let last = self.slots.len() - 1;
        let mut slot = FixedState::default().hash_one(token) as usize & last;
        while self.slots[slot] != 0 && self.token(self.slots[slot] as usize - 1) != token {
            slot = (slot + 1) & last;
        }
        slot
    }

    fn id(&self, token: &str) -> Option<u32> {
        let entry = self.slots[self.slot(token)].checked_sub(1)?;
        Some(self.ids[entry as usize])
    }

    /// Fills the table. A token that comes twice has its last id, as in any map.
    fn indexed(mut self) -> Self {
        self.slots = vec![0; (2 * self.ids.len()).next_power_of_two().max(2)];
        for entry in 0..self.ids.len() {
            let slot = self.slot(self.token(entry));
            self.slots[slot] = entry as u32 + 1;
        }
        self
    }
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vocabulary;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a map of tokens to ids")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Vocabulary, A::Error> {
        let mut read = Vocabulary::default();
        while map.next_key_seed(Appended(&mut read.text))?.is_some() {
            read.ends.push(u32::try_from(read.text.len()).map_err(A::Error::custom)?);
            read.ids.push(map.next_value()?);
        }
        Ok(read.indexed())
    }
}

/// A string that is appended to another, without one of its own in between.
struct Appended<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Appended<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Appended<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a token")
    }

    fn visit_str<E>(self, token: &str) -> std::result::Result<(), E> {
        self.0.push_str(token);
        Ok(())
    }
}

#[cfg(test)]
#[path = "wordpiece_tests.rs"]
mod tests;
