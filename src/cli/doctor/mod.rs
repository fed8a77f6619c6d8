//! `sightline doctor`: whether the model, the machine and the places for data are as they should be.

mod canary;
mod system;

use std::time::Instant;

use anyhow::anyhow;

use super::terminal::{DIM, HEADING, PLAIN};
use super::{Failure, json, model, terminal};
use crate::config::Settings;
use crate::encoder::Encoder;
use canary::Examined;

/// Check that the model computes what it should, and that there is a place for data; and tell how fast it is here.
///
/// Exit code 1 if something is wrong, with what to do about it.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: model::Flags,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Something that was looked at.
pub struct Check {
    pub name: &'static str,
    /// What is wrong and what to do about it, if something is.
    pub problem: Option<String>,
}

impl Check {
    fn of(name: &'static str, is_good: bool, problem: impl FnOnce() -> String) -> Self {
        Check { name, problem: (!is_good).then(problem) }
    }
}

/// All that was found out.
pub struct Report {
    pub machine: system::Machine,
    /// `None` if it could not be loaded.
    pub model: Option<Examined>,
    pub data: system::Data,
    pub hub: system::HubCache,
    pub checks: Vec<Check>,
}

impl Report {
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.checks.iter().filter_map(|it| it.problem.as_deref())
    }
}

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let mut settings = settings.clone();
    arguments.model.apply(&mut settings);
    model::named(&settings.model.id, &settings)?;
    let report = examine(&settings);
    if arguments.json {
        json::print(&json::Doctor::of(&report))?;
    } else {
        print(&report)?;
    }
    match report.problems().count() {
        0 => Ok(()),
        count => Err(anyhow!("{count} of {} checks failed", report.checks.len()).into()),
    }
}

fn examine(settings: &Settings) -> Report {
    let mut checks = Vec::new();
    let model = load(settings, &mut checks).map(|(encoder, place, seconds)| {
        let examined = canary::examine(&*encoder, &mut checks);
        Examined { folder: place.folder, load_seconds: seconds, ..examined }
    });
    let data = system::Data::of(&settings.index.data_dir, &mut checks);
    Report { data, hub: system::HubCache::of(&settings.hub), machine: system::Machine::now(), model, checks }
}

type Loaded = (Box<dyn Encoder>, model::Place, f64);

fn load(settings: &Settings, checks: &mut Vec<Check>) -> Option<Loaded> {
    let load = |place: model::Place| {
        // A download is none of loading.
        let start = Instant::now();
        let encoder = model::load(&place, settings).map_err(|error| error.to_string())?;
        Ok((encoder, place, start.elapsed().as_secs_f64()))
    };
    let loaded = model::place(settings).map_err(|it| super::message(&it.error)).and_then(load);
    checks.push(Check { name: "the model loads", problem: loaded.as_ref().err().cloned() });
    loaded.ok()
}

fn print(report: &Report) -> std::io::Result<()> {
    let mut page = terminal::output();
    let Report { machine, model, data, hub, checks } = report;
    page.line(&[(HEADING, "Machine")])?;
    page.line(&[(
        PLAIN,
        &format!(
            "  sightline {} on {}, {}",
            machine.version,
            machine.platform,
            terminal::counted(machine.threads, "thread")
        ),
    )])?;
    page.line(&[(PLAIN, &format!("  device: cpu, kernels for {}", machine.kernels))])?;
    page.line(&[(PLAIN, &format!("  peak memory: {}", terminal::bytes(machine.peak_bytes)))])?;
    if let Some(model) = model {
        page.line(&[])?;
        page.line(&[(HEADING, "Model")])?;
        model.lines().iter().try_for_each(|it| page.line(&[(PLAIN, &format!("  {it}"))]))?;
    }
    page.line(&[])?;
    page.line(&[(HEADING, "Places")])?;
    page.line(&[(PLAIN, &format!("  data: {}", data.line()))])?;
    page.line(&[(PLAIN, &format!("  models of the hub: {}", hub.line()))])?;
    page.line(&[])?;
    page.line(&[(HEADING, "Checks")])?;
    for Check { name, problem } in checks {
        match problem {
            None => page.line(&[(PLAIN, "  ok     "), (PLAIN, name)])?,
            Some(problem) => page.line(&[(PLAIN, "  WRONG  "), (PLAIN, name), (DIM, ": "), (PLAIN, problem)])?,
        }
    }
    page.flush()
}
