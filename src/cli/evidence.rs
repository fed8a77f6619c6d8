//! `sightline evidence`: what pictures say.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde::Serialize;

use super::terminal::{DIM, HEADING, PLAIN, Page};
use super::{Failure, issue, json, reading, terminal};
use crate::config::Settings;
use crate::evidence::{Reader, Reading, draw};
use crate::imaging;
use crate::service::evidence::Vce;
use crate::types::{IssueImage, IssueReport};

/// Tell what pictures say: their text, and what it says of errors, code and interface.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pictures.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// The issue that they are of, which is told to a vision-language model.
    #[arg(long, value_name = "FILE")]
    issue: Option<PathBuf>,
    #[command(flatten)]
    evidence: reading::Flags,
    /// Write a picture that shows where text was found and what was read there; for one picture.
    #[arg(long, value_name = "FILE")]
    draw: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Told {
    evidence: Vec<Item>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item {
    Evidence(Box<Vce>),
    Failed { name: String, error: Fault },
}

#[derive(Serialize)]
struct Fault {
    message: String,
}

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let mut settings = settings.clone();
    arguments.evidence.apply(&mut settings);
    if arguments.draw.is_some() && arguments.images.len() > 1 {
        return Err(Failure::usage(anyhow!("--draw shows one picture: give one, or leave it out")));
    }
    let same = |it: &PathBuf| Some((it.canonicalize().ok()?, arguments.draw.as_ref()?.canonicalize().ok()?));
    if arguments.images.iter().filter_map(same).any(|(image, drawn)| image == drawn) {
        return Err(Failure::usage(anyhow!("--draw names the picture itself, which would be lost: name another file")));
    }
    let reader = reading::reader(&settings)?;
    let report = match &arguments.issue {
        Some(path) => issue::read(path, &[], settings.images.max_bytes)?.report,
        None => IssueReport::default(),
    };
    let mut told = Vec::new();
    let mut outcome = Ok(());
    for path in &arguments.images {
        let name = path.display().to_string();
        let read = read(path, &reader, &report, &settings);
        if let (Ok((image, reading)), Some(file)) = (&read, &arguments.draw) {
            outcome = drawn(image, reading, &reader, &settings, file);
        }
        told.push((name, read.map(|it| it.1)));
    }
    for (name, read) in &told {
        match read {
            Err(error) => terminal::warning(&format!("the picture `{name}` can't be used: {error}")),
            Ok(reading) => {
                reading.warning.iter().for_each(|it| terminal::warning(&format!("the picture `{name}`: {it}")))
            }
        }
    }
    let failed = told.iter().filter(|it| it.1.is_err()).count();
    if arguments.json {
        json::print(&Told { evidence: told.into_iter().map(item).collect() })?;
    } else {
        let mut page = terminal::output();
        for (name, reading) in told.iter().filter_map(|(name, read)| Some((name, read.as_ref().ok()?))) {
            print(&mut page, &Vce::of(name, reading))?;
        }
        page.flush()?;
    }
    match failed {
        0 => outcome,
        _ => Err(anyhow!("{} could not be read", terminal::counted(failed, "picture")).into()),
    }
}

fn read(
    path: &Path,
    reader: &Reader,
    report: &IssueReport,
    settings: &Settings,
) -> anyhow::Result<(IssueImage, Reading)> {
    let unreadable = |error| anyhow!("it can't be read ({error}): check the path");
    let bytes = issue::read_picture(path, settings.images.max_bytes).map_err(unreadable)??;
    let image = IssueImage { name: path.display().to_string(), bytes };
    let reading = reader.read(&image, report)?;
    Ok((image, reading))
}

/// Draws what was read on this machine; what a model told has no places.
fn drawn(
    image: &IssueImage,
    reading: &Reading,
    reader: &Reader,
    settings: &Settings,
    file: &Path,
) -> Result<(), Failure> {
    let page = match &reading.page {
        Some(page) => page.clone(),
        None => reader.read_here(image)?.page.unwrap_or_default(),
    };
    let picture = imaging::decode(&image.bytes, &settings.images)?;
    let png = draw::draw(&picture, &page)?;
    std::fs::write(file, png)
        .with_context(|| format!("`{}` can't be written: name a file in a folder that can be", file.display()))?;
    Ok(())
}

fn item((name, read): (String, anyhow::Result<Reading>)) -> Item {
    match read {
        Ok(reading) => Item::Evidence(Box::new(Vce::of(&name, &reading).with_lines(reading.page.as_ref()))),
        Err(error) => Item::Failed { name, error: Fault { message: error.to_string() } },
    }
}

/// One picture for people: what it says in short, then its text.
fn print(page: &mut Page<impl std::io::Write>, vce: &Vce) -> std::io::Result<()> {
    let kind = vce.category.map_or(String::new(), |it| format!("  {}", it.replace('_', " ")));
    let by = vce.model.as_deref().map_or(String::new(), |it| format!(", by {it}"));
    let about = format!("{kind}  confidence {:.2}{by}", vce.confidence);
    page.line(&[(HEADING, &vce.name), (DIM, &about)])?;
    let mut field = |name: &str, value: &str| match value {
        "" => Ok(()),
        value => page.line(&[(DIM, &format!("  {name:<11}")), (PLAIN, value)]),
    };
    if let Some(error) = &vce.error_signal {
        let parts = [&error.type_name, &error.message].into_iter().flatten().map(String::as_str).collect::<Vec<_>>();
        field("error", &parts.join(": "))?;
        error.stack_hint.iter().try_for_each(|it| field("at", it))?;
    }
    field("names", &vce.code_hint.function_names.join(", "))?;
    field("files", &vce.code_hint.file_patterns.join(", "))?;
    field("frameworks", &vce.code_hint.frameworks.join(", "))?;
    field("interface", &vce.ui_elements.join(" | "))?;
    field("action", vce.user_action.as_deref().unwrap_or_default())?;
    field("stands out", vce.visual_saliency.as_deref().unwrap_or_default())?;
    field("note", vce.notes.as_deref().unwrap_or_default())?;
    for line in vce.ocr_text.lines() {
        page.line(&[(PLAIN, "  "), (PLAIN, line)])?;
    }
    page.line(&[])
}
